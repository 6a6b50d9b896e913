"""The access log: one JSON line for each request, without the texts of queries unless they are asked for.

Lines are collected and written together at most half a second later, so that a request does not wait for the log and
the lines of several workers are not mixed. Lines that a pipe does not take at once are lost: a program that has stopped
reading the log must not stop the service.
"""

import asyncio
import contextlib
import os
import select
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

_DELAY = 0.5  # seconds
_AT_MOST = 64 * 2**10  # bytes that wait
_PIECE = 4096  # bytes that a pipe takes as a whole, if it takes any


class AccessLog:
    """A file, or standard error, that takes one line for each request. Call it from the event loop only."""

    def __init__(self, path: Path | None) -> None:
        self._file = 2 if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._is_file = stat.S_ISREG(os.fstat(self._file).st_mode)
        self._lines = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._encode = msgspec.json.Encoder().encode

    def write(self, **values: object) -> None:
        """Add a line."""
        self._lines += self._encode(values) + b"\n"
        if len(self._lines) > _AT_MOST:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self.flush)

    def flush(self) -> None:
        """Write the lines that wait. A log that cannot be written must not stop the service."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lines:
            with contextlib.suppress(OSError):
                if self._is_file:
                    os.write(self._file, self._lines)
                else:
                    self._write_pieces()
            self._lines.clear()

    def _write_pieces(self) -> None:
        """Write to a pipe or a terminal, as long as it takes something."""
        poll = select.poll()
        poll.register(self._file, select.POLLOUT)
        for piece in _pieces(bytes(self._lines)):
            if not poll.poll(0):
                return
            os.write(self._file, piece)


def _pieces(lines: bytes) -> Iterator[bytes]:
    """Yield whole lines, as many at once as a pipe takes as a whole."""
    piece = b""
    for line in lines.splitlines(keepends=True):
        if piece and len(piece) + len(line) > _PIECE:
            yield piece
            piece = b""
        piece += line
    yield piece
