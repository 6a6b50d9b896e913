"""Reads catalogues (titles with ids, and whatever else their lines hold) and result lists of another search engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from clickvec.data.columns import OWN_NAMES, Columns
from clickvec.data.header import Keys, Schema
from clickvec.data.lines import MAX_BAD, BadLines, stream_lines
from clickvec.data.records import Source, json_cell, json_objects, open_source, table, wrong_width
from clickvec.data.records import columns as read_columns

TITLES = Schema(
    columns=("doc_id", "title"),
    layouts=(("doc_id", "title"), ("title",), ("doc_id", "title", "url")),
    aliases={"id": "doc_id"},
    defaults={"doc_id": ""},
)
_WITH_ANY_ID = TITLES._replace(defaults={"doc_id": "any"})  # where there is no column of ids, no id is blank

TitleBlock = tuple[Sequence[int], Sequence[str]]  # the lines of some titles, and the titles


class Title(NamedTuple):
    """A title of a catalogue, its id, and whatever else its line holds."""

    id: str
    title: str
    payload: dict[str, Any]


@dataclass(frozen=True)
class Titles:
    """A catalogue: titles with distinct ids, in the order of the file."""

    entries: tuple[Title, ...]
    bad: BadLines = field(default_factory=BadLines)

    def __len__(self) -> int:
        """The number of titles."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Title]:
        """The titles, in order."""
        return iter(self.entries)

    def __getitem__(self, index: int) -> Title:
        """The title at a place."""
        return self.entries[index]


class ResultList(NamedTuple):
    """What some search engine gave for a query, in its order."""

    query: str
    ids: tuple[str, ...]
    titles: tuple[str, ...]


def read_titles(path: str | Path, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES) -> Titles:
    """The titles of a file, with distinct ids: of two lines with one id the second is bad."""
    bad, seen = BadLines(), dict[str, Title]()
    source = open_source(path, bad, columns)
    for number, entry in _titles(source):
        if entry.id in seen:
            bad.add(source.name, number, "id given twice", f"id {entry.id} is given twice")
        else:
            seen[entry.id] = entry
    bad.check(source.name, max_bad, len(seen), "title")
    return Titles(tuple(seen.values()), bad)


def stream_titles(
    path: str | Path, bad: BadLines, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> Iterator[Title]:
    """As `read_titles`, one at a time, for catalogues larger than memory: ids are not compared, shares judged last."""
    kept, source = 0, open_source(path, bad, columns)
    for _, entry in _titles(source):
        kept += 1
        yield entry
    bad.check(source.name, max_bad, kept, "title")


def stream_title_blocks(
    path: str | Path, bad: BadLines, max_bad: float = MAX_BAD, columns: Columns = OWN_NAMES
) -> Iterator[TitleBlock]:
    """The titles of what `stream_titles` gives, and their lines, some at a time; of a table, in a fifth of the time.

    A name in `columns` that the file lacks is an error: of a table, before its first title is given.
    """
    kept, source = 0, open_source(path, bad, columns)
    is_table = source.format != "jsonl"
    for lines, titles in _table_blocks(source) if is_table else _json_blocks(source):
        if is_table:
            columns.check_used()
        kept += len(titles)
        yield lines, titles
    bad.check(source.name, max_bad, kept, "title")
    columns.check_used()


def _json_blocks(source: Source) -> Iterator[TitleBlock]:
    return (([line], [entry.title]) for line, entry in _titles(source))


def _table_blocks(source: Source) -> Iterator[TitleBlock]:
    for lines, (ids, titles) in read_columns(source, _WITH_ANY_ID):
        if not (all(map(str.strip, ids)) and all(map(str.strip, titles))):
            rows = zip(lines, ids, titles, strict=True)
            good = [(line, title) for line, key, title in rows if not _is_blank(source, line, key, title)]
            lines, titles = [line for line, _ in good], [title for _, title in good]
        yield lines, titles


def _titles(source: Source) -> Iterator[tuple[int, Title]]:
    """Entries with their line numbers. Where a line has no id, its number from 0, less the header, is its id."""
    for number, entry in _json_titles(source) if source.format == "jsonl" else _table_titles(source):
        if not _is_blank(source, number, entry.id, entry.title):
            yield number, entry


def _is_blank(source: Source, number: int, key: str, title: str) -> bool:
    """Whether an id or a title is missing; then it is counted."""
    blank = "doc_id" if not key.strip() else "title" if not title.strip() else None
    if blank:
        source.bad.add(source.name, number, f"blank {blank}")
    return blank is not None


def _table_titles(source: Source) -> Iterator[tuple[int, Title]]:
    header, rows = table(source, TITLES)
    title, doc_id = header.at["title"], header.at.get("doc_id")
    others = [(name, i) for i, name in enumerate(header.names) if i not in (title, doc_id)]
    for number, fields in rows:
        key = str(number - 1 - header.lines) if doc_id is None else fields[doc_id]
        yield number, Title(key, fields[title], {name: fields[i] for name, i in others})


def _json_titles(source: Source) -> Iterator[tuple[int, Title]]:
    keys = Keys(source.name, TITLES, source.columns)
    for number, value in json_objects(source):
        found = keys.find(number, value)
        title = json_cell(value[found["title"]]) if "title" in found else None
        key = json_cell(value[found["doc_id"]] if "doc_id" in found else number - 1)
        if title is None or key is None:
            source.bad.add(source.name, number, "no title" if title is None else "id is not text")
        else:
            used = found.values()
            yield number, Title(key, title, {name: cell for name, cell in value.items() if name not in used})
    keys.check()


def read_result_lists(
    stream: BinaryIO, bad: BadLines | None = None, max_bad: float = MAX_BAD, name: str = "standard input"
) -> Iterator[ResultList]:
    """Lists from lines `query<TAB>id<TAB>title`: consecutive lines with one query are one list, given as it ends.

    The share of bad lines can only be judged at the end, after the last list. Pass `bad` to read the counts there.
    """
    bad = BadLines() if bad is None else bad
    lists = 0
    for query, rows in groupby(_result_rows(stream_lines(stream, name, bad), name, bad), key=itemgetter(0)):
        _, ids, titles = zip(*rows, strict=True)
        lists += 1
        yield ResultList(query, ids, titles)
    bad.check(name, max_bad, lists, "result")


def _result_rows(blocks: Iterator[tuple[int, list[str]]], name: str, bad: BadLines) -> Iterator[Sequence[str]]:
    columns = ("query", "id", "title")
    for first, lines in blocks:
        for number, line in enumerate(lines, first):
            fields = line.split("\t")
            if not line:
                continue
            if len(fields) != len(columns):
                bad.add(name, number, *wrong_width(fields, columns))
                continue
            blank = next((column for column, text in zip(columns, fields, strict=True) if not text.strip()), None)
            if blank:
                bad.add(name, number, f"blank {blank}")
            elif number == 1 and tuple(field.lower().replace("doc_id", "id") for field in fields) == columns:
                bad.total -= 1
                bad.headers += 1
            else:
                yield fields
