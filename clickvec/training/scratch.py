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

from clickvec.storage import files

AT_ONCE = 2**18  # rows that are in memory at a time


def array(folder: Path | None, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of zeros on the disk of `folder`, or on that of temporary files."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                # A full disk raises an error here; later it would kill the process.
                os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)
    except OSError as error:
        raise files.cannot_write(folder or Path(tempfile.gettempdir()), error) from None


def blocks(rows: int) -> Iterator[slice]:
    """Yield slices that cover all rows."""
    return (slice(first, min(first + AT_ONCE, rows)) for first in range(0, rows, AT_ONCE))
