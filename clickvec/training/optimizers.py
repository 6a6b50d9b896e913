"""The paper's Nesterov and Adam, the schedules of an update, and the gradient re-normalisation of Algorithm 1."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clickvec.config import Recipe


def learning_rate_at(recipe: Recipe, update: int, updates: int) -> float:
    """Return the learning rate ε of an update: the recipe's, or falling from it to 0 if the schedule is linear."""
    return recipe.learning_rate * (1 - update / updates if recipe.schedule == "linear" else 1.0)


def momentum(recipe: Recipe, update: int, updates: int) -> float:
    """Return μ of an update: `momentum_ends` in the first and the last `ends_share` of all updates, else `momentum`."""
    from_an_end = min(update, updates - 1 - update)
    return recipe.momentum_ends if from_an_end < recipe.ends_share * updates else recipe.momentum


def norm_scale(gradients: Sequence[Tensor], threshold: float) -> Tensor | None:
    """Return the factor that reduces the gradient of one tower to the norm `threshold`; None if the threshold is 0."""
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
    def look_ahead(self, mu: float | Tensor) -> None:
        """Move to Λ_{k-1} + μ ΔΛ_{k-1}, where the gradient is taken."""
        torch._foreach_mul_(self.change, mu)
        torch._foreach_add_(self.parameters, self.change)

    @torch.no_grad()
    def update(self, learning_rate: float | Tensor) -> None:
        """Move from there to Λ_k: `look_ahead` has added μ ΔΛ_{k-1} already, so -ε ∇L is left to add."""
        both = zip(self.parameters, self.change, strict=True)
        moved = [(weight, change, weight.grad) for weight, change in both if weight.grad is not None]
        if moved:
            parameters, changes, gradients = zip(*moved, strict=True)
            if isinstance(learning_rate, Tensor):  # a CUDA graph reads it from the device
                gradients, learning_rate = torch._foreach_mul(gradients, learning_rate), 1.0
            torch._foreach_add_(parameters, gradients, alpha=-learning_rate)
            torch._foreach_add_(changes, gradients, alpha=-learning_rate)

    def tensors(self) -> dict[str, Tensor]:
        """Return ΔΛ."""
        return {f"change.{number}": change for number, change in enumerate(self.change)}


class Decay:
    """How equation 6 moves a weight whose gradient stays zero, for a known schedule μ_0, μ_1, ...

    After the updates a, ..., b - 1 its change is P ΔΛ and the weight is Λ + S ΔΛ, where P(a, b) = μ_a ... μ_{b-1} and
    S(a, b) = P(a, a+1) + P(a, a+2) + ... + P(a, b). Let T(a) = S(a, end), which is μ_a (1 + T(a+1)), from the end of
    the schedule backwards; then S(a, b) = T(a) - P(a, b) T(b): one formula for all a and b.
    """

    def __init__(self, momenta: Sequence[float]) -> None:
        mu = np.asarray(momenta, np.float64)
        # Logarithms, because the product over a whole run underflows. A momentum of 0 has none and is counted apart.
        logs = np.log(np.where(mu > 0, mu, 1.0))
        self.logs = np.concatenate(([0.0], np.cumsum(logs)))
        self.zeros = np.concatenate(([0], np.cumsum(mu == 0)))
        total = [0.0]
        for factor in mu[::-1].tolist():
            total.append(factor * (1 + total[-1]))
        self.totals = np.array(total[::-1])

    def between(self, since: NDArray[np.int64], until: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return P and S from the updates `since`, one for each weight, to `until`."""
        product = np.exp(self.logs[until] - self.logs[since]) * (self.zeros[until] == self.zeros[since])
        return product, self.totals[since] - product * self.totals[until]


class Adam:
    """Adam, by torch's fused kernel, which a CUDA graph can hold."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.parameters = list(parameters)
        self._states = [
            {
                "step": torch.zeros((), device=weight.device),
                "exp_avg": torch.zeros_like(weight),
                "exp_avg_sq": torch.zeros_like(weight),
            }
            for weight in self.parameters
        ]

    def look_ahead(self, mu: float | Tensor) -> None:
        """Do nothing: Adam takes the gradient at the weights themselves."""

    @torch.no_grad()
    def update(self, learning_rate: float | Tensor) -> None:
        """Update the weights."""
        both = zip(self.parameters, self._states, strict=True)
        moved = [(weight, weight.grad, *state.values()) for weight, state in both if weight.grad is not None]
        if not moved:
            return
        parameters, gradients, counts, means, squares = map(list, zip(*moved, strict=True))
        torch._foreach_add_(counts, 1)
        torch._fused_adam_(
            parameters, gradients, means, squares, [], counts, lr=learning_rate,
            beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    def tensors(self) -> dict[str, Tensor]:
        """Return the number of updates and the two moments of each parameter."""
        states = enumerate(self._states)
        return {f"adam.{number}.{name}": tensor for number, state in states for name, tensor in state.items()}


def make(recipe: Recipe, parameters: Sequence[Tensor]) -> Nesterov | Adam:
    """Return the optimizer that the recipe names."""
    return (Adam if recipe.optimizer == "adam" else Nesterov)(parameters)
