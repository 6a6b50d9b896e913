"""What a live index promises and the present mechanism (search/live/) does not keep. It will be replaced.

Each test is expected to fail, strictly: when the mechanism keeps the promise, its mark must go.
"""

import contextlib
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tiny import TEXTS, tiny_model

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.index import Change, Document, Index
from clickvec.search.live import compaction, live_index
from clickvec.search.live.index_folder import IndexFolder
from clickvec.search.live.live_folder import LiveFolder

SECONDS = 60.0  # until a test gives up


@pytest.fixture
def path(encoder: Encoder, tmp_path: Path) -> Path:
    Index.create(tmp_path / "index", encoder, [Document(str(at), title) for at, title in enumerate(TEXTS)]).close()
    return tmp_path / "index"


@pytest.fixture
def other_model(tmp_path: Path) -> Encoder:
    return Encoder.load(tiny_model(tmp_path / "other", seed=1))


def live(index: Index) -> LiveFolder:
    assert isinstance(index._live, LiveFolder)
    return index._live


def wait_for(is_reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextlib.contextmanager
def commits_held(path: Path) -> Iterator[None]:
    """Let no commit begin, as another program that writes to the database does for a moment."""
    connection = sqlite3.connect(path / "documents.sqlite", isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@pytest.mark.xfail(
    strict=True, reason="the writer builds the new segment with the model of the view before both changes"
)
def test_a_bulk_beside_a_swap_of_the_model_has_vectors_of_the_new_model(
    path: Path, other_model: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both changes fall into one commit, because the writer is still busy with another one when they arrive."""
    monkeypatch.setattr(live_index, "BULK", 10)
    added = [Document(f"bulk {at}", f"hotel in new york {at}") for at in range(11)]
    with Index.open(path, writing=True) as index, ThreadPoolExecutor(3) as pool:
        server = live(index)._server
        assert server is not None
        with commits_held(path):
            results = [server._enqueue({"change": "delete", "ids": []})]
            wait_for(server._queue.empty)  # now the writer waits for its commit
            for number, change in enumerate((lambda: index.use_model(other_model), lambda: index.add(added)), 1):
                results.append(pool.submit(change))
                wait_for(lambda wanted=number: server._queue.qsize() == wanted)  # type: ignore[misc]
        for result in results:
            assert result is not None
            result.result(SECONDS)
        anew = Index.build(other_model, list(index))
        assert index.encoder.fingerprint == other_model.fingerprint
        assert len(index) == len(TEXTS) + len(added)
        for query in TEXTS:
            scores = {hit.id: pytest.approx(hit.score, abs=1e-6) for hit in anew.search(query, 100, mode="vectors")}
            assert {hit.id: hit.score for hit in index.search(query, 100, mode="vectors")} == scores


@pytest.mark.xfail(strict=True, reason="a change takes the lock again, starts threads and commits")
def test_close_is_final(path: Path) -> None:
    index = Index.open(path, writing=True)
    index.close()
    try:
        for change in (
            lambda: index.add(ids=["late"], titles=["zebra"]),
            lambda: index.delete(["0"]),
            lambda: index.compact(),
        ):
            with pytest.raises(ClickvecError, match="closed"):
                change()
        with Index.open(path, writing=True) as again:  # nobody holds the lock
            assert [document.id for document in again] == [str(at) for at in range(len(TEXTS))]
    finally:
        index.close()


@pytest.mark.xfail(strict=True, reason="another process sends its changes to the writer in parts of 10,000")
@pytest.mark.parametrize("kind", ["add", "update"])
def test_a_change_by_another_process_than_the_writer_is_made_as_a_whole_or_not_at_all(path: Path, kind: str) -> None:
    ids = [f"new {at}" for at in range(10_001)]
    with Index.open(path, writing=True) as writer, Index.open(path) as other:  # a second handle is like a process
        if kind == "update":
            writer.add(ids=ids[:-1], titles=["zebra"] * 10_000)
        before = list(writer)
        changes = {
            "add": lambda: other.add(ids=ids, titles=[*["zebra"] * 10_000, 7]),  # type: ignore[list-item]
            "update": lambda: other.update(Change(doc_id, "giraffe") for doc_id in ids),
        }
        with pytest.raises(ClickvecError):
            changes[kind]()
        assert not other.is_writer
        assert list(writer) == before


@pytest.mark.xfail(strict=True, reason="stop() ends only a child that is known already")
def test_closing_ends_a_compaction_that_is_just_starting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    children, start_child = list["subprocess.Popen[bytes]"](), compaction.start_child
    index = Index.open(path, writing=True)

    def closed_meanwhile(*arguments: Any) -> "subprocess.Popen[bytes]":  # noqa: ANN401
        index.close()
        children.append(start_child(*arguments))
        return children[0]

    monkeypatch.setattr(compaction, "start_child", closed_meanwhile)
    monkeypatch.setattr(live_index, "MOST_ADDED", 5)
    before = sorted(entry.name for entry in (path / "segments").iterdir())
    index.add(Document(f"new {at}", "zebra") for at in range(6))
    background = live(index)._compaction.thread
    assert background is not None
    background.join(SECONDS)
    assert not background.is_alive()
    assert all(child.returncode for child in children)
    assert sorted(entry.name for entry in (path / "segments").iterdir()) == before


@pytest.mark.xfail(strict=True, reason="only errors of clickvec and of the system are caught")
def test_a_compaction_that_prints_something_else_is_an_error_that_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A library may print to stdout."""
    faults = list[object]()
    monkeypatch.setattr(threading, "excepthook", faults.append)
    command = [sys.executable, "-c", "print('a warning of a library')"]
    monkeypatch.setattr(
        compaction,
        "start_child",
        lambda *_: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE),
    )
    monkeypatch.setattr(live_index, "MOST_ADDED", 5)
    with Index.open(path, writing=True) as index:
        index.add(Document(f"new {at}", "zebra") for at in range(6))
        background = live(index)._compaction.thread
        assert background is not None
        background.join(SECONDS)
        assert not background.is_alive()
        assert index.search("zebra", 1, mode="words")[0].id == "new 0"
    assert not faults
    assert "no new segment" in caplog.text


@pytest.mark.xfail(strict=True, reason="the swap removes the folders that the compaction is about to open")
def test_compacting_beside_a_swap_of_the_model_speaks_of_no_damage(
    path: Path, other_model: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, open_encoder = list[Encoder](), IndexFolder.open_encoder
    with Index.open(path, writing=True) as writer, Index.open(path) as other:

        def swapped_meanwhile(folder: IndexFolder, *arguments: Any) -> Encoder:  # noqa: ANN401
            encoder = open_encoder(folder, *arguments)
            opened.append(encoder)
            if len(opened) == 1:
                writer.use_model(other_model)
            return encoder

        monkeypatch.setattr(IndexFolder, "open_encoder", swapped_meanwhile)
        told = ""
        try:
            other.compact()
        except ClickvecError as error:
            told = str(error)
        assert not told or "another segment meanwhile" in told
        other.refresh()
        assert other.encoder.fingerprint == other_model.fingerprint
        assert list(other) == list(writer)
