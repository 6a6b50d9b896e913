"""What a teacher adds to the loss: the model should find the same texts alike as the teacher does.

For a title, the cosines with the other texts of a minibatch become a distribution: softmax(γ R) with the vectors of the
model, and softmax(γ' R') with those of the teacher. The loss of the title is the divergence of the first from the
second. In each minibatch the teacher teaches some random titles of the log and the catalogue.
"""

import dataclasses
import logging
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from clickvec.config import Recipe

log = logging.getLogger(__name__)
UNKNOWN_AGREEMENT = 0.2  # of a teacher that knows the texts of no pair; its weight of 0.3 has harmed no log
HIDDEN = -1e4  # a score whose exponential is 0


def teacher_loss(
    recipe: Recipe, pairs: int | Tensor, vectors: Tensor, teacher: Tensor, taught: Tensor, known: Tensor
) -> Tensor:
    """Return the teacher's part of the loss of a minibatch, which counts as many times as there are pairs.

    `vectors` are the unit vectors of its texts, and `teacher` those of the teacher; `known` tells which texts it has.
    `taught` are the texts whose divergence is taken.
    """
    others = known & (torch.arange(len(vectors), device=vectors.device) != taught[:, None])
    # functional.embedding is vectors[taught] with a gradient that does not depend on the order of threads.
    cosines, targets = functional.embedding(taught, vectors) @ vectors.T, teacher[taught] @ teacher.T
    per_title: Tensor = Divergence.apply(  # type: ignore[no-untyped-call]
        cosines, targets, others, recipe.gamma, recipe.teacher_gamma
    )
    return recipe.teacher_weight * pairs / len(taught) * (per_title * known[taught]).sum()


def weigh_teacher(recipe: Recipe, agreement: float | None) -> Recipe:
    """Return the recipe with the weight that a teacher gets, given its agreement with the clicks, and log it."""
    weight = recipe.teacher_weight * (UNKNOWN_AGREEMENT if agreement is None else agreement)
    if agreement is None:
        known = "The teacher has vectors for no query with its clicked title, so nothing can be compared"
    else:
        known = f"The teacher agrees with {100 * agreement:.0f}% of the clicks"
    log.info("%s; its weight in the loss is %.2f.", known, weight)
    return dataclasses.replace(recipe, teacher_weight=weight)


class Divergence(torch.autograd.Function):
    """Σ_j t_j log(t_j / p_j) of each row, with p = softmax(γ R) and t = softmax(γ' R') over the columns that count."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        cosines: Tensor, targets: Tensor, counts: Tensor, gamma: float, teacher_gamma: float,
    ) -> Tensor:  # fmt: skip
        """Return the divergence of each row. Its gradient by R is γ (p - t)."""
        log_p = torch.log_softmax(torch.where(counts, gamma * cosines, HIDDEN), dim=1)
        log_t = torch.log_softmax(torch.where(counts, teacher_gamma * targets, HIDDEN), dim=1)
        t = log_t.exp()
        ctx.save_for_backward(gamma * (log_p.exp() - t))
        return (t * (log_t - log_p)).sum(dim=1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_rows: Tensor) -> tuple[Tensor, None, None, None, None]:  # noqa: ANN401
        """Return the gradient by the cosines."""
        (gradient,) = ctx.saved_tensors
        return gradient * d_rows[:, None], None, None, None, None
