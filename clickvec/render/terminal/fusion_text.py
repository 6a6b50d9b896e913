"""How the fusion of an index was chosen, as `clickvec index` and `clickvec info` print it."""

from collections.abc import Iterator
from typing import Any

from clickvec.evaluation.fitting import CHOSEN_BY, GRIDS, figures_rows, reliability_rows, verdict
from clickvec.evaluation.metrics import MEASURES
from clickvec.render.labels import counted
from clickvec.render.terminal.screen import Screen

_WIDE = 1_000  # tables are not cut


def report_lines(report: dict[str, Any]) -> Iterator[str]:
    """Yield the figures of each fusion, which one was chosen and why and, if it was clicks, its reliability curve."""
    is_fitted = "reliability" in report
    if report["figures"]:
        how = "cross-validated" if is_fitted else "compared"
        yield f"Fusions, {how} on {counted(report['queries'], 'query', 'queries')}:"
        yield from _table(figures_rows(report))
    measure, chosen = MEASURES[CHOSEN_BY], report["chosen"]
    if told := verdict(report):
        yield told
    if not is_fitted or chosen == "words":
        return
    if chosen in GRIDS:
        yield (
            f"Chosen: {chosen}, because its {measure} is better than that of clicks by more than two standard errors. "
            "The score is not a probability."
        )
        return
    yield (
        f"Chosen: {chosen}. The score is the probability of a click, with a calibration error of "
        f"{report['calibration_error']:.4f}:"
    )
    yield from _table(reliability_rows(report))


def _table(rows: list[list[str]]) -> list[str]:
    head, *body = rows
    return Screen(_WIDE).table("<".ljust(len(head), ">"), head, body)
