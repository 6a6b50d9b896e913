"""Warnings that a training run is going wrong."""

import math

import numpy as np

from clickvec.model.forward import Array

COLLAPSED = 0.9


def collapsed(vectors: Array) -> tuple[float, str | None]:
    """Return the mean cosine between different unit vectors, and a warning if they are all alike."""
    count = len(vectors)
    if count < 2:
        return 0.0, None
    total = np.asarray(vectors, np.float64).sum(axis=0)
    mean = float((total @ total - (vectors.astype(np.float64) ** 2).sum()) / (count * (count - 1)))
    if mean < COLLAPSED:
        return mean, None
    return mean, (
        f"The model has collapsed: the mean cosine between different titles is {mean:.3f}. "
        "Lower learning_rate, or raise gamma or initial_scale."
    )


def learns_nothing(loss: float, negatives: float) -> str | None:
    """Return a warning if the loss is that of guessing, or if there were no negatives."""
    if negatives == 0:
        return "Nothing was learned: no pair had a negative. The log needs more queries and more titles."
    chance = math.log(1 + max(negatives, 0.0))
    if loss < 0.98 * chance or negatives < 1:
        return None
    return (
        f"The loss is {loss:.3f}, no better than guessing (log(1+n) = {chance:.3f}). "
        "Raise learning_rate, gamma or initial_scale."
    )
