"""The page in a tab. A test fails on a console error, a foreign request or an attack."""

import re
from typing import Any
from urllib.parse import urlsplit

from evil import look_for_harm

WAIT = 10_000  # milliseconds; a busy machine is no reason to fail
QUERY = "bath tub wont turn off"
VIEWS: dict[str, tuple[str, str]] = {  # the link, and what appears when the view is complete
    "search": (f"/search?q={QUERY}", ".column[data-mode=hybrid] .tags > *"),
    "why": (f"/why?q={QUERY}", "#gates canvas"),
    "try": (f"/try?q={QUERY}&title=tub faucet keeps running", "#gates canvas"),
    "topics": ("/topics?cell=1", ".topic.open .bar-list"),
    "map": ("/map", "canvas"),
    "queries": ("/queries", ".query-list a"),
    "model": ("/model", "table"),
}


class Tab:
    """A page in the browser, and what happened to it that must not happen."""

    def __init__(self, page: Any, port: int) -> None:  # noqa: ANN401
        self.page, self.origin = page, f"http://127.0.0.1:{port}"
        self.problems: list[str] = []
        self.expected = ""  # a pattern of console errors that the test provokes
        page.set_default_timeout(WAIT)
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        page.on("dialog", self._on_dialog)
        page.on("request", lambda request: self._check_request(request.url))

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not (self.expected and re.search(self.expected, text)):
            self.problems.append(f"{kind}: {text}")

    def _on_dialog(self, dialog: Any) -> None:  # noqa: ANN401
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _check_request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and f"{parts.scheme}://{parts.netloc}" != self.origin:
            self.problems.append(f"request: {url}")

    def open(self, fragment: str = "") -> Any:  # noqa: ANN401
        """Open the page at a fragment such as /search?q=bath, and wait until a view is shown."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.origin}/{f'#{fragment}' if fragment else ''}")
        self.page.wait_for_selector("main[data-view]")
        return self.page

    def check(self) -> None:
        """Fail if there was an error, a dialog, a foreign request, or something that an attack has made."""
        assert self.problems == []
        if not self.page.is_closed() and self.page.url != "about:blank":
            assert look_for_harm(self.page) == []


def show_view(tab: Tab, view: str) -> Any:  # noqa: ANN401
    """Open a view and wait until it is complete."""
    fragment, complete = VIEWS[view]
    page = tab.open(fragment)
    page.locator(complete).first.wait_for(timeout=60_000)  # topics and the map are computed when first asked for
    return page
