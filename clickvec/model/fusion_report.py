"""The record of how a fusion was chosen. A model and an index store it, and either may be a stranger's."""

from dataclasses import dataclass, field

from clickvec.storage.json_files import to_dataclass

MEASURES = ("MRR@10", "Recall@100", "NDCG@10")  # of each method that was compared
_BIN = {"from", "candidates", "predicted", "clicked"}
_LARGEST = 1e15


@dataclass(frozen=True)
class _Report:
    queries: int
    chosen: str
    figures: dict[str, dict[str, float]]  # of each method; empty if nothing was measured
    reason: str = ""  # why it was chosen without a measurement
    folds: int = 0  # models of parts of the log on whose queries it was fitted
    calibration_error: float = 0.0
    reliability: list[dict[str, float]] = field(default_factory=list)


def is_report(value: object) -> bool:
    """Return whether a record has all that is printed of it, in the right types."""
    try:
        report = to_dataclass(_Report, value)
    except ValueError:
        return False
    numbers = [number for row in (*report.figures.values(), *report.reliability) for number in row.values()]
    is_measured = {report.chosen, "words", "vectors"} <= report.figures.keys()
    return (
        (is_measured if report.figures else bool(report.reason) and not report.reliability)
        and all(set(MEASURES) == row.keys() for row in report.figures.values())
        and all(part.keys() == _BIN for part in report.reliability)
        and all(abs(number) < _LARGEST for number in (report.queries, *numbers))
    )
