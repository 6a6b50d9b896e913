"""The access log: one JSON line for each request, without the texts of queries unless they are asked for.

Lines are collected and written together at most half a second later, by one call, so that a request does not wait for
the log and the lines of several workers are not mixed.
"""

import asyncio
import contextlib
import os
from pathlib import Path

import msgspec

_DELAY = 0.5  # seconds
_AT_MOST = 64 * 2**10  # bytes that wait


class AccessLog:
    """A file, or standard error, that takes one line for each request. Call it from the event loop only."""

    def __init__(self, path: Path | None) -> None:
        self._file = 2 if path is None else os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
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
                os.write(self._file, self._lines)
            self._lines.clear()
