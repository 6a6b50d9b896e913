"""The rows of a Parquet file in batches of a limited size, whatever the file says about its size.

A file of some bytes can decode to any size: a dictionary with one long text, pages that compress to nothing, lists of a
billion nulls. The headers of all pages are read first (parquet_pages.py), columns that have a dictionary keep it, and
rows are decoded in batches of a limited size. A row over the limit of a line is bad, like a line of text.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.parsing.columns import check_width
from clickvec.data.parsing.lines import MAX_LINE_BYTES, TOO_LONG
from clickvec.data.parsing.parquet_pages import Page, pages
from clickvec.data.parsing.source import Source
from clickvec.errors import ClickvecError, missing_extra

_ROWS_AT_ONCE = 8192
_BUFFER = 1 << 20  # bytes of each column, so that a row group of any size is read in little memory
_BLOCK_BYTES = 1 << 24  # of a block's values, as text
_DECODED_BYTES = 1 << 27  # of a column of a batch, and of a page
_LIST_BYTES = 1 << 29  # of the texts in lists of a row group, which may all be in one row
_LIST_TEXTS, _LIST_VALUES = 1 << 25, 1 << 27  # in the lists of a row group, which may all be in one row
_WIDTH = 8  # bytes that a number takes, about
_VALUES_AT_ONCE = 1 << 20  # in the lists of a batch, on average
_EXPANDED, _EXPANDED_BYTES = 1_000, 1 << 27  # times its size; below so many bytes, a file may stand for any size


class Batch(NamedTuple):
    """Some rows of a file."""

    numbers: list[int]
    values: Any  # a RecordBatch
    parts: list[slice]  # of a limited size as text, although rows may share their texts


def batches(source: Source, wanted: Sequence[str], stored: bool = False) -> Iterator[Batch]:
    """Yield rows with the wanted columns, all if none is named, in limited batches. Count rows over the limit.

    If each row will be `stored` as text, a file must not stand for a thousand times its own size.
    """
    row, expanded = 1, 0
    most = max(_EXPANDED * source.path.stat().st_size, _EXPANDED_BYTES)
    with opened(source.path) as plain, _opened_again(source.path, plain, wanted) as file:
        for group in range(file.metadata.num_row_groups):
            rows = _rows_at_once(source, plain, group, wanted)
            for batch in file.iter_batches(rows, row_groups=[group], columns=list(wanted) or None):
                numbers = np.arange(row, row + batch.num_rows)
                row += batch.num_rows
                source.bad.total += batch.num_rows
                sizes = sum((_sizes(column) for column in batch.columns), start=np.zeros(batch.num_rows, np.int64))
                if sizes.max(initial=0) > MAX_LINE_BYTES:
                    for number in numbers[sizes > MAX_LINE_BYTES].tolist():
                        source.bad.add(source.name, number, TOO_LONG)
                    short = sizes <= MAX_LINE_BYTES
                    batch, numbers, sizes = batch.filter(short), numbers[short], sizes[short]
                expanded += int(sizes.sum())
                if stored and expanded > most:
                    raise ClickvecError(
                        f"{source.name} has {source.path.stat().st_size:,} bytes and stands for more than {most:,}, as "
                        "rows share long texts; leave out the columns that are not needed"
                    )
                yield Batch(numbers.tolist(), batch, list(_parts(np.cumsum(sizes))))


def _parts(ends: NDArray[np.int64]) -> Iterator[slice]:
    """Yield parts of rows of a limited size, given the sum of the sizes up to each row."""
    start = 0
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _BLOCK_BYTES, "right")))
        yield slice(start, stop)
        start = stop


def _rows_at_once(source: Source, file: Any, group: int, wanted: Sequence[str]) -> int:  # noqa: ANN401
    """Return how many rows of a row group can be decoded together, whatever its columns say about their size."""
    rows = _ROWS_AT_ONCE
    in_group = max(file.metadata.row_group(group).num_rows, 1)
    for index, chunk in _chunks(file, group, wanted):
        column = file.schema.column(index)
        is_text = chunk.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
        found = _pages(source, chunk)
        size, values = sum(page.size for page in found), sum(page.values for page in found)
        largest = max((page.size for page in found), default=0)
        if largest > _DECODED_BYTES:
            raise _too_large(source, f"a page of {largest:,} bytes", chunk, "pages")
        if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
            if column.length > MAX_LINE_BYTES:
                raise _too_large(source, f"values of {column.length:,} bytes", chunk, "values")
            rows = min(rows, _DECODED_BYTES // max(column.length, 1))
        if column.max_repetition_level:
            if values > (_LIST_TEXTS if is_text else _LIST_VALUES):
                raise _too_large(source, f"a row group with {values:,} values in lists", chunk, "row groups")
            if is_text and size > _LIST_BYTES:
                raise _too_large(source, f"a row group with {size:,} bytes in lists", chunk, "row groups")
            rows = min(rows, _VALUES_AT_ONCE * in_group // max(values, 1))
        elif is_text:
            rows = min(rows, _values_within(found, _DECODED_BYTES))
        if (
            is_text
            and not _keeps_dictionary(chunk)
            and not {"PLAIN", "RLE", "DELTA_LENGTH_BYTE_ARRAY"}.issuperset(chunk.encodings)
        ):
            # A value is part of a page, but a page can hold one value for each of its rows.
            if column.max_repetition_level and values * largest > _LIST_BYTES:
                raise _too_large(source, f"lists of texts as {', '.join(chunk.encodings)}", chunk, "row groups")
            rows = min(rows, _DECODED_BYTES // max(largest, 1))
    return max(rows, 1)


def _pages(source: Source, chunk: Any) -> list[Page]:  # noqa: ANN401
    start = chunk.data_page_offset
    if chunk.dictionary_page_offset:
        start = min(start, chunk.dictionary_page_offset)
    with source.path.open("rb") as stream:
        return list(pages(stream, start, chunk.total_compressed_size))


def _values_within(found: Sequence[Page], size: int) -> int:
    """Return how many consecutive values lie in pages of at most this size together, wherever they begin."""
    least, first, bytes_within, values_within = _ROWS_AT_ONCE, 0, 0, 0
    for page in found:
        bytes_within += page.size
        while bytes_within > size and first < len(found):
            least = min(least, max(values_within, 1))
            bytes_within -= found[first].size
            values_within -= found[first].values
            first += 1
        values_within += page.values
    return least


def _too_large(source: Source, what: str, chunk: Any, parts: str) -> ClickvecError:  # noqa: ANN401
    return ClickvecError(
        f"{source.name}: the column {chunk.path_in_schema[:80]} has {what}, which may not fit into memory; write the "
        f"file with smaller {parts}"
    )


def _sizes(column: Any) -> NDArray[np.int64]:  # noqa: ANN401
    """Return about how many bytes each row of a column takes as text."""
    from pyarrow import compute, types

    kind = column.type
    if types.is_dictionary(kind):
        sizes = np.append(_sizes(column.dictionary), 0)
        codes = compute.fill_null(column.indices.cast("int64"), len(sizes) - 1)
        return np.asarray(sizes[codes.to_numpy(zero_copy_only=False)])
    if types.is_struct(kind):
        of_row = np.zeros(len(column), np.int64)
        for child in column.flatten():
            of_row += _sizes(child)
        return of_row
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        ends = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        inner = column.keys if types.is_map(kind) else column.values
        each: NDArray[np.int64] = np.diff(ends) * _WIDTH + _inside(inner, ends)
        return each + _inside(column.items, ends) if types.is_map(kind) else each
    if types.is_fixed_size_list(kind):
        ends = np.arange(column.offset, column.offset + len(column) + 1, dtype=np.int64) * kind.list_size
        of_lists: NDArray[np.int64] = np.diff(ends) * _WIDTH + _inside(column.values, ends)
        return of_lists
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        lengths = compute.fill_null(compute.binary_length(column), 0)
        return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)
    width = kind.byte_width if types.is_fixed_size_binary(kind) else _WIDTH
    return np.full(len(column), width, np.int64)


def _inside(values: Any, ends: NDArray[np.int64]) -> NDArray[np.int64]:  # noqa: ANN401
    """Return the sizes of lists: `values` are the elements of all of them, and `ends` where each begins and ends."""
    from pyarrow import types

    if types.is_primitive(values.type):
        return np.diff(ends) * _WIDTH
    together = np.append(0, np.cumsum(_sizes(values)))
    return np.diff(together[ends])


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a file for its schema and metadata. An error of pyarrow while it is open is that of a damaged file."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_extra("pyarrow", "data") from None
    try:
        with path.open("rb") as stream, ParquetFile(stream, pre_buffer=False, buffer_size=_BUFFER) as file:
            check_width(str(path), file.metadata.num_columns)
            yield file
    except (
        pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError, RecursionError
    ) as error:  # fmt: skip
        reason = " ".join(str(error).split())[:200]
        raise ClickvecError(
            f"{path}: the Parquet file is cut short or damaged ({reason}); copy or make it again"
        ) from error


@contextmanager
def _opened_again(path: Path, file: Any, wanted: Sequence[str]) -> Iterator[Any]:  # noqa: ANN401
    """Open a file so that columns with a dictionary keep it: a text that many rows have is in memory once."""
    from pyarrow.parquet import ParquetFile

    chunks = [chunk for group in range(file.metadata.num_row_groups) for _, chunk in _chunks(file, group, wanted)]
    plain = {chunk.path_in_schema for chunk in chunks if not _keeps_dictionary(chunk)}
    keep = list({chunk.path_in_schema for chunk in chunks} - plain)
    with (
        path.open("rb") as stream,
        ParquetFile(
            stream, metadata=file.metadata, read_dictionary=keep, pre_buffer=False, buffer_size=_BUFFER
        ) as again,
    ):
        yield again


def _keeps_dictionary(chunk: Any) -> bool:  # noqa: ANN401
    """Whether pyarrow can read a column without decoding its dictionary."""
    return chunk.physical_type == "BYTE_ARRAY" and {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}.issuperset(
        chunk.encodings
    )


def _chunks(file: Any, group: int, wanted: Sequence[str]) -> Iterator[tuple[int, Any]]:  # noqa: ANN401
    """Yield the index and the metadata of the columns that are named, or inside of one; of all if none is named."""
    row_group = file.metadata.row_group(group)
    for index in range(row_group.num_columns):
        path = file.schema.column(index).path
        if not wanted or any(path == name or path.startswith(f"{name}.") for name in wanted):
            yield index, row_group.column(index)
