"""Find titles in a view: by words, by vectors, or by both (hybrid). This is the one place that orders them.

Each mode has one order of the titles that a query finds. Pages are cuts of it.

    words      by BM25
    vectors    by cosine
    hybrid     the head, by the fused score: the best 100 titles by words and the best 100 by vectors;
               then the other titles with a word of the query, by BM25; then the other titles, by cosine

Equal scores are in the order of positions. The score of a hybrid hit is always the fused score, also behind the head.
An approximate search by vectors looks for 100 titles, then for 1,000, and so on. What a deeper search finds follows
what was found before.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Vectors
from clickvec.native.products import exact_scores
from clickvec.search.documents.document import Document
from clickvec.search.fusion import Candidates, candidates_of
from clickvec.search.lexical.query_terms import Term
from clickvec.search.segments.building import encode_titles
from clickvec.search.view_protocol import DEPTH, Allowed, HybridAtOnce, Positions, SearchView

MODES = ("hybrid", "words", "vectors")
DEEPER = 10  # an approximate search, and one with a least score, looks for so many times more titles each time

Scores = NDArray[np.float32]


class Ranked(NamedTuple):
    """Titles for one query, best first. Equal scores are in the order of positions."""

    positions: Positions
    scores: Scores
    cosine: Scores
    bm25: Scores


class Proposed(NamedTuple):
    """The candidates of hybrid search for one query, best first, and what the fusion knows about each."""

    positions: Positions
    scores: Scores
    terms: tuple[Term, ...]  # the words of the query
    facts: Candidates
    is_whole: bool = False  # whether the query finds no other titles
    documents: tuple[Document, ...] = ()

    def ranked(self) -> Ranked:
        """Return the same titles without the facts."""
        cosine, bm25 = (np.asarray(part, np.float32) for part in (self.facts.cosine, self.facts.bm25))
        return Ranked(self.positions, self.scores, cosine, bm25)


class Near(NamedTuple):
    """The first titles by vectors, and how many were asked for."""

    positions: Positions
    cosines: Vectors
    asked: int


def check_mode(mode: str) -> None:
    """Refuse an unknown mode."""
    if mode not in MODES:
        raise ClickvecError(f"the mode is {mode!r}; it must be {', '.join(MODES[:-1])} or {MODES[-1]}")


class Ranking:
    """The order of the titles that one query finds. A query without text (None) is searched by its vector alone."""

    def __init__(
        self,
        view: SearchView,
        query: str | None,
        vector: Vectors,
        mode: str,
        allowed: Allowed,
        near: Near | None = None,
    ) -> None:
        """Search nothing yet. `near` are the first titles by vectors and how many were asked for, if they are known."""
        self.view, self.vector, self.allowed = view, vector, allowed
        self.mode = "vectors" if query is None else mode
        self.terms = () if query is None else view.words.terms(query)
        self._near = near

    def page(self, offset: int, k: int, min_score: float | None) -> Ranked:
        """Return k titles after the first `offset` ones, of those that have at least this score."""
        if min_score is None:
            return _rows(self.first(offset + k), slice(offset, offset + k))
        count = len(self.head.positions) if self.mode == "hybrid" else DEPTH
        while True:
            ranked = self.first(count)
            kept = np.flatnonzero(ranked.scores >= min_score)
            if len(kept) >= offset + k or len(ranked.scores) < count or self._most_behind(ranked) < min_score:
                return _rows(ranked, kept[offset : offset + k])
            count = DEEPER * max(1, count)

    def first(self, count: int) -> Ranked:
        """Return the first titles."""
        count = min(count, max(1, self.view.size))
        if self.mode == "hybrid":
            return self._first_of_both(count)
        if self.mode == "words":
            positions, scores = self.view.words.best(self.terms, count, self.allowed)
            return Ranked(positions, scores, self.view.cosines(self.vector, positions), scores)
        near = self._nearest(count)
        positions, scores = near.positions[:count], near.cosines[:count]
        return Ranked(positions, scores, scores, self.view.words.matches(self.terms, positions).sum(axis=1))

    @cached_property
    def head(self) -> Proposed:
        """The candidates of hybrid search, which the fusion orders."""
        view, depth = self.view, min(DEPTH, max(1, self.view.size))
        if isinstance(view, HybridAtOnce):
            positions, scores, matches, cosines = view.hybrid(self.terms, self.vector, depth, self.allowed)
            facts = candidates_of(self.terms, matches, cosines)
            is_whole = max(np.count_nonzero(facts.bm25), np.count_nonzero(facts.cosine)) < depth
            return Proposed(positions, scores, self.terms, facts, bool(is_whole))
        nearest = self._nearest(depth).positions
        by_words, _ = view.words.best(self.terms, depth, self.allowed)
        proposed = fuse(view, self.terms, self.vector, _union(nearest[:depth], by_words))
        return proposed._replace(is_whole=max(len(nearest), len(by_words)) < depth)

    def _first_of_both(self, count: int) -> Ranked:
        head, view = self.head, self.view
        ranked, missing = head.ranked(), count - len(head.positions)
        if missing <= 0 or head.is_whole:
            return _rows(ranked, slice(count))
        found, _ = view.words.best(self.terms, count, self.allowed)
        behind = found[~np.isin(found, head.positions)]
        if len(behind) < missing:  # these are all titles with a word of the query
            near = self._nearest(count).positions
            behind = np.concatenate((behind, near[~np.isin(near, np.concatenate((head.positions, behind)))]))
        behind = behind[:missing]
        facts = candidates_of(self.terms, view.words.matches(self.terms, behind), view.cosines(self.vector, behind))
        scores = view.fusion.scores(facts, head.facts)
        return Ranked(
            np.concatenate((ranked.positions, behind)),
            np.concatenate((ranked.scores, scores)),
            np.concatenate((ranked.cosine, facts.cosine), dtype=np.float32),
            np.concatenate((ranked.bm25, facts.bm25), dtype=np.float32),
        )

    def _nearest(self, count: int) -> Near:
        """Return at least the first titles by vectors."""
        if self._near is None or len(self._near.positions) == self._near.asked < count:
            ((positions, scores),) = nearest_titles(self.view, self.vector[None], count, self.allowed)
            self._near = Near(positions, scores, count)
        return self._near

    def _most_behind(self, ranked: Ranked) -> float:
        """Return a score that no title behind these exceeds."""
        if not len(ranked.scores):
            return -np.inf
        if self.mode != "hybrid":
            return float(ranked.scores[-1])
        cosine, bm25 = _least_in_head(self.head.facts)
        if len(ranked.scores) > len(self.head.positions):
            bm25, cosine = (float(ranked.bm25[-1]), cosine) if ranked.bm25[-1] else (0.0, float(ranked.cosine[-1]))
        return self.view.fusion.most(self.head.facts, max(cosine, 0.0), bm25)


def rankings(
    view: SearchView, queries: Sequence[str | None], vectors: Vectors, count: int, mode: str, allowed: Allowed
) -> Iterator[Ranking]:
    """Yield the order of each query. `count` titles of each will be asked for; they are searched in blocks."""
    if mode == "words" or (mode == "hybrid" and isinstance(view, HybridAtOnce) and None not in queries):
        for query, vector in zip(queries, vectors, strict=True):
            yield Ranking(view, query, vector, mode, allowed)
        return
    count = min(DEPTH if mode == "hybrid" else count, max(1, view.size))
    near = nearest_titles(view, vectors, count, allowed)
    for query, vector, (positions, cosines) in zip(queries, vectors, near, strict=True):
        yield Ranking(view, query, vector, mode, allowed, Near(positions, cosines, count))


def nearest_titles(
    view: SearchView, queries: Vectors, count: int, allowed: Allowed
) -> Iterator[tuple[Positions, Vectors]]:
    """Yield the first titles by vectors of each query, and their cosines. More titles begin with the same ones."""
    if view.is_exact:
        yield from view.nearest(queries, count, allowed)
        return
    for query, (positions, cosines) in zip(queries, view.nearest(queries, DEPTH, allowed), strict=True):
        depth = DEPTH
        while len(positions) == depth < count:
            depth *= DEEPER
            ((more, scores),) = view.nearest(query[None], depth, allowed)
            is_new = ~np.isin(more, positions)
            positions = np.concatenate((positions, more[is_new]))[:depth]
            cosines = np.concatenate((cosines, scores[is_new]))[:depth]
        yield positions[:count], cosines[:count]


def _rows(ranked: Ranked, rows: slice | Positions) -> Ranked:
    return Ranked(ranked.positions[rows], ranked.scores[rows], ranked.cosine[rows], ranked.bm25[rows])


def _least_in_head(facts: Candidates) -> tuple[float, float]:
    """Return the cosine and the BM25 that a title must exceed to be in the head; 0 where fewer than 100 titles are."""
    kept = [np.sort(part[part != 0])[::-1] for part in (facts.cosine, facts.bm25)]
    cosine, bm25 = (float(part[DEPTH - 1]) if len(part) >= DEPTH else 0.0 for part in kept)
    return cosine, bm25


def fuse(view: SearchView, terms: tuple[Term, ...], vector: Vectors, positions: Positions) -> Proposed:
    """Score titles, given by rising position, and sort them."""
    facts = candidates_of(terms, view.words.matches(terms, positions), view.cosines(vector, positions))
    scores = view.fusion.scores(facts)
    best = np.argsort(-scores, kind="stable")
    per_title = {name: getattr(facts, name)[best] for name in ("cosine", "matches")}
    return Proposed(positions[best], scores[best], terms, facts._replace(**per_title))


def _union(positions: Positions, others: Positions) -> Positions:
    """Return the positions of both, in rising order. For so few, this is faster than np.union1d."""
    every = np.sort(np.concatenate((positions, others)))
    is_first = np.ones(len(every), np.bool_)
    np.not_equal(every[1:], every[:-1], out=is_first[1:])
    return every[is_first]


# --- ranking one title -------------------------------------------------------------------------------------------


def rank_in_view(view: SearchView, query: str, vector: Vectors, title: int | str, mode: str) -> int | None:
    """Return the rank of a title among all hits of a query, from 1, or None if the query does not find it.

    The title is a position, or another text, which is ranked as if it were inserted last.
    """
    if mode == "vectors":
        return _rank_by_vectors(view, vector, title)
    everything = view.allowed(None)
    ranking = Ranking(view, query, vector, mode, everything)
    own = _facts_of_title(view, ranking.terms, vector, title)
    cosine, bm25 = float(own.cosine[0]), np.float32(own.bm25[0])
    if not bm25 and (mode == "words" or not cosine):
        return None
    if not view.size:
        return 1
    position = title if isinstance(title, int) else view.size
    if mode == "words":
        return _rank_by_words(view, ranking.terms, position, bm25)
    head = ranking.head
    place = np.flatnonzero(head.positions == position)
    if len(place):
        return 1 + int(place[0])
    if isinstance(title, str) and reaches_head(head, cosine, float(bm25)):
        score = view.fusion.scores(own, head.facts)[0]
        return 1 + _count_above(head.positions, head.scores, position, score)
    with_words, scores = view.words.best(ranking.terms, view.size, everything)
    is_behind = ~np.isin(with_words, head.positions)
    if bm25:
        behind = with_words[is_behind], scores[is_behind]
        place = np.flatnonzero(behind[0] == position)
        above = int(place[0]) if len(place) else _count_above(*behind, position, bm25)
        return 1 + len(head.positions) + above
    before = np.concatenate((head.positions, with_words[is_behind]))
    among = _count_above(before, view.cosines(vector, before), position, np.float32(cosine))
    return 1 + len(before) + view.count_above(vector, cosine, position) - among


def reaches_head(head: Proposed, cosine: float, bm25: float) -> bool:
    """Return whether a title that is not in the index would be one of the candidates."""
    least_cosine, least_bm25 = _least_in_head(head.facts)
    is_near = cosine > least_cosine or np.count_nonzero(head.facts.cosine) < DEPTH
    return bool((cosine and is_near) or bm25 > least_bm25)


def _rank_by_words(view: SearchView, terms: tuple[Term, ...], position: int, bm25: np.float32) -> int:
    depth, everything = DEPTH, view.allowed(None)
    while True:  # search deeper, until the title is among those found, or would be
        found, scores = view.words.best(terms, depth, everything)
        # The last bit of a score depends on the order in which terms are added: a title is not compared with itself.
        place = np.flatnonzero(found == position)
        if len(place):
            return 1 + int(place[0])
        if len(found) < depth or (position == view.size and bm25 > scores[-1]):
            return 1 + _count_above(found, scores, position, bm25)
        depth *= DEEPER


def _facts_of_title(view: SearchView, terms: tuple[Term, ...], vector: Vectors, title: int | str) -> Candidates:
    if isinstance(title, int):
        return fuse(view, terms, vector, np.array([title])).facts
    return facts_of_texts(view, terms, vector, [title])


def facts_of_texts(view: SearchView, terms: tuple[Term, ...], vector: Vectors, titles: Sequence[str]) -> Candidates:
    """Return what the fusion knows about any titles, as if they were in the view."""
    matches, _ = view.words.matches_of_texts(terms, titles)
    return candidates_of(terms, matches, exact_scores(encode_titles(view.encoder, list(titles), "float32"), vector))


def _count_above(positions: Positions, scores: Scores, position: int, score: np.float32) -> int:
    return int(((scores > score) | ((scores == score) & (positions < position))).sum())


def _rank_by_vectors(view: SearchView, query: Vectors, title: int | str) -> int | None:
    if isinstance(title, int):
        position, score = title, view.cosines(query, np.array([title]))[0]
        has_vector = bool(view.vectors_at(np.array([title])).any())
    else:
        vector = encode_titles(view.encoder, [title], "float32")
        position, score, has_vector = view.size, exact_scores(vector, query)[0], bool(vector.any())
    return 1 + view.count_above(query, score, position) if has_vector and query.any() else None
