"""Approximate search among the vectors of an index, by faiss: for more titles than exact search can read per query.

k-means divides the titles into lists, and a search reads only the lists that are nearest to the query. There, each
vector is a code of 4 bits for every two dimensions, compared by table lookups in registers (product quantisation, "fast
scan"). The best candidates are scored again with the stored vectors, so the scores are those of `exact.py`.

faiss never reads a file, which may be a stranger's: its contents are stored as arrays, and their shapes and ranges are
checked before faiss gets them.
    centroids    float32 (lists, dimensions): the centres of the lists
    codebook     float32 (16 * dimensions,): what a code of 4 bits stands for
    sizes        int64 (lists,): the number of vectors in each list
    positions    int32 (vectors,): the positions of their titles, list after list
    codes        uint8: their codes in the blocks of 32 that faiss reads, list after list
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.model.encoder import Vectors
from clickvec.model.shrink import StoredVectors
from clickvec.progress import Progress, ignore
from clickvec.search.title_view import DEPTH
from clickvec.search.vectors.exact import BLOCK_QUERIES, ExactSearch, Positions

EXACT_UP_TO = 100_000  # titles; "auto" searches more of them approximately
RECALL = 0.97  # share of the 10 nearest titles that is found; the number of lists that a search reads depends on it
_MEASURED = 10  # nearest titles that the recall is measured with
_MEASURED_WANTED = 200  # candidates for them; a search looks at more, which hardly raises the recall
_FIRST_WANTED = 560  # candidates for the first 100 titles

LEAST_TITLES = 1_000
_TRAINING_TITLES = 64  # per list
_SAMPLE = 500  # queries that measure the recall
_FEW_ALLOWED, _SHARE_ALLOWED = 20_000, 1 / 16  # if fewer titles are allowed, exact search is faster
_NEARLY_ALL = 0.9  # if this share is allowed, others are dropped after the search, which is faster than during it
_BLOCK_TITLES = 65_536
_DTYPES = {
    "centroids": np.float32, "codebook": np.float32, "sizes": np.int64, "positions": np.int32, "codes": np.uint8,
}  # fmt: skip


class ApproximateSearch:
    """Finds most of the nearest titles by reading a part of them. Threads may share it.

    Use `build` or `from_arrays`.
    """

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
        count, dimensions = vectors.shape
        if count < LEAST_TITLES:
            raise ClickvecError(
                f"approximate search needs at least {LEAST_TITLES:,} titles, but there are {count:,}; use exact search"
            )
        exact, rng, report = ExactSearch(vectors, scales), np.random.default_rng(seed), progress or ignore
        index = _new_index(count, dimensions)
        lists = index.nlist
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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store; `from_arrays` opens them. Store the vectors, scales and `settings` elsewhere."""
        faiss, lists = import_faiss(), self._index.nlist
        inside = faiss.downcast_InvertedLists(self._index.invlists)
        sizes = np.array([inside.list_size(number) for number in range(lists)], np.int64)
        positions, codes = [np.zeros(0, np.int32)], [np.zeros(0, np.uint8)]
        for number, size in enumerate(sizes.tolist()):
            if size:
                positions.append(faiss.rev_swig_ptr(inside.get_ids(number), size).astype(np.int32))
                length = _blocks(size, inside.n_per_block) * inside.block_size
                codes.append(np.array(faiss.rev_swig_ptr(inside.get_codes(number), length)))
        return {
            "centroids": faiss.downcast_index(self._index.quantizer).reconstruct_n(0, lists),
            "codebook": faiss.vector_to_array(self._index.pq.centroids),
            "sizes": sizes,
            "positions": np.concatenate(positions),
            "codes": np.concatenate(codes),
        }

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        vectors: StoredVectors,
        scales: Vectors | None,
        settings: Mapping[str, Any],
    ) -> "ApproximateSearch":
        """Return the search with these arrays and settings. Raise ValueError if they do not belong to the vectors."""
        faiss, (count, dimensions) = import_faiss(), vectors.shape
        index = _new_index(count, dimensions)
        inside = faiss.downcast_InvertedLists(index.invlists)
        found = {name: _array(arrays, name) for name in _DTYPES}
        sizes, positions, codes = found["sizes"], found["positions"], found["codes"]
        if sizes.shape != (index.nlist,) or (sizes < 0).any() or (sizes > count).any() or sizes.sum() != len(positions):
            raise ValueError("the sizes of the lists do not add up")
        lengths = _blocks(sizes, inside.n_per_block) * inside.block_size
        shapes = {"centroids": (index.nlist, dimensions), "codebook": (16 * dimensions,), "codes": (lengths.sum(),)}
        for name, shape in shapes.items():
            if found[name].shape != shape:
                raise ValueError(f"the array {name} has the shape {found[name].shape} instead of {shape}")
        if len(positions) and not 0 <= positions.min() <= positions.max() < count:
            raise ValueError(f"the array positions has values outside of 0 to {count - 1}")
        if not (np.isfinite(found["centroids"]).all() and np.isfinite(found["codebook"]).all()):
            raise ValueError("the centroids or the codebook hold NaN or infinity")
        lists, recall = settings["lists"], settings["recall"]
        if type(lists) is not int or type(recall) is not float or not (0 < lists <= index.nlist and 0 <= recall <= 1):
            raise ValueError(f"its settings are {dict(settings)!s:.100}")
        faiss.downcast_index(index.quantizer).add(np.ascontiguousarray(found["centroids"]))
        faiss.copy_array_to_vector(np.ascontiguousarray(found["codebook"]), index.pq.centroids)
        index.is_trained, ids = True, positions.astype(np.int64)
        for number, (size, end, last) in enumerate(
            zip(sizes.tolist(), np.cumsum(sizes).tolist(), np.cumsum(lengths).tolist(), strict=True)
        ):
            if size:
                inside.add_entries(
                    number,
                    size,
                    faiss.swig_ptr(ids[end - size :]),
                    faiss.swig_ptr(codes[last - int(lengths[number]) :]),
                )
        index.ntotal = len(ids)
        return cls(index, ExactSearch(vectors, scales), lists, recall)

    @property
    def settings(self) -> dict[str, Any]:
        """What `from_arrays` must be told, as JSON: how many lists a search reads, and the recall that was measured."""
        return {"lists": self._lists, "recall": self.recall}

    @property
    def compared(self) -> int:
        """About how many titles a search for up to 100 compares: those of the lists that it reads."""
        return round(len(self.exact.vectors) * self._lists / int(self._index.nlist))

    def nearest(
        self, queries: Vectors, k: int, allowed: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the positions of the k best titles for each query, best first, and their exact scores.

        This is `ExactSearch.nearest`, except that some titles may be missed: more of the later ones than of the first
        10. The search is the same for every k up to 100, so that their lists begin alike. If few titles are allowed,
        or k is large, the search is exact.
        """
        total = len(self.exact.vectors)
        count = total if allowed is None else int(np.count_nonzero(allowed))
        wanted, lists = _FIRST_WANTED, float(self._lists)
        if k > DEPTH:  # the later titles are farther away, in more lists, and more are as near
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
            found = self._nearest(queries, _MEASURED, _MEASURED_WANTED, lists, None, 1.0)
            self.recall = recall_of((scores for _, scores in found), nearest)
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


def _new_index(count: int, dimensions: int) -> Any:  # noqa: ANN401
    """Return an empty index of faiss for so many vectors."""
    faiss = import_faiss()
    lists = 2 ** round(math.log2(max(1, count)) / 2)  # about the square root
    codes = dimensions if dimensions % 2 else dimensions // 2
    return faiss.index_factory(dimensions, f"IVF{lists},PQ{codes}x4fs", faiss.METRIC_INNER_PRODUCT)


def _blocks(size: Any, in_block: int) -> Any:  # noqa: ANN401
    """Return in how many blocks so many vectors are."""
    return -(-size // in_block)


def _array(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    if name not in arrays or arrays[name].dtype != _DTYPES[name] or arrays[name].ndim != 1 + (name == "centroids"):
        raise ValueError(f"the array {name} is missing or has the wrong type")
    return arrays[name]


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
