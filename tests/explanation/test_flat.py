"""The map: its parts by hand and by difference quotients, the whole against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import entr
from sklearn.manifold import TSNE, trustworthiness
from tiny import TEXTS, tiny

from clickvec.errors import ClickvecError
from clickvec.explanation import flat
from clickvec.explanation.flat import divergence, flatten, gradient, map_titles, similarities
from clickvec.explanation.reading import Floats
from clickvec.model.encoder import Encoder


def clusters(size: int = 40, seed: int = 0) -> tuple[Floats, Floats]:
    """Three clear clusters in ten dimensions and some noise, and which point belongs to which."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(4), (size, size, size, size // 4))
    centres = np.concatenate((6 * np.eye(10)[:3], np.zeros((1, 10))))
    return centres[label] + rng.normal(0, np.where(label < 3, 1.0, 4.0)[:, None], (len(label), 10)), label


# --- the parts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("perplexity", [2.0, 7.5, 30.0])
def test_each_point_cares_for_as_many_neighbours_as_asked(perplexity: float) -> None:
    x, _ = clusters(20)
    conditional = np.zeros((len(x), len(x)))
    for i, point in enumerate(x):
        others = np.arange(len(x)) != i
        apart = np.square(x[others] - point).sum(axis=1)

        def neighbours(beta: float, apart: Floats = apart) -> Floats:
            near = np.exp(-beta * (apart - apart.min()))
            return np.asarray(near / near.sum())

        beta = brentq(lambda beta, near=neighbours: 2 ** (entr(near(beta)).sum() / np.log(2)) - perplexity, 1e-6, 1e3)
        conditional[i, others] = neighbours(beta)
    seen = similarities(x, perplexity)
    np.testing.assert_allclose(seen, (conditional + conditional.T) / (2 * len(x)), atol=1e-9)
    assert seen.sum() == pytest.approx(1)


def test_of_three_points_by_hand() -> None:
    """0, 1 and 3 on a line, perplexity 1: each cares for its nearest alone, the middle one for the left."""
    seen = similarities(np.array([[0.0], [1.0], [3.0]]), 1.0)
    np.testing.assert_allclose(seen, np.array([[0, 2, 0], [2, 0, 1], [0, 1, 0]]) / 6, atol=1e-6)


def test_divergence_by_hand() -> None:
    """Three places at distances 1, 1 and 2: 1/(1+d²) is 1/2, 1/2 and 1/5, twice each, in all 2.4."""
    y = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    p = np.array([[0, 2, 1], [2, 0, 2], [1, 2, 0]]) / 10
    expected = 4 * 0.2 * np.log(0.2 / (0.5 / 2.4)) + 2 * 0.1 * np.log(0.1 / (0.2 / 2.4))
    assert divergence(p, y) == pytest.approx(expected)
    q = np.array([[0, 0.5, 0.2], [0.5, 0, 0.5], [0.2, 0.5, 0]]) / 2.4
    assert divergence(q, y) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(gradient(q, y), 0, atol=1e-12)


def test_the_gradient_is_the_slope_of_the_divergence() -> None:
    rng = np.random.default_rng(0)
    p, y = similarities(rng.normal(size=(12, 5)), 3.0), rng.normal(size=(12, 2))
    slope, step = gradient(p, y), 1e-5
    for point in range(len(y)):
        for axis in range(2):
            there, back = y.copy(), y.copy()
            there[point, axis] += step
            back[point, axis] -= step
            by_quotient = (divergence(p, there) - divergence(p, back)) / (2 * step)
            assert slope[point, axis] == pytest.approx(by_quotient, abs=1e-7)


# --- the whole ---------------------------------------------------------------------------------------------------


def test_the_map_is_as_good_as_that_of_scikit_learn() -> None:
    x, label = clusters()
    ours = flatten(x)
    theirs = TSNE(init="pca", method="exact", perplexity=30, random_state=0).fit(x)
    p = similarities(x, 30.0)
    assert divergence(p, theirs.embedding_.astype(np.float64)) == pytest.approx(theirs.kl_divergence_, rel=1e-3)
    assert divergence(p, ours) <= 1.05 * theirs.kl_divergence_
    assert trustworthiness(x, ours) >= trustworthiness(x, theirs.embedding_) - 0.01
    assert trustworthiness(x, ours) > 0.9
    apart = np.square(ours[:, None] - ours).sum(axis=2) + 1e9 * np.eye(len(x))
    same = label[apart.argmin(axis=1)] == label
    assert same[label < 3].mean() > 0.95


def test_the_divergence_falls_step_by_step() -> None:
    x, _ = clusters()
    p = similarities(x, 30.0)
    values = [divergence(p, flatten(x, steps=steps)) for steps in (0, flat.EARLY, 400, flat.STEPS)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0] / 3


def test_the_same_vectors_give_the_same_map() -> None:
    x, _ = clusters(12)
    np.testing.assert_array_equal(flatten(x), flatten(x.copy()))
    np.testing.assert_array_equal(flatten(x), flatten(4 * x))  # whatever the unit
    assert not np.array_equal(flatten(x), flatten(x, seed=1))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 11, 12])
@pytest.mark.parametrize("width", [0, 1, 2, 5])
def test_any_number_of_points_has_a_map(count: int, width: int) -> None:
    places = flatten(np.random.default_rng(0).normal(size=(count, width)))
    assert places.shape == (count, 2)
    assert np.isfinite(places).all()
    if count > 1 and width:
        assert len(np.unique(places.round(3), axis=0)) == count  # told apart


@pytest.mark.parametrize("count", [2, 10, 30])
def test_equal_and_zero_vectors_have_a_map(count: int) -> None:
    for x in (np.zeros((count, 4)), np.full((count, 4), 0.1)):
        np.testing.assert_allclose(flatten(x), 0, atol=1e-3)
    x = np.random.default_rng(0).normal(size=(60, 4))
    x[:8], x[8:12] = x[0], 0
    places = flatten(x)
    assert np.isfinite(places).all()
    assert np.ptp(places[:8], axis=0).max() < 0.3 * np.ptp(places, axis=0).min()


@settings(max_examples=25)
@given(
    st.integers(0, 14).flatmap(
        lambda count: st.lists(
            st.lists(st.sampled_from([0.0, 1.0, -1.0, 1e-9, 1e9, 1e300, 5e-324]), min_size=3, max_size=3),
            min_size=count, max_size=count,
        )
    )
)  # fmt: skip
def test_finite_numbers_give_a_finite_map(rows: list[list[float]]) -> None:
    places = flatten(np.array(rows).reshape(-1, 3), steps=300)
    assert places.shape == (len(rows), 2)
    assert np.isfinite(places).all()


@pytest.mark.parametrize("x", [[[np.nan, 0.0]], [[np.inf, 0.0]], [1.0, 2.0], [[[1.0]]]])
def test_what_is_no_rows_of_numbers_is_refused(x: list[object]) -> None:
    with pytest.raises(ClickvecError, match="a map is made of rows of finite numbers"):
        flatten(x)  # type: ignore[arg-type]


def test_too_many_points_and_no_neighbours_are_refused() -> None:
    with pytest.raises(ClickvecError, match=r"at most 2,000 points, not 2,001; draw a sample"):
        flatten(np.zeros((2_001, 2)))
    for perplexity in (0.5, float("nan")):
        with pytest.raises(ClickvecError, match="perplexity is at least 1"):
            flatten(np.zeros((20, 2)), perplexity=perplexity)


# --- a map of titles ---------------------------------------------------------------------------------------------


def test_a_sample_of_different_titles_is_mapped() -> None:
    encoder = Encoder(tiny())
    titles = ["", *TEXTS, "ЖЖЖ", "HOTELS in  shanghai", *(f"{text} hotel" for text in TEXTS)]
    found = map_titles(encoder, titles)
    assert found.titles == tuple(titles[row] for row in found.rows)
    assert set(found.titles) == {*TEXTS, *(f"{text} hotel" for text in TEXTS)}  # not those without a vector
    assert list(found.rows) == sorted(found.rows)
    np.testing.assert_array_equal(found.places, flatten(encoder.encode_document(list(found.titles))))


def test_the_sample_is_drawn_by_its_seed() -> None:
    encoder, titles = Encoder(tiny()), [f"{one} {two}" for one in TEXTS for two in TEXTS]
    small = map_titles(encoder, titles, 9)
    assert len(small.titles) == 9
    assert map_titles(encoder, titles, 9).rows == small.rows
    assert map_titles(encoder, titles, 9, seed=1).rows != small.rows
    assert map_titles(encoder, []).places.shape == (0, 2)
    with pytest.raises(ClickvecError, match="at least 1 title, not 0"):
        map_titles(encoder, titles, 0)
