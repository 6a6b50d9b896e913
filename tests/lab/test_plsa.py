"""PLSA: EM by hand, never downhill, the optimum of KL-NMF, folding in, and scores that are finite whatever comes."""

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.decomposition import NMF

from clickvec.errors import ClickvecError
from clickvec.evaluation.ranker import Ranker
from clickvec.lab.other_systems import plsa
from clickvec.lab.other_systems.plsa import OWN_WORDS_GRID, PLSA, PLSA_GRID, Aspects

TITLES = [f"{what} {where} {how}" for what in ("car", "auto") for where in ("motor", "road", "garage") for how in "ab"]
TITLES += [f"{what} {where}" for what in ("pizza", "pasta", "bread") for where in ("dough", "oven", "recipe")]

corpora = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6).map(" ".join), min_size=1, max_size=8)


def random_counts(seed: int, titles: int = 40, words: int = 25, topics: int = 3) -> csr_matrix:
    """Counts drawn from a PLSA model; every title has a word, and every word a title."""
    rng = np.random.default_rng(seed)
    word_given_topic = rng.dirichlet(np.full(words, 0.2), topics)
    drawn = rng.poisson(60 * rng.dirichlet(np.full(topics, 0.2), titles) @ word_given_topic).astype(float)
    drawn = drawn[drawn.any(axis=1)]
    return csr_matrix(drawn[:, drawn.any(axis=0)])


# --- EM ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "a_given_1", "first_of_second", "log_prior"),
    [
        (0, 9 / 10, 3 / 4, 0.0),
        (
            2,
            (9 / 4 + 1) / (10 / 4 + 2),
            (3 / 2 + 1) / 4,
            2 * math.log(3 / 4) + 2 * math.log(1 / 4) + 4 * math.log(1 / 2),
        ),
    ],
)
def test_a_step_by_hand(prior: float, a_given_1: float, first_of_second: float, log_prior: float) -> None:
    """Titles "a b" and "a a"; P(a|1) = P(b|2) = 3/4 and both topics as likely, so P(w|d) = 1/2 for all four words.

    P(1|d,a) = 3/4 and P(1|d,b) = 1/4. Topic 1 so has 3/4 + 2 · 3/4 = 9/4 of the a's and 1/4 of the b's, topic 2 3/4 of
    each. The second title has 3/2 words of topic 1 and 1/2 of topic 2. Prior 2 is one more of each: α = β = 1.
    """
    counts = csr_matrix([[1.0, 1.0], [2.0, 0.0]])
    start = Aspects(np.array([[3 / 4, 1 / 4], [1 / 4, 3 / 4]]), np.full((2, 2), 1 / 2))
    (words, topics), log_posteriors = plsa.climb(counts, start, prior, 1)
    assert words.ravel().tolist() == pytest.approx([a_given_1, 1 / 2, 1 - a_given_1, 1 / 2])
    assert topics.ravel().tolist() == pytest.approx([1 / 2, 1 / 2, first_of_second, 1 - first_of_second])
    assert log_posteriors[0] == pytest.approx(4 * math.log(1 / 2) + log_prior)


@settings(max_examples=50)
@given(
    corpora.filter(lambda titles: any(titles)), st.integers(1, 5), st.sampled_from([0, 0.1, 1, 20]), st.integers(0, 9)
)
def test_the_log_posterior_never_falls(titles: list[str], topics: int, prior: float, seed: int) -> None:
    ranker = PLSA.fit(titles, topics=topics, prior=prior, iterations=25, seed=seed, dtype=np.float64)
    assert len(ranker.log_posteriors) == 26
    assert np.isfinite(ranker.log_posteriors).all()
    assert (np.diff(ranker.log_posteriors) >= -1e-9).all()
    assert ranker.word_given_topic.sum(axis=0) == pytest.approx(1)


@pytest.mark.parametrize("prior", [0, 0.5])
def test_the_log_posterior_is_that_of_its_definition(prior: float) -> None:
    counts = random_counts(5)
    aspects, log_posteriors = plsa.climb(counts, plsa.random_start(counts.shape, 4, seed=0), prior, 3)
    words, topics = aspects
    expected = (counts.toarray() * np.log(topics @ words.T)).sum()
    expected += prior / len(words) * np.log(words).sum() + prior / 4 * np.log(topics).sum()
    assert log_posteriors[-1] == pytest.approx(expected)


def kl_nmf(observed: NDArray[np.float64], start: Aspects) -> Aspects:
    """What scikit-learn makes of the same start, as PLSA writes it: rows of W H are n(d) P(w|d)."""
    nmf = NMF(start[0].shape[1], init="custom", solver="mu", beta_loss="kullback-leibler", tol=0, max_iter=2000)
    length = observed.sum(axis=1, keepdims=True)
    titles = nmf.fit_transform(observed, W=length * start.topic_given_title, H=start.word_given_topic.T.copy())
    mass = nmf.components_.sum(axis=1)
    assert (titles @ mass) == pytest.approx(length[:, 0], rel=1e-5)
    return Aspects(nmf.components_.T / mass, titles * mass / length)


@pytest.mark.parametrize("seed", range(4))
def test_without_a_prior_it_reaches_the_optimum_of_nmf_with_the_kullback_leibler_loss(seed: int) -> None:
    counts = random_counts(seed)
    start = plsa.random_start(counts.shape, 3, seed)
    ours, log_posteriors = plsa.climb(counts, start, 0, 2000)
    theirs = kl_nmf(counts.toarray(), start)
    log_likelihood = float(counts.data @ np.log(plsa.word_given_title(counts, theirs)))
    assert log_posteriors[0] < 1.2 * log_likelihood
    assert log_posteriors[-1] == pytest.approx(log_likelihood, rel=1e-6)
    np.testing.assert_allclose(ours[1] @ ours[0].T, theirs[1] @ theirs[0].T, atol=1e-3)  # P(w|d)


@pytest.mark.parametrize("seed", [0, 4, 11])
def test_without_a_prior_the_optimum_of_nmf_is_a_fixed_point(seed: int) -> None:
    """With seed 11 the two climb to different peaks, as NMF updates its factors by turns; its peak is one of ours."""
    counts = random_counts(seed)
    theirs = kl_nmf(counts.toarray(), plsa.random_start(counts.shape, 3, seed))
    ours, log_posteriors = plsa.climb(counts, theirs, 0, 10)
    assert log_posteriors[-1] == pytest.approx(log_posteriors[0], rel=1e-9)
    np.testing.assert_allclose(ours[1] @ ours[0].T, theirs[1] @ theirs[0].T, atol=1e-6)


def test_folding_a_training_title_in_gives_its_topics_back() -> None:
    counts, prior, topics = random_counts(0), 0.5, 3
    aspects, _ = plsa.climb(counts, plsa.random_start(counts.shape, topics, seed=1), prior, 3000)
    folded = plsa.fold_in(counts, aspects.word_given_topic, prior / topics, iterations=3000)
    np.testing.assert_allclose(folded, aspects.topic_given_title, atol=1e-5)


def test_a_topic_that_dies_out_leaves_no_nan() -> None:
    ranker = PLSA.fit(["a", "b"], topics=6, prior=0, iterations=600)
    assert np.isfinite(ranker.word_given_topic).all()
    assert np.isfinite(ranker.score("a b", ["a", "b", "a b", "c"])).all()


# --- the ranker --------------------------------------------------------------------------------------------------


def test_a_score_by_hand() -> None:
    """Each word is a topic, and prior 2 is one word more of each: "a a" is 3/4 topic a and 1/4 topic b."""
    ranker = PLSA(["a", "b"], np.eye(2), prior=2, own_words=0)
    assert ranker.topics_of(["a a"]).tolist() == [[3 / 4, 1 / 4]]
    assert ranker.score("a b", ["a a", "b"]).tolist() == pytest.approx([math.log(3 / 16), math.log(2 / 9)])
    half = ranker.with_own_words(0.5)
    assert half.score("a b", ["a a"]).tolist() == pytest.approx([math.log(7 / 8) + math.log(1 / 8)])
    assert half.score("a", ["a zebra"]).tolist() == pytest.approx([math.log(1 / 2 * 2 / 3 + 1 / 2 * 1 / 2)])


def test_words_of_one_topic_stand_for_each_other() -> None:
    ranker: Ranker = PLSA.fit(TITLES, topics=2, prior=0.1, iterations=100, own_words=0)
    auto, pizza = ranker.score("car", ["auto garage", "pizza oven"])
    assert auto > pizza + 1


def test_it_is_repeatable_and_the_seed_counts() -> None:
    titles = [*TITLES, "unseen car", ""]
    one, same, other = (PLSA.fit(TITLES, topics=5, seed=seed).score("auto dough", titles) for seed in (1, 1, 2))
    assert one.dtype == np.float32
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


@pytest.mark.parametrize("own_words", [0, 0.5, 1])
@pytest.mark.parametrize("prior", [0, 1])
def test_scores_are_finite(prior: float, own_words: float) -> None:
    ranker = PLSA.fit([*TITLES, "", "上海"], topics=4, prior=prior, own_words=own_words)
    titles = [*TITLES, "", "?", "zebra", "zebra car", "上海"]
    for query in ("car dough 上海", "zebra", "", "car zebra"):
        assert np.isfinite(ranker.score(query, titles)).all()
    assert ranker.score("zebra", titles).tolist() == [0] * len(titles)
    assert ranker.score("car zebra", titles).tolist() == ranker.score("car", titles).tolist()
    assert ranker.score("car", []).shape == (0,)


def test_the_order_of_words_and_the_company_of_titles_do_not_count() -> None:
    ranker = PLSA.fit(TITLES, topics=5)
    together = ranker.score("motor recipe", ["Car motor a", *TITLES[::-1], "a motor car"])
    assert together[0] == together[-1]
    alone = PLSA.fit(TITLES, topics=5).score("motor recipe", ["car motor a"])
    assert alone.tolist() == pytest.approx([float(together[0])], rel=1e-5)


def test_titles_are_folded_in_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = PLSA.fit(TITLES, topics=5)
    ranker.score("car", TITLES)
    monkeypatch.delattr(plsa, "fold_in")
    other = ranker.with_own_words(0.9, name="other")
    assert other.score("car", TITLES).tolist() != ranker.score("car", TITLES).tolist()
    assert (ranker.name, other.name) == ("PLSA", "other")


def test_parameters() -> None:
    ranker = PLSA.fit(["a b", "b c", "a b"], topics=7)
    assert ranker.parameters == 3 * 7
    assert ranker.word_given_topic.dtype == np.float32


def test_every_point_of_the_grid_is_a_system() -> None:
    for point in PLSA_GRID:
        ranker = PLSA.fit(TITLES, **point)
        assert all(np.isfinite(ranker.with_own_words(share).score("car", TITLES)).all() for share in OWN_WORDS_GRID)


def test_bad_settings_are_named() -> None:
    with pytest.raises(ClickvecError, match="titles with words"):
        PLSA.fit(["", "!"])
    for bad in ({"topics": 0}, {"iterations": 0}, {"prior": -1}):
        with pytest.raises(ClickvecError, match="at least 1 topic"):
            PLSA.fit(TITLES, **bad)  # type: ignore[arg-type]
    for share in (-0.1, 1.1, math.nan):
        with pytest.raises(ClickvecError, match="own_words is"):
            PLSA.fit(TITLES, topics=1).with_own_words(share)


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(ClickvecError, match=r"scipy is not installed; .*clickvec\[baselines\]"):
        PLSA.fit(TITLES)
