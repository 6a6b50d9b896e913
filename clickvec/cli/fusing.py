"""Fit the fusion of an index from the command line, and print how it was chosen."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickvec.cli import inputs
from clickvec.cli.bar import Bar
from clickvec.cli.inputs import input_option
from clickvec.cli.streams import print_message
from clickvec.render.labels import counted

if TYPE_CHECKING:
    from clickvec.data import ClickLog, Columns, Judged
    from clickvec.search.index import Index

FusionClicks = Annotated[
    list[Path] | None,
    input_option("Fit the fusion on these clicks, which the model was not trained on. Repeatable."),
]
FusionDev = Annotated[Path | None, input_option("Fit the fusion on this judged set.")]


def read_source(
    held_out: list[Path] | None, dev: Path | None, max_bad: float, columns: "Columns"
) -> "ClickLog | Judged | None":
    """Read what a fusion is fitted on, before titles are encoded; None if neither is given."""
    if held_out and dev:
        raise typer.BadParameter("give either --held-out, a click log, or --dev, a judged set")
    if dev:
        return inputs.read_judged_set(dev, max_bad, columns)
    return inputs.read_log(held_out, max_bad, columns) if held_out else None


def fit_index(index: "Index", source: "ClickLog | Judged | None") -> None:
    """Fit the fusion of an index and store it; without a source, say which fusion it has."""
    from clickvec.evaluation.fitting import use_best_fusion
    from clickvec.render.terminal.screen import Screen, this_screen

    if source is None:
        print_message(describe_fusion(index))
        return
    report = use_best_fusion(index, source, Bar()).report
    screen = Screen(1_000, this_screen().colour)
    for head, *rows in _tables(report):
        print_message("\n".join(screen.table("<".ljust(len(head), ">"), head, rows)))
    print_message(
        f"Cross-validated on {counted(report['queries'], 'query', 'queries')}, in per cent. Chosen: {report['chosen']}. "
        f"Expected calibration error of clicks: {report['calibration_error']:.4f}."
    )


def describe_fusion(index: "Index") -> str:
    """Say how an index fuses words and vectors, and what has chosen it."""
    report = index.fusion_report
    if report is None:
        return "Hybrid search uses the default fusion; --held-out or --dev fits it to your users."
    queries = counted(report["queries"], "query", "queries")
    return f"Hybrid search uses the fusion {index.fusion.method!r}, fitted on {queries} when the model was trained."


def _tables(report: dict[str, object]) -> list[list[list[str]]]:
    from clickvec.evaluation.fitting import figures_rows, reliability_rows

    return [figures_rows(report), reliability_rows(report)]
