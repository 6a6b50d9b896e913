"""Keys: the page asks for one, keeps it for the tab, and says what a wrong one or one for reading cannot do."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import Running, running
from tabs import Tab

from clickvec.serve.keys import new_key, read_keys

REFUSED = "the server responded with a status of 40[13]"


@pytest.fixture(scope="module")
def locked(page_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str, str]]:
    """A service with keys, a key for reading, and a key for writing."""
    folder = tmp_path_factory.mktemp("keys")
    reader, writer = new_key(folder / "read"), new_key(folder / "write")
    keys = [read_keys(folder / name, "", None) for name in ("read", "write")]
    with running(page_index, folder, read_keys=keys[0], write_keys=keys[1], log_queries=True) as service:
        service.post("/search", {"query": "bath"}, headers={"authorization": f"Bearer {reader}"})
        yield service, reader, writer


@pytest.fixture
def closed(locked: tuple[Running, str, str], open_tab: Callable[..., Tab]) -> Tab:
    """A tab of the service with keys, which asks for one."""
    tab = open_tab(locked[0])
    tab.expected = REFUSED
    tab.page.goto(f"{tab.origin}/#/search?q=bath")
    tab.page.get_by_role("dialog").wait_for()
    return tab


def give(tab: Tab, key: str) -> None:
    tab.page.get_by_label("Key", exact=True).fill(key)
    tab.page.keyboard.press("Enter")


def hits(tab: Tab) -> int:
    tab.page.locator("#hits li").first.wait_for()
    return tab.page.locator("#hits li").count()


def test_the_page_asks_for_a_key_and_keeps_it_for_this_tab_only(closed: Tab, locked: tuple[Running, str, str]) -> None:
    sent: list[str | None] = []
    closed.page.on("request", lambda request: sent.append(request.headers.get("authorization")))
    give(closed, f"  {locked[1]} ")
    assert hits(closed) > 0
    assert sent[-1] == f"Bearer {locked[1]}"
    assert locked[1] not in closed.page.url
    assert closed.page.evaluate("() => document.cookie + JSON.stringify(localStorage)").find(locked[1]) == -1
    closed.page.reload()
    assert hits(closed) > 0
    assert closed.page.get_by_role("dialog").count() == 0
    other = closed.page.context.new_page()  # another tab of the same browser
    other.goto(closed.origin)
    other.get_by_role("dialog").wait_for()


def test_a_wrong_key_is_refused_and_asked_for_again(closed: Tab, locked: tuple[Running, str, str]) -> None:
    give(closed, "wrong")
    closed.page.get_by_text("The API key is not valid.").wait_for()
    give(closed, "schlüssel 🔑")  # a header cannot have this
    closed.page.get_by_text("The API key is not valid.").wait_for()
    give(closed, locked[2])  # a key for writing reads too
    assert hits(closed) > 0


def test_without_a_key_the_page_says_so_and_asks_again_when_told(closed: Tab, locked: tuple[Running, str, str]) -> None:
    closed.page.get_by_role("button", name="Cancel").click()
    alert = closed.page.get_by_role("alert").filter(has_text="API key")
    alert.wait_for()
    alert.get_by_role("button", name="Try again").click()
    give(closed, locked[1])
    assert hits(closed) > 0


def test_a_key_for_reading_does_not_show_what_people_searched(closed: Tab, locked: tuple[Running, str, str]) -> None:
    give(closed, locked[1])
    assert hits(closed) > 0
    closed.page.get_by_role("link", name="Queries").click()
    closed.page.get_by_text("This API key may only read; use a key for writing.").wait_for()
    closed.page.get_by_role("button", name="Cancel").click()
    alert = closed.page.get_by_role("alert").filter(has_text="use a key for writing")
    alert.wait_for()
    alert.get_by_role("button", name="Try again").click()
    give(closed, locked[2])
    closed.page.get_by_role("heading", name="Most frequent").wait_for()
    closed.page.get_by_role("link", name="bath", exact=True).first.wait_for()
