"""Rows of different lengths as two arrays."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
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
        """Return these rows, in this order."""
        starts = self.offsets[rows]
        lengths = self.offsets[np.asarray(rows) + 1] - starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        return Ragged(self.values[np.repeat(starts, lengths) + within], offsets)

    def part(self, rows: slice) -> "Ragged":
        """Return consecutive rows."""
        offsets = self.offsets[rows.start : rows.stop + 1]
        return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])

    def blocks(self, size: int) -> Iterator[tuple[int, "Ragged"]]:
        """Yield up to `size` rows at a time, with the number of the first of them."""
        for first in range(0, len(self.offsets) - 1, size):
            offsets = self.offsets[first : first + size + 1]
            yield first, Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])


def ragged(rows: Iterable[Sequence[int]]) -> Ragged:
    """Return rows of ints as one `Ragged`."""
    values, lengths = array("i"), array("q")
    for row in rows:
        values.extend(row)
        lengths.append(len(row))
    return Ragged(np.array(values, np.int32), np.concatenate(([0], np.cumsum(np.array(lengths, np.int64)))))


def concatenate(parts: Sequence[Ragged]) -> Ragged:
    """Return the rows of all parts, one after the other."""
    lengths = [np.zeros(1, np.int64), *(part.lengths for part in parts)]
    values = [np.zeros(0, np.int32), *(part.values for part in parts)]
    return Ragged(np.concatenate(values), np.cumsum(np.concatenate(lengths)))
