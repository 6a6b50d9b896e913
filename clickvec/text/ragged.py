"""Rows of different lengths as two arrays."""

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Offsets = NDArray[np.int64]


class Ragged(NamedTuple):
    """Rows of different lengths: row k is `values[offsets[k]:offsets[k + 1]]`."""

    values: Ints
    offsets: Offsets

    @property
    def lengths(self) -> Offsets:
        """The length of each row."""
        return np.diff(self.offsets)

    def take(self, rows: NDArray[np.integer]) -> "Ragged":
        """The given rows, in the given order."""
        starts = self.offsets[rows]
        lengths = self.offsets[np.asarray(rows) + 1] - starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return Ragged(self.values[np.repeat(starts, lengths) + within], offsets)


def ragged(rows: Iterable[Sequence[int]]) -> Ragged:
    """Rows of ints as one `Ragged`."""
    values, lengths = array("i"), array("q")
    for row in rows:
        values.extend(row)
        lengths.append(len(row))
    return Ragged(np.array(values, np.int32), np.concatenate(([0], np.cumsum(np.array(lengths, np.int64)))))
