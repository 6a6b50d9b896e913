"""The view Try it out: each edit of a word changes the score, the rank and the gates."""

from typing import Any

import pytest
from evil import ALL
from serving import Running
from tabs import QUERY, Tab

TITLE = "tub faucet keeps running"
LINK = f"/try?q={QUERY}&title={TITLE}"


def open_trial(tab: Tab, link: str = LINK) -> Any:  # noqa: ANN401
    page = tab.open(link)
    page.locator("[data-figure=cosine] b").wait_for()
    return page


def check_figures(page: Any, shop: Running, query: str, title: str) -> None:  # noqa: ANN401
    """Wait until the page shows what the service says about these texts."""
    told = shop.post("/try", {"query": query, "title": title}).json()
    for name, value in (("cosine", f"{told['cosine']:.3f}"), ("bm25", f"{told['fused']['parts'][1]['value']:.2f}")):
        shown = page.locator(f"[data-figure={name}] b")
        shown.get_by_text(value.replace("-", "−"), exact=True).wait_for()


def word(page: Any, side: str, number: int) -> Any:  # noqa: ANN401
    return page.get_by_label(f"Word {number} of the {side}", exact=True)


def test_typing_over_a_word_changes_score_and_rank(tab: Tab, shop: Running) -> None:
    page = open_trial(tab)
    check_figures(page, shop, QUERY, TITLE)
    word(page, "title", 2).fill("tap")
    check_figures(page, shop, QUERY, "tub tap keeps running")
    assert "from" in page.locator("[data-figure=cosine] .delta").inner_text()
    word(page, "query", 1).fill("shower")
    check_figures(page, shop, QUERY.replace("bath", "shower"), "tub tap keeps running")
    page.reload()  # the link restores it
    check_figures(page, shop, QUERY.replace("bath", "shower"), "tub tap keeps running")
    page.locator("#gates canvas").first.wait_for()
    page.locator("#vectors canvas").first.wait_for()


def test_words_are_added_removed_moved_and_switched_off_by_keyboard(tab: Tab, shop: Running) -> None:
    page = open_trial(tab)
    word(page, "title", 1).focus()
    page.keyboard.press("Alt+ArrowRight")
    check_figures(page, shop, QUERY, "faucet tub keeps running")
    page.keyboard.press("Alt+ArrowDown")
    check_figures(page, shop, QUERY, "faucet keeps running")
    page.keyboard.press("Alt+ArrowDown")
    check_figures(page, shop, QUERY, "faucet tub keeps running")
    page.keyboard.press("Enter")
    page.keyboard.type("leaks badly")
    check_figures(page, shop, QUERY, "faucet tub leaks badly keeps running")
    for _ in range(len("badly") + 1):
        page.keyboard.press("Backspace")
    check_figures(page, shop, QUERY, "faucet tub leaks keeps running")
    page.get_by_role("button", name="Start over").click()
    check_figures(page, shop, QUERY, TITLE)


def test_experiments_change_the_title(tab: Tab, shop: Running) -> None:
    page = open_trial(tab)
    page.get_by_role("button", name="Reverse the words").click()
    check_figures(page, shop, QUERY, " ".join(reversed(TITLE.split())))


def test_a_hit_of_the_search_can_be_tried(tab: Tab) -> None:
    page = tab.open(f"/search?q={QUERY}")
    hit = page.get_by_role("region", name="Hybrid").locator(".title").first
    title = hit.inner_text()
    hit.focus()
    page.keyboard.press("t")
    page.locator("[data-figure=cosine] b").wait_for()
    words = page.locator(".chips[data-side=title] input").evaluate_all("fields => fields.map(field => field.value)")
    assert " ".join(words) == title


@pytest.mark.parametrize("text", ALL[:4])
def test_an_attack_in_a_word_is_text(tab: Tab, text: str) -> None:
    page = open_trial(tab)
    word(page, "title", 1).fill(text.replace(" ", "_"))
    word(page, "query", 1).fill(text.replace(" ", "_"))
    page.wait_for_load_state("networkidle")


def test_texts_without_words(tab: Tab) -> None:
    page = open_trial(tab, "/try?q=bath&title=tub")
    word(page, "title", 1).fill("")
    page.wait_for_load_state("networkidle")
    word(page, "title", 1).fill("tub")
    page.locator("[data-figure=cosine] b").wait_for()
    assert page.get_by_role("alert").filter(has_text="did not work").count() == 0
