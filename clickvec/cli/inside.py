"""The verbs about a whole model: topics, nearest, report."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, ColumnNames, MaxBad, ModelOrIndex, NoHeader, Out, Overwrite, input_option
from clickvec.cli.streams import print_json, print_message, print_result, print_summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clickvec.data import Columns, JudgedQuery
    from clickvec.model.encoder import Encoder


def topics(
    model: ModelOrIndex,
    texts: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            parser=inputs.input_path,
            help="Queries: a click log, a judged set or any file with a query column; - reads stdin.",
        ),
    ],
    titles: Annotated[bool, typer.Option("--titles", help="Read the titles of FILE with the title tower.")] = False,
    cells: Annotated[str, typer.Option(help="Cells to show, with commas: 12,40. Default: the most specific.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Show every cell.")] = False,
    words: Annotated[int, typer.Option(min=1, help="Words to show for each cell.")] = 8,
    most: Annotated[
        int, typer.Option(min=1, help="If there are more texts than this, use a random sample of this size.")
    ] = 50_000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Show the words that each cell responds to, cells with the same words, and dead cells."""
    from clickvec.data import read_texts
    from clickvec.explanation import topics as cell_topics
    from clickvec.explanation.reading import directions_of
    from clickvec.explanation.topics import detect, random_sample
    from clickvec.model.encoder import Encoder
    from clickvec.render.labels import counted
    from clickvec.render.terminal.model_text import MOST, show_topics
    from clickvec.render.terminal.screen import this_screen

    encoder, side = Encoder.load(inputs.model_folder(model)), "title" if titles else "query"
    directions_of(encoder)  # raises an error for a model that does not read word by word, before any file is read
    shown = _dimensions(cells, encoder)
    columns = inputs.read_columns(column_names, no_header, [texts], delimiter, encoding)
    read = read_texts(texts, side, max_bad, columns)
    columns.check_used()
    inputs.report_bad_lines(read.bad)
    sample = random_sample(read.rows, most, seed)
    if len(sample) < len(read.rows):
        print_message(f"Using a random sample of {len(sample):,} of {len(read.rows):,} texts; --most takes more")
    found = detect(encoder, sample, side=side, progress=Bar())
    mapped = cell_topics.topics(found, words)
    if as_json:
        facts = asdict(mapped)
        print_json(facts | {"topics": [topic for topic in facts["topics"] if topic["dimension"] in shown]})
        return
    screen = this_screen(piped=1_000, most=1_000)  # no table is cut in a pipe
    most_shown = None if cells or everything else MOST
    print_result(show_topics(mapped, shown, screen, most=most_shown), coloured=screen.colour)
    print_message(f"{counted(mapped.texts, 'text')}, {counted(mapped.detections, 'detection')}")


def _dimensions(cells: str, encoder: "Encoder") -> list[int]:
    """Return the dimensions of the cells that are named, in both directions, or of all cells if none is named."""
    from clickvec.explanation.reading import cell_names

    names = cell_names(encoder)
    wanted = [part.strip() for part in cells.split(",") if part.strip()]
    known = {str(cell) for cell, _ in names}
    wrong = next((part for part in wanted if part not in known), None)
    if wrong is not None:
        raise typer.BadParameter(f"there is no cell {wrong!r}; choose from 0 to {len(known) - 1}, with commas")
    return [at for at, (cell, _) in enumerate(names) if not wanted or str(cell) in wanted]


def nearest(
    folder: ModelOrIndex,
    words: Annotated[list[str], typer.Argument(help="Words, or phrases in quotes.")],
    titles: Annotated[
        Path | None, input_option("Titles to search. Default: those of the index.", "--catalogue", "--titles")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many words and how many titles to show.")] = 10,
    least: Annotated[int, typer.Option(min=1, help="Ignore words that occur fewer than this many times.")] = 1,
    unlike: Annotated[bool, typer.Option("--unlike", help="Ignore words that share a letter trigram with it.")] = False,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
    as_json: AsJson = False,
) -> None:
    """Show the words and titles nearest to a word, even one that the model has never seen."""
    from clickvec.explanation.neighbours import Neighbours
    from clickvec.model.encoder import Encoder
    from clickvec.render.terminal.model_text import show_nearest
    from clickvec.render.terminal.screen import this_screen
    from clickvec.search.index import Index

    index = Index.open(folder) if inputs.is_index(folder) else None
    encoder = Encoder.load(folder) if index is None else index.encoder
    if index is None and titles is None:
        raise typer.BadParameter(f"{folder} is a model and has no titles; give --catalogue, or an index folder")
    columns = inputs.read_columns(column_names, no_header, [titles], delimiter, encoding)
    entries = index if titles is None else inputs.read_catalogue(titles, max_bad, columns, "unused")
    columns.check_used()
    texts = (entry.title for entry in entries or ())
    learned = Neighbours(encoder, texts, progress=Bar())
    found = [learned.nearest(word, k, least=least, unlike=unlike) for word in words]
    if as_json:
        for near in found:
            print_json(asdict(near))
    else:
        screen = this_screen(most=1_000)
        print_result("\n\n".join(show_nearest(near, screen) for near in found), coloured=screen.colour)


def report(
    model: inputs.ModelPath,
    out: Out,
    judged: Annotated[Path | None, input_option("A judged set.")] = None,
    held_out: Annotated[
        list[Path] | None, input_option("A click log that the model was not trained on, instead. Repeatable.")
    ] = None,
    titles: Annotated[
        Path | None,
        input_option("Titles for near words and the map. Default: the judged titles.", "--catalogue", "--titles"),
    ] = None,
    clicks: Annotated[
        list[Path] | None, input_option("A click log for words and topics. Default: the judged queries. Repeatable.")
    ] = None,
    worst: Annotated[int, typer.Option(min=0, help="How many of the worst queries to explain.")] = 10,
    overwrite: Overwrite = False,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    max_bad: MaxBad = 0.01,
) -> None:
    """Write an HTML report about a model: ranking, worst queries, keywords, topics, map of titles, training."""
    from clickvec.explanation.report import gather
    from clickvec.model.encoder import Encoder
    from clickvec.render.html.report_page import PAGE, check_place, write_report
    from clickvec.render.labels import counted
    from clickvec.storage.outputs import check_output

    if bool(judged) == bool(held_out):
        raise typer.BadParameter("give either --judged, a judged set, or --held-out, a click log")
    measured = [judged] if judged else held_out or []
    check_output(out, [model, *measured, titles, *(clicks or ())])
    check_place(out, overwrite)
    columns = inputs.read_columns(column_names, no_header, (*measured, titles, *(clicks or ())), delimiter, encoding)
    encoder = Encoder.load(model)
    sets: Sequence[JudgedQuery]
    catalogue: list[str] | None
    if judged:
        sets = inputs.read_judged_set(judged, max_bad, columns).rows
        catalogue = (
            [title.title for title in inputs.read_catalogue(titles, max_bad, columns, "unused")] if titles else None
        )
    else:
        sets, catalogue = _lists_of_clicks(encoder, measured, titles, max_bad, columns)
    log = inputs.read_clean_log(clicks, max_bad, columns).queries if clicks else None
    columns.check_used()
    found = gather(
        encoder, sets, name=model.resolve().name, judged_name=inputs.file_names(measured), path=str(model),
        titles=catalogue, log=log, worst=worst, progress=Bar(),
    )  # fmt: skip
    write_report(found, out, overwrite)
    evaluation = found.ranking.evaluation
    means = ", ".join(f"{name} {mean:.1f}" for name, mean in zip(evaluation.measures, evaluation.means[0], strict=True))
    print_summary(f"{out / PAGE}: {means} on {counted(len(evaluation.query_ids), 'query', 'queries')}")


def _lists_of_clicks(
    encoder: "Encoder",
    logs: list[Path],
    titles: Path | None,
    max_bad: float,
    columns: "Columns",
) -> "tuple[Sequence[JudgedQuery], list[str]]":
    """Return the titles that the model and BM25 find for held-out queries, with the clicked ones, and all titles."""
    from clickvec.evaluation.bm25 import BM25
    from clickvec.evaluation.measure import pooled_lists
    from clickvec.evaluation.neural import Neural, stored_settings
    from clickvec.evaluation.test_set import MOST_DEV

    test = inputs.read_held_out(logs, titles, max_bad, columns, is_shown=True)
    if len(test.queries) > MOST_DEV:
        print_message(f"Using a random sample of {MOST_DEV:,} of {len(test.queries):,} queries")
        test = test.sample(MOST_DEV)
    bm25 = BM25(test.titles, **(stored_settings([encoder]) or {}))
    return pooled_lists(test, [Neural(encoder, "model"), bm25], Bar()), test.titles
