"""HTML in a few small functions. Text is escaped on its way in; only what is `Html` already passes as it is.

A page is one file: its style is in it, it has no script, and it asks the network for nothing. A policy in its head
forbids both, so that a title that looks like markup could do nothing even if it got through.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import clickvec

_VOID = frozenset(("meta", "link", "br"))  # elements without an end
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class Html(str):
    """A str that is markup; any other str is text."""

    __slots__ = ()


Child = str | Iterable[str] | None
Attribute = str | int | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element; `class_` and `aria_label` are written `class` and `aria-label`, None and False are left out."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    end = "" if name in _VOID else f"</{name}>"
    return Html(f"<{name}{written}>{joined(*children)}{end}")


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{escape(str(value))}"'


def joined(*children: Child) -> Html:
    """Children one after the other, those that are text escaped."""
    return Html("".join(_markup(part) for child in children for part in _parts(child)))


def _parts(child: Child) -> Iterable[str]:
    if child is None:
        return ()
    return (child,) if isinstance(child, str) else child


def _markup(part: str) -> str:
    return part if isinstance(part, Html) else escape(part)


def text_of(text: str) -> Html:
    """A user's text inside a sentence of ours: it may run from right to left without turning the rest around."""
    return tag("bdi", " ".join(text.split()))


def counted(number: int, one: str, many: str) -> str:
    """A number with its noun."""
    return f"{number:,} {one if number == 1 else many}"


def section(name: str, heading: str, *children: Child) -> Html:
    """A part of the page that `#name` leads to."""
    return tag("section", tag("h2", heading, id=name), *children, aria_labelledby=name)


def note(*children: Child) -> Html:
    """A quiet paragraph: how to read what is below."""
    return tag("p", *children, class_="note")


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Names and values."""
    return tag("dl", (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_="facts")


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numeric: Iterable[int] = (),
    class_: str | None = None,
) -> Html:
    """A table in a box of its own, which scrolls where the page is narrow.

    The first cell of a row is its head; the columns in `numeric` are set to the right. A cell may be a whole `td`.
    """
    right = frozenset(numeric)
    names = tag("tr", (tag("th", name, scope="col", class_=_side(at, right)) for at, name in enumerate(head)))
    body = (tag("tr", (_cell(cell, at, right) for at, cell in enumerate(row))) for row in rows)
    whole = tag("table", tag("caption", tag("span", caption)), tag("thead", names), tag("tbody", body), class_=class_)
    return scrolling(caption, whole)


def scrolling(label: str, content: str) -> Html:
    """A box that scrolls sideways by itself, by keyboard too."""
    return tag("div", content, class_="scroll", role="region", tabindex=0, aria_label=label)


def _cell(cell: str, at: int, right: frozenset[int]) -> Html:
    if isinstance(cell, Html) and cell.startswith(("<td", "<th")):
        return cell
    if at == 0:
        return tag("th", tag("bdi", cell), scope="row", class_=_side(at, right))
    return tag("td", cell if at in right else tag("bdi", cell), class_=_side(at, right))


def _side(at: int, right: frozenset[int]) -> str | None:
    return "n" if at in right else None


def details(summary: Child, *children: Child, opened: bool = False) -> Html:
    """Something to unfold; on paper it is unfolded."""
    return tag("details", tag("summary", summary), *children, open=opened)


def page(title: str, header: Child, contents: Sequence[tuple[str, str]], *sections: str) -> str:
    """The whole page; `contents` are the names and headings of its sections, for the way through it."""
    way = tag("nav", tag("ul", (tag("li", tag("a", head, href=f"#{name}")) for name, head in contents)),
              aria_label="Contents")  # fmt: skip
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"clickvec {clickvec.__version__}"),
        tag("link", rel="icon", href="data:,"),  # or a browser asks a server for one
        tag("title", title),
        tag("style", Html(_style())),
    )
    body = tag(
        "body",
        tag("header", header),
        way if contents else None,
        tag("main", sections),
        tag("footer", f"Written by clickvec {clickvec.__version__}. This page is one file and needs no network."),
    )
    whole = f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
    return whole.encode("utf-8", "replace").decode("utf-8")  # half a character of a broken argument cannot be written


def _style() -> str:
    lines = Path(__file__).with_name("style.css").read_text(encoding="utf-8").splitlines()
    return "\n" + "\n".join(line.strip() for line in lines if line.strip()) + "\n"
