"""One worker of a service: an index, a listening socket, and the server that answers requests.

SIGTERM, SIGINT and SIGHUP finish running requests, then stop; a second signal stops at once.
"""

import contextlib
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

import uvicorn

from clickvec.errors import ClickvecError
from clickvec.search.index import Index
from clickvec.serve.access_log import AccessLog
from clickvec.serve.application import Application
from clickvec.serve.connections import protocol
from clickvec.serve.counters import Counters
from clickvec.serve.limits import Settings
from clickvec.serve.query_counts import SharedCounts
from clickvec.serve.service import Service

_BACKLOG = 2048
_OTHER_FILES = 128  # open files of a worker that are not connections


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a service. One that is ignored is none of them: `nohup` ignores SIGHUP."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]


class _Server(uvicorn.Server):
    """uvicorn with our signals: the first one finishes running requests, the second one stops at once."""

    service: Service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at signals while requests are answered. Only the main thread gets signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            if self.should_exit:
                os._exit(128 + number)
            self.should_exit = self.service.is_stopping = True

        before = {number: signal.signal(number, stop) for number in stop_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 takes any free port."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ClickvecError(f"cannot listen at {host}:{port}: {error.strerror}; choose another --port") from None
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


def work(
    settings: Settings, index: Index, listener: socket.socket, counters: Counters, queries: SharedCounts, worker: int,
    started: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Answer requests until a signal comes. `started` is called before the first one is accepted."""
    service = Service(index, settings, counters, worker, queries)
    access_log = AccessLog(settings.access_log)
    server = make_server(service, access_log)
    service.index.search("warm up")  # maps files and fills caches before the first request
    started()
    try:
        server.run([listener])
    finally:
        access_log.flush()
        service.close()


def make_server(service: Service, access_log: AccessLog) -> _Server:
    """Return the server of one worker. `run` starts it."""
    settings = service.settings
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    connections = min(settings.limits.connections, max(most // 2, most - _OTHER_FILES))
    limits = replace(settings.limits, connections=connections)
    config = uvicorn.Config(
        Application(service, access_log), http=protocol(limits), ws="none", lifespan="off", log_config=None,
        access_log=False, server_header=False, backlog=_BACKLOG,
        timeout_keep_alive=settings.limits.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=settings.stop_seconds,  # type: ignore[arg-type]
    )  # fmt: skip
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # the application logs its own errors
    server = _Server(config)
    server.service = service
    return server
