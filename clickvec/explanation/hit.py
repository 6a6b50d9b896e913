"""Why this hit: the score of a query and a title, split into words and into cells.

Everything here adds up to the score. The contributions of the title's words do, and those of the query's words, by the
methods that promise it (see `attribution.py`); so do the cells, since a cosine is a sum over cells; and so does the
matrix of links, whose entry (i, j) is the product of the parts of the two vectors that query word i and title word j
gave (see `reading.py`).
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickvec.config import RECURRENT
from clickvec.explanation.attribution import METHODS
from clickvec.explanation.half import Half
from clickvec.explanation.keywords import RULE, Rule
from clickvec.explanation.reading import Floats
from clickvec.model.encoder import Encoder

Links = tuple[tuple[float, ...], ...]  # (query words, title words)
LINKS = 10  # pairs of words that are named
LINK_CELLS = 3  # cells named for each


@dataclass(frozen=True)
class Word:
    """One word of the query or the title, and what it did."""

    word: str
    known: float  # the share of its letter trigrams that the model knows
    contribution: float  # to the score, by the method asked for
    change: float | None  # to the score, by the change of the output at this word; None where no output is given at it
    without: float  # the score of the pair without this word
    effect: float  # 1 - the cosine of the text's vector with and without the word
    unimportant: bool  # whether that is less than half of what an average word of the text has
    gate: float | None  # the mean input gate; None without gates
    taken_in: float | None  # the mean of |i(t) y_g(t)|, what came through the gate
    detected_by: dict[str, int | None]  # by direction, how many of the most active cells detect it
    keyword: bool | None  # None where no direction can tell


@dataclass(frozen=True)
class Cell:
    """One number of the two vectors."""

    cell: int
    way: str  # the direction that it belongs to; "" where there is none
    query: float
    title: float
    contribution: float  # the product of the two


@dataclass(frozen=True)
class Link:
    """A word of the query and one of the title that the same cells answer to."""

    query_word: int  # its place
    title_word: int
    weight: float  # part of the score
    cells: tuple[int, ...]  # those that give most of it, as places in `Explanation.cells`


@dataclass(frozen=True)
class Explanation:
    """Why a query and a title have the score that they have."""

    query: str
    title: str
    score: float
    method: str
    query_words: tuple[Word, ...]
    title_words: tuple[Word, ...]
    cells: tuple[Cell, ...]  # in the order of the vector
    links: Links | None  # None where no output is given at a word
    strongest: tuple[Link, ...]  # the heaviest of the links

    @property
    def both_ways(self) -> bool:
        """Whether its cells are of two directions."""
        return len({cell.way for cell in self.cells}) > 1

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return dataclasses.asdict(self)


def explain(encoder: Encoder, query: str, title: str, *, method: str = METHODS[0], rule: Rule = RULE) -> Explanation:
    """Split the score of a query and a title into their words and cells."""
    return explain_halves(Half(encoder, "query", query, rule), Half(encoder, "title", title, rule), method)


def explain_halves(query: Half, title: Half, method: str = METHODS[0]) -> Explanation:
    """The same of two halves, which keep what was computed."""
    products = query.vector * title.vector
    cells = tuple(
        Cell(cell, way, *numbers)
        for (cell, way), *numbers in zip(
            cell_names(query.encoder), query.vector.tolist(), title.vector.tolist(), products.tolist(), strict=True
        )
    )
    links: Links | None = None
    strongest: tuple[Link, ...] = ()
    if query.reading and title.reading:
        links, strongest = _links(query.reading.parts, title.reading.parts)
    return Explanation(
        query.text, title.text, float(products.sum()), method, _words(query, title, method),
        _words(title, query, method), cells, links, strongest,
    )  # fmt: skip


def cell_names(encoder: Encoder) -> list[tuple[int, str]]:
    """The number of the cell, and its direction, behind each number of a vector."""
    tower = encoder.model.tower
    if tower.kind == "bilstm":
        return [(cell, way) for way in ("left to right", "right to left") for cell in range(tower.cells)]
    return [(cell, "left to right" if tower.kind in RECURRENT else "") for cell in range(tower.dimensions)]


def _words(half: Half, other: Half, method: str) -> tuple[Word, ...]:
    given = half.contributions(other, method)  # first: it encodes the text without each word, among others
    changes = half.reading.parts @ other.vector if half.reading else None
    if not half.words:
        return ()
    damped, voted, without = half.attenuation, half.keywords, half.without @ other.vector
    return tuple(
        Word(
            word=word,
            known=half.known[at],
            contribution=float(given[at]),
            change=None if changes is None else float(changes[at]),
            without=float(without[at]),
            effect=damped.effects[at],
            unimportant=damped.unimportant[at],
            gate=damped.gates[at] if damped.gates else None,
            taken_in=damped.taken_in[at] if damped.taken_in else None,
            detected_by={way: row[at] for way, row in voted.counts.items()} if voted else {},
            keyword=voted.verdicts[at] if voted else None,
        )
        for at, word in enumerate(half.words)
    )


def _links(query: Floats, title: Floats) -> tuple[Links, tuple[Link, ...]]:
    """Parts of the query's words times parts of the title's, and the heaviest of these products."""
    links = query @ title.T
    heaviest = np.argsort(-links, axis=None, kind="stable")[:LINKS]
    strongest = []
    for i, j in zip(*(places.tolist() for places in np.unravel_index(heaviest, links.shape)), strict=True):
        if links[i, j] > 0:
            products = query[i] * title[j]
            cells = [cell for cell in np.argsort(-products, kind="stable")[:LINK_CELLS].tolist() if products[cell] > 0]
            strongest.append(Link(i, j, float(links[i, j]), tuple(cells)))
    return tuple(map(tuple, links.tolist())), tuple(strongest)
