"""Lay out a batch of texts for the loop over time of a recurrent tower."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.text.ragged import Ints, Offsets, Ragged

Array = NDArray[np.floating[Any]]


class Packed(NamedTuple):
    """A batch of texts, longest first and time-major, so that the batch shrinks as short texts end.

    `order[k]` is the text in row k. `sizes[t]` is the number of texts that have a token t. `tokens` holds the token ids
    at time 0, then those at time 1, and so on, `sizes[t]` of them each.
    """

    order: Offsets
    sizes: tuple[int, ...]
    tokens: Ints

    def columns(self) -> list[Ints]:
        """Return the token ids at time 0, 1, and so on, `sizes[t]` of them each."""
        return np.split(self.tokens, np.cumsum(self.sizes[:-1])) if self.sizes else []

    def over_time(self, table: Array) -> Iterator[Array]:
        """Yield the rows of `table` for the tokens at time 0, 1, and so on, each (sizes[t], width)."""
        return (table[tokens] for tokens in self.columns())

    def in_text_order(self, rows: Array) -> Array:
        """Return rows that are longest text first in the order of the texts."""
        result = np.empty_like(rows)
        result[self.order] = rows
        return result


def chunks(texts: Ragged, size: int, *, backwards: bool = False) -> Iterator[tuple[Offsets, list[Ints]]]:
    """Yield at most `size` texts at a time, longest first: their numbers, and their token ids at time 0, 1, ...

    Texts without a token are left out.
    """
    order = np.argsort(-texts.lengths, kind="stable")[: np.count_nonzero(texts.lengths)]
    for first in range(0, len(order), size):
        numbers = order[first : first + size]
        yield numbers, pack(texts.take(numbers), backwards=backwards).columns()


def pack(texts: Ragged, *, backwards: bool = False) -> Packed:
    """Lay out texts of token ids. With `backwards`, read each text from its last token to its first."""
    lengths = texts.lengths
    order = np.argsort(-lengths, kind="stable")
    longest_first = lengths[order]
    first, direction = texts.offsets[:-1][order], 1
    if backwards:
        first, direction = first + longest_first - 1, -1
    longest = int(longest_first[0]) if len(longest_first) else 0
    sizes = np.searchsorted(-longest_first, -np.arange(longest), side="left")
    columns = [texts.values[first[:size] + direction * t] for t, size in enumerate(sizes)]
    tokens = np.concatenate(columns) if columns else np.zeros(0, np.int32)
    return Packed(order, tuple(sizes.tolist()), tokens)
