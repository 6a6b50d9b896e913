"""The unigram language model against its definition."""

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.errors import ClickvecError
from clickvec.lab.other_systems.ulm import ULM, ULM_GRID
from clickvec.text.lexical_tokens import TokenKind, tokenise

TITLES = ["The red car", "red red wine", "Two blue cars", "हिन्दी गीत", "上海 hotels", "", "!?"]

texts = st.lists(st.sampled_from(["red", "car", "cars", "the", "Blue", "हिन्दी", "上海", "!"]), max_size=6).map(" ".join)


def test_ulm_by_hand() -> None:
    """Six words, of them three "red" and one "car"; with mu 2 and a title of three words |D| + mu is 5."""
    titles = ["red red wine", "red car park"]
    scores = ULM([*titles, titles[0]], mu=2).score("Red car", titles)  # a title given twice counts once
    red, car = 2 * 3 / 6, 2 * 1 / 6
    expected = [math.log((2 + red) / 5) + math.log((0 + car) / 5), math.log((1 + red) / 5) + math.log((1 + car) / 5)]
    assert scores.tolist() == pytest.approx(expected, rel=1e-6)


@given(st.lists(texts, max_size=5), texts, st.lists(texts, min_size=1, max_size=4, unique=True), st.floats(0.01, 1000))
def test_ulm_is_its_definition(corpus: list[str], query: str, titles: list[str], mu: float) -> None:
    words = [word for text in dict.fromkeys(corpus) for word in tokenise(text)]
    expected = []
    for title in map(tokenise, titles):
        p_query = 1.0
        for word in tokenise(query):
            if word in words:
                p_query *= (title.count(word) + mu * words.count(word) / len(words)) / (len(title) + mu)
        expected.append(math.log(p_query))
    assert ULM(corpus, mu=mu).score(query, titles).tolist() == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_ulm_leaves_out_words_that_the_corpus_lacks() -> None:
    ranker = ULM(["red car"])
    titles = ["red car", "red zebra", ""]
    assert ranker.score("red zebra", titles).tolist() == ranker.score("red", titles).tolist()
    assert ranker.score("zebra", titles).tolist() == [0, 0, 0]
    assert ULM([]).score("red", titles).tolist() == [0, 0, 0]


def test_ulm_scores_titles_outside_the_corpus() -> None:
    inside, outside = ULM(["red car", "blue"]).score("red", ["red car", "red zebra"]).tolist()
    assert inside == outside


@pytest.mark.parametrize("mu", [0, -1, math.nan])
def test_ulm_needs_smoothing(mu: float) -> None:
    with pytest.raises(ClickvecError, match="mu of ULM"):
        ULM(["red car"], mu=mu)


@pytest.mark.parametrize("tokens", get_args(TokenKind))
def test_ulm_scores_any_text(tokens: TokenKind) -> None:
    ranker = ULM(TITLES, tokens=tokens)
    for query in ("Red cars", "गीत", "上海", "", "?", "unknown"):
        scores = ranker.score(query, TITLES)
        assert scores.dtype == np.float32
        assert np.isfinite(scores).all()
    assert ranker.score("गीत", TITLES).argmax() == 3
    assert ranker.score("red", []).shape == (0,)


def test_every_point_of_the_grid_is_a_system() -> None:
    for point in ULM_GRID:
        assert ULM(TITLES, **point).score("red car", TITLES).argmax() == 0
