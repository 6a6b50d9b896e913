"""Attacks on the page: whatever a query, a link, a title, an id or a payload holds is shown as text."""

from urllib.parse import quote

import pytest
from evil import ALL, DOCUMENTS, IMAGE, LINK, look_for_harm
from serving import Running
from tabs import VIEWS, Tab

WORDS = "attack"  # in every title that attacks


@pytest.mark.parametrize("text", ALL)
def test_a_query_is_text(tab: Tab, text: str) -> None:
    page = tab.open("/search")
    field = page.get_by_role("searchbox")
    field.fill(f"attack {text}")
    page.locator("#hits li").first.wait_for()
    assert look_for_harm(page) == []
    page.reload()  # now from the link
    page.locator("#hits li").first.wait_for()
    assert field.input_value().startswith("attack ")


def test_titles_are_text(tab: Tab) -> None:
    page = tab.open(f"/search?q={WORDS}")
    page.locator("#hits li").first.wait_for()
    shown = page.locator("#hits").inner_text()
    for text in (IMAGE, LINK, "{{7*7}}"):
        assert text in shown


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("text", ["".join(ALL), LINK])
def test_every_parameter_of_a_link_is_text(tab: Tab, view: str, text: str) -> None:
    tab.expected = "Failed to load resource"  # no document has such an id
    names = ("q", "id", "title", "mode", "where", "facets", "page", "cell", "word", "against", "compare", "tab", "sort")
    page = tab.open(f"/{view}?" + "&".join(f"{name}={quote(text)}" for name in names))
    page.wait_for_load_state("networkidle")
    assert look_for_harm(page) == []


def test_the_policy_stops_a_script_that_someone_slipped_in(tab: Tab, shop: Running) -> None:
    page = tab.open("/search")
    tab.expected = "Content Security Policy|Trusted"
    done = page.evaluate(
        """() => new Promise(resolve => {
          const script = document.createElement('script');
          const told = [];
          const attempt = (act) => { try { act(); } catch (error) { told.push(error.name); } };
          attempt(() => { script.text = 'window.hacked = 1'; document.head.append(script); });
          attempt(() => { document.body.innerHTML = '<b>'; });
          fetch('http://localhost:1/').catch(error => { told.push(error.name); resolve(told); });
        })"""
    )
    assert done == ["TypeError", "TypeError", "TypeError"]
    assert shop.client.get("/healthz").status_code == 200


def test_the_documents_are_there(shop: Running) -> None:
    for document in DOCUMENTS[:4]:
        assert shop.post("/search", {"query": document["title"], "k": 1}).json()["hits"]
