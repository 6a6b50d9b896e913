"""How an input matrix is updated. A minibatch touches few of its rows, and the gradient of all others is zero.

- `Whole`: the matrix is a weight like any other. This is the way without compiled code.
- `Dense`: the gradient is taken at a copy of the touched rows, then expanded for an optimizer that updates every row.
- `Lazy`: the paper's Nesterov. A row without gradient still moves: its change decays by μ at each update and is added
  to the row. That has a closed form, so a row is left alone until it is touched, and then makes all its moves at once.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import Recipe
from clickvec.training.cpu import compiled
from clickvec.training.cpu.compiled import Kernel
from clickvec.training.optimizers import Decay, momentum
from clickvec.training.towers import Batch


def make(recipe: Recipe, matrix: Tensor, updates: int) -> "Whole":
    """Return the fastest way to update a matrix: `Lazy`, unless all rows are needed at each update."""
    kernel = compiled.kernel()
    if kernel is None or not kernel.takes(matrix):
        return Whole(matrix)
    if recipe.optimizer == "nesterov":
        return Lazy(matrix, [momentum(recipe, k, updates) for k in range(updates)], kernel)
    return Dense(matrix, kernel)


class Whole:
    """An input matrix that is updated like any other weight."""

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix

    def look_ahead(
        self, update: int, batches: Sequence[Batch], of_others: Sequence[Tensor] = ()
    ) -> tuple[Tensor, list[Batch]]:
        """Return the matrix at which to take the gradient, and the batches with trigrams numbered as its rows.

        `of_others` are trigrams whose rows move too, because another process has texts with them.
        """
        self.matrix.grad = None
        return self.matrix, list(batches)

    def point(self) -> Tensor:
        """Return that matrix."""
        return self.matrix

    def gradient(self) -> Tensor | None:
        """Return the gradient at that matrix."""
        return self.point().grad

    def before_update(self, scale: Tensor | None) -> None:
        """Scale the gradient, and prepare for the optimizer, which updates all other weights next."""
        gradient = self.gradient()
        if gradient is not None and scale is not None:
            gradient.mul_(scale)

    def update(self, update: int, learning_rate: float) -> None:
        """Finish the update, after the optimizer."""

    def settle(self, updates: int) -> None:
        """Bring every row to its value after this many updates."""

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold besides the matrix."""
        return {}


class Dense(Whole):
    """The gradient of some rows, expanded to one matrix that is reused: to allocate it each time takes longer."""

    def __init__(self, matrix: Tensor, kernel: Kernel) -> None:
        super().__init__(matrix)
        self._kernel, self._gradient = kernel, torch.zeros_like(matrix)
        self._rows, self._near = torch.zeros(0, dtype=torch.int64), matrix[:0].detach()

    def look_ahead(
        self, update: int, batches: Sequence[Batch], of_others: Sequence[Tensor] = ()
    ) -> tuple[Tensor, list[Batch]]:
        """Return a copy of the rows that the batches touch."""
        self.matrix.grad = None
        self._rows, local = touched(self._kernel, batches, len(self.matrix), of_others)
        self._near = self.matrix.detach().index_select(0, self._rows).requires_grad_()
        return self._near, local

    def point(self) -> Tensor:
        """Return that copy."""
        return self._near

    def before_update(self, scale: Tensor | None) -> None:
        """Scale the gradient and expand it for the optimizer."""
        super().before_update(scale)
        if self._near.grad is not None:  # NumPy is several times faster than torch's index_copy_
            self._gradient.numpy()[self._rows.numpy()] = self._near.grad.numpy()
        self.matrix.grad = self._gradient

    def update(self, update: int, learning_rate: float) -> None:
        """Set the gradient to zero again."""
        self._gradient.numpy()[self._rows.numpy()] = 0


class Lazy(Whole):
    """Equation 6, row by row. `since` counts the updates that a row has made."""

    def __init__(self, matrix: Tensor, momenta: Sequence[float], kernel: Kernel) -> None:
        super().__init__(matrix)
        self._kernel, self._decay = kernel, Decay(momenta)
        self.change, self.since = torch.zeros_like(matrix), torch.zeros(len(matrix), dtype=torch.int64)
        self._rows, self._decayed, self._scale = torch.zeros(0, dtype=torch.int64), np.zeros(0), 1.0
        self._near = matrix[:0].detach()

    def look_ahead(
        self, update: int, batches: Sequence[Batch], of_others: Sequence[Tensor] = ()
    ) -> tuple[Tensor, list[Batch]]:
        """Return the rows that the batches touch, at Λ + μ ΔΛ."""
        self._rows, local = touched(self._kernel, batches, len(self.matrix), of_others)
        self._decayed, self._near = self._catch_up(self._rows, update + 1)
        self._near.requires_grad_()
        return self._near, local

    def point(self) -> Tensor:
        """Return these rows."""
        return self._near

    def before_update(self, scale: Tensor | None) -> None:
        """Keep the scale of the gradient: `update` multiplies the learning rate by it."""
        self._scale = 1.0 if scale is None else float(scale)

    @torch.no_grad()
    def update(self, update: int, learning_rate: float) -> None:
        """Move the touched rows along their gradient and write them back. The optimizer does not know this matrix."""
        near = self._near.detach()
        gradient = torch.zeros_like(near) if self._near.grad is None else self._near.grad
        self._write(self._rows, self._decayed, near, gradient, self._scale * learning_rate)
        self.since[self._rows] = update + 1

    @torch.no_grad()
    def settle(self, updates: int) -> None:
        """Bring all rows up to date, some thousand at a time to save memory."""
        for rows in torch.arange(len(self.matrix)).tensor_split(1 + len(self.matrix) // 4096):
            decayed, near = self._catch_up(rows, updates)
            self._write(rows, decayed, near, torch.zeros_like(near), 0.0)
        self.since.fill_(updates)

    def _catch_up(self, rows: Tensor, updates: int) -> tuple[NDArray[np.float64], Tensor]:
        """Return P of rows, and the rows after the updates without a gradient that they have missed: Λ + S ΔΛ."""
        decayed, moved = self._decay.between(self.since[rows].numpy(), updates)
        S = torch.from_numpy(moved).to(self.matrix.dtype)
        return decayed, self._kernel.look_ahead(self.matrix.detach(), self.change, rows, S)

    def _write(
        self, rows: Tensor, decayed: NDArray[np.float64], near: Tensor, gradient: Tensor, learning_rate: float
    ) -> None:
        """Write the rows of ΔΛ = P ΔΛ - ε ∇L, and of Λ, from where they look ahead."""
        P = torch.from_numpy(decayed).to(self.matrix.dtype)
        matrix = self.matrix.detach()
        self._kernel.step(matrix, self.change, rows, P, near, gradient.contiguous(), learning_rate)

    def tensors(self) -> dict[str, Tensor]:
        """Return ΔΛ and its age. A checkpoint does not settle the rows: that would change the last bits."""
        return {"change": self.change, "since": self.since}


def touched(
    kernel: Kernel, batches: Sequence[Batch], trigrams: int, of_others: Sequence[Tensor] = ()
) -> tuple[Tensor, list[Batch]]:
    """Return the rows that trigrams touch, in order, and the batches with trigrams numbered as these rows."""
    rows, numbered = kernel.touched([*(batch.trigrams for batch in batches), *of_others], trigrams)
    both = zip(batches, numbered[: len(batches)], strict=True)
    return rows, [batch._replace(trigrams=ids) for batch, ids in both]
