"""The LSTM-RNN of `forward.py`, rearranged for speed. Read that file first; a test compares the two.

This gives vectors and no trace. What makes it fast:

- The gates are stored one after the other, (gates, texts, cells), so that each is one block of memory, and one call of
  tanh computes all of them: σ(x) = (1 + tanh(x / 2)) / 2. The weights are halved beforehand, which is exact.
- Gates, state and output are kept doubled (2i = 1 + tanh(x / 2), C = 2c, Y = 2y), which saves multiplications.
- The bias is part of the table of known tokens: a row is W l(t) + b.
- Texts are sorted by length and processed CHUNK at a time, few enough for the processor's cache.

Towers without such a form (peepholes, RNN, DSSM, CLSM and any new kind) run through `forward.run`. Where `lstm.c` is
compiled, it replaces the NumPy code below for float32; the results differ in the last bits.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from clickvec.config import Tower
from clickvec.model import forward
from clickvec.model.forward import Array, Weights
from clickvec.model.packing import chunks
from clickvec.model.projection import project
from clickvec.native import lstm as native
from clickvec.native.loader import ready
from clickvec.text.ragged import Ragged, ragged

CHUNK = 384  # texts that are processed together
BLOCK = 96  # the most texts in one matrix product: small products stay in the cache
ALONE = 2**18  # OpenBLAS uses one thread for products of up to this many multiplications; more threads would be slower
ONE, HALF = np.float32(1), np.float32(0.5)


def block_size(cells: int) -> int:
    """Return how many texts to put in one product: few enough for one thread of BLAS, unless that is too few."""
    return min(BLOCK, ALONE // cells**2) if ALONE // cells**2 >= 16 else BLOCK


def has_fast_form(tower: Tower) -> bool:
    """Return whether this file and `lstm.c` can run such a tower."""
    return tower.kind in ("lstm", "bilstm") and not tower.peepholes


class FastTower:
    """A tower ready to run. Its table of tokens is (parts, tokens, width), with one part per gate and direction."""

    def __init__(self, tower: Tower, weights: Weights) -> None:
        self._tower, self._weights = tower, weights
        self._directions: list[_Lstm] = []  # empty: `forward.run` does the work
        if has_fast_form(tower):
            both = [forward.direction(weights, name) for name in ("forward", "backward")]
            one_way = both if tower.kind == "bilstm" else [weights]
            self._directions = [_Lstm(tower, w, backwards=number == 1) for number, w in enumerate(one_way)]
            self._bias = np.concatenate([lstm.bias for lstm in self._directions])
            self._scale = np.concatenate([lstm.scale for lstm in self._directions])
        self.parts = sum(lstm.gates for lstm in self._directions) or 1
        inputs = [np.asarray(weight) for name, weight in weights.items() if name.endswith(".input")]
        is_float32 = all(matrix.dtype == np.float32 for matrix in inputs)
        self._inputs_for_c = [ready(matrix, np.float32) for matrix in inputs] if is_float32 and self._directions else []

    def write_rows(self, table: Array, trigrams: Ragged) -> None:
        """Write W l(t) + b of tokens into their part of the table, (parts, tokens, width)."""
        kernel = native.kernel() if self._inputs_for_c else None
        if kernel is None:
            table[:] = self.rows(project(self._weights, trigrams))
            return
        width = table.shape[2]
        for part, matrix in enumerate(self._inputs_for_c):
            bias, scale = self._bias[part * width : (part + 1) * width], float(self._scale[part * width])
            kernel.write_rows(table[part], matrix, trigrams, bias, scale)

    def rows(self, projections: Array) -> Array:
        """Return rows for the table, made from the projections W l(t) of tokens, which are overwritten."""
        if self._directions:
            projections += self._bias
            projections *= self._scale
        return projections.reshape(len(projections), self.parts, -1).transpose(1, 0, 2)

    def run(self, table: Array, texts: Ragged) -> Array:
        """Return what `forward.run` returns: the vectors of texts, (texts, dimensions), before scaling to length 1."""
        if not self._directions:
            return forward.run(self._tower, self._weights, table[0], texts)
        return _side_by_side([lstm.run(part, texts) for lstm, part in self._tables(table)])

    def run_one(self, table: Array, tokens: list[int]) -> Array:
        """Return the vector of one text with at least one token, (dimensions,)."""
        kernel = native.kernel() if self._directions and table.dtype == np.float32 else None
        if kernel is None:
            vector: Array = self.run(table, ragged([tokens]))[0]
            return vector
        return _side_by_side([lstm.run_one(kernel, part, tokens) for lstm, part in self._tables(table)])

    def _tables(self, table: Array) -> "Iterator[tuple[_Lstm, Array]]":
        """Return each direction and its part of the table."""
        gates = self._directions[0].gates
        return zip(self._directions, (table[:gates], table[gates:]), strict=False)


def _side_by_side(halves: list[Array]) -> Array:
    return halves[0] if len(halves) == 1 else np.concatenate(halves, axis=-1)


class _Lstm:
    """Equation 2 in one direction, without peepholes."""

    def __init__(self, tower: Tower, w: Weights, backwards: bool) -> None:
        names, cells = forward.gates(tower), tower.cells
        self._tower, self._backwards = tower, backwards
        self.gates, self._block = len(names), block_size(cells)
        scale = [ONE if name == "cell_input" else HALF for name in names]
        self.scale = np.repeat(scale, cells)
        self.bias = np.concatenate([np.asarray(w[f"{name}.bias"]) for name in names])
        W_rec = np.concatenate([w[f"{name}.recurrent"] for name in names]).T * (HALF * self.scale)  # half, for Y = 2y
        self._W_rec = np.ascontiguousarray(W_rec.reshape(cells, -1, cells).transpose(1, 0, 2))
        self._packed: tuple[native.Kernel, Array] | None = None  # W_rec as the compiled code needs it

    def run(self, table: Array, texts: Ragged) -> Array:
        """Return the embeddings of texts, (texts, cells)."""
        if table.dtype == np.float32 and (kernel := native.kernel()):
            doubled = kernel.run(table, texts, self._weights_for(kernel), self._tower.pooling, self._backwards)
        else:
            doubled = np.zeros((len(texts.lengths), self._tower.cells), table.dtype)
            for numbers, tokens in chunks(texts, CHUNK, backwards=self._backwards):
                doubled[numbers] = self._run_chunk(table, tokens)
        doubled *= HALF
        return doubled

    def _run_chunk(self, table: Array, tokens: list[NDArray[np.int32]]) -> Array:
        """Return the doubled embeddings of a chunk of texts, longest first. `tokens[t]` are their tokens at time t."""
        last = np.empty((len(tokens[0]), self._tower.cells), table.dtype)  # Y; it stays where a text has ended
        pooled = last if self._tower.pooling == "last" else np.empty_like(last)
        Y, C = last, np.zeros_like(last)
        for t, ids in enumerate(tokens):
            n, a = len(ids), table.take(ids, axis=1)
            if t > 0:
                a += self._recurrent(Y[:n])
            np.tanh(a, out=a)
            y_g, i, *f, o = a
            C = C[:n]
            i += ONE
            i *= y_g
            if f:
                f[0] += ONE
                f[0] *= HALF
                C *= f[0]
            C += i
            o += ONE
            Y = np.multiply(o, np.tanh(HALF * C), out=last[:n])
            if pooled is not last:
                forward.pool(self._tower, pooled[:n], Y, t)
        return pooled

    def _recurrent(self, Y: Array) -> Array:
        """Return W_rec y(t), (gates, texts, cells)."""
        product = np.empty((self.gates, *Y.shape), Y.dtype)
        for first in range(0, len(Y), self._block):
            rows = slice(first, first + self._block)
            np.matmul(Y[rows], self._W_rec, out=product[:, rows])
        return product

    def run_one(self, kernel: native.Kernel, table: Array, tokens: list[int]) -> Array:
        """Return the embedding of one text, (cells,), by the compiled code."""
        doubled = kernel.run_one(table, tokens, self._weights_for(kernel), self._tower.pooling, self._backwards)
        doubled *= HALF
        return doubled

    def _weights_for(self, kernel: native.Kernel) -> Array:
        if self._packed is None or self._packed[0] is not kernel:
            self._packed = kernel, kernel.pack(self._W_rec)
        return self._packed[1]
