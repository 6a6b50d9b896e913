"""Exact search among the vectors of an index, in NumPy. It reads the memory-mapped vectors block by block."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import UnavailableError
from clickvec.model.encoder import Vectors
from clickvec.model.shrink import StoredVectors
from clickvec.native.products import exact_scores, multiply

Positions = NDArray[np.int64]
BLOCK_QUERIES, BLOCK_TITLES = 256, 16_384  # scored at once: 16 MB of scores
FIRST_TITLES = 1_024
_SELECTIVE = 2  # if at most one in so many titles is allowed, only those are read
_SAME_WORDS = 1 - 1e-3  # two vectors of the same words have a larger cosine, even if one of them is int8


class ExactSearch:
    """Vectors of titles. `scales` are the factors that scale them to length 1, or None if they have length 1."""

    def __init__(self, vectors: StoredVectors, scales: Vectors | None = None) -> None:
        self.vectors, self.scales = vectors, scales
        # How far a product summed by BLAS can be from the exact score. A float32 sum of n products, whose absolute
        # values sum to at most 1, is off by at most n/2 eps, and so is the score that it is compared with. This is
        # twice that, and more than a scale can add.
        self._slack = float(2 * (vectors.shape[1] + 2) * np.finfo(np.float32).eps)

    def nearest(
        self, queries: Vectors, k: int, allowed: NDArray[np.bool_] | None = None, least: Vectors | None = None
    ) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the positions of the k best titles for each query, best first, and their exact scores.

        Equal scores are in the order of positions. A zero vector finds nothing and is never found. `allowed` says for
        each position whether it may be found. Titles with a score below `least`, one number for each query, may be
        left out, which is faster.
        """
        if allowed is not None and np.count_nonzero(allowed) * _SELECTIVE <= len(allowed):
            return self._nearest(queries, k, np.flatnonzero(allowed), None, least)
        return self._nearest(queries, k, None, allowed, least)

    def among(self, queries: Vectors, positions: Positions, k: int) -> Iterator[tuple[Positions, Vectors]]:
        """Yield what `nearest` does, but only among a few titles, at these positions, which must be in rising order."""
        for query in queries:
            scores = self._exact(positions, query)
            _check_finite(scores)
            kept = np.flatnonzero(self._reachable(scores, positions)) if query.any() else np.zeros(0, np.int64)
            best = kept[np.argsort(-scores[kept], kind="stable")[:k]]
            yield positions[best], scores[best]

    def _nearest(
        self,
        queries: Vectors,
        k: int,
        among: Positions | None,
        allowed: NDArray[np.bool_] | None,
        least: Vectors | None = None,
    ) -> Iterator[tuple[Positions, Vectors]]:
        if least is None:
            least = np.full(len(queries), -np.inf, np.float32)
        for first in range(0, len(queries), BLOCK_QUERIES):
            rows = slice(first, first + BLOCK_QUERIES)
            candidates = self._candidates(queries[rows], k, among, allowed, least[rows] - self._slack)
            for query, positions in zip(queries[rows], candidates, strict=True):
                scores = np.zeros(len(positions), np.float32)
                for start in range(0, len(positions), BLOCK_TITLES):
                    part = slice(start, start + BLOCK_TITLES)
                    scores[part] = self._exact(positions[part], query)
                best = np.argsort(-scores, kind="stable")[:k]
                yield positions[best], scores[best]

    def scores(self, query: Vectors, positions: Positions) -> Vectors:
        """Return the exact scores of the titles at these positions."""
        return self._exact(positions, query)

    def rank(self, query: Vectors, title: int | Vectors, allowed: NDArray[np.bool_] | None = None) -> int | None:
        """Return the rank of a title, from 1, or None if it has a zero vector. The query must not be zero.

        The title is a position, or the vector of a title that is ranked as if it were inserted last.
        """
        position = title if isinstance(title, int) else len(self.vectors)
        vector = self.vectors[title] if isinstance(title, int) else title
        if not vector.any():
            return None
        score = (
            self._exact(np.array([title]), query) if isinstance(title, int) else exact_scores(vector[None], query)
        )[0]
        return 1 + self.count_above(query, float(score), position, allowed)

    def count_above(self, query: Vectors, score: float, position: int, allowed: NDArray[np.bool_] | None = None) -> int:
        """Return how many titles stand above one with this exact score at this position."""
        above = 0
        for first in range(0, len(self.vectors), BLOCK_TITLES):
            rough = self._products(query[None], slice(first, first + BLOCK_TITLES))[0]
            rough[~self._reachable(rough, first + np.arange(len(rough)))] = -np.inf
            if allowed is not None:
                rough[~allowed[first : first + len(rough)]] = -np.inf
            close = first + np.flatnonzero(np.abs(rough - score) <= self._slack)
            exact = self._exact(close, query)
            above += int((rough > score + self._slack).sum())
            above += int(((exact > score) | ((exact == score) & (close < position))).sum())
        return above

    def alike(self, vector: Vectors) -> Iterator[int]:
        """Yield the positions of titles that may have the same words as the title of this vector, in rising order."""
        for first in range(0, len(self.vectors), BLOCK_TITLES):
            if vector.any():
                is_alike = self._products(vector[None], slice(first, first + BLOCK_TITLES))[0] > _SAME_WORDS
            else:
                is_alike = ~self.vectors[first : first + BLOCK_TITLES].any(axis=1)
            yield from (first + np.flatnonzero(is_alike)).tolist()

    def _candidates(
        self,
        queries: Vectors,
        k: int,
        among: Positions | None,
        allowed: NDArray[np.bool_] | None,
        least: Vectors,
    ) -> list[Positions]:
        """Return for each query, in rising order, the positions of all titles that may be among its best k.

        Titles with a product below `least` are left out.
        BLAS sums in an order that depends on the position in the matrix, so the last digits of a product are not
        reliable. This keeps all titles within `_slack` of the k-th best score.
        """
        scores = [np.zeros(0, np.float32)] * len(queries)
        positions = [np.zeros(0, np.int64)] * len(queries)
        has_vector = np.asarray(queries.any(axis=1))
        total = len(self.vectors) if among is None else len(among)
        # A small first block gives a score that most titles of the others do not reach.
        first_titles = BLOCK_TITLES if np.isfinite(least).all() else FIRST_TITLES
        starts = (0, *range(min(first_titles, total), total, BLOCK_TITLES), total)
        for first, end in pairwise(starts):
            rows = slice(first, end) if among is None else among[first:end]
            for i, row in enumerate(self._products(queries, rows)):
                fresh = np.flatnonzero(row >= least[i]) if has_vector[i] else np.zeros(0, np.int64)
                at = first + fresh if among is None else among[first + fresh]
                kept = self._reachable(row[fresh], at)
                if allowed is not None:
                    kept &= allowed[at]
                if not kept.any():
                    continue
                scores[i] = np.concatenate((scores[i], row[fresh[kept]]))
                positions[i] = np.concatenate((positions[i], at[kept]))
                if len(scores[i]) > k:
                    least[i] = max(least[i], np.partition(scores[i], -k)[-k] - self._slack)
                    kept = scores[i] >= least[i]
                    scores[i], positions[i] = scores[i][kept], positions[i][kept]
        return positions

    def _products(self, queries: Vectors, rows: slice | Positions) -> Vectors:
        """Return the scores of some titles, except for the last digits."""
        with np.errstate(invalid="ignore"):
            products = multiply(self.vectors, rows, queries)
            if self.scales is not None:
                products *= self.scales[rows]
        _check_finite(products)
        return products

    def _exact(self, positions: Positions, query: Vectors) -> Vectors:
        """Return the exact scores of titles."""
        return exact_scores(self.vectors, query, self.scales, positions)

    def _reachable(self, products: Vectors, positions: Positions) -> NDArray[np.bool_]:
        """Return whether these titles have a vector. Only those with a product of 0 need to be read to know."""
        reachable = np.asarray(products != 0, np.bool_)
        reachable[~reachable] = self.vectors[positions[~reachable]].any(axis=1)
        return reachable


def _check_finite(products: Vectors) -> None:
    if not np.isfinite(products.sum()):
        raise UnavailableError("a vector of the index holds NaN or infinity; build the index again")
