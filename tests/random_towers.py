"""Small towers with random weights, and random texts for them."""

import numpy as np

from clickvec.config import Tower
from clickvec.model import forward
from clickvec.model.projection import project
from clickvec.text.ragged import Ragged, ragged

SMALL = Tower(cells=7, hidden=9, output=6)
TRIGRAMS, TOKENS = 40, 12


def random_weights(tower: Tower, dtype: type) -> forward.Weights:
    rng = np.random.default_rng(0)
    return {key: rng.normal(0, 0.5, shape).astype(dtype) for key, shape in forward.shapes(tower, TRIGRAMS).items()}


def projections(weights: forward.Weights) -> forward.Array:
    rng = np.random.default_rng(1)
    return project(weights, ragged(rng.integers(0, TRIGRAMS, length % 7).tolist() for length in range(TOKENS)))


def random_texts(lengths: list[int]) -> Ragged:
    rng = np.random.default_rng(2)
    return ragged(rng.integers(0, TOKENS, length).tolist() for length in lengths)
