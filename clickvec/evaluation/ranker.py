"""The base class of everything that ranks titles."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from clickvec.evaluation.metrics import Scores
from clickvec.progress import Progress

QueryTitles = tuple[str, Sequence[str]]  # a query and the distinct titles to score for it


class Ranker(ABC):
    """Scores titles for queries. To write one, implement `score`; override the others if batches are faster."""

    name: str  # of the system in tables

    @abstractmethod
    def score(self, query: str, titles: Sequence[str], /) -> Scores:
        """Return one finite score per title; higher is better. The titles are distinct."""

    def score_lists(self, lists: Sequence[QueryTitles], /) -> Iterable[Scores]:
        """Return the scores of many queries, each with its own titles."""
        return (self.score(query, titles) for query, titles in lists)

    def search(
        self, queries: Sequence[str], ids: Sequence[str], titles: Sequence[str], k: int, progress: Progress | None, /
    ) -> Sequence[Sequence[str]]:
        """Return for each query the ids of the k best titles of a catalogue, best first, without those that score 0."""
        by_id = np.array(sorted(range(len(ids)), key=ids.__getitem__, reverse=True), np.intp)
        results = []
        for query in queries:
            scores = np.asarray(self.score(query, titles), np.float32)[by_id]
            best = np.argsort(-scores, kind="stable")[:k]  # equal scores stay ordered by id, descending
            results.append([ids[by_id[at]] for at in best.tolist() if scores[at]])
        return results
