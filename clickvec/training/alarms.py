"""Signs that a run is going wrong, in words."""

import math

import numpy as np

from clickvec.model.forward import Array

COLLAPSED = 0.9
LARGE_SHARE = 0.1


def collapsed(vectors: Array) -> tuple[float, str | None]:
    """The mean cosine between different unit vectors, and a warning when they all look alike."""
    count = len(vectors)
    if count < 2:
        return 0.0, None
    total = np.asarray(vectors, np.float64).sum(axis=0)
    mean = float((total @ total - (vectors.astype(np.float64) ** 2).sum()) / (count * (count - 1)))
    if mean < COLLAPSED:
        return mean, None
    return mean, (
        f"the vectors of different titles look alike (mean cosine {mean:.3f}): the model has collapsed; "
        "lower step, or raise gamma or initial_scale"
    )


def learns_nothing(loss: float, negatives: float) -> str | None:
    """A warning when the loss is what a model without an opinion would have."""
    if negatives == 0:
        return "no pair had a title to beat, so nothing was learned: the log needs more queries and more titles"
    chance = math.log(1 + max(negatives, 0.0))
    if loss < 0.98 * chance or negatives < 1:
        return None
    return (
        f"the loss stands at {loss:.3f}, and guessing gives log(1+n) = {chance:.3f}: raise step, gamma or initial_scale"
    )


def one_title_rules(share: float) -> str | None:
    """A warning when one title has much of all clicks."""
    if share < LARGE_SHARE:
        return None
    return f"one title has {100 * share:.0f}% of all clicks: the model may learn to prefer it; check the log"
