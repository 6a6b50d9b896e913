"""Sums by key, exact and in bounded memory: what does not fit goes to temporary files."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clickvec.doctor.text_hashes import Keys
from clickvec.errors import ClickvecError

ROWS_AT_ONCE = 2**21  # rows to collect before they are grouped
ROWS_IN_MEMORY = 2**22
PARTS = 64  # temporary files; one of them is in memory at a time

Column = NDArray[Any]


@dataclass(frozen=True)
class Grouped:
    """Rows with distinct keys. Rows with the same key have the same tags; `sums` are their sums."""

    keys: Keys
    tags: tuple[Keys, ...]
    sums: tuple[NDArray[np.float64], ...]

    def __len__(self) -> int:
        """The number of distinct keys."""
        return len(self.keys)


class Groups:
    """Add rows of (key, tags, values), then read the sums of the values by key, in one or several parts.

    All rows with the same first tag are in the same part. Without tags, the key decides.
    """

    def __init__(self, tags: int = 0, sums: int = 0, rows_in_memory: int = ROWS_IN_MEMORY) -> None:
        self._tags, self._sums, self._limit = tags, sums, rows_in_memory
        self._at_once = min(ROWS_AT_ONCE, max(1, rows_in_memory // 2))
        self._loose, self._grouped = list[Grouped](), list[Grouped]()
        self._loose_rows = 0
        self._files: list[BinaryIO] = []

    def add(self, keys: Keys, tags: Sequence[Keys] = (), sums: Sequence[NDArray[np.float64]] = ()) -> None:
        """Add rows."""
        if not len(keys):
            return
        self._loose.append(Grouped(keys, tuple(tags), tuple(sums)))
        self._loose_rows += len(keys)
        if self._loose_rows >= self._at_once:
            self._group()

    def parts(self) -> Iterator[Grouped]:
        """Yield the groups, each key once. The order of keys is arbitrary. May be called several times."""
        self._group()
        if not self._files:
            if self._grouped:
                self._grouped = [_merge(self._grouped)]
                yield self._grouped[0]
            return
        self._spill()
        for file in self._files:
            file.seek(0)
            columns = np.frombuffer(file.read(), np.uint64).reshape(-1, 1 + self._tags + self._sums).T
            file.seek(0, 2)
            if columns.shape[1]:
                keys, tags, sums = columns[0], columns[1 : 1 + self._tags], columns[1 + self._tags :]
                floats = (np.ascontiguousarray(column).view(np.float64) for column in sums)
                yield _merge([Grouped(keys, tuple(tags), tuple(floats))])

    def count(self) -> int:
        """Return the number of distinct keys."""
        return sum(map(len, self.parts()))

    def close(self) -> None:
        """Remove the temporary files."""
        for file in self._files:
            file.close()
        self._loose, self._grouped, self._files = [], [], []

    def _group(self) -> None:
        if not self._loose:
            return
        self._grouped.append(_merge(self._loose))
        self._loose, self._loose_rows = [], 0
        if sum(map(len, self._grouped)) > self._limit:
            self._grouped = [_merge(self._grouped)]
            if len(self._grouped[0]) > self._limit // 2:
                self._spill()

    def _spill(self) -> None:
        """Write the groups in memory to the files, by the upper bits of the first tag."""
        try:
            if not self._files:
                self._files = [tempfile.TemporaryFile() for _ in range(PARTS)]  # noqa: SIM115 - see close
            for rows in self._grouped:
                part = (rows.tags[0] if rows.tags else rows.keys) >> np.uint64(64 - PARTS.bit_length() + 1)
                order = np.argsort(part, kind="stable")
                columns = [rows.keys, *rows.tags, *(column.view(np.uint64) for column in rows.sums)]
                table = np.stack([column[order] for column in columns], axis=1)
                ends = np.searchsorted(part[order], np.arange(PARTS + 1, dtype=np.uint64))
                for file, first, end in zip(self._files, ends[:-1], ends[1:], strict=True):
                    file.write(table[first:end].tobytes())
        except OSError as error:
            raise ClickvecError(
                f"cannot write temporary files to {tempfile.gettempdir()}: {error.strerror}; free some space, or set "
                "TMPDIR to another folder"
            ) from None
        self._grouped = []


def sum_by(keys: Keys, *values: NDArray[np.float64]) -> tuple[NDArray[np.intp], Keys, tuple[NDArray[np.float64], ...]]:
    """Return the group of each row, the distinct keys in ascending order, and the sums of the values by key."""
    distinct, inverse = np.unique(keys, return_inverse=True)
    return inverse, distinct, tuple(np.bincount(inverse, column, len(distinct)).astype(np.float64) for column in values)


def _merge(rows: Sequence[Grouped]) -> Grouped:
    """Group rows by key."""
    keys = np.concatenate([block.keys for block in rows])
    order = np.argsort(keys)
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    tags = [np.concatenate(columns)[order[starts]] for columns in zip(*(block.tags for block in rows), strict=True)]
    sums = [
        np.add.reduceat(np.concatenate(columns)[order], starts)
        for columns in zip(*(block.sums for block in rows), strict=True)
    ]
    return Grouped(keys[starts], tuple(tags), tuple(sums))
