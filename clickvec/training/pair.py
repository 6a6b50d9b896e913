"""The two towers of a model, or the one that both sides share: their first weights, and their weights as arrays."""

import numpy as np
import torch
from torch import Tensor

from clickvec.config import Recipe
from clickvec.model import forward
from clickvec.model.folder import sides
from clickvec.training.towers import TorchTower

START = 1  # the first word of a seed: no two random streams are the same. loop.py and update.py have others


class TowerPair:
    """A query tower and a title tower, which are the same if the recipe sets `shared_tower`."""

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
        """Return all weights under the names of the model folder."""
        return {
            f"{side}.{name}": array for side, tower in self.towers.items() for name, array in tower.to_arrays().items()
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return the leaf tensors by side and name."""
        return {f"{side}.{name}": t for side, tower in self.towers.items() for name, t in tower.weights.items()}


def _initial(name: str, shape: tuple[int, ...], scale: float, rng: np.random.Generator) -> forward.Array:
    """Return small random numbers (Algorithm 1), around the initial value of the weight."""
    return rng.uniform(-scale, scale, shape) + forward.initial_value(name)
