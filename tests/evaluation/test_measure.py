"""Test sets: measures over the catalogue by hand, tuning of BM25, and lists that rank like the catalogue."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny

import clickvec
from clickvec.data import ClickLog, JudgedQuery, Title
from clickvec.errors import ClickvecError
from clickvec.evaluation import tuning
from clickvec.evaluation.bm25 import BM25, BM25_GRID
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure, pooled_lists
from clickvec.evaluation.metrics import MEASURES, Scores, gains_of
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.significance import bootstrap_interval
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.evaluation.tuning import tune_bm25
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.index import Index

WORDS = ["red", "car", "blue", "tea", "green", "wine"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def log_of(*pairs: tuple[str, str]) -> ClickLog:
    queries, titles = zip(*pairs, strict=True)
    return ClickLog(list(queries), list(titles), np.ones(len(pairs)))


class Fixed(Ranker):
    """Returns the same titles for every query."""

    def __init__(self, *found: int, name: str = "fixed") -> None:
        self.found, self.name = found, name

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        return np.zeros(len(titles), np.float32)

    def search(
        self, queries: Sequence[JudgedQuery], catalogue: Catalogue, k: int, progress: Progress | None
    ) -> list[list[str]]:
        keys = list(catalogue.entries)
        return [[keys[row] for row in self.found[:k]]] * len(queries)


def test_a_judged_set_as_searches_of_a_catalogue() -> None:
    grades = np.array([0, 1, 2])
    judged = [
        JudgedQuery("1", "red car", ("a", "b", "c"), ("No", "a CAR", "Blue"), grades),
        JudgedQuery("2", "tea", ("a",), ("B",), grades[:1]),  # without a relevant title
    ]
    test = TestSet.of_judged(judged, Catalogue(["B", "A car"]))
    assert test.titles == ["B", "A car", "Blue"]  # a title of grade 0 is not added
    assert [(query.query, gains_of(query)) for query in test.queries] == [("red car", {"a car": 1.0, "blue": 3.0})]
    assert test.left_out == 1
    lists = TestSet.of_judged(judged)
    assert (lists.catalogue, lists.titles) == (None, ["No", "a CAR", "Blue"])
    assert [gains_of(query) for query in lists.queries] == [{"b": 1.0, "c": 3.0}]
    searched = TestSet.of_judged(judged, Catalogue(["x", "y"], ids=["c", "d"]))
    assert (searched.relevant, searched.absent) == (2, 1)  # titles are found by their ids
    assert searched.present() == searched


def test_texts_of_the_same_words_are_one() -> None:
    log = log_of(("Red  car", "A Car"), ("red car", "a car"), ("red car", "B"), ("tea", "C"))
    test = TestSet.of_clicks(log, Catalogue(["B", "b ", "D"]))
    assert test.titles == ["B", "D", "A Car", "C"]  # what was clicked is in the catalogue
    assert [(query.query, gains_of(query)) for query in test.queries] == [
        ("Red  car", {"a car": 1.0, "b": 1.0}), ("tea", {"c": 1.0}),
    ]  # fmt: skip


def test_the_measures_by_hand() -> None:
    test = TestSet.of_clicks(
        log_of(("q", "a"), ("q", "b"), ("r", "c")), Catalogue(["a", "b", "c", *map(str, range(200))])
    )
    found = measure([Fixed(9, 0, 8, 1, *range(20, 115), 2)], test)
    assert found.measures == MEASURES
    of_q = (1 / np.log2(3) + 1 / np.log2(5)) / (1 + 1 / np.log2(3))
    np.testing.assert_allclose(found.values[0, :, 0], [50, 100, 100 * of_q])
    np.testing.assert_allclose(found.values[0, :, 1], [0, 100, 0])  # the hundredth
    assert (found.relevant, found.absent, found.left_out) == (3, 0, 0)
    np.testing.assert_array_equal(found.intervals[0], bootstrap_interval(found.values[0]))
    assert found.as_table(intervals=True)[1][0] == "fixed"
    assert found.as_table(intervals=True)[1][1].startswith("25.0 [0.0, ")
    assert found.as_json(intervals=True)["systems"][0]["intervals"]["MRR@10"] == found.intervals[0, 0].tolist()


def test_nothing_to_measure() -> None:
    empty = TestSet.of_clicks(ClickLog([], [], np.zeros(0)), Catalogue(["a"]))
    with pytest.raises(ClickvecError, match="queries has a relevant title"):
        measure([Fixed(0)], empty)
    test = TestSet.of_clicks(log_of(("q", "a")), Catalogue([]))
    with pytest.raises(ClickvecError, match="same name"):
        measure([Fixed(0), Fixed(0)], test)


def test_a_sample_keeps_queries_and_clicks_together() -> None:
    test = TestSet.of_clicks(log_of(*((f"q{row}", f"t{row}") for row in range(50))), Catalogue([]))
    sample = test.sample(10)
    assert (len(sample.queries), test.sample(50)) == (10, test)
    assert [(query.query.replace("q", "t"),) for query in sample.queries] == [query.titles for query in sample.queries]
    assert test.sample(10) == sample


def test_bm25_is_tuned_on_dev() -> None:
    titles = [f"{word}{number} film" for number in range(40) for word in WORDS]
    misspelled = [
        (f"{word[:-1]}{word[-1] * 2}{number} film", f"{word}{number} film") for number in range(40) for word in WORDS
    ]
    dev = TestSet.of_clicks(log_of(*misspelled), Catalogue(titles))
    told: list[tuple[str, int, int | None]] = []
    ranker, settings = tune_bm25(dev, progress=lambda *args: told.append(args[:3]))
    assert settings["tokens"].endswith("trigrams")  # words match nothing but "film"
    tuned, default = (measure([one], dev).mean("BM25", "NDCG@10") for one in (ranker, BM25(titles)))
    assert tuned > default
    assert measure([BM25(titles, **settings)], dev).mean("BM25", "NDCG@10") == tuned
    assert told[0] == ("tuning BM25", 0, 12)
    assert told[-1] == ("tuning BM25", 12, 12)


def test_bm25_is_tuned_over_its_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    dev = TestSet.of_clicks(log_of(("red", "red car"), ("blue", "blue wine")), Catalogue(["red tea", "blue tea"]))
    assert tune_bm25(dev)[1] in [*BM25_GRID, {"tokens": "index", "k1": 1.2, "b": 0.75}]
    monkeypatch.setattr(tuning, "MOST_QUERIES", 1)
    assert tune_bm25(dev)[1]["tokens"] == "index"  # the first of equal ones


def test_bm25_is_tuned_on_judged_lists() -> None:
    titles = ("reds film", "red film", "blue film")
    dev = [JudgedQuery("1", "redd film", ("a", "b", "c"), titles, np.array([0, 1, 0]))]
    settings = tune_bm25(TestSet.of_judged(dev), ["more titles"])[1]
    best = max(evaluate([BM25([*titles, "more titles"], **one)], dev).mean("BM25", "NDCG@10") for one in BM25_GRID)
    assert evaluate([BM25([*titles, "more titles"], **settings)], dev).mean("BM25", "NDCG@10") == best


@given(
    titles=st.lists(texts, min_size=1, max_size=20),
    queries=st.lists(texts, min_size=1, max_size=4, unique=True),
    clicks=st.lists(st.integers(0, 19), min_size=4, max_size=4),
)
def test_a_pool_ranks_like_the_whole_catalogue(titles: list[str], queries: list[str], clicks: list[int]) -> None:
    pairs = [(query, titles[click % len(titles)]) for query, click in zip(queries, clicks, strict=False)]
    test = TestSet.of_clicks(log_of(*pairs), Catalogue(titles))
    rankers = [BM25(test.catalogue.titles), BM25(test.catalogue.titles, name="stems", tokens="trigrams", k1=2.0)]
    lists = pooled_lists(test, rankers)
    over_lists, over_catalogue = evaluate(rankers, lists, cutoffs=(10,)), measure(rankers, test)
    for at, query in enumerate(lists):
        if all(ranker.score(query.query, query.titles).all() for ranker in rankers):  # titles of score 0 are not found
            expected = over_catalogue.values[:, MEASURES.index("NDCG@10"), at]
            np.testing.assert_allclose(over_lists.values[:, 0, at], expected)


def test_evaluate_takes_a_click_log() -> None:
    log = log_of(("red", "red car"), ("blue", "blue wine"))
    found = clickvec.evaluate({"words": "bm25"}, log, catalogue=[Title("1", "red tea", {}), Title("2", "blue tea", {})])
    assert (found.systems, found.measures) == (("words",), MEASURES)
    test = TestSet.of_clicks(log, Catalogue(["red tea", "blue tea"]))
    expected = measure([BM25(["red tea", "blue tea", "red car", "blue wine"])], test)
    np.testing.assert_array_equal(found.values, expected.values)


def test_an_index_brings_its_titles_and_searches_by_words_and_vectors() -> None:
    log = log_of(("hotels in shanghai", "cheap hotels"), ("pizza", "best pizza"), ("ЖЖЖ", "ЖЖЖ tea"))
    titles = ["pizza", "Cheap  hotels", "cheap hotels", "жжж TEA"]
    index = Index.build(Encoder(tiny("lstm")), titles=titles, ids=list("abcd"))
    found = clickvec.evaluate(index, log)
    assert found.per_query("index", "MRR@10").tolist()[1:] == [0, 100]  # not in the index; no vector, found by words
    ranks = [list(dict.fromkeys(hit.title.lower().split()[0] for hit in index.search(log.queries[0])))]
    assert found.per_query("index", "MRR@10")[0] == 100 / (1 + ranks[0].index("cheap"))
