"""What a live index promises when changes, new segments and the end of a process meet."""

import subprocess
import sys
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
from clickvec.search.live.view import Settings
from clickvec.search.segments.segment import Segment
from clickvec.storage import lock

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


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: those who build a segment do not wait for each other."""
    monkeypatch.setattr(lock, "fcntl", None)


@pytest.mark.usefixtures("without_locks")
@pytest.mark.parametrize("is_first", ["swap", "bulk"])
def test_a_bulk_beside_a_swap_of_the_model_has_vectors_of_the_new_model(
    is_first: str, path: Path, other_model: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both build a segment of the same documents. The one that comes later builds it again."""
    monkeypatch.setattr(live_index, "BULK", 10)
    added = [Document(f"bulk {at}", f"hotel in new york {at}") for at in range(11)]
    with Index.open(path) as index, Index.open(path) as other:
        changes = {"swap": lambda: index.use_model(other_model), "bulk": lambda: other.add(added)}
        write_segment, built = IndexFolder.write_segment, list[str]()

        def overtaken(folder: IndexFolder, *arguments: Any) -> tuple[str, int]:  # noqa: ANN401
            new = write_segment(folder, *arguments)
            built.append(new[0])
            if len(built) == 1:
                changes[is_first]()
            return new

        monkeypatch.setattr(IndexFolder, "write_segment", overtaken)
        changes["bulk" if is_first == "swap" else "swap"]()
        assert len(built) == 3
        anew = Index.build(other_model, list(index))
        index.refresh()
        assert index.encoder.fingerprint == other_model.fingerprint
        assert len(index) == len(TEXTS) + len(added)
        for query in TEXTS:
            scores = {hit.id: pytest.approx(hit.score, abs=1e-6) for hit in anew.search(query, 100, mode="vectors")}
            assert {hit.id: hit.score for hit in index.search(query, 100, mode="vectors")} == scores
        assert [entry.name for entry in (path / "segments").iterdir()] == [built[-1]]


def test_close_is_final(path: Path) -> None:
    index = Index.open(path)
    index.close()
    try:
        for change in (
            lambda: index.add(ids=["late"], titles=["zebra"]),
            lambda: index.delete(["0"]),
            lambda: index.compact(),
        ):
            with pytest.raises(ClickvecError, match="closed"):
                change()
        with Index.open(path) as again:
            assert [document.id for document in again] == [str(at) for at in range(len(TEXTS))]
    finally:
        index.close()


@pytest.mark.parametrize("kind", ["add", "update"])
def test_a_change_is_made_as_a_whole_or_not_at_all(path: Path, kind: str) -> None:
    ids = [f"new {at}" for at in range(10_001)]
    with Index.open(path) as one, Index.open(path) as other:  # as in two processes
        if kind == "update":
            one.add(ids=ids[:-1], titles=["zebra"] * 10_000)
        before = list(one)
        changes = {
            "add": lambda: other.add(ids=ids, titles=[*["zebra"] * 10_000, 7]),  # type: ignore[list-item]
            "update": lambda: other.update(Change(doc_id, "giraffe") for doc_id in ids),
        }
        with pytest.raises(ClickvecError):
            changes[kind]()
        assert list(one) == before


def test_closing_ends_a_compaction_that_is_just_starting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    children, start_child = list["subprocess.Popen[bytes]"](), compaction.start_child
    index = Index.open(path)

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


def test_a_compaction_that_builds_nothing_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    command = [sys.executable, "-c", "print('a warning of a library')"]
    monkeypatch.setattr(
        compaction,
        "start_child",
        lambda *_: subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE),
    )
    monkeypatch.setattr(live_index, "MOST_ADDED", 5)
    with Index.open(path) as index:
        index.add(Document(f"new {at}", "zebra") for at in range(6))
        background = live(index)._compaction.thread
        assert background is not None
        background.join(SECONDS)
        assert not background.is_alive()
        assert index.search("zebra", 1, mode="words")[0].id == "new 0"
    assert "no new segment" in caplog.text
    assert "status 0" in caplog.text


@pytest.mark.usefixtures("without_locks")
def test_compacting_beside_a_swap_of_the_model_speaks_of_no_damage(
    path: Path, other_model: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, open_segment = list[Settings](), IndexFolder.open_segment
    with Index.open(path) as one, Index.open(path) as other:

        def swapped_meanwhile(folder: IndexFolder, settings: Settings, encoder: Encoder) -> Segment:
            opened.append(settings)
            if len(opened) == 1:
                one.use_model(other_model)
            return open_segment(folder, settings, encoder)

        monkeypatch.setattr(IndexFolder, "open_segment", swapped_meanwhile)
        other.compact()
        assert len(opened) > 2
        assert other.encoder.fingerprint == other_model.fingerprint
        assert list(other) == list(one)
