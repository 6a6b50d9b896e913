"""A file that is being read: its name, its format, its lines."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from clickvec.data.parsing.columns import OWN_NAMES, Columns
from clickvec.data.parsing.lines import BadLines, LineBlock, file_lines
from clickvec.data.parsing.open_files import STDIN, is_parquet, is_regular, name_of

Block = tuple[Sequence[int], Sequence[Sequence[str]]]  # line numbers, and the fields of each column
Blocks = Iterator[Block]

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


def open_source(path: str | Path, bad: BadLines, columns: Columns = OWN_NAMES) -> Source:
    """Open a file of the format that its name says. Standard input is JSON lines if it starts with {, otherwise TSV."""
    path = Path(path)
    file_format = format_of(path)
    if is_parquet(path) or (file_format == "parquet" and is_regular(path)):
        return Source(name_of(path), "parquet", iter(()), bad, columns, path)
    lines = file_lines(path, bad)
    if path != STDIN:
        return Source(name_of(path), file_format, lines, bad, columns, path)
    head, first = first_line(lines)
    lines = chain(head, lines)
    return Source(name_of(path), "jsonl" if first.startswith("{") else "tsv", lines, bad, columns, path)


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
