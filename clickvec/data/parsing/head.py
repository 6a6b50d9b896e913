"""Look at the start of a file: the names of its columns and its first line, by which its layout is recognised."""

import csv
from typing import NamedTuple

from clickvec.data.parsing.columns import check_width
from clickvec.data.parsing.nested import flatten
from clickvec.data.parsing.parquet_rows import column_names, inner_names
from clickvec.data.parsing.source import Source
from clickvec.data.parsing.usual_names import letters
from clickvec.storage.json_files import parse_json


class Head(NamedTuple):
    """The start of a file."""

    fields: tuple[str, ...]  # of the first line: names of columns, if it is a header
    line: str  # the first line that is not blank
    named: bool  # whether the fields are surely names, as in JSON lines and Parquet

    @property
    def names(self) -> set[str]:
        """The fields without regard to capitals and signs."""
        return {letters(field) for field in self.fields}


def look_at(source: Source) -> Head:
    """Return the start of a file."""
    if source.format == "parquet":
        return Head((*column_names(source.path), *inner_names(source.path)), "", True)
    if source.in_memory:
        return Head(tuple(flatten(source.first_object)), "", True)
    fields = _fields(source)
    check_width(source.name, len(fields))
    return Head(fields, source.first, source.format == "jsonl")


def _fields(source: Source) -> tuple[str, ...]:
    if source.format == "jsonl":
        try:
            value = parse_json(source.first)
        except ValueError:
            return ()
        return tuple(flatten(value)) if isinstance(value, dict) else ()
    if source.format == "csv":
        try:
            fields = next(csv.reader([source.first], delimiter=source.separator), [])
        except csv.Error:
            return ()
    else:
        fields = source.first.split(source.separator)
    return tuple(field.strip() for field in fields)
