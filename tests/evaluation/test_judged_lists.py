"""`evaluate` with rankers whose results are known, BM25 and models as rankers, and whole catalogues."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

import clickvec
from clickvec.data import JudgedQuery, Title, read_clicks, read_judged
from clickvec.errors import ClickvecError
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.metrics import write_run
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.test_set import Catalogue
from clickvec.lab.other_systems.hybrid import Mixture, ReciprocalRank
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.index import Index

MSRD = Path(__file__).parents[3] / "shared" / "data" / "msrd"  # beside the checkout, never in it


def judged_query(query_id: str, titles: Sequence[str], grades: Sequence[int], query: str = "red car") -> JudgedQuery:
    ids = tuple(f"{query_id}-{i}" for i in range(len(titles)))
    return JudgedQuery(query_id, query, ids, tuple(titles), np.array(grades))


class ByLength(Ranker):
    """Longer titles first."""

    def __init__(self, name: str = "length", sign: int = 1) -> None:
        self.name, self.sign, self.seen = name, sign, list[list[str]]()

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        self.seen.append(list(titles))
        return np.array([self.sign * len(title) for title in titles], dtype=np.float32)


class RowNoise(Ranker):
    """The last bit depends on the row, as in a batched matrix product."""

    name = "noise"

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        return np.arange(len(titles), dtype=np.float32)


JUDGED = [
    judged_query("1", ["a", "bb", "ccc"], [0, 1, 2]),
    judged_query("2", ["a", "bb"], [1, 0]),
    judged_query("3", ["a", "bb"], [0, 0]),
]


def test_means_in_per_cent_and_values_of_each_query() -> None:
    result = evaluate([ByLength(), ByLength("shortness", -1)], JUDGED)
    assert result.systems == ("length", "shortness")
    assert result.measures == ("NDCG@1", "NDCG@3", "NDCG@10")
    assert (result.query_ids, result.left_out, result.relevant, result.absent) == (("1", "2"), 1, 3, 0)
    assert result.per_query("length", "NDCG@3").tolist() == pytest.approx([100, 100 / math.log2(3)])
    assert result.mean("length", "NDCG@1") == pytest.approx(50)
    assert result.means.shape == (2, 3)
    assert result.as_table() == [
        ["system", "NDCG@1", "NDCG@3", "NDCG@10", "p"],
        ["length", "50.0", "81.5", "81.5", "best"],
        ["shortness", "50.0", "79.3", "79.3", "1.000"],
    ]


def test_json() -> None:
    result = json.loads(json.dumps(evaluate([ByLength()], JUDGED, cutoffs=(1,)).as_json(per_query=True)))
    assert result == {
        "queries": 2, "left_out": 1, "relevant": 3, "absent": 0, "query_ids": ["1", "2"],
        "ranked": {"NDCG@1": "judged titles"},
        "systems": [{"system": "length", "NDCG@1": 50.0, "per_query": {"NDCG@1": [100.0, 0.0]}}],
    }  # fmt: skip
    assert "query_ids" not in evaluate([ByLength()], JUDGED).as_json()


def test_equal_titles_get_equal_scores() -> None:
    query = judged_query("1", ["x", "y", "x", "x", "y"], [1, 0, 0, 1, 0])
    scores = RowNoise().rank([query])[0].scores
    assert scores.tolist() == [0, 1, 0, 0, 1]
    assert scores.dtype == np.float32
    ranker = ByLength()
    ranker.rank([query])
    assert ranker.seen == [["x", "y"]]
    # All tie: doc_id descending puts 1-4 first, which is not relevant, and 1-3 second, which is.
    tie = judged_query("1", ["x"] * 5, [1, 0, 0, 1, 0])
    assert evaluate([RowNoise()], [tie], cutoffs=(1, 2)).means.tolist()[0][0] == 0


def test_run_holds_every_query(tmp_path: Path) -> None:
    rankings = ByLength().rank(JUDGED)
    assert [ranking.query_id for ranking in rankings] == ["1", "2", "3"]
    write_run(tmp_path / "run", rankings, tag="length")
    assert (tmp_path / "run").read_text().splitlines()[0] == "1 Q0 1-2 1 3 length"


class Faulty(Ranker):
    name = "faulty"

    def __init__(self, scores: list[float]) -> None:
        self.scores = scores

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        return np.array(self.scores, dtype=np.float32)


def error_of(call: Callable[[], object]) -> str:
    with pytest.raises(ClickvecError) as caught:
        call()
    return str(caught.value)


def test_mistakes_are_named() -> None:
    nan = error_of(lambda: evaluate([Faulty([0, math.nan, 1])], JUDGED))
    assert all(part in nan for part in ("faulty", "NaN", "3 titles", "query_id 1", "'red car'"))
    assert "shape (1,)" in error_of(lambda: evaluate([Faulty([0])], JUDGED))
    assert "same name (length)" in error_of(lambda: evaluate([ByLength(), ByLength()], JUDGED))
    assert "grade 1 or more" in error_of(lambda: evaluate([ByLength()], JUDGED[2:]))
    assert "NDCG@0" in error_of(lambda: evaluate([ByLength()], JUDGED, cutoffs=(0,)))
    unknown = error_of(lambda: evaluate([ByLength()], JUDGED).per_query("length", "NDCG@7"))
    assert "NDCG@7" in unknown
    assert "NDCG@10" in unknown


# --- whole catalogues --------------------------------------------------------------------------------------------


class Finds(ByLength):
    """A search whose results are known."""

    def __init__(self, *results: Sequence[str]) -> None:
        super().__init__("search")
        self.results, self.asked = results, list[object]()

    def search(
        self, queries: Sequence[JudgedQuery], catalogue: Catalogue, k: int, progress: Progress | None
    ) -> Sequence[Sequence[str]]:
        self.asked.append(([query.query for query in queries], list(catalogue.entries), catalogue.titles, k))
        return self.results


CATALOGUE = [Title(doc_id, f"title {doc_id}", {}) for doc_id in ("1-2", "2-0", "2-1", "7", "9")]


def test_a_catalogue_adds_recall_and_reciprocal_rank() -> None:
    ranker = Finds(["9", "1-2", "1-2", "7"], ["2-1"])
    result = evaluate(ranker, JUDGED, catalogue=CATALOGUE)
    ids = [title.id for title in CATALOGUE]
    assert ranker.asked == [(["red car", "red car"], ids, [f"title {doc_id}" for doc_id in ids], 100)]
    assert result.measures == ("NDCG@1", "NDCG@3", "NDCG@10", "Recall@100", "MRR@10")
    assert result.per_query("search", "Recall@100").tolist() == [50.0, 0.0]  # 1-1 is relevant and not in the catalogue
    assert result.per_query("search", "MRR@10").tolist() == [50.0, 0.0]
    assert (result.relevant, result.absent, result.left_out) == (3, 1, 1)
    assert result.as_table()[1] == ["search", "50.0", "81.5", "81.5", "25.0", "25.0"]


def test_a_search_must_answer_every_query() -> None:
    message = error_of(lambda: evaluate(Finds([]), JUDGED, catalogue=CATALOGUE))
    assert "2 queries" in message
    assert "1 list" in message


# --- rankers -----------------------------------------------------------------------------------------------------


class FirstLetters:
    """An encoder of two dimensions: a text that begins with a, or any other; empty text is the zero vector."""

    def encode_query(self, query: str) -> NDArray[np.float32]:
        return np.array([query[:1] == "a", query[:1] > "a"], dtype=np.float32)

    def encode_document(self, titles: list[str]) -> NDArray[np.float32]:
        return np.stack([self.encode_query(title) for title in titles])


def toy_model(encoder: FirstLetters, name: str = "model") -> Neural:
    return Neural(cast(Encoder, encoder), name)


def test_neural() -> None:
    ranker: Ranker = toy_model(FirstLetters(), "toy")
    scores = ranker.score("ab", ["ax", "bx", ""])
    assert scores.tolist() == [1, 0, 0]
    assert scores.dtype == np.float32
    assert ranker.score("ab", []).shape == (0,)
    query = judged_query("1", ["bx", "ax"], [0, 1], query="ab")
    assert evaluate([ranker], [query]).mean("toy", "NDCG@1") == 100


def test_a_model_scores_titles_read_ahead_as_it_scores_them_one_query_at_a_time(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clickvec.evaluation.ranker.TITLES_AT_ONCE", 7)
    ranker = Neural(Encoder.load(trained), "model")
    titles = ["Cheap flights", "cheap  FLIGHTS", "", "pizza in berlin", "日本", "flights of pizza"]
    queries = [judged_query(str(k), titles[k:], [1] * len(titles[k:]), query=titles[k]) for k in range(5)]
    for query, ranking in zip(queries, ranker.rank(queries), strict=True):
        np.testing.assert_allclose(ranking.scores, ranker.score(query.query, query.titles), atol=1e-6)
    first = ranker.rank(queries)[0].scores
    assert first[0] == first[1]  # the same words, to the last bit


class Counting(FirstLetters):
    """Counts how often it is asked for the vectors of titles."""

    def __init__(self) -> None:
        self.calls = 0

    def encode_document(self, titles: list[str]) -> NDArray[np.float32]:
        self.calls += 1
        return super().encode_document(titles)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: ReciprocalRank([ByLength(), model]),
        lambda model: Mixture(model, ByLength(), 0.5),
        lambda model: Mixture(ReciprocalRank([model]), ByLength(), 0.5),
    ],
)
def test_titles_of_all_queries_are_encoded_at_once_whatever_wraps_the_model(wrap: Callable[[Ranker], Ranker]) -> None:
    encoder = Counting()
    ranker = wrap(toy_model(encoder))
    rankings = ranker.rank(JUDGED)
    assert encoder.calls == 1
    for query, ranking in zip(JUDGED, rankings, strict=True):
        assert ranking.scores.tolist() == ranker.score(query.query, query.titles).tolist()


def test_a_search_over_a_catalogue_finds_what_scores_above_zero() -> None:
    titles = ["ax", "bx ax", "cx"]
    asked = JudgedQuery("1", "ax", (), (), np.zeros(0, np.int64))
    assert BM25(titles).search([asked], Catalogue(titles, ids="123"), 2, None) == [["1", "2"]]


@pytest.mark.skipif(not (MSRD / "dev.tsv.gz").exists(), reason="the real data is not on this machine")
def test_bm25_on_real_movies() -> None:
    dev = read_judged(MSRD / "dev.tsv.gz")
    corpus = [title for query in dev for title in query.titles] + read_clicks(MSRD / "clicks.tsv.gz").titles
    means = evaluate([BM25(corpus)], dev).means[0]
    assert means.tolist() == pytest.approx([78.7, 81.1, 85.0], abs=0.7)


# --- the public function -----------------------------------------------------------------------------------------


def test_every_kind_of_system_in_one_process_twice(trained: Path, tmp_path: Path) -> None:
    judged, catalogue = tmp_path / "judged.tsv", tmp_path / "titles.tsv"
    titles = {"a": "cheap flights", "b": "hotels in shanghai", "c": "pizza in berlin"}
    grades = {"cheap flights": "a", "pizza": "c"}
    lines = [
        f"q{number}\t{query}\t{doc_id}\t{title}\t{int(doc_id == right)}"
        for number, (query, right) in enumerate(grades.items())
        for doc_id, title in titles.items()
    ]
    judged.write_text("\n".join(["query_id\tquery\tdoc_id\ttitle\tgrade", *lines]) + "\n")
    catalogue.write_text("\n".join(["doc_id\ttitle", *("\t".join(row) for row in titles.items())]) + "\n")
    encoder = clickvec.Encoder.load(trained)
    index = clickvec.Index.build(encoder, titles=list(titles.values()), ids=list(titles))
    systems = {"model": encoder, "folder": trained, "string": str(trained), "index": index, "words": "bm25"}
    first = clickvec.evaluate(systems, judged, catalogue=catalogue)
    again = clickvec.evaluate(systems, str(judged), catalogue=str(catalogue))
    np.testing.assert_array_equal(first.values, again.values)
    assert first.systems == tuple(systems)
    for other in ("folder", "string"):
        for measure in first.measures:
            assert first.per_query(other, measure).tolist() == first.per_query("model", measure).tolist()
    assert first.mean("words", "MRR@10") == 100
    hits = [index.search(query) for query in grades]  # by words and vectors
    ranks = [[hit.id for hit in found].index(right) for found, right in zip(hits, grades.values(), strict=True)]
    assert first.per_query("index", "MRR@10").tolist() == [100 / (1 + rank) for rank in ranks]
    # An index brings its own titles as the catalogue.
    own = clickvec.evaluate(index, judged)
    assert own.measures == first.measures
    assert own.values[0].tolist() == first.values[3].tolist()
    assert own.absent == 0


def test_the_result_prints_as_a_table() -> None:
    assert repr(evaluate(ByLength(), JUDGED)).splitlines() == [
        "system  NDCG@1  NDCG@3  NDCG@10",
        "-------------------------------",
        "length    50.0    81.5     81.5",
        "NDCG@1, NDCG@3, NDCG@10: each query ranks its judged titles alone.",
    ]


def test_an_index_of_another_catalogue_is_refused(trained: Path) -> None:
    index = Index.build(Encoder.load(trained), titles=["cheap flights"], ids=["1-2"])
    message = error_of(lambda: evaluate(index, JUDGED, catalogue=CATALOGUE))
    assert "1 titles" in message
    assert "5" in message


def test_bad_lines_of_a_judged_file_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = [f"q{i}\tred\td{i}\ttitle\t1" for i in range(200)]
    lines[7] = "q7\tred\td7\ttitle\tnone"
    (tmp_path / "judged.tsv").write_text("\n".join(["query_id\tquery\tdoc_id\ttitle\tgrade", *lines]) + "\n")
    evaluate(ByLength(), tmp_path / "judged.tsv")
    assert "judged.tsv:9" in caplog.text


def test_progress_counts_the_queries() -> None:
    reports: list[tuple[object, ...]] = []
    evaluate(ByLength(), JUDGED, progress=lambda *report: reports.append(report))
    assert reports == [("ranking with length", done, 2) for done in range(3)]
