"""The click log that the service writes: one JSON line for each title that was shown or clicked.

`clickvec prepare` and `clickvec train` read it as it is: query, title, clicked (0 or 1), position, time, client, and
the id as doc_id. Several processes append to one file; a lock keeps the lines of a request together. `take` renames the
file so that training reads a file that no longer grows, and the service starts a new one.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from clickvec.errors import DiskFullError

USED = ".used.jsonl"  # ending of a log that a model was trained on


class Impression(NamedTuple):
    """A title that was shown for a query, or clicked."""

    query: str
    doc_id: str
    title: str
    position: int | None
    clicked: int
    client: str | None


def default_path(index: Path) -> Path:
    """Return the click log of an index. It is beside the index, so that building the index again keeps it."""
    resolved = index.resolve()
    return resolved.with_name(f"{resolved.name}.clicks.jsonl")


class ClickLog:
    """A file to which impressions are appended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._encode = msgspec.json.Encoder().encode

    def append(self, impressions: Sequence[Impression]) -> None:
        """Append impressions. On error the file is as before.

        The lines survive the end of the process. They are not synced to the disk, so a power cut may lose the last.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        lines = b"".join(self._line(impression, now) for impression in impressions)
        while True:
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if not _is_at(file, self.path):
                    continue  # `take` has renamed it in the meantime
                size = os.fstat(file).st_size
                try:
                    written = os.write(file, lines)
                except OSError:
                    os.ftruncate(file, size)
                    raise
                if written < len(lines):  # the disk is full
                    os.ftruncate(file, size)
                    raise DiskFullError(f"the click was not logged: {self.path} cannot grow; the disk may be full")
                return
            finally:
                os.close(file)

    def _line(self, impression: Impression, now: str) -> bytes:
        value = {name: value for name, value in impression._asdict().items() if value is not None}
        return self._encode(value | {"time": now}) + b"\n"


def take(path: Path) -> list[Path]:
    """Rename the log at `path`, if there is one, and return all logs that no model was trained on, oldest first."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        pass
    else:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_size:
                stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
                path.rename(path.with_name(f"{_stem(path)}-{stamp}.jsonl"))
        finally:
            os.close(file)
    # Only what was renamed above: shop-eu.jsonl is the log of another index.
    is_taken = re.compile(re.escape(_stem(path)) + r"-\d{8}T\d{6}\.\d{6}Z\.jsonl").fullmatch
    return sorted(log for log in path.parent.iterdir() if is_taken(log.name))


def mark_used(logs: Sequence[Path]) -> None:
    """Rename logs, so that `take` does not return them again."""
    for log in logs:
        with contextlib.suppress(FileNotFoundError):  # another `retrain` has done it
            log.rename(log.with_name(log.name.removesuffix(".jsonl") + USED))


def _stem(path: Path) -> str:
    return path.name.removesuffix(".jsonl")


def _is_at(file: int, path: Path) -> bool:
    """Tell whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
