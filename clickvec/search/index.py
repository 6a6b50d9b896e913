"""Index: the vectors of a catalogue's titles, and exact search among them. NumPy only.

An index folder holds
    index.json              format, count, dimensions, the fingerprint of the model, the size of each file
    vectors.npy             float32 (titles, dimensions), of length 1, in the order of the titles; or int8 (format 2)
    scales.npy              float32 (titles,): the factor that scales each int8 vector to length 1
    documents.jsonl         one JSON object per line: id, title and, if there is one, payload
    documents.offsets.npy   int64: the offset of each line, and the end of the last one
    model/                  a copy of the model folder, so that an index opens on its own
Earlier versions also wrote float16 vectors, with scales. Format 3 has integer ids.

Search reads only the documents of the hits.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model import folder, shrink
from clickvec.model.encoder import Encoder, Vectors
from clickvec.progress import Progress
from clickvec.search.documents import Document, Documents, distinct_texts
from clickvec.search.exact import ExactSearch
from clickvec.storage import files
from clickvec.storage.arrays import write_array
from clickvec.storage.snapshot import describe_file, open_folder
from clickvec.text.tokens import canonical

INDEX_FORMAT = 3  # the newest known format; an index is written in the oldest that can express it
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
        self, encoder: Encoder, vectors: shrink.StoredVectors, documents: Documents, scales: Vectors | None = None
    ) -> None:
        """Use `build` or `open`."""
        self.encoder, self._documents, self._exact = encoder, documents, ExactSearch(vectors, scales)

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
            (fresh / "model").mkdir()
            fingerprint = folder.write_model(self.encoder.model, fresh / "model")
            vectors, scales = self._exact.vectors, self._exact.scales
            write_array(fresh / "vectors.npy", vectors)
            if scales is not None:
                write_array(fresh / "scales.npy", scales)
            write_array(fresh / "documents.offsets.npy", self._documents.offsets)
            (fresh / "documents.jsonl").write_bytes(self._documents.lines.data)
            written = sorted(file for file in fresh.rglob("*") if file.is_file())
            about = {
                "format": 3 if self._documents.has_integer_ids else 1 if scales is None else 2,
                "count": len(self),
                "dimensions": self.encoder.dimensions,
                "fingerprint": fingerprint,
                "files": {str(file.relative_to(fresh).as_posix()): describe_file(file) for file in written},
            }
            if scales is not None:
                about["vectors"] = self.precision
            files.write_json(fresh / _MARKER, about)

    @property
    def precision(self) -> str:
        """The number format of the vectors: float32 or int8, or float16 in an index of an earlier version."""
        return str(self._exact.vectors.dtype)

    @property
    def unreachable(self) -> int:
        """The number of titles that no query can find, because they have no known trigram and so no vector."""
        return int((~self._exact.vectors.any(axis=1)).sum())

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
        hits = [
            [self._hit(position, score) for position, score in zip(positions.tolist(), scores.tolist(), strict=True)]
            for positions, scores in self._exact.nearest(vectors, k)
        ]
        return hits[0] if is_single else hits

    def _hit(self, position: int, score: float) -> Hit:
        document = self._documents[position]
        return Hit(document.id, document.title, score, document.payload)

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

    def find(self, text: str | int) -> int | None:
        """Return the position of a title by its id or, if no title has that id, the first with the same words.

        Return None if there is neither.
        """
        position = self._documents.find(text)
        if position is not None or isinstance(text, int):
            return position
        # The same words have nearly the same vector, or none, so only few titles need to be read.
        words, alike = canonical(text), self._exact.alike(self.encoder.encode_document(text))
        return next((near for near in alike if canonical(self._documents[near].title) == words), None)

    def rank(self, query: str, title: int | str) -> int | None:
        """Return the rank of a title among all hits of a query, from 1, or None if either has no vector.

        The title is a position in the index, or any other text, which is ranked as if it were inserted last.
        """
        vector = self.encoder.encode_query(query)
        if not vector.any():
            return None
        if isinstance(title, int):
            return self._exact.rank(vector, range(len(self))[title])
        return self._exact.rank(vector, self.encoder.encode_document(title))


def check_index_output(path: Path, overwrite: bool) -> None:
    """Refuse to replace a folder that is not an index or holds other files, or an index without `overwrite`."""
    files.check_replaceable(path, _MARKER, (_MARKER, *_ARRAYS_AND_LINES, "model"))
    if (path / _MARKER).exists() and not overwrite:
        raise ClickvecError(
            f"{path} already holds an index; choose another folder, or overwrite it (--overwrite; overwrite=True)"
        )
