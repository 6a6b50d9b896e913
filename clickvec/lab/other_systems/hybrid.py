"""Combinations of two rankers: word matching and vectors make different mistakes.

Measured on msrd dev with an LSTM-RNN and BM25, three seeds: a `Mixture` with a weight of 0.15 to 0.2 for BM25 beats
both by 0.2 to 0.5 points of NDCG on average, though not at every cutoff of every seed. Reciprocal rank fusion weights
its parts equally: its result lies between them if one is much weaker (BM25 here), and above both if they are close.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import QueryTitles, Ranker
from clickvec.search.rerank import standard

# The settings to choose from on dev: keyword arguments of the two classes.
RRF_GRID: tuple[dict[str, Any], ...] = tuple({"k": k} for k in (1, 5, 20, 60))
# With a weight of 1, the first ranker decides alone.
MIXTURE_GRID: tuple[dict[str, Any], ...] = tuple(
    {"weight": weight} for weight in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
)

Floats = NDArray[np.float64]


class ReciprocalRank(Ranker):
    """Reciprocal rank fusion (Cormack et al. 2009): the sum over the rankers of 1 / (k + rank).

    Titles with equal scores share the mean of their ranks, so that ties (for BM25, all titles without a query word) do
    not influence the order.
    """

    def __init__(self, rankers: Sequence[Ranker], k: float = 60, name: str | None = None) -> None:
        """Combine `rankers`. The smaller `k`, the more the first ranks count."""
        if not rankers or k < 0:
            raise ClickvecError(
                f"rank fusion needs a ranker and a k of 0 or more; got {len(rankers)} rankers and k = {k}"
            )
        self.rankers = tuple(rankers)
        self.k = k
        self.name = name or " + ".join(ranker.name for ranker in rankers)

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the sum of the reciprocal ranks of each title."""
        return next(self.score_lists([(query, titles)]))

    def score_lists(self, lists: Sequence[QueryTitles]) -> Iterator[Scores]:
        """Score with each ranker, and add up the reciprocal ranks."""
        for parts in zip(*(ranker.score_lists(lists) for ranker in self.rankers), strict=True):
            yield np.asarray(np.sum([1 / (self.k + mean_ranks(part)) for part in parts], axis=0), dtype=np.float32)


class Mixture(Ranker):
    """weight · standard(first) + (1 - weight) · standard(second), each standardised over the titles of the query.

    On dev, the way of making scores comparable hardly matters: standard scores, min-max, or BM25 divided by its maximum
    or by the score of the query itself differ by at most 0.2 points of NDCG. Standard scores need no knowledge of the
    rankers and are robust against a single outlier.
    """

    def __init__(self, first: Ranker, second: Ranker, weight: float, name: str | None = None) -> None:
        """Mix two rankers. `weight`, 0 to 1, is the weight of the first."""
        if not 0 <= weight <= 1:
            raise ClickvecError(f"the weight of {first.name} is {weight}; it must be between 0 and 1")
        self.first, self.second = first, second
        self.weight = weight
        self.name = name or f"{first.name} + {second.name}"

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the weighted sum of the standard scores of each title."""
        return next(self.score_lists([(query, titles)]))

    def score_lists(self, lists: Sequence[QueryTitles]) -> Iterator[Scores]:
        """Score with both rankers, and add up the weighted standard scores."""
        for first, second in zip(self.first.score_lists(lists), self.second.score_lists(lists), strict=True):
            yield (self.weight * standard(first) + (1 - self.weight) * standard(second)).astype(np.float32)


def mean_ranks(scores: NDArray[np.float32]) -> Floats:
    """Return the rank of each score, 1 for the highest; equal scores share the mean of their ranks."""
    _, group, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    mean: Floats = np.cumsum(counts) - (counts - 1) / 2
    return mean[group]
