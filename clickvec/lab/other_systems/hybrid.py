"""Rankers combined: words that match and meanings that match make different mistakes.

Measured on msrd dev, an LSTM-RNN with BM25, three seeds: a `Mixture` with a weight of 0.15 to 0.2 for BM25 is ahead of
both, by 0.2 to 0.5 points of NDCG in the mean, though not at every cutoff of every seed. Reciprocal rank fusion trusts
its parts alike: it falls between them where one is much weaker (BM25 here), and gains where they are near each other.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import BaseRanker, QueryTitles, Ranker

# To choose from on dev: keyword arguments of the two classes.
RRF_GRID: tuple[dict[str, Any], ...] = tuple({"k": k} for k in (1, 5, 20, 60))
# A weight of 1 is the first ranker alone: where the second has nothing to add, dev may say so.
MIXTURE_GRID: tuple[dict[str, Any], ...] = tuple(
    {"weight": weight} for weight in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
)

Floats = NDArray[np.float64]


class ReciprocalRank(BaseRanker):
    """Reciprocal rank fusion (Cormack et al. 2009): the sum over the rankers of 1 / (k + rank).

    Titles to which a ranker gives the same score share the mean of their ranks, so that its ties (to BM25, all titles
    without a word of the query) say nothing about their order.
    """

    def __init__(self, rankers: Sequence[Ranker], k: float = 60, name: str | None = None) -> None:
        """Fuse `rankers`; the smaller `k`, the more the first few places count."""
        if not rankers or k < 0:
            raise ClickvecError(f"rank fusion takes one ranker or more and a k from 0 up, not {len(rankers)} and {k}")
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


class Mixture(BaseRanker):
    """weight · standard(first) + (1 - weight) · standard(second), each standardised over the titles of the query.

    On dev it makes little difference how scores become comparable: standard scores, min-max, the cosine with BM25 over
    its maximum or over what the query scores on itself are within 0.2 points of NDCG of each other. Standard scores
    need to know nothing of the rankers, and one title that is far off does not set their scale alone.
    """

    def __init__(self, first: Ranker, second: Ranker, weight: float, name: str | None = None) -> None:
        """Mix two rankers; `weight`, 0 to 1, is that of the first."""
        if not 0 <= weight <= 1:
            raise ClickvecError(f"the weight of {first.name} in a mixture is between 0 and 1, not {weight}")
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
    """The rank of each score, 1 the highest; equal scores share the mean of their ranks."""
    _, place, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    mean: Floats = np.cumsum(counts) - (counts - 1) / 2
    return mean[place]


def standard(scores: NDArray[np.float32]) -> Floats:
    """Scores less their mean, over their standard deviation; zeros if they are all the same."""
    if not scores.size or (scores == scores[0]).all():
        return np.zeros(scores.shape)
    centred = scores.astype(np.float64) - scores.mean(dtype=np.float64)
    return np.asarray(centred / centred.std())
