"""The view Why: sums that add up, the title it beat, any other title, what would have to change."""

from typing import Any
from urllib.parse import quote

import pytest
from evil import DOCUMENTS
from serving import Running
from tabs import QUERY, Tab


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "").removesuffix("%"))


def check_sum(table: Any, digits: int = 3) -> float:  # noqa: ANN401
    """Check that the numbers of a table, rounded to some digits, add up to its total, which is returned."""
    values = [number(cell) for cell in table.locator("tbody td.n:nth-of-type(1)").all_inner_texts()]
    total = number(table.locator("tfoot td.n").inner_text())
    assert sum(values) == pytest.approx(total, abs=0.6 * 10**-digits * (len(values) + 1))
    return total


def test_a_hit_opens_to_sums_that_add_up(tab: Tab, shop: Running) -> None:
    page = tab.open(f"/search?q={QUERY}")
    page.get_by_role("region", name="Hybrid").locator(".title").first.click()
    page.locator("#score table").wait_for()
    told = shop.post("/explain", {"query": QUERY}).json()
    assert page.locator("main").get_by_role("heading", level=2).first.inner_text() == told["title"]
    assert check_sum(page.locator("#score table.sum")) == pytest.approx(told["fused"]["total"], abs=0.001)
    cosines = page.locator("#words table.sum").filter(has_text="= cosine")
    assert cosines.count() == 2
    for at in range(2):
        assert check_sum(cosines.nth(at)) == pytest.approx(told["explanation"]["score"], abs=0.001)
    bm25 = page.locator("#words table.sum").filter(has_text="= BM25")
    assert check_sum(bm25, 2) == pytest.approx(told["fused"]["parts"][1]["value"], abs=0.01)
    page.get_by_text("What did it beat?").click()
    page.locator("#comparison").get_by_text("It beats").wait_for()
    page.go_back()
    page.get_by_role("region", name="Hybrid").locator(".title").first.wait_for()


def test_gates_and_cells_are_drawn(tab: Tab) -> None:
    page = tab.open(f"/why?q={QUERY}")
    page.get_by_role("heading", name="Gate by gate").wait_for()
    page.locator("#gates canvas, #gates svg").first.wait_for()
    assert check_sum(page.locator("#cells table")) != 0


def test_why_not_this_one(tab: Tab, shop: Running) -> None:
    page = tab.open(f"/why?q={QUERY}")
    page.locator("#score").wait_for()
    other = shop.post("/search", {"query": "cistern flapper", "k": 1}).json()["hits"][0]
    picker = page.get_by_role("combobox").first
    picker.fill("cistern flapper")
    page.get_by_role("option", name=other["title"]).first.wait_for()
    picker.press("ArrowDown")
    picker.press("Enter")
    page.get_by_role("heading", name=other["title"]).wait_for()
    assert f"id={other['id']}" in page.url
    page.locator("#comparison").get_by_text("It loses to").wait_for()
    page.get_by_role("heading", name="What would have to change").wait_for()
    page.reload()  # the link restores it
    page.locator("#comparison").get_by_text("It loses to").wait_for()


def test_any_text_can_be_the_title(tab: Tab) -> None:
    page = tab.open(f"/why?q={QUERY}")
    page.locator("#score").wait_for()
    picker = page.get_by_role("combobox").first
    picker.fill("my own tub title")
    picker.press("Enter")
    page.get_by_text("This title is not in the index.").wait_for()
    assert "title=my+own+tub+title" in page.url


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["title"][:30])
def test_an_attack_is_explained_as_text(tab: Tab, document: dict[str, Any]) -> None:
    page = tab.open(f"/why?q={quote(document['title'])}&id={quote(document['id'])}")
    page.locator("#score").wait_for()
    page.get_by_text("Document", exact=True).click()
    page.locator("details pre").wait_for()


def test_a_document_that_is_not_there(tab: Tab) -> None:
    tab.expected = "Failed to load resource"
    page = tab.open("/why?q=bath&id=no-such-id")
    page.get_by_role("alert").filter(has_text="no-such-id").wait_for()
