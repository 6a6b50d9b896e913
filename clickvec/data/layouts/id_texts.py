"""A table from ids to texts in little memory: a catalogue of millions of titles takes about the size of its text."""

from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class IdTexts:
    """The texts of ids, as one block of bytes and a sorted array of hashes. The first text of an id counts."""

    def __init__(self) -> None:
        self._bytes, self._ends, self._hashes = bytearray(), array("q", [0]), array("q")
        self._sorted: NDArray[np.int64] = np.zeros(0, np.int64)
        self._order: NDArray[np.int64] = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        """Add some ids with their texts. Neither may contain NUL."""
        self._hashes.extend(map(hash, ids))
        for key, text in zip(ids, texts, strict=True):
            self._bytes += f"{key}\0{text}".encode()
            self._ends.append(len(self._bytes))

    def repeated(self) -> Iterator[tuple[int, str]]:
        """Yield the numbers and ids of the entries whose id an earlier entry has with another text."""
        self._sort()
        same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        for rank in np.unique(np.concatenate([same, same + 1])).tolist():
            number = int(self._order[rank])
            key, text = self._entry(number)
            if self._first(key, int(np.searchsorted(self._sorted, self._sorted[rank]))) != text:
                yield number, key

    def _sort(self) -> None:
        if len(self._sorted) < len(self._hashes):
            hashes = np.array(self._hashes)
            self._order = np.argsort(hashes, kind="stable")
            self._sorted = hashes[self._order]

    def get(self, ids: Sequence[str]) -> list[str | None]:
        """Return the text of each id, None for an unknown id."""
        if not self._hashes:
            return [None] * len(ids)
        self._sort()
        distinct = list(dict.fromkeys(ids))
        hashes = np.fromiter(map(hash, distinct), np.int64, len(distinct))
        rank = np.minimum(np.searchsorted(self._sorted, hashes), len(self._sorted) - 1)
        text_of: dict[str, str | None] = dict.fromkeys(distinct)
        known = np.flatnonzero(self._sorted[rank] == hashes)
        for row, first, entry in zip(
            known.tolist(), rank[known].tolist(), self._order[rank[known]].tolist(), strict=True
        ):
            key, text = self._entry(entry)
            text_of[distinct[row]] = text if key == distinct[row] else self._first(distinct[row], first)
        return [text_of[key] for key in ids]

    def _entry(self, entry: int) -> tuple[str, str]:
        key, _, text = self._bytes[self._ends[entry] : self._ends[entry + 1]].decode().partition("\0")
        return key, text

    def _first(self, key: str, rank: int) -> str | None:
        """Return the first text of an id. Of all ids with its hash, the first one has this rank."""
        number = self._sorted[rank]
        for entry in self._order[rank : np.searchsorted(self._sorted, number, "right")].tolist():
            found, text = self._entry(entry)
            if found == key:
                return text
        return None
