"""Words on the colour of their contribution, tables of words, and bars. Green raises the score, red lowers it."""

from collections.abc import Iterable, Sequence

from clickvec.explanation.explained_pair import Pair, Word, summary
from clickvec.render import labels
from clickvec.render.html.markup import Html, joined, table, tag

STRONGEST = 0.6  # opacity of the colour behind a word with the largest contribution


def signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign and a real minus."""
    return labels.signed(value, digits).replace("-", "−")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number without a plus, or a dash for None."""
    return labels.plain(value, digits).replace("-", "−")


def named(word: str, contribution: float) -> Html:
    """Return a word with its contribution, for a sentence."""
    return joined(tag("b", tag("bdi", word)), f" ({signed(contribution)})")


def listed(parts: Iterable[str], separator: str = ", ") -> Html:
    """Return parts of a sentence with a separator between them."""
    return joined(*(joined(separator if at else None, part) for at, part in enumerate(parts)))


def sentence(pair: Pair, *, in_index: bool = False) -> Html:
    """Return the score in a sentence or two. With `in_index`, it is called the cosine."""
    pieces = summary(pair, in_index=in_index)
    return joined(*(piece if isinstance(piece, str) else named(piece.word, piece.contribution) for piece in pieces))


def chips(name: str, words: Sequence[Word], limit: float) -> Html:
    """Return the words of a text after its name, each over its contribution and on its colour."""
    content = tag("p", (_chip(word, limit) for word in words), class_="words", dir="auto")
    return tag("div", tag("span", name), content if words else tag("p", "no words", class_="note"), class_="side")


def _chip(word: Word, limit: float) -> Html:
    sign = "m" if signed(word.contribution).startswith("−") else "p"
    return tag(
        "span", tag("span", word.word), tag("small", signed(word.contribution)),
        class_=f"w {sign} k" if word.keyword else f"w {sign}", style=shade(word.contribution, limit),
        title=f"score without it: {number(word.without)}",
    )  # fmt: skip


def shade(value: float, limit: float) -> str:
    """Return the opacity of the colour of a value, as a style."""
    return f"--a:{min(abs(value) / (limit or 1.0), 1.0) * STRONGEST:.2f}"


def word_table(caption: str, words: Sequence[Word]) -> Html:
    """Return a table of everything that is known about each word."""
    ways = list(words[0].detected_by) if words else []
    gated = any(word.gate is not None for word in words)
    partly = any(word.known < 1 for word in words)
    head = ["word", "contribution", "score without it", "effect", *(["input gate"] if gated else [])]
    head += [*(f"cells {labels.ARROWS[way]}" for way in ways), *(["trigrams known"] if partly else []), ""]
    bars = bar_cells([word.contribution for word in words])
    rows = []
    for word, bar in zip(words, bars, strict=True):
        row = [word.word, bar, number(word.without), number(word.effect), *([number(word.gate, 2)] if gated else [])]
        row += [*(labels.count(word.detected_by[way]) for way in ways), *([f"{word.known:.0%}"] if partly else [])]
        kinds = {"keyword": word.keyword, "unimportant": word.unimportant}
        row.append(tag("td", (tag("span", kind, class_=f"chip {kind[0]}") for kind, holds in kinds.items() if holds)))
        rows.append(row)
    return table(caption, head, rows, numeric=range(2, len(head) - 1))


def bar_cells(values: Sequence[float], digits: int = 2, *, sign: bool = True) -> list[Html]:
    """Return table cells with a number and a bar. If some values are negative, zero is in the middle of the bar."""
    limit, negative = labels.largest(values, 1.0), any(value < 0 for value in values)
    full, zero = (50, 50) if negative else (100, 0)
    cells = []
    for value in values:
        size = abs(value) / limit * full
        rect = tag("rect", x=f"{zero if value >= 0 else zero - size:.1f}", width=f"{size:.1f}", height=10,
                   class_="p" if value >= 0 else "m")  # fmt: skip
        axis = tag("line", x1=zero, x2=zero, y1=-1, y2=11, class_="axis")
        drawn = tag("svg", rect, axis, viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true")
        text = signed(value, digits) if sign else f"{value:,.{digits}f}"
        cells.append(tag("td", tag("span", tag("span", text), drawn, class_="bar"), class_="b"))
    return cells
