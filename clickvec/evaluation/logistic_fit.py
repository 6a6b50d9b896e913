"""Fit the probability of a click: penalised maximum likelihood by Newton's method, in NumPy.

The penalty pulls the weights towards a prior, which ranks as the default fusion does. So a few hundred queries change
little, and many thousands change what they have evidence for.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from clickvec.search.fusion import Candidates, Fusion, Weights, key_of, silent_sets
from clickvec.search.parts import FEATURES, PARTS, PROPOSING
from clickvec.search.title_view import DEPTH

Floats = NDArray[np.float64]

NAMES = ("constant", *FEATURES)
# Typical of the logs that we have measured. The ratios of all but the constant are those of the default mixture.
PRIOR = {"constant": -11.0, **{name: round(31.7 * feature.share, 1) for name, feature in FEATURES.items()}}
LEAST = {name: -np.inf if feature.least is None else feature.least for name, feature in FEATURES.items()}
PENALTY = 100.0  # of 10 to 1,000, the best on held-out queries of three logs
BEND_FROM = -2.0  # log odds: a probability of 0.12
_LEAST_SLOPE = 0.2
_ROUNDS = 50
_CONVERGED = 1e-9  # relative change of the loss


def fact_rows(candidates: Candidates) -> Floats:
    """Return the features of all candidates: (candidates, weights of the method `clicks`)."""
    features, count = candidates.features(), len(candidates)
    columns = [np.broadcast_to(np.asarray(features.get(name, 0.0), np.float64), count) for name in FEATURES]
    return np.stack([np.ones(count), *columns], axis=1)


def fit_clicks(
    rows: Sequence[Floats],
    clicked: Sequence[NDArray[np.bool_]],
    without: Collection[str] = (),
    least: Mapping[str, float] = LEAST,
) -> Fusion:
    """Fit the method `clicks` to the features of the candidates of each query, and to which of them were clicked.

    The features in `without` get the weight 0: the score is then the probability of a click by what is left. No weight
    is below its `least` value.
    """
    facts, labels = np.concatenate(rows), np.concatenate(clicked).astype(np.float64)
    kept = ~np.isin(NAMES, list(without))
    prior = np.where(kept, [PRIOR[name] for name in NAMES], 0.0)
    bounds = np.array([least.get(name, -np.inf) for name in NAMES])
    weights = _fit_bounded(facts, labels, prior, kept, bounds) if len(facts) else prior
    weights, bend = _calibrate(facts, labels, weights) if len(facts) else (weights, {})
    return Fusion.from_json({"method": "clicks", "weights": dict(zip(NAMES, weights.tolist(), strict=True)) | bend})


def fit_without_parts(candidates: Sequence[Candidates], clicked: Sequence[NDArray[np.bool_]]) -> dict[str, Weights]:
    """Fit the method `clicks` for each set of silent parts, to the titles that the others propose.

    So the scores are probabilities also for a query about which a part is silent.
    """
    fits = dict[str, Weights]()
    for silent in silent_sets():
        rows = [proposed_without(of_query, silent) for of_query in candidates]
        facts = [fact_rows(of_query.take(kept)) for of_query, kept in zip(candidates, rows, strict=True)]
        labels = [of_query[kept] for of_query, kept in zip(clicked, rows, strict=True)]
        missing = {feature.name for part in PARTS if part.name in silent for feature in part.features}
        weights = fit_clicks(facts, labels, missing).weights
        fits[key_of(silent)] = {name: weight for name, weight in weights.items() if name not in missing}
    return fits


def proposed_without(candidates: Candidates, silent: Collection[str]) -> NDArray[np.int64]:
    """Return the rows of the candidates that parts other than the silent ones propose."""
    rows = list[NDArray[np.int64]]()
    for name in (part.name for part in PROPOSING if part.name not in silent):
        own = candidates.values[name].own
        best = np.argsort(-own, kind="stable")[:DEPTH]
        rows.append(best[own[best] != 0])
    return np.unique(np.concatenate(rows))


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
