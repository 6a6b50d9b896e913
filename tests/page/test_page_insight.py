"""Topics, map, queries and model: what the model has learnt, what people search, and how good it is."""

from collections.abc import Callable
from pathlib import Path

import pytest
from evil import IMAGE
from serving import Running, running, until
from tabs import QUERY, Tab


def test_topics_are_cards_that_open(tab: Tab, shop: Running) -> None:
    page = tab.open("/topics")
    cards = page.locator("article.topic")
    cards.first.wait_for()
    told = shop.client.get("/topics").json()
    assert cards.count() == len({topic["dimension"] for topic in told["topics"]} | set(told["dead"]))
    head = cards.first.get_by_role("button")
    head.press("Enter")
    assert head.get_attribute("aria-expanded") == "true"
    cards.first.get_by_role("heading", name="Titles").first.wait_for()
    assert "cell=" in page.url
    page.reload()
    page.locator("article.topic.open").get_by_role("heading", name="Titles").first.wait_for()
    page.locator("article.topic.open .bar-list a").first.click()
    page.locator("#hits .title").first.wait_for()


def test_topics_can_be_searched(tab: Tab, shop: Running) -> None:
    word = next(topic["words"][0]["word"] for topic in shop.client.get("/topics").json()["topics"] if topic["words"])
    page = tab.open("/topics")
    page.get_by_role("searchbox").fill(word)
    page.locator("article.topic .hit-word").first.wait_for()
    page.get_by_role("searchbox").fill("no such word at all")
    page.get_by_text("No cell responds").wait_for()


def test_the_map_lists_what_it_draws_and_can_be_searched(tab: Tab, shop: Running) -> None:
    page = tab.open("/map")
    page.locator("canvas").wait_for(timeout=60_000)  # the first time, it is computed
    drawn = page.evaluate(
        """async () => { await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);
        const canvas = document.querySelector('canvas');
        return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(value => value) }"""
    )
    assert drawn
    page.get_by_role("searchbox").fill("guide")
    page.get_by_role("status").filter(has_text="title").first.wait_for()
    for key in ("+", "ArrowRight", "ArrowLeft", "-", "0"):
        page.locator("canvas").press(key)
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Show everything").click()


def test_queries_of_people_are_text_and_open_the_search(tab: Tab, shop: Running) -> None:
    for query in (QUERY, QUERY, IMAGE, "zzzzqqqq"):
        shop.post("/search", {"query": query})
    until(lambda: shop.client.get("/queries").json()["searches"] >= 4)
    page = tab.open("/queries")
    frequent = page.locator("section", has=page.get_by_role("heading", name="Most frequent"))
    frequent.get_by_role("link", name=IMAGE, exact=True).wait_for()
    frequent.get_by_role("link", name=QUERY, exact=True).click()
    page.locator("#hits .title").first.wait_for()
    assert page.get_by_role("searchbox").input_value() == QUERY


def test_queries_that_are_not_kept(page_index: Path, tmp_path: Path, open_tab: Callable[..., Tab]) -> None:
    with running(page_index, tmp_path) as service:
        tab = open_tab(service)
        tab.open("/queries").get_by_text("clickvec serve INDEX --log-queries").wait_for()
        tab.check()
        tab.page.close()


def test_the_model_tells_how_good_it_is_and_how_it_was_trained(tab: Tab) -> None:
    page = tab.open("/model")
    for heading in ("Quality beside BM25", "Training", "Size and speed"):
        page.get_by_role("heading", name=heading).wait_for()
    table = page.get_by_role("table").filter(has_text="BM25 (tuned)").first
    assert "61.3" in table.inner_text()
    assert "[51.2, 53.8]" in table.inner_text()
    assert IMAGE in page.locator("main").inner_text()


@pytest.mark.parametrize("sort", ["__proto__", "toString", "busy", "number"])
def test_the_order_of_topics_comes_from_the_link(tab: Tab, sort: str) -> None:
    page = tab.open(f"/topics?sort={sort}")
    page.locator("article.topic").first.wait_for()
