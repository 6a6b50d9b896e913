"""Sort postings and find the best titles (postings.c), with the same results in NumPy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Sorted = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint16]]


def sort_postings(
    words: NDArray[np.int32], counts: NDArray[np.int32], lengths: NDArray[np.uint8], vocabulary: int
) -> Sorted:
    """Return the postings of titles by word and position: the offsets of each word, positions and codes.

    `words` holds the words of one title after the other, `counts` the number of words of each title.
    """
    size = max(1, len(counts))
    keys = words.astype(np.int64) * size + np.repeat(np.arange(len(counts)), counts)
    keys, times = np.unique(keys, return_counts=True)
    positions = (keys % size).astype(np.int32)
    codes = np.minimum(times, 255).astype(np.uint16) << np.uint16(8) | lengths[positions]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(keys // size, minlength=vocabulary))))
    return offsets.astype(np.int64), positions, codes.astype(np.uint16)


def best_titles(
    postings: Sequence[tuple[NDArray[np.int32], NDArray[np.uint16]]],
    weights: NDArray[np.float32],
    table: NDArray[np.float32],
    size: int,
    k: int,
    allowed: NDArray[np.bool_] | None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the positions and scores of the k best of `size` titles, best first; equal scores by position.

    A title scores the sum of weight * table[code] over its postings. Only titles with a posting are returned.
    """
    scores = np.zeros(size, np.float32)
    for (positions, codes), weight in zip(postings, weights, strict=True):
        scores[positions] += weight * table[codes]
    if allowed is not None:
        scores[~allowed] = 0
    found = np.flatnonzero(scores)
    if len(found) > k:
        values = scores[found]
        found = found[values >= np.partition(values, -k)[-k]] if k else found[:0]
    best = found[np.argsort(-scores[found], kind="stable")[:k]]
    return best.astype(np.int64), scores[best]
