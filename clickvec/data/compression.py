"""A gzip file as a stream of bytes in large pieces; GzipFile gives twenty kilobytes at a time, which costs more."""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

_PACKED_BYTES = 1 << 19  # read at once
_AT_ONCE = 1 << 20  # bytes unpacked in one piece, at most


class Unpacked:
    """The bytes of a gzip file."""

    def __init__(self, file: BinaryIO) -> None:
        self._pieces = _pieces(file)

    def read(self, _: int = -1) -> bytes:
        """The next piece, or nothing at the end of the file."""
        return next(self._pieces, b"")


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """The members of a gzip file, one after the other; zeros may stand behind each, as tapes have them."""
    packed, member = b"", zlib.decompressobj(zlib.MAX_WBITS | 16)
    while True:
        packed = packed or file.read(_PACKED_BYTES)
        if member.eof:
            if not packed:
                return
            packed = packed.lstrip(b"\0")
            if packed:
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            continue
        piece = member.decompress(packed, _AT_ONCE)
        if not (packed or piece or member.eof):
            raise EOFError("it ends too early")
        packed = member.unused_data if member.eof else member.unconsumed_tail
        if piece:
            yield piece
