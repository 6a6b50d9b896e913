"""The input matrix of a tower, of which a minibatch touches few rows: how these are updated, and the others.

The gradient is taken at a copy of the rows that the minibatch touches; for all the others it is zero.

- `Dense`: the gradient becomes a whole matrix for the optimizer, which updates every row at each update.
- `Lazy`: the paper's Nesterov. A row without gradient goes on by itself: its change decays by μ at each update, and is
  added to the row. That has a closed form, so that a row waits until it is touched, and then does all of it at once.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import Recipe
from clickvec.training.cpu import compiled
from clickvec.training.cpu.compiled import Kernel
from clickvec.training.nesterov import Decay, momentum
from clickvec.training.optimizers import learning_rate_at
from clickvec.training.towers import Batch


class Input(Protocol):
    """What the training loop knows of an input matrix."""

    def look_ahead(self, update: int, batches: Sequence[Batch]) -> tuple[Tensor, list[Batch]]:
        """Called before the gradient is taken: a matrix to take it at, and the batches with trigrams as its rows."""

    def gradient(self) -> Tensor | None:
        """The gradient there."""

    def scale(self, by: Tensor) -> None:
        """Scale it."""

    def before_update(self) -> None:
        """Called before the optimizer updates the other weights."""

    def update(self, update: int) -> None:
        """Called after it has."""

    def settle(self, updates: int) -> None:
        """Bring every row to where it is after so many updates."""

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint must keep."""


def make(recipe: Recipe, matrix: Tensor, updates: int) -> Input:
    """Lazy where no one needs all rows at each update."""
    if matrix.device.type != "cpu":
        return Whole(matrix)
    if recipe.optimizer == "nesterov" and not recipe.weight_average:
        return Lazy(matrix, [momentum(recipe, k, updates) for k in range(updates)], recipe, updates)
    return Dense(matrix)


class Whole:
    """The matrix itself, as any other weight."""

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def look_ahead(self, update: int, batches: Sequence[Batch]) -> tuple[Tensor, list[Batch]]:
        """The matrix, and the batches as they are."""
        self._matrix.grad = None
        return self._matrix, list(batches)

    def gradient(self) -> Tensor | None:
        """Of all rows."""
        return self._matrix.grad

    def scale(self, by: Tensor) -> None:
        """At once."""
        gradient = self.gradient()
        if gradient is not None:
            gradient.mul_(by)

    def before_update(self) -> None:
        """Nothing to do, here and below."""

    def update(self, update: int) -> None:
        """Nothing: the optimizer does it."""

    def settle(self, updates: int) -> None:
        """Nothing: it is."""

    def tensors(self) -> dict[str, Tensor]:
        """None of its own."""
        return {}


class Dense(Whole):
    """Rows for the gradient, a whole matrix for the optimizer: one that is kept, as to make it anew takes longer."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__(matrix)
        self._gradient = torch.zeros_like(matrix)
        self._rows, self._near = np.zeros(0, np.int64), matrix[:0].detach()

    def look_ahead(self, update: int, batches: Sequence[Batch]) -> tuple[Tensor, list[Batch]]:
        """The rows that the batches touch."""
        self._matrix.grad = None
        self._rows, local = touched(batches, len(self._matrix))
        self._near = self._matrix.detach().index_select(0, torch.from_numpy(self._rows)).requires_grad_()
        return self._near, local

    def gradient(self) -> Tensor | None:
        """Of the touched rows."""
        return self._near.grad

    def before_update(self) -> None:
        """Lay the gradient out for the optimizer."""
        if self._near.grad is not None:
            _put(self._gradient, self._rows, self._near.grad)
        self._matrix.grad = self._gradient

    def update(self, update: int) -> None:
        """Take it away again."""
        self._gradient.numpy()[self._rows] = 0


class Lazy:
    """Equation 6, row by row: `since` counts the updates that a row has behind it."""

    def __init__(self, matrix: Tensor, momenta: Sequence[float], recipe: Recipe, updates: int) -> None:
        self.matrix, self._decay, self._recipe, self._updates = matrix, Decay(momenta), recipe, updates
        self.change, self.since = torch.zeros_like(matrix), torch.zeros(len(matrix), dtype=torch.int64)
        self._rows, self._decayed, self._scale = np.zeros(0, np.int64), np.zeros(0), 1.0
        self._near = matrix[:0].detach()

    def look_ahead(self, update: int, batches: Sequence[Batch]) -> tuple[Tensor, list[Batch]]:
        """The rows that the batches touch, at Λ + μ ΔΛ."""
        self._scale = 1.0
        self._rows, local = touched(batches, len(self.matrix))
        self._decayed, moved = self._decay.between(self.since.numpy()[self._rows], update + 1)
        self._near = _look_ahead(self.matrix, self.change, self._rows, moved).requires_grad_()
        return self._near, local

    def gradient(self) -> Tensor | None:
        """Of the touched rows."""
        return self._near.grad

    def scale(self, by: Tensor) -> None:
        """With the step."""
        self._scale = float(by)

    def before_update(self) -> None:
        """Nothing: the optimizer does not know of this matrix."""

    @torch.no_grad()
    def update(self, update: int) -> None:
        """Take the step, and put the rows back."""
        size, near = learning_rate_at(self._recipe, update, self._updates), self._near.detach()
        gradient = torch.zeros_like(near) if self._near.grad is None else self._near.grad
        _step(self.matrix, self.change, self._rows, self._decayed, near, gradient, self._scale * size)
        self.since.numpy()[self._rows] = update + 1

    @torch.no_grad()
    def settle(self, updates: int) -> None:
        """All rows, some thousand at a time to spare memory."""
        for rows in np.array_split(np.arange(len(self.matrix)), 1 + len(self.matrix) // 4096):
            decayed, moved = self._decay.between(self.since.numpy()[rows], updates)
            near = _look_ahead(self.matrix, self.change, rows, moved)
            _step(self.matrix, self.change, rows, decayed, near, torch.zeros_like(near), 0.0)
        self.since.fill_(updates)

    def tensors(self) -> dict[str, Tensor]:
        """ΔΛ, and how old it is: a checkpoint does not settle the rows, as that would change the last bits."""
        return {"change": self.change, "since": self.since}


def touched(batches: Sequence[Batch], trigrams: int) -> tuple[NDArray[np.int64], list[Batch]]:
    """The rows that some batches touch, in order, and the batches with trigrams numbered as these rows."""
    if kernel := compiled.kernel():
        found, places = kernel.touched([batch.trigrams for batch in batches], trigrams)
        return found.numpy(), [batch._replace(trigrams=one) for batch, one in zip(batches, places, strict=True)]
    used = np.zeros(trigrams, np.bool_)
    for batch in batches:
        used[batch.trigrams.numpy()] = True
    place, rows = np.cumsum(used) - 1, np.flatnonzero(used)
    return rows, [batch._replace(trigrams=torch.from_numpy(place[batch.trigrams.numpy()])) for batch in batches]


def _look_ahead(matrix: Tensor, change: Tensor, rows: NDArray[np.int64], moved: NDArray[np.float64]) -> Tensor:
    """The rows, as updates without a gradient since their last one leave them: Λ + S ΔΛ."""
    matrix, places, S = matrix.detach(), torch.from_numpy(rows), torch.from_numpy(moved).to(matrix.dtype)
    if kernel := _kernel(matrix, change):
        return kernel.look_ahead(matrix, change, places, S)
    return matrix.index_select(0, places).addcmul_(change.index_select(0, places), S[:, None])


def _step(
    matrix: Tensor, change: Tensor, rows: NDArray[np.int64], decayed: NDArray[np.float64], near: Tensor,
    gradient: Tensor, size: float,
) -> None:  # fmt: skip
    """From there one step: ΔΛ = P ΔΛ - ε ∇L, and Λ."""
    matrix, places, P = matrix.detach(), torch.from_numpy(rows), torch.from_numpy(decayed).to(matrix.dtype)
    if kernel := _kernel(matrix, change):
        kernel.step(matrix, change, places, P, near, gradient.contiguous(), size)
        return
    _put(matrix, rows, near.add(gradient, alpha=-size))
    _put(change, rows, change.index_select(0, places).mul_(P[:, None]).add_(gradient, alpha=-size))


def _kernel(*matrices: Tensor) -> Kernel | None:
    """What is compiled, if it takes these; it writes whole registers to where torch's own memory begins."""
    found = compiled.kernel()
    as_made = all(one.is_contiguous() and compiled.is_aligned(one) for one in matrices)
    return found if found and as_made and found.takes(*matrices) else None


def _put(matrix: Tensor, rows: NDArray[np.int64], values: Tensor) -> None:
    """NumPy copies rows several times faster than torch's index_copy_ does."""
    matrix.detach().numpy()[rows] = values.numpy()
