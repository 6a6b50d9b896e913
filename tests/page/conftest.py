"""A service with a small index, and Chromium to open its page."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("msgspec")
pytest.importorskip("playwright.sync_api")

from evil import ALL, DOCUMENTS, IMAGE
from playwright.sync_api import sync_playwright
from serving import Running, running
from tabs import Tab

from clickvec.model.encoder import Encoder
from clickvec.search.index import Index
from clickvec.serve.about_folder import Figure, Measured, MeasuredRow, write_measured, write_queries

TITLES = 1_200
QUICK = {"test_page_source.py"}  # the other files are run by `make test-slow`


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that open a page in a browser as slow."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name not in QUICK:
            item.add_marker(pytest.mark.slow)


BRANDS = ("acme", "orbit", "zenith")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser. Without one, the tests that open a page are skipped."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed, so no page is opened")
    return CHROMIUM


@pytest.fixture(scope="session")
def page_index(chromium: str, site: Path, trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Titles of the simulated site with payloads, and some that attack the page."""
    with gzip.open(site / "titles.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1 : TITLES + 1]
    payloads = [{"brand": BRANDS[row % 3], "price": 5 + row % 90} for row in range(len(rows))]
    path = tmp_path_factory.mktemp("page") / "index"
    index = Index.build(
        Encoder.load(trained),
        titles=[title for _, title in rows] + [document["title"] for document in DOCUMENTS],
        ids=[name for name, _ in rows] + [document["id"] for document in DOCUMENTS],
        payloads=payloads + [document["payload"] for document in DOCUMENTS],
    )
    index.save(path)
    return path


def write_about(folder: Path) -> None:
    """Write a folder about a model, with texts that attack the page."""
    rows = [("model", 61.3, 60.0, 62.5), ("BM25 (tuned)", 52.5, 51.2, 53.8), (IMAGE, 1.0, 0.5, 1.5)]
    measured = [MeasuredRow(system, metric, *values) for metric in ("NDCG@10", IMAGE) for system, *values in rows]
    write_measured(folder, Measured(f"clicks {IMAGE}", 500, measured, 1200, [Figure(IMAGE, 900, "queries/s")], IMAGE))
    write_queries(folder, [*ALL, "bath tub wont turn off", "how to paint a bath tub"])
    plot = {"caption": IMAGE, "kind": "bars", "labels": ["1", IMAGE], "values": [3, 4], "unit": IMAGE}
    finding = {"name": "size", "heading": IMAGE, "text": IMAGE, "advice": IMAGE, "act": True, "numbers": {IMAGE: IMAGE}}
    findings = [finding | {"examples": [IMAGE], "plots": [plot, plot | {"kind": "curve"}]}]
    (folder / "doctor.json").write_text(json.dumps({"source": IMAGE, "findings": findings, "sample": IMAGE}))


@pytest.fixture(scope="session")
def shop(page_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service without keys that keeps queries, and a folder that tells about its model."""
    folder = tmp_path_factory.mktemp("logs")
    write_about(folder / "about")
    with running(page_index, folder, about=folder / "about", log_queries=True) as service:
        service.post("/search", {"queries": [*ALL, "bath tub", "zzzzqqqq"]})  # for the view Queries
        yield service


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """Chromium. It is closed after each file, because its event loop would disturb other tests."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Callable[..., Tab]]:  # noqa: ANN401
    """Open a tab of a service, with options of the browser's context such as color_scheme."""
    tabs: list[Tab] = []
    with ExitStack() as contexts:

        def make(service: Running, **options: Any) -> Tab:  # noqa: ANN401
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options)
            contexts.callback(context.close)
            tabs.append(Tab(context.new_page(), service.port))
            return tabs[-1]

        yield make
        for tab in tabs:
            tab.check()


@pytest.fixture
def tab(shop: Running, open_tab: Callable[..., Tab]) -> Tab:
    """A tab of the service without keys."""
    return open_tab(shop)
