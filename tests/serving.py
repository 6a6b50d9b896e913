# ruff: noqa: ANN401
"""Run the service in tests: in a thread of this process, which is fast, or as a program."""

import contextlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from clickvec.search.index import Index
from clickvec.serve.access_log import AccessLog
from clickvec.serve.application import NAMES
from clickvec.serve.counters import Counters
from clickvec.serve.limits import Limits, Settings
from clickvec.serve.server import listen, make_server
from clickvec.serve.service import Service

PROGRAM = (sys.executable, "-m", "clickvec")


class Running:
    """A service in a thread, and a client for it."""

    def __init__(self, service: Service, server: uvicorn.Server, port: int, client: httpx.Client) -> None:
        self.service, self.server, self.port, self.client = service, server, port, client

    def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return self.client.post(path, json=body, **more)

    @contextlib.contextmanager
    def held_searches(self) -> Iterator[threading.Event]:
        """Let searches wait until the event is set."""
        release, search = threading.Event(), self.service.index.search

        def wait(*args: Any, **more: Any) -> Any:
            release.wait(20)
            return search(*args, **more)

        self.service.index.search = wait  # type: ignore[method-assign]
        try:
            yield release
        finally:
            release.set()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@contextlib.contextmanager
def running(index: Path, tmp_path: Path, limits: dict[str, Any] | None = None, **settings: Any) -> Iterator[Running]:
    """Serve an index from a thread of this process."""
    listener = listen("127.0.0.1", 0)
    values = {
        "index": index,
        "click_log": tmp_path / "clicks.jsonl",
        "access_log": tmp_path / "access.jsonl",
    } | settings
    service = Service(Index.open(index), Settings(**values, limits=Limits(**(limits or {}))), Counters(NAMES), 0)
    access_log = AccessLog(values["access_log"])
    server = make_server(service, access_log)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    port = listener.getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
            yield Running(service, server, port, client)
    finally:
        server.should_exit = True
        thread.join(20)
        access_log.flush()
        service.close()
        assert not thread.is_alive()


class Program:
    """`clickvec serve` as a program."""

    def __init__(self, index: Path, *options: object) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*PROGRAM, "serve", str(index), "--port", "0", *map(str, options)], stderr=subprocess.PIPE, text=True
        )
        self.port = 0
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        is_started = self._started.wait(30)
        if not is_started or not self.port:
            self.process.kill()
            self.process.wait(60)
            self._reader.join(5)
            raise AssertionError("".join(self.lines))
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30, trust_env=False)

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append(line)
            if found := re.search(r"at http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                self._started.set()
        self._started.set()

    def stop(self, number: int = signal.SIGTERM, timeout: float = 20) -> int:
        self.process.send_signal(number)
        return self.wait(timeout)

    def wait(self, timeout: float = 20) -> int:
        code = self.process.wait(timeout)
        self._reader.join(timeout)
        self.client.close()
        return code

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        if self.process.stderr:
            self.process.stderr.close()


def until(condition: Any, seconds: float = 10) -> None:
    """Wait until a condition holds."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.01)
