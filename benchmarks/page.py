"""Measure the web page of the service: from a key press to the first result on the screen, the first map, its size.

    python benchmarks/page.py INDEX... [--keys 300] [--port 0]

Chromium types the first words of random titles, one key after the other, as soon as the answer to the key before is
painted. The clock starts at the time stamp of the key event and stops in the first task after the frame that shows the
hits for exactly this text. The service runs on the same cores, with one worker. Each INDEX is opened read-only if a
service is running on it; copy it first if that matters.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np

from clickvec.serve.page_files import PageFile, read_page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WORDS = 3  # of a title that are typed
RESULTS = "[data-query]"  # the page writes the query of the hits that it shows into this attribute

# The message arrives after the frame that the animation callback belongs to was painted.
START = """(expected) => ({result: (async () => {
  const start = await new Promise(resolve =>
    addEventListener('keydown', event => resolve(event.timeStamp), {once: true, capture: true}));
  const isShown = () => document.querySelector('[data-query]')?.dataset.query === expected;
  await new Promise(resolve => {
    if (isShown()) return resolve();
    const observer = new MutationObserver(() => { if (isShown()) { observer.disconnect(); resolve(); } });
    observer.observe(document.body, {subtree: true, childList: true, attributeFilter: ['data-query']});
  });
  await new Promise(requestAnimationFrame);
  await new Promise(resolve => {
    const channel = new MessageChannel();
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(0);
  });
  const searches = performance.getEntriesByType('resource').filter(entry => entry.name.endsWith('/search'));
  const last = searches.at(-1);
  performance.clearResourceTimings();
  return {milliseconds: performance.now() - start, request: last ? last.responseEnd - last.startTime : 0};
})()})"""


@contextmanager
def serving(index: Path, *options: str) -> Iterator[str]:
    """Serve an index and yield the address."""
    options = ("--port", "0", "--access-log", os.devnull, *options)
    command = [sys.executable, "-m", "clickvec", "serve", str(index), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for line in process.stderr or ():
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                yield found[0]
                break
        else:
            raise SystemExit(f"{index} cannot be served")
    finally:
        process.terminate()
        process.communicate()


# Until the hits of the link are painted, from the start of the navigation, with an empty cache.
OPEN = """() => new Promise(resolve => {
  const look = () => document.querySelector('[data-query]')?.dataset.query
    ? setTimeout(() => resolve(performance.now())) : requestAnimationFrame(look);
  look();
})"""


def open_often(browser: Any, address: str, text: str, times: int = 10) -> float:  # noqa: ANN401
    """Return the median time to open a link to a search, in milliseconds."""
    measured = []
    for _ in range(times):
        page = browser.new_page()
        page.goto(f"{address}/#/search?q={quote(text)}", wait_until="commit")
        measured.append(page.evaluate(OPEN))
        page.close()
    return statistics.median(measured)


def texts_of(index: Path, count: int) -> list[str]:
    """Return the first words of random titles."""
    from clickvec.search.index import Index

    with Index.open(index) as opened:
        view = opened.view()
        positions = np.sort(np.random.default_rng(0).choice(view.size, min(count, view.size), replace=False))
        titles = [document.title for document in view.documents.get(view.seqs_at(positions)).values()]
    texts = (" ".join(title.lower().split()[:WORDS]) for title in titles)
    return [text for text in texts if text.isascii()]


def type_texts(page: Any, texts: list[str], keys: int) -> list[dict[str, float]]:  # noqa: ANN401
    """Type texts until enough keys are measured, and return what each took."""
    field = page.get_by_role("searchbox")
    measured: list[dict[str, float]] = []
    for text in texts:
        field.fill("")
        page.wait_for_function("() => !document.querySelector('[data-query]')?.dataset.query")
        for end in range(1, len(text) + 1):
            if text[:end].strip() == text[: end - 1].strip():  # a blank changes nothing
                field.press("Space")
                continue
            waiting = page.evaluate_handle(START, text[:end])
            field.press(text[end - 1])
            measured.append(waiting.evaluate("waiting => waiting.result"))
            if len(measured) == keys:
                return measured
    return measured


def describe(values: list[float]) -> str:
    """Return median and 95th percentile."""
    ordered = sorted(values)
    return f"{statistics.median(ordered):.0f}, {ordered[int(0.95 * (len(ordered) - 1))]:.0f}"


def measure(browser: Any, index: Path, keys: int) -> str:  # noqa: ANN401
    """Return the row of the table for an index."""
    with serving(index) as address:
        page = browser.new_page()
        page.goto(address)
        page.get_by_role("searchbox").wait_for()
        titles = page.evaluate("async () => (await (await fetch('/about')).json()).titles")
        texts = texts_of(index, 200)
        type_texts(page, texts[-5:], 20)  # warm up
        measured = type_texts(page, texts, keys)
        page.close()
        opened = open_often(browser, address, texts[0])
        begun = time.perf_counter()
        urlopen(f"{address}/map").read()
        drawn = time.perf_counter() - begun
    shown, asked = (describe([row[name] for row in measured]) for name in ("milliseconds", "request"))
    return f"| {titles:,} | {len(measured)} | {shown} | {asked} | {opened:.0f} | {drawn:.1f} |"


def describe_sizes(files: list[PageFile]) -> str:
    """Return how many bytes files have, as they are and as browsers get them."""
    return (
        f"{sum(len(file.content) for file in files):,} bytes, {sum(len(file.compressed) for file in files):,} as sent"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("indexes", metavar="INDEX", nargs="+", type=Path)
    parser.add_argument("--keys", type=int, default=300)
    arguments = parser.parse_args()
    if CHROMIUM is None:
        raise SystemExit("Chromium is not installed.")
    from playwright.sync_api import sync_playwright

    print("| titles | keys | key to screen: p50, p95 ms | of it the request: p50, p95 ms | open a link: ms | map: s |")
    print("|---|---|---|---|---|---|")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for index in arguments.indexes:
            print(measure(browser, index, arguments.keys), flush=True)
        browser.close()
    print(f"All files of the page have {describe_sizes(list(read_page().values()))}.")


if __name__ == "__main__":
    main()
