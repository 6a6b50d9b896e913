"""Build a segment from documents: in memory, or into a folder with bounded memory."""

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.model.encoder import BATCH_SIZE, Encoder, Vectors
from clickvec.model.shrink import StoredVectors, inverse_lengths, shrink_vectors
from clickvec.model.threads import map_in_threads
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document import Document, distinct_texts
from clickvec.search.lexical.word_segment import WordSegment
from clickvec.search.payload.fields import Fields
from clickvec.search.segments.consumer import Consumer
from clickvec.search.segments.segment import APPROXIMATE, FIELDS, MARKER, WORDS, Coverage, Segment, describe
from clickvec.search.vectors.approximate import EXACT_UP_TO, LEAST_TITLES, ApproximateSearch
from clickvec.storage import files
from clickvec.storage.arrays import npy_header, read_array, write_array, write_arrays

_SAMPLE = 500  # titles that measure the recall of the approximate search, as queries
_EXTRA = ("faiss", "search")
_log = logging.getLogger(__name__)

Block = tuple[NDArray[np.int64], list[Document]]  # sequence numbers and documents, by rising sequence number


class Plan(NamedTuple):
    """What to build a segment from."""

    blocks: Callable[[], Iterator[Block]]  # yields the same documents each time
    title_count: int
    coverage: Coverage
    encoder: Encoder
    vector_type: str = "float32"
    search: str = "exact"  # or approximate, or auto
    old: Segment | None = None  # of the same model: vectors of its documents are copied


def encode_titles(
    encoder: Encoder, titles: list[str], vector_type: str, progress: Progress | None = None
) -> StoredVectors:
    """Return one vector for each title. Titles with the same words get the same vector, in any batch.

    A single text takes another path through the encoder, and the last bit may differ: so no batch holds only one.
    """
    distinct, rows = distinct_texts(titles)
    padding = distinct[-1:] if len(distinct) % BATCH_SIZE == 1 else []
    vectors = encoder.encode_document(distinct + padding, progress=progress)
    stored = shrink_vectors(vectors, vector_type)
    return stored if len(distinct) == len(titles) and not padding else stored[rows]


def build_in_memory(plan: Plan, progress: Progress | None = None) -> Segment:
    """Build a segment in memory. Its words are indexed when they are first needed."""
    seqs, documents = zip(*plan.blocks(), strict=True) if plan.title_count else ((), ())
    every = [document for block in documents for document in block]
    titles = [document.title for document in every]
    stored = _vectors(plan, np.concatenate((*seqs, np.zeros(0, np.int64))), titles, progress)
    return Segment(
        np.concatenate((*seqs, np.zeros(0, np.int64))),
        stored,
        scales_of(stored),
        lambda: WordSegment.build(titles),
        Fields.build(document.payload for document in every),
        plan.coverage,
    )


def write_segment(plan: Plan, folder: Path, fingerprint: str, progress: Progress | None = None) -> int:
    """Write a segment into an empty folder and return the checksum of its segment.json."""
    with Consumer(WordSegment.build) as words, Consumer(Fields.build) as fields:

        def blocks() -> Iterator[Block]:
            for seqs, documents in plan.blocks():
                words.put([document.title for document in documents])
                fields.put([document.payload for document in documents])
                yield seqs, documents

        sample = _write_vectors(plan, blocks(), folder, progress or ignore)
        write_arrays(folder / WORDS, words.result().arrays())
        write_arrays(folder / FIELDS, fields.result().arrays())
    approximate = _write_approximate(plan, folder, sample, progress)
    about = {
        "format": 1,
        "count": plan.title_count,
        "last_seq": plan.coverage.seq,
        "last_deletion": plan.coverage.deletion,
        "fingerprint": fingerprint,
        "vectors": plan.vector_type,
        "approximate": approximate,
        "files": {file.name: describe(file) for file in sorted(folder.iterdir())},
    }
    files.write_json(folder / MARKER, about)
    return zlib.crc32((folder / MARKER).read_bytes())


def scales_of(stored: StoredVectors) -> Vectors | None:
    """Return the factors that scale stored vectors to length 1; None if they have it."""
    return None if stored.dtype == np.float32 else inverse_lengths(stored)


def _write_approximate(plan: Plan, folder: Path, sample: list[str], progress: Progress | None) -> dict[str, Any] | None:
    """Write the approximate search, if the titles are many or it is asked for. Return its settings."""
    is_wanted = plan.title_count > EXACT_UP_TO if plan.search == "auto" else plan.search == "approximate"
    if not is_wanted or plan.title_count < LEAST_TITLES:
        return None
    if plan.search == "auto" and find_spec("faiss") is None:
        _log.warning("%d titles are searched exactly, which is slow: %s", plan.title_count, missing_extra(*_EXTRA))
        return None
    shape = (plan.title_count, plan.encoder.dimensions)
    with (folder / "vectors.npy").open("rb") as file:
        vectors = read_array(file, str(folder / "vectors.npy"), plan.vector_type, shape)
    scales = None if plan.vector_type == "float32" else np.load(folder / "scales.npy")
    queries = plan.encoder.encode_query(sample)
    search = ApproximateSearch.build(vectors, scales, queries=queries, progress=progress)
    write_arrays(folder / APPROXIMATE, search.arrays())
    return search.settings


def _write_vectors(plan: Plan, blocks: Iterable[Block], folder: Path, progress: Progress) -> list[str]:
    """Write seqs.npy, vectors.npy and scales.npy, block by block. Return a sample of the titles."""
    sample: list[str] = []
    step = max(1, plan.title_count // _SAMPLE)
    dtype, shape = np.dtype(plan.vector_type), (plan.title_count, plan.encoder.dimensions)
    seqs, scales, done = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)], 0

    def encode(block: Block) -> tuple[NDArray[np.int64], StoredVectors]:
        sample.extend(document.title for document in block[1][::step])
        return block[0], _vectors(plan, block[0], [document.title for document in block[1]])

    progress("encoding", 0, plan.title_count)
    with _array_file(folder / "vectors.npy", dtype, shape) as file:
        for block_seqs, rows in map_in_threads(encode, blocks):
            file.write(np.ascontiguousarray(rows).data)
            seqs.append(block_seqs)
            if dtype != np.float32:
                scales.append(inverse_lengths(rows))
            done += len(rows)
            progress("encoding", done, plan.title_count)
    if done != plan.title_count:
        raise ClickvecError(f"there are {done:,} documents instead of {plan.title_count:,}; check documents.sqlite")
    write_array(folder / "seqs.npy", np.concatenate(seqs))
    if dtype != np.float32:
        write_array(folder / "scales.npy", np.concatenate(scales))
    return sorted(sample)  # threads have collected it


@contextmanager
def _array_file(path: Path, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Iterator[BinaryIO]:
    with path.open("wb") as file:
        file.write(npy_header(dtype, shape))
        yield file


def _vectors(plan: Plan, seqs: NDArray[np.int64], titles: list[str], progress: Progress | None = None) -> StoredVectors:
    """Return the vectors of documents: copied where the old segment has them, else encoded."""
    if plan.old is None or not len(plan.old):
        return encode_titles(plan.encoder, titles, plan.vector_type, progress)
    at = np.minimum(np.searchsorted(plan.old.seqs, seqs), len(plan.old) - 1)
    is_known = plan.old.seqs[at] == seqs
    stored = np.empty((len(seqs), plan.encoder.dimensions), plan.vector_type)
    stored[is_known] = plan.old.exact.vectors[at[is_known]]
    new = np.flatnonzero(~is_known).tolist()
    if new:
        stored[new] = encode_titles(plan.encoder, [titles[row] for row in new], plan.vector_type, progress)
    return stored
