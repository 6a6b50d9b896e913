"""`clickvec.train`: clicks in, a model folder and its encoder out."""

import dataclasses
import logging
from collections.abc import Iterable
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Literal, Unpack, cast

from clickvec import config
from clickvec.config import Recipe, RecipeSettings
from clickvec.data import ClickLog, Judged, data_folder, dataset, read_clicks, read_judged, titles_of
from clickvec.data.cleaning import Cleaning, clean
from clickvec.data.dataset import Dataset, Texts
from clickvec.data.parsing.given_table import is_table
from clickvec.data.parsing.source import Given, as_path
from clickvec.errors import ClickvecError, check_type
from clickvec.evaluation.test_set import TestSet
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.teacher.opening import Named, check_source, check_tuning, open_teacher
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.training.checkpoint import check_output_folder
from clickvec.training.device import pick_device
from clickvec.training.fine_tuning import Tuning
from clickvec.training.fusing import LogTexts
from clickvec.training.loop import run_training
from clickvec.training.measuring import folder_parts, hold_out_clicks, warn_of_held_out
from clickvec.training.tuned_teacher import open_tuned

log = logging.getLogger(__name__)

HELD_OUT = "held-out"
PARAMETERS = ("out", "dev", "catalogue", "teacher", "recipe", "device", "progress", "if_exists")
IF_EXISTS = ("error", "resume", "overwrite")


def train(
    clicks: ClickLog | Dataset | Given,
    /,
    out: str | Path,
    *,
    dev: Judged | TestSet | Given | None = HELD_OUT,
    catalogue: Iterable[str] | Given = (),
    teacher: Teacher | Named | None = None,
    recipe: str | Recipe = "default",
    device: str = "auto",
    progress: Progress | None = None,
    if_exists: Literal["error", "resume", "overwrite"] = "error",
    **settings: Unpack[RecipeSettings],
) -> Encoder:
    """Train a model on clicks, write it to the folder `out`, and return its encoder.

    `clicks` is what `read_clicks` returns or takes: the path of a click log or several, a DataFrame, a list of dicts or
    tuples; or a data folder made by `clickvec prepare`. `dev` is measured after each epoch, and the recipe `default`
    keeps the epoch with the best NDCG@10. By default, two parts of the clicks are held out of training: one is dev, the
    other gives the figures, which `encoder.model.training["held_out"]` and the model card hold. `dev` also decides how
    an index of the model will rank by words and vectors (the fusion). A small log holds nothing out, and a data folder
    only if it was made with `--hold-out`; then models of parts of the log are trained too, to fit the fusion on clicks
    that they do not know. An index of a model of fewer than 200 different queries ranks by words. `dev` may also be a
    judged set: its path, or a table. With None, all clicks are used. `catalogue` has more titles to search when the
    model is measured: texts, a table, or the path of a file.

    With a `teacher`, the model also learns which texts are alike according to a larger model: those of the log and of
    the catalogue. It is a sentence-transformers model (its name or folder), vectors with their texts (.npy with .txt
    beside it, or .parquet), a teacher folder, or a larger clickvec model; or a list, such as a transformer and a
    clickvec model, whose cosines are averaged. Vectors, except those of clickvec models, are kept in `OUT.teacher`, or
    beside the data folder, which `clickvec prepare --teacher` made. With `teacher_epochs=4`, a transformer is
    fine-tuned on the clicks before it teaches.

    `recipe` is `default`, `paper` or a `Recipe`; the keywords are its settings, such as `epochs=10`. `device` is `cpu`,
    `cuda`, `cuda:1` or `auto`. If `out` holds a model or an unfinished run, `if_exists` says what to do. Messages go to
    the logger `clickvec`.

    A log is cleaned first: secrets are masked and, if the log has clients, queries that fewer than 3 of them typed are
    dropped. `clickvec prepare` has options for this.

    Ctrl-C raises `Interrupted` and leaves a run that `if_exists="resume"` continues, with the same weights at the end.
    Bad data, an unknown setting or a loss that becomes NaN raise a `ClickvecError`.
    """
    resume, overwrite = read_if_exists(if_exists)
    check_type("out", out, (str, PathLike), "the path of the folder of the model")
    out = Path(out)
    config.check_settings(settings, PARAMETERS)
    # Errors come now, and not after reading a long log.
    chosen = config.recipe(recipe, has_teacher=check_teachers(teacher), **settings)
    check_output_folder(out, resume, overwrite)
    if teacher and not isinstance(teacher, Teacher):
        check_tuning(teacher, chosen.teacher_epochs)
    pick_device(device)
    measured: TestSet | None = None
    test: TestSet | None = None
    texts: Texts | None = None
    titles, beside, is_held_out = titles_of(catalogue), out, isinstance(dev, str) and dev == HELD_OUT
    if isinstance(clicks, str | Path) and (Path(clicks) / "data.json").exists():
        beside = Path(clicks)
        measured, test = (folder_parts(beside, titles) if is_held_out else None) or (None, None)
        if not is_held_out:
            warn_of_held_out(beside)
        clicks, texts = load_checked(beside)
    if not is_held_out:
        measured = _read_dev(dev)
    source = file_names(clicks)
    if isinstance(clicks, Dataset):
        data = clicks
        if isinstance(recipe, str) and "max_words" not in settings:
            chosen = dataclasses.replace(chosen, max_words=data.max_words)
    else:
        pairs = read_clean(clicks)
        prepare = partial(prepare_taught, recipe=chosen, titles=titles if teacher else ())
        if is_held_out:
            (data, texts), measured, test = hold_out_clicks(pairs, prepare, titles)
        else:
            data, texts = prepare(pairs)
    model = run_training(
        data, chosen, out, dev=measured, test=test,
        texts=None if texts is None else LogTexts(texts, titles), device=device, resume=resume,
        overwrite=overwrite, source=source, progress=progress,
        teacher=read_teacher(data, texts, teacher, chosen, beside, progress),
    )  # fmt: skip
    return Encoder(model, out.resolve())


def _read_dev(dev: Judged | TestSet | Given | None) -> TestSet | None:
    """Return the test set of a judged set, which is given as a file, a table, or as it is."""
    if dev is None or isinstance(dev, TestSet):
        return dev
    if not isinstance(dev, str | PathLike | Iterable):
        as_path(dev)  # says what can be given
    is_file = isinstance(dev, str | PathLike) or is_table(dev)
    return TestSet.of_judged(read_judged(dev) if is_file else cast("Judged", dev))


def read_if_exists(if_exists: str) -> tuple[bool, bool]:
    """Return whether to resume and whether to overwrite. Raise a ClickvecError for another value."""
    if if_exists not in IF_EXISTS:
        raise ClickvecError(f"if_exists is one of {', '.join(IF_EXISTS)}, not {if_exists!r}")
    return if_exists == "resume", if_exists == "overwrite"


def read_clean(clicks: ClickLog | Given) -> ClickLog:
    """Read clicks, unless they are in memory already, clean them, and log what was dropped."""
    given = clicks if isinstance(clicks, ClickLog) else read_clicks(clicks)
    if given.is_clean:
        return given
    cleaned, report = clean(given, Cleaning())
    for line in str(report).splitlines():
        log.info(line)
    return cleaned


def prepare_taught(clicks: ClickLog, recipe: Recipe, titles: Iterable[str]) -> tuple[Dataset, Texts]:
    """Return the arrays of clicks and of the titles that a teacher teaches, and their texts."""
    return dataset.prepare_with_texts(
        clicks, recipe.max_words, recipe.max_trigrams, catalogue=titles, whole_words=recipe.whole_words
    )  # fmt: skip


def check_teachers(teacher: Teacher | Named | None) -> bool:
    """Tell whether there is a teacher. Raise if there is nothing of that name."""
    if teacher is not None and not isinstance(teacher, Teacher):
        check_type("teacher", teacher, (str, PathLike, list, tuple), "the name or folder of a model, or a list of them")
        check_source(teacher)
    return teacher is not None


def read_teacher(
    data: Dataset, texts: Texts | None, teacher: Teacher | Named | None, recipe: Recipe, beside: Path,
    progress: Progress | None,
) -> Teacher | None:  # fmt: skip
    """Return the vectors of a teacher for all texts of a dataset, kept in `BESIDE.teacher`."""
    if teacher is None:
        return None
    if isinstance(teacher, Teacher):
        if recipe.teacher_epochs:
            raise ClickvecError("teacher_epochs is for a transformer that is named; these are its vectors already")
        counts = tuple(len(rows.offsets) - 1 for rows in (data.queries, data.titles))
        if (len(teacher.queries), len(teacher.titles)) != counts:
            raise ClickvecError(
                f"the teacher has {len(teacher.queries):,} queries and {len(teacher.titles):,} titles, and the data "
                f"{counts[0]:,} and {counts[1]:,}; it is that of other data"
            )
        return teacher
    if texts is None:
        raise ClickvecError("a Dataset has no texts for the teacher; give the path of a data folder or a click log")
    if recipe.teacher_epochs:
        return open_tuned(data, texts, teacher, beside, Tuning(recipe.teacher_epochs), progress)
    return open_teacher(data, texts, teacher, beside, progress)


def load_checked(path: Path) -> tuple[Dataset, Texts | None]:
    """Open a data folder, with its texts if it has them, and check every index in it: compiled code does not."""
    has_texts = data_folder.has_texts(path)
    data, texts = data_folder.load_with_texts(path) if has_texts else (data_folder.load(path), None)
    dataset.check(data)
    return data, texts


def file_names(clicks: ClickLog | Dataset | Given) -> str:
    """Return the names of the files, for the model card; "" if the clicks are in memory."""
    paths = clicks if isinstance(clicks, list | tuple) else (clicks,)
    return ", ".join(Path(path).name for path in paths if isinstance(path, str | Path))
