"""Everything that `clickvec explain` shows of a query, and of a title with it: gathered here, drawn elsewhere."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clickvec.about import describe_tower
from clickvec.config import RECURRENT
from clickvec.encoder import Encoder
from clickvec.explain.attenuation import Attenuation, attenuate
from clickvec.explain.attribution import METHODS, without_each
from clickvec.explain.hit import Explanation, explain
from clickvec.explain.keywords import Keywords, keywords_of
from clickvec.explain.reading import Reading, encode, read
from clickvec.explain.versus import Versus, versus
from clickvec.explain.why_not import WhyNot, why_not
from clickvec.text import canonical, split_steps, trigrams

if TYPE_CHECKING:
    from clickvec.index import Document, Hit, Index


@dataclass(frozen=True)
class Side:
    """One text, as the tower of its side reads it."""

    reading: Reading | None  # None where the model does not read word by word; then there are no keywords either
    attenuation: Attenuation
    keywords: Keywords | None
    known: tuple[float, ...]  # for each word, the share of its letter trigrams that the model knows

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the text; the last one of a long text is several."""
        return self.attenuation.words


class Rank(NamedTuple):
    """Where a title stands among those of an index."""

    rank: int | None  # the first is 1; None where the query finds nothing
    of: int  # titles in the index
    id: str | None  # None where the title is not in the index: then this is where it would stand
    first: str | None  # the id of the first hit


@dataclass(frozen=True)
class Look:
    """A query, or a query and a title, seen from inside a model."""

    tower: str  # in words
    query: str
    title: str | None
    query_side: Side
    title_side: Side | None
    explanation: Explanation | None  # None without a title
    rank: Rank | None  # None without an index
    why_not: WhyNot | None  # None where there is no other title to compare with
    versus: Versus | None  # None without another model

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`: all but the activations themselves."""
        sides = {"query": self.query_side, "title": self.title_side}
        return {
            "tower": self.tower,
            "query": self.query,
            "title": self.title,
            "rank": self.rank._asdict() if self.rank else None,
            "explanation": self.explanation.as_json() if self.explanation else None,
            "keywords": {
                name: dataclasses.asdict(side.keywords) if side and side.keywords else None
                for name, side in sides.items()
            },
            "attenuation": {
                name: dataclasses.asdict(side.attenuation) if side else None for name, side in sides.items()
            },
            "why_not": self.why_not.as_json() if self.why_not else None,
            "versus": self.versus.as_json() if self.versus else None,
        }


def look(
    encoder: Encoder,
    query: str,
    title: str | None = None,
    first: str | None = None,
    *,
    rank: Rank | None = None,
    method: str = METHODS[0],
    models: Mapping[str, Encoder] | None = None,
) -> Look:
    """Look at a query, at its pair with a title, at why that is not above the `first`; at `models` side by side."""
    compared = why_not(encoder, query, title, first, method=method) if title is not None and first is not None else None
    explained = compared.title if compared else None
    if explained is None and title is not None:
        explained = explain(encoder, query, title, method=method)
    return Look(
        tower=describe_tower(encoder.model.tower),
        query=query,
        title=title,
        query_side=_side(encoder, "query", query),
        title_side=None if title is None else _side(encoder, "title", title),
        explanation=explained,
        rank=rank,
        why_not=compared,
        versus=versus(models, query, title) if models else None,
    )


def look_in(
    index: "Index",
    query: str,
    title: str | None = None,
    first: str | None = None,
    *,
    method: str = METHODS[0],
    models: Mapping[str, Encoder] | None = None,
) -> Look:
    """The same for a title of an index, by its id or its text: its rank, and why it is not the first hit.

    Without a title, the first hit is looked at; a title that is not in the index is ranked where it would stand.
    """
    encoder, asked = index.encoder, title is not None
    hits = index.search(query, k=max(1, len(index)) if asked else 1)
    best = hits[0] if hits else None
    if title is None:
        rank = Rank(1 if best else None, len(index), best.id if best else None, best.id if best else None)
        return look(encoder, query, best.title if best else None, rank=rank, method=method, models=models)
    known: Sequence[Hit | Document] = [*(hits or index)]  # a query that finds nothing can be explained all the same
    found = _find(known, title)
    text = title if found is None else known[found].title
    place = found if found is not None or not hits else _would_stand(encoder, query, title, hits)
    rank = Rank(
        place + 1 if place is not None and hits else None,
        len(index),
        None if found is None else known[found].id,
        best.id if best else None,
    )
    if first is not None:
        other = _find(known, first)
        first = first if other is None else known[other].title
    elif best and place:
        first = best.title
    return look(encoder, query, text, first, rank=rank, method=method, models=models)


def _find(known: Sequence["Hit | Document"], given: str) -> int | None:
    """The place of a title that is given by its id or, if there is no such id, by its words."""
    place = next((at for at, one in enumerate(known) if one.id == given), None)
    if place is None:
        words = canonical(given)
        place = next((at for at, one in enumerate(known) if canonical(one.title) == words), None)
    return place


def _would_stand(encoder: Encoder, query: str, title: str, hits: "Sequence[Hit]") -> int:
    """How many titles stand above one that is put in last."""
    score = encoder.similarity(encoder.encode_query([query]), encoder.encode_document([title])).item()
    return sum(hit.score >= score for hit in hits)


def _side(encoder: Encoder, side: str, text: str) -> Side:
    reading = read(encoder, side, text) if encoder.model.tower.kind in RECURRENT else None
    words = split_steps(text, encoder.model.max_words)
    vectors = np.asarray(encode(encoder, side, [text, *without_each(words)]), np.float64)
    damped = attenuate(words, vectors[0], vectors[1:], reading)
    known = tuple(len(encoder.vocabulary.ids(word)) / len(trigrams(word)) for word in words)
    return Side(reading, damped, keywords_of(reading) if reading else None, known)
