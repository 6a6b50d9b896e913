"""Arrays and lines of text that grow on disk, for data that is larger than memory."""

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

ROWS_AT_ONCE = 2**18  # rows that are in memory at a time


class DiskArray:
    """A one-dimensional array in a file. Append to it first, then read it in blocks or map it."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self.path, self.dtype = path, np.dtype(dtype)
        self._length = 0
        path.write_bytes(b"")

    def __len__(self) -> int:
        """The number of items."""
        return self._length

    @property
    def shape(self) -> tuple[int]:
        """The shape that an array in memory would have."""
        return (self._length,)

    def append(self, values: NDArray[Any]) -> None:
        """Append values, converted to the type of the array."""
        with self.path.open("ab") as file:  # opened for each block, so that nobody has to close it
            file.write(np.ascontiguousarray(values, self.dtype).data)
        self._length += len(values)

    def read(self, first: int, stop: int) -> NDArray[Any]:
        """Return some consecutive items, in memory."""
        start = min(first, len(self))
        return np.fromfile(self.path, self.dtype, min(stop, len(self)) - start, offset=start * self.dtype.itemsize)

    def blocks(self, size: int = ROWS_AT_ONCE) -> Iterator[NDArray[Any]]:
        """Yield all items, `size` at a time."""
        return (self.read(first, first + size) for first in range(0, len(self), size))

    def mapped(self) -> NDArray[Any]:
        """Return the array, memory-mapped. Changes are written to the file."""
        return np.memmap(self.path, self.dtype, "r+").view(np.ndarray) if len(self) else np.zeros(0, self.dtype)


def zeros(path: Path, length: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros in a new file, memory-mapped."""
    return np.memmap(path, dtype, "w+", shape=(length,)).view(np.ndarray) if length else np.zeros(0, dtype)


class DiskLines:
    """Lines of text in a file, by their number. A line holds no line feed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(b"")
        self._offsets = DiskArray(path.with_name(f"{path.name}.offsets"), np.int64)
        self._offsets.append(np.zeros(1, np.int64))
        self._bytes = 0

    def __len__(self) -> int:
        """The number of lines."""
        return len(self._offsets) - 1

    def __getitem__(self, rows: slice) -> list[str]:
        """Return consecutive lines."""
        first, stop, _ = rows.indices(len(self))
        if first >= stop:
            return []
        start, end = self._offsets.read(first, first + 1)[0], self._offsets.read(stop, stop + 1)[0]
        with self.path.open("rb") as file:
            file.seek(int(start))
            return file.read(int(end - start) - 1).decode().split("\n")

    def __iter__(self) -> Iterator[str]:
        """Iterate over all lines, in order."""
        for block in self.blocks():
            yield from block

    def blocks(self, size: int = ROWS_AT_ONCE // 4) -> Iterator[list[str]]:
        """Yield all lines, `size` at a time."""
        return (self[first : first + size] for first in range(0, len(self), size))

    def append(self, lines: Sequence[str]) -> None:
        """Append lines."""
        if not lines:
            return
        encoded = ("\n".join(lines) + "\n").encode()
        with self.path.open("ab") as file:
            file.write(encoded)
        ends = np.flatnonzero(np.frombuffer(encoded, np.uint8) == ord("\n")) + 1
        self._offsets.append(ends + self._bytes)
        self._bytes += len(encoded)

    @property
    def size(self) -> int:
        """The number of bytes, line feeds included."""
        return self._bytes

    def take(self, rows: NDArray[np.integer]) -> list[str]:
        """Return lines in any order."""
        if not len(rows):
            return []
        offsets = self._offsets.mapped()
        starts, ends = offsets[rows].tolist(), offsets[np.asarray(rows) + 1].tolist()
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as letters:
            encoded = b"".join([letters[start:end] for start, end in zip(starts, ends, strict=True)])
        return encoded[:-1].decode().split("\n")


class MappedLines:
    """The lines of a file that is memory-mapped, by their number."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self._content = content
        blocks = range(0, len(content), ROWS_AT_ONCE)
        ends = [np.flatnonzero(content[start : start + ROWS_AT_ONCE] == ord("\n")) + start + 1 for start in blocks]
        self._offsets = np.concatenate([np.zeros(1, np.int64), *ends])

    def __len__(self) -> int:
        """The number of lines."""
        return len(self._offsets) - 1

    def __getitem__(self, rows: slice) -> list[str]:
        """Return consecutive lines."""
        first, stop, _ = rows.indices(len(self))
        if first >= stop:
            return []
        start, end = self._offsets[first], self._offsets[stop]
        return self._content[start : end - 1].tobytes().decode("utf-8", "surrogatepass").split("\n")
