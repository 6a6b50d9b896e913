"""What a comparison found, as plain values: what the pages, the tests of significance and the breakdowns read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError

MEASURES = ("NDCG@1", "NDCG@3", "NDCG@10")


@dataclass(frozen=True)
class Row:
    """One system of the table."""

    key: str  # as --systems names it: lstm-32
    label: str  # as the table names it: LSTM-RNN (ncell = 32)
    dev: NDArray[np.float64]  # (seeds, measures, queries), per cent; one seed where there is nothing random
    test: NDArray[np.float64]
    parameters: int | None  # numbers that were learned; None where there are none
    train_seconds: float  # of the first seed
    queries_per_second: float  # of it: queries of the test set, with all their judged titles, scored in a second
    settings: Mapping[str, Any]  # what was chosen on dev, or set by the recipe
    histories: Sequence[Sequence[float]]  # for each seed the training loss by epoch; empty where there is none
    command: str  # how to make this row alone
    commit: str  # the state of the code that made it
    machine: str  # where the first seed was made

    def mean(self, split: str) -> NDArray[np.float64]:
        """NDCG@1/3/10 on dev or test, the mean over queries and seeds."""
        means: NDArray[np.float64] = self.per_query(split).mean(axis=1)
        return means

    def per_query(self, split: str) -> NDArray[np.float64]:
        """(measures, queries), the mean over the seeds: what is tested for significance."""
        values: NDArray[np.float64] = (self.dev if split == "dev" else self.test).mean(axis=0)
        return values

    def spread(self, split: str) -> NDArray[np.float64]:
        """The standard deviation between the seeds of each measure; 0 for one seed."""
        means = (self.dev if split == "dev" else self.test).mean(axis=2)
        spread: NDArray[np.float64] = means.std(axis=0, ddof=1) if len(means) > 1 else np.zeros(means.shape[1])
        return spread


@dataclass(frozen=True)
class Comparison:
    """The table, and what it was measured on."""

    rows: tuple[Row, ...]
    queries: Mapping[str, Sequence[JudgedQuery]]  # of dev and of test, those with a relevant title, as in `Row`
    left_out: Mapping[str, int]  # the queries of dev and of test without one
    about: Mapping[str, Any]  # recipe, seeds, pairs, the names of the files: for the page
    curves: Mapping[str, Sequence[float]] = field(default_factory=dict)  # training cost by epoch: LSTM-RNN and RNN

    def row(self, key: str) -> Row:
        """The row of a system."""
        found = [row for row in self.rows if row.key == key]
        if not found:
            raise ClickvecError(f"there is no system {key} here; there are {', '.join(row.key for row in self.rows)}")
        return found[0]
