"""JSON lines to fields. An object inside an object has a dotted name: event_attributes.object.object_id."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clickvec.data.parsing.columns import MAX_WIDTH, TOO_WIDE
from clickvec.data.parsing.header import Keys, Row, Schema
from clickvec.data.parsing.source import Block, Blocks, Source
from clickvec.storage.json_files import parse_json


def json_objects(source: Source) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    """Yield lists of (line number, object), one list for each block of lines, which a pipe gives as they arrive."""
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


def json_cell(value: object) -> str | None:
    """Return a JSON value as the text that a table would hold; None for a list, an object or null."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, (str, int, float)) else None


def flatten(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with the fields of its inner objects, under dotted names. A hit of OpenSearch is its source."""
    if dict not in set(map(type, value.values())):
        return value
    source = value.get("_source")
    if isinstance(source, dict) and "_index" in value:
        return flatten(source)
    flat: dict[str, Any] = {}
    for name, item in value.items():
        inner = {f"{name}.{key}": cell for key, cell in flatten(item).items()} if isinstance(item, dict) else {}
        flat |= inner or {name: item}
    return flat


def json_columns(source: Source, schema: Schema) -> Blocks:
    """Yield the schema's columns of every object that has them. Count the other lines."""
    keys = Keys(source.name, schema, source.columns)
    first: Mapping[str, str] | None = None  # the first object says which optional columns the file has
    for objects in json_objects(source):
        rows: list[Row] = []
        for number, value in objects:
            flat = flatten(value)
            if len(flat) > MAX_WIDTH:
                source.bad.add(source.name, number, TOO_WIDE)
                continue
            key_of = keys.find(number, flat)
            first = key_of if first is None else first
            fields, reason = _fields(flat, key_of, schema)
            reason = keys.other_kind or reason
            if reason:
                source.bad.add(source.name, number, reason)
            else:
                rows.append((number, fields))
        if rows:
            numbers, columns = by_columns(rows)
            absent = {column for column in schema.optional if column not in (first or ())} - schema.defaults.keys()
            yield (
                numbers,
                [() if name in absent else column for name, column in zip(schema.columns, columns, strict=True)],
            )
    keys.check()


def _fields(value: Mapping[str, Any], keys: Mapping[str, str], schema: Schema) -> tuple[list[str], str | None]:
    """Return the fields of an object, or the reason why it has not all of them. An optional one may be blank."""
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
        if cell is None and column in schema.optional:
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
