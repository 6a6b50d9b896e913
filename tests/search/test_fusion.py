"""Fusion: hand-worked scores, terms that add up, settings that are checked, and the failures that it must not have."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec import ClickvecError
from clickvec.search.fusion import Candidates, Fusion, key_of, silent_sets
from clickvec.search.lexical.query_terms import Term
from clickvec.search.parts.part import Single
from clickvec.search.parts.vector_part import VECTORS
from clickvec.search.parts.word_part import WORDS, Matches, facts_of


def term(
    idf: float,
    weights: tuple[float, ...] = (1.0,),
    is_known: bool = True,
    is_code: bool = False,
    is_number: bool = False,
) -> Term:
    return Term("word", ("word",), weights, idf, is_known, is_code, is_number)


FEATURE_NAMES = [feature.name for part in (VECTORS, WORDS) for feature in part.features]
CLICKS = Fusion("clicks", dict(zip(("constant", *FEATURE_NAMES), (-8, 7, 3, 2, 1, 1, 1, -1, 0.3), strict=True)))
BENT = Fusion("clicks", {**CLICKS.weights, "bend": -0.5, "bend from": -2.0})
METHODS = [Fusion.ranks(10), Fusion.default(), CLICKS, BENT]
WITHOUT = Fusion("clicks", CLICKS.weights, {"vectors": {"constant": -1.0, "words": 3.0}})


def candidates(cosine: list[float], matches: list[list[float]], terms: list[Term]) -> Candidates:
    of_words = Matches(facts_of(terms), np.array(matches, np.float32).reshape(len(cosine), len(terms)))
    return Candidates({"vectors": Single("cosine", np.array(cosine, np.float32)), "words": of_words})


def test_ranks_are_reciprocal_and_ties_share_the_better_rank() -> None:
    both = candidates([0.9, 0.5, 0.5, 0.1], [[0], [3], [1], [0]], [term(4)])
    expected = [11 / 2 / 11, 11 / 2 * (1 / 12 + 1 / 11), 11 / 2 * (1 / 12 + 1 / 12), 11 / 2 / 14]
    np.testing.assert_allclose(Fusion.ranks(10).scores(both), expected, rtol=1e-6)


def test_the_mixture_adds_the_cosine_the_share_of_possible_bm25_codes_and_numbers() -> None:
    both = candidates([0.9, 0.5], [[0, 1], [3, 1]], [term(6, is_code=True), term(2, is_number=True)])
    numbers = 0.12 * 2 / 8
    expected = [0.441 * 0.9 + 0.189 / 8 + numbers, 0.441 * 0.5 + 0.189 / 2 + 0.25 + numbers]
    np.testing.assert_allclose(Fusion.default().scores(both), expected, rtol=1e-6)


def test_facts_of_a_title_by_hand() -> None:
    terms = [term(6, is_code=True), term(2, is_number=True), term(4, weights=(), is_known=False)]
    facts = candidates([0.5, -0.5], [[3, 1, 0], [0, 0, 0]], terms).features()
    expected: dict[str, Any] = {
        "cosine": [0.5, -0.5],
        "words": [4 / 12, 0],
        "codes": [1, 0],
        "numbers": [2 / 12, 0],
        "rarest match": [0.6, 0],
        "unknown words": 4 / 12,
        "rarest word": 0.6,
        "query length": math.log(3),
    }
    assert tuple(facts) == tuple(FEATURE_NAMES) == tuple(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(facts[name], values, err_msg=name)


@st.composite
def some_candidates(draw: st.DrawFn) -> Candidates:
    titles, count = draw(st.integers(1, 6)), draw(st.integers(0, 4))
    weights = st.sampled_from((0.4, 1.0, 2.0))
    kinds = st.sampled_from(((False, False), (True, False), (False, True)))
    terms = [term(draw(st.floats(0.1, 12)), (draw(weights),), True, *draw(kinds)) for _ in range(count)]
    shares = st.one_of(st.just(0.0), st.floats(0.01, 0.99))
    matches = [[draw(shares) * term.idf for term in terms] for _ in range(titles)]
    cosine = [draw(st.floats(-1, 1)) for _ in range(titles)]
    return candidates(cosine, matches, terms)


@pytest.mark.parametrize("fusion", METHODS, ids=lambda fusion: str(fusion.method))
@given(of=some_candidates())
def test_terms_add_up_to_the_score(fusion: Fusion, of: Candidates) -> None:
    scores = fusion.scores(of)
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    for row, score in enumerate(scores.tolist()):
        total = sum(fusion.terms_of(of, row).values())
        total = 1 / (1 + math.exp(-total)) if fusion.is_probability else total
        assert math.isclose(total, score, rel_tol=1e-5, abs_tol=1e-6)


@pytest.mark.parametrize("fusion", [Fusion.default(), CLICKS], ids=lambda fusion: str(fusion.method))
@given(of=some_candidates())
def test_a_score_does_not_depend_on_the_other_candidates(fusion: Fusion, of: Candidates) -> None:
    np.testing.assert_allclose(fusion.scores(of.take(np.array([0]))), fusion.scores(of)[:1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("fusion", METHODS, ids=lambda fusion: str(fusion.method))
def test_no_candidates_and_no_words_are_no_error(fusion: Fusion) -> None:
    assert fusion.scores(candidates([], [], [])).shape == (0,)
    assert fusion.scores(candidates([], [], [term(3)])).shape == (0,)
    better, worse = fusion.scores(candidates([0.8, 0.2], [[], []], [])).tolist()
    assert better > worse


@given(of=some_candidates())
def test_a_bend_keeps_the_order(of: Candidates) -> None:
    straight, bent = CLICKS.scores(of), BENT.scores(of)
    order = np.argsort(straight)
    assert (np.diff(bent[order]) >= 0).all()
    below = straight < 1 / (1 + math.exp(2)) - 1e-6
    np.testing.assert_allclose(bent[below], straight[below], rtol=1e-5)


def test_a_rare_code_beats_a_similar_title() -> None:
    terms = [term(2.5), term(9, is_code=True)]
    exact = candidates([0.55, 0.85], [[1.2, 4.5], [1.2, 0]], terms)
    for fusion in (Fusion.default(), CLICKS):
        scores = fusion.scores(exact)
        assert scores[0] > scores[1], fusion.method


def test_a_code_counts_the_same_whatever_surrounds_it_unless_other_words_are_rarer() -> None:
    alone, among = [term(8, is_code=True)], [term(3), term(2), term(8, is_code=True), term(5)]
    assert candidates([0.0], [[4]], alone).features()["codes"] == 1
    assert candidates([0.0], [[0, 0, 4, 0]], among).features()["codes"] == 1
    frequent = [term(3, is_code=True), term(6)]  # 4k samsung
    assert candidates([0.0], [[1.5, 0]], frequent).features()["codes"] == 0.5
    two = [term(4, is_code=True), term(6, is_code=True)]
    np.testing.assert_allclose(candidates([0.0, 0.0], [[2, 0], [2, 3]], two).features()["codes"], [0.4, 1])


def test_a_fusion_has_other_weights_without_a_silent_part() -> None:
    own = {"vectors": {"constant": -1.0, "words": 4.0}}
    fusion = Fusion("clicks", CLICKS.weights, own)
    both = candidates([0.0, 0.0], [[3], [0]], [term(6)])
    np.testing.assert_array_equal(fusion.scores(both), CLICKS.scores(both))
    silent = replace(both, silent=frozenset({"vectors"}))
    expected = [1 / (1 + math.exp(1 - 4 * 3 / 6)), 1 / (1 + math.exp(1))]
    np.testing.assert_allclose(fusion.scores(silent), expected, rtol=1e-6)
    assert fusion.terms_of(silent, 0) == {"constant": -1.0, "words": 2.0}
    # Without weights of its own, what is left of the sum counts.
    np.testing.assert_array_equal(CLICKS.scores(silent), CLICKS.scores(both))


def test_any_part_may_be_silent_while_another_one_proposes() -> None:
    assert set(map(key_of, silent_sets())) == {"vectors", "words"}
    assert key_of({"words", "vectors"}) == "vectors+words"


@given(of=some_candidates(), cosine=st.floats(0, 1), share=st.floats(0, 1))
def test_no_title_scores_more_than_the_most_that_its_parts_allow(of: Candidates, cosine: float, share: float) -> None:
    """Thresholds stop a search by this bound. By ranks, a cosine below 0 is worth more than none."""
    bm25 = share * float(of.values["words"].own.max(initial=0))
    own = {name: values.own for name, values in of.values.items()}
    below = (own["vectors"] <= cosine) & (own["words"] <= bm25)
    for fusion in (Fusion.default(), CLICKS, BENT, Fusion.ranks(10)):
        assert (fusion.scores(of)[below] <= fusion.most(of, {"vectors": cosine, "words": bm25})).all()
    assert CLICKS.most(of, {"vectors": math.inf, "words": bm25}) == math.inf


def test_a_strong_vector_is_not_diluted_by_frequent_words() -> None:
    terms = [term(0.4), term(0.5), term(7, is_known=False, weights=())]  # "how to" and a word that no title has
    both = candidates([0.9, 0.3], [[0, 0, 0], [0.2, 0.25, 0]], terms)
    for fusion in (Fusion.default(), CLICKS):
        scores = fusion.scores(both)
        assert scores[0] > scores[1], fusion.method


@pytest.mark.parametrize("fusion", [*METHODS, WITHOUT], ids=lambda fusion: str(fusion.method))
def test_settings_survive_json(fusion: Fusion) -> None:
    assert Fusion.from_json(json.loads(json.dumps(fusion.as_json()))) == fusion


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "a fusion has a method (ranks, mixture, clicks) and weights; this is None"),
        ({"method": ["ranks"]}, "a fusion has a method"),
        ({"method": "mixture"}, "the fusion 'mixture' weighs cosine, words, codes, numbers, "),
        ({"method": "mixture", "weights": {"cosine": 1, "luck": 1}}, "this one has {'cosine': 1, 'luck': 1}"),
        ({"method": "mixture", "weights": {}}, "this one has {}"),
        (
            {"method": "mixture", "weights": {"words": 1}, "without": {"luck": {}}},
            "weights without words or vectors; this is",
        ),
        ({"method": "mixture", "weights": {"words": 1}, "without": {"words": {"luck": 1}}}, "has {'luck': 1}"),
        ({"method": "ranks", "weights": {"constant": "x"}}, "the weight 'constant' of the fusion 'ranks' is 'x'"),
        ({"method": "ranks", "weights": {"constant": True}}, "is True; it must be a number"),
        ({"method": "ranks", "weights": {"constant": math.nan}}, "is nan; it must be a number"),
        ({"method": "ranks", "weights": {"constant": -1}}, "it must not be negative"),
        ({"method": "ranks", "weights": {"constant": 1, "bend": 1}}, "weighs constant; this one has"),
        (
            {"method": "clicks", "weights": {**CLICKS.weights, "bend": -1}},
            "'bend' of the fusion 'clicks' is -1; it must",
        ),
    ],
)
def test_bad_settings_are_told_in_one_sentence(value: object, told: str) -> None:
    with pytest.raises(ClickvecError) as error:
        Fusion.from_json(value)
    assert told in str(error.value)
