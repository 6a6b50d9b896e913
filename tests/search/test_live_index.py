"""A live index: it finds what a new index of the same documents finds, whatever was changed, when and by whom."""

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child import run_script
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import TEXTS, tiny_model

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.fusion import Fusion
from clickvec.search.index import Change, Document, Index
from clickvec.search.live import live_folder, live_index
from clickvec.search.live.compaction import start_child
from clickvec.search.live.index_folder import IndexFolder
from clickvec.search.live.live_folder import LiveFolder
from clickvec.search.live.new_segment import compact
from clickvec.search.parts import MODES

TITLES = [*TEXTS, "", "hotels in new york", "paint", "ЖЖЖ"]
QUERIES = ("hotels in shanghai", "new york", "жжж", "the", "")


@pytest.fixture
def path(encoder: Encoder, tmp_path: Path) -> Path:
    documents = (Document(number, title, {"n": number % 3}) for number, title in enumerate(TITLES))
    Index.create(tmp_path / "index", encoder, documents).close()
    return tmp_path / "index"


@pytest.fixture
def index(path: Path) -> Iterator[Index]:
    with Index.open(path) as opened:
        yield opened


def facts(index: Index, query: str, mode: str, **options: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401
    hits = index.search(query, 100, mode=mode, **options)
    return [(hit.id, hit.title, round(hit.score, 5), hit.payload) for hit in hits]


def check_like_new(index: Index, expected: dict[str, Document], is_compact: bool) -> None:
    """Compare an index with a new one of the same documents."""
    assert list(index) == list(expected.values())
    assert len(index) == len(expected)
    rows = list(expected.values())
    new = Index.build(
        index.encoder, titles=[one.title for one in rows], ids=list(expected), payloads=[one.payload for one in rows]
    )
    for query in QUERIES:
        assert facts(index, query, "vectors") == facts(new, query, "vectors")
        for mode in MODES:
            if is_compact:
                assert facts(index, query, mode) == facts(new, query, mode)
                assert facts(index, query, mode, where={"n": 1}) == facts(new, query, mode, where={"n": 1})
            assert {hit[:2] for hit in facts(index, query, mode)} == {hit[:2] for hit in facts(new, query, mode)}


changes = st.lists(
    st.tuples(st.just("add"), st.lists(st.tuples(st.integers(0, 9), st.sampled_from(TITLES)), max_size=5))
    | st.tuples(st.just("delete"), st.lists(st.integers(0, 9), max_size=4))
    | st.tuples(st.sampled_from(["compact", "reopen", "bulk"]), st.just([])),
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(changes=changes, is_on_disk=st.booleans())
def test_any_changes_give_what_a_new_index_gives(
    encoder: Encoder, changes: list[Any], is_on_disk: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("live") / "index"
    index = Index.create(path, encoder) if is_on_disk else Index.build(encoder, [])
    expected: dict[str, Document] = {}
    is_compact = True
    for number, (change, values) in enumerate(changes):
        if change == "add":
            rows = {str(doc_id): Document(str(doc_id), title, {"n": number % 3}) for doc_id, title in values}
            assert index.add(rows.values()) == len(rows)
            is_compact = is_compact and not expected.keys() & rows.keys()
            expected = {key: row for key, row in expected.items() if key not in rows} | rows
        elif change == "delete":
            gone = {str(doc_id) for doc_id in values} & expected.keys()
            assert index.delete([*map(str, values), "never there"]) == len(gone)
            is_compact = is_compact and not gone
            expected = {key: row for key, row in expected.items() if key not in gone}
        elif change == "bulk":
            rows = {f"b{at}": Document(f"b{at}", f"hotel {at}", None) for at in range(12)}
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(live_index, "BULK", 10)
                index.add(ids=list(rows), titles=[row.title for row in rows.values()])
            expected = {key: row for key, row in expected.items() if key not in rows} | rows
            is_compact = True
        elif change == "compact":
            index.compact()
            is_compact = True
        elif is_on_disk:
            index.close()
            index = Index.open(path)
        check_like_new(index, expected, is_compact)
    index.close()


# --- searching ---------------------------------------------------------------------------------------------------


def test_offset_and_min_score_cut_the_same_ranking(index: Index) -> None:
    for mode in MODES:
        every = index.search("hotels in new york", 100, mode=mode)
        assert len(every) > 2
        for offset in (0, 1, len(every) - 1, len(every), 1000):
            assert index.search("hotels in new york", 2, mode=mode, offset=offset) == every[offset : offset + 2]
        least = every[1].score
        kept = [hit for hit in every if hit.score >= least]
        assert index.search("hotels in new york", 100, mode=mode, min_score=least) == kept
        assert index.search("hotels in new york", 100, mode=mode, offset=1, min_score=least) == kept[1:]
        assert index.search("hotels in new york", 5, mode=mode, min_score=1e9) == []


def test_the_parts_of_a_hit_are_the_scores_of_the_other_modes(index: Index) -> None:
    for query in ("hotels in new york", "shanghai paint жжж"):
        cosine = {hit.id: hit.score for hit in index.search(query, 100, mode="vectors")}
        bm25 = {hit.id: hit.score for hit in index.search(query, 100, mode="words")}
        hits = index.search(query, 100)
        assert {hit.id for hit in hits} == cosine.keys() | bm25.keys()
        for mode in MODES:
            for hit in index.search(query, 100, mode=mode):
                assert hit.parts["cosine"] == pytest.approx(cosine.get(hit.id, 0), abs=1e-6)
                assert hit.parts["bm25"] == pytest.approx(bm25.get(hit.id, 0), abs=1e-5)
        proposed = index.candidates(query)
        assert [one.id for one in proposed.documents] == [hit.id for hit in hits]
        assert proposed.scores.tolist() == [hit.score for hit in hits]
        sums = [sum(index.fusion.terms_of(proposed.candidates, row).values()) for row in proposed.rows.tolist()]
        np.testing.assert_allclose(sums, proposed.scores, atol=1e-5)


def test_filters_and_facets(index: Index) -> None:
    for mode in MODES:
        every = index.search("hotels in new york", 100, mode=mode)
        found = index.search("hotels in new york", 100, {"n": [1, 2]}, mode)
        assert [hit.id for hit in found] == [hit.id for hit in every if hit.payload["n"] != 0]
    counts = dict(index.facets("hotels in new york", ["n"])["n"].counts)
    ids = [hit.payload["n"] for hit in index.search("hotels in new york", 100)]
    assert counts == {value: ids.count(value) for value in set(ids)}
    assert dict(index.facets(None, ["n"])["n"].counts) == {0: 4, 1: 4, 2: 4}
    for mode in MODES:
        hits = index.search("hotels in new york", 100, mode=mode)
        for least in (None, hits[1].score):
            ids = [hit.payload["n"] for hit in hits if least is None or hit.score >= least]
            counted = index.facets("hotels in new york", ["n"], mode=mode, min_score=least)["n"].counts
            assert dict(counted) == {value: ids.count(value) for value in set(ids)}
    index.delete([0])
    index.add(ids=["new"], titles=["hotels"], payloads=[{"n": 7}])
    assert dict(index.facets(None, ["n"], {"n": {"lt": 2}})["n"].counts) == {0: 3, 1: 4}
    assert [hit.id for hit in index.search("hotels", where={"n": 7})] == ["new"]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"mode": "both"}, "mode is 'both'; it must be hybrid, words or vectors"), ({"offset": -1}, "offset is -1"),
     ({"where": {"n": {"above": 1}}}, "where")],
)  # fmt: skip
def test_search_refuses(index: Index, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ClickvecError, match=message):
        index.search("hotels", **options)


def test_changes_that_are_refused_change_nothing(index: Index) -> None:
    before = list(index)
    for ids, titles, payloads in (
        (["a", "a"], ["x", "y"], None),
        (["a"], ["x", "y"], None),
        (["a", 1.5], ["x", "y"], None),
        (["a", "b"], ["x", None], None),
        (["a", "b"], ["x", "y"], [None, {1, 2}]),
    ):
        with pytest.raises(ClickvecError):
            index.add(ids=ids, titles=titles, payloads=payloads)  # type: ignore[arg-type]
    with pytest.raises(ClickvecError, match="not the single str 'abc'"):
        index.delete("abc")
    assert list(index) == before
    assert index.add(ids=[], titles=[]) == index.delete([]) == 0


def test_an_update_changes_the_given_fields_alone(encoder: Encoder, path: Path) -> None:
    documents = [
        Document("a", "zebra", {"price": 9, "brand": "x", "note": None}),
        Document(7, "tea"),
        Document("c", "mug"),
    ]
    for index in (Index.build(encoder, documents), Index.create(path, encoder, documents, overwrite=True)):
        assert index.update([{"id": "a", "price": 9.5, "stock": 3}, {"sku": "7", "colour": "red"}]) == 2
        assert index.get("a") == Document("a", "zebra", {"price": 9.5, "brand": "x", "note": None, "stock": 3})
        assert index.get(7) == Document(7, "tea", {"colour": "red"})
        assert index.update([Change(7, "giraffe", {"colour": None})]) == 1
        assert index.get(7) == Document(7, "giraffe")
        assert [hit.id for hit in index.search("giraffe", mode="words")] == [7]
        assert index.search("tea", mode="words") == []
        assert [hit.id for hit in index.search("zebra", where={"price": 9.5})] == ["a"]
        assert index.get("c") == documents[2]
        assert index.update([]) == 0
        index.close()


def test_updates_that_are_refused_change_nothing(index: Index) -> None:
    index.add([Document("a", "zebra", {"n": 1}), Document("b", "tea", "a text")])
    before = list(index)
    for changes, told in (
        ([{"id": "a", "n": 2}, {"id": "nope", "n": 3}], "no document with the id 'nope', so nothing was changed"),
        ([{"id": "a", "n": 2}, {"id": "a", "m": 3}], "'a' is given to more than one title"),
        ([{"id": "a", "n": 2}, {"id": "b", "n": 2}], "the payload of the id 'b' is no object"),
        ([{"id": "a", "n": {1, 2}}], r"changes\[0\]: the field n holds a value of type set"),
        ([{"id": "a", "title": 7}], "the title 7"),
        ([{"id": "a", "title": None}], "removes the title"),
        ([{"id": "a", "title": " "}], "the new title of the id 'a' is blank; leave it out"),
        ([{"id": "a", "title": "x" * 10_001}], "has 10,001 characters, more than 10,000"),
        ([{"id": " ", "n": 1}], "the id ' ' of the title None is blank"),
        ([{"n": 2}], r"changes\[0\] has no id; its keys are n"),
        ([("a", 2, 3)], r"changes\[0\] has 3 values"),
        ({"id": "a"}, "not the single dict"),
    ):
        with pytest.raises(ClickvecError, match=told):
            index.update(changes)  # type: ignore[arg-type]
    assert list(index) == before


def test_documents_without_an_id_that_can_be_used_are_refused(index: Index) -> None:
    before = list(index)
    for documents in ([Document("", "zebra")], [{"id": " ", "title": "zebra"}]):
        with pytest.raises(ClickvecError, match="of the title 'zebra' is blank"):
            index.add(documents)
    with pytest.raises(ClickvecError, match="is blank"):
        index.add(ids=["c", ""], titles=["tea", "zebra"])
    with pytest.raises(ClickvecError, match="has 10,001 characters"):
        index.add([Document("c", "x" * 10_001)])
    assert list(index) == before


def test_updates_of_different_fields_at_the_same_time_are_all_kept(path: Path) -> None:
    with Index.open(path) as index:
        index.add([Document("a", "zebra", {"brand": "x"})])
        with ThreadPoolExecutor(8) as pool:
            done = pool.map(lambda at: index.update([{"id": "a", f"field {at}": at}]), range(40))
            assert sum(done) == 40
        other = python(OTHER, path)
        try:
            assert ask(other, "update", [{"id": "a", "of another process": 1}]) == 1
            with pytest.raises(json.JSONDecodeError):  # it has failed
                ask(other, "update", [{"id": "b", "n": 1}])
        finally:
            other.kill()
            other.communicate(timeout=60)
        fields = {"brand": "x", "of another process": 1} | {f"field {at}": at for at in range(40)}
        assert index.get("a") == Document("a", "zebra", fields)


# --- threads and processes ---------------------------------------------------------------------------------------


def test_readers_search_while_a_writer_changes_the_index(path: Path) -> None:
    """What was acknowledged before a search begins is found, and what was deleted is not."""
    with Index.open(path) as index:
        added, deleted, stop = [0], [0], threading.Event()

        def read(number: int) -> int:
            rounds = 0
            while not stop.is_set():
                newest, oldest = added[0], deleted[0]
                if newest > oldest + 1:
                    assert index.get(f"x{newest}") or deleted[0] >= newest
                    found = {hit.id for hit in index.search("zebra", 1000, mode="words")}
                    wanted = {f"x{at}" for at in range(deleted[0] + 2, newest + 1)}
                    assert wanted <= found
                    assert not {f"x{at}" for at in range(1, oldest + 1)} & found
                    index.search(TEXTS[number], 3)
                rounds += 1
            return rounds

        with ThreadPoolExecutor(3) as pool:
            readers = [pool.submit(read, number) for number in range(3)]
            try:
                for at in range(1, 40):
                    index.add(ids=[f"x{at}"], titles=[f"zebra {at}"])
                    added[0] = at
                    if at % 3 == 0:
                        assert index.delete([f"x{deleted[0] + 1}"]) == 1
                        deleted[0] += 1
                    if at == 20:
                        index.compact()
            finally:
                stop.set()
            assert min(reader.result() for reader in readers) > 0


def python(code: str, *arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


OTHER = """
import json, sys
from clickvec.search.index import Index
index = Index.open(sys.argv[1])
for line in sys.stdin:
    name, *arguments = json.loads(line)
    if name == "search":
        print(json.dumps([hit.id for hit in index.search(*arguments)]), flush=True)
    else:
        print(json.dumps(getattr(index, name)(*arguments)), flush=True)
"""


def ask(process: "subprocess.Popen[str]", *message: object) -> Any:  # noqa: ANN401
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_two_processes_change_the_same_index(path: Path) -> None:
    with Index.open(path) as index:
        index.add(ids=["a"], titles=["zebra one"])
        other = python(OTHER, path)
        try:
            assert ask(other, "search", "zebra") == ["a"]
            added = [{"id": "b", "title": "zebra two", "n": 1}, {"id": 7, "title": "zebra three"}]
            assert ask(other, "add", added) == 2
            assert ask(other, "search", "zebra", 10, {"n": 1}) == ["b"]  # at once
            index.refresh()
            assert {hit.id for hit in index.search("zebra", 3)} == {"a", "b", 7}
            assert ask(other, "delete", ["a", "nothing"]) == 1
            index.refresh()
            assert "a" not in {hit.id for hit in index.search("zebra")}
            index.add(ids=["late"], titles=["giraffe"])
            started = time.monotonic()
            while ask(other, "search", "giraffe", 1) != ["late"]:
                assert time.monotonic() - started < 1
            index.close()
            assert ask(other, "add", [{"id": "c", "title": "zebra four"}]) == 1
            other.send_signal(signal.SIGKILL)
            other.wait(60)
            with Index.open(path) as again:
                assert {hit.id for hit in again.search("zebra", 3)} == {"b", 7, "c"}
                again.add(ids=["d"], titles=["zebra five"])
        finally:
            other.kill()
            other.communicate(timeout=60)


def test_changes_that_wait_at_the_same_time_share_a_transaction(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, commit = list[int](), live_folder._commit

    def counted(store: DocumentStore, writes: list[live_folder.Write]) -> list[int | Exception]:
        sizes.append(len(writes))
        return commit(store, writes)

    monkeypatch.setattr(live_folder, "_commit", counted)
    with Index.open(path) as index, ThreadPoolExecutor(8) as pool:
        folder = index._live
        assert isinstance(folder, LiveFolder)
        with folder._committing:  # so that changes gather
            added = [pool.submit(index.add, ids=[f"x{at}"], titles=["zebra"]) for at in range(6)]
            refused = pool.submit(index.add, ids=["bad", "bad"], titles=["zebra", "zebra"])
            missing = pool.submit(index.update, [{"id": "nope", "n": 1}])
            while len(folder._waiting) < 8:
                time.sleep(0.001)
        assert [one.result(60) for one in added] == [1] * 6
        for one, told in ((refused, "more than one title"), (missing, "no document with the id 'nope'")):
            with pytest.raises(ClickvecError, match=told):
                one.result(60)
        assert sizes == [8]
        assert {hit.id for hit in index.search("zebra", 10, mode="words")} == {f"x{at}" for at in range(6)}


def test_changes_reach_the_index_that_has_replaced_another_one(path: Path, encoder: Encoder) -> None:
    with Index.open(path) as index, Index.open(path) as other:
        index.add(ids=["old"], titles=["zebra"])
        Index.create(path, encoder, [Document("new", "zebra")], overwrite=True).close()
        index.add(ids=["a"], titles=["zebra one"])
        Index.create(path, encoder, [Document("newer", "zebra")], overwrite=True).close()
        other.compact()
        assert index.delete(["newer", "old"]) == 1
        index.add(ids=["b"], titles=["zebra two"])
        other.refresh()
        for each in (index, other):
            assert [document.id for document in each] == ["b"]
            assert [hit.id for hit in each.search("zebra", mode="words")] == ["b"]


def test_an_index_that_could_not_be_opened_again_is_tried_again(
    path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.open(path) as index:
        live = index._live
        assert isinstance(live, LiveFolder)
        Index.create(path, encoder, [Document("new", "zebra")], overwrite=True).close()
        for name in ("open_segment", "open_encoder"):
            with monkeypatch.context() as patch:
                patch.setattr(IndexFolder, name, lambda *_: (_ for _ in ()).throw(ClickvecError("too many open files")))
                for _ in range(3):
                    with pytest.raises(ClickvecError, match="too many open files"):
                        index.refresh()
        assert len(live._stores) == 1
        assert len(live._view) == len(TITLES)
        index.add(ids=["a"], titles=["zebra one"])
        assert [document.id for document in index] == ["new", "a"]
        Index.create(path, encoder, [Document("newer", "zebra")], overwrite=True).close()
        with monkeypatch.context() as patch:
            patch.setattr(DocumentStore, "blocks", lambda *_, **__: 1 / 0)  # after the new one has been opened
            with pytest.raises(ZeroDivisionError):
                index.refresh()
        assert len(live._view) == 2
        index.refresh()
        assert [document.id for document in index] == ["newer"]


def test_an_index_opened_with_an_encoder_follows_another_model(path: Path, encoder: Encoder, tmp_path: Path) -> None:
    other = Encoder.load(tiny_model(tmp_path / "other", seed=1, cells=9))
    with Index.open(path, encoder, repair=True) as index:
        Index.create(path, other, [Document("new", "zebra")], overwrite=True).close()
        index.refresh()
        assert index.encoder.fingerprint == other.fingerprint
        Index.create(path, encoder, [Document("newer", "zebra")], overwrite=True).close()
        index.refresh()
        assert index.encoder is encoder
        index.use_model(other)
        for copied in (copy.copy(index), pickle.loads(pickle.dumps(index))):
            with copied:
                assert copied.encoder.fingerprint == other.fingerprint
                assert [document.id for document in copied] == ["newer"]
                assert copied._live._repairs
    with pytest.raises(ClickvecError, match="is an index of another model"):
        Index.open(path, encoder)


def test_an_index_does_not_follow_the_working_directory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with Index.open(path.name) as index:
        monkeypatch.chdir("/")
        index.add(ids=["a"], titles=["zebra"])
        index.compact()
        with copy.copy(index) as copied:
            assert [hit.id for hit in copied.search("zebra", mode="words")] == ["a"]


def test_a_change_that_was_committed_to_an_index_just_replaced_is_made_again(
    path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = live_folder._commit

    def replaced(store: DocumentStore, writes: list[live_folder.Write]) -> list[int | Exception]:
        results = commit(store, writes)
        monkeypatch.setattr(live_folder, "_commit", commit)
        Index.create(path, encoder, [Document("new", "tea")], overwrite=True).close()
        return results

    with Index.open(path) as index:
        monkeypatch.setattr(live_folder, "_commit", replaced)
        assert index.add(ids=["a"], titles=["zebra"]) == 1
        assert [document.id for document in index] == ["new", "a"]


@pytest.mark.parametrize("change", ["compact", "add"])
def test_a_segment_that_is_being_built_when_the_index_is_replaced_is_built_in_the_new_one(
    change: str, path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_index, "BULK", 2)
    write_segment = IndexFolder.write_segment

    def replaced(folder: IndexFolder, *arguments: Any) -> tuple[str, int]:  # noqa: ANN401
        monkeypatch.setattr(IndexFolder, "write_segment", write_segment)
        Index.create(path, encoder, [Document("new", "tea")], overwrite=True).close()
        return write_segment(folder, *arguments)

    with Index.open(path) as index:
        monkeypatch.setattr(IndexFolder, "write_segment", replaced)
        added = [Document(at, "zebra") for at in range(3)] if change == "add" else []
        index.add(added) if added else index.compact()
        assert list(index) == [Document("new", "tea"), *added]
        assert len(index.search("zebra", mode="words")) == len(added)


def test_a_bulk_replaces_and_is_refused_as_a_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_index, "BULK", 10)
    with Index.open(path) as index, Index.open(path) as other:
        added = [Document(at, f"zebra {at}", {"n": at}) for at in range(5, 25)]
        assert index.add(added) == 20
        before = list(index)
        assert before[5:] == added
        assert len(index.view().seqs_at(np.arange(index.view().size))) == 25  # replaced ones take no space
        for refused in ([*added, added[0]], [*added, Document("x", 7)]):  # type: ignore[arg-type]
            with pytest.raises(ClickvecError):
                other.add(refused)
        with pytest.raises(ClickvecError, match="no document with the id 'nope'"):
            other.update([*(Change(at, "tea") for at in range(11)), Change("nope", "tea")])
        assert list(index) == before
        assert other.update(Change(at, None, {"m": 1}) for at in range(11)) == 11
        index.refresh()
        assert list(index)[-1] == Document(10, "zebra 10", {"n": 10, "m": 1})
        assert len(list((path / "segments").iterdir())) == 1


def test_a_bulk_of_updates_keeps_other_fields_that_change_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_index, "BULK", 5)
    write_segment = IndexFolder.write_segment
    with Index.open(path) as index, Index.open(path) as other:

        def overtaken(*arguments: Any) -> tuple[str, int]:  # noqa: ANN401
            monkeypatch.setattr(IndexFolder, "write_segment", write_segment)
            other.update([Change(0, None, {"m": 1})])
            other.add(ids=["late"], titles=["zebra"])
            return write_segment(*arguments)

        monkeypatch.setattr(IndexFolder, "write_segment", overtaken)
        index.update(Change(at, None, {"n": 7}) for at in range(6))
        assert index.get(0) == Document(0, TITLES[0], {"n": 7, "m": 1})
        assert index.get("late") is not None
        assert len(index) == len(TITLES) + 1


def test_changes_of_an_index_that_was_deleted_are_refused(path: Path, tmp_path: Path) -> None:
    with Index.open(path) as index:
        index.add(ids=["a"], titles=["zebra"])
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(ClickvecError, match=r"documents\.sqlite"):
            index.add(ids=["b"], titles=["zebra"])
        (tmp_path / "elsewhere").rename(path)
        index.add(ids=["c"], titles=["zebra"])
    with Index.open(path) as index:
        assert {hit.id for hit in index.search("zebra", 2)} == {"a", "c"}


@pytest.mark.parametrize("name", ["segments", "models", *(f"documents.sqlite{end}" for end in ("", "-wal", "-shm"))])
@pytest.mark.parametrize("repair", [False, True])
def test_links_in_an_index_are_refused_and_nothing_behind_them_changes(
    path: Path, tmp_path: Path, name: str, repair: bool
) -> None:
    """The index of a stranger could lead to any folder, where old folders would be removed as left-overs."""
    target = tmp_path / "precious"
    if (path / name).is_dir():
        (path / name).rename(target)
        (target / "old").mkdir()
        os.utime(target / "old", (1, 1))
    else:
        target.write_text("precious")
        (path / name).unlink(missing_ok=True)
    (path / name).symlink_to("../precious")
    with pytest.raises(ClickvecError, match="is a link"):
        Index.open(path, repair=repair)
    assert (target / "old").is_dir() if target.is_dir() else target.read_text() == "precious"


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_pipes_in_an_index_are_refused(path: Path, ending: str) -> None:
    name = path / f"documents.sqlite{ending}"
    name.unlink(missing_ok=True)
    os.mkfifo(name)
    for repair in (False, True):
        with pytest.raises(ClickvecError, match="is not a regular file"):
            Index.open(path, repair=repair)


@pytest.mark.parametrize("name", ["..", "../..", "/", "a/b", ".hidden", None])
@pytest.mark.parametrize("kind", ["segment", "model"])
def test_an_index_cannot_name_a_folder_outside_of_it(path: Path, kind: str, name: str | None) -> None:
    with DocumentStore.open(path / "documents.sqlite", writing=True) as store:
        store.set_state(**{kind: name})
    for repair in (False, True):
        with pytest.raises(ClickvecError, match=f"the setting {kind} .* is not valid"):
            Index.open(path, repair=repair)


FORKED = """
    import os, sys, time
    from clickvec import Index
    with Index.open(sys.argv[1]) as index:
        child = os.fork()
        if child == 0:
            try:
                time.sleep(0.3)  # so that the search looks for changes
                assert len(index.search("hotels")) > 1
                index.add(ids=["child"], titles=["zebra of the child"])
                assert index.search("zebra", 1)[0].id == "child"
            except BaseException as error:
                os.write(2, f"{error!r}".encode())
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        index.refresh()
        assert index.search("zebra", 1)[0].id == "child"
        index.add(ids=["parent"], titles=["zebra of the parent"])
        assert len(index.search("zebra", mode="words")) == 2
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_changes_the_index_of_its_parent(path: Path) -> None:
    run_script(FORKED, path)


FORKED_BESIDE_A_WRITE = """
    import os, sys, threading, time
    from pathlib import Path
    from clickvec import Index
    from clickvec.search.index import Document
    from clickvec.search.documents.document_store import DocumentStore
    from clickvec.storage import database

    database.BUSY_SECONDS = 1.0
    path, writing = Path(sys.argv[1]), threading.Event()

    def slow():
        yield Document("parent", "zebra of the parent")
        writing.set()
        time.sleep(0.3)

    with Index.open(path) as index, DocumentStore.open(path / "documents.sqlite", writing=True) as store:
        thread = threading.Thread(target=lambda: store.add(slow()))
        thread.start()
        writing.wait()
        child = os.fork()
        if child == 0:
            try:
                index.add(ids=["child"], titles=["zebra of the child"])
                store.delete([0])
            except BaseException as error:
                os.write(2, f"{error!r}".encode())
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        thread.join()
        index.refresh()
        assert {hit.id for hit in index.search("zebra", mode="words")} == {"parent", "child"}
        assert index.get(0) is None
        database._FORK_SECONDS = 60.0  # a fork within a write does not wait for itself
        store.add(Document("own", str(os.waitpid(os.fork() or os._exit(0), 0)[1])) for _ in range(1))
        assert index.get("own").title == "0"
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_forked_while_a_thread_writes_can_write(path: Path) -> None:
    run_script(FORKED_BESIDE_A_WRITE, path)


# --- segments ----------------------------------------------------------------------------------------------------


def test_many_changes_start_a_compaction_in_a_child(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_index, "MOST_ADDED", 5)
    with Index.open(path) as index, Index.open(path) as reader:
        before = {entry.name for entry in (path / "segments").iterdir()}
        for number in range(6):
            index.add(ids=[f"x{number}"], titles=[f"zebra {number}"])
        folder = index._live
        assert isinstance(folder, LiveFolder)
        assert folder._compaction.thread
        index.add(ids=["during"], titles=["giraffe"])
        folder._compaction.thread.join(60)
        after = {entry.name for entry in (path / "segments").iterdir()}
        assert len(after) == 1
        assert after != before
        assert len(folder.view().segment) >= len(TITLES) + 6
        assert len(index) == len(TITLES) + 7
        reader.refresh()
        for each in (index, reader):
            assert {hit.id for hit in each.search("zebra", 6, mode="words")} == {f"x{number}" for number in range(6)}
            assert each.search("giraffe", 1)[0].id == "during"


def test_a_killed_compaction_leaves_nothing(path: Path) -> None:
    with Index.open(path) as index:
        expected = list(index), index.search("hotels")
    child = start_child(path)
    while child.poll() is None and len(list((path / "segments").iterdir())) < 2:
        time.sleep(0.001)
    child.kill()
    child.communicate(timeout=60)
    with Index.open(path) as index:
        assert (list(index), index.search("hotels")) == expected
    (path / "segments" / ".000009-0.0123456789abcdef.partial").mkdir()
    abandoned = path / "segments" / "000001-abandoned"
    abandoned.mkdir()
    os.utime(abandoned, (1, 1))
    with Index.open(path) as index:
        index.compact()
        assert (list(index), index.search("hotels")) == expected
        names = [entry.name for entry in (path / "segments").iterdir()]
        assert not [name for name in names if name.startswith(".") or "abandoned" in name]


def test_a_compaction_imports_nothing_from_the_current_directory(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('code of a stranger')")
    (tmp_path / "clickvec.py").write_text("raise SystemExit('code of a stranger')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    child = start_child(path)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors


def test_a_segment_that_others_overtake_again_and_again_is_not_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_segment, is_nested = IndexFolder.write_segment, list[int]()
    with Index.open(path) as index, Index.open(path) as other:

        def overtaken(*arguments: Any) -> tuple[str, int]:  # noqa: ANN401
            if not is_nested:
                is_nested.append(1)
                compact(path, is_background=True)
                is_nested.clear()
            return write_segment(*arguments)

        monkeypatch.setattr(IndexFolder, "write_segment", overtaken)
        for change in (index.compact, lambda: index.use_model(index.encoder)):
            with pytest.raises(ClickvecError, match="has got another segment meanwhile, 5 times in a row"):
                change()
        assert len(list((path / "segments").iterdir())) == 1
        assert list(index) == list(other)


def test_those_who_build_a_segment_wait_for_each_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_segment, at_work = IndexFolder.write_segment, list[int]()

    def alone(*arguments: Any) -> tuple[str, int]:  # noqa: ANN401
        at_work.append(1)
        new = write_segment(*arguments)
        time.sleep(0.02)
        assert len(at_work) == 1
        at_work.pop()
        return new

    monkeypatch.setattr(live_index, "BULK", 2)
    monkeypatch.setattr(IndexFolder, "write_segment", alone)
    with Index.open(path) as index, Index.open(path) as other, ThreadPoolExecutor(4) as pool:
        changes = [each.compact for each in (index, other)]
        bulks = [
            pool.submit(each.add, [Document(f"{name}{at}", "zebra") for at in range(3)])
            for name, each in (("a", index), ("b", other))
        ]
        for done in [*bulks, *map(pool.submit, changes)]:
            done.result(60)
        index.refresh()
        assert len(index) == len(TITLES) + 6


def test_another_model_is_swapped_in(path: Path, tmp_path: Path) -> None:
    other = Encoder.load(tiny_model(tmp_path / "other", seed=1, cells=9))
    with Index.open(path) as one, Index.open(path) as reader:
        one.add(ids=["x"], titles=["zebra"])
        reader.use_fusion(Fusion.mixture("vectors", 0.25))
        one.use_model(other, Fusion.mixture("vectors", 0.5))
        reader.refresh()
        new = Index.build(other, TITLES)
        for each in (one, reader):
            assert each.encoder.fingerprint == other.fingerprint
            assert each.fusion == Fusion.mixture("vectors", 0.5)
            found = each.search("hotels in new york", 5, mode="vectors")
            assert [hit.title for hit in found] == [
                hit.title for hit in new.search("hotels in new york", 5, mode="vectors")
            ]
        assert [entry.name for entry in (path / "models").iterdir()] == [other.fingerprint]
        assert len(list((path / "segments").iterdir())) == 1
    with Index.open(path) as again:
        assert again.encoder.fingerprint == other.fingerprint
        assert len(again) == len(TITLES) + 1


def test_the_fusion_is_stored(path: Path) -> None:
    with Index.open(path) as index:
        default = index.search("hotels in new york")
        index.use_fusion(Fusion.mixture("vectors", 0.1), k1=0.9, b=0.4)
        changed = index.search("hotels in new york")
        assert changed != default
    with Index.open(path) as again:
        assert again.fusion == Fusion.mixture("vectors", 0.1)
        assert again.search("hotels in new york") == changed
        again.save(path.with_name("copy"))
    with Index.open(path.with_name("copy")) as copied:
        assert copied.search("hotels in new york") == changed


def test_a_refresh_that_fails_is_made_up_for(index: Index, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Index.open(path) as reader:
        assert index.search("zebra", mode="words") == []
        reader.add(ids=["new"], titles=["giraffe"])
        document = index.get("new")
        assert document is not None
        assert index.rank("giraffe", document, "words") == 1  # it is newer than the view
        reader.add(ids=["x", "y"], titles=["zebra", "zebra two"])
        with monkeypatch.context() as patch:
            patch.setattr(Encoder, "encode_document", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                index.refresh()
        index.refresh()
        assert {hit.id for hit in index.search("zebra", mode="words")} == {"x", "y"}
        assert len(index) == len(TITLES) + 3


def test_a_closed_index_says_so(path: Path) -> None:
    index = Index.open(path)
    index.close()
    index.close()
    asked: list[Callable[[], object]] = [
        lambda: index.get("x"),
        lambda: index.scores("hotels", ["hotel"]),
        lambda: index.corrections("hotls"),
        lambda: index.facets(None, ["n"]),
        lambda: len(index),
        index.view,
    ]
    for ask in asked:
        with pytest.raises(ClickvecError, match="is closed; open it again"):
            ask()
    assert "is closed" in repr(index)


def test_create_refuses(encoder: Encoder, path: Path, tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="already holds an index"):
        Index.create(path, encoder)
    with pytest.raises(ClickvecError, match="search is 'fast'; it must be auto, exact or approximate"):
        Index.create(tmp_path / "x", encoder, search="fast")
    with pytest.raises(ClickvecError, match="the id 'a' is given to more than one title"):
        Index.create(path, encoder, [Document("a", "x"), Document("a", "y")], overwrite=True)
    with Index.open(path) as index:
        assert len(index) == len(TITLES)
    assert not (tmp_path / "x").exists()


def test_scores_depend_on_the_living_documents_alone(encoder: Encoder, tmp_path: Path) -> None:
    """Not on the process, nor on what was replaced or deleted before."""
    titles = [f"{text} {number}" for number, text in enumerate((*TEXTS, *TEXTS))]
    with Index.create(
        tmp_path / "index", encoder, [Document(str(at), title) for at, title in enumerate(titles)]
    ) as index:
        for _ in range(20):
            index.add([Document("3", "how do you paint a philadelphia bathtub")])
            index.add([Document("gone", "hotels hotels hotels in shanghai philadelphia")])
        index.delete(["gone", "5"])
        with Index.open(tmp_path / "index") as later:
            anew = Index.create(tmp_path / "anew", encoder, list(index))
            for query in (*TEXTS, "philadlpha", "hotls"):
                expected = [tuple(hit) for hit in anew.search(query, 20)]
                assert [tuple(hit) for hit in index.search(query, 20)] == expected
                assert [tuple(hit) for hit in later.search(query, 20)] == expected
