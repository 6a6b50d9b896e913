"""Index: the vectors of a catalogue's titles, and exact search among them. NumPy only.

An index folder holds
    index.json              format, count, dimensions, the model's fingerprint, the size of each file
    vectors.npy             float32 (titles, dimensions), of length 1, in the order the titles were given;
                            or float16 or int8, and then (format 2)
    scales.npy              float32 (titles,): what each vector is to be multiplied by to be of length 1
    documents.jsonl         one JSON object a line: id, title and, where there is one, payload
    documents.offsets.npy   int64: where each line begins, and where the last one ends
    model/                  a copy of the model folder, so that an index opens by itself

Search reads the vectors from the disk block by block, and of the documents only the hits.
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
from clickvec.search.documents import Document, Documents, Positions
from clickvec.storage import files
from clickvec.storage.arrays import write_array
from clickvec.storage.snapshot import describe_file, open_folder
from clickvec.text.tokens import canonical

INDEX_FORMAT = 2  # the newest that is known here; an index whose vectors are float32 is written as format 1
BLOCK_QUERIES, BLOCK_TITLES = 256, 16_384  # scored at once: 16 MB of scores

_SAME_VECTOR = 1e-3  # below 1: the cosine of two vectors of the same words is nearer to it, be one of them int8

_MARKER = "index.json"
_ARRAYS_AND_LINES = ("vectors.npy", "scales.npy", "documents.jsonl", "documents.offsets.npy")
_FILES = (_MARKER, *_ARRAYS_AND_LINES, *(f"model/{name}" for name in folder.MODEL_FILES))


class Hit(NamedTuple):
    """A title that was found; the score is the cosine of its vector and the query's."""

    id: str
    title: str
    score: float
    payload: Any = None


class Index:
    """Titles that can be searched. Iterating gives their documents, in the order of insertion; threads may share it."""

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
        ids: Iterable[str] | None = None,
        payloads: Iterable[Any] | None = None,
        progress: Progress | None = None,
        vectors: str = "float32",
    ) -> "Index":
        """Encode titles; without ids they are called "0", "1", ...; a payload is anything that JSON can hold.

        `vectors` is what they are kept as: float32, float16 or int8.
        """
        shrink.check(vectors, "vectors")
        if isinstance(titles, str):
            raise ClickvecError(f"an index is built of a list of titles, not of one str, {titles!r}")
        titles = list(titles)
        documents = Documents.of(titles, ids, payloads)
        # Titles of the same words are encoded once: in a batch, the last bit of a vector depends on its place.
        rows: dict[str, int] = {}
        row = [rows.setdefault(canonical(title), len(rows)) for title in titles]
        kept = shrink.shrink_vectors(encoder.encode_document(list(rows), progress=progress), vectors)
        kept = kept if len(rows) == len(row) else kept[row]
        return cls(encoder, kept, documents, None if vectors == "float32" else shrink.one_over_length(kept))

    @property
    def precision(self) -> str:
        """What the vectors are kept as: float32, float16 or int8."""
        return str(self._vectors.dtype)

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the index folder, whole or not at all; an index that is there already only with `overwrite`."""
        path = Path(path)
        check_place(path, overwrite)
        with files.replacing(path, _MARKER) as fresh:
            fingerprint = folder.copy_model(self.encoder.model, self.encoder.path, fresh / "model")
            write_array(fresh / "vectors.npy", self._vectors)
            if self._scales is not None:
                write_array(fresh / "scales.npy", self._scales)
            write_array(fresh / "documents.offsets.npy", self._documents.offsets)
            (fresh / "documents.jsonl").write_bytes(self._documents.lines.data)
            written = sorted(file for file in fresh.rglob("*") if file.is_file())
            about = {
                "format": 1 if self._scales is None else INDEX_FORMAT,
                "count": len(self),
                "dimensions": self.encoder.dimensions,
                "fingerprint": fingerprint,
                "files": {str(file.relative_to(fresh).as_posix()): describe_file(file) for file in written},
            }
            if self._scales is not None:
                about["vectors"] = self.precision
            files.write_json(fresh / _MARKER, about)

    @classmethod
    def open(cls, path: str | Path, encoder: Encoder | None = None) -> "Index":
        """Open an index folder, with the model in it, or with an encoder of the same model that is at hand."""
        with open_folder(Path(path), _FILES, "index folder") as opened:
            about = opened.json(_MARKER)
            folder.check_format(about.get("format"), INDEX_FORMAT, opened.path, "index")
            try:
                count, dimensions = int(about["count"]), int(about["dimensions"])
                fingerprint, precision = str(about["fingerprint"]), about.get("vectors", "float32")
                if precision not in shrink.PRECISIONS or count < 0:
                    raise ValueError(f"vectors: {precision!r}" if count >= 0 else f"count: {count}")
                opened.check(about["files"], _MARKER)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise ClickvecError(f"{path}/{_MARKER} lacks or misspells {error}; build the index again") from None
            own, whose = opened.folder("model"), "the model in it" if encoder is None else "the encoder given"
            encoder = encoder or Encoder(folder.read_model(own), own.path.resolve())
            if encoder.fingerprint != fingerprint:
                raise ClickvecError(
                    f"{path} is an index of another model: it was built with {fingerprint}, and {whose} is "
                    f"{encoder.fingerprint or 'one that was never saved'}; build the index again with that model"
                )
            if dimensions != encoder.dimensions:
                raise ClickvecError(
                    f"{path}/{_MARKER} says {dimensions} dimensions, and its model has {encoder.dimensions}"
                )
            vectors = opened.array("vectors.npy", precision, (count, dimensions))
            scales = None if precision == "float32" else opened.array("scales.npy", "float32", (count,))
            return cls(encoder, vectors, Documents.open(opened, count), scales)

    def __len__(self) -> int:
        """The number of titles."""
        return len(self._documents)

    @property
    def unreachable(self) -> int:
        """How many titles no query can find: they have no trigram that the model knows, and so no vector."""
        return int((~self._vectors.any(axis=1)).sum())

    def __iter__(self) -> Iterator[Document]:
        """The documents, in the order of insertion."""
        return (self._documents[position] for position in range(len(self)))

    @overload
    def search(self, query: str, k: int = 10) -> list[Hit]: ...  # type: ignore[overload-overlap]  # a str iterates

    @overload
    def search(self, query: Iterable[str], k: int = 10) -> list[list[Hit]]: ...

    def search(self, query: str | Iterable[str], k: int = 10) -> list[Hit] | list[list[Hit]]:
        """The k titles nearest to a query, best first; of many queries, such a list for each.

        The answer is exact. Equal scores stand in the order of insertion, and equal titles score the same. Fewer than
        k titles are all given. A query without words, or without a trigram that the model knows, finds nothing, and
        such a title is never found. Asked among others, a query's vector, and so a score, may differ from that of the
        query alone in the last digit.
        """
        if k < 1:
            raise ClickvecError(f"k is at least 1, not {k}: it is how many titles a search gives")
        vectors = self.encoder.encode_query([query] if isinstance(query, str) else query)
        found: list[list[Hit]] = []
        for first in range(0, len(vectors), BLOCK_QUERIES):
            block = vectors[first : first + BLOCK_QUERIES]
            for vector, near in zip(block, self._near(block, k), strict=True):
                found.append(self._hits(vector, near, k))
        return found[0] if isinstance(query, str) else found

    def __getitem__(self, position: int) -> Document:
        """The document at a position in the order of insertion, from 0."""
        return self._documents[range(len(self))[position]]

    def find(self, given: str, *, ids: bool = True) -> int | None:
        """The position of a title by its id or, if there is no such id, by its words; of several, the first.

        Without `ids`, by its words alone.
        """
        place = self._documents.find(given) if ids else None
        if place is not None:
            return place
        words, vector = canonical(given), self.encoder.encode_document([given])
        for first in range(0, len(self), BLOCK_TITLES):
            # The same words have the same vector, but for the last digits, or none: few titles need to be read.
            alike = (
                self._products(vector, first)[0] > 1 - _SAME_VECTOR
                if vector.any()
                else ~self._vectors[first : first + BLOCK_TITLES].any(axis=1)
            )
            for near in (first + np.flatnonzero(alike)).tolist():
                if canonical(self._documents[near].title) == words:
                    return int(near)
        return None

    def rank(self, query: str, title: int | str) -> int | None:
        """Where a title stands among all hits of a query, the first at 1; None where either has no vector.

        The title is one of the index, by its position; or any other, which is ranked as if it were put in last.
        """
        asked = self.encoder.encode_query([query])
        if not asked.any():
            return None
        place = range(len(self))[title] if isinstance(title, int) else len(self)
        own = self.encoder.encode_document([title]) if isinstance(title, str) else self._vectors[[place]]
        if not own.any():
            return None
        score = _exact(own, asked)[0] if isinstance(title, str) else self._exact(np.array([place]), asked)[0]
        above = 0
        for first in range(0, len(self), BLOCK_TITLES):
            rough = self._products(asked, first)[0]
            rough[~self._reachable(rough, first + np.arange(len(rough)))] = -np.inf
            close = first + np.flatnonzero(np.abs(rough - score) <= self._slack)
            exact = self._exact(close, asked)
            above += int((rough > score + self._slack).sum())
            above += int(((exact > score) | ((exact == score) & (close < place))).sum())
        return 1 + above

    def _products(self, queries: Vectors, first: int) -> Vectors:
        """The scores of a block of titles, but for the last digits."""
        with np.errstate(invalid="ignore"):
            products = queries @ self._vectors[first : first + BLOCK_TITLES].astype(np.float32, copy=False).T
            if self._scales is not None:
                products *= self._scales[first : first + BLOCK_TITLES]
        if not np.isfinite(products.sum()):
            raise ClickvecError("a vector of the index holds what is not a number; build the index again")
        return products

    def _exact(self, positions: Positions, query: Vectors) -> Vectors:
        """The exact scores of some titles."""
        return _exact(self._vectors[positions], query, 1 if self._scales is None else self._scales[positions])

    def _reachable(self, products: Vectors, positions: Positions) -> NDArray[np.bool_]:
        """Whether these titles have a vector; one that has none gives 0 with every query, so few need to be read."""
        found = np.asarray(products != 0, np.bool_)
        found[~found] = self._vectors[positions[~found]].any(axis=1)
        return found

    @property
    def _slack(self) -> float:
        """How far a product that BLAS sums may be from the exact score.

        A float32 sum of n products, whose sizes sum to 1 at most, is off by n/2 eps at most, and so is the other that
        it is compared with; this is twice that, and more than a scale can add.
        """
        return float(2 * (self.encoder.dimensions + 2) * np.finfo(np.float32).eps)

    def _near(self, queries: Vectors, k: int) -> list[Positions]:
        """For each query, in rising order, the positions of all titles that may be among its best k.

        A matrix product sums in an order that depends on the place in the matrix, so its last digits are not to be
        trusted: what comes within `_slack` of the k-th best score is kept, and `_hits` decides.
        """
        scores = [np.zeros(0, np.float32)] * len(queries)
        positions = [np.zeros(0, np.int64)] * len(queries)
        least, asked = np.full(len(queries), -np.inf, np.float32), np.asarray(queries.any(axis=1))
        for first in range(0, len(self), BLOCK_TITLES):
            for i, row in enumerate(self._products(queries, first)):
                fresh = np.flatnonzero(row >= least[i]) if asked[i] else np.zeros(0, np.int64)
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
        """The best k of some titles, by their exact scores."""
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
    """Scores in float64 and row by row, so that equal vectors score alike."""
    return np.asarray((vectors.astype(np.float64) * query).sum(axis=1) * scales, np.float32)


def check_place(path: Path, overwrite: bool) -> None:
    """Refuse to replace another's folder, or what somebody put into ours; or ours, when not told to."""
    files.check_replaceable(path, _MARKER, (_MARKER, *_ARRAYS_AND_LINES, "model"))
    if (path / _MARKER).exists() and not overwrite:
        raise ClickvecError(
            f"{path} holds an index already; choose another folder, or overwrite it (--overwrite; overwrite=True)"
        )
