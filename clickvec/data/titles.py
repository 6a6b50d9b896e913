"""Read catalogues: titles with ids and any other columns."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.data.layouts.joins import catalogue_schema
from clickvec.data.parsing.columns import OWN_NAMES, Columns
from clickvec.data.parsing.head import look_at
from clickvec.data.parsing.header import Keys, Schema
from clickvec.data.parsing.json_rows import json_cell, json_objects
from clickvec.data.parsing.lines import MAX_BAD, BadLines, Rows
from clickvec.data.parsing.parquet_rows import parquet_payloads
from clickvec.data.parsing.records import read_table
from clickvec.data.parsing.source import Block, Source, open_source
from clickvec.data.parsing.usual_names import USUAL
from clickvec.errors import ClickvecError

TITLES = Schema(
    columns=("doc_id", "title"),
    layouts=(("doc_id", "title"), ("title",), ("doc_id", "title", "url")),
    aliases={"id": "doc_id"},
    defaults={"doc_id": ""},
    usual={"title": USUAL["title"]},
)


class Title(NamedTuple):
    """A title of a catalogue with its id; the payload holds the other columns of its line."""

    id: str
    title: str
    payload: dict[str, Any]


def read_titles(
    path: str | Path, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES, need_ids: bool = False
) -> Rows[Title]:
    """Read a catalogue. A line with an id that an earlier line has is bad.

    Titles without ids are numbered from 0. With `need_ids`, a table without ids is an error, and so is a JSON line.
    """
    bad, titles = BadLines(), dict[str, Title]()
    source = open_source(path, bad, columns)
    for block in _title_blocks(source, need_ids):
        for line, title in zip(block.lines, block.entries(), strict=True):
            if title.id in titles:
                bad.add(source.name, line, "id given twice", f"id {title.id} is given twice")
            else:
                titles[title.id] = title
    bad.check(source.name, max_bad, len(titles), "title")
    return Rows(tuple(titles.values()), bad)


def stream_titles(
    path: str | Path, bad: BadLines, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES, distinct: bool = False
) -> Iterator[Title]:
    """Yield the titles of a catalogue larger than memory. `max_bad` is checked at the end.

    Ids are only compared if they must be `distinct`; then memory is needed for them, and a line with an id that an
    earlier line has is bad.
    """
    count, source, seen = 0, open_source(path, bad, columns), set[str]()
    for block in _title_blocks(source):
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
    next(_title_blocks(open_source(path, BadLines(), columns), need_ids=True), None)


def stream_title_blocks(
    path: str | Path, bad: BadLines, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> Iterator[tuple[Sequence[int], Sequence[str]]]:
    """Yield (line numbers, titles) of a catalogue, some thousand titles at a time, without making `Title` objects.

    A name in `columns` that the file does not have is an error: for a table, before the first title.
    """
    count, source = 0, open_source(path, bad, columns)
    for block in _title_blocks(source, payloads=False):
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


def _title_blocks(source: Source, need_ids: bool = False, payloads: bool = True) -> Iterator[_Block]:
    is_json = source.format == "jsonl"
    blocks = _json_blocks(source, need_ids) if is_json else _table_blocks(source, need_ids, payloads)
    return (_without_blanks(source, block) for block in blocks)


def _table_blocks(source: Source, need_ids: bool, payloads: bool) -> Iterator[_Block]:
    """Yield the titles of a table. A blank cell is not in the payload, so that filters tell it from a value."""
    schema, source = catalogue_schema(TITLES, *look_at(source))
    header, blocks = read_table(source, schema, only_needed=True)  # of Parquet; the payload is read below
    title, doc_id = header.at["title"], header.at.get("doc_id")
    if need_ids and doc_id is None:
        raise ClickvecError(f"{source.name} has no ids; add a column doc_id, or name it with --columns doc_id=COLUMN")
    others = [(name, at) for at, name in enumerate(header.names) if at not in (title, doc_id)]
    typed = parquet_payloads(source, header.names) if source.format == "parquet" and payloads else None
    rows: Iterable[tuple[Block, Iterable[dict[str, Any]]]]
    rows = typed or ((block, _text_payloads(block[1], others, len(block[0]))) for block in blocks)
    for (lines, columns), values in rows:
        yield _Block(lines, columns[title], None if doc_id is None else columns[doc_id], values, 1 + header.lines)


def _text_payloads(
    columns: Sequence[Sequence[str]], names: Sequence[tuple[str, int]], rows: int
) -> Iterator[dict[str, Any]]:
    for row in range(rows):
        yield {name: cell for name, at in names if (cell := columns[at][row]).strip()}


def _json_blocks(source: Source, need_ids: bool) -> Iterator[_Block]:
    keys = Keys(source.name, TITLES, source.columns)
    for objects in json_objects(source):
        rows = []
        for line, value in objects:
            key_of = keys.find(line, value)
            title = json_cell(value[key_of["title"]]) if "title" in key_of else None
            doc_id = json_cell(value[key_of["doc_id"]] if "doc_id" in key_of else line - 1)
            if need_ids and "doc_id" not in key_of:
                source.bad.add(source.name, line, "no doc_id")
            elif title is None or doc_id is None:
                source.bad.add(source.name, line, "no title" if title is None else "id is not text")
            else:
                payload = {name: cell for name, cell in value.items() if name not in key_of.values()}
                rows.append((line, title, doc_id, payload))
        if rows:
            yield _Block(*zip(*rows, strict=True))
    keys.check()


def _without_blanks(source: Source, block: _Block) -> _Block:
    """Leave out lines with a blank id or title, and count them as bad."""
    columns = {"doc_id": block.ids, "title": block.titles} if block.ids is not None else {"title": block.titles}
    if all(all(map(str.strip, texts)) for texts in columns.values()):
        return block
    good = []
    for row, line in enumerate(block.lines):
        blank = next((name for name, texts in columns.items() if not texts[row].strip()), None)
        good.append(not blank)
        if blank:
            source.bad.add(source.name, line, f"blank {blank}")
    return _Block(
        list(compress(block.lines, good)),
        list(compress(block.titles, good)),
        None if block.ids is None else list(compress(block.ids, good)),
        compress(block.payloads, good),
        block.first_line,
    )
