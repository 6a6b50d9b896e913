"""The verb train: from a click log to a measured model."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickvec.cli import inputs, training_data
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, ColumnNames, MaxBad, NoHeader, Out, Overwrite, Shown, input_option, input_path
from clickvec.cli.streams import print_message, print_result
from clickvec.cli.training_data import LogFiles
from clickvec.config import TOWERS
from clickvec.errors import ClickvecError, missing_extra
from clickvec.render.labels import counted
from clickvec.storage.outputs import check_output

if TYPE_CHECKING:
    from clickvec.evaluation.test_set import TestSet


def train(
    logs: Annotated[
        list[Path],
        typer.Argument(parser=input_path, help="Click logs, or one data folder made by prepare; - is stdin."),
    ],
    out: Out,
    dev: Annotated[
        Path | None, input_option("A judged set to choose the epoch. Default: clicks that are held out of training.")
    ] = None,
    catalogue: Annotated[
        Path | None,
        input_option(
            "All titles: searched when the model is measured, also on --dev; taught by --teacher; for a log of ids."
        ),
    ] = None,
    queries: inputs.LogQueries = None,
    teacher: inputs.Teachers = None,
    from_model: Annotated[
        Path | None,
        typer.Option(
            "--from",
            parser=inputs.model_location,
            help="Train this model further, on new clicks. It is kept if the new one is worse.",
        ),
    ] = None,
    old_clicks: Annotated[
        Path | None,
        input_option("With --from: the log that the model was trained on, so that it is measured on old days too."),
    ] = None,
    no_hold_out: Annotated[
        bool,
        typer.Option("--no-hold-out", help="Train on all clicks: only a small log is measured, by cross-validation."),
    ] = False,
    shown: Shown = None,
    recipe: inputs.RecipeName = "default",
    tower: Annotated[str | None, typer.Option(help=", ".join(TOWERS))] = None,
    recipe_file: Annotated[Path | None, typer.Option(help="A TOML file of settings that override the recipe.")] = None,
    settings: inputs.Settings = None,
    device: inputs.Device = "auto",
    resume: inputs.Resume = False,
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Train a model from a click log and write it to --out.

    Two small parts of the queries are held out of training. One chooses the epoch; the other gives the figures, beside
    tuned BM25, over all titles of the log and of --catalogue. With --from, they decide whether the new model is kept.
    --dev chooses the epoch by judged lists or, with --catalogue, by searches of all its titles.

    With --teacher, the model also learns which texts are alike according to a larger model: those of the log and the
    titles of --catalogue. The teacher's vectors are computed once and kept in OUT.teacher, or beside a data folder;
    those of a clickvec model are computed each time. Of several teachers, the cosines are averaged. With --set
    teacher_epochs=4, a transformer is fine-tuned on the clicks first, which takes long without a GPU.
    """
    from clickvec import config
    from clickvec.teacher.opening import check_source, check_tuning
    from clickvec.training.process_settings import tuned_for_training

    if teacher:
        check_source(teacher)
    named = (dev, shown, catalogue, queries, recipe_file, from_model, old_clicks)
    check_output(out, [*logs, *named, *map(Path, teacher or ())])
    by_tower = [f"tower={tower}"] if tower else []
    options: dict[str, Any] = {"file": recipe_file, "settings": [*(settings or []), *by_tower]}
    if teacher:
        options["has_teacher"] = True
    if from_model is None:
        chosen = config.recipe(recipe, **options)
        check_tuning(teacher or (), chosen.teacher_epochs)
    if from_model is None and old_clicks is not None:
        raise typer.BadParameter("--old-clicks is for training a model further; give the model with --from")
    if old_clicks is not None and (dev or no_hold_out or any(map(inputs.is_data_folder, logs))):
        raise typer.BadParameter("--old-clicks is for a log of which clicks are held out; see --dev and --no-hold-out")
    if from_model is not None and recipe != "default":
        raise typer.BadParameter("--from takes the recipe of the model; leave --recipe out")
    if find_spec("torch") is None:
        raise missing_extra("torch", "train")
    with tuned_for_training():
        from clickvec.model.folder import open_model
        from clickvec.training import continuing  # torch is imported here, after its settings are made
        from clickvec.training.card import headline
        from clickvec.training.checkpoint import check_output_folder, is_unfinished
        from clickvec.training.device import pick_device
        from clickvec.training.fusing import LogTexts
        from clickvec.training.gate import Start
        from clickvec.training.loop import run_training
        from clickvec.training.measuring import folder_parts, warn_of_held_out
        from clickvec.training.workers import current

        workers = current()
        if workers.count > 1 and not inputs.is_data_folder(logs[0]):
            raise ClickvecError(f"{logs[0]} is not a data folder; for several workers, make one with clickvec prepare")
        if workers.is_first:
            # If a worker dies, the same command resumes, also when torchrun restarts it.
            resume = resume or (workers.count > 1 and not overwrite and is_unfinished(out))
            check_output_folder(out, resume, overwrite)  # before an hour of reading
        resume = workers.tell(resume)
        pick_device(device, workers)
        old = None if from_model is None else open_model(from_model)
        if old is not None:
            chosen = continuing.continued_recipe(old, **options)
            check_tuning(teacher or (), chosen.teacher_epochs)
        if workers.count > 1 and chosen.teacher_epochs:
            raise ClickvecError(
                "teacher_epochs is not for several workers; train once without torchrun, then give the teacher folder "
                "of that training"
            )
        columns = inputs.read_columns(
            column_names, no_header, (*logs, dev, shown, catalogue, queries, old_clicks), delimiter, encoding
        )
        files = LogFiles(logs, shown, catalogue, queries, max_bad, columns, tuple(teacher or ()))
        measured: TestSet | None = None
        test = None
        tests: dict[str, TestSet] = {}
        if dev or no_hold_out or any(map(inputs.is_data_folder, logs)):
            data, texts = training_data.open_dataset(files, chosen)
            measured = inputs.read_dev(dev, catalogue, max_bad, columns) if dev else None
            tests = {"the judged set": measured} if measured else {}
            if (dev or no_hold_out) and inputs.is_data_folder(logs[0]):
                warn_of_held_out(logs[0])
            if not dev and not no_hold_out:
                measured, test = folder_parts(logs[0], files.titles) or (None, None)
                tests = {"held-out clicks of the data folder": test} if test else {}
        elif old is not None:
            (data, texts), measured, tests = training_data.split_and_prepare(files, old_clicks, chosen)
        else:
            (data, texts), measured, test = training_data.hold_out_and_prepare(files, chosen)
        columns.check_used()
        with workers.after_first():  # it computes the vectors if they are not there yet
            vectors = training_data.open_teacher(files, data, texts, chosen, out)
        source, start = inputs.file_names(logs), None
        if old is not None:
            data, start = continuing.add_trigrams(data, texts, old, chosen), Start(old, tests)
            source = continuing.describe_source(old, source)
        fit_on = None if old or texts is None else LogTexts(texts, files.titles)
        model = run_training(
            data, chosen, out, dev=measured, test=None if old else test, texts=fit_on, device=device, resume=resume,
            overwrite=overwrite, source=source, progress=Bar(), start=start, teacher=vectors, workers=workers,
        )  # fmt: skip
    facts = {"model": str(out), "fingerprint": model.fingerprint, **model.training["kept"]}
    facts |= {name: model.training[name] for name in ("held_out", "continued") if name in model.training}
    text = "the old model" if old and model.fingerprint == old.fingerprint else headline(model)
    inputs.print_outcome(f"{out}: {text}", facts, as_json)
    if not as_json and "held_out" in model.training:
        _print_figures(model.training["held_out"])


def _print_figures(figures: dict[str, Any]) -> None:
    """Print the figures on held-out clicks as a table, and what they are."""
    from clickvec.evaluation.bm25 import describe_settings
    from clickvec.render.terminal.screen import Screen, this_screen
    from clickvec.training.measuring import figures_table

    screen = Screen(1_000, this_screen().colour)
    head, *rows = figures_table(figures)
    print_result("\n".join(screen.table("<".ljust(len(head), ">"), head, rows)), coloured=screen.colour)
    queries, bm25 = counted(figures["queries"], "held-out query", "held-out queries"), ""
    if "bm25" in figures:
        bm25 = f"; BM25 is tuned on other held-out queries ({describe_settings(figures['bm25'])})"
    if "folds" in figures:
        queries = f"{counted(figures['queries'], 'query', 'queries')}, each by a model that was not trained on it,"
    print_message(
        f"{queries} over {counted(figures['titles'], 'title')}, in per cent, with 95% confidence intervals; p is of "
        f"NDCG@10 against the best{bm25}"
    )
