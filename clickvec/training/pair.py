"""The two towers of a model, or the one that serves both sides: how they start, and how they become a model."""

import numpy as np
import torch
from torch import Tensor

from clickvec.config import Recipe
from clickvec.model import forward
from clickvec.model.folder import sides
from clickvec.training.towers import TorchTower

START = 1  # the first word of the seed; loop.py has others for its own streams


class TowerPair:
    """A query tower and a title tower; the same one twice when the recipe says `shared_tower`."""

    def __init__(self, recipe: Recipe, trigrams: int, device: torch.device) -> None:
        shape = recipe.tower_shape()
        self.towers: dict[str, TorchTower] = {}
        for number, side in enumerate(sides(recipe.shared_tower)):
            rng = np.random.default_rng([START, recipe.seed, number])
            arrays = {
                name: _initial(name, shape, recipe.initial_scale, rng)
                for name, shape in forward.shapes(shape, trigrams).items()
            }
            self.towers[side] = TorchTower.from_arrays(recipe.tower_shape(), arrays, torch.float32, device)
        self.query = self.towers[sides(recipe.shared_tower)[0]]
        self.title = self.towers[sides(recipe.shared_tower)[-1]]

    def to_arrays(self) -> dict[str, forward.Array]:
        """All weights, by the names of the model folder."""
        return {
            f"{side}.{name}": array for side, tower in self.towers.items() for name, array in tower.to_arrays().items()
        }

    def tensors(self) -> dict[str, Tensor]:
        """The leaf tensors, by side and name."""
        return {f"{side}.{name}": t for side, tower in self.towers.items() for name, t in tower.weights.items()}


def _initial(name: str, shape: tuple[int, ...], scale: float, rng: np.random.Generator) -> forward.Array:
    """Small random numbers (Algorithm 1); a forget gate starts open, or long texts are forgotten."""
    drawn = rng.uniform(-scale, scale, shape)
    return drawn + 1.0 if name.endswith("forget_gate.bias") else drawn
