"""Run a service: one worker in this process, or a supervisor with several workers and one writer process.

The supervisor only forks, waits and forwards signals; it opens no index and starts no thread, so forking is safe. The
workers accept connections from the same socket and map the same index. The writer process holds the lock of the index,
and workers hand changes to it. A worker or writer that dies is replaced. SIGTERM and SIGINT finish running requests,
then stop; a second signal stops at once.
"""

import contextlib
import ipaddress
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from clickvec.errors import ClickvecError
from clickvec.serve.access_log import AccessLog
from clickvec.serve.application import NAMES, Application
from clickvec.serve.connections import protocol
from clickvec.serve.counters import Counters
from clickvec.serve.limits import Settings
from clickvec.serve.service import Service

log = logging.getLogger(__name__)
_BACKLOG = 2048
_SOON = 1.0  # seconds: a worker that dies earlier is replaced after a pause


class _Server(uvicorn.Server):
    """uvicorn with our signals: the first one finishes running requests, the second one stops at once."""

    service: Service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        def stop(number: int, frame: FrameType | None) -> None:
            if self.should_exit:
                os._exit(128 + number)
            self.should_exit = self.service.is_stopping = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 takes any free port."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        raise ClickvecError(f"cannot listen at {host}:{port}: {error.strerror}; choose another --port") from None
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def run(settings: Settings, started: Callable[[str], None]) -> None:
    """Run a service until a signal stops it. `started` gets the address as soon as requests are accepted."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a connection needs a descriptor
    listener = listen(settings.host, settings.port)
    host, port = listener.getsockname()[:2]
    counters = Counters(NAMES, settings.workers)
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if settings.workers == 1:
        work(settings, listener, counters, 0, lambda: started(address))
    else:
        Supervisor(settings, listener, counters).run(lambda: started(address))


def work(
    settings: Settings, listener: socket.socket, counters: Counters, worker: int, started: Callable[[], None]
) -> None:
    """Answer requests until a signal comes."""
    from clickvec.search.index import Index

    index = Index.open(settings.index)
    service = Service(index, settings, counters, worker)
    access_log = AccessLog(settings.access_log)
    config = uvicorn.Config(
        Application(service, access_log), http=protocol(settings.limits), ws="none", lifespan="off", log_config=None,
        access_log=False, server_header=False, backlog=_BACKLOG,
        timeout_keep_alive=settings.limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=settings.stop_seconds,  # type: ignore[arg-type]
    )  # fmt: skip
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = _Server(config)
    server.service = service
    started()
    try:
        server.run([listener])
    finally:
        access_log.flush()
        service.close()


class Supervisor:
    """The parent of the workers and of the writer."""

    def __init__(self, settings: Settings, listener: socket.socket, counters: Counters) -> None:
        self._settings, self._listener, self._counters = settings, listener, counters
        self._children: dict[int, tuple[int, float]] = {}  # process id: number of the worker, -1 for the writer; start
        self._is_stopping = False

    def run(self, started: Callable[[], None]) -> None:
        """Start the workers and replace those that die, until a signal comes and all have stopped."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        for worker in range(self._settings.workers):
            self._start(worker)
        started()
        while self._children:
            try:
                child, status = os.wait()
            except InterruptedError:
                continue
            worker, since = self._children.pop(child)
            if not self._is_stopping:
                code = os.waitstatus_to_exitcode(status)
                log.warning("Worker %d ended with status %d and is replaced.", worker, code)
                if time.monotonic() - since < _SOON:
                    time.sleep(_SOON)
                self._start(worker)

    def _start(self, worker: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child:
            self._children[child] = worker, time.monotonic()
            return
        status = 1
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            work(self._settings, self._listener, self._counters, worker, lambda: None)
            status = 0
        except ClickvecError as error:
            log.error("%s", error)
        except BaseException:
            log.exception("Worker %d failed.", worker)
        finally:
            os._exit(status)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Forward a signal to all children."""
        self._is_stopping = True
        for child in list(self._children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
