"""A segment: what is derived from the documents up to some sequence number, in immutable memory-mapped files.

A segment folder holds
    segment.json             what it covers, the model, and the size and checksum of each other file
    seqs.npy                 int64 (titles,): the sequence numbers of its documents, rising
    vectors.npy              float32 or int8 (titles, dimensions)
    scales.npy               float32 (titles,): the factor that scales each int8 vector to length 1
    words.safetensors        the postings (see `lexical/word_segment.py`)
    fields.safetensors       the fields of the payloads (see `payload/fields.py`)
    approximate.faiss        the approximate search, if there is one
A folder is never changed after it was written. It can always be built again from the documents.
"""

import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.model.encoder import Vectors
from clickvec.model.shrink import VECTOR_TYPES, StoredVectors
from clickvec.search.lexical.word_segment import WordSegment
from clickvec.search.payload.fields import Fields
from clickvec.search.vectors.approximate import ApproximateSearch
from clickvec.search.vectors.exact import ExactSearch, Positions
from clickvec.storage.arrays import map_file
from clickvec.storage.json_files import parse_json
from clickvec.storage.snapshot import Snapshot, open_folder, sample

MARKER, WORDS, FIELDS, APPROXIMATE = "segment.json", "words.safetensors", "fields.safetensors", "approximate.faiss"
FILES = (MARKER, "seqs.npy", "vectors.npy", "scales.npy", WORDS, FIELDS, APPROXIMATE)
CHECKED_BYTES = 256 * 2**20  # a smaller segment is checked byte for byte when it is opened, a larger one afterwards
_BLOCK = 2**20
_log = logging.getLogger(__name__)


class DamagedSegmentError(ClickvecError):
    """A derived file is missing or damaged. The documents are not: the segment can be built again."""


class Coverage(NamedTuple):
    """How far a segment or a view has come: the last sequence number and the last deletion that it knows."""

    seq: int = 0
    deletion: int = 0


class Segment:
    """Vectors, words and fields of the same titles at the same positions."""

    def __init__(
        self,
        seqs: NDArray[np.int64],
        vectors: StoredVectors,
        scales: Vectors | None,
        words: WordSegment | Callable[[], WordSegment],
        fields: Fields | Callable[[], Fields],
        coverage: Coverage,
        approximate: ApproximateSearch | None = None,
    ) -> None:
        """Hold arrays. `words` and `fields` may be functions that build them when they are first needed."""
        self.seqs, self.coverage = seqs, coverage
        self.exact, self.approximate = ExactSearch(vectors, scales), approximate
        self._words, self._fields, self._lock = words, fields, threading.Lock()
        self._damage: str | None = None  # what the check in the background has found
        self._checking: threading.Thread | None = None

    def __len__(self) -> int:
        """Return the number of titles, also of those that were deleted since."""
        return len(self.seqs)

    @property
    def words(self) -> WordSegment:
        """The postings."""
        if not isinstance(self._words, WordSegment):
            with self._lock:
                if not isinstance(self._words, WordSegment):
                    self._words = self._words()
        return self._words

    @property
    def fields(self) -> Fields:
        """The fields of the payloads."""
        if not isinstance(self._fields, Fields):
            with self._lock:
                if not isinstance(self._fields, Fields):
                    self._fields = self._fields()
        return self._fields

    def nearest(
        self, queries: Vectors, k: int, allowed: NDArray[np.bool_] | None, thorough: bool
    ) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the k best titles for each query. If the search is approximate and thorough, few of them are missed."""
        if self.approximate is None:
            return self.exact.nearest(queries, k, allowed)
        return self.approximate.nearest(queries, k, allowed, thorough)

    @property
    def vector_type(self) -> str:
        """The number format of the vectors."""
        return str(self.exact.vectors.dtype)

    def check(self, wait: bool = False) -> None:
        """Raise if the check in the background has found damage. It may still be running, unless told to wait."""
        if wait and self._checking:
            self._checking.join()
        if self._damage:
            raise DamagedSegmentError(self._damage)

    def check_later(self, opened: Snapshot, recorded: dict[str, Any]) -> None:
        """Check every byte in a background thread."""
        contents = {name: map_file(opened.file(name)) for name in recorded}

        def check() -> None:
            for name, content in contents.items():
                if checksum(content) != recorded[name]["crc32"]:
                    self._damage = damaged(opened.path / name, "its checksum disagrees")
                    return
            try:
                self.words.check(len(self))
            except ValueError as error:
                self._damage = damaged(opened.path / WORDS, str(error))

        self._checking = threading.Thread(target=check, name="clickvec-check", daemon=True)
        self._checking.start()


def open_segment(path: Path, about_crc: int, fingerprint: str, dimensions: int) -> Segment:
    """Open a segment folder, memory-mapped. Raise `DamagedSegmentError` if a file is missing or damaged."""
    try:
        with open_folder(path, FILES, "segment") as opened:
            return _read(opened, about_crc, fingerprint, dimensions)
    except DamagedSegmentError:
        raise
    except (ClickvecError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise DamagedSegmentError(damaged(path, str(error))) from None


def empty_segment(dimensions: int, vector_type: str) -> Segment:
    """Return a segment without titles."""
    scales = None if vector_type == VECTOR_TYPES[0] else np.zeros(0, np.float32)
    return vectors_alone(np.zeros(0, np.int64), np.zeros((0, dimensions), vector_type), scales)


def vectors_alone(seqs: NDArray[np.int64], vectors: StoredVectors, scales: Vectors | None) -> Segment:
    """Return a segment without words and fields, to copy vectors from."""
    return Segment(seqs, vectors, scales, lambda: WordSegment.build(()), Fields.build(()), Coverage())


def _read(opened: Snapshot, about_crc: int, fingerprint: str, dimensions: int) -> Segment:
    path = opened.path
    data = opened.file(MARKER).read()
    if zlib.crc32(data) != about_crc:
        raise DamagedSegmentError(damaged(path / MARKER, "its checksum disagrees"))
    about = parse_json(data)
    recorded, count = about["files"], about["count"]
    is_small = sum(entry["bytes"] for entry in recorded.values()) <= CHECKED_BYTES
    for name, entry in recorded.items():
        if reason := _difference(opened, name, entry, is_small):
            raise DamagedSegmentError(damaged(path / name, reason))
    if about["fingerprint"] != fingerprint:
        raise DamagedSegmentError(
            damaged(path, f"it was built with the model {about['fingerprint']}, not {fingerprint}")
        )
    vectors = opened.array("vectors.npy", about["vectors"], (count, dimensions))
    scales = None if about["vectors"] == VECTOR_TYPES[0] else opened.array("scales.npy", "float32", (count,))
    segment = Segment(
        opened.array("seqs.npy", "int64", (count,)),
        vectors,
        scales,
        WordSegment.from_arrays(opened.arrays(WORDS)),
        Fields.from_arrays(opened.arrays(FIELDS)),
        Coverage(about["last_seq"], about["last_deletion"]),
        _open_approximate(path, vectors, scales, about["approximate"]),
    )
    if is_small:
        segment.words.check(count)
    else:
        segment.check_later(opened, recorded)
    return segment


def _open_approximate(
    path: Path, vectors: StoredVectors, scales: Vectors | None, settings: dict[str, Any] | None
) -> ApproximateSearch | None:
    if settings is None:
        return None
    if find_spec("faiss") is None:
        _log.warning("%s is searched exactly, which is slow: %s", path, missing_extra("faiss", "search"))
        return None
    return ApproximateSearch.open(path / APPROXIMATE, vectors, scales, settings)


def _difference(opened: Snapshot, name: str, recorded: dict[str, Any], is_small: bool) -> str | None:
    """Return how a file differs from what segment.json records of it."""
    if name not in opened:
        return "it is missing"
    file = opened.file(name)
    size = file.seek(0, 2)
    if size != recorded["bytes"]:
        return f"it has {size:,} bytes instead of {recorded['bytes']:,}"
    is_same = checksum(map_file(file)) == recorded["crc32"] if is_small else sample(file) == recorded["sample"]
    return None if is_same else "its checksum disagrees"


def damaged(path: Path, reason: str) -> str:
    """Return the sentence for a damaged derived file."""
    return (
        f"{path} is damaged: {reason}; the documents are not affected, and it is built again from them when the index "
        "is opened for writing (clickvec serve, clickvec index add or delete, Index.open(path, writing=True))"
    )


def describe(path: Path) -> dict[str, Any]:
    """Return size, checksum and sample of a file, as segment.json records them."""
    with path.open("rb") as file:
        content = map_file(file)
        return {"bytes": len(content), "crc32": checksum(content), "sample": sample(file)}


def checksum(content: NDArray[np.uint8]) -> int:
    """Return the CRC-32 of bytes."""
    crc = 0
    for first in range(0, len(content), _BLOCK):
        crc = zlib.crc32(content[first : first + _BLOCK].data, crc)
    return crc
