"""The protocol of rankers, and a base class that implements everything but `score`."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

from clickvec.evaluation.metrics import Scores, rank_order
from clickvec.progress import Progress

QueryTitles = tuple[str, Sequence[str]]  # a query and the distinct titles to score for it


class Ranker(Protocol):
    """Scores titles for queries. To write one, derive from `BaseRanker`."""

    @property
    def name(self) -> str:
        """The name of the system in tables."""
        ...

    def score(self, query: str, titles: Sequence[str], /) -> Scores:
        """Return one finite score per title; higher is better. The titles are distinct."""
        ...

    def score_lists(self, lists: Sequence[QueryTitles], /) -> Iterable[Scores]:
        """Return the scores of many queries, each with its own titles.

        This is the batch version of `score`: a ranker that encodes titles encodes all of them at once.
        """
        ...

    def search(
        self, queries: Sequence[str], ids: Sequence[str], titles: Sequence[str], k: int, progress: Progress | None, /
    ) -> Sequence[Sequence[str]]:
        """Return for each query the ids of the k best titles of a catalogue, best first."""
        ...


class BaseRanker(ABC):
    """A ranker that scores query by query, and searches by scoring every title of the catalogue."""

    name: str

    @abstractmethod
    def score(self, query: str, titles: Sequence[str], /) -> Scores:
        """Return one finite score per title; higher is better. The titles are distinct."""

    def score_lists(self, lists: Sequence[QueryTitles], /) -> Iterable[Scores]:
        """Score query by query."""
        return (self.score(query, titles) for query, titles in lists)

    def search(
        self, queries: Sequence[str], ids: Sequence[str], titles: Sequence[str], k: int, progress: Progress | None, /
    ) -> Sequence[Sequence[str]]:
        """Score every title, and return the k best whose score is not 0."""
        results = []
        for query in queries:
            scores = self.score(query, titles)
            results.append([ids[row] for row in rank_order(scores, ids)[:k].tolist() if scores[row]])
        return results
