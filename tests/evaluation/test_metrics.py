"""NDCG and friends: by hand, against trec_eval, and by their properties; the TREC files."""

import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from clickvec.data import JudgedQuery, read_qrels
from clickvec.errors import ClickvecError
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.metrics import (
    Ranking,
    ndcg,
    rank_order,
    recall_at,
    reciprocal_rank,
    with_relevant,
    write_run,
)
from clickvec.evaluation.ranker import Ranker
from clickvec.lab.compare.qrels import write_qrels


def judged_query(grades: list[int], query_id: str = "q", ids: tuple[str, ...] | None = None) -> JudgedQuery:
    doc_ids = ids or tuple(f"d{i}" for i in range(len(grades)))
    return JudgedQuery(query_id, "a query", doc_ids, doc_ids, np.array(grades))


def ndcg_of(grades: ArrayLike, k: int) -> float:
    """Return NDCG@k of titles with these grades, in ranked order."""
    gains = np.exp2(np.asarray(grades, np.float64)) - 1
    return ndcg(gains, gains, k)


def test_ndcg_by_hand() -> None:
    # ranked 0, 2, 1: (3 / log2 3 + 1 / log2 4) / (3 / log2 2 + 1 / log2 3)
    assert ndcg_of([0, 2, 1], 3) == pytest.approx((3 / math.log2(3) + 0.5) / (3 + 1 / math.log2(3)))
    assert ndcg_of([0, 2, 1], 1) == 0.0
    assert ndcg_of([1, 2], 1) == pytest.approx(1 / 3)
    assert ndcg_of([2, 1, 0], 10) == 1.0
    assert ndcg_of([0, 0], 3) == 0.0
    assert ndcg_of([], 3) == 0.0
    assert ndcg_of([0, 50], 2) == pytest.approx(1 / math.log2(3))


def test_recall_and_reciprocal_rank_by_hand() -> None:
    assert recall_at([0, 1, 2, 0], 2, relevant=2) == 0.5
    assert recall_at([0, 1, 2, 0], 3, relevant=2) == 1.0
    assert recall_at([0, 1, 2, 0], 3, relevant=8) == 0.25
    assert recall_at([0, 0], 2, relevant=0) == 0.0
    assert reciprocal_rank([0, 0, 3], 10) == pytest.approx(1 / 3)
    assert reciprocal_rank([0, 0, 3], 2) == 0.0
    assert reciprocal_rank([], 10) == 0.0


def test_equal_scores_are_ordered_by_doc_id_descending() -> None:
    ids = ("10", "9", "a", "é", "B", "上")
    assert [ids[i] for i in rank_order([0.0] * 6, ids)] == ["上", "é", "a", "B", "9", "10"]
    assert [ids[i] for i in rank_order([0.0, -0.0, 1.0, -1.0, 1.0, -np.inf], ids)] == ["a", "B", "9", "10", "é", "上"]


def test_scores_tie_as_float32_do() -> None:
    scores = np.array([0.1, 0.1 + 1e-12])
    assert rank_order(scores, ("b", "a")).tolist() == [0, 1]


def random_set(seed: int) -> tuple[list[JudgedQuery], list[Ranking]]:
    """Queries with many ties and many grades, ids of several lengths and scripts."""
    rng = np.random.default_rng(seed)
    queries, rankings = [], []
    for number in range(40):
        n = int(rng.integers(1, 30))
        ids = tuple(f"{'dé上Z'[int(rng.integers(4))]}{i}" for i in rng.permutation(200)[:n])
        queries.append(judged_query(rng.integers(0, 5, n).tolist(), f"q{number}", ids))
        levels = rng.normal(size=3) * 10.0 ** rng.integers(-3, 4)
        scores = levels[rng.integers(0, 3, n)] + rng.choice([0.0, 1e-9, 1e-7, 1e-3], n)
        rankings.append(Ranking(f"q{number}", ids, scores.astype(np.float32)))
    return queries, rankings


@pytest.mark.parametrize("seed", range(5))
def test_ndcg_is_trec_evals_on_mapped_gains(seed: int) -> None:
    queries, rankings = random_set(seed)
    qrels = {q.query_id: {d: 2**g - 1 for d, g in zip(q.doc_ids, q.grades.tolist(), strict=True)} for q in queries}
    run = {r.query_id: dict(zip(r.doc_ids, map(float, r.scores), strict=True)) for r in rankings}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.1,3,10", "recip_rank", "recall.5"}).evaluate(run)
    for query, ranking in zip(queries, rankings, strict=True):
        grades = query.grades[rank_order(ranking.scores, ranking.doc_ids)]
        expected = theirs[query.query_id]
        for k in (1, 3, 10):
            assert ndcg_of(grades, k) == pytest.approx(expected[f"ndcg_cut_{k}"], abs=1e-9)
        assert reciprocal_rank(grades, 1000) == pytest.approx(expected["recip_rank"])
        assert recall_at(grades, 5, int((grades >= 1).sum())) == pytest.approx(expected["recall_5"])


def as_trec_eval_reads(path: Path, columns: tuple[int, int, int]) -> dict[str, dict[str, str]]:
    """The query, document and value columns of a TREC file, parted at any white space, whatever else a line holds."""
    found: dict[str, dict[str, str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        query_id, doc_id, value = (line.split()[column] for column in columns)
        assert doc_id not in found.setdefault(query_id, {})
        found[query_id][doc_id] = value
    return found


def trec_evals_ndcg(folder: Path, queries: list[JudgedQuery], rankings: list[Ranking]) -> dict[str, list[float]]:
    """What trec_eval makes of the files that we write: NDCG@1/3/10 of each query."""
    write_qrels(folder / "qrels", queries, gains=True)
    write_run(folder / "run", rankings, tag="ours")
    grades = as_trec_eval_reads(folder / "qrels", (0, 2, 3))
    scores = as_trec_eval_reads(folder / "run", (0, 2, 4))
    qrels = {query: {doc: int(text) for doc, text in row.items()} for query, row in grades.items()}
    run = {query: {doc: float(np.float32(text)) for doc, text in row.items()} for query, row in scores.items()}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.1,3,10"}).evaluate(run)
    return {query: [values[f"ndcg_cut_{k}"] for k in (1, 3, 10)] for query, values in theirs.items()}


def our_ndcg(query: JudgedQuery, ranking: Ranking) -> list[float]:
    grades = query.grades[rank_order(ranking.scores, ranking.doc_ids)]
    return [ndcg_of(grades, k) for k in (1, 3, 10)]


@pytest.mark.parametrize("seed", range(10))
def test_written_files_give_trec_eval_the_same_ndcg(seed: int, tmp_path: Path) -> None:
    queries, rankings = random_set(seed)
    theirs = trec_evals_ndcg(tmp_path, queries, rankings)
    for query, ranking in zip(queries, rankings, strict=True):
        assert our_ndcg(query, ranking) == pytest.approx(theirs[query.query_id], abs=1e-9)
    with (tmp_path / "qrels").open() as qrels, (tmp_path / "run").open() as run:  # and as pytrec_eval reads files
        evaluator = pytrec_eval.RelevanceEvaluator(pytrec_eval.parse_qrel(qrels), {"ndcg_cut.1,3,10"})
        again = evaluator.evaluate(pytrec_eval.parse_run(run))
    assert {query: [row[f"ndcg_cut_{k}"] for k in (1, 3, 10)] for query, row in again.items()} == theirs


def test_the_random_sets_have_what_makes_ranking_hard() -> None:
    """Ties between titles of different grades, neighbouring float32, a single title, all grades."""
    both = [pair for seed in range(10) for pair in zip(*random_set(seed), strict=True)]
    tied = [(r.scores[:, None] == r.scores) & (q.grades[:, None] > q.grades) for q, r in both]
    assert sum(pairs.any() for pairs in tied) > 300
    assert min(len(query.doc_ids) for query, _ in both) == 1
    assert {grade for query, _ in both for grade in query.grades.tolist()} == set(range(5))
    assert any(0 < np.diff(np.sort(r.scores)).min(initial=1) < 1e-6 * abs(r.scores).max() for _, r in both)


NEXT_TO_1 = float(np.nextafter(np.float32(1), np.float32(2)))
SCORES = st.sampled_from([0.0, -0.0, 1.0, NEXT_TO_1, 1 + 1e-9, 0.1, 1 / 3, -1e30, 1e-45, 3e38, 16777216.0, 16777217.0])
DOC_IDS = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="\x00"), min_size=1, max_size=3)
JUDGEMENTS = st.lists(
    st.tuples(DOC_IDS, SCORES, st.integers(0, 4)), min_size=1, max_size=14, unique_by=lambda row: row[0]
)


@settings(max_examples=60)
@given(st.lists(JUDGEMENTS, min_size=1, max_size=4))
def test_trec_eval_agrees_on_scores_and_ids_of_any_kind(lists: list[list[tuple[str, float, int]]]) -> None:
    queries, rankings = [], []
    for number, rows in enumerate(lists):
        ids, scores, grades = zip(*rows, strict=True)
        queries.append(judged_query(list(grades), f"q{number}", ids))
        rankings.append(Ranking(f"q{number}", ids, np.array(scores, np.float32)))
    with TemporaryDirectory() as folder:
        theirs = trec_evals_ndcg(Path(folder), queries, rankings)
    for query, ranking in zip(queries, rankings, strict=True):
        assert our_ndcg(query, ranking) == pytest.approx(theirs[query.query_id], abs=1e-9)


class LengthRanker(Ranker):
    """Scores a title by its length: few scores, many ties, between equal titles and others."""

    name = "length"

    def score(self, query: str, titles: Sequence[str]) -> np.ndarray:
        return np.array([len(title) / 3 for title in titles], np.float32)


def test_the_means_of_an_evaluation_are_those_of_trec_eval(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    queries = []
    for query, _ in zip(*random_set(11), strict=True):
        titles = tuple("x" * int(n) for n in rng.integers(1, 5, len(query.doc_ids)))
        queries.append(query._replace(titles=titles))
    queries.append(judged_query([0, 0], "nothing"))  # left out by us, 0 for trec_eval
    found = evaluate([LengthRanker()], queries)
    theirs = trec_evals_ndcg(tmp_path, queries, LengthRanker().rank(queries))
    measured = np.array([theirs[query.query_id] for query in with_relevant(queries)])
    assert found.left_out == len(queries) - len(measured) > 0
    assert np.abs(found.values[0].T - 100 * measured).max() < 1e-7
    assert found.means[0] == pytest.approx(100 * measured.mean(axis=0), abs=1e-9)
    assert theirs["nothing"] == [0.0, 0.0, 0.0]


def test_run_file_to_the_letter(tmp_path: Path) -> None:
    scores = np.array([1 / 3, np.nextafter(np.float32(1 / 3), np.float32(1)), 2, 2], dtype=np.float32)
    write_run(tmp_path / "run", [Ranking("q1", ("a", "b", "c", "d"), scores)], tag="bm25")
    assert (tmp_path / "run").read_text() == (
        "q1 Q0 d 1 2 bm25\nq1 Q0 c 2 2 bm25\nq1 Q0 b 3 0.333333373 bm25\nq1 Q0 a 4 0.333333343 bm25\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_qrels_file_is_read_back(tmp_path: Path) -> None:
    queries = [judged_query([2, 0], "q1"), judged_query([1], "q2")]
    write_qrels(tmp_path / "qrels", queries)
    (tmp_path / "queries").write_text("query_id\tquery\nq1\ta query\nq2\ta query\n")
    (tmp_path / "titles").write_text("doc_id\ttitle\nd0\td0\nd1\td1\n")
    again = read_qrels(tmp_path / "qrels", tmp_path / "queries", tmp_path / "titles")
    assert [query[:4] for query in again] == [query[:4] for query in queries]
    assert [query.grades.tolist() for query in again] == [[2, 0], [1]]
    write_qrels(tmp_path / "qrels", queries, gains=True)
    assert (tmp_path / "qrels").read_text() == "q1 0 d0 3\nq1 0 d1 0\nq2 0 d0 1\n"


def test_ids_with_white_space_have_no_place_in_trec_files(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_text("before")
    one = np.ones(1, np.float32)
    for ranking, tag in [
        (Ranking("q 1", ("a",), one), "t"),
        (Ranking("q", ("a\u2003b",), one), "t"),
        (Ranking("q", ("",), one), "t"),
        (Ranking("q", ("a",), one), "my tag"),
    ]:
        with pytest.raises(ClickvecError, match="white space"):
            write_run(path, [ranking], tag)
    with pytest.raises(ClickvecError, match="doc_id 'x y'"):
        write_qrels(path, [judged_query([1], ids=("x y",))])
    assert path.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("a file")
    with pytest.raises(ClickvecError, match=r"cannot write .*what was there before is unchanged"):
        write_qrels(tmp_path / "no" / "qrels", [judged_query([1])])


def test_queries_without_a_relevant_title_are_left_out() -> None:
    queries = [judged_query([0, 0], "none"), judged_query([0, 1], "one"), judged_query([], "empty")]
    assert [query.query_id for query in with_relevant(queries)] == ["one"]


GRADES = st.lists(st.integers(0, 6), min_size=1, max_size=20)


@given(GRADES, st.integers(1, 25))
def test_ndcg_lies_between_0_and_1_and_is_1_for_the_ideal_order(grades: list[int], k: int) -> None:
    assert 0 <= ndcg_of(grades, k) <= 1 + 1e-12
    assert ndcg_of(sorted(grades, reverse=True), k) == pytest.approx(1.0 if any(grades) else 0.0)


@given(GRADES, st.data(), st.integers(1, 25))
def test_a_better_title_moved_up_never_lowers_ndcg(grades: list[int], data: st.DataObject, k: int) -> None:
    low = data.draw(st.integers(0, len(grades) - 1))
    high = data.draw(st.integers(0, low))
    if grades[low] >= grades[high]:
        swapped = list(grades)
        swapped[low], swapped[high] = grades[high], grades[low]
        assert ndcg_of(swapped, k) >= ndcg_of(grades, k) - 1e-12


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.text(max_size=3)), unique_by=lambda row: row[1]))
def test_the_order_is_that_of_sorting_pairs(rows: list[tuple[float, str]]) -> None:
    order = rank_order([score for score, _ in rows], [doc_id for _, doc_id in rows])
    assert [rows[i] for i in order] == sorted(rows, reverse=True)
