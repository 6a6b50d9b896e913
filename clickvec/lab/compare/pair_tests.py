"""Tests of every pair of rows: the paired randomisation test and the paired t-test, with Holm's correction."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from clickvec.errors import missing_extra
from clickvec.evaluation.significance import Floats, randomisation_tests

# Holm multiplies the smallest p by the number of pairs. With 10,000 rounds, no p of the 190 pairs of a table of 20
# systems could fall below 190 / 10,001 = 0.019, however large the difference.
PAIR_ROUNDS = 100_000
LEVEL = 0.01  # a corrected p below this is significant

_ROUNDING = 1e-9  # per cent; smaller differences are rounding errors


class Pair(NamedTuple):
    """Two systems on the same queries. The corrected p values account for all pairs of the table."""

    first: str
    second: str
    difference: float  # the mean of the first minus that of the second
    t: float
    t_corrected: float
    randomisation: float
    randomisation_corrected: float


def all_pairs(keys: Sequence[str], values: Floats, rounds: int = PAIR_ROUNDS, seed: int = 0) -> list[Pair]:
    """Test every pair of systems, in the order of `keys`; `values` is (systems, queries)."""
    first, second = np.triu_indices(len(keys), 1)
    t = _t_tests(values[first], values[second])
    randomisation = randomisation_tests(values, first, second, rounds, seed)
    columns = ((values[first] - values[second]).mean(axis=1), t, holm(t), randomisation, holm(randomisation))
    names = [(keys[i], keys[j]) for i, j in zip(first.tolist(), second.tolist(), strict=True)]
    return [Pair(*name, *p) for name, p in zip(names, np.stack(columns, axis=1).tolist(), strict=True)]


def significantly_better(pairs: Iterable[Pair], level: float = LEVEL) -> dict[str, list[str]]:
    """Return for each system the systems that it beats significantly, by the corrected randomisation test."""
    beaten: dict[str, list[str]] = {}
    for pair in pairs:
        if pair.randomisation_corrected < level and pair.difference:
            better, worse = (pair.first, pair.second) if pair.difference > 0 else (pair.second, pair.first)
            beaten.setdefault(better, []).append(worse)
    return beaten


def t_test(first: Floats, second: Floats) -> float:
    """Return the two-sided p value of the paired t-test between two systems.

    Where the t-test is undefined, p is 1 if there is only one query or no difference on any query, and 0 (the limit) if
    the difference is the same on all of several queries.
    """
    return float(_t_tests(first[None], second[None])[0])


def _t_tests(first: Floats, second: Floats) -> Floats:
    """Run `t_test` on each pair of rows."""
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


def holm(p: Sequence[float] | Floats) -> Floats:
    """Return p values after Holm's correction for multiple comparisons, in the same order."""
    raw = np.asarray(p, np.float64)
    order = np.argsort(raw, kind="stable")
    scaled = raw[order] * np.arange(len(raw), 0, -1)
    corrected = np.empty_like(raw)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return corrected
