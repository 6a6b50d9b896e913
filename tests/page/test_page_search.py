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


def test_a_misspelled_word_is_replaced_and_the_page_says_so(tab: Tab) -> None:
    page = tab.open("/search?q=bathtubb fawcet")
    titles(tab, "bathtubb fawcet")
    notes = page.locator("#notes").inner_text()
    assert "bathtubb" in notes
    assert "bathtub" in notes.replace("bathtubb", "")


def test_words_vectors_and_hybrid_stand_side_by_side(tab: Tab, shop: Running) -> None:
    page = tab.open(f"/search?q={QUERY}")
    for label, mode in (("Words", "words"), ("Hybrid", "hybrid"), ("Vectors", "vectors")):
        column = page.get_by_role("region", name=label)
        column.locator(".title").first.wait_for()
        hits = shop.post("/search", {"query": QUERY, "k": 10, "mode": mode}).json()["hits"]
        assert column.locator(".title").all_inner_texts() == [hit["title"] for hit in hits]
    page.locator("[data-only]").first.wait_for()  # what only one of them found
    page.get_by_role("radio", name="Words").check(force=True)
    page.get_by_role("region", name="Hybrid").wait_for(state="detached")
    assert "mode=words" in page.url
    page.reload()
    page.get_by_role("region", name="Words").locator(".title").first.wait_for()
    assert page.get_by_role("region").filter(has=page.locator(".title")).count() == 1


def test_the_words_of_a_hit_are_lit_by_what_they_contribute(tab: Tab, shop: Running) -> None:
    page = tab.open(f"/search?q={QUERY}")
    words = page.get_by_role("region", name="Hybrid").locator(".hit").first.locator("[data-cosine]")
    words.first.wait_for()
    shown = sum(float(word.get_attribute("data-cosine")) for word in words.all())
    hit = shop.post("/search", {"query": QUERY, "k": 1, "explain": True}).json()["hits"][0]
    assert shown == pytest.approx(hit["parts"]["cosine"], abs=0.01)


def test_filters_and_facets(tab: Tab, shop: Running) -> None:
    page = tab.open("/search?q=guide")
    page.get_by_text("Filters").click()
    page.get_by_role("button", name="acme").click()
    page.get_by_role("button", name="acme", pressed=True).wait_for()
    page.get_by_label("price to").fill("30")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash.includes('lte')")
    titles(tab, "guide")
    where = {"brand": ["acme"], "price": {"lte": 30}}
    hits = shop.post("/search", {"query": "guide", "k": 10, "where": where}).json()["hits"]
    assert hits
    assert titles(tab, "guide") == [hit["title"] for hit in hits]
    page.reload()
    assert titles(tab, "guide") == [hit["title"] for hit in hits]
    page.get_by_role("button", name="Remove all").click()
    page.wait_for_function("() => !location.hash.includes('where')")
    assert titles(tab, "guide") == expected(shop, "guide")


def test_pages_of_hits(tab: Tab, shop: Running) -> None:
    page = tab.open("/search?q=guide")
    first = titles(tab, "guide")
    page.get_by_role("button", name="Next").click()
    page.get_by_text("Hits 11 to 20").wait_for()
    hits = shop.post("/search", {"query": "guide", "k": 10, "offset": 10}).json()["hits"]
    assert titles(tab, "guide") == [hit["title"] for hit in hits]
    page.reload()
    assert titles(tab, "guide") == [hit["title"] for hit in hits]
    page.get_by_role("button", name="Previous").click()
    page.get_by_text("Hits 1 to 10").wait_for()
    assert titles(tab, "guide") == first


def test_keyboard_only(tab: Tab) -> None:
    page = tab.open()

    def focused() -> str:
        return page.evaluate("() => document.activeElement.textContent || document.activeElement.id")

    page.keyboard.type("guide")
    first, second, *_ = titles(tab, "guide")
    page.keyboard.press("ArrowDown")
    assert focused() == first
    page.keyboard.press("ArrowDown")
    assert focused() == second
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert focused() == "query"
    page.keyboard.press("Escape")
    assert page.get_by_role("searchbox").input_value() == ""
    page.keyboard.type("bath")
    titles(tab, "bath")
    for _ in range(30):  # Tab reaches every control and leaves it again
        page.keyboard.press("Tab")
    page.keyboard.press("/")
    assert focused() == "query"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keyboard shortcuts").press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")


def test_what_changes_is_announced(tab: Tab) -> None:
    page = tab.open()
    page.keyboard.type("guide")
    first = titles(tab, "guide")[0]
    page.get_by_role("status").filter(has_text=f"10 hits on page 1. The first is {first}").wait_for()


def test_hits_are_updated_in_place_and_a_click_is_never_lost(tab: Tab) -> None:
    held = []

    def hold(route) -> None:  # noqa: ANN001
        if json.loads(route.request.post_data).get("highlight"):
            held.append(route)
        else:
            route.continue_()

    page = tab.page
    page.route("**/search", hold)
    tab.open(f"/search?q={QUERY}")
    titles(tab, QUERY)
    links = page.locator(".column[data-mode=hybrid] .title")
    second = links.nth(1).element_handle()
    second.focus()
    box = links.nth(2).bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    page.mouse.down()  # on a text that is about to be replaced by lit words
    page.wait_for_timeout(300)
    assert len(held) == 3
    for route in held:
        route.continue_()
    page.wait_for_load_state("networkidle")
    assert page.locator(".column[data-mode=hybrid] [data-cosine]").count() == 0  # not while it is pressed
    page.mouse.move(0, 0)
    page.mouse.up()
    page.locator(".column[data-mode=hybrid] [data-cosine]").first.wait_for()
    assert second.evaluate("node => node.isConnected")
    assert links.nth(2).bounding_box()["y"] == box["y"]  # it has not moved
    links.nth(2).focus()
    third = links.nth(2).element_handle()
    page.get_by_role("region", name="Words").locator("[data-cosine]").first.wait_for()
    page.locator("[data-only]").first.wait_for()  # the last answer
    assert third.evaluate("node => node === document.activeElement")
    page.mouse.click(box["x"] + 20, box["y"] + 10)
    page.locator("#score").wait_for()
