"""`clickvec.continue_training`: train a model further on new clicks. The old model stays if the new one is worse."""

import dataclasses
from collections.abc import Iterable
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np

from clickvec import config
from clickvec.config import Recipe, RecipeSettings
from clickvec.data import ClickLog, dataset, titles_of
from clickvec.data.dataset import Dataset, Texts
from clickvec.data.held_out import hold_out, hold_out_again
from clickvec.data.parsing.source import Given
from clickvec.errors import ClickvecError, check_type
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model, open_model
from clickvec.progress import Progress
from clickvec.teacher.opening import Named, check_tuning
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.text.ragged import Ragged
from clickvec.text.trigrams import Vocabulary, is_whole_word
from clickvec.training.checkpoint import check_output_folder
from clickvec.training.device import pick_device
from clickvec.training.gate import Start, first_recipe
from clickvec.training.loop import run_training
from clickvec.training.measuring import folder_parts
from clickvec.training.trainer import (
    PARAMETERS,
    check_teachers,
    file_names,
    load_checked,
    prepare_taught,
    read_clean,
    read_if_exists,
    read_teacher,
)

EPOCHS = 1  # over the new clicks, instead of those of the first training
RATE_SHARE = 0.1  # of the learning rate of the first training: more makes the model forget (docs/log.md)
MOST_DEV, MOST_TEST = 500, 1_000  # queries to measure, or measuring would take longer than training


def continue_training(
    clicks: ClickLog | Given,
    /,
    model: str | Path,
    out: str | Path,
    *,
    old_clicks: ClickLog | Given | None = None,
    catalogue: Iterable[str] | Given = (),
    teacher: Teacher | Named | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    if_exists: Literal["error", "resume", "overwrite"] = "error",
    **settings: Unpack[RecipeSettings],
) -> Encoder:
    """Train the model folder `model` further on new clicks, write the result to `out`, and return its encoder.

    Trigrams that the model does not have get new rows. The recipe is that of the model, with one epoch and a tenth of
    the learning rate; the keywords change its settings, except those of the tower. Some of the new clicks are held out.
    If the new model is significantly worse on them than the old one, `out` gets the old model and a warning is logged.
    `old_clicks` is the log that the model was trained on: what `train` held out of it takes part in the decision, so
    that the model does not forget. Another part of both chooses the epoch, if there are several.

    `clicks` may also be a data folder; its held-out clicks are used. The other parameters are those of `train`. A model
    that had a teacher needs none now, and one that had none may get one.
    """
    resume, overwrite = read_if_exists(if_exists)
    for name, folder in (("model", model), ("out", out)):
        check_type(name, folder, (str, PathLike), "the path of the folder of a model")
    start, out = open_model(Path(model)), Path(out)
    config.check_settings(settings, (*PARAMETERS, "old_clicks"))
    # Errors come now, and not after reading a long log.
    chosen = continued_recipe(start, has_teacher=check_teachers(teacher), **settings)
    if teacher and not isinstance(teacher, Teacher):
        check_tuning(teacher, chosen.teacher_epochs)
    check_output_folder(out, resume, overwrite)
    pick_device(device)
    dev: TestSet | None
    texts: Texts | None = None
    titles, beside = titles_of(catalogue), out
    if isinstance(clicks, str | Path) and (Path(clicks) / "data.json").exists():
        if old_clicks is not None:
            raise ClickvecError(f"{clicks} is a data folder, whose own held-out clicks decide; leave old_clicks out")
        beside = Path(clicks)
        data, texts = load_checked(beside)
        dev, tests = folder_tests(beside, titles)
    else:
        old = None if old_clicks is None else read_clean(old_clicks)
        train, dev, tests = split_new(read_clean(clicks), old, titles)
        data, texts = prepare_taught(train, chosen, titles if teacher else ())
    trained = run_training(
        add_trigrams(data, texts, start, chosen), chosen, out, dev=dev, device=device, resume=resume,
        overwrite=overwrite, source=describe_source(start, file_names(clicks)), progress=progress,
        start=Start(start, tests),
        teacher=read_teacher(data, texts, teacher, chosen, beside, progress),
    )  # fmt: skip
    return Encoder(trained, out.resolve())


def continued_recipe(model: Model, *, has_teacher: bool = False, **options: Any) -> Recipe:  # noqa: ANN401
    """Return the recipe for training a model further. `options` are those of `config.recipe`.

    Raise a ClickvecError if they would change the tower, or if the model was shrunk or does not tell its recipe.
    """
    if model.precision != "float32":
        raise ClickvecError(f"the model is shrunk to {model.precision}; continue from the original model")
    first = config.stored_recipe(first_recipe(model))
    first = dataclasses.replace(first, whole_words=first.whole_words or has_words(model))
    if has_teacher and not first.teacher_weight:
        taught = config.recipe(has_teacher=True)
        teaching = {name: getattr(taught, name) for name in ("teacher_weight", "teacher_gamma", "teacher_titles")}
        first = dataclasses.replace(first, **teaching)
    weight = first.teacher_weight if has_teacher else 0.0
    rate = RATE_SHARE * first.learning_rate
    first = dataclasses.replace(first, epochs=EPOCHS, learning_rate=rate, teacher_weight=weight, teacher_epochs=0)
    chosen = config.recipe(first, has_teacher=has_teacher, **options)
    tower = {"max_words": model.max_words, "shared_tower": model.shared_tower, **dataclasses.asdict(model.tower)}
    tower["tower"] = tower.pop("kind")
    for name, value in tower.items():
        if getattr(chosen, name) != value:
            raise ClickvecError(
                f"{name}={getattr(chosen, name)}, but the model was trained with {name}={value}; leave the setting out"
            )
    if has_words(model) and not chosen.whole_words:
        raise ClickvecError("whole_words=false, but the model has whole words; leave the setting out")
    return chosen


class NewParts(NamedTuple):
    """The new clicks to train on, what chooses the epoch, and what decides whether the new model is kept."""

    train: ClickLog
    dev: TestSet | None
    tests: dict[str, TestSet]


def split_new(new: ClickLog, old: ClickLog | None, titles: Iterable[str] = ()) -> NewParts:
    """Hold out two parts of the new clicks, and find those that `train` held out of the old ones.

    Near-duplicates of queries that were held out of the old clicks are left out of training too. Each search is over
    all titles of both logs, and more `titles`. A log that is too small holds nothing out.
    """
    catalogue = Catalogue(new.titles)
    catalogue.add(new.shown.titles if new.shown else ())
    catalogue.add(titles)
    dev: list[ClickLog] = []
    tests: dict[str, TestSet] = {}
    if old is not None:
        catalogue.add(old.titles)
        if held := hold_out(old):
            new = hold_out_again(new, held.dev.queries, held.test.queries).train
            dev.append(held.dev)
            tests["held-out clicks of old days"] = TestSet.of_clicks(held.test, catalogue).sample(MOST_TEST)
    if held := hold_out(new):
        new = held.train
        dev.append(held.dev)
        tests["held-out clicks of new days"] = TestSet.of_clicks(held.test, catalogue).sample(MOST_TEST)
    if not len(new):
        raise ClickvecError("every query of the new clicks was held out of the old ones, so there is nothing to learn")
    chosen = [TestSet.of_clicks(part, catalogue).sample(MOST_DEV).queries for part in dev]
    return NewParts(new, TestSet(tuple(chain.from_iterable(chosen)), catalogue) if dev else None, tests)


def folder_tests(path: Path, titles: Iterable[str] = ()) -> tuple[TestSet | None, dict[str, TestSet]]:
    """Return what a data folder holds out: what chooses the epoch, and what decides."""
    held = folder_parts(path, titles)
    return (None, {}) if held is None else (held[0], {"held-out clicks of the data folder": held[1]})


def add_trigrams(data: Dataset, texts: Texts | None, model: Model, recipe: Recipe) -> Dataset:
    """Return the data with the trigrams and whole words of the model first, then its own that the recipe allows.

    The data may contain words of the model that are too rare for a vocabulary of its own, so its tokens are looked up
    again. For a model with whole words, this needs `texts`.
    """
    numbers = {trigram: number for number, trigram in enumerate(model.trigrams)}
    for trigram in data.trigrams:
        if len(numbers) < recipe.max_trigrams and (recipe.whole_words or not is_whole_word(trigram)):
            numbers.setdefault(trigram, len(numbers))
    if has_words(model):
        if texts is None:
            raise ClickvecError("the data has no texts, which a model of whole words needs; use clickvec prepare")
        vocabulary = Vocabulary(tuple(numbers))
        tokens = vocabulary.rows(dataset.token_texts(data, texts))
        return data._replace(trigrams=vocabulary.trigrams, tokens=tokens, whole_words=True)
    renumbered = np.array([numbers.get(trigram, -1) for trigram in data.trigrams], np.int32)[data.tokens.values]
    known = renumbered >= 0
    offsets = np.concatenate(([0], np.cumsum(known)))[data.tokens.offsets]
    return data._replace(trigrams=tuple(numbers), tokens=Ragged(renumbered[known], offsets))


def has_words(model: Model) -> bool:
    """Tell whether a model knows whole words."""
    return any(map(is_whole_word, model.trigrams))


def describe_source(model: Model, new: str) -> str:
    """Return what the model card tells about the data: the files of the model, then the new ones."""
    before = model.training.get("data", {}).get("from") or "unnamed clicks"
    return f"{before}, then {new or 'unnamed clicks'}"
