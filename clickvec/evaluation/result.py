"""The result of an evaluation: the value of every system on every query, and their means as a table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.significance import ROUNDS, bootstrap_interval, randomisation_tests
from clickvec.text.printable import clean

LISTS, CATALOGUE = "judged titles", "whole catalogue"  # what a measure ranks for each query


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The value of each system by each measure on each query, in per cent. Printing it shows the table of means."""

    systems: tuple[str, ...]
    measures: tuple[str, ...]
    ranked: tuple[str, ...]  # of each measure: LISTS or CATALOGUE
    query_ids: tuple[str, ...]  # the measured queries
    left_out: int  # queries without a relevant title, which are not measured
    values: NDArray[np.float64]  # (systems, measures, queries)
    relevant: int  # relevant titles of the measured queries
    absent: int = 0  # relevant titles that are not in the catalogue; they count as not found

    def beside(self, other: "Evaluation") -> "Evaluation":
        """Return these measures and those of another evaluation of the same systems on the same queries."""
        return replace(
            self, measures=self.measures + other.measures, ranked=self.ranked + other.ranked, absent=other.absent,
            values=np.concatenate((self.values, other.values), axis=1),
        )  # fmt: skip

    @property
    def means(self) -> NDArray[np.float64]:
        """The mean over queries: (systems, measures)."""
        means: NDArray[np.float64] = self.values.mean(axis=2)
        return means

    @cached_property
    def intervals(self) -> NDArray[np.float64]:
        """The 95% confidence interval of each mean, by bootstrap over queries: (systems, measures, low and high)."""
        systems, measures, queries = self.values.shape
        return bootstrap_interval(self.values.reshape(-1, queries)).reshape(systems, measures, 2)

    @property
    def tested(self) -> tuple[str, str]:
        """The measure that compares systems, NDCG@10 or the last one, and the system that is best by it."""
        measure = CHOSEN_BY if CHOSEN_BY in self.measures else self.measures[-1]
        return measure, self.systems[int(self.means[:, self.measures.index(measure)].argmax())]

    @cached_property
    def p_values(self) -> dict[str, float]:
        """The p value of each system against the best one: of the paired randomisation test, two-sided."""
        measure, best = self.tested
        values = self.values[:, self.measures.index(measure)]
        others = np.array([row for row, name in enumerate(self.systems) if name != best], np.intp)
        if not len(others):
            return {}
        first = np.full(len(others), self.systems.index(best))
        p_values = randomisation_tests(values, first, others, ROUNDS, seed=0)
        return {self.systems[row]: float(p) for row, p in zip(others, p_values, strict=True)}

    @property
    def notes(self) -> list[str]:
        """What the table does not show: what each measure ranks, and what p means."""
        scopes = [(scope, [m for m, of in zip(self.measures, self.ranked, strict=True) if of == scope])
                  for scope in dict.fromkeys(self.ranked)]  # fmt: skip
        lines = [f"{', '.join(measures)}: each query ranks {_SCOPES[scope]}." for scope, measures in scopes]
        if len(self.systems) > 1:
            measure, best = self.tested
            lines.append(f"p: randomisation test of {measure} against {clean(best)}, the best.")
        return lines

    def mean(self, system: str, measure: str) -> float:
        """Return the mean of a system by a measure."""
        return float(self.per_query(system, measure).mean())

    def per_query(self, system: str, measure: str) -> NDArray[np.float64]:
        """Return the value of a system on each query, in the order of `query_ids`."""
        if system not in self.systems or measure not in self.measures:
            raise ClickvecError(
                f"there is no {measure} of {system}; the measures are {', '.join(self.measures)}, "
                f"the systems {', '.join(self.systems)}"
            )
        values: NDArray[np.float64] = self.values[self.systems.index(system), self.measures.index(measure)]
        return values

    def __repr__(self) -> str:
        """Return the table of means as aligned columns, and what they are of."""
        return "\n".join([text_table(self.as_table()), *self.notes])

    def as_table(self, intervals: bool = False) -> list[list[str]]:
        """Return a header row, then one row per system: its means to one decimal, their intervals if wanted, and p."""
        cells = [[f"{mean:.1f}" for mean in means] for means in self.means.tolist()]
        if intervals:
            ends = [[f" [{low:.1f}, {high:.1f}]" for low, high in row] for row in self.intervals.tolist()]
            cells = [list(map(str.__add__, *row)) for row in zip(cells, ends, strict=True)]
        head = ["system", *self.measures]
        if len(self.systems) > 1:
            head.append("p")
            cells = [[*row, p_text(self.p_values.get(name))] for name, row in zip(self.systems, cells, strict=True)]
        return [head, *([name, *row] for name, row in zip(self.systems, cells, strict=True))]

    def as_json(self, per_query: bool = False, intervals: bool = False) -> dict[str, Any]:
        """Return plain values for `json.dumps`; if wanted, also the value of every query, or the intervals."""
        result: dict[str, Any] = {
            "queries": len(self.query_ids),
            "left_out": self.left_out,
            "relevant": self.relevant,
            "absent": self.absent,
            "ranked": dict(zip(self.measures, self.ranked, strict=True)),
            "systems": [
                {"system": name, **dict(zip(self.measures, means, strict=True))}
                for name, means in zip(self.systems, self.means.tolist(), strict=True)
            ],
        }
        if len(self.systems) > 1:
            result["tested"] = dict(zip(("measure", "against"), self.tested, strict=True))
            for entry in result["systems"]:
                entry["p"] = self.p_values.get(entry["system"])
        if intervals:
            for entry, ends in zip(result["systems"], self.intervals.tolist(), strict=True):
                entry["intervals"] = dict(zip(self.measures, ends, strict=True))
        if per_query:
            for entry, values in zip(result["systems"], self.values.tolist(), strict=True):
                entry["per_query"] = dict(zip(self.measures, values, strict=True))
            result["query_ids"] = list(self.query_ids)
        return result


_SCOPES = {LISTS: "its judged titles alone", CATALOGUE: "the whole catalogue"}


def p_text(p: float | None) -> str:
    """Return a p value as text; the system that others are compared with has none."""
    return "best" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def text_table(rows: Sequence[Sequence[object]]) -> str:
    """Align rows in columns: text to the left, numbers to the right. The first row is the header."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    numeric = [all(_is_number(row[column]) for row in cells[1:]) for column in range(len(widths))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _is_number(cell: str) -> bool:
    return cell.strip("%").replace(",", "").replace(".", "", 1).lstrip("-").isdigit()
