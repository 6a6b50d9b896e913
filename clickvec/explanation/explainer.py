"""Explain a query and a title: the score, its words, keywords, rank, and why the title is not first."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from clickvec.errors import ClickvecError, check_type
from clickvec.explanation.contributions import METHODS
from clickvec.explanation.explained_pair import Pair, Word, pair_of
from clickvec.explanation.fused_score import Fused, FusedQuery
from clickvec.explanation.side import Side
from clickvec.explanation.why_not import FusedTitles, WhyNot, why_not
from clickvec.model.about import describe_tower
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index
from clickvec.search.parts import MODES
from clickvec.search.retrieval import of_title, rank_in_view, reaches_head
from clickvec.search.view_protocol import SearchView
from clickvec.text.tokens import canonical

RANKED_TITLES = 50_000  # in a larger index, not all titles are ranked:
RANKED_DEPTH = 1_000  # the first ones are


class Rank(NamedTuple):
    """The position of a title among those of an index. 1 is the top hit."""

    rank: int | None  # by the fused score; None if the title is not found, or not ranked
    of: int  # number of titles in the index
    id: str | None  # None if the title is not in the index; `rank` is then the position it would have
    first: str | None  # id of the top hit
    by: Mapping[str, int | None]  # the rank by each part that proposes alone
    depth: int | None = None  # of a large index, only this many titles were ranked, and it is not among them

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**self._asdict(), "by": dict(self.by)}


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a model makes of a query and a title."""

    query_side: Side
    title_side: Side
    pair: Pair  # the cosine
    fused: Fused | None  # the score of a hit, by words and vectors; None without an index
    rank: Rank | None  # None without an index
    why_not: WhyNot | None  # None if there is no better title to compare with

    @property
    def tower(self) -> str:
        """The tower of the model in words."""
        return describe_tower(self.query_side.encoder.model.tower)

    @property
    def score(self) -> float:
        """The score of the title in the index; without an index, the cosine of the query and the title."""
        return self.fused.score if self.fused else self.pair.score

    @property
    def query_words(self) -> tuple[Word, ...]:
        """The words of the query with their contributions."""
        return self.pair.query_words

    @property
    def title_words(self) -> tuple[Word, ...]:
        """The words of the title with their contributions."""
        return self.pair.title_words

    def __repr__(self) -> str:
        """Show the score and what each part and word contributes to it, with an asterisk after each keyword."""
        cosine = f"{_contributions(self.query_words)}\n  title: {_contributions(self.title_words)})"
        if not self.fused:
            return f"Explanation(score {self.score:.3f} by {self.pair.method}\n  query: {cosine}"
        parts = ", ".join(f"{part.label} {part.value:.3f}" for part in self.fused.parts)
        terms = ", ".join(f"{term.name} {term.contribution:+.3f}" for term in self.fused.terms if term.contribution)
        words = "".join(
            f"  {part.label}: {', '.join(f'{word.word} {word.contribution:+.3f}' for word in part.words)}\n"
            for part in self.fused.parts
            if part.words
        )
        return (
            f"Explanation(score {self.score:.3f}, {parts}\n"
            f"  terms: {terms}\n{words}  cosine by {self.pair.method}\n  query: {cosine}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`: everything but the activations."""
        return {
            "tower": self.tower,
            "query": self.pair.query,
            "title": self.pair.title,
            "score": self.score,
            "fused": dataclasses.asdict(self.fused) if self.fused else None,
            "rank": self.rank.as_json() if self.rank else None,
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
    check_type("the first argument", source, (Encoder, Index), "an Encoder or an Index")
    if isinstance(source, Index):
        return _explain_in_index(source, query, title, compare_with, method)
    if title is None:
        raise ClickvecError("there is no title to explain; give a title, or an index instead of a model")
    query_side = Side(source, "query", query)
    title_side = Side(source, "title", _check_text(title))
    if compare_with is None:
        return Explanation(query_side, title_side, pair_of(query_side, title_side, method), None, None, None)
    comparison = why_not(query_side, title_side, Side(source, "title", _check_text(compare_with)), method)
    return Explanation(query_side, title_side, comparison.title, None, None, comparison)


def explain_hits(index: Index, query: str, ids: Iterable[str | int], *, method: str = METHODS[0]) -> list[Explanation]:
    """Explain several hits of a query, which is read only once. They are not compared with the top hit."""
    view = index.view()
    fused_query, query_side = FusedQuery(view, _check_text(query)), Side(view.encoder, "query", query)
    top, explanations = _top(fused_query), []
    for doc_id in ids:
        title = _look_up(index, view, doc_id)
        side = Side(view.encoder, "title", title.text)
        fused, rank = _fuse(fused_query, title), _rank(fused_query, title, top)
        explanations.append(Explanation(query_side, side, pair_of(query_side, side, method), fused, rank, None))
    return explanations


def _check_text(text: str | int) -> str:
    if not isinstance(text, str):
        raise ClickvecError(f"a query or a title must be a str, not {text!r}; only an index has ids")
    return text


# --- in an index -------------------------------------------------------------------------------------------------


class _Title(NamedTuple):
    """A title to explain, and where it is in the index."""

    text: str
    id: str | None = None  # None if it is not in the index
    position: int | None = None
    payload: Any = None


def _explain_in_index(
    index: Index, query: str, title: str | int | None, compare_with: str | int | None, method: str
) -> Explanation:
    view = index.view()
    fused_query = FusedQuery(view, query)
    top = _top(fused_query)
    if title is None and top is None:
        raise ClickvecError(f"the index finds nothing for {query!r}; give another query, or a title")
    explained = top if title is None and top else _look_up(index, view, "" if title is None else title)
    rank = _rank(fused_query, explained, top)
    other = None
    if compare_with is not None:
        other = _look_up(index, view, compare_with)
    elif top and (rank.depth or rank.rank not in (None, 1)):
        other = top
    query_side, title_side = Side(view.encoder, "query", query), Side(view.encoder, "title", explained.text)
    fused = _fuse(fused_query, explained)
    if other is None:
        return Explanation(query_side, title_side, pair_of(query_side, title_side, method), fused, rank, None)
    other_side = Side(view.encoder, "title", other.text)
    both = FusedTitles(fused_query, fused, _fuse(fused_query, other), explained.payload)
    comparison = why_not(query_side, title_side, other_side, method, both)
    return Explanation(query_side, title_side, comparison.title, fused, rank, comparison)


def _fuse(fused_query: FusedQuery, title: _Title) -> Fused:
    if title.position is None:
        return fused_query.of_text(title.text, title.payload)
    return fused_query.of_title(title.position, title.text)


def _top(fused_query: FusedQuery) -> _Title | None:
    """Return the top hit."""
    view = fused_query.view
    for position in fused_query.head.positions.tolist():
        (seq,) = view.seqs_at(np.array([position]))
        document = view.documents.get([seq]).get(seq)
        if document:  # it was not deleted since
            return _Title(document.title, str(document.id), position, document.payload)
    return None


def _look_up(index: Index, view: SearchView, title: str | int) -> _Title:
    """Return a title by its id or its text. A text need not be in the index."""
    document = index.find(title)
    if document is not None:
        seq = view.documents.find(document.id)
        positions = view.positions_of(np.array([] if seq is None else [seq], np.int64)).tolist()
        return _Title(document.title, str(document.id), positions[0] if positions else None, document.payload)
    if isinstance(title, int):
        raise ClickvecError(f"the index has no title with the id {title}")
    return _Title(title)


def _rank(fused_query: FusedQuery, title: _Title, top: _Title | None) -> Rank:
    """Return the ranks of a title: among the first hits or, in a small index, among all of them."""
    view, is_large = fused_query.view, fused_query.view.size > RANKED_TITLES
    target = title.text if title.position is None else title.position
    head = fused_query.head.positions
    depth = len(head) if title.position in head else RANKED_DEPTH
    places = dict[str, int | None]()
    for mode in MODES:
        ranking = fused_query.ranking if mode == "hybrid" else fused_query.ranking_by(mode)
        if is_large:
            first = ranking.first(depth).positions
            rows = [] if title.position is None else np.flatnonzero(first == title.position).tolist()
            places[mode] = rows[0] + 1 if rows else None
        else:
            places[mode] = rank_in_view(ranking, target)
    is_new = is_large and title.position is None
    if is_new and reaches_head(fused_query.head, of_title(fused_query.ranking, title.text)):
        places["hybrid"] = rank_in_view(fused_query.ranking, title.text)
    of_one, place = top.id if top else None, places.pop("hybrid")
    return Rank(place, len(view), title.id, of_one, places, depth if is_large and place is None else None)


def rank_of_text(index: Index, fused_query: FusedQuery, text: str, replaced: Document | None) -> Rank:
    """Return the rank that a text would have in the index, in place of the document `replaced` if given."""
    view, top = fused_query.view, _top(fused_query)
    old = None if replaced is None else _look_up(index, view, replaced.id)
    if old and old.position is not None and canonical(old.text) == canonical(text):
        return _rank(fused_query, old, top)
    rank = _rank(fused_query, _Title(text), top)
    if old is None or old.position is None:
        return rank
    before = _rank(fused_query, old, top)
    return rank._replace(
        rank=_without(rank.rank, before.rank),
        by={name: _without(place, before.by[name]) for name, place in rank.by.items()},
    )


def _without(place: int | None, removed: int | None) -> int | None:
    """Return a place after the title at another place was removed."""
    return place - 1 if place and removed and removed < place else place
