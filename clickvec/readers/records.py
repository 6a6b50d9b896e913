"""Lines as records: TSV, CSV (.csv) and JSON lines (.jsonl), in the columns that a reader asks for.

A table's first line is its header when it holds the column names; then the columns may stand in any order, and among
others. Without a header, the number of columns decides the layout.
"""

import csv
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, compress, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.errors import ClickvecError
from clickvec.readers.lines import BadLines, file_lines

_LOOK_AHEAD = 100  # lines that vote on the layout of a file without header: the first one alone may be a bad line

_AT_ONCE = 10_000  # rows in a block

Row = tuple[int, Sequence[str]]  # line number, fields
Block = tuple[Sequence[int], list[Sequence[str]]]  # line numbers, columns


class Schema(NamedTuple):
    """The columns of one kind of file."""

    columns: tuple[str, ...]  # what a record holds, in this order
    layouts: tuple[tuple[str, ...], ...]  # without a header: told apart by length; messages speak of the first
    aliases: Mapping[str, str] = {}  # other name -> column
    defaults: Mapping[str, str] = {}  # for the columns that may be absent
    foreign: Mapping[str, str] = {}  # column of another kind of file, which has no default column -> what it is


def file_format(path: Path) -> str:
    """`csv`, `jsonl` or `tsv`, by the file's name."""
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(".csv"):
        return "csv"
    return "jsonl" if name.endswith((".jsonl", ".ndjson")) else "tsv"


def records(path: Path, schema: Schema, bad: BadLines) -> Iterator[Row]:
    """(line number, one field for each of the schema's columns) of every line that has them."""
    if file_format(path) == "jsonl":
        return _json_records(path, schema, bad)
    names, rows = table(path, schema, bad)
    return rows if names == schema.columns else _pick(names, rows, schema)


def table(path: Path, schema: Schema, bad: BadLines) -> tuple[tuple[str, ...], Iterator[Row]]:
    """The column names of a TSV or CSV file, aliases resolved, and its rows with all their columns."""
    rows: Iterator[Row] = _csv_rows(path, bad) if file_format(path) == "csv" else _tsv_rows(path, bad)
    head = list(islice(rows, _LOOK_AHEAD))
    names, headers = _names(str(path), head, schema, bad)
    return names, _of_width(names, chain(head[headers:], rows), str(path), bad)


def columns(path: Path, schema: Schema, bad: BadLines) -> Iterator[Block]:
    """What `records` gives, by columns, for some thousand lines at a time; TSV in half the time."""
    if file_format(path) == "tsv":
        yield from _tsv_columns(path, schema, bad)
        return
    rows = records(path, schema, bad)
    while some := list(islice(rows, _AT_ONCE)):
        numbers, fields = zip(*some, strict=True)
        yield numbers, list(zip(*fields, strict=True))


def json_objects(path: Path, bad: BadLines) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of every line that is a JSON object."""
    for first, lines in file_lines(path, bad):
        for number, line in enumerate(lines, first):
            if not line:
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                bad.add(str(path), number, "not JSON", f"not JSON: {error}")
                continue
            if not isinstance(value, dict):
                bad.add(str(path), number, "not a JSON object")
            elif not _is_text(line, value):
                bad.add(str(path), number, "an escape (\\u....) that is no character")
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


def _json_records(path: Path, schema: Schema, bad: BadLines) -> Iterator[Row]:
    other = {column: alias for alias, column in schema.aliases.items()}
    for number, value in json_objects(path, bad):
        fields = []
        if not schema.foreign.keys().isdisjoint(value):
            foreign = _foreign([schema.aliases.get(key, key) for key in value], schema)
            if foreign:
                bad.add(str(path), number, foreign)
                continue
        for column in schema.columns:
            cell = value.get(column)
            if cell is None:
                cell = value.get(other.get(column, column), schema.defaults.get(column))
            text = json_cell(cell)
            if text is None:
                reason = f"no {column}" if cell is None else f"{column} is not text"
                bad.add(str(path), number, reason)
                break
            fields.append(text)
        else:
            yield number, fields


def _tsv_rows(path: Path, bad: BadLines) -> Iterator[Row]:
    for first, lines in file_lines(path, bad):
        for number, line in enumerate(lines, first):
            if line:
                yield number, line.split("\t")


def _tsv_columns(path: Path, schema: Schema, bad: BadLines) -> Iterator[Block]:
    blocks = file_lines(path, bad)
    first: list[tuple[int, list[str]]] = []
    head: list[Row] = []
    for number, lines in blocks:
        first.append((number, lines))
        rows = ((at, line.split("\t")) for at, line in enumerate(lines, number) if line)
        head += islice(rows, _LOOK_AHEAD - len(head))
        if len(head) == _LOOK_AHEAD:
            break
    names, headers = _names(str(path), head, schema, bad)
    if headers:
        number, lines = next(block for block in reversed(first) if block[0] <= head[0][0])
        lines[head[0][0] - number] = ""  # blank lines are skipped
    for number, lines in chain(first, blocks):
        numbers, fields = _split(number, lines, names, str(path), bad)
        absent = {column: [schema.defaults[column]] * len(numbers) for column in schema.columns if column not in names}
        if numbers:
            yield numbers, [absent.get(c) or fields[names.index(c) :: len(names) + 1] for c in schema.columns]


def _split(
    first: int, lines: list[str], names: tuple[str, ...], name: str, bad: BadLines
) -> tuple[Sequence[int], list[str]]:
    """The numbers of the lines of the right width, and their fields, one after the other, a line feed between lines."""
    width = len(names)
    numbers: Sequence[int] = range(first, first + len(lines))
    fields = "\t\n\t".join(lines).split("\t")
    ends = fields[width :: width + 1]
    if "" in lines or len(fields) + 1 != len(lines) * (width + 1) or ends.count("\n") < len(ends):
        for number, line in zip(numbers, lines, strict=True):
            if line and line.count("\t") != width - 1:
                bad.add(name, number, *wrong_width(line.split("\t"), names))
        good = [bool(line) and line.count("\t") == width - 1 for line in lines]
        numbers, lines = list(compress(numbers, good)), list(compress(lines, good))
        fields = "\t\n\t".join(lines).split("\t")
    return numbers, fields


def _csv_rows(path: Path, bad: BadLines) -> Iterator[Row]:
    """Records with the number of their first line; strict, so that a stray quote ends at the next and is counted."""
    # Fields are held to csv's own limit (131,072 characters), which also bounds what a quote left open can swallow.
    reader = csv.reader((f"{line}\n" for _, lines in file_lines(path, bad) for line in lines), strict=True)
    while True:
        before = reader.line_num
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            bad.add(str(path), before + 1, "not CSV", f"not CSV: {error}", lines=max(1, reader.line_num - before))
            continue
        if fields:
            yield before + 1, fields


def _of_width(names: tuple[str, ...], rows: Iterator[Row], name: str, bad: BadLines) -> Iterator[Row]:
    width = len(names)
    for row in rows:
        fields = row[1]
        if len(fields) == width:
            yield row
        else:
            lines = 1 + sum(field.count("\n") for field in fields)  # CSV: what a lost quote swallowed is bad too
            bad.add(name, row[0], *wrong_width(fields, names), lines=lines)


def _pick(names: tuple[str, ...], rows: Iterator[Row], schema: Schema) -> Iterator[Row]:
    absent = [column for column in schema.columns if column not in names]
    filling = [schema.defaults[column] for column in absent]
    pick = itemgetter(*map((*names, *absent).index, schema.columns))
    for number, fields in rows:
        yield number, pick([*fields, *filling])


def _names(name: str, head: list[Row], schema: Schema, bad: BadLines) -> tuple[tuple[str, ...], int]:
    """The column names of a file by its first rows, and how many of these are headers: 1 or 0."""
    names = _header(name, head[0], schema) if head else None
    if names is None:
        return _layout(head, schema), 0
    bad.total -= 1
    bad.headers += 1
    return names, 1


def _header(name: str, row: Row, schema: Schema) -> tuple[str, ...] | None:
    """The names in the first line, or None where it is not a header."""
    found = [field.strip() for field in row[1]]
    lower = [field.lower() for field in found]
    known = {*schema.columns, *schema.aliases, *chain.from_iterable(schema.layouts)}
    hits = [field for field in lower if field in known]
    if len(hits) < min(2, len(found)):
        return None
    names = tuple(
        schema.aliases[low]
        if low in schema.aliases and schema.aliases[low] not in lower
        else low
        if low in known
        else raw
        for raw, low in zip(found, lower, strict=True)
    )
    missing = [column for column in schema.columns if column not in names and column not in schema.defaults]
    if missing and len(hits) < 2:
        return None
    if missing:
        raise ClickvecError(f"{name}:{row[0]}: the header names {', '.join(found)}; it lacks {', '.join(missing)}")
    foreign = _foreign(names, schema)
    if foreign:
        raise ClickvecError(f"{name}:{row[0]}: {foreign}")
    twice = [column for column in schema.columns if names.count(column) > 1]
    if twice:
        raise ClickvecError(f"{name}:{row[0]}: the header names {twice[0]} twice; rename one of the columns")
    return names


def _foreign(names: Collection[str], schema: Schema) -> str | None:
    """What a record with these columns is, where it only looks like one of ours because a default fills the gap."""
    if all(column in names for column in schema.defaults):
        return None
    return next((what for column, what in schema.foreign.items() if column in names), None)


def _layout(head: list[Row], schema: Schema) -> tuple[str, ...]:
    """The layout of a file without header: the one that most of its first lines have."""
    layouts = {len(layout): layout for layout in schema.layouts}
    votes = Counter(len(fields) for _, fields in head if len(fields) in layouts)
    names = layouts[votes.most_common(1)[0][0]] if votes else schema.layouts[0]
    return tuple(schema.aliases.get(name, name) for name in names)
