"""Approximate search among the vectors of an index, by faiss: for more titles than exact search can read per query.

k-means divides the titles into lists, and a search reads only the lists that are nearest to the query. There, each
vector is a code of 4 bits for every two dimensions, compared by table lookups in registers (product quantisation,
"fast scan"). The best candidates are scored again with the stored vectors, so that the scores are those of `exact.py`.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.model.encoder import Vectors
from clickvec.model.shrink import StoredVectors
from clickvec.progress import Progress, ignore
from clickvec.search.exact import ExactSearch, Positions

EXACT_UP_TO = 100_000  # titles: "auto" searches more of them approximately
RECALL = 0.97  # of the 10 nearest titles, measured on a sample; the number of lists that are read depends on it

_LEAST = 1_000  # titles; fewer are not worth it
_TRAINING = 64  # titles per list that train the lists
_SAMPLE = 500  # queries that measure the recall
_CANDIDATES = 20  # scored again for each title that is asked for, and at least:
_LEAST_CANDIDATES = 200
_FEW_ALLOWED = 50_000  # so many titles are searched exactly
_BLOCK = 65_536


class ApproximateSearch:
    """Finds most of the nearest titles by reading a small part of them. Use `build` or `open`."""

    def __init__(self, index: Any, vectors: StoredVectors, scales: Vectors | None, lists: int, recall: float) -> None:  # noqa: ANN401
        self.vectors, self.scales, self.recall = vectors, scales, recall
        self.exact = ExactSearch(vectors, scales)
        self._index, self._lists = index, lists

    @classmethod
    def build(
        cls,
        vectors: StoredVectors,
        scales: Vectors | None = None,
        *,
        queries: Vectors | None = None,
        recall: float = RECALL,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> "ApproximateSearch":
        """Index vectors, and read so many lists that the recall of the 10 nearest titles is at least `recall`.

        `queries` are vectors like those that users will search with; without them, a random sample of the titles
        measures the recall.
        """
        faiss = _faiss()
        report, rng = progress or ignore, np.random.default_rng(seed)
        count, dimensions = vectors.shape
        if count < _LEAST:
            raise ClickvecError(f"approximate search needs at least {_LEAST:,} titles, not {count:,}; use exact search")
        lists = 2 ** round(math.log2(math.sqrt(count)))
        codes = dimensions // 2 if dimensions % 2 == 0 else dimensions
        index = faiss.index_factory(dimensions, f"IVF{lists},PQ{codes}x4fs", faiss.METRIC_INNER_PRODUCT)
        index.cp.niter, index.cp.seed, index.cp.spherical = 8, seed + 1, True
        index.cp.max_points_per_centroid = _TRAINING
        stored = ExactSearch(vectors, scales)
        report("training lists", 0, None)
        chosen = np.sort(rng.choice(count, min(count, lists * _TRAINING), replace=False))
        index.train(_rows(stored, chosen))
        for first in range(0, count, _BLOCK):
            rows = np.arange(first, min(first + _BLOCK, count))
            block = _rows(stored, rows)
            index.add_with_ids(block[block.any(axis=1)], rows[block.any(axis=1)])
            report("indexing vectors", int(rows[-1]) + 1, count)
        search = cls(index, vectors, scales, lists, 1.0)
        if queries is None:
            queries = _rows(stored, np.sort(rng.choice(count, min(count, _SAMPLE), replace=False)))
        search._choose_lists(queries[queries.any(axis=1)][:_SAMPLE], recall)
        return search

    def save(self, path: Path) -> None:
        """Write the faiss index. The vectors are stored elsewhere."""
        _faiss().write_index(self._index, str(path))

    @classmethod
    def open(
        cls, path: Path, vectors: StoredVectors, scales: Vectors | None, settings: dict[str, Any]
    ) -> "ApproximateSearch":
        """Open what `save` has written. `settings` are those of the saved search."""
        faiss = _faiss()
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC | faiss.IO_FLAG_READ_ONLY)
            lists, recall = int(settings["lists"]), float(settings["recall"])
            if index.d != vectors.shape[1] or index.ntotal > len(vectors) or not 0 < lists <= index.nlist:
                raise ValueError("it does not fit the vectors")
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ClickvecError(f"{path} is damaged ({error}); build the index again") from None
        return cls(index, vectors, scales, lists, recall)

    @property
    def settings(self) -> dict[str, Any]:
        """What `open` needs to know, as JSON."""
        return {"lists": self._lists, "recall": self.recall}

    def nearest(
        self, queries: Vectors, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the positions of the k best titles for each query, best first, and their exact scores.

        As in `ExactSearch.nearest`, but some titles may be missed. If few titles are allowed, the search is exact.
        """
        count = len(self.vectors) if allowed is None else int(np.count_nonzero(allowed))
        wanted = max(_LEAST_CANDIDATES, _CANDIDATES * k)
        if count <= max(_FEW_ALLOWED if allowed is not None else 0, wanted):
            yield from self.exact.nearest(queries, k, allowed)
            return
        parameters = self._parameters(allowed, count)
        for query in queries:
            _, found = self._index.search(query[None], wanted, params=parameters)
            positions = np.sort(found[0][found[0] >= 0])
            yield from self.exact.among(query[None], positions, k)

    def _parameters(self, allowed: NDArray[np.bool_] | None, count: int) -> Any:  # noqa: ANN401
        faiss = _faiss()
        if allowed is None:
            return faiss.SearchParametersIVF(nprobe=self._lists)
        # The nearest allowed titles are farther away, in lists that hold about as many allowed ones.
        lists = min(self._index.nlist, math.ceil(self._lists * len(self.vectors) / count))
        selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        return faiss.SearchParametersIVF(nprobe=lists, sel=selector)

    def _choose_lists(self, queries: Vectors, recall: float) -> None:
        """Read twice as many lists until the recall is reached."""
        nearest = [set(positions.tolist()) for positions, _ in self.exact.nearest(queries, 10)]
        self._lists = min(8, self._index.nlist)
        while True:
            hits = [
                len(best & set(p.tolist())) for best, (p, _) in zip(nearest, self.nearest(queries, 10), strict=True)
            ]
            self.recall = sum(hits) / max(1, sum(map(len, nearest)))
            if self.recall >= recall or self._lists == self._index.nlist:
                return
            self._lists = min(2 * self._lists, self._index.nlist)


def _rows(stored: ExactSearch, positions: Positions) -> Vectors:
    """Return stored vectors as float32, of length 1."""
    rows = stored.vectors[positions].astype(np.float32)
    return rows if stored.scales is None else rows * stored.scales[positions, None]


def _faiss() -> Any:  # noqa: ANN401
    try:
        import faiss
    except ImportError:
        raise missing_extra("faiss", "search") from None
    return faiss
