"""Lines to fields: TSV, CSV (.csv) and JSON lines (.jsonl), in the columns that a reader asks for.

Everything is read in blocks of some thousand lines, column by column, which is much faster than line by line.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.data.columns import OWN_NAMES, Columns
from clickvec.data.header import LOOK_AHEAD, Header, Keys, Row, Schema, find_header
from clickvec.data.lines import BadLines, LineBlock, file_lines
from clickvec.data.open_files import STDIN, name_of
from clickvec.errors import ClickvecError
from clickvec.storage.json_files import parse_json

_ROWS_AT_ONCE = 10_000  # of a CSV file

Block = tuple[Sequence[int], Sequence[Sequence[str]]]  # line numbers, and the fields of each column
Blocks = Iterator[Block]


class Source(NamedTuple):
    """A file that is being read."""

    name: str  # in messages
    format: str  # csv, jsonl or tsv
    lines: Iterator[LineBlock]
    bad: BadLines
    columns: Columns


def open_source(path: str | Path, bad: BadLines, columns: Columns = OWN_NAMES) -> Source:
    """Open a file of the format that its name says. Standard input is JSON lines if it starts with {, otherwise TSV."""
    path = Path(path)
    lines = file_lines(path, bad)
    if path != STDIN:
        return Source(name_of(path), _format(path), lines, bad, columns)
    head: list[LineBlock] = []
    first = ""
    for block in lines:
        head.append(block)
        first = next(filter(None, block[1]), "")
        if first:
            break
    return Source(name_of(path), "jsonl" if first.startswith("{") else "tsv", chain(head, lines), bad, columns)


def _format(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
    if name.endswith(".csv"):
        return "csv"
    return "jsonl" if name.endswith((".jsonl", ".ndjson")) else "tsv"


def read_blocks(source: Source, schema: Schema) -> Blocks:
    """Yield the schema's columns of every line that has them, some thousand lines at a time. Count the other lines."""
    if source.format == "jsonl":
        yield from _json_columns(source, schema)
        return
    header, blocks = read_table(source, schema)
    for numbers, columns in blocks:
        absent = {name: [schema.defaults[name]] * len(numbers) for name in schema.defaults}
        yield (
            numbers,
            [columns[header.at[name]] if name in header.at else absent.get(name, ()) for name in schema.columns],
        )


def records(source: Source, schema: Schema) -> Iterator[Row]:
    """Yield what `read_blocks` yields line by line: (line number, one field for each column of the schema)."""
    for numbers, columns in read_blocks(source, schema):
        yield from zip(numbers, zip(*columns, strict=True), strict=True)


def read_table(source: Source, schema: Schema) -> tuple[Header, Blocks]:
    """Return the header of a TSV or CSV file, and its blocks with all their columns."""
    rows_needed = 1 if source.columns.header else LOOK_AHEAD
    if source.format == "csv":
        rows = _csv_rows(source)
        head = list(islice(rows, rows_needed))
        header = _find_header(source, head, schema)
        return header, _csv_blocks(source, header, chain(head[header.lines :], rows))
    head, blocks = [], []
    for first, lines in source.lines:
        blocks.append((first, lines))
        rows = ((number, line.split("\t")) for number, line in enumerate(lines, first) if line)
        head += islice(rows, rows_needed - len(head))
        if len(head) == rows_needed:
            break
    header = _find_header(source, head, schema)
    if header.lines:  # only blank lines come before the header
        below = head[0][0] + 1
        blocks = [(max(first, below), lines[max(below - first, 0) :]) for first, lines in blocks]
    return header, _tsv_blocks(source, header, chain(blocks, source.lines))


def _find_header(source: Source, head: list[Row], schema: Schema) -> Header:
    """Find the header and exclude it from the count of lines. Refuse a bad line before it: that may be the header."""
    first_bad = source.bad.first_of(source.name)
    if head and source.columns.header and first_bad and first_bad[0] < head[0][0]:
        raise ClickvecError(f"{first_bad[1]}; this may be the header, so no line below it is read")
    header = find_header(source.name, head, schema, source.columns)
    source.bad.total -= header.lines
    source.bad.headers += header.lines
    return header


def wrong_width(fields: Sequence[str], names: Sequence[str]) -> tuple[str, str]:
    """Return the reason, and its detail, why a line with too few or too many columns is bad."""
    count = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
    return "wrong number of columns", f"{count}, expected {', '.join(names)}"


def _tsv_blocks(source: Source, header: Header, blocks: Iterator[LineBlock]) -> Blocks:
    width = len(header.names)
    for first, lines in blocks:
        numbers: Sequence[int] = range(first, first + len(lines))
        fields = "\t\n\t".join(lines).split("\t")  # a line feed is a field of its own between the fields of two lines
        ends = fields[width :: width + 1]
        if "" in lines or len(fields) + 1 != len(lines) * (width + 1) or ends.count("\n") < len(ends):
            good = [line.count("\t") == width - 1 if line else False for line in lines]
            for number, line, is_good in zip(numbers, lines, good, strict=True):
                if line and not is_good:
                    source.bad.add(source.name, number, *wrong_width(line.split("\t"), header.names))
            numbers = list(compress(numbers, good))
            fields = "\t\n\t".join(compress(lines, good)).split("\t")
        if numbers:
            yield numbers, [fields[at :: width + 1] for at in range(width)]


def _csv_rows(source: Source) -> Iterator[Row]:
    """Yield records with the number of their first line. A stray quote spoils only what comes before the next one."""
    # csv limits a field to 131,072 characters, which also limits how much text an open quote can swallow.
    reader = csv.reader((f"{line}\n" for _, lines in source.lines for line in lines), strict=True)
    while True:
        before = reader.line_num
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            lines = max(1, reader.line_num - before)
            source.bad.add(source.name, before + 1, "not CSV", f"not CSV: {error}", lines=lines)
            continue
        if fields:
            yield before + 1, fields


def _csv_blocks(source: Source, header: Header, rows: Iterator[Row]) -> Blocks:
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        good = [row for row in block if len(row[1]) == len(header.names)]
        for number, fields in block if len(good) < len(block) else ():
            if len(fields) != len(header.names):
                lines = 1 + sum(field.count("\n") for field in fields)  # an open quote may have swallowed some
                source.bad.add(source.name, number, *wrong_width(fields, header.names), lines=lines)
        if good:
            yield _by_columns(good)


def _by_columns(rows: list[Row]) -> Block:
    numbers, fields = zip(*rows, strict=True)
    return numbers, list(zip(*fields, strict=True))


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


def _json_columns(source: Source, schema: Schema) -> Blocks:
    keys = Keys(source.name, schema, source.columns)
    first: Mapping[str, str] | None = None  # the first object says which optional columns the file has
    for objects in json_objects(source):
        rows: list[Row] = []
        for number, value in objects:
            key_of = keys.find(number, value)
            first = key_of if first is None else first
            fields, reason = _json_fields(value, key_of, schema)
            reason = keys.other_kind or reason
            if reason:
                source.bad.add(source.name, number, reason)
            else:
                rows.append((number, fields))
        if rows:
            numbers, columns = _by_columns(rows)
            absent = {column for column in schema.optional if column not in (first or ())}
            yield (
                numbers,
                [() if name in absent else column for name, column in zip(schema.columns, columns, strict=True)],
            )
    keys.check()


def _json_fields(value: dict[str, Any], keys: Mapping[str, str], schema: Schema) -> tuple[list[str], str | None]:
    """Return the fields of an object, or the reason why it has not all of them. An optional one may be blank."""
    fields: list[str] = []
    for column in schema.columns:
        cell = value[keys[column]] if column in keys else schema.defaults.get(column)
        text = "" if cell is None and column in schema.optional else json_cell(cell)
        if text is None:
            absent = "is not text" if cell is not None else "is null" if column in keys else None
            return fields, f"{column} {absent}" if absent else f"no {column}"
        fields.append(text)
    return fields, None
