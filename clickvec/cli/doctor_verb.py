"""The `doctor` verb: what is in a click log, what is wrong with it, and what training on it will cost."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import AsJson, ColumnNames, NoHeader, input_path
from clickvec.cli.streams import print_json, print_message, print_result
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
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Train on samples: is the log enough to beat BM25? Takes minutes.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show examples for all findings.")] = False,
    recipe: Annotated[str, typer.Option(help="The recipe to measure the cost of training with.")] = "default",
    settings: inputs.Settings = None,
    device: inputs.Device = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --html file.")] = False,
    column_names: ColumnNames = None,
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
    columns = inputs.read_columns(column_names, no_header, (*logs, catalogue, queries))
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
) -> "Examination":
    """Examine a click log; without `cost`, do not measure what training on it costs."""
    from clickvec.data import BadLines, read_events
    from clickvec.data.clicks import describe_files
    from clickvec.doctor.examination import examine
    from clickvec.training.process_settings import tuned_for_training

    bad = BadLines()

    def blocks() -> Iterator["Events"]:
        yield from read_events(logs, columns, catalogue=catalogue, queries=queries, bad=bad)
        columns.check_used()

    with tuned_for_training():
        return examine(
            blocks(), bad, describe_files(logs), recipe, cost=cost, forecast=forecast, device=device, progress=Bar()
        )
