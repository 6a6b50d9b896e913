"""Run a service: one worker in this process, or a supervisor with several workers and one writer process.

The supervisor only forks, waits and forwards signals; it opens no index and starts no thread, so forking is safe. The
workers accept connections from the same socket and map the same index. The writer process holds the lock of the index,
and workers hand their changes to it. A process that dies is replaced. After SIGTERM or SIGINT, the workers finish
running requests, then the writer stops; a second signal stops all at once.
"""

import contextlib
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

from clickvec.errors import ClickvecError
from clickvec.search.index import Index
from clickvec.search.writer import lock_holder, take_lock
from clickvec.serve.application import NAMES
from clickvec.serve.counters import Counters
from clickvec.serve.limits import Settings
from clickvec.serve.server import listen, work

log = logging.getLogger(__name__)
_WRITER = -1  # the number of the writer process, in place of that of a worker
_SOON = 1.0  # seconds: a process that dies earlier is replaced after a pause
_RETRY = 0.2  # seconds between two attempts to become the writer


def run(settings: Settings, started: Callable[[str], None]) -> None:
    """Run a service until a signal stops it. `started` gets the address when requests are accepted."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a connection needs a descriptor
    if reason := why_read_only(settings.index):
        settings = replace(settings, read_only=reason)
        log.warning("%s", reason)
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    counters = Counters(NAMES, settings.workers)
    if settings.workers == 1:
        index = Index.open(settings.index, writing=not settings.read_only)
        work(settings, index, listener, counters, 0, lambda: started(address))
    else:
        Supervisor(settings, listener, counters).run(lambda: started(address))


def why_read_only(path: Path) -> str:
    """Return the sentence that tells why a service cannot change an index, or ""."""
    with Index.open(path) as index:  # a folder that does not open is an error now
        if index.is_read_only:
            return f"{path} has an old format, so this service only reads it; build it again to change it."
    try:
        lock = take_lock(path)
    except ClickvecError as error:
        return f"This service only reads {path}: {error}."
    if lock is None:
        return f"{lock_holder(path).capitalize()} writes {path}, so this service only reads it."
    lock.close()
    return ""


class Supervisor:
    """The parent of the workers and of the writer."""

    def __init__(self, settings: Settings, listener: socket.socket, counters: Counters) -> None:
        self._settings, self._listener, self._counters = settings, listener, counters
        self._children: dict[int, tuple[int, float]] = {}  # process id: number, and when it was started
        self._signals = 0

    def run(self, started: Callable[[], None]) -> None:
        """Start all processes and replace those that die, until a signal comes and all have stopped."""
        for caught in (signal.SIGINT, signal.SIGTERM):
            signal.signal(caught, self._on_signal)
        if not self._settings.read_only:
            self._start(_WRITER)
        for worker in range(self._settings.workers):
            self._start(worker)
        started()
        while self._children:
            child, status = os.wait()
            number, since = self._children.pop(child)
            if not self._signals:
                name = "The writer" if number == _WRITER else f"Worker {number}"
                log.warning("%s ended with status %d and is replaced.", name, os.waitstatus_to_exitcode(status))
                if time.monotonic() - since < _SOON:
                    time.sleep(_SOON)
                self._start(number)
            elif [number for number, _ in self._children.values()] == [_WRITER]:
                self._send(signal.SIGTERM, _WRITER)  # no worker needs it any more

    def _start(self, number: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            self._children[child] = number, time.monotonic()
            return
        status = 1
        try:
            for caught in (signal.SIGINT, signal.SIGTERM):
                signal.signal(caught, signal.SIG_DFL)
            if number == _WRITER:
                _write(self._settings)
            else:
                index = Index.open(self._settings.index)
                work(self._settings, index, self._listener, self._counters, number)
            status = 0
        except ClickvecError as error:
            log.error("%s", error)
        except BaseException:
            log.exception("Process %d failed.", number)
        finally:
            os._exit(status)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Let the workers finish; at the second signal, kill all."""
        self._signals += 1
        for worker in {number for number, _ in self._children.values()} - {_WRITER}:
            self._send(signal.SIGTERM if self._signals == 1 else signal.SIGKILL, worker)
        if self._signals > 1:
            self._send(signal.SIGKILL, _WRITER)

    def _send(self, signal_number: int, number: int) -> None:
        for child, (other, _) in self._children.items():
            if other == number:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal_number)


def _write(settings: Settings) -> None:
    """Be the writer until SIGTERM comes. Ctrl-C in a terminal reaches all processes; the supervisor decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    index = None
    while index is None:
        try:
            index = Index.open(settings.index, writing=True)
        except ClickvecError as error:  # a worker may write while there is no writer
            log.debug("%s", error)
            if signal.sigtimedwait([signal.SIGTERM], _RETRY) is not None:
                return
    signal.sigwait([signal.SIGTERM])
    index.close()
