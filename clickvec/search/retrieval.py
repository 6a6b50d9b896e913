"""Find titles in a view: by one part of the score, or by all of them (hybrid). This is the one place that orders them.

Each mode has one order of the titles that a query finds. Pages are cuts of it.

    words, vectors    by this part's own score: BM25, the cosine
    hybrid            the head, by the fused score: the best 100 titles by each part that proposes; then the further
                      titles of each of these parts, by its own score: first those with a word of the query, then all
                      others by cosine

Equal scores are in the order of positions. The score of a hybrid hit is always the fused score, also behind the head.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.search.documents.document import Document
from clickvec.search.fusion import Candidates, candidates_at, candidates_of_texts
from clickvec.search.parts import MODES, PARTS, PROPOSING
from clickvec.search.parts.part import PartQuery, Query
from clickvec.search.title_view import DEPTH, Allowed, Positions
from clickvec.search.view_protocol import HybridAtOnce, SearchView

DEEPER = 10  # a search with a least score looks for so many times more titles each time

Scores = NDArray[np.float32]


class Ranked(NamedTuple):
    """Titles for one query, best first, and what each part says about them. Equal scores are in order of positions."""

    positions: Positions
    scores: Scores
    own: Mapping[str, Scores]  # by the names of the parts

    def take(self, rows: slice | Positions) -> "Ranked":
        """Return some of the titles."""
        return Ranked(self.positions[rows], self.scores[rows], {name: own[rows] for name, own in self.own.items()})


class Proposed(NamedTuple):
    """The candidates of hybrid search for one query, best first, and what the fusion knows about each."""

    positions: Positions
    scores: Scores
    candidates: Candidates  # by rising position
    rows: Positions  # the row of each title in `candidates`
    is_whole: bool = False  # whether the query finds no other titles
    documents: tuple[Document, ...] = ()


def check_mode(mode: str) -> None:
    """Refuse an unknown mode."""
    if mode not in MODES:
        raise ClickvecError(f"the mode is {mode!r}; it must be {', '.join(MODES[:-1])} or {MODES[-1]}")


class Ranking:
    """The order of the titles that one query finds."""

    def __init__(self, view: SearchView, parts: Sequence[PartQuery], mode: str, allowed: Allowed) -> None:
        """Search nothing yet."""
        self.view, self.parts, self.mode, self.allowed = view, tuple(parts), mode, allowed

    def part(self, name: str) -> PartQuery:
        """Return a part of the query."""
        return next(one for one in self.parts if one.part.name == name)

    def page(self, offset: int, k: int, min_score: float | None) -> Ranked:
        """Return k titles after the first `offset` ones, of those that have at least this score."""
        if min_score is None:
            ranked = self.first(offset + k)
            return ranked.take(slice(offset, None)) if offset else ranked
        count = len(self.head.positions) if self.mode == "hybrid" else DEPTH
        while True:
            ranked = self.first(count)
            kept = np.flatnonzero(ranked.scores >= min_score)
            if len(kept) >= offset + k or len(ranked.scores) < count or self._most_behind(ranked) < min_score:
                return ranked.take(kept[offset : offset + k])
            count = DEEPER * max(1, count)

    def first(self, count: int) -> Ranked:
        """Return the first titles."""
        count = min(count, max(1, self.view.size))
        if self.mode == "hybrid":
            return self._first_of_all(count)
        positions, scores = self.part(self.mode).best(count)
        own = {one.part.name: scores if one.part.name == self.mode else one.own(positions) for one in self.parts}
        return Ranked(positions, scores, own)

    @cached_property
    def head(self) -> Proposed:
        """The candidates of hybrid search, which the fusion orders."""
        view, depth = self.view, min(DEPTH, max(1, self.view.size))
        at_once = view.hybrid(self.parts, depth) if isinstance(view, HybridAtOnce) else None
        if at_once is not None:
            positions, scores, candidates = at_once
            most = max(np.count_nonzero(candidates.values[part.name].own) for part in PROPOSING)
            return Proposed(positions, scores, candidates, np.arange(len(positions)), bool(most < depth))
        found = [one.best(depth)[0] for one in self.parts if one.part.proposes]
        positions = _union(found)
        candidates = candidates_at(self.parts, positions)
        scores = view.fusion.scores(candidates)
        best = np.argsort(-scores, kind="stable")
        return Proposed(positions[best], scores[best], candidates, best, max(map(len, found)) < depth)

    def _first_of_all(self, count: int) -> Ranked:
        head = self.head
        if count <= len(head.positions) or head.is_whole:
            return Ranked(head.positions[:count], head.scores[:count], _own(head.candidates, head.rows[:count]))
        positions = head.positions
        for part in PROPOSING:
            further, _ = self.part(part.name).best(count)
            positions = np.concatenate((positions, further[~np.isin(further, positions)]))[:count]
            if len(positions) == count:
                break
        behind = positions[len(head.positions) :]
        candidates = candidates_at(self.parts, behind)
        scores, own = self.view.fusion.scores(candidates, head.candidates), _own(candidates)
        return Ranked(
            positions,
            np.concatenate((head.scores, scores)),
            {name: np.concatenate((of, own[name])) for name, of in _own(head.candidates, head.rows).items()},
        )

    def _most_behind(self, ranked: Ranked) -> float:
        """Return a score that no title behind these exceeds."""
        if not len(ranked.scores):
            return -np.inf
        if self.mode != "hybrid":
            return float(ranked.scores[-1])
        bounds = {name: least for name, (least, _) in _least_in_head(self.head.candidates).items()}
        if len(ranked.scores) > len(self.head.positions):  # the last title is the best of what is left of one part
            for part in PROPOSING:
                bounds[part.name] = float(ranked.own[part.name][-1])
                if bounds[part.name]:
                    break
        most = {one.part.name: one.most for one in self.parts if not one.part.proposes}
        bounds = {name: max(0.0, bound) for name, bound in bounds.items()}
        return self.view.fusion.most(self.head.candidates, most | bounds)


def rankings(
    view: SearchView, queries: Sequence[Query], mode: str, allowed: Allowed, count: int = DEPTH
) -> Iterator[Ranking]:
    """Yield the order of each query. `count` titles of each will be asked for, so that parts can search in blocks."""
    check_mode(mode)
    at_once = mode == "hybrid" and isinstance(view, HybridAtOnce)
    counts = {
        part.name: DEPTH if mode == "hybrid" and not at_once else count if mode == part.name else 0 for part in PARTS
    }
    of_parts = [part.queries(view, queries, allowed, counts[part.name]) for part in PARTS]
    for parts in zip(*of_parts, strict=True):
        yield Ranking(view, parts, mode, allowed)


def ranking_of(view: SearchView, query: str, mode: str = "hybrid", allowed: Allowed = None) -> Ranking:
    """Return the order of one query. `allowed` is what the view has made of a filter."""
    (ranking,) = rankings(view, [Query(query)], mode, allowed, 0)
    return ranking


def _own(candidates: Candidates, rows: slice | Positions = slice(None)) -> dict[str, Scores]:
    return {name: values.own[rows].astype(np.float32) for name, values in candidates.values.items()}


def _least_in_head(candidates: Candidates) -> dict[str, tuple[float, bool]]:
    """Return what a title must exceed by each part to be a candidate, and whether any value will do."""
    least = {}
    for part in PROPOSING:
        own = candidates.values[part.name].own
        found = np.sort(own[own != 0])[::-1]
        is_full = len(found) >= DEPTH
        least[part.name] = (float(found[DEPTH - 1]) if is_full else 0.0, not is_full)
    return least


def _union(found: Sequence[Positions]) -> Positions:
    """Return the positions of all, in rising order. For so few, this is faster than np.union1d."""
    every = np.sort(np.concatenate(found))
    is_first = np.ones(len(every), np.bool_)
    np.not_equal(every[1:], every[:-1], out=is_first[1:])
    return every[is_first]


# --- ranking one title -------------------------------------------------------------------------------------------


def rank_in_view(ranking: Ranking, title: int | str) -> int | None:
    """Return the rank of a title among all hits of a query, from 1, or None if the query does not find it.

    The title is a position, or another text, which is ranked as if it were inserted last.
    """
    view, mode = ranking.view, ranking.mode
    if mode != "hybrid":
        return ranking.part(mode).rank(title)
    own = of_title(ranking, title)
    found_by = [part.name for part in PROPOSING if own.values[part.name].own[0]]
    if not found_by:
        return None
    if not view.size:
        return 1
    head = ranking.head
    place = np.flatnonzero(head.positions == title) if isinstance(title, int) else head.positions[:0]
    if len(place):
        return 1 + int(place[0])
    if isinstance(title, str) and reaches_head(head, own):
        score = view.fusion.scores(own, head.candidates)[0]
        return 1 + int((head.scores >= score).sum())
    # It is behind the head, among the further titles of the first part that finds it.
    before = head.positions
    for part in PROPOSING:
        query = ranking.part(part.name)
        if part.name == found_by[0]:
            rank = query.rank(title)
            assert rank is not None
            return rank + len(before) - query.count_before(title, before)
        further, _ = query.best(view.size)
        before = np.concatenate((before, further[~np.isin(further, before)]))
    raise AssertionError(found_by)


def of_title(ranking: Ranking, title: int | str) -> Candidates:
    """Return what the parts say about a title: a position, or a text as if it were in the view."""
    if isinstance(title, int):
        return candidates_at(ranking.parts, np.array([title]))
    return candidates_of_texts(ranking.parts, [title])


def reaches_head(head: Proposed, title: Candidates) -> bool:
    """Return whether a title that is not in the index would be one of the candidates."""
    own = {name: float(values.own[0]) for name, values in title.values.items()}
    return any(
        bool(own[name]) and (is_open or own[name] > least)
        for name, (least, is_open) in _least_in_head(head.candidates).items()
    )
