"""Queries with known relevant titles, as an index is measured and fitted on them: a judged set or held-out clicks.

A relevant title is found by its id if most ids of the judged set that the index has mean titles of the same words;
otherwise by its words. Titles with the same words are then one title, and its copies in a result do not count.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.held_out_clicks import Collection
from clickvec.evaluation.metrics import ndcg_of_gains, recall_at, reciprocal_rank
from clickvec.model.fusion_report import MEASURES as MEASURES
from clickvec.search.documents.document import Document
from clickvec.search.hits import Hit
from clickvec.search.index import Index
from clickvec.text.tokens import canonical

DEPTH = 100

Source = Iterable[JudgedQuery] | ClickLog | Collection
Gains = Mapping[str, float]  # 2^grade - 1 of the relevant titles of a query, by the key of the title


class IndexQuery(NamedTuple):
    """A query and the gains of its relevant titles."""

    query_id: str
    text: str
    gains: Gains


class IndexQueries(NamedTuple):
    """Queries to measure an index on."""

    queries: tuple[IndexQuery, ...]
    by_id: bool  # whether the key of a title is its id; otherwise its words
    left_out: int  # queries without a relevant title
    known: frozenset[str]  # the keys of the relevant titles that are in the index

    def key(self, document: Document | Hit) -> str:
        """Return what identifies a title."""
        return str(document.id) if self.by_id else canonical(document.title)

    def sample(self, most: int, seed: int = 0) -> "IndexQueries":
        """Return these queries or, if there are more than `most`, a random sample of that size."""
        if len(self.queries) <= most:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(len(self.queries), most, replace=False))
        return self._replace(queries=tuple(self.queries[at] for at in chosen.tolist()))

    def present(self) -> "IndexQueries":
        """Return the queries of which the index has a relevant title."""
        return self._replace(queries=tuple(query for query in self.queries if not self.known.isdisjoint(query.gains)))

    @property
    def absent(self) -> int:
        """The number of relevant titles that are not in the index. They count as not found."""
        return sum(key not in self.known for query in self.queries for key in query.gains)


def index_queries(index: Index, source: Source) -> IndexQueries:
    """Return the queries of a judged set, of a click log or of a collection that have a relevant title.

    The ids of the index must be the rows of the collection. Raise ClickvecError if there are no such queries, or if the
    index has none of the relevant titles.
    """
    if isinstance(source, ClickLog):
        everything, by_id = _of_clicks(source), False
    elif isinstance(source, Collection):
        everything, by_id = list(map(_of_collection, source.queries, source.clicked)), True
    else:
        judged = list(source)
        by_id = _has_ids_of(index, judged)
        everything = [_of_judged(query, by_id) for query in judged]
    queries = tuple(query for query in everything if query.gains)
    if not queries:
        raise ClickvecError(f"none of the {len(everything):,} queries has a relevant title (grade 1 or more)")
    known = _keys_in(index, {key for query in queries for key in query.gains}, by_id)
    if not known:
        raise ClickvecError("the index has none of the relevant titles, neither by id nor by words; use its own log")
    return IndexQueries(queries, by_id, len(everything) - len(queries), frozenset(known))


def _has_ids_of(index: Index, judged: Sequence[JudgedQuery]) -> bool:
    """Return whether ids of the judged set mean the same titles in the index, and not others by chance."""
    same = found = 0
    for doc_id, title in {pair for query in judged for pair in zip(query.doc_ids, query.titles, strict=True)}:
        document = index.get(doc_id)
        found += document is not None
        same += document is not None and canonical(document.title) == canonical(title)
    return 2 * same > found


def _of_clicks(log: ClickLog) -> list[IndexQuery]:
    queries: dict[str, tuple[str, dict[str, float]]] = {}
    for query, title in zip(log.queries, log.titles, strict=True):
        queries.setdefault(canonical(query), (query, {}))[1][canonical(title)] = 1.0
    return [IndexQuery(str(number), text, gains) for number, (text, gains) in enumerate(queries.values())]


def _of_judged(query: JudgedQuery, by_id: bool) -> IndexQuery:
    keys = query.doc_ids if by_id else tuple(map(canonical, query.titles))
    gains: dict[str, float] = {}
    for key, grade in zip(keys, query.grades.tolist(), strict=True):
        if grade >= 1:
            gains[key] = max(gains.get(key, 0.0), 2.0**grade - 1)
    return IndexQuery(query.query_id, query.query, gains)


def _of_collection(query: str, clicked: frozenset[int]) -> IndexQuery:
    return IndexQuery(query, query, {str(row): 1.0 for row in clicked})


def _keys_in(index: Index, wanted: set[str], by_id: bool) -> set[str]:
    """Return the keys that the index has."""
    if by_id:
        return {key for key in wanted if index.get(key) is not None}
    return wanted.intersection(canonical(document.title) for document in index)


def values_of(keys: Iterable[str], gains: Gains) -> tuple[float, float, float]:
    """Return the measures, in per cent, of a search that returned these titles, best first."""
    return values_of_gains(np.array([gains.get(key, 0.0) for key in dict.fromkeys(keys)], np.float64), gains)


def values_of_gains(found: NDArray[np.float64], gains: Gains) -> tuple[float, float, float]:
    """Return the measures, in per cent, of a search that returned titles with these gains, best first."""
    is_relevant = found[:DEPTH] > 0
    return (
        100 * reciprocal_rank(is_relevant, 10),
        100 * recall_at(is_relevant, DEPTH, len(gains)),
        100 * ndcg_of_gains(found, list(gains.values()), 10),
    )


def values_table(rows: Iterable[tuple[float, float, float]]) -> NDArray[np.float64]:
    """Return (measures, queries)."""
    return np.ascontiguousarray(np.array(list(rows), np.float64).reshape(-1, len(MEASURES)).T)


def folds_of(count: int, folds: int, seed: int = 0) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yield (queries to fit on, queries to measure) for cross-validation."""
    part = np.empty(count, np.int64)
    part[np.random.default_rng(seed).permutation(count)] = np.arange(count) % folds
    for fold in range(min(folds, count)):
        yield np.flatnonzero(part != fold).tolist(), np.flatnonzero(part == fold).tolist()
