"""Hold queries out of a log on disk, as held_out.py does in memory; a test compares the two."""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from clickvec.data.clicks import ClickLog
from clickvec.data.held_out import DEV, TEST, parts_of, split_queries
from clickvec.data.on_disk.log_store import Store, read_batches
from clickvec.data.on_disk.numbering import insert
from clickvec.storage.disk_arrays import DiskLines

_QUERIES = "SELECT query, min(time) FROM lines WHERE line >= 0 AND clicks > 0 GROUP BY query ORDER BY min(line)"
_PAIRS = """SELECT query, title, sum(clicks ORDER BY line) FROM lines SEMI JOIN held USING (query)
    WHERE line >= 0 AND clicks > 0 GROUP BY query, title ORDER BY min(line)"""
_DROP = "CREATE TABLE kept AS FROM lines ANTI JOIN held ON lines.line >= 0 AND lines.query = held.query"
_AT_ONCE = 2**15

TwoParts = tuple[ClickLog, ClickLog]


def hold_out_lines(store: Store, before: TwoParts | None = None) -> TwoParts | None:
    """Take the lines of held-out queries out of a finished store, and return their pairs: dev and test.

    With `before`, hold out the near-duplicates of queries that a data folder already holds out, and no others. Return
    None if there are too few queries.
    """
    numbers, times = _clicked_queries(store)
    queries = cast(Sequence[str], _Texts(store.queries.lines, numbers))
    if before:
        held = [*before[0].queries, *before[1].queries]
        known = np.repeat(np.array([DEV, TEST], np.int8), [len(part) for part in before])
        parts = parts_of(queries, held, known)
    else:
        parts = split_queries(queries, times if store.has_times else None)
        if not parts.any():
            return None
    dev, test = (_take_out(store, numbers[parts == part]) for part in (DEV, TEST))
    store.count_clicked()
    return dev, test


def _clicked_queries(store: Store) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the numbers of the queries with a click, in order of first appearance, and the times of the first ones."""
    rows = list(read_batches(store.database, _QUERIES))
    numbers = np.concatenate([np.zeros(0, np.int32), *(query for query, _ in rows)])
    if not store.has_times:
        return numbers, np.zeros(0, np.int64)
    return numbers, np.concatenate([np.zeros(0, np.int64), *(time for _, time in rows)])


class _Texts:
    """Texts by their numbers, read from disk while they are iterated over."""

    def __init__(self, lines: DiskLines, numbers: NDArray[np.int32]) -> None:
        self._lines, self._numbers = lines, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self._numbers), _AT_ONCE):
            yield from self._lines.take(self._numbers[first : first + _AT_ONCE])


def _take_out(store: Store, numbers: NDArray[np.int32]) -> ClickLog:
    """Return the pairs of some queries, and drop their lines."""
    import pyarrow

    store.database.execute("CREATE TABLE held (query INTEGER)")
    insert(store.database, "held", pyarrow.table({"query": numbers}))
    queries, titles, clicks = list[str](), list[str](), [np.zeros(0)]
    for query, title, count in read_batches(store.database, _PAIRS):
        queries += store.queries.lines.take(query)
        titles += store.titles.lines.take(title)
        clicks.append(count)
    store.database.execute(f"{_DROP}; DROP TABLE lines; DROP TABLE held; ALTER TABLE kept RENAME TO lines")
    return ClickLog(queries, titles, np.concatenate(clicks))
