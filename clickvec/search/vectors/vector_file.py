"""Encode titles into a file of vectors. Memory use is constant, and the file appears whole or not at all.

A file that ends in .parquet has the ids and titles beside the vectors; any other file is .npy.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, tee
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clickvec.data import BadLines, Columns, Title, stream_title_blocks, stream_titles
from clickvec.data.parsing.columns import OWN_NAMES
from clickvec.data.parsing.lines import MAX_BAD
from clickvec.errors import ClickvecError, missing_extra
from clickvec.model.encoder import BATCH_SIZE, Encoder, in_batches
from clickvec.model.shrink import check_vector_type, shrink_vectors
from clickvec.model.threads import map_in_threads
from clickvec.progress import Progress, ignore
from clickvec.storage import files
from clickvec.storage.arrays import npy_header
from clickvec.storage.outputs import check_new_file

GROUP_BATCHES = 8  # batches in a row group of Parquet: 25 MB with 96 dimensions
_TEXT = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".gz")  # file endings that promise something else than vectors


@dataclass
class Written:
    """What `write_vectors` has written."""

    rows: int = 0
    zeros: int = 0  # rows of titles without a known trigram
    out_of_step: int | None = None  # in .npy, the first line whose row number differs from its line number


def write_vectors(
    encoder: Encoder,
    titles: Path,
    out: Path,
    *,
    columns: Columns = OWN_NAMES,
    queries: bool = False,
    vectors: str = "float32",
    overwrite: bool = False,
    max_bad: float = MAX_BAD,
    bad: BadLines | None = None,
    progress: Progress | None = None,
) -> Written:
    """Encode the titles of a file, or queries with the query tower, and return what was written.

    `vectors` is the number format: float32 or int8. Raise if more than `max_bad` of the lines are bad; `bad` collects
    them.
    """
    check_vectors_output(out, vectors, overwrite)
    bad, written, report = BadLines() if bad is None else bad, Written(), progress or ignore
    encode = encoder.encode_query if queries else encoder.encode_document

    def encoded(texts: Iterable[str]) -> Iterator[NDArray[Any]]:
        report("encoding", 0, None)
        for rows in map_in_threads(encode, in_batches(texts, BATCH_SIZE)):
            written.rows += len(rows)
            written.zeros += int((~rows.any(axis=1)).sum())
            report("encoding", written.rows, None)
            yield shrink_vectors(rows, vectors)
        report("encoding", written.rows, written.rows)

    with files.replacing_file(out) as file:
        if is_parquet(out):
            entries, read = tee(stream_titles(titles, bad, max_bad, columns))
            _write_parquet(file, entries, encoded(entry.title for entry in read))
            columns.check_used()
        else:
            file.write(npy_header(np.dtype(vectors), (0, encoder.dimensions)))
            for rows in encoded(_texts(titles, written, max_bad, bad, columns)):
                file.write(rows.data)
            file.seek(0)
            file.write(npy_header(np.dtype(vectors), (written.rows, encoder.dimensions)))
    return written


def check_vectors_output(out: Path, vectors: str, overwrite: bool, reads: Iterable[Path] = ()) -> None:
    """Refuse a number format that is not written, an output that cannot work, or to overwrite without being asked."""
    check_vector_type(vectors)
    check_new_file(out, overwrite, reads)
    if out.suffix in _TEXT:
        raise ClickvecError(f"vectors are written as .npy or .parquet, not as text; give {out} another ending")
    if is_parquet(out):
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise missing_extra("pyarrow", "data") from None


def is_parquet(path: Path) -> bool:
    """Return whether a file name ends in .parquet."""
    return path.suffix.lower() == ".parquet"


def _texts(path: Path, written: Written, max_bad: float, bad: BadLines, columns: Columns) -> Iterator[str]:
    """Yield the titles. Note the first line whose row number differs from its line number below the header."""
    row = 0
    for lines, texts in stream_title_blocks(path, bad, max_bad, columns):
        below = 1 + bad.headers
        if written.out_of_step is None and lines and lines[-1] - below != row + len(lines) - 1:
            written.out_of_step = next(line for number, line in enumerate(lines, row) if line - below != number)
        row += len(lines)
        yield from texts


def _write_parquet(file: BinaryIO, titles: Iterator[Title], batches: Iterator[NDArray[Any]]) -> None:
    """Write the columns id, title and vector."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    writer = None
    while group := list(islice(batches, GROUP_BATCHES)):
        vectors = np.concatenate(group)
        ids, texts, _ = zip(*islice(titles, len(vectors)), strict=True)
        rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
        table = pyarrow.table({"id": ids, "title": texts, "vector": rows})
        writer = writer or ParquetWriter(file, table.schema, compression="zstd", use_dictionary=False)
        writer.write_table(table, row_group_size=len(vectors))
    if writer:
        writer.close()
