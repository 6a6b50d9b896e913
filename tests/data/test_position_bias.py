"""Position bias: hand-worked examples, the equations that the estimate solves, and recovery of known propensities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickvec.data.position_bias import (
    MIN_CLICKS,
    MIN_PROPENSITY,
    PositionCounts,
    count_positions,
    estimate_propensities,
    position_weights,
)
from clickvec.errors import ClickvecError

Rows = list[tuple[int, int, int, int]]  # (pair, position, shown, clicked)


def counts_of(rows: Rows) -> PositionCounts:
    return PositionCounts(*np.array(rows, np.int64).T.reshape(4, -1))


def simulate(
    propensities: list[float], pairs: int, views: int, seed: int = 0
) -> tuple[PositionCounts, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Simulate pairs that are each shown a few times around one position; better titles stand higher."""
    rng = np.random.default_rng(seed)
    relevance = rng.random(pairs)
    pair = np.repeat(np.arange(pairs), views)
    mean = (1 - relevance[pair]) * len(propensities)
    position = np.clip(np.rint(mean + rng.normal(0, 1, len(pair))), 1, len(propensities)).astype(np.int64)
    truth = np.array(propensities)
    clicked = rng.random(len(pair)) < truth[position - 1] * relevance[pair]
    return count_positions(pair, position, clicked), truth


def test_impressions_are_counted_by_pair_and_position() -> None:
    pair = np.array([7, 3, 7, 7, 3, 7])
    position = np.array([2, 1, 2, 1, 0, 2], np.int32)
    clicked = np.array([True, False, False, True, True, True])
    counts = count_positions(pair, position, clicked)
    assert np.array(counts).T.tolist() == [[3, 1, 1, 0], [7, 1, 1, 1], [7, 2, 3, 2]]
    assert np.array(count_positions(pair, np.zeros(6, np.int32), clicked)).shape == (4, 0)


def test_two_positions_by_hand() -> None:
    """One title is clicked in 400 of 1,000 views at position 1 and in 100 of 500 at position 2: half as often."""
    assert estimate_propensities(counts_of([(0, 1, 1_000, 400), (0, 2, 500, 100)])) == pytest.approx([1, 0.5])


def test_relevance_cancels_and_pairs_at_one_position_say_nothing() -> None:
    rows: Rows = [(0, 1, 1_000, 400), (0, 2, 500, 100)]
    rows += [(1, 1, 10_000, 400), (1, 2, 10_000, 200)]  # a title of a tenth of the relevance
    rows += [(2, 2, 1_000, 1_000), (3, 1, 1_000, 1), (4, 1, 10, 0), (4, 2, 10, 0)]
    assert estimate_propensities(counts_of(rows)) == pytest.approx([1, 0.5], abs=1e-5)


def test_positions_are_compared_along_a_chain() -> None:
    """No title is shown at both 1 and 3."""
    rows: Rows = [(0, 1, 1_000, 600), (0, 2, 1_000, 300), (1, 2, 1_000, 500), (1, 3, 1_000, 250)]
    assert estimate_propensities(counts_of(rows)) == pytest.approx([1, 0.5, 0.25], abs=1e-5)


def test_the_first_position_need_not_be_the_best() -> None:
    rows: Rows = [(0, 1, 1_000, 200), (0, 2, 1_000, 400)]
    assert estimate_propensities(counts_of(rows)) == pytest.approx([0.5, 1])


def test_propensities_are_clipped_and_rare_positions_share_one() -> None:
    rows: Rows = [(0, 1, 1_000, 900), (0, 2, 100_000, 200)]
    assert estimate_propensities(counts_of(rows)).tolist() == [1, MIN_PROPENSITY]
    rows = [(0, 1, 1_000, 400), (0, 2, 500, 60), (0, 3, 500, 60), (0, 9, 10, 3)]
    estimate = estimate_propensities(counts_of(rows))
    assert len(estimate) == 9
    assert len(set(estimate[1:].tolist())) == 1
    assert estimate[1] == pytest.approx((123 / 1_010) / 0.4)


def test_known_propensities_are_recovered_where_titles_are_shown_three_times_each() -> None:
    counts, truth = simulate([1, 0.6, 0.4, 0.3, 0.2], pairs=60_000, views=3)
    assert estimate_propensities(counts) == pytest.approx(truth, rel=0.12)


def test_more_impressions_come_closer() -> None:
    counts, truth = simulate([1, 0.6, 0.4, 0.3, 0.2], pairs=30_000, views=30)
    assert estimate_propensities(counts) == pytest.approx(truth, rel=0.03)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_expected_clicks_are_those_counted_and_the_order_of_pairs_has_no_effect(seed: int) -> None:
    counts, _ = simulate([1, 0.5, 0.3], pairs=2_000, views=4, seed=seed)
    propensities = estimate_propensities(counts)
    index, shares = counts.position - 1, counts.shown * propensities[counts.position - 1]
    clicks, total = np.bincount(counts.pair, counts.clicked), np.bincount(counts.pair, shares)
    expected = np.bincount(index, clicks[counts.pair] * shares / total[counts.pair])
    counted = np.bincount(index, counts.clicked)
    assert expected == pytest.approx(counted, rel=1e-3)
    renumbered = np.random.default_rng(seed).permutation(counts.pair.max() + 1)[counts.pair]
    order = np.lexsort((counts.position, renumbered))
    shuffled = PositionCounts(renumbered[order], *(column[order] for column in counts[1:]))
    assert estimate_propensities(shuffled).tobytes() == propensities.tobytes()


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(0, 1, 1_000, 500)],
        [(0, 1, 1_000, 500), (1, 2, 1_000, 500)],  # each title has its own position
        [(0, 1, 1_000, 500), (0, 2, 1_000, MIN_CLICKS - 1)],
        [(0, 1, 900, 300), (0, 2, 900, 200), (1, 3, 900, 300), (1, 4, 900, 200)],  # 1 and 2 are apart from 3 and 4
        [(0, 1, 9, 0), (0, 2, 9, 0)],
    ],
)
def test_a_log_without_enough_variation_is_refused(rows: Rows) -> None:
    with pytest.raises(ClickvecError, match="cannot tell position bias from relevance") as error:
        estimate_propensities(counts_of(rows))
    assert f"at least {MIN_CLICKS} at each of two positions" in str(error.value)
    assert "the order of the results must vary" in str(error.value)


def test_weights_of_clicks() -> None:
    weights = position_weights(np.array([1, 0.5, 0.25]), np.array([5, 30, 10, 0, 20]))
    assert weights.tolist() == [(30 + 20 + 80) / 60, 1, 2, 4, 4]  # unknown: the mean; beyond the last: as the last
    assert position_weights(np.array([1, 0.5]), np.array([5])).tolist() == [1]
    assert position_weights(np.array([1, 0.5]), np.zeros(0, np.int64)).tolist() == [1]
