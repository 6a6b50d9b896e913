"""How much each pair counts in the loss, by its clicks."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.training import scratch

PRIOR_LOOKS = 2.0  # looks without a click that are added to those of each pair, so that rare pairs weigh less


def click_weights(data: Dataset, recipe: Recipe, run_folder: Path) -> NDArray[np.float32]:
    """Return the weight of each pair, as the setting click_weight says."""
    looks = data.pair_looks
    if recipe.click_weight == "none" or (recipe.click_weight == "rate" and looks is None):
        return np.broadcast_to(np.float32(1), len(data.pair_clicks))
    if recipe.click_weight == "count":
        return np.asarray(data.pair_clicks, np.float32)
    weights: NDArray[np.float32] = scratch.array(run_folder, data.pair_clicks.shape, np.float32)
    for block in scratch.blocks(len(weights)):
        clicks = data.pair_clicks[block]
        if recipe.click_weight == "rate" and looks is not None:
            weights[block] = clicks / (looks[block] + PRIOR_LOOKS)
        else:
            weights[block] = np.log2(1 + clicks)
    return weights
