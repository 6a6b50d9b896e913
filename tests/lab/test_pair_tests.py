"""Tests of every pair of rows: the t-test and Holm's correction by hand and against scipy, and the whole table."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from clickvec.data import JudgedQuery
from clickvec.evaluation.significance import randomisation_test
from clickvec.lab.compare.findings import Comparison, Row
from clickvec.lab.compare.pair_tests import PAIR_ROUNDS, Pair, all_pairs, holm, significantly_better, t_test

stats = pytest.importorskip("scipy.stats")


def row_of(values: NDArray[np.float64], key: str, **facts: object) -> Row:
    """A row with the same figures on dev and test; values are (seeds, measures, queries)."""
    defaults: dict[str, Any] = {
        "label": key.upper(), "parameters": None, "train_seconds": 0.0, "queries_per_second": 100.0, "settings": {},
        "histories": (), "command": f"clickvec compare --systems {key}", "commit": "abc", "machine": "a machine",
    }  # fmt: skip
    return Row(key=key, dev=values, test=values, **defaults | facts)


def comparison_of(rows: Mapping[str, NDArray[np.float64]]) -> Comparison:
    """A comparison of systems by their NDCG@10 on each query, which is their NDCG@1 and @3 too."""
    made = tuple(row_of(np.stack([np.stack([values] * 3)]), key) for key, values in rows.items())
    count = len(next(iter(rows.values())))
    queries = [JudgedQuery(f"q{i}", f"query {i}", ("d",), (f"title {i}",), np.array([1])) for i in range(count)]
    return Comparison(made, {"dev": queries, "test": queries}, {"dev": 0, "test": 0}, {})


def pairs_of(rows: Mapping[str, NDArray[np.float64]]) -> list[Pair]:
    return all_pairs(list(rows), np.stack(list(rows.values())))


def test_the_t_test_by_hand() -> None:
    # Differences 1, 2, 3: t = 2 / (1 / sqrt 3); with 2 degrees of freedom p = 1 - t / sqrt(t^2 + 2).
    t = 2 * math.sqrt(3)
    assert t_test(np.array([2.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(1 - t / math.sqrt(t * t + 2))


@pytest.mark.parametrize("seed", range(5))
def test_the_t_test_is_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.random((2, 50)) * 100
    assert t_test(first, second) == pytest.approx(float(stats.ttest_rel(first, second).pvalue))


@pytest.mark.parametrize("queries", [1, 2, 3, 13, 14, 200])
def test_no_difference_gives_1_and_no_warning(queries: int) -> None:
    same = np.linspace(0, 100, queries)
    assert t_test(same, same) == randomisation_test(same, same) == 1.0
    in_another_order = (same * 3 + 1e-13) / 3
    assert t_test(same, in_another_order) == 1.0


def test_where_the_t_test_is_not_defined() -> None:
    assert t_test(np.array([5.0]), np.array([3.0])) == 1.0
    assert t_test(np.array([5.0, 6.0]), np.array([3.0, 4.0])) == 0.0
    assert 0 < t_test(np.array([5.0, 6.0]), np.array([3.0, 5.0])) < 1


def test_without_a_difference_p_is_uniform() -> None:
    rng = np.random.default_rng(7)
    samples = rng.standard_t(4, (400, 2, 25))
    for p in (
        np.array([t_test(*sample) for sample in samples]),
        np.array([randomisation_test(*sample, rounds=499, seed=i) for i, sample in enumerate(samples)]),
    ):
        assert stats.kstest(p, "uniform").pvalue > 0.001
        assert (p < 0.05).mean() < 0.09


def test_holm_by_hand() -> None:
    # 4 x .005, 3 x .01, 2 x .03, and .04, which may not come below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9, 0.6]) == pytest.approx([1.0, 1.0, 1.0])
    assert holm([0.02, 0.02]) == pytest.approx([0.04, 0.04])
    assert holm([0.3]) == pytest.approx([0.3])
    assert holm([]).shape == (0,)


def test_holm_rejects_what_its_steps_reject() -> None:
    """Holm's procedure as it is told: from the smallest p on, until one is above level / (comparisons left)."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        p = rng.random(12) ** 4
        rejected = set()
        for left, place in zip(range(12, 0, -1), np.argsort(p), strict=True):
            if p[place] > 0.05 / left:
                break
            rejected.add(int(place))
        assert set(np.flatnonzero(holm(p) <= 0.05).tolist()) == rejected


def test_all_pairs_of_a_comparison() -> None:
    rng = np.random.default_rng(2)
    base = rng.uniform(20, 80, 300)
    rows = {"low": base, "same": base, "high": base + rng.normal(3, 5, 300)}
    pairs = pairs_of(rows)
    assert [(pair.first, pair.second) for pair in pairs] == [("low", "same"), ("low", "high"), ("same", "high")]
    assert pairs[0] == Pair("low", "same", 0.0, 1.0, 1.0, 1.0, 1.0)
    assert pairs[1].difference == pytest.approx(float((base - rows["high"]).mean()))
    assert pairs[1].t == pytest.approx(t_test(base, rows["high"]))
    assert pairs[1].randomisation == randomisation_test(base, rows["high"], PAIR_ROUNDS)
    assert pairs[1].randomisation_corrected == pytest.approx(3 * pairs[1].randomisation)
    assert significantly_better(pairs) == {"high": ["low", "same"]}


def test_a_table_of_twenty_rows_can_still_show_a_difference() -> None:
    """The smallest p that the rounds allow, times the number of pairs, has to come below the level."""
    rng = np.random.default_rng(4)
    rows = {f"s{i:02}": rng.normal(50, 1, 200) + (20 if i == 19 else 0) for i in range(20)}
    assert significantly_better(pairs_of(rows))["s19"] == [f"s{i:02}" for i in range(19)]


def test_one_row_has_no_pairs_and_one_query_is_enough() -> None:
    assert pairs_of({"only": np.array([1.0, 2.0])}) == []
    (pair,) = pairs_of({"a": np.array([30.0]), "b": np.array([10.0])})
    assert pair == Pair("a", "b", 20.0, 1.0, 1.0, 1.0, 1.0)
