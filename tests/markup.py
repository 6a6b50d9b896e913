"""Reads a page of ours back: its elements, in a tree that must be whole, and its text."""

from html.parser import HTMLParser

VOID = frozenset(("meta", "link", "br"))


class Element:
    """An element with its attributes, its children in order, and all text below it."""

    def __init__(self, name: str, attributes: dict[str, str | None]) -> None:
        self.name, self.attributes, self.children = name, attributes, list["Element | str"]()

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, name: str, class_: str = "") -> "list[Element]":
        """The elements of this name, and of this class if one is given, in order."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if child.name == name and (not class_ or class_ in (child.attributes.get("class") or "").split()):
                    found.append(child)
                found += child.all(name, class_)
        return found

    def rows(self) -> list[list[str]]:
        """The texts of the cells of a table."""
        return [[cell.text for cell in row.children if isinstance(cell, Element)] for row in self.all("tr")]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> ends <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(page: str) -> Element:
    """The page as a tree; fails where an element is not closed, or closed out of order."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].name}> is not closed"
    return reader.open[0]


def check_page(page: str) -> Element:
    """What every page of ours must be: whole, without a script or a reference elsewhere, easy to get around in."""
    root = parse(page)
    assert page.startswith("<!doctype html>")
    for name in ("script", "img", "iframe", "object", "form"):
        assert not root.all(name), name
    for element in _every(root):
        assert not [name for name in element.attributes if name.startswith("on")]
        for name in ("href", "src", "action"):
            assert (element.attributes.get(name) or "#").startswith(("#", "data:")), element.attributes
        assert "url(" not in (element.attributes.get("style") or "")
    (style,) = root.all("style")
    assert "url(" not in style.text
    assert "@import" not in style.text
    (html,), (title,) = root.all("html"), root.all("head")[0].all("title")
    assert html.attributes["lang"] == "en"
    assert title.text
    names = [meta.attributes.get("name") for meta in root.all("meta")]
    assert {"viewport", "color-scheme"} <= set(names)
    assert [len(root.all(name)) for name in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
    ids = [element.attributes["id"] for element in _every(root) if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [link.attributes["href"] for link in root.all("nav")[0].all("a")]
    assert links == [f"#{section.attributes['aria-labelledby']}" for section in root.all("section")]
    assert {link[1:] for link in links if link} <= set(ids)
    for drawing in root.all("svg"):
        assert drawing.attributes.get("aria-label") or drawing.attributes.get("aria-hidden") == "true"
    for head in root.all("th"):
        assert head.attributes["scope"] in ("row", "col")
    for table in root.all("table"):
        assert table.all("caption")[0].text
        assert len({len(row) for row in table.rows()}) == 1, table.all("caption")[0].text
    return root


def _every(element: Element) -> list[Element]:
    found = [child for child in element.children if isinstance(child, Element)]
    return found + [inner for child in found for inner in _every(child)]
