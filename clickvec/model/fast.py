"""The LSTM-RNN of `forward.py` once more, arranged for speed; read that one first. A test binds the two.

It gives vectors and no trace. How it is fast:

- The gates lie one behind the other, (gates, texts, cells), so that each is one block of memory, and all of them are
  squashed by one call of tanh: σ(x) = (1 + tanh(x / 2)) / 2. The weights are halved beforehand, which is exact.
- Gates, state and output are kept doubled (2i = 1 + tanh(x / 2), C = 2c, Y = 2y), so that little is left to scale.
- The bias is in the table of known tokens: a row is W l(t) + b.
- Texts are sorted by length and read CHUNK at a time, few enough for the processor's cache.
- One text alone, a query that someone waits for, is read as plain vectors, without the layout of a batch.

What has no such form (peepholes, the RNN, DSSM, CLSM) is left to `forward.run`. Where `lstm.c` is compiled (see
`compiled.py`), it does all this in place of the NumPy below, where numbers are float32; they differ in the last bits.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clickvec.config import Tower
from clickvec.model import forward
from clickvec.model.forward import Array, Weights
from clickvec.model.packing import pack
from clickvec.text.ragged import Ragged

if TYPE_CHECKING:
    from clickvec.native.lstm import Kernel

CHUNK = 384  # texts read side by side
BLOCK = 96  # texts in one product, at most: small ones stay in the cache
ALONE = 2**18  # multiplications up to which OpenBLAS does a product by itself; its threads would wait for each other
ONE, HALF = np.float32(1), np.float32(0.5)


def block_size(cells: int) -> int:
    """How many texts to have in one product: few enough for one thread of BLAS, unless that were too few."""
    return min(BLOCK, ALONE // cells**2) if ALONE // cells**2 >= 16 else BLOCK


def has_fast_form(tower: Tower) -> bool:
    """Whether there is more than `forward.run` for such a tower, in NumPy and compiled."""
    return tower.kind in ("lstm", "bilstm") and not tower.peepholes


class FastTower:
    """A tower that is ready to run; its table of tokens is (parts, tokens, width), a part for each gate."""

    def __init__(self, tower: Tower, weights: Weights) -> None:
        self._tower, self._weights = tower, weights
        self._is_plain = not has_fast_form(tower)
        ways = [forward.direction(weights, way) for way in _WAYS] if tower.kind == "bilstm" else [weights]
        self._ways = [] if self._is_plain else [_Lstm(tower, one_way) for one_way in ways]
        self.parts = sum(way.gates for way in self._ways) or 1
        if not self._is_plain:
            self._bias = np.concatenate([way.bias for way in self._ways])
            self._scale = np.concatenate([way.scale for way in self._ways])
        inputs = [_aligned(np.asarray(weight)) for name, weight in weights.items() if name.endswith(".input")]
        self._inputs = [matrix for matrix in inputs if matrix.dtype == np.float32 and matrix.flags.c_contiguous]
        self._is_float32 = len(self._inputs) == len(inputs)

    def write_rows(self, table: Array, trigrams: Ragged) -> None:
        """Write W l(t) + b of tokens into their part of the table, (parts, tokens, width)."""
        kernel = _kernel() if self._is_float32 and not self._is_plain else None
        if kernel is None:
            table[:] = self.rows(forward.project(self._weights, trigrams))
            return
        width = table.shape[2]
        for part, matrix in enumerate(self._inputs):
            place = slice(part * width, (part + 1) * width)
            kernel.write_rows(table[part], matrix, trigrams, self._bias[place], float(self._scale[part * width]))

    def rows(self, projections: Array) -> Array:
        """Rows for the table, from the projections W l(t) of tokens (see `forward.project`), which are written over."""
        if not self._is_plain:
            projections += self._bias
            projections *= self._scale
        return projections.reshape(len(projections), self.parts, -1).transpose(1, 0, 2)

    def run(self, table: Array, texts: Ragged) -> Array:
        """What `forward.run` gives: the vectors of texts, (texts, dimensions), before scaling to unit length."""
        if self._is_plain:
            return forward.run(self._tower, self._weights, table[0], texts)
        halves = []
        for k, way in enumerate(self._ways):
            halves.append(way.run(table[k * way.gates : (k + 1) * way.gates], texts, backwards=k == 1))
        return halves[0] if len(halves) == 1 else np.concatenate(halves, axis=1)

    def run_one(self, table: Array, tokens: list[int]) -> Array:
        """The vector of one text of at least one token, (dimensions,)."""
        if self._is_plain:
            ids = Ragged(np.array(tokens, np.int32), np.array([0, len(tokens)]))
            vector: Array = forward.run(self._tower, self._weights, table[0], ids)[0]
            return vector
        if len(self._ways) == 1:
            return self._ways[0].run_one(table, tokens, backwards=False)
        there, back = self._ways
        return np.concatenate(
            [
                there.run_one(table[: there.gates], tokens, backwards=False),
                back.run_one(table[there.gates :], tokens, backwards=True),
            ]
        )


_WAYS = ("forward", "backward")


def _aligned(matrix: Array) -> Array:
    """Return the matrix, or a copy if its address is no multiple of its item size, as C needs it."""
    return matrix if matrix.flags.aligned else matrix.copy()


def _kernel() -> "Kernel | None":
    """The compiled form, if there is one; looked for when the first text comes, as opening a model must be quick."""
    from clickvec.native.lstm import kernel

    return kernel()


class _Lstm:
    """Equation 2 in one direction, without peepholes."""

    def __init__(self, tower: Tower, w: Weights) -> None:
        names, cells = forward.gates(tower), tower.cells
        self._tower, self.gates, self._block = tower, len(names), block_size(cells)
        scale = [ONE if name == "cell_input" else HALF for name in names]
        self.scale = np.repeat(scale, cells)
        self.bias = np.concatenate([np.asarray(w[f"{name}.bias"]) for name in names])
        W_rec = np.concatenate([w[f"{name}.recurrent"] for name in names]).T * (HALF * self.scale)  # half, for Y = 2y
        self._W_rec_flat = np.ascontiguousarray(W_rec)
        self._W_rec = np.ascontiguousarray(W_rec.reshape(cells, -1, cells).transpose(1, 0, 2))
        self._packed: tuple[Kernel, Array] | None = None  # the same for the compiled form

    def run(self, table: Array, texts: Ragged, backwards: bool) -> Array:
        """The embeddings of texts, (texts, cells)."""
        if table.dtype == np.float32 and (kernel := _kernel()):
            found = kernel.run(table, texts, self._weights_for(kernel), self._tower.pooling, backwards)
        else:
            found = np.zeros((len(texts.lengths), self._tower.cells), table.dtype)
            for places, tokens in pack(texts, backwards=backwards).chunks(CHUNK):
                found[places] = self._run_chunk(table, tokens)
        found *= HALF
        return found

    def _run_chunk(self, table: Array, tokens: list[NDArray[np.int32]]) -> Array:
        """The embeddings, doubled, of a chunk of texts, longest first; `tokens[t]` are their tokens at time t."""
        last = np.empty((len(tokens[0]), self._tower.cells), table.dtype)  # Y; where a text has ended, it stays
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
        """W_rec y(t), (gates, texts, cells)."""
        product = np.empty((self.gates, *Y.shape), Y.dtype)
        for first in range(0, len(Y), self._block):
            some = slice(first, first + self._block)
            np.matmul(Y[some], self._W_rec, out=product[:, some])
        return product

    def run_one(self, table: Array, tokens: list[int], backwards: bool) -> Array:
        """The embedding of one text, (cells,)."""
        if table.dtype == np.float32 and (kernel := _kernel()):
            found = kernel.run_one(table, tokens, self._weights_for(kernel), self._tower.pooling, backwards)
        else:
            found = self._run_one(table.take(tokens[::-1] if backwards else tokens, axis=1))
        found *= HALF
        return found

    def _weights_for(self, kernel: "Kernel") -> Array:
        if self._packed is None or self._packed[0] is not kernel:
            self._packed = kernel, kernel.pack(self._W_rec)
        return self._packed[1]

    def _run_one(self, W_l: Array) -> Array:
        """The same doubled; each call of NumPy counts here, so all of them write in place."""
        cells = self._tower.cells
        a = np.empty(self.gates * cells, W_l.dtype)
        y_g, i, *f, o = a.reshape(-1, cells)
        sigmoids, C, Y, squashed = a[cells:], np.zeros(cells, W_l.dtype), np.zeros(cells, W_l.dtype), np.empty_like(y_g)
        pooled = Y if self._tower.pooling == "last" else np.empty_like(Y)
        for t, row in enumerate(W_l.transpose(1, 0, 2).reshape(-1, len(a))):
            np.dot(Y, self._W_rec_flat, a)
            np.add(a, row, a)
            np.tanh(a, a)
            np.add(sigmoids, ONE, sigmoids)
            np.multiply(i, y_g, i)
            if f:
                np.multiply(C, f[0], C)
                np.multiply(C, HALF, C)
            np.add(C, i, C)
            np.multiply(C, HALF, squashed)
            np.tanh(squashed, squashed)
            np.multiply(o, squashed, Y)
            if pooled is not Y:
                forward.pool(self._tower, pooled, Y, t)
        return pooled
