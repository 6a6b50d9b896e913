"""Everything that `clickvec explain` shows of a query, and of a title with it: gathered here, drawn elsewhere."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from clickvec.explanation.attenuation import Attenuation
from clickvec.explanation.attribution import METHODS
from clickvec.explanation.half import Half
from clickvec.explanation.hit import Explanation, explain_halves
from clickvec.explanation.keywords import RULE, Keywords, Rule
from clickvec.explanation.reading import Reading
from clickvec.explanation.versus import Versus, versus
from clickvec.explanation.why_not import WhyNot, why_not_halves
from clickvec.model.about import describe_tower
from clickvec.model.encoder import Encoder

if TYPE_CHECKING:
    from clickvec.search.index import Index


@dataclass(frozen=True)
class Side:
    """One text, as the tower of its side reads it."""

    reading: Reading | None  # None where the model does not read word by word; then there are no keywords either
    attenuation: Attenuation
    keywords: Keywords | None
    known: tuple[float, ...]  # for each word, the share of its letter trigrams that the model knows

    @classmethod
    def of(cls, half: Half) -> "Side":
        """What is known of half of a pair."""
        return cls(half.reading, half.attenuation, half.keywords, half.known)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the text; the last one of a long text is several."""
        return self.attenuation.words


class Rank(NamedTuple):
    """Where a title stands among those of an index."""

    rank: int | None  # the first is 1; None where the query or the title has no vector
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
    rule: Rule = RULE,
) -> Look:
    """Look at a query, at its pair with a title, at why that is not above the `first`; at `models` side by side."""
    one = Half(encoder, "query", query, rule)
    two = Half(encoder, "title", title, rule) if title is not None else None
    compared = (
        why_not_halves(one, two, Half(encoder, "title", first, rule), method) if two and first is not None else None
    )
    explained = compared.title if compared else explain_halves(one, two, method) if two else None
    return Look(
        tower=describe_tower(encoder.model.tower),
        query=query,
        title=title,
        query_side=Side.of(one),
        title_side=Side.of(two) if two else None,
        explanation=explained,
        rank=rank,
        why_not=compared,
        versus=versus(models, query, title, rule=rule) if models else None,
    )


def look_in(
    index: "Index",
    query: str,
    title: str | None = None,
    first: str | None = None,
    *,
    method: str = METHODS[0],
    models: Mapping[str, Encoder] | None = None,
    rule: Rule = RULE,
) -> Look:
    """The same for a title of an index, by its id or its text: its rank, and why it is not the first hit.

    Without a title, the first hit is looked at; a title that is not in the index is ranked where it would stand.
    """
    best = next(iter(index.search(query, k=1)), None)
    if title is None:
        rank = Rank(1 if best else None, len(index), best.id if best else None, best.id if best else None)
        text = best.title if best else None
    else:
        place = index.find(title)
        found = None if place is None else index[place]
        text = found.title if found else title
        stands = index.rank(query, title if place is None else place)
        rank = Rank(stands, len(index), found.id if found else None, best.id if best else None)
        if first is not None:
            other = index.find(first)
            first = first if other is None else index[other].title
        elif best and stands not in (None, 1):
            first = best.title
    return look(index.encoder, query, text, first, rank=rank, method=method, models=models, rule=rule)
