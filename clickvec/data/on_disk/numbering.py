"""Number distinct texts in order of first appearance, with a bounded amount of memory.

A token table numbers the texts. When it has grown to its share of the memory, an empty one takes its place, so a text
may get several provisional numbers. At the end DuckDB finds the texts that are the same, by a hash of 128 bits.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.native.words import token_table
from clickvec.storage.disk_arrays import DiskLines, zeros
from clickvec.text.ragged import Ragged

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NUMBERS_AT_ONCE = 2**18
_BYTES_PER_TEXT = 64  # of a token table, beside the letters
Change = Callable[[Sequence[str]], Sequence[str]]


class Numbered(NamedTuple):
    """Distinct texts, in order of first appearance."""

    lines: DiskLines
    numbers: NDArray[np.int32] | None  # the number of the text for each provisional number; None if they are the same

    def of(self, provisional: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the numbers of texts for their provisional numbers."""
        return provisional if self.numbers is None else self.numbers[provisional]


class Numbering:
    """The texts read so far, or their tokens if `max_words` is not 0. Files are named after `path`."""

    def __init__(self, path: Path, max_words: int, memory: int) -> None:
        self._path, self._max_words, self._memory = path, max_words, memory
        self._lines = DiskLines(path)
        self._start(0)

    def _start(self, first: int) -> None:
        self._table, self._first, self._bytes_before = token_table(self._max_words), first, self._lines.size

    def read(self, texts: Sequence[str]) -> Ragged:
        """Return the provisional numbers of each text, or of its tokens."""
        known = len(self._table)
        rows = self._table.read(list(texts))
        rows.values[:] += self._first
        self._lines.append(self._table[known:])
        used = self._lines.size - self._bytes_before + _BYTES_PER_TEXT * len(self._table)
        if used > self._memory:
            self._start(len(self._lines))
        return rows

    def finish(self, database: "DuckDBPyConnection", change: Change | None = None) -> Numbered:
        """Return the distinct texts, after `change`, which masks secrets. No more texts can be read."""
        self._table = token_table(0)  # free the memory
        found = self._merge(self._lines, database, "distinct") if self._first else Numbered(self._lines, None)
        if change is None:
            return found
        lines, is_same = DiskLines(self._path.with_name(f"{self._path.name}.changed")), True
        for block in found.lines.blocks():
            changed = change(block)
            is_same = is_same and changed == block
            lines.append(changed)
        if is_same:
            return found
        after = self._merge(lines, database, "final")
        if found.numbers is None or after.numbers is None:
            return after
        for first in range(0, len(found.numbers), _NUMBERS_AT_ONCE):
            block_of = slice(first, first + _NUMBERS_AT_ONCE)
            found.numbers[block_of] = after.numbers[found.numbers[block_of]]
        return Numbered(after.lines, found.numbers)

    def _merge(self, lines: DiskLines, database: "DuckDBPyConnection", name: str) -> Numbered:
        """Give equal lines the same number. The files have this name."""
        import pyarrow

        database.execute("CREATE TEMP TABLE hashes (place BIGINT, hash UHUGEINT)")
        start = 0
        for block in lines.blocks():
            places = np.arange(start, start + len(block))
            insert(
                database, "hashes", pyarrow.table({"place": places, "text": block}), "SELECT place, md5_number(text)"
            )
            start += len(block)
        distinct = DiskLines(self._path.with_name(f"{self._path.name}.{name}"))
        numbers = zeros(self._path.with_name(f"{self._path.name}.{name}.numbers"), len(lines), np.int32)
        start = 0
        same = "SELECT hash, min(place) AS first FROM hashes GROUP BY hash"
        for batch in database.sql(
            f"SELECT first FROM hashes JOIN ({same}) USING (hash) ORDER BY place"
        ).to_arrow_reader(2**16):
            first = batch.column(0).to_numpy()
            new = first == np.arange(start, start + len(first))
            numbers[start : start + len(first)][new] = len(distinct) + np.arange(new.sum())
            old = np.flatnonzero(~new)
            numbers[start + old] = numbers[first[old]]
            distinct.append(
                [text for text, is_new in zip(lines[start : start + len(first)], new, strict=True) if is_new]
            )
            start += len(first)
        database.execute("DROP TABLE hashes")
        return Numbered(distinct, numbers)


def insert(database: "DuckDBPyConnection", table: str, rows: Any, select: str = "SELECT *") -> None:  # noqa: ANN401
    """Insert the rows of an Arrow table."""
    database.register("new_rows", rows)
    database.execute(f"INSERT INTO {table} {select} FROM new_rows")
    database.unregister("new_rows")
