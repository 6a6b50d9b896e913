"""Write vectors to a Parquet file, with the ids and titles. pyarrow is imported only when it is needed."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from clickvec.data.titles import Title
from clickvec.errors import missing_extra

GROUP_ROWS = 2**16  # rows in a row group: 25 MB with 96 dimensions


def wanted(path: Path) -> bool:
    """Whether a file name ends in .parquet."""
    return path.suffix.lower() == ".parquet"


def check() -> None:
    """Raise ClickvecError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise missing_extra("pyarrow", "data") from None


def write(file: BinaryIO, titles: Iterable[Title], groups: Iterable[NDArray[Any]]) -> None:
    """Write the columns id, title and vector, one row group for each array of vectors in `groups`."""
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    entries, writer = iter(titles), None
    try:
        for vectors in groups:
            ids, texts, _ = zip(*islice(entries, len(vectors)), strict=True)
            rows = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])
            table = pyarrow.table({"id": ids, "title": texts, "vector": rows})
            writer = writer or ParquetWriter(file, table.schema, compression="zstd", use_dictionary=False)
            writer.write_table(table, row_group_size=GROUP_ROWS)
    finally:
        if writer:
            writer.close()
