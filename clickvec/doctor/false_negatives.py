"""How often a title of the minibatch that serves as a negative was clicked for the query.

Training draws pairs uniformly from the P distinct pairs. Let d(q) be the number of titles clicked for query q, and d(t)
the number of queries of title t. For a pair of query q, another title t of q is in the minibatch if one of the other
B - 1 pairs has it, so with probability 1 - (1 - d(t) / P)^(B - 1). Training masks these: they are known clicks.

Clicks that the log lacks cannot be masked. To see how many those are, imagine that only a random half of the clicks is
known: a pair of c clicks is unknown with probability 2^-c. The other half tells where training would be wrong.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.doctor.grouping import Groups, sum_by
from clickvec.doctor.line_counts import Titles


class FalseNegatives(NamedTuple):
    """What training will meet in minibatches of this size."""

    batch_size: int
    probability: float  # that a random title of the minibatch, not the pair's own, was clicked for the query
    masked: float  # such titles for each pair, on average
    half_unknown: float  # with half of the clicks: the probability of a title that only the other half knows


def false_negatives(pairs: Groups, titles: Titles, total: int, batch_size: int) -> FalseNegatives:
    """Return the expected false negatives of minibatches. `pairs` has tags (query, title) and the sum of clicks."""
    if total < 2:
        return FalseNegatives(batch_size, 0.0, 0.0, 0.0)
    others = min(batch_size, total) - 1
    known_by_title, known = np.zeros(len(titles.keys)), 0.0  # with half of the clicks
    for part in pairs.parts():
        chance = _known_in_half(part.sums[0])
        known += float(chance.sum())
        known_by_title += np.bincount(np.searchsorted(titles.keys, part.tags[1]), chance, len(titles.keys))
    clicked = masked = unknown = 0.0
    for part in pairs.parts():
        (query, title), (clicks,) = part.tags, part.sums
        chance, at = _known_in_half(clicks), np.searchsorted(titles.keys, title)
        of_query, _, (degree, half) = sum_by(query, np.ones(len(part)), chance)
        siblings, queries = degree[of_query] - 1, titles.queries[at]
        clicked += float((siblings * queries).sum())
        masked += float((siblings * -np.expm1(others * np.log1p(-np.minimum(queries / total, 1 - 1e-12)))).sum())
        unknown += float(((half[of_query] - chance) * (1 - chance) * (known_by_title[at] - chance)).sum())
    return FalseNegatives(batch_size, clicked / (total * (total - 1)), masked / total, unknown / known**2)


def _known_in_half(clicks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that a random half of the clicks has the pair."""
    return 1 - np.exp2(-np.maximum(clicks, 1.0))
