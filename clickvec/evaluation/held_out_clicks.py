"""Measure systems by clicks that were held out: each searches the whole catalogue for the titles that were clicked.

A clicked title is relevant, however often it was clicked; every other title is not. The measures are MRR@10, Recall@100
and NDCG@10, in per cent, with 95% confidence intervals by bootstrap over queries.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import ndcg_of_found, recall_at, reciprocal_rank
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.result import CATALOGUE, Evaluation
from clickvec.progress import Progress
from clickvec.text.tokens import canonical

MEASURES = ("MRR@10", "Recall@100", "NDCG@10")
CHOSEN_BY = "NDCG@10"  # chooses the epoch and the settings of BM25
DEPTH = 100  # titles that a system returns for a query
MOST_DEV = 2_000  # queries that are searched after each epoch; of more, a random sample


class Catalogue:
    """The distinct titles that are searched. Titles with the same words are one title."""

    def __init__(self, titles: Iterable[str]) -> None:
        """Collect the distinct titles, in order of first appearance."""
        self.titles: list[str] = []
        self.row: dict[str, int] = {}
        self.add(titles)

    def add(self, titles: Iterable[str]) -> None:
        """Add the titles that are not there yet."""
        for title in dict.fromkeys(titles):
            if self.row.setdefault(canonical(title), len(self.titles)) == len(self.titles):
                self.titles.append(title)


class Collection(NamedTuple):
    """A test collection: queries, the rows of the titles that were clicked for each, and the catalogue."""

    queries: tuple[str, ...]
    clicked: tuple[frozenset[int], ...]
    catalogue: Catalogue

    def sample(self, most: int, seed: int = 0) -> "Collection":
        """Return the collection or, if it has more than `most` queries, a random sample of that size."""
        if len(self.queries) <= most:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(len(self.queries), most, replace=False)).tolist()
        queries, clicked = tuple(self.queries[at] for at in chosen), tuple(self.clicked[at] for at in chosen)
        return Collection(queries, clicked, self.catalogue)


def collection(log: ClickLog, catalogue: Catalogue) -> Collection:
    """Return the queries of a click log with their clicked titles. Clicked titles are added to the catalogue."""
    catalogue.add(log.titles)
    clicked: dict[str, set[int]] = {}
    first_text: dict[str, str] = {}
    for query, title in zip(log.queries, log.titles, strict=True):
        key = canonical(query)
        first_text.setdefault(key, query)
        clicked.setdefault(key, set()).add(catalogue.row[canonical(title)])
    return Collection(tuple(first_text.values()), tuple(map(frozenset, clicked.values())), catalogue)


def judged_collection(judged: Iterable[JudgedQuery], catalogue: Catalogue) -> Collection:
    """Return a judged set as searches of a catalogue: titles of grade 1 or more count as clicked.

    Queries without such a title are left out. Relevant titles are added to the catalogue.
    """
    queries, clicked = list[str](), list[frozenset[int]]()
    for query in judged:
        relevant = [title for title, grade in zip(query.titles, query.grades.tolist(), strict=True) if grade >= 1]
        if relevant:
            catalogue.add(relevant)
            queries.append(query.query)
            clicked.append(frozenset(catalogue.row[canonical(title)] for title in relevant))
    return Collection(tuple(queries), tuple(clicked), catalogue)


def measure(
    rankers: Sequence[Ranker] | Mapping[str, Ranker], test: Collection, progress: Progress | None = None
) -> Evaluation:
    """Let each system search the catalogue for all queries, and return its measures on each."""
    names = tuple(rankers) if isinstance(rankers, Mapping) else tuple(ranker.name for ranker in rankers)
    rankers = list(rankers.values()) if isinstance(rankers, Mapping) else rankers
    if len(set(names)) < len(names):
        raise ClickvecError(f"two systems have the same name ({', '.join(names)}); give each once")
    if not test.queries:
        raise ClickvecError("there are no held-out queries to measure")
    values = np.stack([_values(ranker, test, progress) for ranker in rankers])
    return Evaluation(names, MEASURES, (CATALOGUE,) * 3, test.queries, 0, values, sum(map(len, test.clicked)))


def _values(ranker: Ranker, test: Collection, progress: Progress | None) -> NDArray[np.float64]:
    """Return (measures, queries), in per cent."""
    columns = []
    for found, clicked in zip(search(ranker, test, progress), test.clicked, strict=True):
        hits = [row in clicked for row in found]
        columns.append((
            reciprocal_rank(hits, 10), recall_at(hits, DEPTH, len(clicked)), ndcg_of_found(hits, len(clicked), 10)
        ))  # fmt: skip
    return 100 * np.ascontiguousarray(np.array(columns).T)


def search(ranker: Ranker, test: Collection, progress: Progress | None = None) -> list[list[int]]:
    """Return for each query the rows of the titles that a system returns, best first."""
    titles = test.catalogue.titles
    results = ranker.search(test.queries, [str(row) for row in range(len(titles))], titles, DEPTH, progress)
    if len(results) != len(test.queries):
        raise ClickvecError(f"{ranker.name} was asked {len(test.queries)} queries and gave {len(results)} lists")
    return [list(map(int, dict.fromkeys(ids))) for ids in results]


def pooled_lists(test: Collection, rankers: Sequence[Ranker], progress: Progress | None = None) -> list[JudgedQuery]:
    """Return a judged set: for each query its clicked titles (grade 1) and all others that a system returns (grade 0).

    Among these titles, each system has the same NDCG@10 as in a search of the whole catalogue, if ten titles or more
    score above 0.
    """
    pools = zip(*(search(ranker, test, progress) for ranker in rankers), strict=True)
    titles = test.catalogue.titles
    lists = []
    for number, (query, clicked, found) in enumerate(zip(test.queries, test.clicked, pools, strict=True)):
        rows = list(dict.fromkeys([*sorted(clicked), *(row for part in found for row in part)]))
        grades = np.array([row in clicked for row in rows], np.int64)
        lists.append(JudgedQuery(str(number), query, tuple(map(str, rows)), tuple(titles[row] for row in rows), grades))
    return lists
