"""Chromium for the tests of pages: a page in a frame of some width, served from here, and what is seen of it."""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed, so no page is opened")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage",
    "--no-first-run", "--hide-scrollbars", "--window-size=1400,1000",
)  # fmt: skip

# The frame's page has no script, and could run none. This one looks into it from outside.
_FRAME = """<!doctype html><link rel=icon href="data:,"><body>
<iframe id=f src="/page.html" width=%d height=900 style="border:0"></iframe><pre></pre>
<script>document.getElementById('f').onload = () => {
  const page = document.getElementById('f').contentDocument, root = page.documentElement, wide = [];
  for (const e of page.body.querySelectorAll('*')) {
    const box = e.getBoundingClientRect();
    const inside = e.closest('.scroll, svg, .map ol');  // these scroll, scale or cut off
    if (box.right > root.clientWidth + 1 && !inside) wide.push(e.outerHTML.slice(0, 80));
  }
  const seen = (where) => [...page.querySelectorAll(where)].filter(e => e.getBoundingClientRect().height > 0).length;
  const shown = e => e.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true});
  document.querySelector('pre').textContent = JSON.stringify({
    width: root.clientWidth, scroll: root.scrollWidth, wide: wide,
    headings: seen('h2'), drawings: seen('svg'), all_drawings: page.querySelectorAll('svg').length,
    folded: [...page.querySelectorAll('details > :not(summary)')].filter(e => !shown(e)).length,
    nav: seen('nav'), background: getComputedStyle(page.body).backgroundColor, scripts: page.scripts.length,
    images: page.images.length, text: page.body.innerText,
  });
}</script>"""


def look(page: str, tmp_path: Path, width: int = 360, dark: bool = False) -> dict[str, Any]:
    """What Chromium makes of a page in a frame of this width; `asked` is every path that it asked the server for."""
    assert CHROMIUM
    files = {"/": (_FRAME % width).encode(), "/page.html": page.encode()}
    with _serving(files) as (port, asked):
        options = (f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000", "--dump-dom")
        scheme = ("--blink-settings=preferredColorScheme=0",) if dark else ()
        command = [CHROMIUM, *FLAGS, *options, *scheme, f"http://127.0.0.1:{port}/"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    found = re.search(r"<pre>(\{.*?\})</pre>", done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return {**json.loads(unescape(found[1])), "asked": sorted(set(asked) - {"/"})}


@contextmanager
def _serving(files: dict[str, bytes]) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = files.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)


def on_paper(page: str) -> str:
    """The page with its rules for paper on the screen."""
    assert page.count("@media print") == 1
    return page.replace("@media print", "@media all")
