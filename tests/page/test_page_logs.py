"""What the page writes and shows of what people did: clicks on hits, and the queries since the service started."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import Running, running, until
from tabs import QUERY, Tab


@pytest.fixture(scope="module")
def logging(page_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service without keys that logs clicks and queries."""
    with running(page_index, tmp_path_factory.mktemp("logging"), log_clicks=True, log_queries=True) as service:
        yield service


def clicks(service: Running) -> list[dict]:
    path = service.service.settings.click_log
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def test_a_click_writes_the_next_log(logging: Running, open_tab: Callable[..., Tab]) -> None:
    tab = open_tab(logging)
    page = tab.open(f"/search?q={QUERY}")
    links = page.get_by_role("region", name="Hybrid").locator(".title")
    titles = links.all_inner_texts() if links.first.wait_for() is None else []
    links.nth(1).click()
    until(lambda: len(clicks(logging)) >= 10)
    page.go_back()
    links.nth(2).click()
    until(lambda: sum(line["clicked"] for line in clicks(logging)) == 2)
    lines = clicks(logging)
    assert {line["query"] for line in lines} == {QUERY}
    assert [line["title"] for line in lines if line["clicked"]] == titles[1:3]
    assert [line["position"] for line in lines[:10]] == list(range(1, 11))
    assert len(lines) == 11  # what was shown is logged once
    assert len({line["client"] for line in lines}) == 1


def test_nothing_is_sent_unless_clicks_are_logged(tab: Tab, shop: Running) -> None:
    sent: list[str] = []
    tab.page.on("request", lambda request: sent.append(request.url))
    page = tab.open(f"/search?q={QUERY}")
    page.get_by_role("region", name="Hybrid").locator(".title").first.click()
    page.wait_for_load_state("networkidle")
    assert not [url for url in sent if url.endswith("/click")]
    assert clicks(shop) == []
