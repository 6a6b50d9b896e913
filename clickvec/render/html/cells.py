"""What the cells did: the paper's keyword table, the most active cells over the words, heat maps of the gates."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from clickvec.explanation.explained_pair import Pair
from clickvec.explanation.keywords import RULE, Keywords, Rule, keywords_of, most_active
from clickvec.explanation.reading import Floats, Reading
from clickvec.render.html.markup import Html, joined, note, scrolling, table, tag
from clickvec.render.html.svg import LEVELS, heat
from clickvec.render.html.word_chips import ARROWS, bar, grid, signed

TOP_CELLS = 10
# What is drawn of a reading, its name, and the value that says nothing: 0, or a gate that is half open.
MAPS = {
    "input_gate": ("Input gate i(t)", 0.5), "forget_gate": ("Forget gate f(t)", 0.5), "cell": ("Cell state c(t)", 0.0),
    "output_gate": ("Output gate o(t)", 0.5), "output": ("Output y(t)", 0.0),
}  # fmt: skip


class OfAWay(Protocol):
    """Whatever has a direction of reading."""

    @property
    def way(self) -> str:
        """Its name, or nothing."""
        ...


def two_ways(cells: Iterable[OfAWay]) -> bool:
    """Whether the cells are of two directions."""
    return len({cell.way for cell in cells}) > 1


def cell_name(cell: int, way: str, both_ways: bool, sign: str = "") -> str:
    """Its number, with the direction of reading where there are two, and with a sign if any; in one piece."""
    parts = [str(cell), *([ARROWS[way]] if both_ways else []), *([sign.replace("-", "−")] if sign else [])]
    return "\u00a0".join(parts)


def top_cells(explanation: Pair, query: Reading | None, title: Reading | None) -> Html:
    """The cells that add or take most, and the words that moved them most."""
    both = two_ways(explanation.cells)
    order = sorted(range(len(explanation.cells)), key=lambda at: -abs(explanation.cells[at].contribution))[:TOP_CELLS]
    chosen = [explanation.cells[at] for at in order]
    limit = max((abs(cell.contribution) for cell in chosen), default=0.0)
    negative = any(cell.contribution < 0 for cell in chosen)
    words = query is not None and title is not None
    rows = [
        [
            cell_name(cell.cell, cell.way, both),
            tag("td", bar(cell.contribution, limit, negative, 3), class_="b"),
            signed(cell.query),
            signed(cell.title),
            *([_mover(query, at), _mover(title, at)] if query and title else []),
        ]
        for at, cell in zip(order, chosen, strict=True)
    ]
    head = ["cell", "part of the score", "in the query", "in the title"]
    head += ["query word", "title word"] if words else []
    given = sum(cell.contribution for cell in chosen)
    caption = f"The {len(chosen)} cells that matter most; together they give {given:.3f} of {explanation.score:.3f}"
    return table(caption, head, rows, numeric=(2, 3))


def _mover(reading: Reading, at: int) -> str:
    """The word whose reading moved this number of the vector most."""
    if not reading.words:
        return "–"
    return reading.words[int(np.abs(reading.parts[:, at]).argmax())]


# --- keywords ----------------------------------------------------------------------------------------------------


def keyword_table(caption: str, rows: Sequence[tuple[str, Keywords]]) -> Html:
    """The table that the paper prints: cells by direction and word, and what follows; all rows are of the same words.

    Each row has the name of a model, or nothing. A count that is enough for a keyword is bold.
    """
    words = rows[0][1].words
    head = tag("tr", tag("td"), (tag("th", tag("bdi", word), scope="col") for word in words))
    body = []
    for name, found in rows:
        for way, counts in found.counts.items():
            body.append(_row(f"{name} {way}", (_vote(count, found) for count in counts)))
        body.append(_row(f"{name} keyword", map(_verdict, found.verdicts)))
    return scrolling(
        caption,
        tag("table", tag("caption", tag("span", caption)), tag("thead", head), tag("tbody", body), class_="grid"),
    )


def _row(name: str, cells: Iterable[str]) -> Html:
    return tag("tr", tag("th", name.strip(), scope="row"), cells)


def _verdict(verdict: bool | None) -> Html:
    return tag("td", "–" if verdict is None else "yes" if verdict else "no", class_="keyword" if verdict else "no")


def _vote(count: int | None, found: Keywords) -> Html:
    if count is None:
        return tag("td", "–", title="read first: it always changes the output")
    style = f"--a:{0.5 * count / found.active:.2f}" if count else None
    return tag("td", str(count), class_="p hit" if count >= found.needed else "p", style=style)


# --- activations -------------------------------------------------------------------------------------------------


def active_cells(name: str, reading: Reading, rule: Rule = RULE) -> Html:
    """The output of the most active cells at each word, for each direction; where a cell detects a word, underlined."""
    tables, voted = [], keywords_of(reading, rule)
    for way, embedding in zip(reading.directions, reading.embeddings, strict=True):
        chosen = most_active(embedding, rule.active)
        outputs = way.values["output"]
        rows = [
            (f"cell {cell}", outputs[:, cell].tolist(), [cell in found for found in voted.cells[way.name]])
            for cell in chosen.tolist()
        ]
        limit = float(np.abs(outputs[:, chosen]).max(initial=0.0))
        tables.append(grid(f"{name}, {way.name}", reading.words, rows, limit))
    return joined(tables)


def gate_maps(query: Reading, title: Reading) -> Html:
    """Heat maps of query and title side by side, a pair for each gate and direction, each pair with one range."""
    parts = []
    for at, way in enumerate(query.directions or title.directions):
        both = [reading.directions[at].values if reading.directions else None for reading in (query, title)]
        if len(query.directions or title.directions) > 1:
            parts.append(tag("h3", way.name.capitalize()))
        for key, (name, centre) in MAPS.items():
            values = [one[key] for one in both if one is not None and key in one]
            if values and not (key == "forget_gate" and all((value == 1).all() for value in values)):
                parts.append(
                    _pair(name, centre, way.name, (query, title), [None if one is None else one[key] for one in both])
                )
    return joined(parts)


def _pair(name: str, centre: float, way: str, readings: Sequence[Reading], values: Sequence[Floats | None]) -> Html:
    limit = max(float(np.abs(value - centre).max(initial=0.0)) for value in values if value is not None)
    scale = tag(
        "span", f"{centre - limit:.2f}".replace("-", "−"), _scale(), f"{centre + limit:.2f}", class_="scale"
    )  # fmt: skip
    maps = (
        tag("div", note(f"The {side} has no words.")) if value is None
        else _map(reading.words, heat(value, f"{name} of the {side}, {way}", centre, limit), side)
        for side, reading, value in zip(("query", "title"), readings, values, strict=True)
    )  # fmt: skip
    return tag("div", tag("p", tag("b", name), " ", scale, class_="gate"), tag("div", maps, class_="pair"))


def _map(words: Sequence[str], drawing: Html, side: str) -> Html:
    labels = tag("ol", (tag("li", tag("bdi", word), title=word) for word in words))
    return tag("figure", tag("figcaption", side), tag("div", labels, drawing), class_="map")


def _scale() -> Html:
    return heat(np.arange(-LEVELS, LEVELS + 1, dtype=np.float64)[None], "from low to high")
