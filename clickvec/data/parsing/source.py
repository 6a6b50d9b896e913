"""A file that is being read: its name, its format, its lines."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.data.parsing.columns import MAX_WIDTH, OWN_NAMES, Columns
from clickvec.data.parsing.given_table import (
    ROWS_AT_ONCE,
    Layouts,
    frame_blocks,
    has_columns,
    is_table,
    table_name,
    table_rows,
)
from clickvec.data.parsing.given_table import Block as FrameBlock
from clickvec.data.parsing.lines import BadLines, LineBlock, file_lines
from clickvec.data.parsing.open_files import STDIN, is_parquet, is_regular, name_of
from clickvec.data.parsing.usual_names import KNOWN, letters
from clickvec.errors import ClickvecError

Block = tuple[Sequence[int], Sequence[Sequence[str]]]  # line numbers, and the fields of each column
Blocks = Iterator[Block]
Objects = list[tuple[int, dict[str, Any]]]  # rows with their numbers
Table = Any  # a DataFrame, a Table of Arrow, a dict of columns, or a list of dicts or tuples (given_table.py)
Given = str | Path | Table

SEPARATORS = ("\t", ",", ";", "|")
_COMPRESSED = (".gz", ".zst")
_JSON = (".jsonl", ".ndjson", ".json")


class Source(NamedTuple):
    """A file that is being read."""

    name: str  # in messages
    format: str  # csv, jsonl, parquet or tsv
    lines: Iterator[LineBlock]  # none, if the file is Parquet
    bad: BadLines
    columns: Columns
    path: Path
    first: str = ""  # the first line that is not blank
    separator: str = "\t"  # of columns
    objects: Iterator[Objects] | None = None  # of a list of rows in memory, which has no lines
    frame: Iterator[FrameBlock] | None = None  # of a table in memory that has columns
    first_object: Mapping[str, Any] = {}  # of both

    @property
    def in_memory(self) -> bool:
        """Whether this is a table in memory, and not a file."""
        return self.objects is not None or self.frame is not None


def open_source(
    path: Given, bad: BadLines, columns: Columns = OWN_NAMES, layouts: Layouts = (("doc_id", "title"),)
) -> Source:
    """Open a file of the format that its name says. Standard input is JSON lines if it starts with {, otherwise TSV.

    In place of a file, a table in memory may be given; `layouts` are the columns of its rows, if they are tuples.
    """
    if is_table(path):
        return _of_table(path, bad, columns, layouts)
    path = as_path(path)
    name, file_format = name_of(path), format_of(path)
    if is_parquet(path) or (file_format == "parquet" and is_regular(path)):
        return Source(name, "parquet", iter(()), bad, columns, path)
    lines = file_lines(path, bad, columns.encoding)
    if is_regular(path):
        _, first = first_line(file_lines(path, BadLines(), columns.encoding))
    else:
        head, first = first_line(lines)
        lines = chain(head, lines)
    if path == STDIN:
        file_format = "jsonl" if first.startswith("{") else "tsv"
    if file_format == "jsonl":
        return Source(name, file_format, lines, bad, columns, path, first)
    usual = "," if file_format == "csv" else "\t"
    separator = _separator(first, usual, columns)
    if separator != usual:
        bad.delimiters[name] = separator
        file_format = "csv"  # with quotes
    return Source(name, file_format, lines, bad, columns, path, first, separator)


def as_path(given: Given) -> Path:
    """Return a path. Raise ClickvecError for something that is neither a path nor a table."""
    if isinstance(given, str | PathLike):
        return Path(given)
    raise ClickvecError(
        f"{repr(given)[:60]} is of type {type(given).__name__}; give a path, a DataFrame (pandas, polars, pyarrow), or "
        "a list of dicts or tuples"
    )


def _of_table(given: Given, bad: BadLines, columns: Columns, layouts: Layouts) -> Source:
    name = table_name(given)
    source = Source(name, "jsonl", iter(()), bad, columns.in_memory(), Path(name))
    if has_columns(given):
        blocks = frame_blocks(given, name)
        first = list(islice(blocks, 1))
        row = next((row for block in first for row in block._replace(columns=block.top()).rows(name)), {})
        return source._replace(frame=chain(first, blocks), first_object=row)
    rows: Iterator[tuple[int, dict[str, Any]]] = enumerate(table_rows(given, name, layouts), 1)
    head = list(islice(rows, 1))
    objects: Iterator[Objects] = chain([head], iter(lambda: list(islice(rows, ROWS_AT_ONCE)), []))
    return source._replace(objects=objects, first_object=head[0][1] if head else {})


def _separator(line: str, usual: str, columns: Columns) -> str:
    """Return what separates the columns of a file, told by its first line: `usual`, unless another is clearly meant."""
    if columns.delimiter is not None and columns.delimiter in line:
        columns.use_delimiter()
        return columns.delimiter
    is_json = line.startswith("{")  # in a file that is named otherwise
    if not columns.header or is_json:
        return usual
    own = {letters(name) for name in columns.names.values()}
    known, count = dict[str, int](), dict[str, int]()
    for separator in SEPARATORS:
        fields = [letters(field.strip().strip('"')) for field in line.split(separator, MAX_WIDTH)]
        known[separator], count[separator] = sum(field in KNOWN or field in own for field in fields), len(fields)
    best = max(SEPARATORS, key=lambda separator: (known[separator], separator == usual, count[separator]))
    if count[usual] > 1:  # a text may hold any sign
        return best if known[best] > max(known[usual], 1) else usual
    return max(SEPARATORS, key=lambda separator: (known[separator] * (count[separator] > 1), count[separator]))


def first_line(lines: Iterator[LineBlock]) -> tuple[list[LineBlock], str]:
    """Read blocks up to the first line that is not blank, and return them with that line."""
    head: list[LineBlock] = []
    for block in lines:
        head.append(block)
        first = next(filter(None, block[1]), "")
        if first:
            return head, first
    return head, ""


def format_of(path: Path) -> str:
    """Return the format that the name of a file says: csv, jsonl, parquet, or tsv for all other names."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    if name.endswith((".csv", ".parquet")):
        return name.rpartition(".")[2]
    return "jsonl" if name.endswith(_JSON) else "tsv"
