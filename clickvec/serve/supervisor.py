"""Run a service: one worker in this process, or a supervisor with several workers and one writer process.

The supervisor only forks, waits and forwards signals; it opens no index and starts no thread, so forking is safe. The
workers accept connections from the same socket and map the same index. The writer process holds the lock of the index,
and workers hand their changes to it. A process that dies is replaced. After SIGTERM, SIGINT or SIGHUP, the workers
finish running requests, then the writer stops; a second signal stops all at once. If the supervisor is killed, the
others stop too.
"""

import contextlib
import logging
import mmap
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import NoReturn

from clickvec.errors import ClickvecError
from clickvec.search.index import Index
from clickvec.search.live.index_folder import format_of
from clickvec.search.live.live_folder import LiveFolder
from clickvec.search.live.writer import lock_holder, take_lock
from clickvec.search.old_format import OLD_FORMAT
from clickvec.serve.application import NAMES
from clickvec.serve.counters import Counters
from clickvec.serve.limits import Settings, location
from clickvec.serve.query_counts import SharedCounts
from clickvec.serve.server import listen, stop_signals, work

log = logging.getLogger(__name__)
_WRITER = -1  # the number of the writer process, in place of that of a worker
_CANNOT_OPEN = 3  # the status of a process that cannot open the index
_SOON = 1.0  # seconds: a process that dies earlier is replaced after a pause
_RETRY = 0.2  # seconds between two attempts to become the writer


def run(settings: Settings, started: Callable[[str], None]) -> None:
    """Run a service until a signal stops it. `started` gets the address when requests are accepted."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a connection needs a descriptor
    if not settings.address and (reason := why_read_only(settings.index)):
        settings = replace(settings, read_only=reason)
        log.warning("%s", reason)
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    counters, queries = Counters(NAMES, settings.workers), SharedCounts(settings.workers)
    with listener:
        if settings.workers == 1:
            index = Index.open(location(settings), writing=not settings.read_only)
            work(settings, index, listener, counters, queries, 0, lambda: started(address))
        else:
            Supervisor(settings, listener, counters, queries).run(lambda: started(address))


def why_read_only(path: Path) -> str:
    """Return the sentence that tells why a service cannot change an index, or ""."""
    if format_of(path) <= OLD_FORMAT:
        return f"{path} has an old format, so this service is read-only; build the index again to change it."
    try:
        lock = take_lock(path)
    except ClickvecError as error:
        return f"This service only reads {path}: {error}."
    if lock is None:
        return f"{lock_holder(path).capitalize()} is writing to {path}, so this service is read-only."
    lock.close()
    return ""


class Supervisor:
    """The parent of the workers and of the writer."""

    def __init__(self, settings: Settings, listener: socket.socket, counters: Counters, queries: SharedCounts) -> None:
        self._settings, self._listener, self._counters, self._queries = settings, listener, counters, queries
        self._children: dict[int, tuple[int, float]] = {}  # process id: number, and when it was started
        self._signals, self._has_failed = 0, False
        self._has_opened = mmap.mmap(-1, 2)  # shared with the children: whether a worker, and the writer, has opened it
        self._alive = os.pipe()  # nothing is written to it; it ends with this process

    def run(self, started: Callable[[], None]) -> None:
        """Start all processes and replace those that die, until a signal comes and all have stopped."""
        for caught in stop_signals():
            signal.signal(caught, self._on_signal)
        if not self._settings.read_only and not self._settings.address:  # a database has no single writer
            readable, writable = os.pipe()
            self._start(_WRITER, writable)
            os.close(writable)
            os.read(readable, 1)  # the writer builds damaged files again, before a worker reads them
            os.close(readable)
        for worker in range(self._settings.workers):
            self._start(worker)
        if not self._signals:
            started()
        while self._children:
            self._wait()
        if self._has_failed:
            raise ClickvecError(f"{self._settings.index} cannot be served; the message above says why")

    def _wait(self) -> None:
        """Wait until a process ends, and replace it unless all shall stop."""
        child, status = os.wait()
        if child not in self._children:  # as process 1 of a container, we inherit those that have lost their parent
            return
        number, since = self._children.pop(child)
        code, seconds = os.waitstatus_to_exitcode(status), time.monotonic() - since
        if not self._signals and code == _CANNOT_OPEN and not self._has_opened[number == _WRITER]:
            self._has_failed = True  # later, a database may not answer for a while: then the process is replaced
            self._stop()
        elif not self._signals:
            name = "The writer" if number == _WRITER else f"Worker {number}"
            log.warning("%s ended with status %d and is replaced.", name, code)
            time.sleep(0 if seconds > _SOON else _SOON)
            self._start(number)
        elif [other for other, _ in self._children.values()] == [_WRITER]:
            self._send(signal.SIGTERM, _WRITER)  # no worker needs it any more

    def _start(self, number: int, ready: int | None = None) -> None:
        """Fork a worker or the writer, unless all shall stop. The writer writes to `ready` when the index is open."""
        sys.stdout.flush()
        sys.stderr.flush()
        caught = stop_signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, caught)  # until we know the child, and the child handles them itself
        try:
            if not self._signals:
                child = os.fork()
                if not child:
                    self._run_child(number, ready, caught)
                self._children[child] = number, time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)

    def _run_child(self, number: int, ready: int | None, caught: list[signal.Signals]) -> NoReturn:
        """Be a worker or the writer."""
        status = 1
        try:
            os.close(self._alive[1])
            threading.Thread(target=_end_with_parent, args=(self._alive[0],), daemon=True).start()  # gets no signals
            for signal_number in caught:
                signal.signal(signal_number, signal.SIG_DFL)
            if number == _WRITER:
                self._listener.close()
                write(self._settings.index, lambda: self._on_open(number, ready))
            else:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)
                index = Index.open(location(self._settings))
                shared = self._listener, self._counters, self._queries
                work(self._settings, index, *shared, number, lambda: self._on_open(number))
            status = 0
        except SystemExit as error:
            status = int(error.code or 0)
        except ClickvecError as error:
            log.error("%s", error)
            status = _CANNOT_OPEN
        except BaseException:
            log.error("Process %d failed: %s", number, traceback.format_exc())
        finally:
            os._exit(status)

    def _on_open(self, number: int, ready: int | None = None) -> None:
        """Tell the supervisor that this process has opened the index."""
        self._has_opened[number == _WRITER] = 1
        if ready is not None:
            os.write(ready, b".")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        """Let the workers finish; at the second call, kill all."""
        self._signals += 1
        self._listener.close()  # as the workers do, so that new connections are refused rather than left waiting
        numbers = {number for number, _ in self._children.values()}
        for number in numbers - ({_WRITER} if self._signals == 1 and len(numbers) > 1 else set()):
            self._send(signal.SIGTERM if self._signals == 1 else signal.SIGKILL, number)

    def _send(self, signal_number: int, number: int) -> None:
        for child, (other, _) in self._children.items():
            if other == number:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal_number)


def _end_with_parent(alive: int) -> None:
    """Stop this process when the supervisor has ended in any way, which closes its end of the pipe."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def write(path: Path, opened: Callable[[], None]) -> None:
    """Be the writer of an index until SIGTERM comes. Ctrl-C in a terminal reaches all processes; the parent decides."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
    while (lock := take_lock(path)) is None:  # a worker writes while there is no writer
        if signal.sigtimedwait([signal.SIGTERM], _RETRY) is not None:
            return
    lock.close()
    with Index(LiveFolder(path, writing=True, searching=False)):
        opened()
        signal.sigwait([signal.SIGTERM])
