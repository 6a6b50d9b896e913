"""Confidence intervals and paired tests over queries.

Both answer the same question: would another random sample of queries give the same result? The same seed gives the
same numbers on every machine.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDS = 10_000

_CELLS = 2**22  # numbers held in memory at once


def bootstrap_interval(values: Floats, rounds: int = ROUNDS, seed: int = 0, level: float = 0.95) -> Floats:
    """Return the confidence interval (low, high) of the mean of each row of `values`, (rows, queries).

    The interval is the percentile bootstrap over queries. All rows use the same resampled queries.
    """
    rng = np.random.default_rng(seed)
    queries = values.shape[1]
    block = max(1, _CELLS // queries)
    means = []
    for start in range(0, rounds, block):
        rows = min(block, rounds - start)
        resampled = rng.integers(0, queries, (rows, queries)) + queries * np.arange(rows)[:, None]
        counts = np.bincount(resampled.ravel(), minlength=rows * queries).reshape(rows, queries)
        means.append(counts @ values.T / queries)
    tail = (1 - level) / 2
    interval: Floats = np.quantile(np.concatenate(means), (tail, 1 - tail), axis=0).T
    return interval


def randomisation_test(first: Floats, second: Floats, rounds: int = ROUNDS, seed: int = 0) -> float:
    """Return the two-sided p value of the paired randomisation test between two systems on the same queries.

    If the systems were equal, swapping their values on any query would change nothing. The test tries every
    combination of swaps if there are at most `rounds` of them. Otherwise it tries `rounds` random ones, and
    p = (1 + count) / (1 + rounds).
    """
    return float(randomisation_tests(np.stack((first, second)), np.array([0]), np.array([1]), rounds, seed)[0])


def randomisation_tests(
    values: Floats, first: NDArray[np.intp], second: NDArray[np.intp], rounds: int, seed: int
) -> Floats:
    """Run `randomisation_test` for many pairs of rows of `values`, (systems, queries), and return their p values.

    All pairs use the same swaps, so that each round sums over the queries once per system rather than once per pair:
    the sum of swapped differences is the difference of two sums.
    """
    queries = values.shape[1]
    exact = 2**queries <= rounds
    tolerance = 1e-12 * np.abs(values).sum(axis=1).max(initial=0.0)  # equal sums may differ by rounding
    sums = values.sum(axis=1)
    observed = np.abs(sums[first] - sums[second]) - tolerance
    block = max(1, _CELLS // max(queries, len(first)))
    count = np.zeros(len(first), np.int64)
    for swapped in _every_swap(queries, block) if exact else _random_swaps(queries, rounds, block, seed):
        flipped = sums - 2 * (swapped.astype(np.float64) @ values.T)
        count += (np.abs(flipped[:, first] - flipped[:, second]) >= observed).sum(axis=0)
    return count / 2**queries if exact else (1 + count) / (1 + rounds)


def _every_swap(queries: int, block: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, 2**queries, block):
        yield (np.arange(start, min(start + block, 2**queries))[:, None] >> np.arange(queries)) & 1


def _random_swaps(queries: int, rounds: int, block: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    width = 4 * -(-queries // 32)  # bytes: a multiple of the generator's word, so that `block` does not change the bits
    for start in range(0, rounds, block):
        rows = min(block, rounds - start)
        flips = np.frombuffer(rng.bytes(rows * width), np.uint8).reshape(rows, width)
        yield np.unpackbits(flips, axis=1, count=queries)
