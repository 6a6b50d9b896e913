"""Estimate the position bias of the messy log by three methods and compare with the truth.

python benchmarks/position_bias.py [impressions ...]

- ours: clickvec.data.position_bias
- EM: the position-based model with one relevance per pair, by expectation-maximisation
- AllPairs: intervention harvesting as in Agarwal et al. 2019, by maximum likelihood over all pairs of positions

Each is estimated from the log without its bots, and ours also with them. The error is |estimate / truth - 1|, its mean
and its maximum over the positions.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from clickvec.data import ClickLog, read_clicks
from clickvec.data.cleaning import Cleaning, clean
from clickvec.data.position_bias import PositionCounts, count_positions, estimate_propensities
from clickvec.lab.simulate import write_messy

SIZES = (100_000, 300_000, 1_000_000)
Floats = NDArray[np.float64]


def count(log: ClickLog) -> PositionCounts:
    """Count the impressions of a log by pair and position."""
    parts = [log, log.shown] if log.shown else [log]
    numbers: dict[tuple[str, str], int] = {}
    pairs = [pair for part in parts for pair in zip(part.queries, part.titles, strict=True)]
    pair = np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs])
    position = np.concatenate([part.positions for part in parts if part.positions is not None])
    return count_positions(pair, position, np.concatenate([part.clicks for part in parts]) > 0)


def by_em(counts: PositionCounts, iterations: int = 300) -> Floats:
    pair, index = np.unique(counts.pair, return_inverse=True)[1], counts.position - 1
    shown, clicked = counts.shown.astype(float), counts.clicked
    propensity, relevance = np.linspace(1, 0.5, index.max() + 1), np.full(pair.max() + 1, 0.3)
    for _ in range(iterations):
        p, r = propensity[index], relevance[pair]
        looked = clicked + (shown - clicked) * p * (1 - r) / np.maximum(1 - p * r, 1e-12)
        relevant = clicked + (shown - clicked) * r * (1 - p) / np.maximum(1 - p * r, 1e-12)
        propensity = np.bincount(index, looked) / np.bincount(index, shown)
        relevance = np.bincount(pair, relevant) / np.bincount(pair, shown)
    return np.asarray(propensity / propensity[0])


def by_all_pairs(counts: PositionCounts) -> Floats:
    index, size = counts.position - 1, int(counts.position.max())
    clicks, skips = np.zeros((size, size)), np.zeros((size, size))
    starts = np.flatnonzero(np.diff(counts.pair, prepend=-1))
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(index)], strict=True):
        places, rate = index[first:end], counts.clicked[first:end] / counts.shown[first:end]
        clicks[np.ix_(places, places)] += rate[:, None]
        skips[np.ix_(places, places)] += 1 - rate[:, None]
    both = ~np.eye(size, dtype=bool)
    upper = np.triu_indices(size, 1)

    def loss(values: Floats) -> float:
        shared = np.zeros((size, size))
        shared[upper] = expit(values[size:])
        rate = np.clip(expit(values[:size])[:, None] * (shared + shared.T), 1e-9, 1 - 1e-9)
        return -float((clicks * np.log(rate) + skips * np.log(1 - rate))[both].mean())

    start = np.zeros(size + len(upper[0]))
    propensity = expit(minimize(loss, start, method="L-BFGS-B", options={"maxfun": 10**6}).x[:size])
    return np.asarray(propensity / propensity[0])


def report(name: str, estimate: Callable[[PositionCounts], Floats], counts: PositionCounts, truth: Floats) -> None:
    start = time.perf_counter()
    found = estimate(counts)
    seconds = time.perf_counter() - start
    error = np.abs(found / truth - 1)
    values = " ".join(f"{value:.2f}" for value in found)
    print(f"{name:16} mean error {error.mean():.3f}  maximum {error.max():.3f}  {seconds:6.1f} s  {values}", flush=True)


def main() -> None:
    for size in [int(size) for size in sys.argv[1:]] or SIZES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "messy"
            write_messy(folder, size)
            log = read_clicks(folder / "impressions.tsv.gz")
            truth = np.array(json.loads((folder / "truth.json").read_text(encoding="utf-8"))["propensities"])
        people, _ = clean(log, Cleaning(keep_secrets=True, max_per_hour=120, k_anonymous=0))
        counts = count(people)
        print(f"{size:,} impressions; truth: {' '.join(f'{value:.2f}' for value in truth)}")
        report("ours", estimate_propensities, counts, truth)
        report("EM", by_em, counts, truth)
        report("AllPairs", by_all_pairs, counts, truth)
        report("ours, with bots", estimate_propensities, count(log), truth)


if __name__ == "__main__":
    main()
