"""The paper's optimizer: equation 6 with its momentum schedule, and the gradient re-normalisation of Algorithm 1."""

from collections.abc import Sequence

import torch
from torch import Tensor

from clickvec.config import Recipe


def momentum(recipe: Recipe, update: int, updates: int) -> float:
    """μ at one of all updates: `momentum_ends` in the first and the last `ends_share` of them, `momentum` between."""
    from_an_end = min(update, updates - 1 - update)
    return recipe.momentum_ends if from_an_end < recipe.ends_share * updates else recipe.momentum


def renormalise(gradients: Sequence[Tensor], threshold: float) -> None:
    """Scale the gradient of one tower down to the norm `threshold` when it is longer; a threshold of 0 is none."""
    if threshold == 0:
        return
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    scale = torch.where(norm > threshold, threshold / norm, torch.ones_like(norm))
    for gradient in gradients:
        gradient.mul_(scale)


class Nesterov:
    """Equation 6: ΔΛ_k = μ ΔΛ_{k-1} - ε ∇L(Λ_{k-1} + μ ΔΛ_{k-1}), and Λ_k = Λ_{k-1} + ΔΛ_k."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        self.change = [torch.zeros_like(parameter) for parameter in self.parameters]  # ΔΛ

    @torch.no_grad()
    def look_ahead(self, mu: float) -> None:
        """Move to Λ_{k-1} + μ ΔΛ_{k-1}, where the gradient is to be taken."""
        for parameter, change in zip(self.parameters, self.change, strict=True):
            change.mul_(mu)
            parameter.add_(change)

    @torch.no_grad()
    def update(self, step: float) -> None:
        """From there to Λ_k: the look-ahead has added μ ΔΛ_{k-1} already, so what is left is -ε ∇L."""
        for parameter, change in zip(self.parameters, self.change, strict=True):
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=-step)
                change.add_(parameter.grad, alpha=-step)
