"""Learning curves: a measure as a function of the amount of data, y = limit - scale * n^-exponent."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXPONENTS = np.geomspace(1 / 16, 2, 41)
HIGHEST = 100.0  # of a measure in per cent


class PowerLaws(NamedTuple):
    """Fitted curves, one for each row of the values."""

    limit: Floats
    scale: Floats  # 0 if more data does not help
    exponent: Floats

    def at(self, size: float) -> Floats:
        """Return the value of each curve at an amount of data."""
        return self.limit - self.scale * size**-self.exponent

    def size_for(self, value: float) -> Floats:
        """Return the amount of data at which each curve reaches a value; infinity if it never does."""
        gap = self.limit - value
        reached = (gap > 0) & (self.scale > 0)
        ratio = np.divide(self.scale, gap, out=np.ones_like(gap), where=reached)
        return np.where(reached, ratio ** (1 / self.exponent), np.where((self.scale == 0) & (gap >= 0), 0.0, np.inf))


def fit_power_laws(sizes: Floats, values: Floats) -> PowerLaws:
    """Fit a rising curve to each row of `values`, (rows, sizes), by least squares.

    The exponent is the best of EXPONENTS. A curve that would fall with more data becomes a constant, and no limit is
    above 100.
    """
    best_error = np.full(len(values), np.inf)
    best = np.zeros((3, len(values)))
    for exponent in EXPONENTS:
        x = sizes**-exponent
        centred, means = x - x.mean(), values.mean(axis=1)
        scale = np.maximum(0.0, -(values @ centred) / (centred @ centred))
        limit = means + scale * x.mean()
        too_high = limit > HIGHEST  # then the best curve with this limit
        scale = np.where(too_high, np.maximum(0.0, (HIGHEST - values) @ x / (x @ x)), scale)
        limit = np.minimum(limit, HIGHEST)
        errors = ((limit[:, None] - scale[:, None] * x - values) ** 2).sum(axis=1)
        better = errors < best_error - 1e-12
        best_error = np.where(better, errors, best_error)
        best = np.where(better, [limit, scale, np.full(len(values), exponent)], best)
    return PowerLaws(*best)
