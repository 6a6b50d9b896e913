"""Read gzip files in large pieces. GzipFile returns twenty kilobytes at a time, which is slower."""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

_COMPRESSED_BYTES = 1 << 19  # read at once
_PIECE_BYTES = 1 << 20  # decompressed at once, at most


class GzipReader:
    """The decompressed bytes of a gzip file."""

    def __init__(self, file: BinaryIO) -> None:
        self._pieces = _decompress(file)

    def read(self, _: int = -1) -> bytes:
        """Return the next piece, empty at the end of the file."""
        return next(self._pieces, b"")


def _decompress(file: BinaryIO) -> Iterator[bytes]:
    """Yield the contents of all members of a gzip file. There may be padding, zeros, between them."""
    compressed, member = b"", zlib.decompressobj(zlib.MAX_WBITS | 16)
    while True:
        compressed = compressed or file.read(_COMPRESSED_BYTES)
        if member.eof:
            if not compressed:
                return
            compressed = compressed.lstrip(b"\0")
            if compressed:
                member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            continue
        piece = member.decompress(compressed, _PIECE_BYTES)
        if not (compressed or piece or member.eof):
            raise EOFError("it ends too early")
        compressed = member.unused_data if member.eof else member.unconsumed_tail
        if piece:
            yield piece
