"""The `doctor` verb: what is in a click log, what is wrong with it, and what training on it will cost."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, ColumnNames, NoHeader, input_path
from clickvec.cli.streams import print_json, print_message, print_result, print_summary
from clickvec.errors import ClickvecError
from clickvec.render.labels import counted
from clickvec.storage.outputs import check_new_file

if TYPE_CHECKING:
    from clickvec.config import Recipe
    from clickvec.data import Columns, Events
    from clickvec.doctor.examination import Examination


def doctor(
    logs: Annotated[list[Path], typer.Argument(parser=input_path, help="Click logs, as for prepare; - is stdin.")],
    catalogue: inputs.LogCatalogue = None,
    queries: inputs.LogQueries = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with plots.")] = None,
    repair: Annotated[
        Path | None,
        typer.Option(help="Write the good lines as JSON lines, with damaged texts repaired, and do no more."),
    ] = None,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Train on samples: is the log enough to beat BM25? Takes minutes.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show examples for all findings.")] = False,
    recipe: Annotated[str, typer.Option(help="The recipe to measure the cost of training with.")] = "default",
    settings: inputs.Settings = None,
    device: inputs.Device = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file of --html or --repair.")
    ] = False,
    column_names: ColumnNames = None,
    delimiter: inputs.Delimiter = None,
    encoding: inputs.Encoding = None,
    no_header: NoHeader = False,
    as_json: AsJson = False,
) -> None:
    """Examine a click log: what is in it, what is wrong with it, what training will cost. Changes nothing."""
    from clickvec import config
    from clickvec.render.terminal.doctor_text import show_examination
    from clickvec.render.terminal.screen import this_screen

    if html:
        check_new_file(html, overwrite, [*logs, catalogue, queries])
    chosen = config.recipe(recipe, settings=settings or [])
    columns = inputs.read_columns(column_names, no_header, (*logs, catalogue, queries), delimiter, encoding)
    if repair:
        check_new_file(repair, overwrite, [*logs, catalogue, queries])
        _repair(repair, logs, columns, catalogue, queries)
        return
    found = examine_log(logs, columns, chosen, catalogue=catalogue, queries=queries, forecast=forecast, device=device)
    if html:
        from clickvec.render.html.doctor_page import write_page

        write_page(found, html)
        print_message(f"{html}: the page with plots")
    if as_json:
        print_json(found.as_json())
    else:
        screen = this_screen()
        print_result(show_examination(found, screen, everything=everything), coloured=screen.colour)


def examine_log(
    logs: list[Path],
    columns: "Columns",
    recipe: "Recipe",
    *,
    catalogue: Path | None = None,
    queries: Path | None = None,
    cost: bool = True,
    forecast: bool = False,
    device: str = "auto",
    k_anonymous: int | None = None,
) -> "Examination":
    """Examine a click log; without `cost`, do not measure what training on it costs."""
    from clickvec.data import BadLines, read_events
    from clickvec.data.clicks import describe_files
    from clickvec.doctor.cures import Cures
    from clickvec.doctor.examination import examine
    from clickvec.training.process_settings import tuned_for_training

    bad = BadLines()

    def blocks() -> Iterator["Events"]:
        yield from read_events(logs, columns, catalogue=catalogue, queries=queries, bad=bad)
        columns.check_used()

    delimiter = "tab" if columns.delimiter == "\t" else columns.delimiter
    options = {"catalogue": catalogue, "queries": queries, "delimiter": delimiter, "encoding": columns.encoding}
    given = [*map(str, logs), *["--no-header"] * (not columns.header)]
    read_with = {f"--{name}": str(value) for name, value in options.items() if value is not None}
    cures = Cures(given, columns.names, _text_columns(logs, columns), read_with)
    with tuned_for_training():
        return examine(
            blocks(), bad, describe_files(logs), recipe, cost=cost, forecast=forecast, device=device, progress=Bar(),
            cures=cures, k_anonymous=k_anonymous,
        )  # fmt: skip


def _text_columns(logs: list[Path], columns: "Columns") -> tuple[str, str] | None:
    """Return the names of the columns of query and title in the first file, or None."""
    from clickvec.data import BadLines, Columns
    from clickvec.data.layouts.tables import schema_of
    from clickvec.data.parsing.head import look_at
    from clickvec.data.parsing.header import find_header
    from clickvec.data.parsing.open_files import is_regular
    from clickvec.data.parsing.paths import log_files
    from clickvec.data.parsing.source import open_source

    path = log_files(logs)[0]
    if not is_regular(path) or not columns.header:
        return None
    try:
        source = open_source(path, BadLines(), Columns({}, columns.header, columns.delimiter, columns.encoding))
        head = look_at(source)
        header = find_header(source.name, [(1, head.fields)], schema_of(head, columns), Columns(columns.names))
        query, title = (head.fields[header.at[name]] for name in ("query", "title"))
    except (ClickvecError, KeyError):
        return None
    return query, title


def _repair(path: Path, logs: list[Path], columns: "Columns", catalogue: Path | None, queries: Path | None) -> None:
    """Write the good lines of a log as JSON lines, with repaired texts."""
    from clickvec.data import BadLines, read_events
    from clickvec.data.clicks import describe_files
    from clickvec.data.repair import repair
    from clickvec.storage.files import replacing_file

    bad, lines, repaired = BadLines(), 0, 0
    with replacing_file(path) as file:
        for events in read_events(logs, columns, catalogue=catalogue, queries=queries, bad=bad, max_bad=1.0):
            for row in events.rows():
                texts = {name: repair(row[name]) for name in ("query", "title")}
                repaired += any(row[name] != text for name, text in texts.items())
                file.write(json.dumps(row | texts, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
                lines += 1
        bad.check(describe_files(logs), 1.0, lines, "pair of query and title")
        columns.check_used()
    inputs.report_bad_lines(bad)
    print_summary(f"{path}: {counted(lines, 'line')}, {repaired:,} of them repaired")
