"""The results of a comparison: the rows of the table, and the intervals, tests and breakdowns computed from them."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clickvec.data import ClickLog, JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.significance import Floats, bootstrap_interval
from clickvec.lab.compare.breakdown import Breakdown, GroupMeans, breakdowns, group_means
from clickvec.lab.compare.pair_tests import PAIR_ROUNDS, Pair, all_pairs, significantly_better

MEASURES = ("NDCG@1", "NDCG@3", "NDCG@10")
TESTED = "NDCG@10"  # the measure of the intervals, the tests and the breakdowns


@dataclass(frozen=True)
class Row:
    """One system of the table."""

    key: str  # its name in --systems: lstm-32
    label: str  # its name in the table: LSTM-RNN (ncell = 32)
    dev: Floats  # (seeds, measures, queries), in per cent; one seed if the system is deterministic
    test: Floats
    parameters: int | None  # learned numbers; None if nothing is learned
    train_seconds: float  # of the first seed
    queries_per_second: float  # of the first seed: test queries scored per second, with all their judged titles
    settings: Mapping[str, Any]  # chosen on dev, or set by the recipe
    histories: Sequence[Sequence[float]]  # the training loss by epoch, for each seed; empty without training
    command: str  # the command that makes this row alone
    commit: str  # the version of the code that made it
    machine: str  # the machine that made the first seed

    def mean(self, split: str) -> Floats:
        """Return NDCG@1/3/10 on dev or test: the mean over queries and seeds."""
        means: Floats = self.per_query(split).mean(axis=1)
        return means

    def per_query(self, split: str) -> Floats:
        """Return (measures, queries), the mean over the seeds. The significance tests use these values."""
        values: Floats = (self.dev if split == "dev" else self.test).mean(axis=0)
        return values

    def spread(self, split: str) -> Floats:
        """Return the standard deviation of each measure between seeds; 0 for one seed."""
        means = (self.dev if split == "dev" else self.test).mean(axis=2)
        spread: Floats = means.std(axis=0, ddof=1) if len(means) > 1 else np.zeros(means.shape[1])
        return spread


@dataclass(frozen=True)
class Comparison:
    """The rows of the table, and the data they were measured on."""

    rows: tuple[Row, ...]
    queries: Mapping[str, Sequence[JudgedQuery]]  # of dev and of test: the queries with a relevant title, as in `Row`
    left_out: Mapping[str, int]  # how many queries of dev and of test have none
    about: Mapping[str, Any]  # recipe, seeds, pairs and file names, for the page
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)  # training loss by epoch: LSTM-RNN and RNN

    def row(self, key: str) -> Row:
        """Return the row of a system."""
        for row in self.rows:
            if row.key == key:
                return row
        raise ClickvecError(f"the table has no system {key}; it has {', '.join(row.key for row in self.rows)}")

    def query_values(self, split: str, measure: str = TESTED) -> Floats:
        """Return (rows, queries): the value of each row on each query, the mean over its seeds."""
        return np.stack([row.per_query(split)[MEASURES.index(measure)] for row in self.rows])


@dataclass(frozen=True)
class Findings:
    """A comparison with its intervals, tests and breakdowns: everything that the pages show."""

    comparison: Comparison
    intervals: Mapping[str, Floats]  # 95% confidence intervals on dev and on test: (rows, 2)
    pairs: Sequence[Pair]  # on test
    breakdowns: Sequence[tuple[Breakdown, GroupMeans]]  # of test
    rounds: int  # of the randomisation test

    def beaten(self) -> list[list[int]]:
        """Return for each row the numbers, from 1, of the rows that it beats significantly."""
        numbers = {row.key: number for number, row in enumerate(self.comparison.rows, 1)}
        beaten = significantly_better(self.pairs)
        return [sorted(numbers[key] for key in beaten.get(row.key, ())) for row in self.comparison.rows]


def examine(comparison: Comparison, log: ClickLog, rounds: int = PAIR_ROUNDS, seed: int = 0) -> Findings:
    """Compute the intervals, tests and breakdowns of a comparison whose systems were fitted to `log`."""
    values = {split: comparison.query_values(split) for split in ("dev", "test")}
    intervals = {split: bootstrap_interval(values[split], seed=seed) for split in values}
    pairs = all_pairs([row.key for row in comparison.rows], values["test"], rounds, seed)
    parts = [(part, group_means(values["test"], part)) for part in breakdowns(comparison.queries["test"], log)]
    return Findings(comparison, intervals, pairs, parts, rounds)


def as_json(findings: Findings) -> dict[str, Any]:
    """Return everything as plain values for `json.dumps(..., allow_nan=False)`. NaN and infinity become null."""
    comparison = findings.comparison
    result = {
        "measures": MEASURES,
        "about": comparison.about,
        "splits": {
            split: {"query_ids": [query.query_id for query in queries], "left_out": comparison.left_out.get(split, 0)}
            for split, queries in comparison.queries.items()
        },
        "rows": [_row_json(findings, place) for place in range(len(comparison.rows))],
        "significance": {
            "split": "test", "measure": TESTED, "rounds": findings.rounds, "correction": "Holm",
            "pairs": [pair._asdict() for pair in findings.pairs],
        },
        "breakdowns": [_breakdown_json(findings.comparison, *part) for part in findings.breakdowns],
        "curves": comparison.curves,
    }  # fmt: skip
    values: dict[str, Any] = plain_values(result)
    return values


def _row_json(findings: Findings, place: int) -> dict[str, Any]:
    row = findings.comparison.rows[place]
    names = (
        "key", "label", "parameters", "train_seconds", "queries_per_second", "settings", "histories", "command",
        "commit", "machine",
    )  # fmt: skip
    result = {name: getattr(row, name) for name in names}
    for split, values in (("dev", row.dev), ("test", row.test)):
        result[split] = {
            "mean": dict(zip(MEASURES, row.mean(split), strict=True)),
            "spread": dict(zip(MEASURES, row.spread(split), strict=True)),
            f"95% of {TESTED}": findings.intervals[split][place],
            # The value of each query for each seed. Four decimals make the file a quarter of the size.
            "per_query": dict(zip(MEASURES, np.round(values, 4).swapaxes(0, 1), strict=True)),
        }
    return result


def _breakdown_json(comparison: Comparison, breakdown: Breakdown, figures: GroupMeans) -> dict[str, Any]:
    queries, keys = comparison.queries["test"], [row.key for row in comparison.rows]
    groups = [
        {
            "name": group.name,
            "queries": len(group.places),
            "query_ids": [queries[place].query_id for place in group.places],
            "mean": dict(zip(keys, means, strict=True)),
            "standard_error": dict(zip(keys, errors, strict=True)),
        }
        for group, means, errors in zip(breakdown.groups, figures.means.T, figures.errors.T, strict=True)
    ]
    return {"name": breakdown.name, "note": breakdown.note, "measure": TESTED, "groups": groups}


def plain_values(value: Any) -> Any:  # noqa: ANN401
    """Convert to JSON values: arrays to lists, NaN and infinity to None, other objects to text."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain_values(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_values(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def one_line(value: object) -> str:
    """Return a value as one line of text."""
    plain = plain_values(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
