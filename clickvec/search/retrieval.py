"""Find titles in a view: by words, by vectors, or by both (hybrid).

Hybrid search takes the best titles by words and the best by vectors as candidates, looks up the part that is missing
(the cosine of what only words have found, BM25 of what only vectors have found), and fuses the parts into a score.
"""

from collections.abc import Iterator, Sequence
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
from clickvec.search.view_protocol import Allowed, HybridAtOnce, Positions, SearchView

MODES = ("hybrid", "words", "vectors")
DEPTH = 100  # titles that words and vectors each propose, if no more are asked for

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
    documents: tuple[Document, ...] = ()

    def ranked(self) -> Ranked:
        """Return the same titles without the facts."""
        cosine, bm25 = (np.asarray(part, np.float32) for part in (self.facts.cosine, self.facts.bm25))
        return Ranked(self.positions, self.scores, cosine, bm25)


def check_mode(mode: str) -> None:
    """Refuse an unknown mode."""
    if mode not in MODES:
        raise ClickvecError(f"the mode is {mode!r}; it must be {', '.join(MODES[:-1])} or {MODES[-1]}")


def search_view(
    view: SearchView, queries: Sequence[str | None], vectors: Vectors, k: int, mode: str, allowed: Allowed
) -> Iterator[Ranked]:
    """Yield the best k titles of each query. A query without text is searched by its vector alone."""
    depth = min(max(1, view.size), k)
    if mode == "hybrid":
        depth = min(max(1, view.size), max(DEPTH, 2 * k))
        if isinstance(view, HybridAtOnce) and None not in queries:
            for query, vector in zip(queries, vectors, strict=True):
                yield propose_at_once(view, view.words.terms(query or ""), vector, depth, allowed).ranked()
            return
    near = iter(view.nearest(vectors, depth, allowed, thorough=mode == "vectors")) if mode != "words" else None
    for query, vector in zip(queries, vectors, strict=True):
        nearest = next(near) if near else None
        if query is None:
            positions, scores = nearest or (np.zeros(0, np.int64), np.zeros(0, np.float32))
            yield Ranked(positions, scores, scores, np.zeros(len(positions), np.float32))
        elif mode == "hybrid" and nearest:
            yield propose(view, query, vector, nearest[0], depth, allowed).ranked()
        elif nearest:
            positions, scores = nearest
            bm25 = view.words.matches(view.words.terms(query), positions).sum(axis=1)
            yield Ranked(positions, scores, scores, bm25)
        else:
            positions, scores = view.words.best(view.words.terms(query), depth, allowed)
            yield Ranked(positions, scores, view.cosines(vector, positions), scores)


def propose(
    view: SearchView, query: str, vector: Vectors, nearest: Positions, depth: int, allowed: Allowed
) -> Proposed:
    """Return the fused candidates of a query: the `nearest` by vectors, and the best `depth` by words."""
    terms = view.words.terms(query)
    by_words, _ = view.words.best(terms, depth, allowed)
    return fuse(view, terms, vector, _union(nearest, by_words))


def propose_at_once(
    view: HybridAtOnce, terms: tuple[Term, ...], vector: Vectors, depth: int, allowed: Allowed
) -> Proposed:
    """Return the fused candidates of a query from a view that does this in one step."""
    positions, scores, matches, cosines = view.hybrid(terms, vector, depth, allowed)
    return Proposed(positions, scores, terms, candidates_of(terms, matches, cosines))


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
    terms = view.words.terms(query)
    own = _facts_of_title(view, terms, vector, title)
    cosine, bm25 = float(own.cosine[0]), np.float32(own.bm25[0])
    if (not bm25 and (mode == "words" or not cosine)) or not view.size:
        return None if view.size or not (bm25 or cosine) else 1
    position = title if isinstance(title, int) else view.size
    depth, everything = DEPTH, view.allowed(None)
    while True:  # search deeper, until the title would be among the candidates
        depth = min(depth, view.size)
        near, near_scores = next(iter(view.nearest(vector[None], depth, everything)))
        found, found_scores = view.words.best(terms, depth, everything)
        is_near = mode == "hybrid" and _reaches(cosine, near_scores, depth)
        if depth == view.size or is_near or _reaches(bm25, found_scores, depth):
            break
        depth *= 10
    if mode == "words":
        # The last bit of a score depends on the order in which terms are added: a title is not compared with itself.
        place = np.flatnonzero(found == position)
        return 1 + (int(place[0]) if len(place) else _count_above(found, found_scores, position, bm25))
    others = fuse(view, terms, vector, _union(near, found))
    return 1 + _count_above(others.positions, others.scores, position, view.fusion.scores(own)[0])


def _facts_of_title(view: SearchView, terms: tuple[Term, ...], vector: Vectors, title: int | str) -> Candidates:
    if isinstance(title, int):
        return fuse(view, terms, vector, np.array([title])).facts
    return facts_of_texts(view, terms, vector, [title])


def facts_of_texts(view: SearchView, terms: tuple[Term, ...], vector: Vectors, titles: Sequence[str]) -> Candidates:
    """Return what the fusion knows about any titles, as if they were in the view."""
    matches, _ = view.words.matches_of_texts(terms, titles)
    return candidates_of(terms, matches, exact_scores(encode_titles(view.encoder, list(titles), "float32"), vector))


def _reaches(score: float | np.float32, scores: Scores, depth: int) -> bool:
    """Return whether a title with this score would be among the best ones."""
    return bool(score) and (len(scores) < depth or bool(score >= scores[-1]))


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
