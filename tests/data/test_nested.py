"""Nested columns: fields of objects in lists, lists of keys with values, exports of GA4."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clickvec.data import ClickLog, Columns, read_clicks, read_titles
from clickvec.errors import ClickvecError

Write = Callable[[list[dict[str, Any]]], Path]

ITEMS = Columns({"query": "request.q", "title": "items.item_name"})
LOG = [
    {"request": {"q": "tea"}, "items": [{"item_id": 1, "item_name": "Green"}, {"item_id": 2, "item_name": "Black"}]},
    {"request": {"q": "milk"}, "items": []},
    {"request": {"q": "soup"}, "items": [{"item_id": 3, "item_name": "Miso"}]},
]


@pytest.fixture(params=["jsonl", "parquet", "memory"])
def write(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[list[dict[str, Any]]], Any]:
    """Write the same rows as JSON lines and as Parquet, or give them as they are."""

    def rows_at(rows: list[dict[str, Any]]) -> Any:  # noqa: ANN401
        if request.param == "memory":
            return rows
        path = tmp_path / f"log.{request.param}"
        if request.param == "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        else:
            pa = pytest.importorskip("pyarrow")
            parquet = pytest.importorskip("pyarrow.parquet")
            parquet.write_table(pa.Table.from_pylist(rows), path)
        return path

    return rows_at


def pairs(log: ClickLog) -> list[tuple[str, str]]:
    return list(zip(log.queries, log.titles, strict=True))


def test_each_element_of_a_list_is_a_row_and_an_empty_list_is_left_out(write: Write) -> None:
    log = read_clicks(write(LOG), columns=ITEMS)
    assert pairs(log) == [("tea", "Green"), ("tea", "Black"), ("soup", "Miso")]
    assert log.bad.count == 0
    assert log.bad.unused == {"no items.item_name": 1}


def test_columns_of_two_lists_do_not_belong_together(write: Write) -> None:
    rows = [{"a": [{"q": "x"}], "b": [{"t": "y"}]}]
    with pytest.raises(ClickvecError, match="a and b are two lists"):
        read_clicks(write(rows), columns={"query": "a.q", "title": "b.t"})


def test_a_misspelled_nested_column_is_named_with_those_there_are(write: Write) -> None:
    with pytest.raises(ClickvecError, match=r"found the columns .*title is missing"):
        read_clicks(write(LOG), columns={"query": "request.q", "title": "item.item_name"})


def test_a_list_of_keys_and_values_has_a_column_for_each_key(write: Write) -> None:
    params = [
        {"key": "page", "value": {"string_value": None, "int_value": 2}},
        {"key": "term", "value": {"string_value": "tea", "int_value": None}},
    ]
    rows = [{"params": params, "name": "Green"}, {"params": params[:1], "name": "Black"}]
    log = read_clicks(write(rows), columns={"query": "params.term"})
    assert pairs(log) == [("tea", "Green")]
    assert log.bad.unused == {"no params.term": 1}


def test_a_catalogue_has_one_title_for_each_element(write: Write) -> None:
    rows = [
        {"brand": "x", "variants": [{"sku": 1, "name": "Green", "price": 2}, {"sku": 2, "name": "Black", "price": 3}]},
        {"brand": "y", "variants": [{"sku": 3, "name": "Miso", "price": 4}]},
    ]
    titles = read_titles(write(rows), columns=Columns({"doc_id": "variants.sku", "title": "variants.name"}))
    assert [tuple(title) for title in titles] == [
        ("1", "Green", {"brand": "x", "variants": {"price": 2}}),
        ("2", "Black", {"brand": "x", "variants": {"price": 3}}),
        ("3", "Miso", {"brand": "y", "variants": {"price": 4}}),
    ]


def test_a_catalogue_may_have_its_title_inside_an_object(write: Write) -> None:
    rows = [{"id": 7, "product": {"name": "Green", "price": 2}}]
    titles = read_titles(write(rows), columns=Columns({"title": "product.name"}))
    [(doc_id, title, payload)] = titles
    assert (doc_id, title) == ("7", "Green")
    assert payload in ({"product": {"price": 2}}, {"product": {"name": "Green", "price": 2}})


# --- Google Analytics 4 ------------------------------------------------------------------------------------------


def event(
    name: str, at: int, term: str | None = None, items: tuple[tuple[str, str], ...] = (), user: str = "u1"
) -> dict[str, Any]:
    params: list[dict[str, Any]] = [{"key": "ga_session_id", "value": {"string_value": None, "int_value": 17}}]
    if term is not None:
        params.append({"key": "search_term", "value": {"string_value": term, "int_value": None}})
    return {
        "event_date": "20240131", "event_timestamp": 1_706_700_000_000_000 + 1_000_000 * at, "event_name": name,
        "event_params": params, "user_pseudo_id": user, "ecommerce": {"total_item_quantity": len(items)},
        "items": [{"item_id": key, "item_name": title, "item_brand": "x"} for key, title in items],
    }  # fmt: skip


GREEN, BLACK = ("1", "Green tea"), ("2", "Black tea")
EXPORT = [
    event("select_item", 9, items=(BLACK,)),  # files are not in order of time
    event("page_view", 0),
    event("view_search_results", 1, "tea", (GREEN, BLACK)),
    event("select_item", 5, items=(GREEN,)),
    event("view_search_results", 7, "strong tea"),
    event("select_item", 9, items=(BLACK,), user="u2"),  # nothing was searched
    event("select_item", 9, "own term", (GREEN,), user="u2"),
    event("view_item_list", 10, items=(GREEN, BLACK)),  # a category
]


def test_an_export_of_ga4_is_recognised_and_clicks_have_the_search_before_them(write: Write) -> None:
    log = read_clicks(write(EXPORT))
    assert pairs(log) == [("own term", "Green tea"), ("strong tea", "Black tea"), ("tea", "Green tea")]
    assert log.clients == ["u2", "u1", "u1"]
    assert log.times is not None
    assert log.times.tolist() == [1_706_700_009, 1_706_700_009, 1_706_700_005]
    assert log.shown is not None
    assert pairs(log.shown) == [("tea", "Green tea"), ("tea", "Black tea")]
    assert not log.sessions
    assert sum(log.bad.unused.values()) == 4
    [told] = log.bad.layouts.values()
    assert "query=event_params.search_term, title=items.item_name" in told
    assert "a click is select_item" in told


def test_columns_that_are_given_for_an_export_of_ga4_are_used(write: Write) -> None:
    log = read_clicks(write(EXPORT), columns={"title": "items.item_brand", "time": "-"})
    assert set(log.titles) == {"x"}
    assert log.times is None
    assert "title=items.item_brand" in next(iter(log.bad.layouts.values()))
    with pytest.raises(ClickvecError, match=r"an event without items\.nosuch"):
        read_clicks(write(EXPORT), columns={"title": "items.nosuch"}, max_bad=1)


def test_an_export_of_ga4_is_joined_to_a_catalogue_by_item_id(write: Write) -> None:
    log = read_clicks(write(EXPORT), catalogue=[{"sku": 1, "name": "Sencha"}, {"sku": 2, "name": "Assam"}])
    assert pairs(log)[1:] == [("strong tea", "Assam"), ("tea", "Sencha")]


def test_an_export_of_ga4_without_clicks_says_which_events_it_has(write: Write) -> None:
    with pytest.raises(ClickvecError, match="no event is select_item; its events are page_view, view_search_results"):
        read_clicks(write(EXPORT[1:3]))
