"""A segment: what is derived from the documents up to some sequence number, in immutable memory-mapped files.

A segment folder holds
    segment.json             what it covers, the model, and the size and checksum of each other file
    seqs.npy                 int64 (titles,): the sequence numbers of its documents, rising
    vectors.npy              float32 or int8 (titles, dimensions)
    scales.npy               float32 (titles,): the factor that scales each int8 vector to length 1
    words.safetensors        the postings (see `lexical/word_segment.py`)
    fields.safetensors       the fields of the payloads (see `payload/fields.py`)
    approximate.safetensors  the approximate search, if there is one (see `vectors/approximate.py`)
A folder is never changed after it was written, so one record of sizes and checksums serves it: those of a small segment
are compared when it is opened, those of a large one in the background after that. It can always be built again from the
documents.
"""

import logging
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, UnavailableError, missing_extra
from clickvec.model.encoder import Vectors
from clickvec.model.shrink import VECTOR_TYPES, StoredVectors
from clickvec.search.lexical.word_segment import WordSegment
from clickvec.search.payload.fields import Fields
from clickvec.search.vectors.approximate import ApproximateSearch
from clickvec.search.vectors.exact import ExactSearch, Positions
from clickvec.storage.arrays import map_file
from clickvec.storage.json_files import parse_json
from clickvec.storage.snapshot import Snapshot, open_folder

MARKER, WORDS, FIELDS, APPROXIMATE = (
    "segment.json",
    "words.safetensors",
    "fields.safetensors",
    "approximate.safetensors",
)
FILES = (MARKER, "seqs.npy", "vectors.npy", "scales.npy", WORDS, FIELDS, APPROXIMATE)
CHECKED_BYTES = 256 * 2**20  # a smaller segment is checked byte for byte when it is opened, a larger one afterwards
_BLOCK = 2**20
_log = logging.getLogger(__name__)


class DamagedSegmentError(UnavailableError):
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

    @property
    def compared(self) -> int:
        """About how many titles `nearest` compares with a query."""
        return len(self) if self.approximate is None else self.approximate.compared

    def nearest(
        self, queries: Vectors, k: int, allowed: NDArray[np.bool_] | None
    ) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the k best titles for each query. An approximate search may miss some."""
        if self.approximate is None:
            return self.exact.nearest(queries, k, allowed)
        return self.approximate.nearest(queries, k, allowed)

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
        """Compare the checksum of every byte in a background thread. Until then, wrong scores are possible, no more."""
        contents = {name: map_file(opened.file(name)) for name in recorded}

        def check() -> None:
            for name, content in contents.items():
                if checksum(content) != recorded[name]["crc32"]:
                    self._damage = damaged(opened.path / name, "its checksum disagrees")
                    return

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
    about = _checked(parse_json(data))
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
    seqs = opened.array("seqs.npy", "int64", (count,))
    # What searches rely on is checked before the first one: a stranger's file can have the right checksum.
    with _naming(path / "seqs.npy"):
        if (seqs[1:] <= seqs[:-1]).any():
            raise ValueError("the sequence numbers do not rise")
    with _naming(path / WORDS):
        words = WordSegment.from_arrays(opened.arrays(WORDS))
        words.check(count)
    with _naming(path / FIELDS):
        fields = Fields.from_arrays(opened.arrays(FIELDS))
        fields.check(count)
    with _naming(path / APPROXIMATE):
        approximate = _open_approximate(opened, vectors, scales, about["approximate"])
    coverage = Coverage(about["last_seq"], about["last_deletion"])
    segment = Segment(seqs, vectors, scales, words, fields, coverage, approximate)
    if not is_small:
        segment.check_later(opened, recorded)
    return segment


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn the errors of what a file holds into one that names it."""
    try:
        yield
    except (ValueError, LookupError) as error:
        raise DamagedSegmentError(damaged(path, str(error))) from None


def _checked(about: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what segment.json holds. Raise ValueError if a value has the wrong type or range."""
    numbers = [about[name] for name in ("count", "last_seq", "last_deletion")]
    numbers += [entry[name] for entry in about["files"].values() for name in ("bytes", "crc32")]
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise ValueError(f"{MARKER} holds a number that is none")
    if about["vectors"] not in VECTOR_TYPES or not isinstance(about["approximate"], dict | None):
        raise ValueError(f"{MARKER} names vectors that do not exist")
    return dict(about)


def _open_approximate(
    opened: Snapshot, vectors: StoredVectors, scales: Vectors | None, settings: dict[str, Any] | None
) -> ApproximateSearch | None:
    if settings is None:
        return None
    if find_spec("faiss") is None:
        _log.warning("%s is searched exactly, which is slow: %s", opened.path, missing_extra("faiss", "search"))
        return None
    return ApproximateSearch.from_arrays(opened.arrays(APPROXIMATE), vectors, scales, settings)


def _difference(opened: Snapshot, name: str, recorded: dict[str, Any], is_small: bool) -> str | None:
    """Return how a file differs from what segment.json records of it."""
    if name not in opened:
        return "it is missing"
    file = opened.file(name)
    size = file.seek(0, 2)
    if size != recorded["bytes"]:
        return f"it has {size:,} bytes instead of {recorded['bytes']:,}"
    is_wrong = is_small and checksum(map_file(file)) != recorded["crc32"]
    return "its checksum disagrees" if is_wrong else None


def damaged(path: Path, reason: str) -> str:
    """Return the sentence for a damaged derived file."""
    return (
        f"{path} is damaged: {reason}; the documents are not affected, and it is built again from them by "
        "clickvec serve, clickvec index add or delete, and Index.open(path, repair=True)"
    )


def describe(path: Path) -> dict[str, Any]:
    """Return size and checksum of a file, as segment.json records them."""
    with path.open("rb") as file:
        content = map_file(file)
        return {"bytes": len(content), "crc32": checksum(content)}


def checksum(content: NDArray[np.uint8]) -> int:
    """Return the CRC-32 of bytes."""
    crc = 0
    for first in range(0, len(content), _BLOCK):
        crc = zlib.crc32(content[first : first + _BLOCK].data, crc)
    return crc
