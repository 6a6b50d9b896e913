"""Look at the start of a file: the names of its columns and its first line, by which its layout is recognised."""

import csv
from itertools import chain
from typing import NamedTuple

from clickvec.data.parsing.columns import check_width
from clickvec.data.parsing.json_rows import flatten
from clickvec.data.parsing.lines import BadLines
from clickvec.data.parsing.open_files import is_regular
from clickvec.data.parsing.parquet_rows import column_names
from clickvec.data.parsing.source import Source, first_line, open_source
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


def look_at(source: Source) -> tuple[Source, Head]:
    """Return the start of a file, and the file to read in place of `source`: a pipe can be read only once."""
    if source.format == "parquet":
        return source, Head(tuple(column_names(source.path)), "", True)
    regular = is_regular(source.path)
    looked_at = open_source(source.path, BadLines()) if regular else source
    blocks, line = first_line(looked_at.lines)
    if not regular:
        source = source._replace(lines=chain(blocks, source.lines))
    fields = _fields(line, source.format)
    check_width(source.name, len(fields))
    return source, Head(fields, line, source.format == "jsonl")


def _fields(line: str, file_format: str) -> tuple[str, ...]:
    if file_format == "jsonl":
        try:
            value = parse_json(line)
        except ValueError:
            return ()
        return tuple(flatten(value)) if isinstance(value, dict) else ()
    if file_format == "csv":
        try:
            fields = next(csv.reader([line]), [])
        except csv.Error:
            return ()
    else:
        fields = line.split("\t")
    return tuple(field.strip() for field in fields)
