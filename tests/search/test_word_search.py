"""BM25 over segment and delta: the same scores as evaluation/bm25.py, hand-worked examples, bad input."""

import numpy as np
import pytest

from clickvec.evaluation.bm25 import BM25
from clickvec.search.word_search import Words
from clickvec.search.word_segment import WordDelta, WordSegment

TITLES = ["red car", "blue car car", "the red house", "", "a house for a car", "tree", "red red red tree"]
QUERIES = ["red car", "car", "house tree red", "car car", "unknown", ""]


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.3, 1.0), (0.0, 0.0)])
@pytest.mark.parametrize("cut", [0, 3, 7])
@pytest.mark.parametrize("query", QUERIES)
def test_scores_are_those_of_bm25(query: str, cut: int, k1: float, b: float) -> None:
    words = Words([WordSegment.build(TITLES[:cut]), WordDelta(TITLES[cut:])], k1, b)
    expected = BM25(TITLES, k1, b).score(query, TITLES)
    terms = words.terms(query)
    positions, scores = words.best(terms, len(TITLES))
    np.testing.assert_allclose(scores, expected[positions], rtol=1e-6)
    assert set(positions.tolist()) == set(np.flatnonzero(expected).tolist())
    every = np.arange(len(TITLES))
    np.testing.assert_allclose(words.matches(terms, every).sum(axis=1), expected, rtol=1e-6)


def test_lengths() -> None:
    words = Words([WordSegment.build(TITLES[:3]), WordDelta(TITLES[3:])])
    assert words.lengths(np.arange(7)).tolist() == [2, 3, 3, 0, 5, 1, 4]


def test_texts_match_as_they_would_in_the_index() -> None:
    titles = [*TITLES, "AB-1234 iphone 7 上海酒店", "a a a b"]
    words = Words([WordSegment.build(titles)])
    for query in ("new york hotels", "ab1234 iphone7 海", "a b", "zzz"):
        terms = words.terms(query)
        matches, lengths = words.matches_of_texts(terms, titles)
        np.testing.assert_array_equal(matches, words.matches(terms, np.arange(len(titles))))
        np.testing.assert_array_equal(lengths, words.lengths(np.arange(len(titles))))
