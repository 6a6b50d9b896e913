"""Fitting a fusion: known weights are found again, probabilities are calibrated, and little data changes little."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from clickvec.evaluation.fitting import FittedQuery, by_part, choose, compare, measure_scores, reliability, verdict
from clickvec.evaluation.logistic_fit import (
    LEAST,
    NAMES,
    PRIOR,
    fit_clicks,
    fit_logistic,
    fit_without_parts,
    proposed_without,
)
from clickvec.evaluation.metrics import values_of
from clickvec.search.fusion import Candidates, Fusion, logistic
from clickvec.search.lexical.query_terms import Term
from clickvec.search.parts.part import Single
from clickvec.search.parts.vector_part import VECTORS
from clickvec.search.parts.word_part import LEAST_CODES, WORDS, Matches, facts_of

PRIOR_WEIGHTS = np.array([PRIOR[name] for name in NAMES])
FEATURE_NAMES = [feature.name for part in (VECTORS, WORDS) for feature in part.features]
TRUE = Fusion("clicks", dict(zip(("constant", *FEATURE_NAMES), (-9.0, 10, 4, 5, 2, 1, 0.5, 0.5, -0.3), strict=True)))


def some_queries(count: int, truth: Fusion = TRUE, titles: int = 60) -> list[FittedQuery]:
    """Return queries whose clicks are drawn with the probabilities that `truth` gives."""
    rng = np.random.default_rng(0)
    queries = []
    for number in range(count):
        terms = int(rng.integers(1, 5))
        idf = rng.uniform(1, 9, terms)
        matches = rng.uniform(0.2, 0.7, (titles, terms)) * idf * (rng.random((titles, terms)) < 0.3)
        is_known, is_code, is_number = (rng.random(terms) < share for share in (0.9, 0.2, 0.2))
        cosine = rng.uniform(-0.2, 1, titles)
        kinds = zip(idf.tolist(), is_known, is_code, is_number & ~is_code, strict=True)
        words = Matches(facts_of([Term("", (), (), *kind) for kind in kinds]), matches)
        of = Candidates({"vectors": Single("cosine", cosine), "words": words})
        keys = tuple(f"{number}-{title}" for title in range(titles))
        clicked = rng.random(titles) < truth.scores(of)
        gains = {key: 1.0 for key, is_clicked in zip(keys, clicked, strict=True) if is_clicked}
        queries.append(FittedQuery.of(of, keys, gains or {"elsewhere": 1.0}))
    return queries


def fitted(queries: Sequence[FittedQuery]) -> Fusion:
    return fit_clicks([query.facts for query in queries], [query.clicked for query in queries])


def test_weights_that_made_the_clicks_are_found_again() -> None:
    weights = fitted(some_queries(3_000)).weights
    for name in ("cosine", "words", "codes", "numbers", "rarest match"):
        assert weights[name] == pytest.approx(TRUE.weights[name], abs=0.6), name


def test_the_fit_is_a_minimum_of_the_penalised_loss() -> None:
    queries = some_queries(100)
    facts, labels = np.concatenate([q.facts for q in queries]), np.concatenate([q.clicked for q in queries]) * 1.0
    weights, spread = fit_logistic(facts, labels, PRIOR_WEIGHTS, 10), facts.std(axis=0)
    pull = np.where(np.arange(len(NAMES)) == 0, 1e-6, 10) * spread**2
    gradient = facts.T @ (logistic(facts @ weights) - labels) + pull * (weights - PRIOR_WEIGHTS)
    assert np.abs(gradient / np.maximum(spread, 0.1)).max() < 1e-3


def test_a_better_match_never_lowers_the_score() -> None:
    """In a log where matching words and numbers mislead, they count nothing; the cosine is fitted without them."""
    misleading = Fusion("clicks", TRUE.weights | {"words": -4.0, "numbers": -2.0})
    weights = fitted(some_queries(3_000, misleading)).weights
    assert weights["words"] == weights["numbers"] == 0
    assert min(weights["cosine"], weights["rarest match"]) >= 0
    assert weights["cosine"] > 5


def test_codes_keep_a_weight_even_if_the_clicks_are_elsewhere() -> None:
    """A shop without the part sells another one; a new part must be found all the same."""
    misleading = Fusion("clicks", TRUE.weights | {"codes": -2.0})
    queries = some_queries(3_000, misleading)
    weights = fitted(queries).weights
    assert weights["codes"] == pytest.approx(LEAST_CODES, rel=0.2)  # calibration scales all weights
    assert weights["cosine"] > 5
    facts, clicked = [query.facts for query in queries], [query.clicked for query in queries]
    assert fit_clicks(facts, clicked, least={**LEAST, "codes": 0.0}).weights["codes"] == 0


def test_few_queries_stay_near_the_prior_and_a_fact_that_never_varies_keeps_it() -> None:
    query = some_queries(1)[0]
    weights = fitted([query]).weights
    assert weights["cosine"] == pytest.approx(PRIOR["cosine"], abs=1.5)
    assert weights["query length"] == pytest.approx(0, abs=1e-9)


def test_no_click_at_all_is_no_error() -> None:
    query = some_queries(1)[0]
    without = FittedQuery.of(query.candidates, query.keys, {"elsewhere": 1.0})
    scores = fitted([without]).scores(without.candidates)
    assert np.isfinite(scores).all()
    assert scores.max() < 0.01


def test_queries_without_candidates_are_no_error() -> None:
    query = some_queries(1)[0]
    nothing = FittedQuery.of(query.candidates.take(np.zeros(0, np.int64)), (), {"elsewhere": 1.0})
    assert fitted([nothing]).weights["cosine"] == PRIOR["cosine"]
    assert set(choose([nothing] * 10).report["figures"]["clicks"].values()) == {0.0}


def test_probabilities_are_calibrated_on_queries_that_were_not_fitted() -> None:
    chosen = choose(some_queries(1_000))
    assert chosen.fusion.method == chosen.report["chosen"] == "clicks"
    assert chosen.report["calibration_error"] < 0.01
    for part in chosen.report["reliability"]:
        if part["candidates"] > 500:
            assert part["predicted"] == pytest.approx(part["clicked"], abs=0.04)


def test_clicks_that_a_straight_line_cannot_predict_are_calibrated_by_a_bend() -> None:
    steep = Fusion("clicks", {**TRUE.weights, "bend": 1.5, "bend from": -2.0})
    chosen = choose(some_queries(1_000, steep))
    assert chosen.fusion.weights["bend"] > 0.5
    for part in chosen.report["reliability"]:
        if part["candidates"] > 500:
            assert part["predicted"] == pytest.approx(part["clicked"], abs=0.06)


def test_the_report_has_the_figures_of_every_method() -> None:
    figures = choose(some_queries(60)).report["figures"]
    assert set(figures) == {"words", "vectors", "default", "ranks", "mixture", "clicks", "words alone", "vectors alone"}
    assert figures["clicks"]["NDCG@10"] >= max(figures["words"]["NDCG@10"], figures["vectors"]["NDCG@10"])


def test_another_method_is_kept_if_it_is_clearly_better(monkeypatch: pytest.MonkeyPatch) -> None:
    useless = Fusion("clicks", dict.fromkeys(("constant", *FEATURE_NAMES), 0.0))
    monkeypatch.setattr("clickvec.evaluation.fitting.fit_clicks", lambda *_: useless)
    assert choose(some_queries(60)).fusion.method == "mixture"


def test_each_smaller_set_of_parts_has_a_calibrated_fit() -> None:
    """Without its cosine, a fit of both parts would make every probability sink."""
    queries = some_queries(1_500)
    candidates, clicked = [query.candidates for query in queries], [query.clicked for query in queries]
    fits = fit_without_parts(candidates[:1_000], clicked[:1_000])
    assert fits.keys() == {"vectors", "words"}
    assert not {"words", "codes"} & fits["words"].keys()
    both = Fusion("clicks", fitted(queries[:1_000]).weights)
    for silent in ("vectors", "words"):
        kept = [proposed_without(of, {silent}) for of in candidates[1_000:]]
        parts = [
            replace(of.take(rows), silent=frozenset({silent}))
            for of, rows in zip(candidates[1_000:], kept, strict=True)
        ]
        share = np.concatenate([of[rows] for of, rows in zip(clicked[1_000:], kept, strict=True)]).mean()
        without = Fusion("clicks", both.weights, {silent: fits[silent]})
        assert np.concatenate([without.scores(of) for of in parts]).mean() == pytest.approx(share, rel=0.15)


def test_few_queries_choose_words_unless_another_fusion_is_clearly_better() -> None:
    queries = some_queries(30, Fusion("clicks", TRUE.weights | {"cosine": 0.0, "words": 12.0}))
    assert compare(queries).fusion == Fusion.alone("words")
    assert "ranks by words alone: on 30 queries, nothing else is better" in verdict(compare(queries).report)
    by_cosine = some_queries(30, Fusion("clicks", TRUE.weights | {"words": 0.0, "rarest match": 0.0, "codes": 0.0}))
    chosen = compare(by_cosine)
    assert chosen.fusion != Fusion.alone("words")
    assert "it is better than words alone by more than 2 standard errors" in verdict(chosen.report)


def test_few_queries_keep_the_fusion_of_training_unless_another_is_clearly_better() -> None:
    queries = some_queries(30)
    assert compare(queries, TRUE).fusion == TRUE
    assert "ranks by the fusion that training has chosen" in verdict(compare(queries, TRUE).report)
    useless = Fusion("clicks", dict.fromkeys(("constant", *FEATURE_NAMES), 0.0))
    assert compare(queries, useless).fusion != useless


def test_a_model_of_few_clicks_ranks_by_words_unless_its_fusion_is_better() -> None:
    noise = Fusion("clicks", TRUE.weights | {"cosine": 0.0, "words": 12.0})
    queries = some_queries(60, noise)
    figures = choose(queries, of_few_clicks=True).report["figures"]
    chosen = choose(queries, of_few_clicks=True).report["chosen"]
    assert figures[chosen]["NDCG@10"] >= figures["words"]["NDCG@10"]
    assert choose(some_queries(60), of_few_clicks=True).report["chosen"] == "clicks"


def test_copies_of_a_title_count_once() -> None:
    query = some_queries(1, titles=4)[0]
    gains = {"a": 1.0, "b": 1.0}
    for keys in (("a", "b", "c", "d"), ("a", "a", "b", "c")):
        one = FittedQuery.of(query.candidates, keys, gains)
        order = np.argsort(-query.candidates.values["vectors"].own)
        expected = values_of((keys[at] for at in order.tolist()), gains)
        assert measure_scores([one], partial(by_part, "vectors"))[:, 0].tolist() == pytest.approx(expected)


def test_reliability_by_hand() -> None:
    bins, error = reliability(np.array([0.05, 0.15, 0.15, 1.0]), np.array([False, True, False, True]))
    assert [part["candidates"] for part in bins] == [1, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert bins[1] == {"from": 0.1, "candidates": 2, "predicted": pytest.approx(0.15), "clicked": 0.5}
    assert error == pytest.approx((0.05 + 2 * 0.35 + 0) / 4)


def test_measures_by_hand() -> None:
    gains = {"a": 3.0, "b": 1.0}
    mrr, recall, ndcg = values_of(["x", "b", "x", "a"], gains)  # the copy of x does not count
    assert (mrr, recall) == (50, 100)
    assert ndcg == pytest.approx(100 * (1 / np.log2(3) + 3 / np.log2(4)) / (3 + 1 / np.log2(3)))
    assert values_of([], gains) == (0, 0, 0)
