"""Approximate search among the vectors of an index, by faiss: for more titles than exact search can read per query.

k-means divides the titles into lists, and a search reads only the lists that are nearest to the query. There, each
vector is a code of 4 bits for every two dimensions, compared by table lookups in registers (product quantisation, "fast
scan"). The best candidates are scored again with the stored vectors, so the scores are those of `exact.py`.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.model.encoder import Vectors
from clickvec.model.shrink import StoredVectors
from clickvec.progress import Progress, ignore
from clickvec.search.vectors.exact import BLOCK_QUERIES, ExactSearch, Positions

EXACT_UP_TO = 100_000  # titles; "auto" searches more of them approximately
RECALL = 0.97  # share of the 10 nearest titles that is found; the number of lists that a search reads depends on it
_MEASURED = 10  # nearest titles that the recall is measured with

LEAST_TITLES = 1_000
_TRAINING_TITLES = 64  # per list
_SAMPLE = 500  # queries that measure the recall
_FEW_ALLOWED, _SHARE_ALLOWED = 20_000, 1 / 16  # if fewer titles are allowed, exact search is faster
_NEARLY_ALL = 0.9  # if this share is allowed, others are dropped after the search, which is faster than during it
_BLOCK_TITLES = 65_536


class ApproximateSearch:
    """Finds most of the nearest titles by reading a part of them. Threads may share it. Use `build` or `open`."""

    def __init__(self, index: Any, exact: ExactSearch, lists: int, recall: float) -> None:  # noqa: ANN401
        self.exact, self.recall = exact, recall
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
        """Index vectors, and choose how many lists a search reads, so that its recall is at least `recall`.

        The recall of the 10 nearest titles is measured with up to 500 `queries`, vectors like those that users search
        with. Without them, a random sample of the titles is used. The same seed and number of threads give the same
        index.
        """
        faiss = import_faiss()
        count, dimensions = vectors.shape
        if count < LEAST_TITLES:
            raise ClickvecError(
                f"approximate search needs at least {LEAST_TITLES:,} titles, but there are {count:,}; use exact search"
            )
        exact, rng, report = ExactSearch(vectors, scales), np.random.default_rng(seed), progress or ignore
        lists = 2 ** round(math.log2(count) / 2)  # about the square root
        codes = dimensions if dimensions % 2 else dimensions // 2
        index = faiss.index_factory(dimensions, f"IVF{lists},PQ{codes}x4fs", faiss.METRIC_INNER_PRODUCT)
        index.cp.niter, index.cp.seed, index.cp.spherical = 8, seed + 1, True
        index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, _TRAINING_TITLES
        report("training the lists", 0, None)
        index.train(_sample(exact, lists * _TRAINING_TITLES, rng))
        for first in range(0, count, _BLOCK_TITLES):
            report("adding vectors", first, count)
            positions = np.arange(first, min(first + _BLOCK_TITLES, count))
            rows = _rows(exact, positions)
            has_vector = rows.any(axis=1)
            index.add_with_ids(rows[has_vector], positions[has_vector])
        report("adding vectors", count, count)
        search = cls(index, exact, lists, 1.0)
        measured = _sample(exact, _SAMPLE, rng) if queries is None else queries
        search._choose_lists(measured[measured.any(axis=1)][:_SAMPLE], recall, report)
        return search

    def save(self, path: Path) -> None:
        """Write the faiss index. Store the vectors, their scales and `settings` elsewhere."""
        # faiss itself would not notice that the last bytes did not fit on the disk.
        content = import_faiss().serialize_index(self._index)
        with path.open("wb") as file:
            file.write(content.data)

    @classmethod
    def open(
        cls, path: Path, vectors: StoredVectors, scales: Vectors | None, settings: Mapping[str, Any]
    ) -> "ApproximateSearch":
        """Open what `save` has written, memory-mapped. `settings` are those of the search that was saved."""
        faiss = import_faiss()
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_READ_ONLY | getattr(faiss, "IO_FLAG_MMAP_IFC", 0))
            lists, recall = int(settings["lists"]), float(settings["recall"])
            if index.d != vectors.shape[1] or index.ntotal > len(vectors) or not 0 < lists <= index.nlist:
                raise ValueError("it belongs to other vectors")
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = str(error).rsplit(": ", 1)[-1][:100]
            raise ClickvecError(f"{path} is damaged ({reason}); build the index again") from None
        return cls(index, ExactSearch(vectors, scales), lists, recall)

    @property
    def settings(self) -> dict[str, Any]:
        """What `open` must be told, as JSON: how many lists a search reads, and the recall that was measured."""
        return {"lists": self._lists, "recall": self.recall}

    def nearest(
        self, queries: Vectors, k: int, allowed: NDArray[np.bool_] | None = None, thorough: bool = False
    ) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the positions of the k best titles for each query, best first, and their exact scores.

        This is `ExactSearch.nearest`, except that some titles may be missed: about as many of the k as of the first 10
        if the search is `thorough`, else more of the later ones. If few titles are allowed, or k is large, the search
        is exact.
        """
        total = len(self.exact.vectors)
        count = total if allowed is None else int(np.count_nonzero(allowed))
        wanted = 160 + 4 * k  # candidates; more of them cost time, and hardly raise the recall of the first titles
        lists = float(self._lists)
        if thorough and k > _MEASURED:  # the later titles are farther away, in more lists, and more are as near
            wanted, lists = 200 + 10 * (k - _MEASURED), lists * math.sqrt(k / _MEASURED)
        if wanted > count / 2 or (allowed is not None and count <= max(_FEW_ALLOWED, _SHARE_ALLOWED * total)):
            return self.exact.nearest(queries, k, allowed)
        return self._nearest(queries, k, wanted, lists, None if count == total else allowed, count / total)

    def _nearest(
        self, queries: Vectors, k: int, wanted: int, lists: float, allowed: NDArray[np.bool_] | None, share: float
    ) -> Iterator[tuple[Positions, Vectors]]:
        for first in range(0, len(queries), BLOCK_QUERIES):
            block = queries[first : first + BLOCK_QUERIES]
            during = None if share >= _NEARLY_ALL else allowed
            # The nearest allowed titles are farther away, in more lists.
            read = lists if during is None else lists / math.sqrt(share)
            for query, candidates in zip(block, self._candidates(block, wanted, read, during), strict=True):
                if allowed is not None:
                    candidates = candidates[allowed[candidates]]
                if len(candidates) < wanted // 2:  # the lists near this query have few titles, or few that are allowed
                    (candidates,) = self._candidates(query[None], wanted, math.inf, allowed)
                yield from self.exact.among(query[None], candidates, k)

    def _candidates(
        self, queries: Vectors, wanted: int, lists: float, allowed: NDArray[np.bool_] | None
    ) -> Iterator[Positions]:
        """Yield about `wanted` candidates for each query, in rising order, from the lists that are nearest to it."""
        faiss, selector = import_faiss(), None
        if allowed is not None:
            selector = faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        nearest = self._index.nlist if lists >= self._index.nlist else math.ceil(lists)
        parameters = faiss.SearchParametersIVF(nprobe=nearest, sel=selector)
        _, positions = self._index.search(np.ascontiguousarray(queries), wanted, params=parameters)
        return (np.sort(row[row >= 0]) for row in positions)

    def _choose_lists(self, queries: Vectors, recall: float, report: Progress) -> None:
        """Find the least number of lists, to about a twentieth, that reaches the recall."""
        report("measuring the recall", 0, None)
        nearest = [scores for _, scores in self.exact.nearest(queries, _MEASURED)]

        def measure(lists: int) -> float:
            self._lists = lists
            self.recall = recall_of((scores for _, scores in self.nearest(queries, _MEASURED)), nearest)
            return self.recall

        enough = min(4, self._index.nlist)
        while measure(enough) < recall and enough < self._index.nlist:
            enough = min(2 * enough, self._index.nlist)
        too_few = enough // 2
        while enough > 1.05 * too_few + 1:
            middle = round(math.sqrt(enough * max(1, too_few)))
            enough, too_few = (middle, too_few) if measure(middle) >= recall else (enough, middle)
        measure(enough)


def recall_of(found: Iterable[Vectors], nearest: Iterable[Vectors]) -> float:
    """Return the share of the nearest titles that was found, by their scores: equal titles may stand for each other."""
    hits = total = 0
    for scores, best in zip(found, nearest, strict=True):
        if len(best):
            hits, total = hits + int((scores >= best[-1]).sum()), total + len(best)
    return hits / total if total else 1.0


def import_faiss() -> Any:  # noqa: ANN401
    """Return the module faiss. Raise if it is not installed."""
    try:
        import faiss
    except ImportError:
        raise missing_extra("faiss", "search") from None
    return faiss


def _sample(exact: ExactSearch, count: int, rng: np.random.Generator) -> Vectors:
    total = len(exact.vectors)
    return _rows(exact, np.sort(rng.choice(total, min(total, count), replace=False)))


def _rows(exact: ExactSearch, positions: Positions) -> Vectors:
    """Return vectors as float32, of length 1."""
    rows = exact.vectors[positions].astype(np.float32, copy=False)
    return rows if exact.scales is None else rows * exact.scales[positions, None]
