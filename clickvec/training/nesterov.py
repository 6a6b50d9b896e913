"""The paper's optimizer: equation 6 with its momentum schedule, and the gradient re-normalisation of Algorithm 1."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import Recipe


def momentum(recipe: Recipe, update: int, updates: int) -> float:
    """μ at one of all updates: `momentum_ends` in the first and the last `ends_share` of them, `momentum` between."""
    from_an_end = min(update, updates - 1 - update)
    return recipe.momentum_ends if from_an_end < recipe.ends_share * updates else recipe.momentum


def norm_scale(gradients: Sequence[Tensor], threshold: float) -> Tensor | None:
    """What brings the gradient of one tower down to the norm `threshold` when it is longer; of 0 there is none."""
    if threshold == 0:
        return None
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients]))
    return torch.where(norm > threshold, threshold / norm, torch.ones_like(norm))


class Nesterov:
    """Equation 6: ΔΛ_k = μ ΔΛ_{k-1} - ε ∇L(Λ_{k-1} + μ ΔΛ_{k-1}), and Λ_k = Λ_{k-1} + ΔΛ_k."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        self.change = [torch.zeros_like(parameter) for parameter in self.parameters]  # ΔΛ

    @torch.no_grad()
    def look_ahead(self, mu: float) -> None:
        """Move to Λ_{k-1} + μ ΔΛ_{k-1}, where the gradient is to be taken."""
        torch._foreach_mul_(self.change, mu)
        torch._foreach_add_(self.parameters, self.change)

    @torch.no_grad()
    def update(self, step: float) -> None:
        """From there to Λ_k: the look-ahead has added μ ΔΛ_{k-1} already, so what is left is -ε ∇L."""
        both = zip(self.parameters, self.change, strict=True)
        moved = [(one, change, one.grad) for one, change in both if one.grad is not None]
        if moved:
            parameters, changes, gradients = zip(*moved, strict=True)
            torch._foreach_add_(parameters, gradients, alpha=-step)
            torch._foreach_add_(changes, gradients, alpha=-step)


class Decay:
    """What equation 6 does to a weight whose gradient stays zero, for a schedule μ_0, μ_1, ... known in advance.

    After the updates a, ..., b - 1 its change is P ΔΛ and the weight is Λ + S ΔΛ, where P(a, b) = μ_a ... μ_{b-1} and
    S(a, b) = P(a, a+1) + P(a, a+2) + ... + P(a, b). Let T(a) = S(a, end), which is μ_a (1 + T(a+1)), from the end of
    the schedule backwards; then S(a, b) = T(a) - P(a, b) T(b): one formula for weights of every age.
    """

    def __init__(self, momenta: Sequence[float]) -> None:
        mu = np.asarray(momenta, np.float64)
        # Logarithms, since the product of a whole run is too small for a float; a momentum of 0 has none.
        logs = np.log(np.where(mu > 0, mu, 1.0))
        self.logs = np.concatenate(([0.0], np.cumsum(logs)))
        self.zeros = np.concatenate(([0], np.cumsum(mu == 0)))
        total = [0.0]
        for one in mu[::-1].tolist():
            total.append(one * (1 + total[-1]))
        self.totals = np.array(total[::-1])

    def between(self, since: NDArray[np.int64], until: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """P and S from the updates `since` (of each weight) to `until`."""
        product = np.exp(self.logs[until] - self.logs[since]) * (self.zeros[until] == self.zeros[since])
        return product, self.totals[since] - product * self.totals[until]
