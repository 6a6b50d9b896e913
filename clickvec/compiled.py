"""Load the C that was compiled at installation (hatch_build.py), and call `lstm.c`.

The environment variable CLICKVEC_COMPILED chooses the compiled path, for encoding and for training: `avx512`, `avx2`, 0
for none (NumPy and torch compute everything), or 1 for the fastest one that this machine has, which is the default.
"""

import ctypes
import hashlib
import os
from array import array
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.config import POOLINGS
from clickvec.errors import ClickvecError
from clickvec.forward import Array
from clickvec.text import Ragged

SWITCH = "CLICKVEC_COMPILED"
PROCESSORS = ("avx512", "avx2")  # the fastest first
_ON, _OFF = ("", "1", "true", "yes", "on"), ("0", "false", "no", "off")
_POINTER, _INT, _LONG, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float
_READ = (
    _POINTER, _LONG, _LONG, _POINTER, _INT, _INT, _INT, _INT, _POINTER, _POINTER, _POINTER, _LONG, _POINTER,
)  # fmt: skip
_ROWS = (_POINTER, _POINTER, _FLOAT, _INT, _POINTER, _POINTER, _LONG, _POINTER, _LONG)
_Found = TypeVar("_Found")
_Number = TypeVar("_Number", bound=np.generic)


class Kernel(NamedTuple):
    """The compiled functions for one kind of processor."""

    processor: str
    lanes: int  # the numbers that it computes at once
    read: Callable[..., int]  # these two without the lock of the interpreter, so that other threads go on
    sum_rows: Callable[..., None]

    def pack(self, W_rec: Array) -> Array:
        """The recurrent weights (gates, cells, cells) as it wants them: (blocks of cells, cells, gates, lanes)."""
        gates, cells, _ = W_rec.shape
        blocks = -(-cells // self.lanes)
        padded = np.zeros((gates, cells, blocks * self.lanes), np.float32)
        padded[:, :, :cells] = W_rec
        return np.ascontiguousarray(padded.reshape(gates, cells, blocks, self.lanes).transpose(2, 1, 0, 3))

    def run(self, table: Array, texts: Ragged, packed: Array, pooling: str, backwards: bool) -> Array:
        """What an LSTM-RNN makes of texts in one direction, doubled: (texts, cells). The table is of float32."""
        if table.strides[2] != table.itemsize or not table.flags.aligned:
            table = ready(table, np.float32)
        gates, _, cells = table.shape
        steps, offsets = ready(texts.values, np.int32), ready(texts.offsets, np.int64)
        order = np.argsort(-texts.lengths, kind="stable").astype(np.int64, copy=False)
        found = np.zeros((len(order), cells), np.float32)
        failed = self.read(
            table.ctypes.data, table.strides[0] // 4, table.strides[1] // 4, packed.ctypes.data, cells, gates,
            POOLINGS.index(pooling), backwards, steps.ctypes.data, offsets.ctypes.data, order.ctypes.data, len(order),
            found.ctypes.data,
        )  # fmt: skip
        if failed:
            raise MemoryError
        return found

    def run_one(self, table: Array, steps: list[int], packed: Array, pooling: str, backwards: bool) -> Array:
        """The same of one text, (cells,): to NumPy an array of a few numbers is dear, so there are few of them."""
        gates, _, cells = table.shape
        ids, offsets, order = array("i", steps), array("q", (0, len(steps))), array("q", (0,))
        found = np.zeros(cells, np.float32)
        failed = self.read(
            table.ctypes.data, table.strides[0] // 4, table.strides[1] // 4, packed.ctypes.data, cells, gates,
            POOLINGS.index(pooling), backwards, ids.buffer_info()[0], offsets.buffer_info()[0],
            order.buffer_info()[0], 1, found.ctypes.data,
        )  # fmt: skip
        if failed:
            raise MemoryError
        return found

    def write_rows(self, out: Array, matrix: Array, trigrams: Ragged, bias: Array, scale: float) -> None:
        """(W l(t) + b) * scale of steps for one gate into `out`, (steps, cells): the bits that NumPy gives too."""
        ids, offsets = ready(trigrams.values, np.int32), ready(trigrams.offsets, np.int64)
        matrix = ready(matrix, np.float32)
        self.sum_rows(
            matrix.ctypes.data, bias.ctypes.data, scale, matrix.shape[1], ids.ctypes.data, offsets.ctypes.data,
            len(offsets) - 1, out.ctypes.data, out.strides[0] // 4,
        )  # fmt: skip


@cache
def kernel() -> Kernel | None:
    """Return the kernel that CLICKVEC_COMPILED chooses; None if NumPy is to compute everything."""
    return choose(load, "encoding")


def choose(load: Callable[[str], _Found | None], work: str) -> _Found | None:
    """Load the fastest of the paths that CLICKVEC_COMPILED allows. A path that it names must be available."""
    paths = wanted()
    found = next(filter(None, map(load, paths)), None)
    if found is None and len(paths) == 1:
        raise _unavailable(paths[0], work)
    return found


def wanted() -> tuple[str, ...]:
    """Return the paths that CLICKVEC_COMPILED allows, the fastest first; none if it turns compiled code off."""
    value = os.environ.get(SWITCH, "")
    choice = value.lower()
    if choice in _OFF:
        return ()
    if choice in _ON:
        return PROCESSORS
    if choice not in PROCESSORS:
        raise ClickvecError(f"{SWITCH} is {value!r}; use {', '.join(('0', '1', *PROCESSORS))}")
    if load(choice) is None:
        raise _unavailable(choice, "encoding")
    return (choice,)


def _unavailable(path: str, work: str) -> ClickvecError:
    others = (other for other in PROCESSORS if other != path and load(other))
    return ClickvecError(
        f"{SWITCH} is {path!r}, but for {work} that path was not compiled or this processor cannot run it; "
        f"use {', '.join(('0', '1', *others))}"
    )


def ready(array: NDArray[_Number], dtype: type[_Number]) -> NDArray[_Number]:
    """Return the array as C reads it: contiguous and aligned to its item size. Copy it only if it is not."""
    contiguous: NDArray[_Number] = np.ascontiguousarray(array, dtype)
    return contiguous if contiguous.flags.aligned else contiguous.copy()


def load(processor: str) -> Kernel | None:
    """The one for this kind of processor; none where it was not compiled, of another source, or cannot run."""
    found = library("lstm.c", processor)
    if found is None or not found.lstm_runs_here():
        return None
    found.lstm_read.argtypes, found.lstm_rows.argtypes = _READ, _ROWS
    found.lstm_rows.restype = None
    return Kernel(processor, found.lstm_lanes(), found.lstm_read, found.lstm_rows)


def library(source: str, processor: str) -> ctypes.CDLL | None:
    """What a source was compiled to for a kind of processor; none where it was not, or of another source."""
    place, file = Path(__file__).parent, Path(__file__).parent / source
    try:
        found = ctypes.CDLL(str(place / f"_{file.stem}_{processor}.so"))
        compiled_from = getattr(found, f"{file.stem}_source")
        known_by = hashlib.sha256(file.read_bytes() + (place / "lanes.h").read_bytes()).hexdigest()
    except (OSError, AttributeError):
        return None
    compiled_from.restype = ctypes.c_char_p
    return found if compiled_from().decode() == known_by else None
