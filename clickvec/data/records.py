"""Files to fields: TSV, CSV (.csv), JSON lines (.jsonl) and Parquet, in the columns that a reader asks for.

Everything is read in blocks of some thousand lines, column by column, which is much faster than line by line.
"""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain, compress, islice

from clickvec.data.columns import OWN_NAMES
from clickvec.data.header import LOOK_AHEAD, Header, Row, Schema, find_header
from clickvec.data.json_rows import by_columns, json_columns
from clickvec.data.lines import LineBlock
from clickvec.data.parquet_rows import column_names, parquet_blocks
from clickvec.data.source import Blocks, Source
from clickvec.errors import ClickvecError

_ROWS_AT_ONCE = 10_000  # of a CSV file


def read_blocks(source: Source, schema: Schema) -> Blocks:
    """Yield the schema's columns of every line that has them, some thousand lines at a time. Count the other lines."""
    if source.format == "jsonl":
        yield from json_columns(source, schema)
        return
    header, blocks = read_table(source, schema, only_needed=True)
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


def read_table(source: Source, schema: Schema, only_needed: bool = False) -> tuple[Header, Blocks]:
    """Return the header of a TSV, CSV or Parquet file, and its blocks with all columns.

    With `only_needed`, columns that are not in the schema are not read from a Parquet file, nor in the header.
    """
    if source.format == "parquet":
        return _read_parquet(source, schema, only_needed)
    rows_needed = 1 if source.columns.header else LOOK_AHEAD
    if source.format == "csv":
        records_of = _CsvRows(source)
        rows = iter(records_of)
        head = list(islice(rows, rows_needed))
        header = _find_header(source, head, schema)
        return header, _csv_blocks(source, header, chain(head[header.lines :], rows), records_of.sizes)
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


def _read_parquet(source: Source, schema: Schema, only_needed: bool) -> tuple[Header, Blocks]:
    names = column_names(source.path)
    header = find_header(source.name, [(0, names)], schema, source.columns if source.columns.header else OWN_NAMES)
    if only_needed:
        at = {column: index for index, column in enumerate(header.at)}
        names, header = [names[index] for index in header.at.values()], header._replace(at=at)
    lists = {names[header.at[column]] for column in schema.lists if column in header.at}
    return header._replace(names=tuple(names), lines=0), parquet_blocks(source, names, lists)


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


class _CsvRows:
    """The records of a CSV file with the number of their first line. A stray quote spoils only what precedes the next.

    `sizes` are the numbers of lines of the records that have several, without blank lines, which are not counted.
    """

    def __init__(self, source: Source) -> None:
        self._source, self.sizes = source, dict[int, int]()
        self._lines = 0  # read so far, without blank ones

    def __iter__(self) -> Iterator[Row]:
        # csv limits a field to 131,072 characters, which also limits how much text an open quote can swallow.
        reader = csv.reader(self._read_lines(), strict=True)
        while True:
            before, lines_before = reader.line_num, self._lines
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                lines = max(1, self._lines - lines_before)
                self._source.bad.add(self._source.name, before + 1, "not CSV", f"not CSV: {error}", lines=lines)
                continue
            if fields:
                if self._lines > lines_before + 1:
                    self.sizes[before + 1] = self._lines - lines_before
                yield before + 1, fields

    def _read_lines(self) -> Iterator[str]:
        for _, lines in self._source.lines:
            for line in lines:
                self._lines += line != ""
                yield f"{line}\n"


def _csv_blocks(source: Source, header: Header, rows: Iterator[Row], sizes: dict[int, int]) -> Blocks:
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        good = [row for row in block if len(row[1]) == len(header.names)]
        for number, fields in block if len(good) < len(block) else ():
            if len(fields) != len(header.names):  # an open quote may have swallowed some lines
                lines = sizes.pop(number, 1)
                source.bad.add(source.name, number, *wrong_width(fields, header.names), lines=lines)
        source.bad.total -= sum(lines - 1 for lines in sizes.values())  # a good record counts once
        sizes.clear()
        if good:
            yield by_columns(good)
