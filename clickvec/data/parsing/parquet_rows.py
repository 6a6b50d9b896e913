"""Parquet files to fields, one row group at a time. Null is a blank field, and an inner field has a dotted name."""

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from clickvec.data.parsing.parquet_batches import Batch, batches, opened
from clickvec.data.parsing.source import Block, Blocks, Source

T = TypeVar("T")


def column_names(path: Path) -> list[str]:
    """Return the names of the columns that hold values, in the order of the file."""
    with opened(path) as file:
        return list(_leaves(file.schema_arrow))


def row_group_sizes(path: Path) -> list[int]:
    """Return the number of rows in each row group."""
    with opened(path) as file:
        return [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]


def parquet_blocks(source: Source, wanted: Sequence[str], lists: Collection[str] = ()) -> Blocks:
    """Yield blocks of the wanted columns. Rows are numbered from 1; a row that is not text is bad.

    A list is blank, unless its column is one of `lists`: then it is JSON.
    """
    for batch in batches(source, wanted):
        columns = [_texts(_inner(batch.values, name), name in lists) for name in wanted]
        for part in batch.parts:
            yield _without_bad_text(source, batch.numbers[part], [column[part] for column in columns])


def parquet_payloads(source: Source, wanted: Sequence[str]) -> Iterator[tuple[Block, Iterable[dict[str, Any]]]]:
    """Yield blocks of the wanted columns, and the other columns of each row as an object."""
    for batch in batches(source, (), stored=True):
        columns = [_texts(_inner(batch.values, name), False) for name in wanted]
        others = [name for name in batch.values.schema.names if name not in wanted]
        for part, objects in _objects(batch, others):
            block = _without_bad_text(source, batch.numbers[part], [column[part] for column in columns])
            good = set(block[0])
            yield block, [value for number, value in objects if number in good]


def parquet_objects(
    source: Source, wanted: Sequence[str], stored: bool = False
) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Yield lists of (number, object) of the columns that hold the wanted names, with null. See `batches`."""
    with opened(source.path) as file:
        names = [name for name in file.schema_arrow.names if any(_holds(name, other) for other in wanted)]
    for batch in batches(source, names, stored):
        for _, objects in _objects(batch, names, nulls=True):
            yield objects


def _holds(column: str, name: str) -> bool:
    return name == column or name.startswith(f"{column}.")


def inner_names(path: Path) -> list[str]:
    """Return the dotted names of the fields of objects in lists."""
    with opened(path) as file:
        return list(_inner_leaves(file.schema_arrow))


def _objects(
    batch: "Batch", names: Sequence[str], nulls: bool = False
) -> Iterator[tuple[slice, list[tuple[int, dict[str, Any]]]]]:
    """Yield parts of a batch: their rows with their numbers as objects of JSON values, without null unless `nulls`.

    Dates and times are texts in ISO 8601, decimals are floats, and bytes that are not UTF-8 are left out.
    """
    columns = [batch.values.column(batch.values.schema.names.index(name)) for name in names]
    shared = [_by_code(column, lambda values: values.to_pylist(), None) for column in columns]
    for part in batch.parts:
        cells = [
            column[part.start : part.stop].to_pylist() if values is None else values[part]
            for column, values in zip(columns, shared, strict=True)
        ]
        values = [list(map(json_value, column)) for column in cells]
        rows = zip(*values, strict=True) if values else [()] * (part.stop - part.start)
        yield (
            part,
            [
                (number, {name: value for name, value in zip(names, row, strict=True) if nulls or value is not None})
                for number, row in zip(batch.numbers[part], rows, strict=True)
            ],
        )


def json_value(value: Any) -> Any:  # noqa: ANN401
    """Return a value as JSON has it: None, a truth value, a number, a text, a list or a dictionary."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, dict):
        return {str(name): json_value(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(inner) for inner in value]
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int) else _text(value)


def _text(value: Any) -> str:  # noqa: ANN401
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _without_bad_text(source: Source, numbers: Sequence[int], columns: list[list[str | None]]) -> Block:
    """Leave out rows that have a field which is not UTF-8 (None) or has a NUL, and count them as bad."""
    damaged: dict[int, str] = {}
    for column in columns:
        distinct = set(column)
        if None in distinct or "\0" in "".join(cast(set[str], distinct)):
            reasons: dict[str | None, str] = {text: "NUL byte" for text in distinct if text and "\0" in text}
            reasons |= {None: "not UTF-8"}
            damaged |= {at: reasons[text] for at, text in enumerate(column) if text in reasons}
    if not damaged:
        return numbers, cast(list[list[str]], columns)
    for at, reason in sorted(damaged.items()):
        source.bad.add(source.name, numbers[at], reason)
    good = [at for at in range(len(numbers)) if at not in damaged]
    return [numbers[at] for at in good], [[column[at] or "" for at in good] for column in columns]


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


def _inner_leaves(schema: Any) -> Iterator[str]:  # noqa: ANN401
    """Yield the dotted name of each field of a struct that is in a list."""
    from pyarrow import types

    def leaves(name: str, kind: Any, in_list: bool) -> Iterator[str]:  # noqa: ANN401
        if types.is_list(kind) or types.is_large_list(kind):
            yield from leaves(name, kind.value_type, True) if types.is_struct(kind.value_type) else ()
        elif types.is_struct(kind):
            for at in range(kind.num_fields):
                yield from leaves(f"{name}.{kind.field(at).name}", kind.field(at).type, in_list)
        elif in_list:
            yield name

    for field in schema:
        yield from leaves(field.name, field.type, False)


def _inner(batch: Any, name: str) -> Any:  # noqa: ANN401
    """Return the column of a dotted name. The field of a struct is null where the struct is."""
    from pyarrow import compute

    first, *rest = _leaves(batch.schema)[name]
    return compute.struct_field(batch.column(first), rest) if rest else batch.column(first)


def _texts(column: Any, is_list: bool) -> list[str | None]:  # noqa: ANN401
    """Return the values of a column as texts, "" for null, None for bytes that are not UTF-8."""
    import pyarrow as pa
    from pyarrow import compute, types

    nothing: str | None = ""
    shared = _by_code(column, lambda values: _texts(values, is_list), nothing)
    if shared is not None:
        return shared
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
        values = column.to_pylist()
        if types.is_binary(column.type) or types.is_large_binary(column.type):
            return ["" if value is None else _decoded(value) for value in values]
        return [value or "" for value in values]
    except UnicodeDecodeError:
        return [_decoded(value.as_buffer().to_pybytes()) if value.is_valid else "" for value in column]


def _by_code(column: Any, convert: Callable[[Any], list[T]], null: T) -> list[T] | None:  # noqa: ANN401
    """Return the values of a column that has a dictionary, each converted once; None for another column."""
    import pyarrow as pa
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        return None
    codes = compute.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    used, at = np.unique(codes, return_inverse=True)
    values = convert(column.dictionary.take(pa.array(used[used >= 0])))
    values = [null, *values] if len(used) and used[0] < 0 else values
    return [values[code] for code in at.tolist()]


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
