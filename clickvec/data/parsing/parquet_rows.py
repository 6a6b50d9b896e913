"""Parquet files to fields, one row group at a time. Null is a blank field, and an inner field has a dotted name."""

import json
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from clickvec.data.parsing.lines import BadLines
from clickvec.data.parsing.source import Block, Blocks, Source
from clickvec.errors import ClickvecError, missing_extra

_ROWS_AT_ONCE = 8192
_BUFFER = 1 << 20  # bytes of each column, so that a row group of any size is read in little memory


def column_names(path: Path) -> list[str]:
    """Return the names of the columns that hold values, in the order of the file."""
    with _opened(path) as file:
        return list(_leaves(file.schema_arrow))


def row_group_sizes(path: Path) -> list[int]:
    """Return the number of rows in each row group."""
    with _opened(path) as file:
        return [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]


def parquet_blocks(source: Source, wanted: Sequence[str], lists: Collection[str] = ()) -> Blocks:
    """Yield blocks of the wanted columns. Rows are numbered from 1; a row that is not text is bad.

    A list is blank, unless its column is one of `lists`: then it is JSON.
    """
    row = 1
    with _opened(source.path) as file:
        leaves = _leaves(file.schema_arrow)
        top = list(dict.fromkeys(leaves[name][0] for name in wanted))
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=top):
            columns = [
                _texts(_inner(batch.column(leaves[name][0]), leaves[name][1:]), name in lists) for name in wanted
            ]
            numbers = range(row, row + batch.num_rows)
            row += batch.num_rows
            source.bad.total += batch.num_rows
            yield _without_bad_text(source.name, source.bad, numbers, columns)


def parquet_objects(path: Path, without: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield each row as an object of JSON values, without null and without some columns.

    Dates and times are texts in ISO 8601, decimals are floats, and bytes that are not UTF-8 are left out.
    """
    with _opened(path) as file:
        names = [name for name in file.schema_arrow.names if name not in without]
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
            for row in batch.to_pylist() if names else [{}] * batch.num_rows:
                values = ((name, _json_value(value)) for name, value in row.items())
                yield {name: value for name, value in values if value is not None}


def _json_value(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        return {str(name): _json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(inner) for inner in value]
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else _text(value)


def _text(value: Any) -> str:  # noqa: ANN401
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _without_bad_text(name: str, bad: BadLines, numbers: range, columns: list[list[str | None]]) -> Block:
    """Leave out rows that have a field which is not UTF-8 (None) or has a NUL, and count them as bad."""
    damaged: dict[int, str] = {}
    for column in columns:
        if None in column:
            damaged |= {at: "not UTF-8" for at, text in enumerate(column) if text is None}
        elif "\0" in "".join(text or "" for text in column):
            damaged |= {at: "NUL byte" for at, text in enumerate(column) if "\0" in (text or "")}
    if not damaged:
        return numbers, cast(list[list[str]], columns)
    for at, reason in sorted(damaged.items()):
        bad.add(name, numbers[at], reason)
    good = [at for at in range(len(numbers)) if at not in damaged]
    return [numbers[at] for at in good], [[column[at] or "" for at in good] for column in columns]


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_extra("pyarrow", "data") from None
    try:
        with path.open("rb") as stream, ParquetFile(stream, pre_buffer=False, buffer_size=_BUFFER) as file:
            yield file
    except (pyarrow.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ClickvecError(
            f"{path}: the Parquet file is cut short or damaged ({reason}); copy or make it again"
        ) from error


def _leaves(schema: Any) -> dict[str, tuple[str, ...]]:  # noqa: ANN401
    """Return the dotted name of each column that is not a struct, and the names that lead to it."""
    from pyarrow import types

    leaves: dict[str, tuple[str, ...]] = {}

    def add(path: tuple[str, ...], kind: Any) -> None:  # noqa: ANN401
        if types.is_struct(kind):
            for at in range(kind.num_fields):
                add((*path, kind.field(at).name), kind.field(at).type)
        else:
            leaves.setdefault(".".join(path), path)

    for field in schema:
        add((field.name,), field.type)
    return leaves


def _inner(column: Any, path: Sequence[str]) -> Any:  # noqa: ANN401
    """Return the field of a struct that a path leads to. It is null where the struct is."""
    from pyarrow import compute

    return compute.struct_field(column, list(path)) if path else column


def _texts(column: Any, is_list: bool) -> list[str | None]:  # noqa: ANN401
    """Return the values of a column as texts, "" for null, None for bytes that are not UTF-8."""
    import pyarrow as pa
    from pyarrow import compute, types

    kind = column.type
    if types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if types.is_floating(kind):
        column = compute.if_else(compute.is_nan(column), pa.scalar(None, kind), column)
    elif types.is_timestamp(kind):  # seconds since 1970
        column = column.cast(pa.timestamp("s", kind.tz), safe=False).cast(pa.int64())
    if types.is_nested(column.type):
        values = column.to_pylist() if is_list else [None] * len(column)
        return ["" if value is None else json.dumps(value, default=str) for value in values]
    if not (types.is_string(column.type) or types.is_large_string(column.type) or types.is_binary(column.type)
            or types.is_large_binary(column.type)):  # fmt: skip
        column = column.cast(pa.string())
    try:
        return [_decoded(value) if isinstance(value, bytes) else value or "" for value in column.to_pylist()]
    except UnicodeDecodeError:
        return [_decoded(value.as_buffer().to_pybytes()) if value.is_valid else "" for value in column]


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
