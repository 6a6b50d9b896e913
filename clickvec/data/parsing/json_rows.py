"""JSON lines and other objects to fields. What is nested has a dotted name: event_attributes.object.object_id."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clickvec.data.parsing.columns import MAX_WIDTH, TOO_WIDE
from clickvec.data.parsing.header import Keys, Row, Schema
from clickvec.data.parsing.nested import flatten, rows_of
from clickvec.data.parsing.parquet_rows import parquet_objects
from clickvec.data.parsing.source import Block, Blocks, Source
from clickvec.errors import ClickvecError
from clickvec.storage.json_files import parse_json

_EXACT = 2.0**53  # floats are exact below


def json_objects(
    source: Source, names: Sequence[str] = (), stored: bool = False
) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Yield lists of (line number, object), one list for each block of lines, which a pipe gives as they arrive.

    Of a Parquet file, only the columns that hold one of the `names` are read. If each object will be `stored`, it must
    not stand for a thousand times its own size.
    """
    if source.format == "parquet":
        yield from parquet_objects(source, names, stored)
        return
    if source.in_memory:
        for rows in source.objects or _frame_objects(source):
            yield list(_good_texts(source, rows))
        return
    for first, lines in source.lines:
        objects = []
        for number, line in enumerate(lines, first):
            if not line:
                continue
            try:
                value = parse_json(line)
            except ValueError as error:
                source.bad.add(source.name, number, "not JSON", f"not JSON: {error}")
                continue
            if not isinstance(value, dict):
                source.bad.add(source.name, number, "not a JSON object")
            elif len(value) > MAX_WIDTH:
                source.bad.add(source.name, number, TOO_WIDE)
            elif not _is_text(line, value):
                source.bad.add(source.name, number, "an escape (\\u....) that is no character")
            else:
                objects.append((number, value))
        yield objects


def _is_text(line: str, value: dict[str, Any]) -> bool:
    """Whether all escapes are characters: half a surrogate pair cannot be written again, and NUL is not text."""
    if "\\u" not in line:
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return "\\u0000" not in line


def _frame_objects(source: Source) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    number = 1
    for block in source.frame or ():
        rows = block.rows(source.name)
        yield list(enumerate(rows, number))
        number += len(rows)


def frame_columns(source: Source, schema: Schema) -> Blocks:
    """Yield the schema's columns of a table in memory, which has no nested ones. Null is a blank field."""
    keys, number = Keys(source.name, schema, source.columns), 1
    for block in source.frame or ():
        key_of = keys.find(number, dict.fromkeys(block.names))
        keys.check()
        if keys.other_kind:
            raise ClickvecError(f"{source.name}: {keys.other_kind}")
        at = {name: index for index, name in enumerate(block.names)}
        found = {column: _texts(block.column(at[key], source.name)) for column, key in key_of.items()}
        size = len(block.columns[0])
        numbers = range(number, number + size)
        number += size
        source.bad.total += size
        good = _good_rows(source, numbers, found)
        absent = {column: [default] * size for column, default in schema.defaults.items()}
        columns: list[Any] = [found.get(column, absent.get(column, ())) for column in schema.columns]
        if len(good) < size:
            columns = [[column[row] for row in good] if len(column) else column for column in columns]
        if good:
            yield [numbers[row] for row in good], columns


def _texts(values: Sequence[Any]) -> list[str | None]:
    if set(map(type, values)) == {str}:
        return list(values)
    return [value if type(value) is str else "" if value is None else json_cell(value) for value in values]


def _good_rows(source: Source, numbers: Sequence[int], columns: Mapping[str, Sequence[str | None]]) -> Sequence[int]:
    """Return the rows whose fields are texts that a file can hold. Count the others as bad."""
    damaged: dict[int, str] = {}
    for name, texts in columns.items():
        try:
            "".join(texts).encode()  # type: ignore[arg-type]
            if "\0" not in "".join(texts):  # type: ignore[arg-type]
                continue
        except (TypeError, UnicodeEncodeError):
            pass
        for row, text in enumerate(texts):
            if text is None:
                damaged[row] = f"{name} is not text"
            elif "\0" in text or not _is_text(json.dumps(text), {name: text}):
                damaged[row] = "NUL or half a character"
    for row, reason in sorted(damaged.items()):
        source.bad.add(source.name, numbers[row], reason)
    return [row for row in range(len(numbers)) if row not in damaged] if damaged else range(len(numbers))


def _good_texts(source: Source, rows: list[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Leave out rows in memory with a text that no file can hold, and count them as bad."""
    source.bad.total += len(rows)
    try:
        together = json.dumps([value for _, value in rows], ensure_ascii=False)
        together.encode()
        if "\\u0000" not in together:
            yield from rows
            return
    except UnicodeEncodeError:
        pass
    for number, value in rows:
        if _is_text(json.dumps(value), value):
            yield number, value
        else:
            source.bad.add(source.name, number, "NUL or half a character")


def json_cell(value: object) -> str | None:
    """Return a JSON value as the text that a table would hold; None for a list, an object or null.

    A float without a fraction is a whole number: a column of ids in which some are missing holds floats.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return str(value) if isinstance(value, (str, int, float)) else None


def json_columns(source: Source, schema: Schema, names: Sequence[str] = ()) -> Blocks:
    """Yield the schema's columns of every object that has them. Count the other lines.

    Columns inside a list of objects give one row for each element. Of a Parquet file, the columns with these `names`
    are read.
    """
    keys = Keys(source.name, schema, source.columns)
    first: Mapping[str, str] | None = None  # the first object says which optional columns the file has
    is_table = source.format == "parquet" or source.in_memory
    for objects in json_objects(source, names):
        rows: list[Row] = []
        for number, value in objects:
            flat = flatten(value)
            if len(flat) > MAX_WIDTH:
                source.bad.add(source.name, number, TOO_WIDE)
                continue
            key_of = keys.find(number, flat)
            first = key_of if first is None else first
            if keys.is_incomplete and (absent := keys.absent(flat)):
                source.bad.leave_out(source.name, number, f"no {absent}", f"no {absent}")
                continue
            for row in (flat,) if flat is value else rows_of(f"{source.name}:{number}", flat, key_of):
                fields, reason = _fields(row, key_of, schema, is_table)
                reason = keys.other_kind or reason
                if reason:
                    source.bad.add(source.name, number, reason)
                else:
                    rows.append((number, fields))
        if rows:
            numbers, columns = by_columns(rows)
            blank = {column for column in schema.optional if column not in (first or ())} - schema.defaults.keys()
            yield (
                numbers,
                [() if name in blank else column for name, column in zip(schema.columns, columns, strict=True)],
            )
    keys.check()


def _fields(
    value: Mapping[str, Any], keys: Mapping[str, str], schema: Schema, blank: bool = False
) -> tuple[list[str], str | None]:
    """Return the fields of an object, or the reason why it has not all of them. An optional one may be blank.

    With `blank`, so may every other that is there and null, as in a table.
    """
    cells: list[Any] = [
        value[keys[column]] if column in keys else schema.defaults.get(column) for column in schema.columns
    ]
    kinds = set(map(type, cells))
    if kinds == {str}:
        return cells, None
    if kinds == {str, int}:
        return [cell if type(cell) is str else str(cell) for cell in cells], None
    fields: list[str] = []
    for column, cell in zip(schema.columns, cells, strict=True):
        if cell is None and (column in schema.optional or (blank and column in keys)):
            text: str | None = ""
        elif isinstance(cell, list) and column in schema.lists:
            text = json.dumps(cell)
        else:
            text = json_cell(cell)
        if text is None:
            absent = "is not text" if cell is not None else "is null" if column in keys else None
            return fields, f"{column} {absent}" if absent else f"no {column}"
        fields.append(text)
    return fields, None


def by_columns(rows: Sequence[Row]) -> Block:
    """Turn rows into columns."""
    numbers, fields = zip(*rows, strict=True)
    return numbers, list(zip(*fields, strict=True))
