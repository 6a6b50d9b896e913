"""Keep the clicks and impressions of UBI events by query_id, in about 80 bytes for each event."""

from array import array
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class ShownTitle:
    """A title that events say was shown for a query."""

    __slots__ = ("clicks", "entries", "position")

    def __init__(self) -> None:
        self.clicks, self.position, self.entries = 0, 0, list[int]()


class ShownTitles:
    """The clicks and impressions of all events, in the order of the log. Each can be used once."""

    def __init__(self) -> None:
        self._bytes, self._ends, self._hashes = bytearray(), array("q", [0]), array("q")
        self._clicked, self._positions, self._used = bytearray(), array("i"), bytearray()
        self._sorted: NDArray[np.int64] = np.zeros(0, np.int64)
        self._order: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, query_id: str, doc_id: str, clicked: bool, position: int) -> None:
        """Add an event. Neither id may contain NUL."""
        self._hashes.append(hash(query_id))
        self._bytes += f"{query_id}\0{doc_id}".encode()
        self._ends.append(len(self._bytes))
        self._clicked.append(clicked)
        self._positions.append(position)
        self._used.append(False)

    def of(self, query_ids: Sequence[str]) -> list[dict[str, ShownTitle]]:
        """Return what was shown for each query and is not used yet, by document id."""
        if len(self._sorted) < len(self._hashes):
            hashes = np.array(self._hashes)
            self._order = np.argsort(hashes, kind="stable")
            self._sorted = hashes[self._order]
        wanted = np.fromiter(map(hash, query_ids), np.int64, len(query_ids))
        first, last = (np.searchsorted(self._sorted, wanted, side).tolist() for side in ("left", "right"))
        return [
            self._titles(*found) if found[1] < found[2] else {} for found in zip(query_ids, first, last, strict=True)
        ]

    def use(self, title: ShownTitle) -> None:
        """Mark the events of a title as used."""
        for entry in title.entries:
            self._used[entry] = True

    def unused(self, at_once: int) -> Iterator[list[str]]:
        """Yield the query ids of entries that are not used, in the order of the log, without repeating one."""
        entry = 0
        while entry < len(self._used):
            query_ids: dict[str, None] = {}
            while len(query_ids) < at_once and (entry := self._used.find(False, entry)) >= 0:
                query_ids[self._ids(entry)[0]] = None
                entry += 1
            yield list(query_ids)
            entry = len(self._used) if entry < 0 else entry

    def _ids(self, entry: int) -> list[str]:
        return self._bytes[self._ends[entry] : self._ends[entry + 1]].decode().split("\0")

    def _titles(self, query_id: str, first: int, last: int) -> dict[str, ShownTitle]:
        titles: dict[str, ShownTitle] = {}
        for entry in self._order[first:last].tolist():
            found, doc_id = self._ids(entry)
            if found == query_id and not self._used[entry]:
                title = titles.setdefault(doc_id, ShownTitle())
                title.clicks += self._clicked[entry]
                title.position = title.position or self._positions[entry]
                title.entries.append(entry)
        return titles
