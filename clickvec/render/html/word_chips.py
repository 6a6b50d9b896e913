"""Words with what they did: shaded lines, the table of words, and the matrix of links. For both pages."""

from collections.abc import Iterable, Sequence

from clickvec.explanation.explained_pair import Pair, Word
from clickvec.render.html.markup import Html, joined, scrolling, table, tag

STRONGEST = 0.6  # of the colour, at the greatest contribution: the word on it stays readable
LEAST_LIMIT = 0.05  # where nothing contributes, noise is not blown up
ARROWS = {"left to right": "→", "right to left": "←"}


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign, a real minus; what rounds to zero has none."""
    text = f"{abs(value):.{digits}f}"
    return text if not float(text) else f"{'+' if value > 0 else '−'}{text}"


def number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else signed(value, digits).removeprefix("+")


def largest(*texts: Iterable[Word]) -> float:
    """The greatest contribution of any word, which gets the full shade."""
    return max((abs(word.contribution) for words in texts for word in words), default=0.0) or LEAST_LIMIT


def limit_of(*explanations: Pair) -> float:
    """One range of shades for the words of several explanations."""
    words = (words for one in explanations for words in (one.query_words, one.title_words))
    return max(LEAST_LIMIT, largest(*words))


def shade(value: float, limit: float) -> str:
    """How much of the colour a value gets, as a style."""
    return f"--a:{min(abs(value) / limit, 1.0) * STRONGEST:.2f}"


def shaded(words: Sequence[Word], limit: float) -> Html:
    """The words of a text in its order and direction, each on its shade and over its contribution."""
    if not words:
        return tag("p", "no words", class_="note")
    return tag("p", (_shaded_word(word, limit) for word in words), class_="words", dir="auto")


def _shaded_word(word: Word, limit: float) -> Html:
    kinds = ["w", "m" if signed(word.contribution).startswith("−") else "p", *(["k"] if word.keyword else [])]
    about = f"without it the score is {number(word.without, 3)}"
    return tag(
        "span", tag("span", word.word), tag("small", signed(word.contribution)),
        class_=" ".join(kinds), style=shade(word.contribution, limit), title=about,
    )  # fmt: skip


def side(name: str, content: str) -> Html:
    """A line with its name before it."""
    return tag("div", tag("span", name), content, class_="side")


def word_table(caption: str, words: Sequence[Word]) -> Html:
    """Everything that is known of each word."""
    ways = list(words[0].detected_by) if words else []
    gated = any(word.gate is not None for word in words)
    partly = any(word.known < 1 for word in words)
    head = ["word", "contribution", "score without it", "effect"]
    head += [*(["input gate"] if gated else []), *(f"cells {ARROWS[way]}" for way in ways)]
    head += [*(["trigrams known"] if partly else []), ""]
    limit = max((abs(word.contribution) for word in words), default=0.0)
    negative = any(word.contribution < 0 for word in words)
    rows = []
    for word in words:
        row: list[str] = [word.word, tag("td", bar(word.contribution, limit, negative), class_="b")]
        row += [number(word.without, 3), number(word.effect, 3)]
        row += [number(word.gate)] if gated else []
        row += [_count(word.detected_by[way]) for way in ways]
        row += [f"{word.known:.0%}"] if partly else []
        rows.append([*row, tag("td", _chips(word))])
    return table(caption, head, rows, numeric=range(2, len(head) - 1))


def _count(count: int | None) -> str:
    return "–" if count is None else str(count)


def _chips(word: Word) -> Html:
    keyword = tag("span", "keyword", class_="chip k") if word.keyword else None
    return joined(keyword, " ", tag("span", "unimportant", class_="chip u") if word.unimportant else None)


def bar(value: float, limit: float, both_ways: bool, digits: int = 2, *, sign: bool = True) -> Html:
    """A number with a bar; zero lies in the middle where some numbers of the column are negative."""
    size = abs(value) / limit * (50 if both_ways else 100) if limit else 0.0
    zero = 50 if both_ways else 0
    drawn = tag("rect", x=f"{zero if value >= 0 else zero - size:.1f}", width=f"{size:.1f}", height=10,
                class_="p" if value >= 0 else "m")  # fmt: skip
    axis = tag("line", x1=zero, x2=zero, y1=-1, y2=11, class_="axis")
    picture = tag("svg", drawn, axis, viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true")
    return tag("span", tag("span", signed(value, digits) if sign else f"{value:,.{digits}f}"), picture, class_="bar")


def grid(
    caption: str,
    head: Sequence[str],
    rows: Iterable[tuple[str, Sequence[float], Sequence[bool]]],
    limit: float,
    digits: int = 2,
) -> Html:
    """Numbers on shades: a heat map that can be read without its colours. A cell that is a `hit` is underlined."""
    names = tag("tr", tag("td"), (tag("th", tag("bdi", name), scope="col") for name in head))
    body = (
        tag("tr", tag("th", tag("bdi", name), scope="row"),
            (_grid_cell(value, hit, limit, digits) for value, hit in zip(values, hits, strict=True)))
        for name, values, hits in rows
    )  # fmt: skip
    return scrolling(
        caption,
        tag("table", tag("caption", tag("span", caption)), tag("thead", names), tag("tbody", body), class_="grid"),
    )


def _grid_cell(value: float, hit: bool, limit: float, digits: int) -> Html:
    kinds = f"{'p' if value >= 0 else 'm'}{' hit' if hit else ''}"
    return tag("td", signed(value, digits), class_=kinds, style=shade(value, limit or 1.0))
