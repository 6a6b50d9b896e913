"""Re-ranking: further columns are copied, and the engine's own score can be blended in."""

import io
from pathlib import Path

import numpy as np
import pytest
from command import check_tells, ok, refused, run, wrong_usage
from hypothesis import given
from hypothesis import strategies as st

from clickvec.data import BadLines
from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.rerank import blend, read_result_lists, rerank_scores, reranked, standard

LINES = b"hotel\t1\thotels in shanghai\t2.5\ta b \nhotel\t2\tpizza\t9\t\nhotel\t3\tshanghai hotel\t-1e3\t\r\xc3\xa9\n"


def read(data: bytes, **options: str) -> list[list[str]]:
    lists = read_result_lists(io.BytesIO(data), max_bad=0.9, **options)
    return [list(results.lines) for results in lists]


def test_further_columns_are_copied_byte_for_byte(encoder: Encoder) -> None:
    (lines,) = reranked(encoder, io.BytesIO(LINES), BadLines(), 0)
    copied = sorted(line.rpartition("\t")[0].encode() for line in lines)
    assert copied == sorted(LINES.removesuffix(b"\n").split(b"\n"))
    scores = [float(line.rpartition("\t")[2]) for line in lines]
    assert scores == sorted(scores, reverse=True)


def test_the_blend_by_hand(encoder: Encoder) -> None:
    # Two values have the standard scores +1 and -1, whatever their size.
    assert standard(np.array([7.0, 3.0])) == pytest.approx([1, -1])
    assert blend(np.array([0.9, 0.1]), np.array([3.0, 70.0]), 0.25) == pytest.approx([0.5, -0.5])
    for name, data in (("engine", b"query\tid\ttitle\tx\tengine\n"), ("5", b"")):
        rows = b"".join(f"pizza\t{key}\tpizza {key}\t{-key}\t{key * key}\n".encode() for key in range(5))
        (lines,) = reranked(encoder, io.BytesIO(data + rows), BadLines(), 0, name, 1.0)
        assert [line.split("\t")[1] for line in lines] == ["4", "3", "2", "1", "0"]
    titles = ["pizza", "hotels"]
    cosines = rerank_scores(encoder, "pizza", titles)
    assert rerank_scores(encoder, "pizza", titles, [1, 2], 0) == pytest.approx(standard(cosines), abs=1e-6)


def test_a_query_without_a_vector_keeps_the_order_of_the_engines_score(encoder: Encoder) -> None:
    rows = "☃\t1\tpizza\t3\n☃\t2\thotel\t5\n☃\t3\tshanghai\t4\n".encode()
    (lines,) = reranked(encoder, io.BytesIO(rows), BadLines(), 0, "4")
    assert [line.split("\t")[1] for line in lines] == ["2", "3", "1"]


@given(st.lists(st.floats(-1e308, 1e308, allow_subnormal=True), max_size=8))
def test_standard_scores_are_finite_and_keep_the_order(values: list[float]) -> None:
    scores = np.array(values)
    ranked = standard(scores)
    assert np.isfinite(ranked).all()
    assert (np.diff(ranked[np.argsort(scores, kind="stable")]) >= 0).all()


def test_the_first_line_sets_the_number_of_columns() -> None:
    bad = BadLines()
    data = b"q\t1\tA\tx\nq\t2\tB\nq\t3\tC\ty\tz\nq\t4\tD\t\n"
    (results,) = read_result_lists(io.BytesIO(data), bad, max_bad=0.9)
    assert results.ids == ("1", "4")
    check_tells(bad.examples[0], "standard input:2:", "3 columns", "query, id, title, column 4")
    assert read(b"short\nq\t1\tA\tx\nq\t2\tB\ty\n") == [["q\t1\tA\tx", "q\t2\tB\ty"]]
    assert read(b"query\tdoc_id\ttitle\tQuery\nq\t1\tA\tx\n") == [["q\t1\tA\tx"]]


@pytest.mark.parametrize(
    "header", [b"query\ttitle\tid", b"id\tquery\ttitle", b"query\tid\tscore\ttitle", b"q\tname\tsku"]
)
def test_a_header_with_the_columns_in_another_order_is_refused(header: bytes) -> None:
    with pytest.raises(ClickvecError, match=r":1: the columns are .*the first three must be query, id and title"):
        read(header + b"\nred shoe\tcamp\t1\t2\n")


def test_a_header_of_usual_names_is_no_result() -> None:
    assert read(b"q\tsku\tname\nred shoe\t1\tcamp\n") == [["red shoe\t1\tcamp"]]


def test_a_score_that_is_not_a_number_is_a_bad_line() -> None:
    bad = BadLines()
    data = b"query\tid\ttitle\trank\nq\t1\tA\t1.5\nq\t2\tB\tnan\nq\t3\tC\t\nq\t4\tD\tmany\nq\t5\tE\t-inf\n"
    (results,) = read_result_lists(io.BytesIO(data), bad, max_bad=0.9, score="rank")
    assert (results.ids, results.scores) == (("1",), (1.5,))
    assert bad.count == 4
    check_tells(bad.examples[0], "standard input:3:", "rank", "'nan'", "not a number")


@pytest.mark.parametrize(
    ("score", "data", "tells"),
    [
        ("rank", b"q\t1\tA\t1\n", ("'rank'", "4 columns and no header", "number")),
        ("rank", b"query\tid\ttitle\tscore\nq\t1\tA\t1\n", ("'rank'", "query, id, title, score")),
        ("9", b"q\t1\tA\t1\n", ("'9'", "4 columns")),
        ("0", b"q\t1\tA\t1\n", ("'0'", "4 columns")),
        ("2", b"q\t1\tA\t1\n", ("'2'", "is the id")),
        ("title", b"query\tid\ttitle\tscore\nq\t1\tA\t1\n", ("'title'", "is the title")),
        ("s", b"query\tid\ttitle\ts\ts\nq\t1\tA\t1\t2\n", ("2 columns", "'s'", "number")),
    ],
)
def test_a_wrong_score_column_is_refused(score: str, data: bytes, tells: tuple[str, ...]) -> None:
    with pytest.raises(ClickvecError) as error:
        read(data, score=score)
    check_tells(str(error.value), "standard input", *tells)


def test_the_verb(model_folder: Path) -> None:
    lines = "query\tid\ttitle\tbm25\nhotel\t1\thotels\t1\nhotel\t2\tshanghai hotel\t2\n"
    plain = ok("rerank", model_folder, stdin=lines)
    blended = ok("rerank", model_folder, "--score", "bm25", stdin=lines)
    assert {line.rpartition("\t")[0] for line in plain.splitlines()} == set(lines.splitlines()[1:])
    assert blended.splitlines()[0].endswith(("\t0.800000", "\t1.000000"))  # 0.9 - 0.1, or 0.9 + 0.1
    done = run("rerank", model_folder, "--score", "bm25", "--weight", "1", stdin=lines)
    assert [line.split("\t")[1] for line in done.out.splitlines()] == ["2", "1"]
    check_tells(refused("rerank", model_folder, "--score", "rank", stdin=lines), "'rank'", "bm25")
    check_tells(wrong_usage("rerank", model_folder, "--weight", "0.5"), "--weight", "--score")
