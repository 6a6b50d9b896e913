"""Confidence intervals and the randomisation test: by hand, against full enumeration, and by what they promise."""

import itertools
import math

import numpy as np
import pytest

from clickvec.evaluation import significance
from clickvec.evaluation.significance import bootstrap_interval, randomisation_test

ZEROS = np.zeros(3)


def test_the_randomisation_test_by_hand() -> None:
    assert randomisation_test(np.array([1.0, 2.0, 3.0]), ZEROS) == 2 / 8  # only +++ and --- sum to 6
    assert randomisation_test(np.array([-1.0, 2.0, 3.0]), ZEROS) == 4 / 8  # and +++ and --- are beyond 4
    assert randomisation_test(np.array([1.0, 1.0, -1.0]), ZEROS) == 1.0
    assert randomisation_test(np.array([7.0]), np.array([0.0])) == 1.0
    assert randomisation_test(np.array([7.0, 8.0]), np.zeros(2)) == 0.5


@pytest.mark.parametrize("seed", range(4))
def test_random_swaps_come_close_to_all_swaps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 5, (2, 12)) * 25.0  # few levels: many sums tie with the one observed
    differences = first - second
    signs = np.array(list(itertools.product((-1, 1), repeat=12)))
    exact = float((np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9).mean())
    assert randomisation_test(first, second, rounds=4096) == exact
    assert randomisation_test(first, second, rounds=4095, seed=seed) == pytest.approx(exact, abs=0.04)


def test_the_same_seed_gives_the_same_p_however_much_is_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(50, 10, (2, 41))
    p, interval = randomisation_test(first, second), bootstrap_interval(first[None])
    assert randomisation_test(first, second, seed=1) != p
    monkeypatch.setattr(significance, "_CELLS", 1000)
    assert randomisation_test(first, second) == p
    assert bootstrap_interval(first[None]) == pytest.approx(interval)


def test_p_is_never_0_for_random_swaps() -> None:
    assert randomisation_test(np.ones(100), np.zeros(100), rounds=999) == 1 / 1000


def test_an_interval_is_near_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(3).normal(60, 20, (2, 1500))
    error = values.std(axis=1) / math.sqrt(1500)
    low, high = bootstrap_interval(values).T
    assert low == pytest.approx(values.mean(axis=1) - 1.96 * error, abs=0.06 * float(error.max()) * 2)
    assert high == pytest.approx(values.mean(axis=1) + 1.96 * error, abs=0.06 * float(error.max()) * 2)


def test_19_of_20_intervals_hold_the_true_mean() -> None:
    samples = np.random.default_rng(5).exponential(1.0, (600, 80))
    low, high = bootstrap_interval(samples, rounds=2000).T
    assert 0.90 < ((low <= 1) & (high >= 1)).mean() < 0.97


def test_intervals_of_one_query_and_of_equal_values() -> None:
    assert bootstrap_interval(np.array([[40.0]])).tolist() == [[40.0, 40.0]]
    assert bootstrap_interval(np.full((1, 9), 70.0)) == pytest.approx(np.array([[70.0, 70.0]]))
