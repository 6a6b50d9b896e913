"""What people searched since the service started: how often, without results, without clicks. In memory only.

Queries are counted only if that was asked for (--log-queries). Nothing is written to disk. Each worker keeps its own
counts, and copies them to its part of a shared mapping that is made before the workers are forked, so that any of them
can answer for all. Memory is bounded: if there are too many different queries, the rare ones are dropped.

A page searches while its user types. Of queries that one browser sends in quick succession, each the beginning of the
next or of the one before, only the last is counted.
"""

import contextlib
import mmap
import struct
import threading
import time
from collections.abc import Iterable

import msgspec

MOST = 10_000  # different queries of a worker
LONGEST = 200  # characters of a query; longer ones are cut
_TYPING = 2.5  # seconds: after a pause of this length, a query is what the user meant
_COPY_SECONDS = 1.0  # between two copies to the shared mapping
_BYTES = 4 * 2**20  # for the counts of a worker as JSON
_HEAD = struct.Struct("<QQ")  # version (odd while the counts are copied), length
_BROWSERS = 1_000  # that may be typing at once


class QueryCount(msgspec.Struct):
    """How often a query was searched, without finding a title, without sharing a word with one, and clicked."""

    query: str
    searches: int = 0
    nothing: int = 0
    no_words: int = 0
    clicks: int = 0

    def add(self, other: "QueryCount") -> None:
        """Add the counts of another worker, or of one search."""
        self.searches += other.searches
        self.nothing += other.nothing
        self.no_words += other.no_words
        self.clicks += other.clicks


class _Copied(msgspec.Struct):
    """What a worker copies."""

    dropped: int = 0
    counts: list[QueryCount] = []


class SharedCounts:
    """The counts of all workers, as copied last. Make it before the workers are forked."""

    def __init__(self, workers: int = 1) -> None:
        self.started = time.time()
        self._workers = workers
        self._memory = mmap.mmap(-1, workers * _BYTES)

    def copy(self, worker: int, dropped: int, counts: list[QueryCount]) -> None:
        """Replace the counts of a worker. If they are too long, leave out the rare ones."""
        content = msgspec.json.encode(_Copied(dropped, counts))
        while len(content) > _BYTES - _HEAD.size:
            dropped += len(counts) - len(counts) // 2
            counts = most_frequent(counts, len(counts) // 2)
            content = msgspec.json.encode(_Copied(dropped, counts))
        start = worker * _BYTES
        version, _ = _HEAD.unpack_from(self._memory, start)
        version += version % 2  # a worker that was killed while it copied leaves an odd one
        _HEAD.pack_into(self._memory, start, version + 1, 0)
        self._memory[start + _HEAD.size : start + _HEAD.size + len(content)] = content
        _HEAD.pack_into(self._memory, start, version + 2, len(content))

    def read(self, worker: int) -> _Copied:
        """Return the counts of a worker, or none if it is copying them all the time or was killed meanwhile."""
        start = worker * _BYTES
        for _ in range(100):
            before, length = _HEAD.unpack_from(self._memory, start)
            content = self._memory[start + _HEAD.size : start + _HEAD.size + min(length, _BYTES)]
            if before % 2 == 0 and _HEAD.unpack_from(self._memory, start)[0] == before:
                return msgspec.json.decode(content, type=_Copied) if content else _Copied()
            time.sleep(0.001)
        return _Copied()

    def all(self) -> tuple[list[QueryCount], int]:
        """Return the counts of all workers together, and how many rare queries were dropped."""
        together: dict[str, QueryCount] = {}
        dropped = 0
        for worker in range(self._workers):
            copied = self.read(worker)
            dropped += copied.dropped
            for count in copied.counts:
                together.setdefault(_key(count.query), QueryCount(count.query)).add(count)
        return list(together.values()), dropped


class QueryCounts:
    """The counts of one worker."""

    def __init__(self, shared: SharedCounts, worker: int) -> None:
        self.shared, self._worker = shared, worker
        before = shared.read(worker)  # of the worker that this one replaces
        self._counts = {_key(count.query): count for count in before.counts}
        self._dropped = before.dropped
        self._typing: dict[str, tuple[QueryCount, float]] = {}  # by browser: its last search, and when it was
        self._is_changed = False
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._copying = threading.Thread(target=self._copy_again, name="queries", daemon=True)
        self._copying.start()

    def search(self, query: str, is_found: bool, has_words: bool, browser: str = "") -> None:
        """Count a search. `browser` is the address of a browser, whose user may still be typing."""
        query = _shortened(query)
        if not query:
            return
        count = QueryCount(query, 1, int(not is_found), int(is_found and not has_words))
        with self._lock:
            if not browser:
                self._add(count)
                return
            last, _ = self._typing.pop(browser, (None, 0.0))
            if last is not None and not _is_typing(last.query, query):
                self._add(last)
            if len(self._typing) >= _BROWSERS:
                self._settle(0.0)
            self._typing[browser] = count, time.monotonic()

    def click(self, query: str) -> None:
        """Count a click on a title that a query found."""
        query = _shortened(query)
        if query:
            with self._lock:
                self._add(QueryCount(query, clicks=1))

    def copy(self) -> None:
        """Copy what has changed to where all workers can read it."""
        with self._lock:
            self._settle(_TYPING)
            if not self._is_changed:
                return
            self._is_changed = False
            counts, dropped = [msgspec.structs.replace(count) for count in self._counts.values()], self._dropped
        self.shared.copy(self._worker, dropped, counts)

    def close(self) -> None:
        """Stop the thread."""
        self._closed.set()
        self._copying.join()

    def _add(self, count: QueryCount) -> None:
        known = self._counts.setdefault(_key(count.query), QueryCount(count.query))
        known.add(count)
        self._is_changed = True
        if len(self._counts) > MOST:
            kept = most_frequent(self._counts.values(), MOST // 2)
            self._dropped += len(self._counts) - len(kept)
            self._counts = {_key(count.query): count for count in kept}

    def _settle(self, seconds: float) -> None:
        """Count the last searches of browsers that have been silent for so long."""
        until = time.monotonic() - seconds
        for browser in [browser for browser, (_, at) in self._typing.items() if at <= until]:
            self._add(self._typing.pop(browser)[0])

    def _copy_again(self) -> None:
        while not self._closed.wait(_COPY_SECONDS):
            with contextlib.suppress(MemoryError):
                self.copy()


def most_frequent(counts: Iterable[QueryCount], most: int) -> list[QueryCount]:
    """Return the queries that were searched or clicked most often; of equally frequent ones the latest."""
    newest_first = list(counts)[::-1]
    return sorted(newest_first, key=lambda count: -count.searches - count.clicks)[:most]


def _shortened(query: str) -> str:
    return " ".join(query.split())[:LONGEST].encode("utf-8", "replace").decode()


def _key(query: str) -> str:
    return query.casefold()


def _is_typing(last: str, query: str) -> bool:
    """Tell whether one query is the beginning of the other."""
    one, other = sorted((_key(last), _key(query)), key=len)
    return other.startswith(one)
