"""Read catalogues: titles with ids and any other columns."""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, islice
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

from clickvec.data.layouts.joins import CATALOGUE, catalogue_schema
from clickvec.data.parsing.columns import IGNORED, OWN_NAMES, Columns
from clickvec.data.parsing.given_table import is_table
from clickvec.data.parsing.head import look_at
from clickvec.data.parsing.header import Keys, Schema
from clickvec.data.parsing.json_rows import json_cell, json_objects
from clickvec.data.parsing.lines import MAX_BAD, BadLines, Rows
from clickvec.data.parsing.nested import flatten, list_of, payloads_of, rows_of
from clickvec.data.parsing.numbers import is_ambiguous
from clickvec.data.parsing.open_files import is_regular
from clickvec.data.parsing.parquet_rows import column_names, parquet_payloads
from clickvec.data.parsing.records import names_in_lists, read_table
from clickvec.data.parsing.source import Block, Given, Source, as_path, format_of, open_source
from clickvec.data.parsing.usual_names import CODES, USUAL, letters, likely_ids
from clickvec.errors import ClickvecError

TITLES = CATALOGUE._replace(
    layouts=(("doc_id", "title"), ("title",), ("doc_id", "title", "url")), defaults={"doc_id": ""}
)
_ONLY_TITLES = TITLES._replace(aliases={"id": "doc_id"}, usual={"title": USUAL["title"]})  # whatever the ids are
_CHANGES = TITLES._replace(defaults={"doc_id": "", "title": ""})
MAX_TITLE = 10_000  # characters
_LOOKED_AT = 1_000  # rows, to see whether a column without a usual name holds the ids

# What a reader needs. "wanted": without a column of ids, row numbers are used, which is said. "alone": ids, and titles
# only if they are given; a title that is not is "".
Ids = Literal["needed", "wanted", "unused", "alone"]
log = logging.getLogger(__name__)


class Title(NamedTuple):
    """A title of a catalogue with its id; the payload holds the other columns of its line."""

    id: str
    title: str
    payload: dict[str, Any]


def read_titles(
    path: Given, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES, ids: Ids = "wanted"
) -> Rows[Title]:
    """Read a catalogue: a file, or a table in memory. A line with an id that an earlier line has is bad.

    The column of the ids has a usual name (`usual_names.py`), or one that `columns` gives. Titles of a catalogue
    without ids are numbered from 0, unless ids are needed. A column that looks like the ids but has no usual name is
    an error; `Columns({"doc_id": "-"})` asks for row numbers. For changes of some fields, ids can be read "alone".
    """
    bad, titles = BadLines(), dict[str, Title]()
    source = open_source(path, bad, columns)
    for block in _title_blocks(source, ids):
        for line, title in zip(block.lines, block.entries(), strict=True):
            if title.id in titles:
                bad.add(source.name, line, "id given twice", f"id {title.id} is given twice")
            else:
                titles[title.id] = title
    bad.check(source.name, max_bad, len(titles), "title")
    return Rows(tuple(titles.values()), bad)


def titles_of(catalogue: Iterable[object] | Given) -> list[str]:
    """Return the titles of a catalogue that a program gives: a file, a table, texts, or entries with a title."""
    if isinstance(catalogue, Iterator):
        catalogue = list(catalogue)
    if isinstance(catalogue, str | PathLike) or is_table(catalogue):
        return [entry.title for entry in read_titles(catalogue, ids="unused")]
    if not isinstance(catalogue, Iterable):
        as_path(catalogue)  # says what can be given
    items = catalogue.to_pylist() if hasattr(catalogue, "to_pylist") else list(catalogue)
    titles = [item.title if hasattr(item, "_fields") else item for item in items]
    wrong = next((number for number, title in enumerate(titles) if not isinstance(title, str)), None)
    if wrong is not None:
        raise ClickvecError(f"catalogue[{wrong}] is of type {type(items[wrong]).__name__}, and a title is a str")
    return titles


def stream_titles(
    path: Given,
    bad: BadLines,
    max_bad: float = MAX_BAD,
    columns: Columns = OWN_NAMES,
    distinct: bool = False,
    ids: Ids = "wanted",
) -> Iterator[Title]:
    """Yield the titles of a catalogue larger than memory. `max_bad` is checked at the end.

    Ids are only compared if they must be `distinct`; then memory is needed for them, and a line with an id that an
    earlier line has is bad.
    """
    count, source, seen = 0, open_source(path, bad, columns), set[str]()
    for block in _title_blocks(source, ids):
        if not distinct or block.ids is None:
            yield from block.entries()
            count += len(block.titles)
            continue
        for line, title in zip(block.lines, block.entries(), strict=True):
            if title.id in seen:
                bad.add(source.name, line, "id given twice", f"id {title.id} is given twice")
            else:
                seen.add(title.id)
                count += 1
                yield title
    bad.check(source.name, max_bad, count, "title")


def check_ids(path: str | Path, columns: Columns = OWN_NAMES) -> None:
    """Raise if a catalogue has no ids."""
    next(_title_blocks(open_source(path, BadLines(), columns), "needed"), None)


def number_columns(path: str | Path, columns: Columns = OWN_NAMES, ids: Ids = "unused") -> list[str]:
    """Return the further columns of a TSV or CSV file of which every value that is not blank is a number.

    Codes stay text: numbers with leading zeros or more than 15 digits, and columns that are called like ids. So do
    columns that can be read in two ways (`decimal_signs`).
    """
    signs = decimal_signs(path, columns, ids)
    return [name for name, sign in signs.items() if sign and not (_CODE.search(name) or letters(name) in CODES)]


def decimal_signs(path: str | Path, columns: Columns = OWN_NAMES, ids: Ids = "unused") -> dict[str, str]:
    """Return the decimal sign of each further column of a TSV or CSV file whose values are all numbers.

    It is a point, or a comma if semicolons are between the columns. In such a file, 1.500 is 1500 if another value of
    the column has a comma, and 1.5 if another one has a point that cannot be between thousands. If neither, the sign is
    "". Standard input can be read only once, so none of its columns is known.
    """
    path = Path(path)
    if not is_regular(path) or format_of(path) not in ("csv", "tsv"):
        return {}  # JSON lines and Parquet have types
    has_commas = has_decimal_commas(path, columns)
    found: dict[str, _Written] = {}
    for title in stream_titles(path, BadLines(), 1.0, columns, ids=ids):
        for name, value in title.payload.items():
            written = found.setdefault(name, _Written(comma=has_commas))
            if written.point or written.comma:
                written.add(value.strip() if isinstance(value, str) else "")
    signs = {name: written.sign(has_commas) for name, written in found.items()}
    return {name: sign for name, sign in signs.items() if sign is not None}


@dataclass
class _Written:
    """How the numbers of a column are written: whether with a decimal point, a decimal comma, or neither."""

    comma: bool  # whether all may have a decimal comma
    point: bool = True  # whether all may have a decimal point
    has_comma: bool = False
    has_point: bool = False  # that is not between thousands
    has_thousands: bool = False  # whether some may have a point between thousands

    def add(self, number: str) -> None:
        is_thousands = is_ambiguous(number)
        self.point &= _NUMBER.fullmatch(number) is not None
        self.comma &= _WITH_COMMA.fullmatch(number) is not None
        self.has_comma |= "," in number
        self.has_point |= "." in number and not is_thousands
        self.has_thousands |= is_thousands

    def sign(self, has_commas: bool) -> str | None:
        """Return the decimal sign, "" if it may be either, None if these are not all numbers."""
        if self.comma and (self.has_comma or not self.has_thousands):
            return ","
        if self.point and (self.has_point or not self.has_thousands or not has_commas):
            return "."
        return "" if self.point or self.comma else None


def has_decimal_commas(path: str | Path, columns: Columns = OWN_NAMES) -> bool:
    """Return whether 1,50 is a number in a file: semicolons are between its columns, because commas are in numbers."""
    path = Path(path)
    return (
        is_regular(path)
        and format_of(path) in ("csv", "tsv")
        and open_source(path, BadLines(), columns).separator == ";"
    )


def read_number(text: str, sign: str | None) -> int | float | None:
    """Return the number in a cell of a column with this decimal sign (`decimal_signs`), None if it is not one."""
    number = text.strip()
    if sign == "," or (sign is None and "," in number):
        number = number.replace(".", "").replace(",", ".") if _WITH_COMMA.fullmatch(number) else ""
    elif sign != "." and is_ambiguous(number):
        return None
    if not (_NUMBER.fullmatch(number) or _SCIENTIFIC.fullmatch(number)):
        return None
    return int(number) if number.lstrip("-").isdecimal() else float(number)


_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")
_WITH_COMMA = re.compile(r"-?((0|[1-9][0-9]{0,14})(,[0-9]{1,15})?|[1-9][0-9]{0,2}(\.[0-9]{3}){1,4}(,[0-9]{1,15})?)")
_SCIENTIFIC = re.compile(r"-?[0-9](\.[0-9]{1,17})?[eE][+-][0-9]{2,3}")  # as programs write very small or large numbers
_CODE = re.compile(
    r"(^|[^a-z])(id|ids|sku|ean|gtin|upc|asin|isbn|mpn|code|barcode|zip|plz|postcode|phone)([^a-z]|$)", re.IGNORECASE
)


def stream_title_blocks(
    path: str | Path, bad: BadLines, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> Iterator[tuple[Sequence[int], Sequence[str]]]:
    """Yield (line numbers, titles) of a catalogue, some thousand titles at a time, without making `Title` objects.

    A name in `columns` that the file does not have is an error: for a table, before the first title.
    """
    count, source = 0, open_source(path, bad, columns)
    for block in _title_blocks(source, "unused"):
        if source.format != "jsonl":
            columns.check_used()
        yield block.lines, block.titles
        count += len(block.titles)
    bad.check(source.name, max_bad, count, "title")
    columns.check_used()


class _Block(NamedTuple):
    """Some titles of a catalogue. Without ids, the lines are numbered from 0, beginning at `first_line`."""

    lines: Sequence[int]
    titles: Sequence[str]
    ids: Sequence[str] | None
    payloads: Iterable[dict[str, Any]]  # an iterator, if making them takes time: not every caller needs them
    first_line: int = 1

    def entries(self) -> Iterator[Title]:
        ids = (str(line - self.first_line) for line in self.lines) if self.ids is None else self.ids
        return map(Title, ids, self.titles, self.payloads)


def _title_blocks(source: Source, ids: Ids) -> Iterator[_Block]:
    in_lists = source.format == "parquet" and bool(names_in_lists(source, _schema(ids)))
    blocks = _json_blocks(source, ids) if source.format == "jsonl" or in_lists else _table_blocks(source, ids)
    return (_without_faults(source, block, ids) for block in blocks)


def _schema(ids: Ids) -> Schema:
    return {"unused": _ONLY_TITLES, "alone": _CHANGES}.get(ids, TITLES)


def _table_blocks(source: Source, ids: Ids) -> Iterator[_Block]:
    """Yield the titles of a table. A blank cell is not in the payload, so that filters tell it from a value."""
    schema, source = catalogue_schema(_schema(ids), source, look_at(source))
    header, blocks = read_table(source, schema, only_needed=True)  # of Parquet; the payload is read below
    title, doc_id = header.at.get("title"), header.at.get("doc_id")
    others = [(name, at) for at, name in enumerate(header.names) if at not in (title, doc_id)]
    typed = parquet_payloads(source, header.names) if source.format == "parquet" and ids != "unused" else None
    rows: Iterable[tuple[Block, Iterable[dict[str, Any]]]]
    rows = typed or ((block, _text_payloads(block[1], others, len(block[0]))) for block in blocks)
    if doc_id is None and ids != "unused":
        rows = iter(rows)
        first = [(block, list(payloads)) for block, payloads in islice(rows, 1)]
        _check_row_numbers(source, ids, first[0][1] if first and (header.lines or typed) else [])
        rows = chain(first, rows)
    for (lines, columns), values in rows:
        keys = None if doc_id is None else columns[doc_id]
        titles = [""] * len(lines) if title is None else columns[title]
        yield _Block(lines, titles, keys, values, 1 + header.lines)


def _check_row_numbers(source: Source, ids: Ids, payloads: Sequence[Mapping[str, object]]) -> None:
    """Say that a catalogue has no ids. Raise if they are needed, or if a column of its first rows looks like them."""
    rows = payloads[:_LOOKED_AT]
    chosen = source.columns.names.values()
    names = list(dict.fromkeys(name for row in rows for name in row if name not in chosen))
    candidates = likely_ids(names, [[row.get(name) for row in rows] for name in names])
    if source.columns.of_table:
        rename = f"{' or '.join(candidates[:5])} may be the ids; rename the column to doc_id, or drop it"
        if candidates or ids in ("needed", "alone"):
            raise ClickvecError(f"{source.name}: {rename if candidates else 'there are no ids; add a column doc_id'}")
        log.warning("%s has no column of ids, so row numbers are the ids; a column doc_id has them", source.name)
        return
    if ids in ("needed", "alone"):
        column = candidates[0] if candidates else "COLUMN"
        raise ClickvecError(
            f"{source.name} has no column of ids; add a column doc_id, or name it with --columns doc_id={column}"
        )
    if source.columns.names.get("doc_id") == IGNORED:
        return
    if candidates:
        raise ClickvecError(
            f"{source.name}: {' or '.join(candidates[:5])} may be the ids; name them with --columns "
            f"doc_id={candidates[0]}, or use row numbers with --columns doc_id={IGNORED}"
        )
    log.warning(
        "%s has no column of ids, so row numbers are the ids; name a column with --columns doc_id=COLUMN", source.name
    )


def _text_payloads(
    columns: Sequence[Sequence[str]], names: Sequence[tuple[str, int]], rows: int
) -> Iterator[dict[str, Any]]:
    for row in range(rows):
        yield {name: cell for name, at in names if (cell := columns[at][row]).strip()}


def _json_blocks(source: Source, ids: Ids) -> Iterator[_Block]:
    keys = Keys(source.name, _schema(ids), source.columns)
    is_nested = any("." in name for name in source.columns.names.values())
    has_nulls = source.format == "jsonl" and not source.in_memory  # in the payload too
    has_ids: bool | None = None
    for objects in json_objects(source, column_names(source.path) if source.format == "parquet" else (), stored=True):
        if has_ids is None and objects:
            has_ids = _has_ids(source, ids, keys, objects)
        rows = []
        for line, value in objects:
            flat = flatten(value) if is_nested else value
            key_of = keys.find(line, flat)
            if absent := keys.absent(flat):
                source.bad.leave_out(source.name, line, f"no {absent}", f"no {absent}")
                continue
            if "doc_id" in key_of and not has_ids:
                raise ClickvecError(
                    f"{source.name}:{line} has an id, and lines before it have none; give all lines one"
                )
            for row, payload in _with_payloads(f"{source.name}:{line}", value, flat, key_of):
                title = json_cell(row[key_of["title"]]) if "title" in key_of else "" if ids == "alone" else None
                doc_id = json_cell(row[key_of["doc_id"]] if "doc_id" in key_of else line - 1)
                if has_ids and "doc_id" not in key_of:
                    source.bad.add(source.name, line, "no doc_id")
                elif title is None or doc_id is None:
                    source.bad.add(source.name, line, "no title" if title is None else "id is not text")
                else:
                    kept = payload if has_nulls else {name: c for name, c in payload.items() if c is not None}
                    rows.append((line, title, doc_id, kept))
        if rows:
            yield _Block(*zip(*rows, strict=True))
    keys.check()


def _with_payloads(
    position: str, value: Mapping[str, Any], flat: Mapping[str, Any], key_of: Mapping[str, str]
) -> Iterable[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Return an object as one row or, if the id or the title is in a list, several; each with its other fields."""
    if flat is value:
        return ((value, {name: cell for name, cell in value.items() if name not in key_of.values()}),)
    payloads = payloads_of(value, key_of.values(), list_of(position, flat, key_of))
    return zip(rows_of(position, flat, key_of), payloads, strict=True)


def _has_ids(source: Source, ids: Ids, keys: Keys, objects: Sequence[tuple[int, Mapping[str, Any]]]) -> bool:
    """Return whether some of the first objects have an id. If none has, say that row numbers are used, or raise."""
    is_nested = any("." in name for name in source.columns.names.values())
    if any("doc_id" in keys.find(line, flatten(value) if is_nested else value) for line, value in objects):
        return True
    if ids != "unused":
        _check_row_numbers(source, ids, [value for _, value in objects])
    return False


def _without_faults(source: Source, block: _Block, ids: Ids) -> _Block:
    """Leave out lines with a blank id, or a title that is blank or too long, and count them as bad."""
    columns = {} if ids == "alone" else {"title": block.titles}
    if block.ids is not None:
        columns = {"doc_id": block.ids, **columns}
    longest = max(map(len, block.titles), default=0)
    if longest <= MAX_TITLE and all(all(map(str.strip, texts)) for texts in columns.values()):
        return block
    good = []
    for row, line in enumerate(block.lines):
        blank = next((f"blank {name}" for name, texts in columns.items() if not texts[row].strip()), None)
        fault = f"title longer than {MAX_TITLE:,} characters" if len(block.titles[row]) > MAX_TITLE else blank
        good.append(not fault)
        if fault:
            source.bad.add(source.name, line, fault)
    return _Block(
        list(compress(block.lines, good)),
        list(compress(block.titles, good)),
        None if block.ids is None else list(compress(block.ids, good)),
        compress(block.payloads, good),
        block.first_line,
    )
