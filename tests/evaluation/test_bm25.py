"""BM25 over each kind of tokens, against its definition, and as the search by words of an index."""

import math
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.bm25 import BM25, Tokens
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.test_set import Catalogue
from clickvec.model.encoder import Encoder
from clickvec.search.index import Index
from clickvec.text.lexical_tokens import TokenKind, tokenise

KINDS: tuple[TokenKind, ...] = get_args(TokenKind)
TITLES = ["The red car", "red red wine", "Two blue cars", "हिन्दी गीत", "上海 hotels", "", "!?"]

texts = st.lists(st.sampled_from(["red", "car", "cars", "the", "Blue", "हिन्दी", "上海", "!"]), max_size=6).map(" ".join)


def asked(queries: Sequence[str]) -> list[JudgedQuery]:
    return [JudgedQuery(query, query, (), (), np.zeros(0, np.int64)) for query in queries]


def test_unknown_tokens_are_refused() -> None:
    with pytest.raises(ClickvecError, match=r"'letters'.* words-stop"):
        BM25(["red car"], tokens="letters")  # type: ignore[arg-type]


def test_bm25_matches_what_its_tokens_match() -> None:
    titles = ["two cars", "red wine", "the band"]
    matched = {tokens: BM25(titles, tokens=tokens).score("the carr car", titles) > 0 for tokens in KINDS}
    assert matched["words"].tolist() == [False, False, True]
    assert matched["words-stop"].tolist() == [False, False, False]
    assert matched["stems"].tolist() == [True, False, True]
    assert matched["stems-stop"].tolist() == [True, False, False]
    assert matched["trigrams"].tolist() == [True, False, True]


def test_trigrams_forgive_a_misspelling() -> None:
    titles = ["shawshank redemption", "red temptation", "the wine"]
    assert BM25(titles, tokens="words").score("shawshenk", titles).tolist() == [0, 0, 0]
    for tokens in ("trigrams", "words+trigrams"):
        assert BM25(titles, tokens=tokens).score("shawshenk", titles).argmax() == 0


@pytest.mark.parametrize("tokens", ["index", *KINDS])
def test_bm25_scores_any_text(tokens: Tokens) -> None:
    ranker = BM25(TITLES, tokens=tokens)
    for query in ("Red cars", "गीत", "上海", "", "?", "unknown"):
        scores = ranker.score(query, TITLES)
        assert scores.dtype == np.float32
        assert np.isfinite(scores).all()
    assert ranker.score("गीत", TITLES).argmax() == 3
    assert ranker.score("red", []).shape == (0,)


def bm25(query: str, title: str, titles: list[str], k1: float, b: float) -> float:
    """Lucene's BM25 from its definition."""
    corpus = [text.lower().split() for text in titles]
    words, mean = title.lower().split(), sum(map(len, corpus)) / len(corpus)
    total = 0.0
    for word in query.lower().split():
        df = sum(word in text for text in corpus)
        idf = math.log(1 + (len(corpus) - df + 0.5) / (df + 0.5))
        total += idf * words.count(word) / (words.count(word) + k1 * (1 - b + b * len(words) / mean))
    return total


def test_bm25_is_its_definition() -> None:
    titles = ["The red car", "red red wine", "A blue car 2", "x"]
    ranker: Ranker = BM25([*titles, "The red car"], k1=0.9, b=0.4, tokens="words")  # indexed once
    for query in ("Red car", "car car 2", "wine", "a x"):
        expected = [bm25(query, title, titles, 0.9, 0.4) for title in titles]
        scores = ranker.score(query, titles)
        assert scores.dtype == np.float32
        assert scores.tolist() == pytest.approx(expected, rel=1e-5)
        assert ranker.score(query, titles[::-1]).tolist() == scores[::-1].tolist()


@pytest.mark.parametrize("query", ["unknown words", "", "!?", "上海"])
def test_bm25_of_unknown_words_is_zero(query: str) -> None:
    assert BM25(["red car", "blue"]).score(query, ["red car", "blue", "red car"]).tolist() == [0, 0, 0]


@pytest.mark.parametrize("titles", [[], ["..."], ["", "!"]])
def test_bm25_of_a_corpus_without_words(titles: list[str]) -> None:
    assert BM25(titles).score("red", titles).tolist() == [0.0] * len(titles)


def test_bm25_refuses_titles_that_it_has_not_indexed() -> None:
    with pytest.raises(ClickvecError, match="'green car'"):
        BM25(["red car"]).score("car", ["red car", "green car"])


def test_bm25_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    BM25(["red car"]).score("car", ["red car"])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("tokens", KINDS)
@given(corpus=st.lists(texts, max_size=12), query=texts, k1=st.sampled_from([0.3, 1.2, 2.0]), b=st.floats(0, 1))
def test_bm25_scores_like_bm25s(tokens: TokenKind, corpus: list[str], query: str, k1: float, b: float) -> None:
    bm25s = pytest.importorskip("bm25s")
    titles = list(dict.fromkeys(corpus))
    ids: dict[str, int] = {}
    rows = [[ids.setdefault(token, len(ids)) for token in tokenise(title, tokens)] for title in titles]
    expected = np.zeros(len(titles), np.float32)
    if ids:
        index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy", csc_backend="numpy")
        index.index((rows, ids), show_progress=False)
        known = index.get_tokens_ids(tokenise(query, tokens))
        expected = index.get_scores_from_ids(known) if known else expected
    for ranker in (BM25(titles, k1, b, tokens=tokens), BM25(titles, tokens=tokens).with_settings(k1, b)):
        np.testing.assert_allclose(ranker.score(query, titles), expected, rtol=2e-6)


@given(titles=st.lists(texts, min_size=1, max_size=12, unique=True), queries=st.lists(texts, min_size=1, max_size=3))
def test_bm25_is_the_search_by_words_of_an_index(titles: list[str], queries: list[str]) -> None:
    index = Index.build(Encoder(tiny()), titles)
    queries = [*queries, "cra", "bluee car", "redcar"]  # corrected, and split
    found = BM25(titles).search(asked(queries), Catalogue(titles, ids=range(len(titles))), 5, None)
    for query, hits, keys in zip(queries, index.search(queries, k=5, mode="words"), found, strict=True):
        assert keys == [hit.id for hit in hits]
        scores = BM25(titles).score(query, [hit.title for hit in hits])
        assert scores.tolist() == pytest.approx([hit.score for hit in hits])


@given(
    corpus=st.lists(texts, max_size=12),
    absent=st.lists(texts, max_size=4),
    queries=st.lists(texts, max_size=3),
    k=st.integers(1, 8),
)
def test_bm25_finds_what_scoring_every_title_finds(
    corpus: list[str], absent: list[str], queries: list[str], k: int
) -> None:
    titles = list(dict.fromkeys(corpus))
    ranker, catalogue = BM25([*absent, *titles], tokens="words"), Catalogue(titles, ids=range(len(titles)))
    rows = {title: row for row, title in enumerate(dict.fromkeys([*absent, *titles]))}
    in_order = Catalogue(
        sorted(titles, key=rows.__getitem__), ids=sorted(range(len(titles)), key=lambda at: rows[titles[at]])
    )
    assert ranker.search(asked(queries), catalogue, k, None) == Ranker.search(ranker, asked(queries), in_order, k, None)


def test_a_search_reports_its_progress() -> None:
    told = []
    BM25(["red car"]).search(asked(["car"]), Catalogue(["red car"]), 1, lambda *args: told.append(args[:3]))
    assert told == [("searching with BM25", 0, 1), ("searching with BM25", 1, 1)]
