"""Arrays as long as the log, memory-mapped from unnamed files, so that memory does not grow with the log.

The system keeps as much of them in memory as fits, and removes the files when the process ends in any way.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clickvec.data.dataset import Dataset
from clickvec.storage import files
from clickvec.text.ragged import Ragged

AT_ONCE = 2**18  # rows that are in memory at a time


def array(folder: Path | None, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros on the disk of `folder`, or on that of temporary files."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(
                    file.fileno(), 0, size
                )  # a full disk raises an error here; later it would kill the process
            return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)
    except OSError as error:
        raise files.cannot_write(folder or Path(tempfile.gettempdir()), error) from None


def blocks(rows: int) -> Iterator[slice]:
    """Yield slices that cover all rows."""
    return (slice(first, min(first + AT_ONCE, rows)) for first in range(0, rows, AT_ONCE))


def on_disk(data: Dataset, out: Path) -> Dataset:
    """Return a copy of prepared data in files without a name, on the disk where `out` will be written."""
    folder = next(path for path in out.absolute().parents if path.exists())

    def copy(field: Any) -> Any:  # noqa: ANN401
        if isinstance(field, Ragged):
            return Ragged(copy(field.values), copy(field.offsets))
        if not isinstance(field, np.ndarray):
            return field
        mapped = array(folder, field.shape, field.dtype)
        mapped[:] = field
        return mapped

    return Dataset(*map(copy, data))
