"""Run a service: one worker in this process, or a supervisor with several workers.

The supervisor only forks, waits and forwards signals; it opens no index and starts no thread, so forking is safe. The
workers accept connections from the same socket, and search and change the same index. A worker that dies is replaced.
After SIGTERM, SIGINT or SIGHUP, the workers finish running requests; a second signal stops them at once. If the
supervisor is killed, they stop too.
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
from clickvec.search.live.index_folder import DOCUMENTS
from clickvec.serve.application import NAMES
from clickvec.serve.counters import Counters
from clickvec.serve.limits import Settings, location
from clickvec.serve.query_counts import SharedCounts
from clickvec.serve.server import listen, stop_signals, work

log = logging.getLogger(__name__)
_CANNOT_OPEN = 3  # the status of a worker that cannot open the index
_SOON = 1.0  # seconds: a worker that dies earlier is replaced after a pause


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
            index = Index.open(location(settings), repair=not settings.read_only)
            work(settings, index, listener, counters, queries, 0, lambda: started(address))
        else:
            Supervisor(settings, listener, counters, queries).run(lambda: started(address))


def why_read_only(path: Path) -> str:
    """Return why a service cannot change an index, as a sentence, or ""."""
    is_writable = os.access(path, os.W_OK) and os.access(path / DOCUMENTS, os.W_OK)
    return "" if is_writable else f"This service only reads {path}: it may not write there."


class Supervisor:
    """The parent of the workers."""

    def __init__(self, settings: Settings, listener: socket.socket, counters: Counters, queries: SharedCounts) -> None:
        self._settings, self._listener, self._counters, self._queries = settings, listener, counters, queries
        self._children: dict[int, tuple[int, float]] = {}  # process id: number, and when it was started
        self._signals, self._has_failed = 0, False
        self._has_opened = mmap.mmap(-1, 1)  # shared with the children: whether one of them has opened it
        self._alive = os.pipe()  # nothing is written to it; it ends with this process

    def run(self, started: Callable[[], None]) -> None:
        """Start the workers and replace those that die, until a signal comes and all have stopped."""
        for caught in stop_signals():
            signal.signal(caught, self._on_signal)
        for worker in range(self._settings.workers):
            self._start(worker)
        if not self._signals:
            started()
        while self._children:
            self._wait()
        if self._has_failed:
            raise ClickvecError(f"{self._settings.index} cannot be served; the message above says why")

    def _wait(self) -> None:
        """Wait until a worker ends, and replace it unless all shall stop."""
        child, status = os.wait()
        if child not in self._children:  # as process 1 of a container, we inherit those that have lost their parent
            return
        number, since = self._children.pop(child)
        code, seconds = os.waitstatus_to_exitcode(status), time.monotonic() - since
        if not self._signals and code == _CANNOT_OPEN and not self._has_opened[0]:
            self._has_failed = True  # later, a database may not answer for a while: then the worker is replaced
            self._stop()
        elif not self._signals:
            log.warning("Worker %d ended with status %d and is replaced.", number, code)
            time.sleep(0 if seconds > _SOON else _SOON)
            self._start(number)

    def _start(self, number: int) -> None:
        """Fork a worker, unless all shall stop."""
        sys.stdout.flush()
        sys.stderr.flush()
        caught = stop_signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, caught)  # until we know the child, and the child handles them itself
        try:
            if not self._signals:
                child = os.fork()
                if not child:
                    self._run_child(number, caught)
                self._children[child] = number, time.monotonic()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)

    def _run_child(self, number: int, caught: list[signal.Signals]) -> NoReturn:
        """Be a worker."""
        status = 1
        try:
            os.close(self._alive[1])
            threading.Thread(target=_end_with_parent, args=(self._alive[0],), daemon=True).start()  # gets no signals
            for signal_number in caught:
                signal.signal(signal_number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)
            index = Index.open(location(self._settings), repair=not self._settings.read_only)
            shared = self._listener, self._counters, self._queries
            work(self._settings, index, *shared, number, self._on_open)
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

    def _on_open(self) -> None:
        """Tell the supervisor that a worker has opened the index."""
        self._has_opened[0] = 1

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        """Let the workers finish; at the second call, kill all."""
        self._signals += 1
        self._listener.close()  # as the workers do, so that new connections are refused rather than left waiting
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM if self._signals == 1 else signal.SIGKILL)


def _end_with_parent(alive: int) -> None:
    """Stop this process when the supervisor has ended in any way, which closes its end of the pipe."""
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)
