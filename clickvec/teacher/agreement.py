"""How far a teacher agrees with the clicks of a log: it gets that share of its weight in the loss.

A transformer knows what words mean, but not what users of this log want. Where it would have found the clicked titles
itself, it can teach much; where it would not, much weight makes the model forget its clicks (docs/log.md).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data.dataset import Dataset
from clickvec.teacher.teacher_vectors import Teacher

MOST_PAIRS = 4096
MOST_TITLES = 4096
_PAIRS_AT_ONCE = 512  # to limit memory
SAME = 1e-9  # cosines that differ by less are equal, so that the order of sums does not matter
Ids = NDArray[np.int64]


def agreement(data: Dataset, teacher: Teacher) -> float | None:
    """Return the share of pairs whose clicked title is the nearest to the query, according to the teacher.

    A random sample of pairs is taken. The clicked title competes with random titles of the log that were not clicked
    for the query. Pairs with a text that the teacher does not know are left out. If no pair remains, return None.
    """
    rng = np.random.default_rng(0)
    pairs, others = (
        np.sort(rng.choice(size, min(size, most), replace=False))
        for size, most in ((len(data.pair_query), MOST_PAIRS), (data.clicked_titles, MOST_TITLES))
    )
    blocks = [
        _is_nearest(data, teacher, pairs[at : at + _PAIRS_AT_ONCE], others)
        for at in range(0, len(pairs), _PAIRS_AT_ONCE)
    ]
    found = np.concatenate(blocks)
    return float(found.mean()) if len(found) else None


def _is_nearest(data: Dataset, teacher: Teacher, pairs: Ids, others: Ids) -> NDArray[np.bool_]:
    """Tell for each pair that the teacher knows whether no other title is nearer to its query."""
    scales = teacher.scales.astype(np.float64)
    queries, clicked = teacher.queries[data.pair_query[pairs]] * scales, teacher.titles[data.pair_title[pairs]] * scales
    cosines = queries @ (teacher.titles[others] * scales).T
    of_query = data.clicked.take(data.pair_query[pairs])
    rows, columns = np.repeat(np.arange(len(pairs)), of_query.lengths), np.searchsorted(others, of_query.values)
    columns = np.minimum(columns, len(others) - 1)
    is_there = others[columns] == of_query.values
    cosines[rows[is_there], columns[is_there]] = -np.inf
    nearest = (queries * clicked).sum(1) >= cosines.max(1) - SAME
    return np.asarray(nearest[queries.any(1) & clicked.any(1)])


def describe_teacher(data: Dataset, teacher: Teacher) -> dict[str, Any]:
    """Return what the model card tells about a teacher: its name, how many titles it teaches, and its agreement."""
    return {**teacher.facts(), "agreement": agreement(data, teacher)}
