"""Explain a query and a title: the score, its words, keywords, rank, and why the title is not first."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clickvec.errors import ClickvecError
from clickvec.explanation.contributions import METHODS
from clickvec.explanation.explained_pair import Pair, Word, pair_of
from clickvec.explanation.side import Side
from clickvec.explanation.why_not import WhyNot, why_not
from clickvec.model.about import describe_tower
from clickvec.model.encoder import Encoder
from clickvec.search.documents import Document
from clickvec.search.index import Index


class Rank(NamedTuple):
    """The position of a title among those of an index."""

    rank: int | None  # 1 is the top hit; None if the query or the title has no vector
    of: int  # number of titles in the index
    id: str | None  # None if the title is not in the index; `rank` is then the position it would have
    first: str | None  # id of the top hit


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a model makes of a query and a title."""

    query_side: Side
    title_side: Side
    pair: Pair
    rank: Rank | None  # None without an index
    why_not: WhyNot | None  # None if there is no better title to compare with

    @property
    def tower(self) -> str:
        """The tower of the model in words."""
        return describe_tower(self.query_side.encoder.model.tower)

    @property
    def score(self) -> float:
        """The cosine of the query and the title."""
        return self.pair.score

    @property
    def query_words(self) -> tuple[Word, ...]:
        """The words of the query with their contributions."""
        return self.pair.query_words

    @property
    def title_words(self) -> tuple[Word, ...]:
        """The words of the title with their contributions."""
        return self.pair.title_words

    def __repr__(self) -> str:
        """Show the score and what each word contributes to it, with an asterisk after each keyword."""
        return (
            f"Explanation(score {self.score:.3f} by {self.pair.method}\n"
            f"  query: {_contributions(self.query_words)}\n  title: {_contributions(self.title_words)})"
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`: everything but the activations."""
        return {
            "tower": self.tower,
            "query": self.pair.query,
            "title": self.pair.title,
            "rank": self.rank._asdict() if self.rank else None,
            "explanation": dataclasses.asdict(self.pair),
            "why_not": dataclasses.asdict(self.why_not) if self.why_not else None,
        }


def _contributions(words: Sequence[Word]) -> str:
    return ", ".join(f"{word.word}{'*' if word.keyword else ''} {word.contribution:+.3f}" for word in words)


def explain(
    source: Encoder | Index,
    query: str,
    title: str | int | None = None,
    compare_with: str | int | None = None,
    *,
    method: str = METHODS[0],
) -> Explanation:
    """Explain the score of a query and a title.

    The result holds what each word of the query and of the title contributes to the score, which words are keywords
    and, with a second title in `compare_with`, why the first one does not score higher and which edits would help.

    With an index, a title is an id or a text of the index. Without a title, the top hit is explained; with one that is
    not the top hit, the title is compared with it. The result then also holds the rank of the title. Raise
    ClickvecError if there is no title to explain.

    `method` is one of METHODS: how contributions are computed.
    """
    _check_text(query)
    rank = None
    if isinstance(source, Index):
        encoder, (rank, title, compare_with) = source.encoder, _in_index(source, query, title, compare_with)
    else:
        encoder = source
    if title is None:
        raise ClickvecError("there is no title to explain; give a title, or an index instead of a model")
    query_side = Side(encoder, "query", query)
    title_side = Side(encoder, "title", _check_text(title))
    if compare_with is None:
        return Explanation(query_side, title_side, pair_of(query_side, title_side, method), rank, None)
    comparison = why_not(query_side, title_side, Side(encoder, "title", _check_text(compare_with)), method)
    return Explanation(query_side, title_side, comparison.title, rank, comparison)


def _check_text(text: str | int) -> str:
    if not isinstance(text, str):
        raise ClickvecError(f"a query or a title must be a str, not {text!r}; only an index has ids")
    return text


def _in_index(
    index: Index, query: str, title: str | int | None, compare_with: str | int | None
) -> tuple[Rank, str, str | None]:
    """Return the rank of a title, its text, and the text of the title to compare it with."""
    top = next(iter(index.search(query, k=1)), None)
    top_id = str(top.id) if top else None
    if title is None:
        if top is None:
            raise ClickvecError(f"the index finds nothing for {query!r}; give another query, or a title")
        return Rank(1, len(index), top_id, top_id), top.title, None
    document, text = _look_up(index, title)
    rank = index.rank(query, text if document is None else document)
    other = None
    if compare_with is not None:
        other = _look_up(index, compare_with)[1]
    elif top and rank not in (None, 1):
        other = top.title
    return Rank(rank, len(index), None if document is None else str(document.id), top_id), text, other


def _look_up(index: Index, title: str | int) -> tuple[Document | None, str]:
    """Return the document and the text of a title by its id or its text. A text need not be in the index."""
    document = index.find(title)
    if document is not None:
        return document, document.title
    if isinstance(title, int):
        raise ClickvecError(f"the index has no title with the id {title}")
    return None, title
