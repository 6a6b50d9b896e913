"""The paper's Nesterov and Adam behind the same two calls, `look_ahead` and `update`; and an average of the weights."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from clickvec.config import Recipe
from clickvec.training.nesterov import Nesterov, momentum


class Optimizer(Protocol):
    """What an updater needs from an optimizer."""

    def look_ahead(self, update: int) -> None:
        """Move the weights to where the gradient is taken."""

    def update(self, update: int) -> None:
        """Update the weights with the gradient."""

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold."""


def learning_rate_at(recipe: Recipe, update: int, updates: int) -> float:
    """Return the learning rate ε of an update: it rises over the first `warm_up` of all updates, then falls."""
    rising = recipe.warm_up * updates
    if update < rising:
        return recipe.learning_rate * (update + 1) / (rising + 1)
    done = (update - rising) / (updates - rising)
    if recipe.schedule == "linear":
        return recipe.learning_rate * (1 - done)
    return recipe.learning_rate * (0.5 + 0.5 * math.cos(math.pi * done) if recipe.schedule == "cosine" else 1.0)


class PaperNesterov:
    """Equation 6 with the schedules of momentum and learning rate."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe, updates: int) -> None:
        self.rule, self._recipe, self._updates = Nesterov(parameters), recipe, updates

    def look_ahead(self, update: int) -> None:
        """Move to Λ + μ ΔΛ."""
        self.rule.look_ahead(momentum(self._recipe, update, self._updates))

    def update(self, update: int) -> None:
        """Update the weights."""
        self.rule.update(learning_rate_at(self._recipe, update, self._updates))

    def tensors(self) -> dict[str, Tensor]:
        """Return ΔΛ."""
        return {f"change.{place}": change for place, change in enumerate(self.rule.change)}


class Adam:
    """Adam, by torch."""

    def __init__(self, parameters: Sequence[Tensor], recipe: Recipe, updates: int) -> None:
        self._recipe, self._updates = recipe, updates
        self._rule = torch.optim.Adam(parameters, lr=recipe.learning_rate, fused=True)
        # Made now rather than at the first update, so that a checkpoint can be restored into it.
        for parameter in parameters:
            self._rule.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }

    def look_ahead(self, update: int) -> None:
        """Do nothing: Adam takes the gradient at the weights themselves."""

    def update(self, update: int) -> None:
        """Update the weights."""
        for group in self._rule.param_groups:
            group["lr"] = learning_rate_at(self._recipe, update, self._updates)
        self._rule.step()

    def update_by(self, learning_rate: Tensor) -> None:
        """Update the weights with a learning rate on the device, by a kernel of torch that a CUDA graph can hold."""
        (group,), states = self._rule.param_groups, self._rule.state
        parameters = [one for one in group["params"] if one.grad is not None]
        counts, means, squares = (
            [states[one][name] for one in parameters] for name in ("step", "exp_avg", "exp_avg_sq")
        )
        torch._foreach_add_(counts, 1)
        torch._fused_adam_(
            [one.detach() for one in parameters], [one.grad for one in parameters], means, squares, [], counts,
            lr=learning_rate, beta1=group["betas"][0], beta2=group["betas"][1], weight_decay=0.0, eps=group["eps"],
            amsgrad=False, maximize=False,
        )  # fmt: skip

    def tensors(self) -> dict[str, Tensor]:
        """Return the number of updates and the two moments of each parameter."""
        states = enumerate(self._rule.state.values())
        return {f"adam.{place}.{name}": tensor for place, state in states for name, tensor in state.items()}


def make(recipe: Recipe, parameters: Sequence[Tensor], updates: int) -> Optimizer:
    """Return the optimizer that the recipe names."""
    return (Adam if recipe.optimizer == "adam" else PaperNesterov)(parameters, recipe, updates)


class Average:
    """An exponential moving average of the weights, which is less noisy than the last weights."""

    def __init__(self, parameters: Sequence[Tensor], decay: float) -> None:
        self._parameters, self._decay = list(parameters), decay
        self._average = [parameter.detach().clone() for parameter in self._parameters]

    @torch.no_grad()
    def update(self, update: int) -> None:
        """Add the weights after an update to the average. The first weights are soon forgotten."""
        decay = min(self._decay, (1 + update) / (10 + update))
        torch._foreach_lerp_(self._average, self._parameters, 1 - decay)

    @contextmanager
    def in_place_of_the_weights(self) -> Iterator[None]:
        """Let the towers compute with the average. On exit, restore the weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for parameter, average in zip(self._parameters, self._average, strict=True):
            parameter.data, average.data = average.data, parameter.data

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint must hold."""
        return {f"average.{place}": tensor for place, tensor in enumerate(self._average)}
