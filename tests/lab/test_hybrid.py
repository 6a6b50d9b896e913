"""Rank fusion by hand, and what a mixture must keep of its parts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.evaluation.ranker import Ranker
from clickvec.lab.other_systems.hybrid import MIXTURE_GRID, RRF_GRID, Mixture, ReciprocalRank, mean_ranks
from clickvec.search.rerank import standard

Scores = NDArray[np.float32]
SCORES = arrays(np.float32, 6, elements=st.integers(-50, 50).map(lambda n: n / 8))


class Table(Ranker):
    """Scores that are written down."""

    def __init__(self, scores: Sequence[float] | Scores, name: str = "table") -> None:
        self.name = name
        self.scores = np.asarray(scores, dtype=np.float32)

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        return self.scores[: len(titles)]


def scored(ranker: ReciprocalRank | Mixture, count: int = 4) -> Scores:
    return ranker.score("q", [str(i) for i in range(count)])


def test_mean_ranks() -> None:
    assert mean_ranks(np.array([3, 0, 7, 0, 0], np.float32)).tolist() == [2, 4, 1, 4, 4]
    assert mean_ranks(np.array([5, 5], np.float32)).tolist() == [1.5, 1.5]
    assert mean_ranks(np.array([-0.0, 0.0], np.float32)).tolist() == [1.5, 1.5]
    assert mean_ranks(np.zeros(0, np.float32)).tolist() == []


def test_rank_fusion_by_hand() -> None:
    fused = ReciprocalRank([Table([9, 8, 7, 6]), Table([0, 0, 4, 0])], k=60)
    # The second ranker knows one title; the others share the ranks 2, 3 and 4.
    assert scored(fused).tolist() == pytest.approx([1 / 61 + 1 / 63, 1 / 62 + 1 / 63, 1 / 63 + 1 / 61, 1 / 64 + 1 / 63])
    assert scored(fused).dtype == np.float32
    assert scored(fused)[0] == scored(fused)[2]


def test_rank_fusion_of_three_with_another_k() -> None:
    fused = ReciprocalRank([Table([2, 1]), Table([2, 1]), Table([1, 2])], k=1)
    assert scored(fused, 2).tolist() == pytest.approx([1 / 2 + 1 / 2 + 1 / 3, 1 / 3 + 1 / 3 + 1 / 2])


@given(SCORES)
def test_a_ranker_without_an_opinion_changes_no_order(scores: Scores) -> None:
    fused = scored(ReciprocalRank([Table(scores), Table([0.0] * 6)]), 6)
    np.testing.assert_array_equal(mean_ranks(fused), mean_ranks(scores))
    mixed = scored(Mixture(Table(scores), Table([0.1] * 6), 0.3), 6)
    np.testing.assert_array_equal(mean_ranks(mixed), mean_ranks(scores))


@given(SCORES, SCORES)
def test_weights_0_and_1_give_the_parts(first: Scores, second: Scores) -> None:
    for weight, part in ((1, first), (0, second)):
        mixed = scored(Mixture(Table(first), Table(second), weight), 6)
        np.testing.assert_array_equal(mean_ranks(mixed), mean_ranks(part))


@given(SCORES, SCORES, st.integers(-3, 3).map(lambda n: 2.0**n), st.integers(-20, 20))
def test_a_mixture_does_not_see_scale_or_offset(first: Scores, second: Scores, scale: float, offset: int) -> None:
    mixed = scored(Mixture(Table(first), Table(second), 0.7), 6)
    moved = scored(Mixture(Table(first * scale + offset), Table(second), 0.7), 6)
    np.testing.assert_allclose(moved, mixed, atol=1e-6)


def test_a_mixture_by_hand() -> None:
    mixed = scored(Mixture(Table([0, 2]), Table([10, 0]), 0.75), 2)
    assert mixed.tolist() == pytest.approx([-0.75 + 0.25, 0.75 - 0.25])
    assert mixed.dtype == np.float32


@pytest.mark.parametrize("scores", [[0.1] * 4, [0.0] * 4, [1e-30, 0, 0, 0], [3e38, -3e38, 0, 0]])
def test_constant_and_extreme_scores_stay_finite(scores: list[float]) -> None:
    assert np.isfinite(standard(np.array(scores, np.float32))).all()
    assert np.isfinite(scored(Mixture(Table(scores), Table(scores), 0.5))).all()
    assert np.isfinite(scored(ReciprocalRank([Table(scores), Table(scores)]))).all()


def test_no_titles_and_one() -> None:
    for ranker in (ReciprocalRank([Table([1]), Table([2])]), Mixture(Table([1]), Table([2]), 0.5)):
        assert scored(ranker, 0).shape == (0,)
        assert np.isfinite(scored(ranker, 1)).all()


def test_names() -> None:
    first, second = Table([1], "LSTM"), Table([1], "BM25")
    assert Mixture(first, second, 0.5).name == ReciprocalRank([first, second]).name == "LSTM + BM25"
    assert Mixture(first, second, 0.5, name="both").name == ReciprocalRank([first, second], name="both").name == "both"


def test_bad_arguments() -> None:
    with pytest.raises(ClickvecError, match=r"1\.5.*between 0 and 1"):
        Mixture(Table([1]), Table([1]), 1.5)
    with pytest.raises(ClickvecError, match="0 rankers and k = 60"):
        ReciprocalRank([])
    with pytest.raises(ClickvecError, match="1 rankers and k = -1"):
        ReciprocalRank([Table([1])], k=-1)


@pytest.mark.parametrize("settings", RRF_GRID)
def test_every_rank_fusion_of_the_grid_can_be_made(settings: Mapping[str, Any]) -> None:
    assert ReciprocalRank([Table([1.0, 2.0])], **settings).k == settings["k"]


@pytest.mark.parametrize("settings", MIXTURE_GRID)
def test_every_mixture_of_the_grid_can_be_made(settings: Mapping[str, Any]) -> None:
    assert Mixture(Table([1.0, 2.0]), Table([1.0, 2.0]), **settings).weight == settings["weight"]
