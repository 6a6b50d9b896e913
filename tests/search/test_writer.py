"""One writer per index: the lock, and changes that other processes send to the writer."""

import contextlib
import multiprocessing
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from clickvec.errors import ClickvecError
from clickvec.search.documents.document import Document
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.live import writer
from clickvec.search.live.writer import ChangeServer, NoWriterError, send_changes, serve_changes, take_lock


def apply_to(store: DocumentStore, message: dict[str, Any]) -> int:
    if "add" in message:
        return store.add([Document(*values) for values in message["add"]])
    return store.delete(message["delete"])


@contextlib.contextmanager
def serving(folder: Path, **more: Any) -> Iterator[tuple[DocumentStore, ChangeServer]]:  # noqa: ANN401
    lock = take_lock(folder)
    assert lock is not None
    path = folder / "documents.sqlite"
    store = DocumentStore.open(path, writing=True) if path.exists() else DocumentStore.create(path)
    server = serve_changes(folder, lambda message: apply_to(store, message), store.transaction, **more)
    try:
        yield store, server
    finally:
        server.close()
        store.close()
        lock.close()


# A program that writes to an index until it is killed, and prints a line when it is ready.
WRITER = """
    import sys, time
    from pathlib import Path
    sys.path.insert(0, sys.argv[2])
    from test_writer import serving
    with serving(Path(sys.argv[1])):
        print("ready", flush=True)
        time.sleep(60)
"""


@contextlib.contextmanager
def writer_process(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(folder), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()


def test_only_one_lock_at_a_time(tmp_path: Path) -> None:
    lock = take_lock(tmp_path)
    assert lock is not None
    assert take_lock(tmp_path) is None  # not even in the same process
    assert writer.lock_holder(tmp_path) == f"process {os.getpid()}"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(is_locked, (tmp_path,))
        lock.close()
        assert not pool.apply(is_locked, (tmp_path,))


def is_locked(folder: Path) -> bool:
    lock = take_lock(folder)
    if lock is not None:
        lock.close()
    return lock is None


FORKED = """
    import os, sys
    from pathlib import Path
    from clickvec.search.live.writer import take_lock

    def is_locked(folder):
        lock = take_lock(folder)
        if lock is not None:
            lock.close()
        return lock is None

    folder = Path(sys.argv[1])
    lock = take_lock(folder)
    assert lock is not None
    to_parent, to_child = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # waits until the parent ends
        os.close(to_child[1])
        lock.close()
        os.write(to_parent[1], b"x")
        os.read(to_child[0], 1)
        os._exit(0)
    os.read(to_parent[0], 1)
    assert is_locked(folder)
    os.close(lock._handle)  # as the end of the process does
    lock._handle = None
    assert not is_locked(folder)
"""


def test_a_forked_child_neither_keeps_nor_releases_the_lock(tmp_path: Path) -> None:
    from child import run_script  # WRITER imports this module without the folder of `child`

    run_script(FORKED, tmp_path)


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=r"cannot lock .*nowhere/lock: No such file"):
        take_lock(tmp_path / "nowhere")


def test_changes_are_sent_to_the_writer(tmp_path: Path) -> None:
    with serving(tmp_path) as (store, server):
        assert send_changes(tmp_path, {"add": [["a", "x", None], [7, "\ud800\0", {"n": 2**70}]]}) == 2
        assert list(store) == [Document("a", "x"), Document(7, "\ud800\0", {"n": 2**70})]
        assert send_changes(tmp_path, {"delete": ["7", "b"]}) == 1
        assert server.submit({"delete": ["a"]}) == 1
        assert len(store) == 0
        assert stat.S_IMODE((tmp_path / "writer.sock").stat().st_mode) == 0o600
    assert not (tmp_path / "writer.sock").exists()


def test_an_error_comes_back_to_the_sender_and_undoes_only_its_change(tmp_path: Path) -> None:
    with serving(tmp_path) as (store, _):
        with pytest.raises(ClickvecError, match="the id 'a' is given to more than one title"):
            send_changes(tmp_path, {"add": [["b", "", None], ["a", "x", None], ["a", "y", None]]})
        assert (len(store), store.last()) == (0, (0, 0))
        send_changes(tmp_path, {"add": [["a", "x", None]]})
        assert len(store) == 1


def test_a_fault_of_the_writer_is_told_and_the_next_change_works(tmp_path: Path) -> None:
    with serving(tmp_path) as (store, _):
        with pytest.raises(ClickvecError, match=r"the writer of .* failed: KeyError\('delete'\)"):
            send_changes(tmp_path, {"nothing": 1})
        assert send_changes(tmp_path, {"add": [["a", "x", None]]}) == 1
        assert len(store) == 1


def test_a_malformed_change_does_not_undo_those_that_are_committed_with_it(tmp_path: Path) -> None:
    with serving(tmp_path) as (store, server):
        results = server._commit([{"add": [["a", "x", None]]}, {"add": 5}, {"add": [["b", "y", None]]}])
        assert results[0] == results[2] == 1
        assert isinstance(results[1], TypeError)
        assert [document.id for document in store] == ["a", "b"]


def test_without_a_writer(tmp_path: Path) -> None:
    with pytest.raises(NoWriterError):
        send_changes(tmp_path, {"delete": []})


def test_a_writer_that_does_not_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "START_SECONDS", 0.1)
    with take_lock(tmp_path) or pytest.fail("locked"), pytest.raises(ClickvecError, match=f"process {os.getpid()} is"):
        send_changes(tmp_path, {"delete": []})


def test_a_sender_waits_for_a_writer_that_is_starting(tmp_path: Path) -> None:
    lock = take_lock(tmp_path)
    assert lock is not None
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send_changes, tmp_path, {"add": [["a", "x", None]]})
        time.sleep(0.1)
        lock.close()
        try:
            with serving(tmp_path) as (store, _):
                assert sent.result(10) == 1
                assert len(store) == 1
        except NoWriterError:  # it asked in the moment without a lock
            pass


def test_many_senders_share_commits(tmp_path: Path) -> None:
    commits = []
    with serving(tmp_path, committed=lambda: commits.append(1)) as (store, _), ThreadPoolExecutor(8) as pool:
        with store.transaction():  # the writer waits, so that changes gather
            sent = [pool.submit(send_changes, tmp_path, {"add": [[n, f"title {n}", None]]}) for n in range(8)]
            deadline = time.monotonic() + 10
            while threading.active_count() < 18 and time.monotonic() < deadline:
                time.sleep(0.01)
        assert [one.result() for one in sent] == [1] * 8
        assert sorted(document.id for document in store) == list(range(8))
        assert len(commits) <= 8


def test_a_long_path(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120) / "上海"
    folder.mkdir(parents=True)
    with serving(folder) as (store, _):
        send_changes(folder, {"add": [["a", "x", None]]})
        assert len(store) == 1


def test_two_processes(tmp_path: Path) -> None:
    with writer_process(tmp_path):
        assert send_changes(tmp_path, {"add": [["a", "x", None]]}) == 1
        with DocumentStore.open(tmp_path / "documents.sqlite") as store:
            before = store.version()
            assert list(store) == [Document("a", "x")]
            assert send_changes(tmp_path, {"add": [["a", "y", None]]}) == 1
            assert store.version() != before
            assert list(store) == [Document("a", "y")]


def test_the_socket_of_a_killed_writer_does_not_matter(tmp_path: Path) -> None:
    with writer_process(tmp_path) as process:
        send_changes(tmp_path, {"add": [["a", "x", None]]})
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        assert (tmp_path / "writer.sock").exists()
        with pytest.raises(NoWriterError):
            send_changes(tmp_path, {"delete": ["a"]})
        with serving(tmp_path) as (store, _):
            assert list(store) == [Document("a", "x")]
            assert send_changes(tmp_path, {"delete": ["a"]}) == 1


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (struct.pack("!Q", 2**63), "more than 64,000,000"),
        (struct.pack("!Q", 3) + b"abc", "malformed"),
        (struct.pack("!Q", 2) + b"[]", "not a JSON object"),
        (struct.pack("!Q", 200_000) + b"[" * 200_000, "nested too deeply"),
    ],
)
def test_malformed_messages_are_refused(tmp_path: Path, data: bytes, told: str) -> None:
    with serving(tmp_path), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(tmp_path / "writer.sock"))
        connection.sendall(data)
        (length,) = struct.unpack("!Q", connection.recv(8))
        assert told in connection.recv(length).decode()
        assert connection.recv(1) == b""


def test_a_connection_that_ends_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as (store, _):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(tmp_path / "writer.sock"))
            connection.sendall(struct.pack("!Q", 100) + b'{"add": [["a"')
        assert send_changes(tmp_path, {"add": [["b", "y", None]]}) == 1
        assert list(store) == [Document("b", "y")]


def test_a_change_that_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="more than 64,000,000 at once; send fewer documents"):
        send_changes(tmp_path, {"add": [["a", "x" * 70_000_000, None]]})


def test_without_locks_and_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: one process can write."""
    monkeypatch.setattr(writer, "fcntl", None)
    monkeypatch.delattr(socket, "AF_UNIX")
    with serving(tmp_path) as (store, server):
        assert server.submit({"add": [["a", "x", None]]}) == 1
        assert len(store) == 1
    with pytest.raises(NoWriterError):
        send_changes(tmp_path, {"delete": ["a"]})
