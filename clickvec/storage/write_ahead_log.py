"""Find commits in a write-ahead log of SQLite that it cannot read.

SQLite silently ends a write-ahead log at the first frame with a wrong checksum. That is how it skips a commit that a
power failure interrupted, which was never acknowledged. But a damaged byte drops all commits after it in the same way.
Format: https://www.sqlite.org/fileformat2.html#walformat
"""

import functools
import logging
import struct
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import UnavailableError

_HEADER = struct.Struct(">8I")  # magic, version, page size, sequence number, two salts, two checksums
_FRAME_HEADER = 6  # words: page, pages of the database if this is a commit or 0, two salts, two checksums
_PAGE_BYTES = 4096
log = logging.getLogger(__name__)


def check_log(path: Path) -> None:
    """Raise if SQLite would silently drop several commits of a write-ahead log, and warn of one."""
    for _ in range(3):  # a writer may be writing
        lost = unread_commits(path)
        if lost == 0:
            return
        time.sleep(0.05)
    if lost > 1:
        raise UnavailableError(
            f"{path} is damaged, so that its last {lost} commits cannot be read; "
            "restore a copy of the index, or delete this file to go on without them"
        )
    log.warning("%s: the last commit is incomplete, as a killed writer leaves it, and is ignored", path)


def unread_commits(path: Path) -> int:
    """Return how many commits of a log SQLite cannot read. More than one means that the log is damaged.

    The next commit starts only when the one before is on disk, so a power failure can damage only the last one.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return 0
    if len(data) < _HEADER.size:
        return 0
    header = _HEADER.unpack_from(data)
    words = np.frombuffer(data, ">u4", offset=_HEADER.size, count=(len(data) - _HEADER.size) // 4)
    words_per_frame = _FRAME_HEADER + _PAGE_BYTES // 4
    frames = words[: len(words) // words_per_frame * words_per_frame].reshape(-1, words_per_frame)
    order = "<u4" if header[0] & 1 == 0 else ">u4"
    is_right = _checksum((0, 0), np.frombuffer(data[:24], order)) == (header[6], header[7])
    salts = header[4:6] if is_right else tuple(frames[:1, 2:4].ravel())  # older frames have other salts
    if not len(frames):
        return 0
    belongs = (frames[:, 2:4] == salts).all(axis=1)
    readable = 0
    if is_right:
        together = len(frames) if belongs.all() else int(belongs.argmin())
        readable = _readable(frames[:together], order, (header[6], header[7]))
    return int((belongs & (frames[:, 1] != 0))[readable:].sum())


def _readable(frames: NDArray[np.uint32], order: str, checksum: tuple[int, int]) -> int:
    """Return how many frames from the first one on have the right checksum. Each depends on the one before."""
    covered = np.delete(frames, (2, 3, 4, 5), axis=1).astype(">u4").view(order).astype(np.uint32)
    matrix, *weights = _weights(covered.shape[1] // 2)
    sums = np.stack([covered @ column for column in weights], axis=1).tolist()
    for number, (own, stored) in enumerate(zip(sums, frames[:, 4:6].tolist(), strict=True)):
        first, second = (
            (row[0] * checksum[0] + row[1] * checksum[1] + value) & 0xFFFFFFFF
            for row, value in zip(matrix, own, strict=True)
        )
        checksum = (first, second)
        if [first, second] != stored:
            return number
    return len(frames)


def _checksum(start: tuple[int, int], words: NDArray[np.uint32]) -> tuple[int, int]:
    first, second = start
    for one, other in words.reshape(-1, 2).tolist():
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second


@functools.cache
def _weights(pairs: int) -> tuple[list[list[int]], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the checksum as a linear function: of its start, as a matrix, and of the words, as two vectors."""
    step = np.zeros((1, 2), np.uint32)
    effects = [[(1, 1), (0, 1)]]  # of the two words of the last pair, then of those before it
    matrix = [_checksum(start, step) for start in ((1, 0), (0, 1))]
    for _ in range(pairs - 1):
        effects.append([_checksum(effect, step) for effect in effects[-1]])
        matrix = [_checksum(column, step) for column in matrix]
    weights = np.array(effects[::-1], np.uint32).reshape(pairs * 2, 2)
    return [list(row) for row in zip(*matrix, strict=True)], weights[:, 0].copy(), weights[:, 1].copy()
