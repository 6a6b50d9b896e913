"""Build HTML from small functions. Text is escaped; only values of type `Html` are inserted as they are.

A page is one file with its style, without scripts and without network requests. A content security policy forbids
both, so that text that looks like markup is harmless even if an escape were missing.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import clickvec

_VOID = frozenset(("meta", "link", "br"))  # elements without an end tag
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class Html(str):
    """A str that holds markup. Any other str is text."""

    __slots__ = ()


Child = str | Iterable[str] | None
Attribute = str | int | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element. Write `class_` for `class` and `aria_label` for `aria-label`; None and False are left out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    end = "" if name in _VOID else f"</{name}>"
    return Html(f"<{name}{written}>{joined(*children)}{end}")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'


def joined(*children: Child) -> Html:
    """Return children one after another, with text escaped."""
    parts = (part for child in children for part in ((child,) if isinstance(child, str) else child or ()))
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def text_of(text: str) -> Html:
    """Return a user's text in an element that isolates its direction, so that right-to-left text disturbs nothing."""
    return tag("bdi", " ".join(text.split()))


def note(*children: Child) -> Html:
    """Return a paragraph in small print that explains what follows."""
    return tag("p", *children, class_="note")


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numeric: Iterable[int] = (),
    class_: str | None = None,
) -> Html:
    """Return a table in a box that scrolls if the page is narrow.

    The first cell of a row is its header. The columns in `numeric` are right-aligned. A cell may be a whole `td`.
    """
    right = frozenset(numeric)
    names = tag("tr", (tag("th", name, scope="col", class_=_side(at, right)) for at, name in enumerate(head)))
    body = (tag("tr", (_cell(cell, at, right) for at, cell in enumerate(row))) for row in rows)
    whole = tag("table", tag("caption", tag("span", caption)), tag("thead", names), tag("tbody", body), class_=class_)
    return tag("div", whole, class_="scroll", role="region", tabindex=0, aria_label=caption)  # scrolls by keyboard too


def _cell(cell: str, at: int, right: frozenset[int]) -> Html:
    if isinstance(cell, Html) and cell.startswith(("<td", "<th")):
        return cell
    if at == 0:
        return tag("th", tag("bdi", cell), scope="row", class_=_side(at, right))
    return tag("td", cell if at in right else tag("bdi", cell), class_=_side(at, right))


def _side(at: int, right: frozenset[int]) -> str | None:
    return "n" if at in right else None


def page(title: str, header: Child, sections: Sequence[tuple[str, str, Html]]) -> str:
    """Return the whole page. Each section has an anchor, a heading and its content."""
    links = (tag("li", tag("a", heading, href=f"#{anchor}")) for anchor, heading, _ in sections)
    contents = tag("nav", tag("ul", links), aria_label="Contents")
    drawn = (
        tag("section", tag("h2", heading, id=anchor), content, aria_labelledby=anchor)
        for anchor, heading, content in sections
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"clickvec {clickvec.__version__}"),
        tag("link", rel="icon", href="data:,"),  # otherwise a browser requests one
        tag("title", title),
        tag("style", Html(_style())),
    )
    body = tag(
        "body",
        tag("header", header),
        contents,
        tag("main", drawn),
        tag("footer", f"Written by clickvec {clickvec.__version__}. This page is one file and needs no network."),
    )
    whole = f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
    return whole.encode("utf-8", "replace").decode("utf-8")  # an argument may hold half a character


def _style() -> str:
    lines = Path(__file__).with_name("style.css").read_text(encoding="utf-8").splitlines()
    return "\n" + "\n".join(line.strip() for line in lines if line.strip()) + "\n"
