"""The search view: results as you type, misspelled words, links, and the keyboard."""

import contextlib
import json

import pytest
from playwright.sync_api import Error
from serving import Running
from tabs import QUERY, Tab


def titles(tab: Tab, query: str) -> list[str]:
    """Return the titles that the page shows for a query, once it shows them."""
    tab.page.locator(f"#hits[data-query={json.dumps(query)}]").wait_for()
    return tab.page.locator("#hits .column[data-mode=hybrid] .title").all_inner_texts()


def expected(shop: Running, query: str) -> list[str]:
    return [hit["title"] for hit in shop.post("/search", {"query": query, "k": 10}).json()["hits"]]


def test_every_key_changes_the_results_and_the_link(tab: Tab, shop: Running) -> None:
    page = tab.open()
    field = page.get_by_role("searchbox")
    assert field.evaluate("field => field === document.activeElement")
    for end in range(1, 9):
        page.keyboard.press(QUERY[end - 1])
        query = QUERY[:end]
        if query == query.strip():
            found = titles(tab, query)
            assert found[:3] == expected(shop, query)[:3]
    assert "q=bath+tub" in page.url


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(tab: Tab, shop: Running) -> None:
    page = tab.open()
    held = []

    def hold(route) -> None:  # noqa: ANN001
        if json.loads(route.request.post_data)["query"] == "bath":
            held.append(route)
        else:
            route.continue_()

    page.route("**/search", hold)
    page.get_by_role("searchbox").fill("bath")
    page.get_by_role("searchbox").fill("bath tub")
    assert titles(tab, "bath tub")[:3] == expected(shop, "bath tub")[:3]
    for route in held:
        with contextlib.suppress(Error):  # the page has given it up, which is right
            route.continue_()
    page.wait_for_timeout(200)
    assert titles(tab, "bath tub")[:3] == expected(shop, "bath tub")[:3]


def test_a_link_restores_the_view(tab: Tab, shop: Running) -> None:
    page = tab.open(f"/search?q={QUERY}")
    first = titles(tab, QUERY)
    assert first[:3] == expected(shop, QUERY)[:3]
    page.reload()
    assert titles(tab, QUERY) == first
    assert page.get_by_role("searchbox").input_value() == QUERY


@pytest.mark.parametrize("query", ["   ", "zzzzzz qqqqqq", "上海", "🛁", "a" * 1000])
def test_odd_queries_are_answered(tab: Tab, query: str) -> None:
    page = tab.open()
    page.get_by_role("searchbox").fill(query)
    page.wait_for_load_state("networkidle")
    assert page.get_by_role("alert").filter(has_text="did not work").count() == 0
