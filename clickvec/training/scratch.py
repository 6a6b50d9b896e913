"""Arrays as long as the log, in files without a name: what training holds in memory does not grow with the log.

The system keeps in memory as much of them as it has room for, and frees them when the process ends, however it ends.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from clickvec.data import dataset
from clickvec.data.dataset import Dataset
from clickvec.storage import files
from clickvec.storage.temporary import temporary_folder

AT_ONCE = 2**18  # rows that pass through memory at a time


def array(folder: Path | None, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros on the disk of the folder; without one, on that of temporary files."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here, and the end of us later
            return np.memmap(file, dtype, "r+", shape=shape).view(np.ndarray)
    except OSError as error:
        raise files.cannot_write(folder or Path(tempfile.gettempdir()), error) from None


def blocks(rows: int) -> Iterator[slice]:
    """All rows, some at a time."""
    return (slice(first, min(first + AT_ONCE, rows)) for first in range(0, rows, AT_ONCE))


def on_disk(data: Dataset, out: Path) -> Dataset:
    """The same data beside `out` on the disk; data of a data folder is on disk already."""
    if isinstance(data.pair_query, np.memmap):
        return data
    beside = next(place for place in out.absolute().parents if place.exists())  # a run may still be refused
    try:
        # Its name is gone once the arrays are mapped, and its bytes once nobody has them mapped.
        with temporary_folder(beside / out.name) as place:
            dataset.save(data, place / "data")
            return dataset.load(place / "data")
    except OSError as error:
        raise files.cannot_write(out, error) from None
