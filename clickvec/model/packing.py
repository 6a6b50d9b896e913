"""Lay a batch of texts out for the time loop of a recurrent tower."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from clickvec.text.ragged import Ints, Offsets, Ragged


class Packed(NamedTuple):
    """A batch of texts, longest first and time-major, so that the batch shrinks as short texts end.

    `order[k]` is the text in row k; `sizes[t]` is how many texts have a token t; `tokens` has the token ids of time 0,
    then of time 1, and so on, `sizes[t]` of them each.
    """

    order: Offsets
    sizes: tuple[int, ...]
    tokens: Ints

    def chunks(self, size: int) -> Iterator[tuple[Offsets, list[Ints]]]:
        """At most `size` texts at a time, longest first: which they are, and their token ids at time 0, 1, and so on.

        Texts without a token are left out.
        """
        starts = np.cumsum((0, *self.sizes)).tolist()
        for first in range(0, self.sizes[0] if self.sizes else 0, size):
            columns = [
                self.tokens[start + first : start + min(first + size, n)]
                for start, n in zip(starts, self.sizes, strict=False)
                if n > first
            ]
            yield self.order[first : first + len(columns[0])], columns


def pack(texts: Ragged, *, backwards: bool = False) -> Packed:
    """Lay a batch out for the time loop; `backwards` reads each text from its last token to its first."""
    lengths = texts.lengths
    order = np.argsort(-lengths, kind="stable")
    longest_first = lengths[order]
    first, direction = texts.offsets[:-1][order], 1
    if backwards:
        first, direction = first + longest_first - 1, -1
    deepest = int(longest_first[0]) if len(longest_first) else 0
    sizes = np.searchsorted(-longest_first, -np.arange(deepest), side="left")
    columns = [texts.values[first[:size] + direction * t] for t, size in enumerate(sizes)]
    tokens = np.concatenate(columns) if columns else np.zeros(0, np.int32)
    return Packed(order, tuple(int(size) for size in sizes), tokens)
