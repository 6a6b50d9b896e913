"""A comparison over a whole catalogue: each system searches all titles, rather than ranking the judged ones.

Titles without a grade count as not relevant. What a system returns is stored as rows of the catalogue, best first.
"""

import numpy as np
from numpy.typing import NDArray

from clickvec.data import Judged
from clickvec.evaluation.measure import LIST_MEASURES
from clickvec.evaluation.metrics import DEPTH, gains_of, values_of, values_table
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.test_set import Catalogue, by_words
from clickvec.progress import Progress

NOT_SEARCHED = ("hybrid-mix",)  # needs the scores of all titles, and only the best are stored

Rows = NDArray[np.int32]  # (queries, DEPTH): rows of the catalogue, best first, then -1


def search_catalogue(ranker: Ranker, judged: Judged, catalogue: Catalogue, progress: Progress | None = None) -> Rows:
    """Return the best titles of the catalogue for all judged queries."""
    row = {key: number for number, key in enumerate(catalogue.entries)}
    found = np.full((len(judged), DEPTH), -1, np.int32)
    for line, keys in zip(found, ranker.search(judged.rows, catalogue, DEPTH, progress), strict=True):
        line[: len(keys)] = [row[key] for key in keys]
    return found


def catalogue_values(found: Rows, judged: Judged, catalogue: Catalogue) -> NDArray[np.float64]:
    """Return NDCG@1, @3 and @10, in per cent: (measures, queries with a relevant title)."""
    keys = list(catalogue.entries)
    gains = [gains_of(by_words(query)) for query in judged]
    return values_table(
        values_of([keys[row] for row in rows if row >= 0], of_query, LIST_MEASURES)
        for of_query, rows in zip(gains, found.tolist(), strict=True) if of_query
    )  # fmt: skip


def fuse_ranks(first: Rows, second: Rows, k: float) -> Rows:
    """Return the reciprocal rank fusion of what two systems found."""
    fused = np.full_like(first, -1)
    weights = 1 / (k + np.arange(1, DEPTH + 1))
    for line, parts in zip(fused, zip(first.tolist(), second.tolist(), strict=True), strict=True):
        scores: dict[int, float] = {}
        for rows in parts:
            for row, weight in zip(rows, weights.tolist(), strict=True):
                if row >= 0:
                    scores[row] = scores.get(row, 0.0) + weight
        best = sorted(scores, key=lambda row: (-scores[row], row))[:DEPTH]
        line[: len(best)] = best
    return fused
