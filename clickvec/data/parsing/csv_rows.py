"""Lines of CSV to records. A stray quote spoils only what comes before the next one."""

import csv
from collections.abc import Iterator
from typing import NamedTuple

from clickvec.data.parsing.header import Row
from clickvec.data.parsing.lines import MAX_LINE_BYTES, TOO_LONG, LineBlock
from clickvec.data.parsing.source import Source


class CsvRecords(NamedTuple):
    """Some records with the number of their first line."""

    rows: list[Row]
    sizes: dict[int, int]  # of records over several lines: how many, without blank lines, which are not counted


class CsvReader:
    """Read the records of a CSV file. A block of lines without a quote is left as it is: its commas all separate."""

    def __init__(self, source: Source) -> None:
        self._source, self._blocks = source, iter(source.lines)
        self._first, self._lines, self._at = 1, list[str](), 0  # the present block, and the next line in it
        self._read = 0  # lines that were read, without blank ones
        self._size = 0  # characters of the present record

    def pieces(self) -> Iterator[LineBlock | CsvRecords]:
        """Yield blocks of lines without quotes, and the records of the other lines."""
        # csv limits a field to 131,072 characters, which also limits how much text an open quote can swallow.
        reader = csv.reader(self, strict=True, delimiter=self._source.separator)
        while self._next_block():
            if _is_plain(self._lines):
                self._at = len(self._lines)
                yield self._first, self._lines
            else:
                yield self._records(reader)

    def _records(self, reader: "Iterator[list[str]]") -> CsvRecords:
        """Return the records that begin in the present block, and in those that an open quote runs into."""
        records = CsvRecords([], {})
        while self._at < len(self._lines):
            number, before, self._size = self._first + self._at, self._read, 0
            try:
                fields = next(reader)
            except csv.Error as error:
                lines = max(1, self._read - before)
                self._source.bad.add(self._source.name, number, "not CSV", f"not CSV: {error}", lines=lines)
                continue
            if fields:
                records.rows.append((number, fields))
                if self._read > before + 1:
                    records.sizes[number] = self._read - before
        return records

    def __iter__(self) -> "CsvReader":
        """Return the lines that the csv module reads: an iterator that goes on after it has raised an error."""
        return self

    def __next__(self) -> str:
        """Return the next line. Raise csv.Error if the record that it is part of is too long."""
        if self._at == len(self._lines) and not self._next_block():
            raise StopIteration
        line = self._lines[self._at]
        self._at += 1
        self._read += line != ""
        self._size += len(line)
        if self._size > MAX_LINE_BYTES:  # each field is short, but quotes can join lines without end
            raise csv.Error(f"a record is {TOO_LONG}")
        return f"{line}\n"

    def _next_block(self) -> bool:
        block = next(self._blocks, None)
        if block is not None:
            self._first, self._lines = block
            self._at = 0
        return block is not None


def _is_plain(lines: list[str]) -> bool:
    """Whether splitting at commas gives what the csv module gives."""
    together = "\n".join(lines)
    return not ('"' in together or "\r" in together or max(map(len, lines), default=0) > csv.field_size_limit())
