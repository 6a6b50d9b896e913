"""A comparison over a whole catalogue: each system searches all titles, rather than ranking the judged ones.

Titles without a grade count as not relevant. What a system returns is stored as rows of the catalogue, best first.
"""

import numpy as np
from numpy.typing import NDArray

from clickvec.data import Judged
from clickvec.evaluation.held_out_clicks import Catalogue
from clickvec.evaluation.metrics import ndcg_of_gains, with_relevant
from clickvec.evaluation.ranker import Ranker
from clickvec.progress import Progress
from clickvec.text.tokens import canonical

DEPTH = 100  # titles that a system returns for a query
CUTOFFS = (1, 3, 10)
NOT_SEARCHED = ("hybrid-mix",)  # needs the scores of all titles, and only the best are stored

Rows = NDArray[np.int32]  # (queries, DEPTH): rows of the catalogue, best first, then -1


def search_catalogue(ranker: Ranker, judged: Judged, catalogue: Catalogue, progress: Progress | None = None) -> Rows:
    """Return the best titles of the catalogue for all judged queries."""
    ids = [str(row) for row in range(len(catalogue.titles))]
    results = ranker.search([query.query for query in judged], ids, catalogue.titles, DEPTH, progress)
    found = np.full((len(judged), DEPTH), -1, np.int32)
    for line, result in zip(found, results, strict=True):
        line[: len(result)] = list(map(int, result))
    return found


def catalogue_values(found: Rows, judged: Judged, catalogue: Catalogue) -> NDArray[np.float64]:
    """Return NDCG at the cutoffs, in per cent: (cutoffs, queries with a relevant title)."""
    columns = []
    for query, rows in zip(judged, found.tolist(), strict=True):
        gains: dict[int, float] = {}
        for title, grade in zip(query.titles, query.grades.tolist(), strict=True):
            row = catalogue.row[canonical(title)]
            gains[row] = max(gains.get(row, 0.0), 2.0**grade - 1)
        if with_relevant([query]):
            of_found = [gains.get(row, 0.0) for row in rows]
            columns.append([100 * ndcg_of_gains(of_found, list(gains.values()), k) for k in CUTOFFS])
    return np.ascontiguousarray(np.array(columns).T)


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
