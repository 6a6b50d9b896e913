"""What every ranker does, and the base class of those that need no preparation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

# Takes queries and k; gives for each query the ids of at most k titles, best first.
Search = Callable[[list[str], int], Sequence[Sequence[str]]]


class Ranker(Protocol):
    """Scores titles for a query. A ranker that wraps another must pass on `prepared` to it."""

    @property
    def name(self) -> str:
        """What tables call the system."""
        ...

    def score(self, query: str, titles: Sequence[str], /) -> NDArray[np.float32]:
        """One finite score a title; higher is better. The titles are distinct."""
        ...

    def prepared(self, titles: Sequence[str], /) -> "Ranker":
        """Return the same ranker, ready to score these titles and no others, for any number of queries.

        Encoding many titles at once is far faster than a few for each query.
        """
        ...

    def search_over(self, ids: Sequence[str], titles: Sequence[str], /) -> Search:
        """Return a search over a catalogue."""
        ...


class BaseRanker(ABC):
    """The base class of rankers: nothing to prepare, and a search that scores every title."""

    @abstractmethod
    def score(self, query: str, titles: Sequence[str], /) -> NDArray[np.float32]:
        """One finite score a title; higher is better. The titles are distinct."""

    def prepared(self, titles: Sequence[str], /) -> Self:
        """Return the ranker itself: each score is computed when it is asked for."""
        return self

    def search_over(self, ids: Sequence[str], titles: Sequence[str], /) -> Search:
        """Return a search that scores every title and finds those whose score is not 0."""
        from clickvec.evaluation.metrics import rank_order

        def search(queries: list[str], k: int) -> list[list[str]]:
            found = []
            for query in queries:
                scores = self.score(query, titles)
                found.append([ids[row] for row in rank_order(scores, ids)[:k].tolist() if scores[row]])
            return found

        return search
