"""Fit the probability of a click: penalised maximum likelihood by Newton's method, in NumPy.

The penalty pulls the weights towards a prior, which ranks as the default fusion does. So a few hundred queries change
little, and many thousands change what they have evidence for.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clickvec.search.fusion import CLICK_FACTS, Candidates, Fusion, facts_of

Floats = NDArray[np.float64]

NAMES = ("constant", *CLICK_FACTS)
# Typical of the logs that we have measured. The ratios of all but the constant are those of the default mixture.
PRIOR = {"constant": -11.0, "cosine": 14.0, "words": 6.0, "codes": 7.9, "numbers": 3.8}
RISING = ("cosine", "words", "codes", "numbers", "rarest match")  # more of it must not lower the score
PENALTY = 100.0  # of 10 to 1,000, the best on held-out queries of three logs
LEAST_CODES = 5.0  # log odds: the least at which codes come first in benchmarks/codes.py
BEND_FROM = -2.0  # log odds: a probability of 0.12
_LEAST_SLOPE = 0.2
_ROUNDS = 50
_CONVERGED = 1e-9  # relative change of the loss


def fact_rows(candidates: Candidates) -> Floats:
    """Return the facts of all candidates: (candidates, weights of the method `clicks`)."""
    facts, count = facts_of(candidates), len(candidates.cosine)
    columns = [np.broadcast_to(np.asarray(facts[name], np.float64), count) for name in CLICK_FACTS]
    return np.stack([np.ones(count), *columns], axis=1)


def fit_clicks(
    rows: Sequence[Floats],
    clicked: Sequence[NDArray[np.bool_]],
    without: frozenset[str] = frozenset(),
    least_codes: float = LEAST_CODES,
) -> Fusion:
    """Fit the method `clicks` to the facts of the candidates of each query, and to which of them were clicked.

    The facts in `without` get the weight 0: the score is then the probability of a click by what is left. The weight of
    codes is `least_codes` or more, because most logs have too few codes to tell how much they matter.
    """
    facts, labels = np.concatenate(rows), np.concatenate(clicked).astype(np.float64)
    kept = ~np.isin(NAMES, list(without))
    prior = np.where(kept, [PRIOR.get(name, 0.0) for name in NAMES], 0.0)
    least = np.where(np.isin(NAMES, RISING), 0.0, -np.inf)
    least[NAMES.index("codes")] = least_codes
    weights = _fit_bounded(facts, labels, prior, kept, least) if len(facts) else prior
    weights, bend = _calibrate(facts, labels, weights) if len(facts) else (weights, {})
    return Fusion.from_json({"method": "clicks", "weights": dict(zip(NAMES, weights.tolist(), strict=True)) | bend})


def _fit_bounded(facts: Floats, labels: Floats, prior: Floats, kept: NDArray[np.bool_], least: Floats) -> Floats:
    """Fit the weights of the facts that are kept. Those that would be below their least value are held at it."""
    held = ~kept
    values = np.where(kept, np.maximum(prior, least), 0.0)
    while True:
        weights = fit_logistic(facts, labels, values, PENALTY, held)
        below = ~held & (weights < least)
        if not below.any():
            return weights
        held, values = held | below, np.where(below, least, values)


def _calibrate(facts: Floats, labels: Floats, weights: Floats) -> tuple[Floats, dict[str, float]]:
    """Return the weights, shifted and scaled, and the bend with which the probabilities fit best.

    The log odds become a line with one bend. It always rises, so the order of titles is the same.
    """
    log_odds = facts @ weights
    line = np.stack([np.ones(len(facts)), log_odds, np.maximum(log_odds - BEND_FROM, 0)], axis=1)
    shift, slope, more = fit_logistic(line, labels, np.array([0.0, 1.0, 0.0]), 1.0).tolist()
    if slope < _LEAST_SLOPE or slope + more < _LEAST_SLOPE:
        return weights, {}
    scaled = weights * slope
    scaled[0] += shift
    return scaled, {"bend": more / slope, "bend from": shift + slope * BEND_FROM}


def fit_logistic(
    facts: Floats, labels: Floats, prior: Floats, penalty: float, held: NDArray[np.bool_] | None = None
) -> Floats:
    """Return the weights that minimise the logistic loss plus penalty/2 · |weight - prior|² of standardised facts.

    The first column is the constant, which has no penalty. A fact that never varies keeps its prior weight, and so do
    those that are `held`.
    """
    spread = facts.std(axis=0)
    varies = spread > 1e-9
    spread = np.where(varies, spread, 1)
    scaled, target = facts / spread, prior * spread
    free = varies if held is None else varies & ~held
    free[0] = True
    pull = np.full(len(prior), penalty)
    pull[0] = 1e-6
    weights = target.copy()
    loss = _loss(scaled, labels, weights, target, pull)
    for _ in range(_ROUNDS):
        chance = 0.5 * (1 + np.tanh(0.5 * (scaled @ weights)))
        gradient = scaled.T @ (chance - labels) + pull * (weights - target)
        curvature = (scaled * (chance * (1 - chance))[:, None]).T @ scaled + np.diag(pull)
        step = np.zeros(len(prior))
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        size, following = 1.0, _loss(scaled, labels, weights - step, target, pull)
        while following > loss and size > 1e-6:  # a full step may go too far
            size /= 2
            following = _loss(scaled, labels, weights - size * step, target, pull)
        if following > loss:
            break
        weights = weights - size * step
        converged, loss = loss - following <= _CONVERGED * abs(loss), following
        if converged:
            break
    fitted: Floats = weights / spread
    return fitted


def _loss(facts: Floats, labels: Floats, weights: Floats, target: Floats, pull: Floats) -> float:
    log_odds = facts @ weights
    return float(np.logaddexp(0, log_odds).sum() - labels @ log_odds + 0.5 * pull @ np.square(weights - target))
