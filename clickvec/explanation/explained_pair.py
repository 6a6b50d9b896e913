"""Why a query and a title have their score: the score split into words and into cells.

The contributions of the title's words add up to the score, and so do those of the query's words, for the methods that
guarantee it (see contributions.py). The cells add up to it because a cosine is a sum over cells. So does the matrix of
links: entry (i, j) is the product of the parts of the two vectors that come from query word i and title word j (see
reading.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clickvec.errors import UnavailableError
from clickvec.explanation.reading import Floats, cell_names
from clickvec.explanation.side import Side, unimportant

Links = tuple[tuple[float, ...], ...]  # (query words, title words)
LINKS = 10  # strongest links listed
LINK_CELLS = 3  # cells listed for each link

# The summary names the words that together give CARRIED of all positive contributions, at most MOST_NAMED per text.
CARRIED = 0.75
MOST_NAMED = 3
VISIBLE = 0.005  # smaller contributions are shown as 0.00

Pieces = tuple["str | Word", ...]


@dataclass(frozen=True)
class Word:
    """One word of the query or the title, and what it did."""

    word: str
    known: float  # share of its letter trigrams that the model knows
    contribution: float  # to the score, by the chosen method
    without: float  # score of the pair without this word
    effect: float  # 1 - cosine of the text's vector with and without the word
    unimportant: bool  # whether the effect is below half of the mean effect of the text's words
    gate: float | None  # mean input gate; None without gates
    detected_by: dict[str, int | None]  # by direction, how many of the most active cells detect it
    keyword: bool | None  # None if no direction can decide


@dataclass(frozen=True)
class Cell:
    """One dimension of the two vectors."""

    cell: int
    way: str  # direction of reading; "" without one
    query: float
    title: float
    contribution: float  # product of the two


@dataclass(frozen=True)
class Link:
    """A query word and a title word to which the same cells respond."""

    query_word: int  # its position
    title_word: int
    weight: float  # part of the score
    cells: tuple[int, ...]  # the cells that give most of it, as positions in `Pair.cells`


@dataclass(frozen=True)
class Pair:
    """A query, a title, and the words and cells that produce their score."""

    query: str
    title: str
    score: float
    method: str
    query_words: tuple[Word, ...]
    title_words: tuple[Word, ...]
    cells: tuple[Cell, ...]  # in the order of the vector
    links: Links | None  # None if the tower has no output at each word
    strongest: tuple[Link, ...]  # links with the largest weights


def pair_of(query: Side, title: Side, method: str) -> Pair:
    """Split the score of two sides, reusing what they have already computed."""
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
    return Pair(
        query.text, title.text, float(products.sum()), method, _words(query, title, method),
        _words(title, query, method), cells, links, strongest,
    )  # fmt: skip


def _words(side: Side, other: Side, method: str) -> tuple[Word, ...]:
    # First, because its batch includes the texts without each word.
    contributions = side.contributions(other.vector, method)
    effects, without, keywords = side.effects, side.without @ other.vector, side.keywords
    little = unimportant(effects)
    gates = side.reading.mean("input_gate") if side.reading else None
    return tuple(
        Word(
            word=word,
            known=side.known[at],
            contribution=float(contributions[at]),
            without=float(without[at]),
            effect=float(effects[at]),
            unimportant=bool(little[at]),
            gate=None if gates is None else float(gates[at]),
            detected_by={way: counts[at] for way, counts in keywords.counts.items()} if keywords else {},
            keyword=keywords.verdicts[at] if keywords else None,
        )
        for at, word in enumerate(side.words)
    )


def _links(query: Floats, title: Floats) -> tuple[Links, tuple[Link, ...]]:
    """Return the products of the words' parts of both vectors, and the largest of them."""
    with np.errstate(over="ignore", invalid="ignore"):
        links = query @ title.T
    if not np.isfinite(links).all():
        raise UnavailableError("the parts of words overflow, because a weight is too large; train the model again")
    heaviest = np.argsort(-links, axis=None, kind="stable")[:LINKS]
    strongest = []
    for i, j in zip(*(positions.tolist() for positions in np.unravel_index(heaviest, links.shape)), strict=True):
        if links[i, j] > 0:
            products = query[i] * title[j]
            cells = [cell for cell in np.argsort(-products, kind="stable")[:LINK_CELLS].tolist() if products[cell] > 0]
            strongest.append(Link(i, j, float(links[i, j]), tuple(cells)))
    return tuple(map(tuple, links.tolist())), tuple(strongest)


# --- the score in a sentence -------------------------------------------------------------------------------------


def summary(pair: Pair, *, in_index: bool = False) -> Pieces:
    """Say which words carry the score and which lower it, or why there is no score.

    The words to emphasise are `Word` objects between pieces of text. With `in_index`, the score is called the cosine,
    because it is only a part of the score of a hit.
    """
    score = "cosine" if in_index else "score"
    texts = {"query": pair.query_words, "title": pair.title_words}
    for name, words in texts.items():
        if not any(word.known for word in words):
            why = "no letter trigram that the model knows" if words else "no words"
            so = "finds nothing" if name == "query" else "no query can find it"
            so = "only words can match" if in_index else so
            return (f"The {name} has {why}: it has no vector, and {so}.",)
    burdens = sorted(
        (word for word in pair.title_words if word.contribution <= -VISIBLE), key=lambda word: word.contribution
    )[:MOST_NAMED]
    lowered: Pieces = ()
    if burdens:
        lowered = (" In the title ", *_listed(burdens), f" {'lowers' if len(burdens) == 1 else 'lower'} it.")
    carried: list[str | Word] = []
    for name, words in texts.items():
        if carriers := _carriers(words):
            carried += [f"{'; ' if carried else ''}of the {name} ", *_listed(carriers)]
    if not carried:
        return (f"No word raises the {score}.", *lowered)
    return (f"Most of the {score} comes from these words: ", *carried, ".", *lowered)


def _carriers(words: Sequence[Word]) -> list[Word]:
    """Return the words that give most of the positive contributions, strongest first."""
    helpful = sorted((word for word in words if word.contribution >= VISIBLE), key=lambda word: -word.contribution)
    total, so_far, carriers = sum(word.contribution for word in helpful), 0.0, list[Word]()
    for word in helpful[:MOST_NAMED]:
        if so_far >= CARRIED * total:
            break
        so_far += word.contribution
        carriers.append(word)
    return carriers


def _listed(words: Sequence[Word]) -> list[str | Word]:
    """Return the words separated by commas, with an "and" before the last."""
    pieces: list[str | Word] = []
    for at, word in enumerate(words):
        pieces += [word, ", " if at < len(words) - 2 else " and " if at == len(words) - 2 else ""]
    return pieces
