"""Lines as records: TSV, CSV (.csv) and JSON lines (.jsonl), in the columns that a reader asks for.

A table's first line is its header; the columns may stand in any order, and among others. header.py finds them.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from itertools import chain, compress, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.data.columns import OWN_NAMES, Columns
from clickvec.data.header import LOOK_AHEAD, Header, Keys, Row, Schema, find_header
from clickvec.data.lines import STDIN, BadLines, LineBlock, file_lines, name_of
from clickvec.errors import ClickvecError
from clickvec.storage.json_files import parse_json

_AT_ONCE = 10_000  # rows in a block

Block = tuple[Sequence[int], list[Sequence[str]]]  # line numbers, columns


class Source(NamedTuple):
    """A file that is being read."""

    name: str  # in messages
    format: str  # csv, jsonl or tsv
    lines: Iterator[LineBlock]
    bad: BadLines
    columns: Columns


def open_source(path: str | Path, bad: BadLines, columns: Columns = OWN_NAMES) -> Source:
    """Open a file, or standard input, whose first line tells JSON lines from TSV."""
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
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".csv"):
        return "csv"
    return "jsonl" if name.endswith((".jsonl", ".ndjson")) else "tsv"


def records(source: Source, schema: Schema) -> Iterator[Row]:
    """(line number, one field for each of the schema's columns) of every line that has them."""
    if source.format == "jsonl":
        return _json_records(source, schema)
    header, rows = table(source, schema)
    in_order = [header.at.get(column) for column in schema.columns] == [*range(len(header.names))]
    return rows if in_order else _pick(header, rows, schema)


def table(source: Source, schema: Schema) -> tuple[Header, Iterator[Row]]:
    """The columns of a TSV or CSV file, and its rows with all their columns."""
    rows = _csv_rows(source) if source.format == "csv" else _tsv_rows(source)
    head = list(islice(rows, 1 if source.columns.header else LOOK_AHEAD))
    header = _header(source, head, schema)
    return header, _of_width(header.names, chain(head[header.lines :], rows), source)


def columns(source: Source, schema: Schema) -> Iterator[Block]:
    """What `records` gives, by columns, for some thousand lines at a time; TSV in half the time."""
    if source.format == "tsv":
        yield from _tsv_columns(source, schema)
        return
    rows = records(source, schema)
    while some := list(islice(rows, _AT_ONCE)):
        numbers, fields = zip(*some, strict=True)
        yield numbers, list(zip(*fields, strict=True))


def json_objects(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of every line that is a JSON object."""
    for first, lines in source.lines:
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
                yield number, value


def json_cell(value: object) -> str | None:
    """A JSON value as the text that a table would hold; None where it is a list, an object or null."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, (str, int, float)) else None


def wrong_width(fields: Sequence[str], names: Sequence[str]) -> tuple[str, str]:
    """The reason, and its detail, of a line with too few or too many columns."""
    found = "1 column" if len(fields) == 1 else f"{len(fields)} columns"
    return "wrong number of columns", f"{found}, expected {', '.join(names)}"


def _is_text(line: str, value: dict[str, Any]) -> bool:
    """Whether all escapes are characters: half a surrogate pair cannot be written again, and NUL is no text."""
    if "\\u" not in line:
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return "\\u0000" not in line


def _json_records(source: Source, schema: Schema) -> Iterator[Row]:
    keys = Keys(source.name, schema, source.columns)
    for number, value in json_objects(source):
        found = keys.find(number, value)
        reason = keys.other_kind
        fields = []
        for column in schema.columns if reason is None else ():
            cell = value[found[column]] if column in found else schema.defaults.get(column)
            text = json_cell(cell)
            if text is None:
                kind = "is not text" if cell is not None else "is null" if column in found else None
                reason = f"{column} {kind}" if kind else f"no {column}"
                break
            fields.append(text)
        if reason is None:
            yield number, fields
        else:
            source.bad.add(source.name, number, reason)
    keys.check()


def _tsv_rows(source: Source) -> Iterator[Row]:
    for first, lines in source.lines:
        for number, line in enumerate(lines, first):
            if line:
                yield number, line.split("\t")


def _tsv_columns(source: Source, schema: Schema) -> Iterator[Block]:
    first: list[LineBlock] = []
    head: list[Row] = []
    wanted = 1 if source.columns.header else LOOK_AHEAD
    for number, lines in source.lines:
        first.append((number, lines))
        rows = ((at, line.split("\t")) for at, line in enumerate(lines, number) if line)
        head += islice(rows, wanted - len(head))
        if len(head) == wanted:
            break
    names, at, headers = _header(source, head, schema)
    if headers:  # what is before the header is blank
        below = head[0][0] + 1
        first = [(max(number, below), lines[max(below - number, 0) :]) for number, lines in first]
    for number, lines in chain(first, source.lines):
        numbers, fields = _split(number, lines, names, source)
        absent = {column: [schema.defaults[column]] * len(numbers) for column in schema.columns if column not in at}
        if numbers:
            yield numbers, [absent.get(c) or fields[at[c] :: len(names) + 1] for c in schema.columns]


def _split(first: int, lines: list[str], names: tuple[str, ...], source: Source) -> tuple[Sequence[int], list[str]]:
    """The numbers of the lines of the right width, and their fields, one after the other, a line feed between lines."""
    width = len(names)
    numbers: Sequence[int] = range(first, first + len(lines))
    fields = "\t\n\t".join(lines).split("\t")
    ends = fields[width :: width + 1]
    if "" in lines or len(fields) + 1 != len(lines) * (width + 1) or ends.count("\n") < len(ends):
        for number, line in zip(numbers, lines, strict=True):
            if line and line.count("\t") != width - 1:
                source.bad.add(source.name, number, *wrong_width(line.split("\t"), names))
        good = [bool(line) and line.count("\t") == width - 1 for line in lines]
        numbers, lines = list(compress(numbers, good)), list(compress(lines, good))
        fields = "\t\n\t".join(lines).split("\t")
    return numbers, fields


def _csv_rows(source: Source) -> Iterator[Row]:
    """Records with the number of their first line; strict, so that a stray quote ends at the next and is counted."""
    # Fields are held to csv's own limit (131,072 characters), which also bounds what a quote left open can swallow.
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


def _of_width(names: tuple[str, ...], rows: Iterator[Row], source: Source) -> Iterator[Row]:
    width = len(names)
    for row in rows:
        fields = row[1]
        if len(fields) == width:
            yield row
        else:
            lines = 1 + sum(field.count("\n") for field in fields)  # CSV: what a lost quote swallowed is bad too
            source.bad.add(source.name, row[0], *wrong_width(fields, names), lines=lines)


def _pick(header: Header, rows: Iterator[Row], schema: Schema) -> Iterator[Row]:
    filling = [schema.defaults.get(column, "") for column in schema.columns]
    width = len(header.names)
    pick = itemgetter(*(header.at.get(column, width + place) for place, column in enumerate(schema.columns)))
    for number, fields in rows:
        yield number, pick([*fields, *filling])


def _header(source: Source, head: list[Row], schema: Schema) -> Header:
    """Find the header, and count it as no line. A bad line before it would be taken for blank: it may be the header."""
    first_bad = source.bad.first_of(source.name)
    if head and source.columns.header and first_bad and first_bad[0] < head[0][0]:
        raise ClickvecError(f"{first_bad[1]}; this may be the header, so no line below it is read")
    header = find_header(source.name, head, schema, source.columns)
    source.bad.total -= header.lines
    source.bad.headers += header.lines
    return header
