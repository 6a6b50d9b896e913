"""The verb evaluate: models and BM25 on a judged set, or on clicks that were held out of training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, ColumnNames, MaxBad, NoHeader, input_option, input_path
from clickvec.cli.streams import print_json, print_message, print_result
from clickvec.errors import ClickvecError
from clickvec.render.labels import counted
from clickvec.storage.outputs import check_output, check_run_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clickvec.data import Columns, JudgedQuery
    from clickvec.evaluation.ranker import Ranker
    from clickvec.evaluation.result import Evaluation
    from clickvec.evaluation.run_file import RunFile
    from clickvec.evaluation.test_set import TestSet


def evaluate(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            help="Model folders, bm25 for the baseline, TREC run files of other engines. With --index: runs."
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            parser=inputs.index_location,
            help="A folder or an address: measure hybrid search, words, vectors and BM25 over its titles.",
        ),
    ] = None,
    judged: Annotated[Path | None, input_option("A judged set, or TREC qrels with --queries and --catalogue.")] = None,
    held_out: Annotated[
        list[Path] | None, input_option("A click log that the models were not trained on, instead. Repeatable.")
    ] = None,
    dev: Annotated[Path | None, input_option("A judged set to tune BM25 on.")] = None,
    queries: Annotated[Path | None, input_option("With qrels: query_id and query.")] = None,
    titles: Annotated[Path | None, typer.Option(parser=input_path, hidden=True)] = None,
    catalogue: Annotated[Path | None, input_option("Titles to search: adds Recall@100 and MRR@10.")] = None,
    run: Annotated[Path | None, typer.Option(help="Write the scores of the model as a TREC run file.")] = None,
    about: Annotated[Path | None, typer.Option(help="Write the figures to this folder, for the page of serve.")] = None,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Measure models on a judged set (NDCG@1, @3, @10) or on held-out clicks (MRR@10, Recall@100, NDCG@10).

    All figures are in per cent. Held-out clicks are measured over all titles of --held-out and --catalogue, with 95%
    confidence intervals; so is an index, over its own titles. p compares each system with the best one.

    A run file (query_id Q0 doc_id rank score tag) holds what another engine returned, by the ids of --judged. Run files
    alone are measured as trec_eval does; --judged may then be qrels without texts.
    """
    titles = titles or (catalogue if queries else None)
    models = [str(inputs.model_location(name)) for name in models or ()]
    _check_usage(models, index, judged, held_out, run, catalogue if titles is None else None)
    given = (judged, *(held_out or ()), dev, queries, titles, catalogue)
    if run:
        check_run_file(run, (*given, *map(Path, models)))
    if about:
        check_output(about)
        if about.exists() and not about.is_dir():
            raise ClickvecError(f"--about {about} is a file; name a folder")
    columns = inputs.read_columns(column_names, no_header, given, delimiter, encoding)
    if index:
        result = _of_index(index, models, judged, held_out or [], dev, queries, titles, max_bad, columns)
    elif judged:
        result = _on_judged_set(models, judged, dev, queries, titles, catalogue, run, max_bad, columns)
    else:
        result = _on_held_out_clicks(models, held_out or [], dev, catalogue, max_bad, columns)
    if as_json:
        print_json(result.as_json(intervals=bool(index or not judged)))
    else:
        print_evaluation(result, intervals=bool(index or not judged))
        print_result("\n".join(["", *result.notes]))
    if about:
        from clickvec.cli.up_measures import write_evaluation

        write_evaluation(about, result, inputs.file_names([judged] if judged else held_out or []))
    left_out = f", skipped {result.left_out:,} without a relevant title" if result.left_out else ""
    relevant = counted(result.relevant, "relevant title")
    absent = f", {result.absent:,} of {relevant} not in the catalogue" if result.absent else ""
    print_message(f"{counted(len(result.query_ids), 'query', 'queries')}{left_out}{absent}")


def print_evaluation(result: "Evaluation", intervals: bool) -> None:
    """Print the means as a table. The names of models are never cut."""
    from clickvec.render.terminal.screen import Screen, this_screen

    screen = Screen(1_000, this_screen().colour)
    head, *rows = result.as_table(intervals)
    print_result("\n".join(screen.table("<".ljust(len(head), ">"), head, rows)), coloured=screen.colour)


def _check_usage(
    models: list[str],
    index: str | None,
    judged: Path | None,
    held_out: list[Path] | None,
    run: Path | None,
    catalogue: Path | None,
) -> None:
    from clickvec.evaluation.run_file import is_run_file

    runs = [name for name in models if is_run_file(name)]
    if index and (len(models) > len(runs) or catalogue or run):
        raise typer.BadParameter("--index brings its model and titles; leave out models, --catalogue and --run")
    if runs and not judged:
        raise typer.BadParameter(f"{runs[0]} is a run file, which is measured by ids; give --judged, a judged set")
    if not index and not models:
        raise typer.BadParameter("give a model folder, bm25, a run file or --index")
    twice = next((name for name in models if models.count(name) > 1), None)
    if twice:
        raise typer.BadParameter(f"{twice} is given twice; give each model once")
    if run and len(models) != 1:
        raise typer.BadParameter("a run file is for one system; give one model with --run")
    if bool(judged) == bool(held_out):
        raise typer.BadParameter("give either --judged, a judged set, or --held-out, a click log")
    if run and held_out:
        raise typer.BadParameter("a run file holds the scores of judged titles; give --judged with --run")


def _on_judged_set(
    models: list[str],
    judged: Path,
    dev: Path | None,
    queries: Path | None,
    titles: Path | None,
    catalogue: Path | None,
    run: Path | None,
    max_bad: float,
    columns: "Columns",
) -> "Evaluation":
    from clickvec.evaluation.evaluate import evaluate as measure_systems
    from clickvec.evaluation.metrics import write_run
    from clickvec.evaluation.run_file import is_run_file

    by_ids = all(map(is_run_file, models)) and catalogue is None
    judged_set = inputs.read_judged_set(judged, max_bad, columns, queries, titles, by_ids)
    tuning = inputs.read_dev(dev, None, max_bad, columns) if dev else None
    searched = inputs.read_catalogue(catalogue, max_bad, columns) if catalogue else None
    columns.check_used()
    corpus = [*(title.title for title in searched or ()), *(text for query in judged_set for text in query.titles)]
    rankers = make_rankers(models, tuning, corpus, max_bad)
    known = {str(title.id) for title in searched} if searched else None
    for ranker in rankers:
        _tell_unknown(ranker, judged_set, known)
    result = measure_systems(rankers, judged_set, catalogue=searched, progress=Bar())
    if run:
        write_run(run, rankers[0].rank(judged_set), "_".join(rankers[0].name.split()))
    return result


def _on_held_out_clicks(
    models: list[str],
    logs: list[Path],
    dev: Path | None,
    catalogue: Path | None,
    max_bad: float,
    columns: "Columns",
) -> "Evaluation":
    from clickvec.evaluation.measure import measure

    test = inputs.read_held_out(logs, catalogue, max_bad, columns)
    tuning = inputs.read_dev(dev, None, max_bad, columns) if dev else None
    columns.check_used()
    return measure(make_rankers(models, tuning, test.titles), test, progress=Bar())


def _tell_unknown(system: "Ranker", judged: "Iterable[JudgedQuery]", known: set[str] | None) -> None:
    """Say which queries and documents of a run file, or of the judged set, have no counterpart."""
    from clickvec.evaluation.run_file import RunFile

    if isinstance(system, RunFile):
        queries = list(judged)
        doc_ids = known or {doc_id for query in queries for doc_id in query.doc_ids}
        of = "catalogue" if known else "judged set"
        for line in system.unknown({query.query_id for query in queries}, doc_ids, of):
            print_message(line)


def _of_index(
    path: str,
    runs: list[str],
    judged: Path | None,
    logs: list[Path],
    dev: Path | None,
    queries: Path | None,
    titles: Path | None,
    max_bad: float,
    columns: "Columns",
) -> "Evaluation":
    from clickvec.evaluation.bm25 import BM25, describe_settings
    from clickvec.evaluation.index_measures import MOST_TITLES, index_rankers, index_test_set
    from clickvec.evaluation.measure import measure
    from clickvec.evaluation.neural import stored_settings
    from clickvec.evaluation.test_set import Catalogue, TestSet
    from clickvec.evaluation.tuning import tune_bm25
    from clickvec.search.engines.address import without_password
    from clickvec.search.index import Index

    with Index.open(path) as index:
        source = inputs.read_judged_set(judged, max_bad, columns, queries, titles) if judged else None
        tuning = inputs.read_judged_set(dev, max_bad, columns).rows if dev else None
        others = [_read_run(name, max_bad) for name in runs]
        for other in others:
            _tell_unknown(other, source or (), {str(document.id) for document in index})
        test = index_test_set(index, source or inputs.read_log(logs, max_bad, columns))
        if not source:
            inputs.say_not_known()
        columns.check_used()
        rankers = index_rankers(index)
        if len(index) <= MOST_TITLES:
            titles_of_index = [document.title for document in index]
            stored = settings = stored_settings([index.encoder])
            if tuning:
                settings = tune_bm25(TestSet.of_judged(tuning, Catalogue(titles_of_index)), progress=Bar())[1]
            by = (
                "tuned on dev" if tuning else "tuned when the model was trained" if stored else "not tuned (--dev does)"
            )
            name = "BM25 (tuned)" if settings else "BM25"
            rankers.append(BM25(titles_of_index, name=name, **(settings or {})))
            print_message(f"{name}: {describe_settings(settings or {})}; {by}")
        result = measure([*rankers, *others], test, progress=Bar())
        print_message(f"{without_password(path)}: {counted(len(index), 'title')}, fusion {index.fusion.method}")
    return result


def _read_run(name: str, max_bad: float) -> "RunFile":
    """Read a run file and report its bad lines."""
    from clickvec.evaluation.run_file import RunFile

    run = RunFile.read(name, max_bad)
    inputs.report_bad_lines(run.bad)
    return run


def make_rankers(
    models: list[str],
    tuning: "TestSet | None",
    titles: "Sequence[str]",
    max_bad: float = 0.01,
) -> "list[Ranker]":
    """Return the systems of the command line. Tune BM25 on a judged set, or use the settings that a model carries."""
    from clickvec.evaluation.bm25 import BM25, describe_settings
    from clickvec.evaluation.evaluate import encoders_of, is_bm25, make_ranker
    from clickvec.evaluation.neural import stored_settings
    from clickvec.evaluation.run_file import is_run_file
    from clickvec.evaluation.tuning import tune_bm25

    rankers: dict[str, Ranker] = {
        name: _read_run(name, max_bad) if is_run_file(name) else make_ranker(name)
        for name in models if not is_bm25(name)
    }  # fmt: skip
    if len(rankers) < len(models):
        settings = tune_bm25(tuning, titles, Bar())[1] if tuning else stored_settings(encoders_of(rankers.values()))
        by = "" if settings is None else ", tuned on dev" if tuning else ", tuned when the model was trained"
        print_message(f"BM25: {describe_settings(settings or {})}{by or '; not tuned (--dev tunes it)'}")
        rankers |= {name: BM25(titles, **(settings or {})) for name in models if is_bm25(name)}
    return [rankers[name] for name in models]
