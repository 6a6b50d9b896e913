"""Files to fields: TSV, CSV (.csv), JSON lines (.jsonl) and Parquet, in the columns that a reader asks for.

Everything is read in blocks of some thousand lines, column by column, which is much faster than line by line.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, compress, islice

from clickvec.data.parsing.columns import OWN_NAMES
from clickvec.data.parsing.csv_rows import CsvReader, CsvRecords
from clickvec.data.parsing.header import LOOK_AHEAD, Header, Row, Schema, find_header
from clickvec.data.parsing.json_rows import by_columns, frame_columns, json_columns
from clickvec.data.parsing.lines import LineBlock
from clickvec.data.parsing.parquet_rows import column_names, inner_names, parquet_blocks
from clickvec.data.parsing.source import Block, Blocks, Source
from clickvec.data.parsing.usual_names import letters
from clickvec.errors import ClickvecError

_Piece = LineBlock | CsvRecords  # of a TSV or CSV file


def read_blocks(source: Source, schema: Schema) -> Blocks:
    """Yield the schema's columns of every line that has them, some thousand lines at a time. Count the other lines."""
    if source.frame is not None and not _is_nested(source, schema):
        yield from frame_columns(source, schema)
        return
    if source.format == "jsonl":
        yield from json_columns(source, schema)
        return
    if source.format == "parquet" and (names := names_in_lists(source, schema)):
        yield from json_columns(source, schema, names)
        return
    header, blocks = read_table(source, schema, only_needed=True)
    for numbers, columns in blocks:
        absent = {name: [schema.defaults[name]] * len(numbers) for name in schema.defaults}
        yield (
            numbers,
            [columns[header.at[name]] if name in header.at else absent.get(name, ()) for name in schema.columns],
        )


def _is_nested(source: Source, schema: Schema) -> bool:
    """Whether columns inside others may be read from a table in memory."""
    theirs = (source.columns.names.get(column, "") for column in schema.columns)
    kinds = set(map(type, source.first_object.values()))
    return bool(schema.lists) or dict in kinds or list in kinds or any("." in name for name in theirs)


def names_in_lists(source: Source, schema: Schema) -> list[str]:
    """Return all columns that may be read, if the user's name of one is inside a list of objects; otherwise none."""
    theirs = [source.columns.names[column] for column in schema.columns if column in source.columns.names]
    inner = {name.rpartition(".")[0] for name in inner_names(source.path)}
    holders = {name for leaf in inner for name in accumulate(leaf.split("."), "{}.{}".format)}
    if not any(name.startswith(f"{holder}.") for name in theirs for holder in holders):
        return []
    known = {letters(name) for column in schema.columns for name in schema.own_names(column)}
    known |= {name for groups in schema.usual.values() for group in groups for name in group}
    return [*theirs, *(name for name in column_names(source.path) if letters(name) in known)]


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
    separator = source.separator
    pieces = CsvReader(source).pieces() if source.format == "csv" else source.lines
    rows_needed = 1 if source.columns.header else LOOK_AHEAD
    head, read = list[Row](), list[_Piece]()
    for piece in pieces:
        read.append(piece)
        head += islice(_rows(piece, separator), rows_needed - len(head))
        if len(head) == rows_needed:
            break
    header = _find_header(source, head, schema)
    if header.lines:
        line = head[0][0]
        source.bad.total -= sum(piece.sizes.get(line, 1) - 1 for piece in read if isinstance(piece, CsvRecords))
        read = [_below(piece, line) for piece in read]
    return header, _blocks(source, header, chain(read, pieces), separator)


def _rows(piece: _Piece, separator: str) -> Iterator[Row]:
    if isinstance(piece, CsvRecords):
        return iter(piece.rows)
    first, lines = piece
    return ((number, line.split(separator)) for number, line in enumerate(lines, first) if line)


def _below(piece: _Piece, line: int) -> _Piece:
    """Leave out the lines up to the header: only blank lines come before it."""
    if isinstance(piece, CsvRecords):
        return piece._replace(rows=[row for row in piece.rows if row[0] > line])
    first, lines = piece
    return max(first, line + 1), lines[max(line + 1 - first, 0) :]


def _read_parquet(source: Source, schema: Schema, only_needed: bool) -> tuple[Header, Blocks]:
    names = column_names(source.path)
    columns = source.columns if source.columns.header else OWN_NAMES
    try:
        header = find_header(source.name, [(0, names)], schema, columns)
    except ClickvecError:
        find_header(source.name, [(0, [*names, *inner_names(source.path)])], schema, columns)  # names more to choose
        raise
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


def wrong_width(count: int, names: Sequence[str]) -> tuple[str, str]:
    """Return the reason, and its detail, why a line with too few or too many columns is bad."""
    columns = "1 column" if count == 1 else f"{count:,} columns"
    return "wrong number of columns", f"{columns}, expected {', '.join(names)}"


def _blocks(source: Source, header: Header, pieces: Iterator[_Piece], separator: str) -> Blocks:
    for piece in pieces:
        block = (
            _from_records(source, header, piece)
            if isinstance(piece, CsvRecords)
            else _from_lines(source, header, piece, separator)
        )
        if len(block[0]):
            yield block


def _from_lines(source: Source, header: Header, block: LineBlock, separator: str) -> Block:
    """Split all lines of a block at once."""
    first, lines = block
    width, between = len(header.names), f"{separator}\n{separator}"
    numbers: Sequence[int] = range(first, first + len(lines))
    together = between.join(lines)  # a line feed is a field of its own between the fields of two lines
    # A line may have millions of fields, so they are counted before they are split.
    is_even = together.count(separator) + 2 == len(lines) * (width + 1)
    fields = together.split(separator) if is_even else []
    ends = fields[width :: width + 1]
    if not is_even or "" in lines or ends.count("\n") < len(ends):
        good = [line.count(separator) == width - 1 if line else False for line in lines]
        for number, line, is_good in zip(numbers, lines, good, strict=True):
            if line and not is_good:
                source.bad.add(source.name, number, *wrong_width(line.count(separator) + 1, header.names))
        numbers = list(compress(numbers, good))
        fields = between.join(compress(lines, good)).split(separator)
    return numbers, [fields[at :: width + 1] for at in range(width)]


def _from_records(source: Source, header: Header, records: CsvRecords) -> Block:
    good = []
    for number, fields in records.rows:
        if len(fields) == len(header.names):
            good.append((number, fields))
            source.bad.total -= records.sizes.get(number, 1) - 1  # a good record counts once
        else:  # an open quote may have swallowed some lines
            lines = records.sizes.get(number, 1)
            source.bad.add(source.name, number, *wrong_width(len(fields), header.names), lines=lines)
    return by_columns(good) if good else ((), ())
