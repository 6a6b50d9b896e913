"""Is one system ahead of another, or was it luck? Paired tests over queries, corrected for their number; intervals.

All of it is about queries: what another sample of queries would have given. What another seed would have given is the
spread between the seeds, and another question. The same seed gives the same p, here and on any machine.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.lab.compare.result import MEASURES, Comparison

Floats = NDArray[np.float64]

ROUNDS = 10_000
# Holm multiplies the smallest p by the number of pairs: with 10,000 rounds none of the 190 pairs of a table of 20
# systems could come below 190 / 10,001 = 0.019, however far apart they are.
PAIR_ROUNDS = 100_000
LEVEL = 0.01  # a corrected p below it is called significant

_CELLS = 2**22  # numbers held at once
_ROUNDING = 1e-9  # per cent; a smaller difference comes from adding in another order


class Pair(NamedTuple):
    """Two systems on the same queries; the corrected p count all pairs of the table."""

    first: str
    second: str
    difference: float  # the mean of the first less that of the second
    t: float
    t_corrected: float
    randomisation: float
    randomisation_corrected: float


def all_pairs(
    comparison: Comparison,
    split: str = "test",
    measure: str = "NDCG@10",
    rounds: int = PAIR_ROUNDS,
    seed: int = 0,
) -> list[Pair]:
    """Every two rows, in the order of the table, by both tests."""
    keys = [row.key for row in comparison.rows]
    values = query_values(comparison, split, measure)
    first, second = np.triu_indices(len(keys), 1)
    t = _t_tests(values[first], values[second])
    randomisation = _randomisation_tests(values, first, second, rounds, seed)
    columns = ((values[first] - values[second]).mean(axis=1), t, holm(t), randomisation, holm(randomisation))
    names = [(keys[i], keys[j]) for i, j in zip(first.tolist(), second.tolist(), strict=True)]
    return [Pair(*name, *p) for name, p in zip(names, np.stack(columns, axis=1).tolist(), strict=True)]


def query_values(comparison: Comparison, split: str, measure: str) -> Floats:
    """(rows, queries): what each row reached on each query, the mean over its seeds."""
    if measure not in MEASURES:
        raise ClickvecError(f"no {measure} was measured here; there are {', '.join(MEASURES)}")
    place = MEASURES.index(measure)
    return np.stack([row.per_query(split)[place] for row in comparison.rows])


def ahead(pairs: Iterable[Pair], level: float = LEVEL) -> dict[str, list[str]]:
    """For each system those that it is significantly ahead of, by the corrected randomisation test."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        if pair.randomisation_corrected < level and pair.difference:
            better, worse = (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)
            found.setdefault(better, []).append(worse)
    return found


def t_test(first: Floats, second: Floats) -> float:
    """The two-sided p of the paired t-test of one system against another.

    Where the test is not defined: no difference on any query gives 1, and so does a single query; the same difference
    on all of several queries gives 0, the limit.
    """
    return float(_t_tests(first[None], second[None])[0])


def _t_tests(first: Floats, second: Floats) -> Floats:
    """As `t_test`, row by row."""
    try:
        from scipy.stats import ttest_rel
    except ModuleNotFoundError:
        raise missing_extra("scipy", "eval") from None
    differences = first - second
    largest = np.abs(differences).max(axis=1)
    varied = np.ptp(differences, axis=1) > np.maximum(_ROUNDING, 1e-12 * largest)
    p = np.where((largest > _ROUNDING) & (first.shape[1] > 1), 0.0, 1.0)
    if varied.any():
        p[varied] = ttest_rel(first[varied], second[varied], axis=1).pvalue
    return p


def randomisation_test(first: Floats, second: Floats, rounds: int = ROUNDS, seed: int = 0) -> float:
    """The two-sided p of the paired randomisation test: how often the mean difference is as large by chance.

    If the systems were alike, swapping their values on any query would change nothing. All swaps are tried where there
    are at most `rounds` of them; else `rounds` random ones, and p = (1 + count) / (1 + rounds).
    """
    one, other = np.array([0]), np.array([1])
    return float(_randomisation_tests(np.stack((first, second)), one, other, rounds, seed)[0])


def _randomisation_tests(
    values: Floats, first: NDArray[np.intp], second: NDArray[np.intp], rounds: int, seed: int
) -> Floats:
    """As `randomisation_test`, for pairs of rows of (systems, queries).

    The flipped differences of a pair sum to the difference of two sums, so each system is summed once a round, and not
    each pair. All pairs see the same flips.
    """
    queries = values.shape[1]
    exact = 2**queries <= rounds
    tolerance = 1e-12 * np.abs(values).sum(axis=1).max(initial=0.0)  # an equal sum, added in another order, is equal
    sums = values.sum(axis=1)
    observed = np.abs(sums[first] - sums[second]) - tolerance
    size = max(1, _CELLS // max(queries, len(first)))
    count = np.zeros(len(first), np.int64)
    for swapped in _every_swap(queries, size) if exact else _random_swaps(queries, rounds, size, seed):
        flipped = sums - 2 * (swapped.astype(np.float64) @ values.T)
        count += (np.abs(flipped[:, first] - flipped[:, second]) >= observed).sum(axis=0)
    return count / 2**queries if exact else (1 + count) / (1 + rounds)


def _every_swap(queries: int, size: int) -> Iterator[NDArray[np.int64]]:
    for start in range(0, 2**queries, size):
        yield (np.arange(start, min(start + size, 2**queries))[:, None] >> np.arange(queries)) & 1


def _random_swaps(queries: int, rounds: int, size: int, seed: int) -> Iterator[NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    width = 4 * -(-queries // 32)  # bytes; whole words of the generator, so that `size` does not change what is drawn
    for start in range(0, rounds, size):
        rows = min(size, rounds - start)
        flips = np.frombuffer(rng.bytes(rows * width), np.uint8).reshape(rows, width)
        yield np.unpackbits(flips, axis=1, count=queries)


def holm(p: Sequence[float] | Floats) -> Floats:
    """Holm's correction: p as if only one comparison had been made, in the order given; never above 1."""
    raw = np.asarray(p, np.float64)
    order = np.argsort(raw, kind="stable")
    steps = raw[order] * np.arange(len(raw), 0, -1)
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return corrected


def bootstrap_interval(values: Floats, rounds: int = ROUNDS, seed: int = 0, level: float = 0.95) -> Floats:
    """(rows, 2): from where to where the mean of each row of (rows, queries) goes as queries are drawn again.

    Percentiles of the bootstrap. All rows see the same draws.
    """
    rng = np.random.default_rng(seed)
    queries = values.shape[1]
    size = max(1, _CELLS // queries)
    means = []
    for start in range(0, rounds, size):
        rows = min(size, rounds - start)
        drawn = rng.integers(0, queries, (rows, queries)) + queries * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * queries).reshape(rows, queries)
        means.append(times @ values.T / queries)
    tail = (1 - level) / 2
    interval: Floats = np.quantile(np.concatenate(means), (tail, 1 - tail), axis=0).T
    return interval
