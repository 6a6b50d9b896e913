"""The source of the page: its size, and what it must not contain. These tests need no browser."""

import re
from pathlib import Path

import pytest

from clickvec.serve.page_files import read_page

PAGE = Path(__file__).parents[2] / "clickvec" / "serve" / "page"
FILES = sorted(PAGE.iterdir())
FORBIDDEN = {
    "text that becomes HTML": r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc"
    r"|setHTML|createContextualFragment|parseHTML",
    "text that becomes a script": r"\beval\(|new Function|javascript:|setTimeout\(\s*[\"'`]",
    "another host": r"(?<![\w.])(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9-]+\.[a-z]{2,}",
    "a key that outlives the tab": r"localStorage[^;\n]*\bkey\b|document\.cookie|indexedDB",
    "a worker": r"serviceWorker|new (Shared)?Worker",
}


def without_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$|/\*.*?\*/", "", text, flags=re.MULTILINE | re.DOTALL)


def test_the_page_is_small() -> None:
    files = read_page()
    assert sum(len(file.compressed) for file in files.values()) < 75_000  # as browsers get it, with all views
    assert sum(len(file.content) for file in files.values()) < 150_000


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_contains_nothing_that_an_attack_could_use(file: Path) -> None:
    text = without_comments(file.read_text(encoding="utf-8"))
    for what, pattern in FORBIDDEN.items():
        assert not re.findall(pattern, text), what


def test_the_html_has_no_script_and_no_style_of_its_own() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"\son\w+\s*=|\sstyle\s*=|<style", html)
    assert all(
        re.search(r'\ssrc="/?page/[\w-]+\.js"></script>', script) for script in re.findall(r"<script.*?>.*", html)
    )
    for name in re.findall(r'(?:src|href)="/?page/([^"]+)"', html):
        assert (PAGE / name).is_file()


def test_every_module_that_is_imported_is_there() -> None:
    for file in PAGE.glob("*.js"):
        for name in re.findall(r"""(?:from|import)\s*\(?\s*["']\./([^"']+)["']""", file.read_text(encoding="utf-8")):
            assert (PAGE / name).is_file(), f"{file.name} imports {name}"
