"""Distinct pairs of queries and titles, as arrays that training reads."""

import numpy as np
from numpy.typing import NDArray

from clickvec.text.ragged import Ints, Ragged

_TEXTS_AT_ONCE = 2**15  # to limit memory


def distinct_pairs(
    query: Ints, title: Ints, clicks: NDArray[np.float64], width: int
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Return the distinct pairs, sorted by query and then by title, and the clicks of each."""
    keys, inverse = np.unique(query.astype(np.int64) * width + title, return_inverse=True)
    summed = np.bincount(inverse, clicks, len(keys)).astype(np.float64, copy=False)
    return (keys // width).astype(np.int32), (keys % width).astype(np.int32), summed


def pair_keys(query: Ints, title: Ints) -> NDArray[np.int64]:
    """Return each pair as one number. Numbers are in the order of query and then of title."""
    return query.astype(np.int64) << 32 | title


def rows_of(row: Ints, value: Ints, count: int) -> Ragged:
    """Return sorted pairs of (row, value) as rows of values."""
    return Ragged(value, np.concatenate(([0], np.cumsum(np.bincount(row, minlength=count)))))


def token_counts(texts: Ragged, pair_text: Ints, tokens: int) -> NDArray[np.float64]:
    """Return how often each token occurs in the texts of all pairs."""
    pairs, total = np.bincount(pair_text, minlength=len(texts.offsets) - 1), np.zeros(tokens)
    for first, rows in texts.blocks(_TEXTS_AT_ONCE):
        lengths = rows.lengths
        total += np.bincount(rows.values, np.repeat(pairs[first : first + len(lengths)], lengths), tokens)
    return total


def passed_over(
    query: Ints, title: Ints, grades: NDArray[np.integer], clicked: Ragged, width: int
) -> tuple[Ragged, Ints]:
    """Return the titles of grade 0 that each query of the log has no click on, and those that are not in the log.

    The latter are renumbered: they follow the `width` titles of the log in order of first appearance.
    """
    asked, all_titles = len(clicked.offsets) - 1, max(width, int(title.max(initial=-1)) + 1)
    known = query < asked
    keys, first, inverse = np.unique(
        query[known].astype(np.int64) * all_titles + title[known], return_index=True, return_inverse=True
    )
    best = np.zeros(len(keys), np.int64)  # the best grade counts if a query and a title are judged several times
    np.maximum.at(best, inverse, grades[known])
    zero = np.flatnonzero(best == 0)
    passed = keys[zero[np.argsort(first[zero])]]
    query_of, title_of = passed // all_titles, (passed % all_titles).astype(np.int32)
    new, first_place = np.unique(title_of[title_of >= width], return_index=True)
    others = new[np.argsort(first_place)]
    number = np.arange(all_titles)
    number[others] = np.arange(width, width + len(others))
    wide = width + len(others)
    clicks = np.repeat(np.arange(asked), clicked.lengths) * wide + clicked.values
    left = np.setdiff1d(query_of * wide + number[title_of], clicks)
    return rows_of((left // wide).astype(np.int32), (left % wide).astype(np.int32), asked), others
