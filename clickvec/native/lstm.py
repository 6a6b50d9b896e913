"""Call `lstm.c`: the compiled form of the LSTM-RNN."""

import ctypes
from array import array
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.config import POOLINGS
from clickvec.native.loader import choose, library, ready
from clickvec.text.ragged import Ragged

Array = NDArray[np.float32]
_POINTER, _INT, _LONG, _FLOAT = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_float
_READ = (
    _POINTER, _LONG, _LONG, _POINTER, _INT, _INT, _INT, _INT, _POINTER, _POINTER, _POINTER, _LONG, _POINTER,
)  # fmt: skip
_ROWS = (_POINTER, _POINTER, _FLOAT, _INT, _POINTER, _POINTER, _LONG, _POINTER, _LONG)


class Kernel(NamedTuple):
    """The compiled functions for one kind of processor."""

    processor: str
    lanes: int  # floats in a SIMD register
    read: Callable[..., int]  # runs without the GIL, as the next one does
    sum_rows: Callable[..., None]

    def pack(self, W_rec: Array) -> Array:
        """Return recurrent weights (gates, cells, cells) in the order of C: (blocks of cells, cells, gates, lanes)."""
        gates, cells, _ = W_rec.shape
        blocks = -(-cells // self.lanes)
        padded = np.zeros((gates, cells, blocks * self.lanes), np.float32)
        padded[:, :, :cells] = W_rec
        return np.ascontiguousarray(padded.reshape(gates, cells, blocks, self.lanes).transpose(2, 1, 0, 3))

    def run(self, table: Array, texts: Ragged, packed: Array, pooling: str, backwards: bool) -> Array:
        """Return the doubled embeddings of texts in one direction, (texts, cells). The table is float32."""
        if table.strides[2] != table.itemsize or not table.flags.aligned:
            table = ready(table, np.float32)
        tokens, offsets = ready(texts.values, np.int32), ready(texts.offsets, np.int64)
        order = np.argsort(-texts.lengths, kind="stable").astype(np.int64, copy=False)
        pointers = tokens.ctypes.data, offsets.ctypes.data, order.ctypes.data
        return self._read(table, packed, pooling, backwards, pointers, len(order))

    def run_one(self, table: Array, tokens: list[int], packed: Array, pooling: str, backwards: bool) -> Array:
        """Return the same for one text, (cells,). It avoids NumPy where it can: small arrays are slow to make."""
        ids, offsets, order = array("i", tokens), array("q", (0, len(tokens))), array("q", (0,))
        pointers = ids.buffer_info()[0], offsets.buffer_info()[0], order.buffer_info()[0]
        embedding: Array = self._read(table, packed, pooling, backwards, pointers, 1)[0]
        return embedding

    def _read(
        self, table: Array, packed: Array, pooling: str, backwards: bool, pointers: tuple[int, int, int], count: int
    ) -> Array:
        gates, _, cells = table.shape
        embeddings = np.zeros((count, cells), np.float32)
        failed = self.read(
            table.ctypes.data, table.strides[0] // 4, table.strides[1] // 4, packed.ctypes.data, cells, gates,
            POOLINGS.index(pooling), backwards, *pointers, count, embeddings.ctypes.data,
        )  # fmt: skip
        if failed:
            raise MemoryError
        return embeddings

    def write_rows(self, out: Array, matrix: Array, trigrams: Ragged, bias: Array, scale: float) -> None:
        """Write (W l(t) + b) * scale of tokens for one gate to `out`, (tokens, cells), with the same bits as NumPy."""
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


def load(processor: str) -> Kernel | None:
    """Return the kernel for this kind of processor; None if it was not compiled or the processor cannot run it."""
    compiled = library("lstm.c", processor)
    if compiled is None or not compiled.lstm_runs_here():
        return None
    compiled.lstm_read.argtypes, compiled.lstm_rows.argtypes = _READ, _ROWS
    compiled.lstm_rows.restype = None
    return Kernel(processor, compiled.lstm_lanes(), compiled.lstm_read, compiled.lstm_rows)
