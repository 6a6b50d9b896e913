"""Tables in memory are read like files: DataFrames of pandas and polars, tables of Arrow, dicts, tuples."""

import datetime
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clickvec
from clickvec.data import ClickLog, read_clicks, read_judged, read_titles, titles_of
from clickvec.errors import ClickvecError

Make = Callable[[dict[str, list[Any]]], Any]


def pandas_frame(columns: dict[str, list[Any]]) -> Any:  # noqa: ANN401
    return pytest.importorskip("pandas").DataFrame(columns)


def polars_frame(columns: dict[str, list[Any]]) -> Any:  # noqa: ANN401
    return pytest.importorskip("polars").DataFrame(columns)


def lazy_frame(columns: dict[str, list[Any]]) -> Any:  # noqa: ANN401
    return polars_frame(columns).lazy()


def arrow_table(columns: dict[str, list[Any]]) -> Any:  # noqa: ANN401
    return pytest.importorskip("pyarrow").table(columns)


def arrow_batch(columns: dict[str, list[Any]]) -> Any:  # noqa: ANN401
    return pytest.importorskip("pyarrow").record_batch(columns)


def duckdb_relation(columns: dict[str, list[Any]]) -> Any:  # noqa: ANN401
    table = arrow_table(columns)
    return pytest.importorskip("duckdb").from_arrow(table)


def dicts(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


FRAMES = [pandas_frame, polars_frame, lazy_frame, arrow_table, arrow_batch, duckdb_relation, dict]
EVERY = pytest.mark.parametrize("make", [*FRAMES, dicts])


def pairs(log: ClickLog) -> list[tuple[str, str]]:
    return list(zip(log.queries, log.titles, strict=True))


@EVERY
def test_a_log_has_the_usual_names_and_types_of_columns(make: Make) -> None:
    table = make(
        {
            "Search Term": ["tea", "milk"], "product_name": ["Green", "Oat"], "clicked": [True, False],
            "user_id": [12, 13], "ts": [datetime.datetime(2024, 1, 31, 12), datetime.datetime(2024, 1, 31, 13)],
            "position": [1, 2], "other": [[1], [2]],
        }
    )  # fmt: skip
    log = read_clicks(table)
    assert pairs(log) == [("tea", "Green")]
    assert (log.clients, log.shown and log.shown.queries) == (["12"], ["milk"])
    assert log.times is not None
    assert log.times.tolist() == [1_706_702_400]
    assert log.positions is not None
    assert log.positions.tolist() == [1]


@EVERY
def test_a_table_is_read_as_the_same_file_is(make: Make, tmp_path: Path) -> None:
    columns = {"query": ["a", " ", "c"], "title": ["x", "y", "z"], "clicks": [1, 2, -3]}
    path = tmp_path / "log.tsv"
    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    one, other = read_clicks(path, max_bad=1), read_clicks(make(columns), max_bad=1)
    assert pairs(one) == pairs(other)
    assert one.bad.reasons == other.bad.reasons
    assert [text.split(": ", 1)[1] for text in one.bad.examples] == [
        text.split(": ", 1)[1] for text in other.bad.examples
    ]
    with pytest.raises(ClickvecError, match=r"2 of 3 lines \(66.7%\) are bad"):
        read_clicks(make(columns))


@EVERY
def test_ids_that_are_floats_because_some_are_missing_are_whole_numbers(make: Make) -> None:
    log = {"query": ["tea", "milk", "soup"], "sku": [12.0, None, 13.0]}
    catalogue = {"sku": [12, 13], "title": ["Green", "Miso"]}
    read = read_clicks(make(log), catalogue=make(catalogue))
    assert pairs(read) == [("tea", "Green"), ("soup", "Miso")]
    assert read.bad.unused == {"query without a click": 1}
    assert [title.id for title in read_titles(make(catalogue))] == ["12", "13"]


@EVERY
def test_a_judged_set(make: Make) -> None:
    judged = read_judged(
        make(
            {"query_id": [1, 1], "query": ["tea", "tea"], "doc_id": [7, 8], "title": ["Green", "Oat"], "grade": [2, 0]}
        )
    )
    [query] = judged
    assert (query.query_id, query.doc_ids, query.grades.tolist()) == ("1", ("7", "8"), [2, 0])


@EVERY
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x"], "b": ["y"]}, "found the columns a, b; query and title are missing"),
        (
            {"q": ["x"], "keywords": ["y"], "title": ["z"]},
            "the query may be q or keywords; rename one of them to query",
        ),
        ({"query": ["x"], "headline": ["y"]}, "title is missing. Rename the column that holds it to title"),
        ({"query": ["x"], "my_title": ["y"]}, "title is missing. Rename my_title to title"),
        ({"query": ["x"], "sku": ["y"]}, "has the ids of titles, and no titles; give catalogue="),
        ({"query": ["x"], "title": [["y"]]}, "title is not text"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_cure(make: Make, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ClickvecError) as error:
        read_clicks(make(columns))
    assert message in str(error.value)
    assert "--columns" not in str(error.value)


@pytest.mark.parametrize("make", FRAMES[:-1])
def test_an_empty_table_is_empty(make: Make) -> None:
    with pytest.raises(ClickvecError, match="is empty"):
        read_clicks(make({"query": [], "title": []}))


def test_columns_may_be_mapped_and_an_unused_name_is_an_error() -> None:
    rows = [{"request": "tea", "label": "Green"}]
    assert pairs(read_clicks(rows, columns={"query": "request", "title": "label"})) == [("tea", "Green")]
    with pytest.raises(ClickvecError, match=r"columns=\{'clicks': 'n'\} applies to no file"):
        read_clicks(rows, columns={"query": "request", "title": "label", "clicks": "n"})


def test_tuples_are_told_by_their_number_of_values() -> None:
    assert pairs(read_clicks([("tea", "Green"), ("milk", "Oat")])) == [("tea", "Green"), ("milk", "Oat")]
    assert read_clicks([("tea", "Green", 3)]).clicks.tolist() == [3]
    assert read_clicks(iter([("tea", "Green")])).queries == ["tea"]
    with pytest.raises(ClickvecError, match=r"the list\[1\] has 4 values; a tuple is \(query, title, clicks\) or"):
        read_clicks([("tea", "Green"), (1, 2, 3, 4)])
    with pytest.raises(ClickvecError, match=r"the list\[1\] is of type int"):
        read_clicks([("tea", "Green"), 5])


def test_rows_of_sqlite_and_several_tables_make_one_log() -> None:
    database = sqlite3.connect(":memory:")
    database.row_factory = sqlite3.Row
    rows = database.execute("SELECT 'tea' AS query, 'Green' AS title").fetchall()
    assert pairs(read_clicks([rows, [{"query": "milk", "title": "Oat"}]])) == [("tea", "Green"), ("milk", "Oat")]


def test_values_of_pandas_and_numpy() -> None:
    pd = pytest.importorskip("pandas")
    times = pd.to_datetime(["2024-01-31 12:00", "2024-01-31 13:00"]).tz_localize("Europe/Berlin")
    frame = pd.DataFrame(
        {
            "query": pd.Categorical(["tea", "milk"]),
            "title": ["Green", 1984],
            "time": times,
            "n": pd.array([1, 2], "Int64"),
        }
    )
    log = read_clicks(frame)
    assert pairs(log) == [("tea", "Green"), ("milk", "1984")]
    assert log.times is not None
    assert log.times.tolist() == [1_706_698_800, 1_706_702_400]
    missing = pd.DataFrame({"query": ["tea", None, pd.NA, np.nan], "title": list("abcd"), "time": [pd.NaT] * 4})
    log = read_clicks(missing, columns={"time": "-"}, max_bad=1)
    assert pairs(log) == [("tea", "a")]
    assert log.bad.reasons == {"blank query": 3}
    assert pairs(read_clicks(frame.set_index("query"))) == pairs(read_clicks(frame))
    twice = pd.DataFrame([["tea", "a", "b"]], columns=["query", "title", "title"])
    with pytest.raises(ClickvecError, match="two columns called title"):
        read_clicks(twice)
    with pytest.raises(ClickvecError, match="the column title holds a value of type object"):
        read_clicks(pd.DataFrame({"query": ["tea"], "title": [object()]}))


def test_text_that_no_file_can_hold_is_bad() -> None:
    for rows in (dict, dicts):
        log = read_clicks(rows({"query": ["a\0", "\ud800", "tea"], "title": ["x", "y", "Green"]}), max_bad=1)
        assert pairs(log) == [("tea", "Green")]
        assert log.bad.reasons == {"NUL or half a character": 2}


def test_titles_of_a_catalogue() -> None:
    pa = pytest.importorskip("pyarrow")
    generated: Iterator[str] = (title for title in ("Green", "Oat"))
    for catalogue in (
        ["Green", "Oat"],
        generated,
        pa.chunked_array([["Green"], ["Oat"]]),
        [{"title": "Green"}, {"title": "Oat"}],
    ):
        assert titles_of(catalogue) == ["Green", "Oat"]
    with pytest.raises(ClickvecError, match=r"catalogue\[1\] is of type int"):
        titles_of(["Green", 5])


# --- where tables are taken --------------------------------------------------------------------------------------


@EVERY
def test_an_index_takes_documents_and_changes(make: Make, encoder: clickvec.Encoder) -> None:
    table = make({"sku": [17, 18], "name": ["hotels", "pizza"], "price": [9.5, None], "tags": [["a"], []]})
    index = clickvec.Index.build(encoder, table)
    expected = {"tags": []} if make is not dicts else {"price": None, "tags": []}
    assert [tuple(document) for document in index] == [
        (17, "hotels", {"price": 9.5, "tags": ["a"]}), (18, "pizza", expected)
    ]  # fmt: skip
    assert index.add(make({"id": ["19"], "title": ["tea"]})) == 1
    assert index.update(make({"id": [17], "price": [3]})) == 1
    assert len(index) == 3
    document = index.get(17)
    assert document is not None
    assert document.payload["price"] == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1, 1], "title": ["a", "b"]}, "the id 1 is given to more than one title"),
        ({"id": [1.5, 2.0], "title": ["a", "b"]}, "the id 1.5 is of type float"),
        ({"id": [1.0, None], "title": ["a", "b"]}, r"documents\[1\] has no id"),
        ({"id": [1, 2], "title": ["a", None]}, r"documents\[1\] has no title"),
        ({"price": [1]}, r"documents\[0\] has no title; its keys are price"),
    ],
)
@pytest.mark.parametrize("make", [pandas_frame, arrow_table, dict])
def test_documents_that_are_refused(
    make: Make,
    columns: dict[str, list[Any]],
    message: str,
    encoder: clickvec.Encoder,
) -> None:
    with pytest.raises(ClickvecError, match=message):
        clickvec.Index.build(encoder, make(columns))


def test_tuples_of_an_index_are_an_id_and_a_title(encoder: clickvec.Encoder) -> None:
    index = clickvec.Index.build(encoder, [(17, "hotels"), ("a18", "pizza dough")])
    assert [tuple(document) for document in index] == [(17, "hotels", None), ("a18", "pizza dough", None)]
    with pytest.raises(ClickvecError, match=r"a tuple is \(id, title\), and this seems to be \(title, id\)"):
        clickvec.Index.build(encoder, [("pizza dough", "a18"), ("shower valve", "a19")])


def test_training_and_evaluation_take_tables(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    log = {"query": ["tea", "milk", "soup"] * 4, "title": ["green tea", "oat milk", "miso soup"] * 4}
    titles: list[dict[str, Any]] = [{"doc_id": 7, "title": "green tea"}, {"doc_id": 8, "title": "oat milk"}]
    judged = [
        {"query_id": 1, "query": "tea", "grade": grade, **title} for grade, title in zip((2, 0), titles, strict=True)
    ]
    small: Any = {"epochs": 1, "cells": 4, "hidden": 4, "output": 4}
    encoder = clickvec.train(log, tmp_path / "one", dev=judged, catalogue=titles, **small)
    texts = [title["title"] for title in titles]
    same = clickvec.train(read_clicks(log), tmp_path / "other", dev=read_judged(judged), catalogue=texts, **small)
    assert encoder.fingerprint == same.fingerprint
    shown = clickvec.evaluate(encoder, judged, catalogue=titles)
    assert "Recall@100" in shown.measures
    clickvec.continue_training(dicts(log), tmp_path / "one", tmp_path / "two")


def test_the_example_of_the_docs_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "logs.md").read_text(encoding="utf-8")
    code = page.split("### Tables in Python")[1].split("```python\n")[1].split("```")[0]
    exec(code, {})
    told = [line.split("  # ", 1)[1] for line in code.splitlines() if line.startswith("print(")]
    assert capsys.readouterr().out.splitlines() == told
