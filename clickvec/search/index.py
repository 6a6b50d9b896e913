"""Index: the vectors of a catalogue's titles, and exact search among them. NumPy only.

An index folder holds
    index.json              format, count, dimensions, the fingerprint of the model, the size of each file
    vectors.npy             float32 (titles, dimensions), of length 1, in the order of the titles; or int8 (format 2)
    scales.npy              float32 (titles,): the factor that scales each int8 vector to length 1
    documents.jsonl         one JSON object per line: id, title and, if there is one, payload
    documents.offsets.npy   int64: the offset of each line, and the end of the last one
    model/                  a copy of the model folder, so that an index opens on its own
Earlier versions also wrote float16 vectors, with scales. Format 3 has integer ids.

Search reads the memory-mapped vectors block by block, and only the documents of the hits.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model import folder, shrink
from clickvec.model.encoder import Encoder, Vectors
from clickvec.model.scoring import distinct_texts
from clickvec.progress import Progress
from clickvec.search.documents import Document, Documents, Positions
from clickvec.storage import files
from clickvec.storage.arrays import write_array
from clickvec.storage.snapshot import describe_file, open_folder
from clickvec.text.tokens import canonical

INDEX_FORMAT = 3  # the newest known format; an index is written in the oldest that can express it
BLOCK_QUERIES, BLOCK_TITLES = 256, 16_384  # scored at once: 16 MB of scores

_SAME_WORDS = 1 - 1e-3  # two vectors of the same words have a larger cosine, even if one of them is int8
_UNIT_LENGTH = 1e-5  # a query vector whose length differs more from 1 is scaled

_MARKER = "index.json"
_ARRAYS_AND_LINES = ("vectors.npy", "scales.npy", "documents.jsonl", "documents.offsets.npy")
_FILES = (_MARKER, *_ARRAYS_AND_LINES, *(f"model/{name}" for name in folder.MODEL_FILES))


class Hit(NamedTuple):
    """A search result. The score is the cosine of the vectors of the title and the query."""

    id: str | int
    title: str
    score: float
    payload: Any = None

    def __repr__(self) -> str:
        """Show a rounded score, and the payload if there is one."""
        payload = "" if self.payload is None else f", payload={self.payload!r}"
        return f"Hit(id={self.id!r}, title={self.title!r}, score={self.score:.4f}{payload})"


class Index:
    """Searchable titles. Iteration yields their documents in insertion order.

    Threads may share an index. It can be pickled and copied; a pickle holds all vectors, documents and the model.
    """

    def __init__(
        self, encoder: Encoder, vectors: NDArray[Any], documents: Documents, scales: Vectors | None = None
    ) -> None:
        """Use `build` or `open`."""
        self.encoder = encoder
        self._vectors, self._scales, self._documents = vectors, scales, documents

    @classmethod
    def build(
        cls,
        encoder: Encoder,
        titles: Iterable[str],
        ids: Iterable[str | int] | None = None,
        payloads: Iterable[Any] | None = None,
        progress: Progress | None = None,
        vectors: str = "float32",
    ) -> "Index":
        """Encode titles. `vectors` is their number format: float32 or int8.

        Ids may be str or int and are returned as they were given. All ids must differ as text, so 7 and "7" cannot be
        in one index. Without ids, the titles are called "0", "1", and so on. A payload is any value that JSON has.
        """
        shrink.check_vector_type(vectors)
        if isinstance(titles, str):
            raise ClickvecError(f"titles must be a list of str, not the single str {titles!r}")
        titles = list(titles)
        documents = Documents.of(titles, ids, payloads)
        distinct, rows = distinct_texts(titles)
        stored = shrink.shrink_vectors(encoder.encode_document(distinct, progress=progress), vectors)
        stored = stored if len(distinct) == len(titles) else stored[rows]
        return cls(encoder, stored, documents, None if vectors == "float32" else shrink.inverse_lengths(stored))

    @classmethod
    def open(cls, path: str | Path, encoder: Encoder | None = None) -> "Index":
        """Open an index folder. With an `encoder` of the same model, the model in the folder is not loaded."""
        with open_folder(Path(path), _FILES, "index folder") as opened:
            about = opened.json(_MARKER)
            folder.check_format(about.get("format"), INDEX_FORMAT, opened.path, "index")
            try:
                count, dimensions = int(about["count"]), int(about["dimensions"])
                fingerprint, vector_type = str(about["fingerprint"]), about.get("vectors", "float32")
                if vector_type not in shrink.READABLE_VECTOR_TYPES or count < 0:
                    raise ValueError(f"vectors: {vector_type!r}" if count >= 0 else f"count: {count}")
                opened.check(about["files"], _MARKER)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise ClickvecError(f"{path}/{_MARKER} lacks or misspells {error}; build the index again") from None
            own, whose = opened.folder("model"), "the model in it" if encoder is None else "the given encoder"
            encoder = encoder or Encoder(folder.read_model(own), own.path.resolve())
            if encoder.fingerprint != fingerprint:
                raise ClickvecError(
                    f"{path} is an index of another model: it was built with {fingerprint}, but {whose} is "
                    f"{encoder.fingerprint or 'one that was never saved'}; build the index again with that model"
                )
            if dimensions != encoder.dimensions:
                raise ClickvecError(
                    f"{path}/{_MARKER} says {dimensions} dimensions, but its model has {encoder.dimensions}"
                )
            vectors = opened.array("vectors.npy", vector_type, (count, dimensions))
            scales = None if vector_type == "float32" else opened.array("scales.npy", "float32", (count,))
            return cls(encoder, vectors, Documents.open(opened, count, about["format"] >= 3), scales)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the index folder atomically. Replace an existing index only with `overwrite`."""
        path = Path(path)
        check_index_output(path, overwrite)
        with files.replacing(path, _MARKER) as fresh:
            fingerprint = folder.copy_model(self.encoder.model, self.encoder.path, fresh / "model")
            write_array(fresh / "vectors.npy", self._vectors)
            if self._scales is not None:
                write_array(fresh / "scales.npy", self._scales)
            write_array(fresh / "documents.offsets.npy", self._documents.offsets)
            (fresh / "documents.jsonl").write_bytes(self._documents.lines.data)
            written = sorted(file for file in fresh.rglob("*") if file.is_file())
            about = {
                "format": 3 if self._documents.has_integer_ids else 1 if self._scales is None else 2,
                "count": len(self),
                "dimensions": self.encoder.dimensions,
                "fingerprint": fingerprint,
                "files": {str(file.relative_to(fresh).as_posix()): describe_file(file) for file in written},
            }
            if self._scales is not None:
                about["vectors"] = self.precision
            files.write_json(fresh / _MARKER, about)

    @property
    def precision(self) -> str:
        """The number format of the vectors: float32 or int8, or float16 in an index of an earlier version."""
        return str(self._vectors.dtype)

    @property
    def unreachable(self) -> int:
        """The number of titles that no query can find, because they have no known trigram and so no vector."""
        return int((~self._vectors.any(axis=1)).sum())

    def __repr__(self) -> str:
        """Show the number of titles, the number format and the encoder."""
        return f"Index({len(self):,} titles, {self.precision}, {self.encoder!r})"

    def __len__(self) -> int:
        """Return the number of titles."""
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in insertion order."""
        return (self._documents[position] for position in range(len(self)))

    def __getitem__(self, position: int) -> Document:
        """Return the document at a position in insertion order, from 0."""
        return self._documents[range(len(self))[position]]

    @overload
    def search(self, query: str, k: int = 10) -> list[Hit]: ...  # type: ignore[overload-overlap]  # a str iterates

    @overload
    def search(self, query: NDArray[np.number[Any]], k: int = 10) -> list[Hit] | list[list[Hit]]: ...

    @overload
    def search(self, query: Iterable[str], k: int = 10) -> list[list[Hit]]: ...

    def search(self, query: str | Iterable[str] | NDArray[np.number[Any]], k: int = 10) -> list[Hit] | list[list[Hit]]:
        """Return the k titles most similar to a query, best first, or a list of such lists for several queries.

        A query is a text or a vector, as `Encoder.encode_query` returns it: an array of (dimensions,), or of
        (n, dimensions) for n queries. Vectors are scaled to length 1. The search is exact. Ties are returned in
        insertion order, and titles with the same words have the same score. If the index holds fewer than k titles,
        all of them are returned. A query without any known trigram returns no hits, and a title without any is never
        returned. If many queries are given, the last digit of a score may differ from a search for one query alone.
        """
        if k < 1:
            raise ClickvecError(f"k is {k}; it must be at least 1")
        if isinstance(query, np.ndarray) and query.dtype.kind in "fiu":
            is_single, vectors = query.ndim == 1, self._check_vectors(query)
        else:
            is_single, vectors = isinstance(query, str), np.atleast_2d(self.encoder.encode_query(query))
        hits: list[list[Hit]] = []
        for first in range(0, len(vectors), BLOCK_QUERIES):
            block = vectors[first : first + BLOCK_QUERIES]
            hits += [self._hits(vector, near, k) for vector, near in zip(block, self._near(block, k), strict=True)]
        return hits[0] if is_single else hits

    def _check_vectors(self, query: NDArray[Any]) -> Vectors:
        """Return query vectors as (n, dimensions), of length 1."""
        dimensions = self.encoder.dimensions
        if query.ndim not in (1, 2) or query.shape[-1] != dimensions:
            raise ClickvecError(
                f"the query vectors have shape {query.shape}; expected ({dimensions},) or (n, {dimensions}), "
                "as the model of the index gives them"
            )
        vectors = np.atleast_2d(query).astype(np.float32)
        if not np.isfinite(vectors).all():
            raise ClickvecError("a query vector holds NaN or infinity; give finite numbers")
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
        scaled = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return np.where(np.abs(lengths - 1) > _UNIT_LENGTH, scaled, vectors)

    def find(self, text: str | int, *, ids: bool = True) -> int | None:
        """Return the position of a title by its id or, if no title has that id, the first with the same words.

        Return None if there is neither. With `ids=False`, compare words only.
        """
        position = self._documents.find(text) if ids else None
        if position is not None or isinstance(text, int):
            return position
        words, vector = canonical(text), self.encoder.encode_document([text])
        for first in range(0, len(self), BLOCK_TITLES):
            # The same words have nearly the same vector, or none, so only few titles need to be read.
            alike = (
                self._products(vector, first)[0] > _SAME_WORDS
                if vector.any()
                else ~self._vectors[first : first + BLOCK_TITLES].any(axis=1)
            )
            for near in (first + np.flatnonzero(alike)).tolist():
                if canonical(self._documents[near].title) == words:
                    return int(near)
        return None

    def rank(self, query: str, title: int | str) -> int | None:
        """Return the rank of a title among all hits of a query, from 1, or None if either has no vector.

        The title is a position in the index, or any other text, which is ranked as if it were inserted last.
        """
        asked = self.encoder.encode_query([query])
        if not asked.any():
            return None
        position = range(len(self))[title] if isinstance(title, int) else len(self)
        own = self.encoder.encode_document([title]) if isinstance(title, str) else self._vectors[[position]]
        if not own.any():
            return None
        score = _exact(own, asked)[0] if isinstance(title, str) else self._exact(np.array([position]), asked)[0]
        above = 0
        for first in range(0, len(self), BLOCK_TITLES):
            rough = self._products(asked, first)[0]
            rough[~self._reachable(rough, first + np.arange(len(rough)))] = -np.inf
            close = first + np.flatnonzero(np.abs(rough - score) <= self._slack)
            exact = self._exact(close, asked)
            above += int((rough > score + self._slack).sum())
            above += int(((exact > score) | ((exact == score) & (close < position))).sum())
        return 1 + above

    def _products(self, queries: Vectors, first: int) -> Vectors:
        """Return the scores of a block of titles, except for the last digits."""
        with np.errstate(invalid="ignore"):
            products = queries @ self._vectors[first : first + BLOCK_TITLES].astype(np.float32, copy=False).T
            if self._scales is not None:
                products *= self._scales[first : first + BLOCK_TITLES]
        if not np.isfinite(products.sum()):
            raise ClickvecError("a vector of the index holds NaN or infinity; build the index again")
        return products

    def _exact(self, positions: Positions, query: Vectors) -> Vectors:
        """Return the exact scores of titles."""
        return _exact(self._vectors[positions], query, 1 if self._scales is None else self._scales[positions])

    def _reachable(self, products: Vectors, positions: Positions) -> NDArray[np.bool_]:
        """Return whether these titles have a vector. Only those with a product of 0 need to be read to know."""
        reachable = np.asarray(products != 0, np.bool_)
        reachable[~reachable] = self._vectors[positions[~reachable]].any(axis=1)
        return reachable

    @property
    def _slack(self) -> float:
        """How far a product summed by BLAS can be from the exact score.

        A float32 sum of n products, whose absolute values sum to at most 1, is off by at most n/2 eps, and so is the
        score that it is compared with. This is twice that, and more than a scale can add.
        """
        return float(2 * (self.encoder.dimensions + 2) * np.finfo(np.float32).eps)

    def _near(self, queries: Vectors, k: int) -> list[Positions]:
        """Return for each query, in rising order, the positions of all titles that may be among its best k.

        BLAS sums in an order that depends on the position in the matrix, so the last digits of a product are not
        reliable. This keeps all titles within `_slack` of the k-th best score, and `_hits` decides among them.
        """
        scores = [np.zeros(0, np.float32)] * len(queries)
        positions = [np.zeros(0, np.int64)] * len(queries)
        least, has_vector = np.full(len(queries), -np.inf, np.float32), np.asarray(queries.any(axis=1))
        for first in range(0, len(self), BLOCK_TITLES):
            for i, row in enumerate(self._products(queries, first)):
                fresh = np.flatnonzero(row >= least[i]) if has_vector[i] else np.zeros(0, np.int64)
                fresh = fresh[self._reachable(row[fresh], first + fresh)]
                if not len(fresh):
                    continue
                scores[i] = np.concatenate((scores[i], row[fresh]))
                positions[i] = np.concatenate((positions[i], first + fresh))
                if len(scores[i]) > k:
                    least[i] = np.partition(scores[i], -k)[-k] - self._slack
                    kept = scores[i] >= least[i]
                    scores[i], positions[i] = scores[i][kept], positions[i][kept]
        return positions

    def _hits(self, query: Vectors, positions: Positions, k: int) -> list[Hit]:
        """Return the best k of the titles at `positions`, by their exact scores."""
        scores = np.zeros(len(positions), np.float32)
        for first in range(0, len(positions), BLOCK_TITLES):
            rows = positions[first : first + BLOCK_TITLES]
            scores[first : first + BLOCK_TITLES] = self._exact(rows, query)
        best = np.argsort(-scores, kind="stable")[:k]
        hits = []
        for position, score in zip(positions[best].tolist(), scores[best].tolist(), strict=True):
            document = self._documents[position]
            hits.append(Hit(document.id, document.title, score, document.payload))
        return hits


def _exact(vectors: NDArray[Any], query: Vectors, scales: Vectors | int = 1) -> Vectors:
    """Return scores that are summed in float64 and row by row, so that equal vectors have equal scores."""
    return np.asarray((vectors.astype(np.float64) * query).sum(axis=1) * scales, np.float32)


def check_index_output(path: Path, overwrite: bool) -> None:
    """Refuse to replace a folder that is not an index or holds other files, or an index without `overwrite`."""
    files.check_replaceable(path, _MARKER, (_MARKER, *_ARRAYS_AND_LINES, "model"))
    if (path / _MARKER).exists() and not overwrite:
        raise ClickvecError(
            f"{path} already holds an index; choose another folder, or overwrite it (--overwrite; overwrite=True)"
        )
