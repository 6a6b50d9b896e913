"""What another engine returned, as a TREC run file, beside models, BM25 and an index."""

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from command import ok, refused, run, wrong_usage
from tiny import tiny_model

import clickvec
from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.run_file import RunFile
from clickvec.evaluation.test_set import Catalogue

JUDGED = [
    JudgedQuery("q1", "red wine", ("a", "b", "c"), ("red wine", "wine", "tea"), np.array([2, 1, 0])),
    JudgedQuery("q2", "tea", ("c", "d"), ("tea", "green tea"), np.array([1, 1])),
]
# x is not judged; d and c tie, so d comes first; q3 is not judged; b has the first rank and the lowest score
RUN = "q1 Q0 b 1 0.5 t\nq1 Q0 x 2 3 t\nq1 Q0 a 3 2e0 t\nq2 Q0 c 1 1 t\nq2 Q0 d 2 1 t\nq3 Q0 a 1 1 t\n"
QRELS = "q1 0 a 2\nq1 0 b 1\nq1 0 c 0\nq2 0 c 1\nq2 0 d 1\n"


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    (tmp_path / "my.run").write_text(RUN)
    (tmp_path / "qrels").write_text(QRELS)
    return tmp_path / "my.run"


def test_a_run_alone_is_measured_as_trec_eval_does(run_file: Path) -> None:
    result = evaluate(run_file, JUDGED)
    gains = {q.query_id: dict(zip(q.doc_ids, (2**q.grades - 1).tolist(), strict=True)) for q in JUDGED}
    with run_file.open() as file:
        theirs = pytrec_eval.RelevanceEvaluator(gains, {"ndcg_cut.1,3,10", "recip_rank"}).evaluate(
            pytrec_eval.parse_run(file)
        )
    for name, key in (("NDCG@1", "ndcg_cut_1"), ("NDCG@3", "ndcg_cut_3"), ("MRR@10", "recip_rank")):
        assert result.per_query(str(run_file), name) == pytest.approx([100 * theirs[q][key] for q in ("q1", "q2")])
    assert set(result.ranked) == {"whole catalogue"}


def test_equal_scores_are_ordered_by_id_and_ranks_are_ignored(run_file: Path) -> None:
    asked = [JudgedQuery(name, "", (), (), np.zeros(0, np.int64)) for name in ("q1", "q2", "q9")]
    found = RunFile.read(run_file).search(asked, Catalogue(ids=()), 100, None)
    assert found == [["x", "a", "b"], ["d", "c"], []]


def test_beside_a_model_the_judged_titles_are_ranked(run_file: Path, tmp_path: Path) -> None:
    result = evaluate({"engine": run_file, "BM25": "bm25"}, JUDGED)
    assert result.per_query("engine", "NDCG@10").tolist() == [100, 100]  # x is left out
    assert set(result.ranked) == {"judged titles"}
    assert set(result.p_values) == {next(name for name in ("engine", "BM25") if name != result.tested[1])}


def test_a_title_that_was_not_returned_gains_nothing(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("q1 Q0 c 1 1 t\n")
    result = evaluate({"engine": tmp_path / "r", "BM25": "bm25"}, JUDGED)
    assert result.per_query("engine", "NDCG@10").tolist() == [0, 0]


def test_unknown_queries_and_documents_are_said(run_file: Path) -> None:
    done = run("evaluate", run_file, "--judged", run_file.parent / "qrels")
    assert done.status == 0, done.err
    assert "1 queries of it are not in the judged set and are ignored; such as 'q3'" in done.err
    assert "1 documents of it are not in the judged set; such as 'x'" in done.err
    assert "the whole catalogue" in done.out
    (run_file.parent / "few.run").write_text("q1 Q0 a 1 1 t\n")
    done = run("evaluate", run_file.parent / "few.run", run_file, "--judged", run_file.parent / "qrels")
    assert "1 judged queries are not in it and count as 0; such as 'q2'" in done.err


def test_beside_an_index_its_catalogue_is_searched(run_file: Path, tmp_path: Path) -> None:
    encoder = clickvec.Encoder.load(tiny_model(tmp_path / "model"))
    (tmp_path / "c.tsv").write_text("doc_id\ttitle\na\tred wine\nb\twine\nc\ttea\nd\tgreen tea\n")
    assert encoder
    ok("index", tmp_path / "model", tmp_path / "c.tsv", "--out", tmp_path / "index")
    judged = tmp_path / "judged.tsv"
    judged.write_text(
        "query_id\tquery\tdoc_id\ttitle\tgrade\nq1\tred wine\ta\tred wine\t2\nq1\tred wine\tb\twine\t1\n"
        "q2\ttea\tc\ttea\t1\n"
    )
    done = run("evaluate", run_file, "--index", tmp_path / "index", "--judged", judged)
    assert done.status == 0, done.err
    assert str(run_file) in done.out
    assert "1 documents of it are not in the catalogue; such as 'x'" in done.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("q1 Q0 a 1 1\n", "5 columns, expected query_id, Q0, doc_id, rank, score, tag"),
        ("q1 Q0 a 1 nan t\n", "score 'nan' is not a number"),
        ("q1 Q0 a 1 2 t\nq1 Q0 a 2 1 t\n", "'a' is there twice for 'q1'"),
        ("\x00\n" * 3, "my.run"),
    ],
)
def test_a_bad_run_file_is_refused(text: str, told: str, run_file: Path) -> None:
    run_file.write_text(text)
    assert told in refused("evaluate", run_file, "--judged", run_file.parent / "qrels")
    with pytest.raises(ClickvecError):
        RunFile.read(run_file)


def test_a_run_file_needs_a_judged_set(run_file: Path) -> None:
    assert "give --judged" in wrong_usage("evaluate", run_file, "--held-out", run_file)
