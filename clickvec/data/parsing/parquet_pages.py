"""The headers of the pages of a Parquet file: what they decode to is known before anything is decoded.

The sizes in the footer of a file need not be true, and a page of some bytes can decode to gigabytes. Headers are
structs in the compact protocol of Thrift.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_HEADER_BYTES = (1 << 12, 1 << 20)  # read first, and if that is not enough
_MAX_DEPTH = 8  # of structs in a header
_DICTIONARY = 2  # the type of the page that holds the distinct values of a column
_UNCOMPRESSED, _COMPRESSED = 2, 3  # fields of a header
_OF_DATA = (5, 8)  # structs of pages that hold values: the two versions of the format; their field 1 is the number
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12, 13


class Page(NamedTuple):
    """What one page says about itself."""

    size: int  # bytes, not compressed
    values: int  # 0 for a dictionary


def pages(stream: BinaryIO, start: int, size: int) -> Iterator[Page]:
    """Yield the pages of a column in a row group. Raise ValueError if a header is damaged."""
    end = start + size
    while start < end:
        length, fields = _header(stream, start)
        uncompressed, compressed = fields.get(_UNCOMPRESSED), fields.get(_COMPRESSED)
        if not (isinstance(uncompressed, int) and isinstance(compressed, int) and min(uncompressed, compressed) >= 0):
            raise ValueError("a page has no size")
        counts = [inner.get(1, 0) for field in _OF_DATA if isinstance(inner := fields.get(field), dict)]
        values = counts[0] if counts and isinstance(counts[0], int) else 0
        if values < 0 or (not counts and fields.get(1) != _DICTIONARY):
            raise ValueError("a page is of an unknown kind")
        yield Page(uncompressed, values)
        start += length + compressed


Fields = dict[int, "int | Fields | None"]


def _header(stream: BinaryIO, start: int) -> tuple[int, Fields]:
    """Return the length of a header, and its fields."""
    for size in _HEADER_BYTES:
        stream.seek(start)
        reader = _Thrift(stream.read(size))
        try:
            fields = reader.struct(0)
        except IndexError:
            continue
        return reader.at, fields
    raise ValueError("the header of a page is cut short")


class _Thrift:
    """Read values in the compact protocol. Behind the end of the data, raise IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int) -> Fields:
        if depth > _MAX_DEPTH:
            raise ValueError("the header of a page is nested too deep")
        fields: Fields = {}
        number = 0
        while kind := (byte := self._byte()) & 15:
            number = number + (byte >> 4) if byte >> 4 else self._integer()
            fields[number] = self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> "int | Fields | None":
        if kind in (_TRUE, _FALSE):
            return None
        if _BYTE < kind < _DOUBLE:
            return self._integer()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            byte = self._byte()
            for _ in range(byte >> 4 if byte >> 4 < 15 else self._unsigned()):
                self._element(byte & 15, depth)
        elif kind == _MAP and (count := self._unsigned()):
            kinds = self._byte()
            for _ in range(count):
                self._element(kinds >> 4, depth)
                self._element(kinds & 15, depth)
        elif kind != _MAP:
            sizes = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}
            if kind != _BINARY and kind not in sizes:
                raise ValueError("the header of a page is damaged")
            self._skip(sizes[kind] if kind in sizes else self._unsigned())
        return None

    def _element(self, kind: int, depth: int) -> None:
        if kind in (_TRUE, _FALSE):  # in a list, they take a byte
            self._byte()
        else:
            self._value(kind, depth + 1)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise IndexError

    def _unsigned(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError("the header of a page is damaged")

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
