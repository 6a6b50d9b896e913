"""The Python API: what a newcomer writes first ends in a result, or in one sentence that says what to give."""

import contextlib
import importlib
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import clickvec
from clickvec.data import ClickLog, dataset, read_clicks, read_judged, read_titles
from clickvec.errors import ClickvecError
from clickvec.search.hits import Hit

LOG = [("tea", "green tea"), ("milk", "oat milk")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"overwrite": True}, "no setting 'overwrite'; if_exists=\"overwrite\" replaces a model"),
        ({"resume": True}, 'if_exists="resume" continues a run'),
        ({"columns": {}}, r"read_clicks\(log, columns="),
        ({"epoch": 3}, "the nearest is 'epochs'"),
        ({"catalog": []}, "the nearest parameter is 'catalogue'"),
        ({"qwxz": 1}, r"the settings are the fields of clickvec\.Recipe"),
        ({"dev": 3}, "3 is of type int; give a path, a DataFrame"),
        ({"teacher": 5}, "teacher is of type int"),
        ({"catalogue": 5}, "5 is of type int; give a path"),
        ({"catalogue": [5]}, r"catalogue\[0\] is of type int"),
    ],
)
def test_wrong_keywords_of_train(settings: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=message):
        clickvec.train(LOG, tmp_path / "model", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: clickvec.train("nosuch.tsv", "out"), "nosuch.tsv does not exist"),
        (lambda e: clickvec.train(None, "out"), "None is of type NoneType; give a path, a DataFrame"),
        (lambda e: clickvec.train(LOG, 5), "out is of type int: 5; give the path"),
        (lambda e: clickvec.continue_training(LOG, e, "out"), "model is of type Encoder"),
        (lambda e: read_clicks(LOG, columns=["query"]), "columns is of type list"),
        (lambda e: read_clicks(LOG, columns={"query": 1}), "the name of the column query is of type int"),
        (lambda e: read_clicks(LOG, max_bad="1%"), "max_bad is of type str"),
        (lambda e: read_clicks(LOG, catalogue=5), "5 is of type int"),
        (lambda e: clickvec.Index.build(["tea"]), "encoder is of type list"),
        (lambda e: clickvec.Index.build(e, 5), "documents must be a list of documents or a DataFrame"),
        (lambda e: clickvec.Index.build(e, [5]), r"documents\[0\] is of type int"),
        (lambda e: clickvec.Index.create(e, "index"), "path is of type Encoder"),
        (lambda e: clickvec.Index.create("index", ["tea"]), "encoder is of type list"),
        (lambda e: clickvec.Index.open(None), "path is of type NoneType"),
        (lambda e: clickvec.Index("index"), "opened by Index.open"),
        (lambda e: clickvec.Index.build(e).add(["tea"]), r"documents\[0\] has no id"),
        (lambda e: clickvec.Index.build(e).delete(5), "ids must be a list, not the single int 5"),
        (lambda e: clickvec.Index.build(e).delete({"id": ["a", "b"]}), "the dict is a table; give only its ids"),
        (lambda e: clickvec.Index.build(e).search(5), "query is of type int"),
        (lambda e: clickvec.Index.build(e).search("tea", k="ten"), "k is of type str"),
        (lambda e: clickvec.Index.build(e).search("tea", min_score="x"), "min_score is of type str"),
        (lambda e: clickvec.explain("model", "tea", "tea"), "give an Encoder or an Index"),
        (lambda e: clickvec.evaluate(5, []), "none of the 0 queries|a system is of type int"),
        (lambda e: clickvec.evaluate([], []), "there is no system to measure"),
        (lambda e: clickvec.evaluate(e, [5]), r"judged\[0\] is of type int"),
        (lambda e: clickvec.evaluate(e, [], catalogue=["tea"]), r"catalogue\[0\] is of type str"),
        (lambda e: clickvec.evaluate(e, [], cutoffs=10), "cutoffs is of type int"),
        (lambda e: clickvec.Encoder.load(5), "path is of type int"),
        (lambda e: clickvec.Encoder("model"), "Encoder.load"),
        (lambda e: e.encode_query(5), "a text is a str"),
        (lambda e: e.similarity("tea", "milk"), "a vector is of type str"),
    ],
)
def test_wrong_calls_say_what_to_give(
    call: Callable[[clickvec.Encoder], object],
    message: str,
    encoder: clickvec.Encoder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClickvecError, match=message) as error:
        call(encoder)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def test_representations_are_short(encoder: clickvec.Encoder, tmp_path: Path) -> None:
    rows = [{"query": f"q{n}", "title": f"title {n}", "user_id": n, "clicks": n % 2} for n in range(5_000)]
    log = read_clicks(rows)
    assert repr(log) == "ClickLog(2,500 pairs with clicks, clients, 2,500 shown and not clicked: 'q1' -> 'title 1')"
    catalogue = [{"doc_id": n, "title": "word " * 500} for n in range(1_000)]
    judged = [{"query_id": n, "query": "q", "doc_id": n, "title": "t" * 900, "grade": 1} for n in range(1_000)]
    index = clickvec.Index.build(encoder, [{"id": 1, "title": "t " * 500, "text": "x" * 9_000}])
    for thing in (
        read_titles(catalogue), read_judged(judged), log.bad, index, encoder, dataset.prepare(log, 10, 1_000),
        clickvec.evaluate(encoder, judged[:2]), *index.search("t"),
    ):  # fmt: skip
        assert len(repr(thing)) < 700, type(thing)
    assert repr(Hit(1, "tea", 0.5, {"cosine": 0.25})) == "Hit(id=1, title='tea', score=0.5000 (cosine 0.2500))"
    assert repr(ClickLog([], [], np.zeros(0))) == "ClickLog(0 pairs with clicks)"


def test_columns_of_tables_are_lists_of_titles_and_ids(encoder: clickvec.Encoder) -> None:
    titles, ids = ["green tea", "oat milk"], [7, 8]
    tables = [{"id": np.array(ids), "title": np.array(titles, object)}]
    for name in ("pandas", "polars"):
        with contextlib.suppress(ImportError):
            tables.append(importlib.import_module(name).DataFrame({"id": ids, "title": titles}))
    for table in tables:
        index = clickvec.Index.build(encoder, titles=table["title"], ids=table["id"])
        assert [(document.id, document.title) for document in index] == [(7, "green tea"), (8, "oat milk")]
        assert index.delete(table["id"]) == 2


def test_nan_in_a_change_is_no_value_and_none_removes(encoder: clickvec.Encoder) -> None:
    for missing in (math.nan, np.float32("nan"), np.datetime64("NaT"), Decimal("NaN")):
        index = clickvec.Index.build(encoder, [{"id": 1, "title": "red lamp", "price": 7, "brand": "x"}])
        assert index.update([{"id": 1, "price": missing, "brand": None}]) == 1
        document = index.get(1)
        assert document is not None
        assert document.payload == {"price": 7}
    for infinite in (math.inf, Decimal("-Infinity")):
        with pytest.raises(ClickvecError, match="give a finite number, or None"):
            index.update([{"id": 1, "price": infinite}])
        with pytest.raises(ClickvecError, match="give a finite number, or None"):
            index.add([{"id": 2, "title": "blue lamp", "price": infinite}])
    assert len(index) == 1
