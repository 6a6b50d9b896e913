"""A gzip file as a stream of bytes, unpacked in a thread beside the reader: zlib works while Python does."""

import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO

_PACKED_BYTES = 1 << 18  # read at once
_AT_ONCE = 1 << 20  # bytes unpacked in one piece, so that the thread seldom waits for Python's lock


class Unpacked:
    """The bytes of a gzip file; the next piece is unpacked while the last one is read."""

    def __init__(self, file: BinaryIO, pool: ThreadPoolExecutor) -> None:
        self._pieces, self._pool = _pieces(file), pool
        self._next = pool.submit(next, self._pieces, b"")

    def read(self, _: int = -1) -> bytes:
        """The next piece, or nothing at the end of the file; what is wrong with the file is raised here."""
        piece = self._next.result()
        self._next = self._pool.submit(next, self._pieces, b"")
        return piece


@contextmanager
def unpacked(file: BinaryIO) -> Iterator[Unpacked]:
    """Unpack a gzip file as long as it is read."""
    with ThreadPoolExecutor(1, "unpack") as pool:
        yield Unpacked(file, pool)


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
