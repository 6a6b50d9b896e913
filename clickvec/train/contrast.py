"""Equations 3 to 5 with the titles of the minibatch as negatives, and their gradient by hand, on the CPU.

`objective.py` has the readable version, and a test binds the two. There autograd goes through the square of queries and
titles some twenty times; here a thread goes through its rows a few times, in place.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from clickvec.train import crew
from clickvec.train.crew import Part


class BatchLosses(torch.autograd.Function):
    """l_r of each pair, from unit vectors: `positive` is a pair's title, and `counts` says which are its negatives."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        y_q: Tensor, y_d: Tensor, positive: Tensor, counts: Tensor, gamma: float,
    ) -> Tensor:  # fmt: skip
        """log(1 + Σ_j exp(-γ Δ_j)); the square becomes the share of each exp in that sum."""
        square, losses = y_q.new_empty(len(y_q), len(y_d)), y_q.new_empty(len(y_q))

        def compare(rows: Part) -> None:
            mine = slice(*rows)
            x = torch.mm(y_q[mine], y_d.T, out=square[mine])
            x.sub_(x.gather(1, positive[mine, None])).mul_(gamma)
            x.masked_fill_(~counts[mine], -torch.inf)
            top = x.amax(dim=1, keepdim=True).clamp_(min=0)  # the 1 in the sum is exp(0)
            total = x.sub_(top).exp_().sum(dim=1, keepdim=True).add_(torch.exp(-top))
            x.div_(total)
            torch.add(top[:, 0], total[:, 0].log(), out=losses[mine])

        crew.each(compare, crew.shares(range(len(y_q) + 1)))
        ctx.save_for_backward(y_q, y_d, positive, square)
        ctx.gamma = gamma
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Once, as the gradient of the cosines takes the place of the shares."""
        y_q, y_d, positive, square = ctx.saved_tensors
        d_q = torch.empty_like(y_q)

        def back(rows: Part) -> Tensor:
            mine = slice(*rows)
            x = square[mine].mul_(gradient[mine, None] * ctx.gamma)
            x.scatter_add_(1, positive[mine, None], -x.sum(dim=1, keepdim=True))
            torch.mm(x, y_d, out=d_q[mine])
            return torch.mm(x.T, y_q[mine])

        first, *others = crew.each(back, crew.shares(range(len(y_q) + 1)))
        for other in others:
            first += other
        return d_q, first, None, None, None


def batch_losses(gamma: float, y_q: Tensor, y_d: Tensor, positive: Tensor, counts: Tensor) -> Tensor:
    """`losses` of `objective.py` for every title of the minibatch against every query."""
    found: Tensor = BatchLosses.apply(y_q, y_d, positive, counts, gamma)  # type: ignore[no-untyped-call]
    return found
