"""The store of documents: what was added is returned as it was given, from any thread, and damage is refused."""

import contextlib
import os
import pickle
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child import run_script
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clickvec.errors import ClickvecError
from clickvec.search.documents import document_store
from clickvec.search.documents.document import Document
from clickvec.search.documents.document_store import DocumentStore
from clickvec.storage import database, write_ahead_log

ODD_DOCUMENTS = [
    Document("", ""),
    Document("\0", "a\0b", "\0"),
    Document("\ud800", "half of a pair: \udfff", {"\ud800": ["\udc00"]}),
    Document("上海", "上海 酒店 🏨", None),
    Document(2**63, "an integer of 64 bits", 2**64),
    Document(-1, "below zero", -(2**63)),
    Document("007", "not the same as 7", 0.1),
    Document(7, "x" * 1_000_000, [[], {}, "", False, None]),
    Document("y" * 10_000, "\r\n\t'; DROP TABLE documents; --", {"a": {"b": {"c": 1e300}}}),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "documents.sqlite"


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, path: Path) -> Iterator[DocumentStore]:
    with DocumentStore.create(path if request.param == "file" else None) as store:
        yield store


def titles(store: DocumentStore) -> dict[str | int, str]:
    return {document.id: document.title for document in store}


# --- what it stores --------------------------------------------------------------------------------------------------


def test_add_replace_delete(store: DocumentStore) -> None:
    assert store.add([Document("a", "x"), Document(7, "y", {"n": 1})]) == 2
    assert store.add([Document("7", "z")]) == 1
    assert (store.find(7), store.find("7"), store.find("a"), store.find("b")) == (3, 3, 1, None)
    assert store.get([1, 2, 3]) == {1: Document("a", "x"), 3: Document("7", "z")}
    assert list(store) == [Document("a", "x"), Document("7", "z")]
    assert store.delete(["a", "b", "a"]) == 1
    seqs, number = store.deletions(0)
    assert (seqs.tolist(), number) == ([2, 1], 2)
    assert store.deletions(1)[0].tolist() == [1]
    assert (len(store), store.last()) == (1, (3, 2))
    store.check()


def test_documents_come_back_as_they_were_given(store: DocumentStore) -> None:
    store.add(ODD_DOCUMENTS)
    assert list(store) == ODD_DOCUMENTS
    assert [type(document.id) for document in store] == [type(document.id) for document in ODD_DOCUMENTS]
    for seq, document in enumerate(ODD_DOCUMENTS, 1):
        assert store.find(document.id) == seq
        assert store.get([seq]) == {seq: document}
    store.add(ODD_DOCUMENTS)
    assert list(store) == ODD_DOCUMENTS
    assert store.delete(document.id for document in ODD_DOCUMENTS) == len(ODD_DOCUMENTS)
    assert list(store) == []


def test_numpy_integers_are_ids(store: DocumentStore) -> None:
    store.add([Document(np.int64(7), "x")])  # type: ignore[arg-type]
    assert [type(document.id) for document in store] == [int]
    assert store.delete([np.uint8(7)]) == 1  # type: ignore[list-item]


def test_a_seq_is_never_used_again(store: DocumentStore) -> None:
    store.add([Document("a", "x")])
    store.delete(["a"])
    store.add([Document("a", "y")])
    assert store.find("a") == 2


def test_state(store: DocumentStore, path: Path) -> None:
    assert store.state() == {}
    store.set_state(model="m", fusion={"weights": [1.5, "上海"]})
    store.set_state(model="n", segment=None)
    assert store.state() == {"model": "n", "fusion": {"weights": [1.5, "上海"]}, "segment": None}


def test_all_documents_are_those_of_one_moment(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_store, "_BLOCK", 2)
    store.add([Document(f"d{number}", "a title") for number in range(9)])
    reading = iter(store)
    seen = [next(reading)]
    store.add([Document("d1", "another title"), Document("d8", "another title"), Document("new", "a title")])
    store.delete(["d5"])
    seen += reading
    assert [(document.id, document.title) for document in seen] == [(f"d{number}", "a title") for number in range(9)]
    assert len(list(store)) == len(store) == 9


def test_blocks_between_two_seqs(store: DocumentStore) -> None:
    store.add(Document(n, "") for n in range(1, 11))
    store.delete([4, 5])
    blocks = [(seqs.tolist(), [document.id for document in documents]) for seqs, documents in store.blocks(1, 3, 9)]
    assert blocks == [([2, 3, 6],) * 2, ([7, 8, 9],) * 2]
    assert list(store.blocks(10)) == []


def test_millions_of_documents_are_added_in_blocks(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_store, "_BLOCK", 10)
    ids = random.Random(0).sample(range(1000), 95)
    assert store.add(Document(n, "old") for n in ids) == 95
    assert list(titles(store)) == ids
    again = [*ids[40:70], *range(1000, 1030)]
    assert store.add(Document(n, "new") for n in again) == 60
    assert titles(store) == dict.fromkeys(ids, "old") | dict.fromkeys(again, "new")
    assert store.deletions(0)[0].tolist() == list(range(41, 71))
    store.check()


def test_forgotten_deletions(store: DocumentStore) -> None:
    store.add(Document(n, "") for n in range(4))
    store.delete([0, 1, 2])
    store.forget_deletions(2)
    assert (store.deletions(2)[0].tolist(), store.last()) == ([3], (4, 3))
    with pytest.raises(ClickvecError, match="keeps deletions after 2, not 1; open the index again"):
        store.deletions(1)
    store.forget_deletions(99)
    store.delete([3])
    assert store.deletions(3)[0].tolist() == [4]


def test_transactions(store: DocumentStore) -> None:
    with store.transaction():
        store.add([Document("a", "x")])
        with contextlib.suppress(ValueError), store.transaction():
            store.add([Document("b", "y")])
            store.set_state(k1=1)
            raise ValueError
        store.delete(["a"])
        store.add([Document("c", "z")])
    assert (titles(store), store.state()) == ({"c": "z"}, {})
    with contextlib.suppress(KeyboardInterrupt), store.transaction():
        store.delete(["c"])
        raise KeyboardInterrupt
    assert (titles(store), store.last()) == ({"c": "z"}, (2, 1))


# --- what it refuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (Document(True, "x"), "id True is of type bool"),
        (Document(None, "x"), "id None is of type NoneType"),  # type: ignore[arg-type]
        (Document(1.0, "x"), "id 1.0 is of type float"),  # type: ignore[arg-type]
        (Document(10**5000, "x"), "4,300 digits"),
        (Document("a", None), "title None of the id 'a' is of type NoneType"),  # type: ignore[arg-type]
        (Document("a", b"x" * 1000), "of the id 'a' is of type bytes"),  # type: ignore[arg-type]
        (Document("a", "x" * 16_000_001), "'a' has 16,000,001 characters"),
        (Document("a", "x", float("nan")), "payload of the id 'a' is not JSON"),
        (Document("a", "x", {1, 2}), "payload of the id 'a' is not JSON"),
        (Document("a", "x", 10**5000), "payload of the id 'a' is not JSON"),
        (Document("a", "x", "y" * 16_000_000), "16,000,002 bytes"),
        (Document("7", "x"), "the id '7' is given to more than one title"),
    ],
)
def test_wrong_values_change_nothing(store: DocumentStore, document: Document, told: str) -> None:
    store.add([Document("old", "x")])
    with pytest.raises(ClickvecError, match=told) as caught:
        store.add([Document("old", "y"), Document(7, "x"), document])
    assert len(str(caught.value)) < 300
    assert (titles(store), store.last(), len(store)) == ({"old": "x"}, (1, 0), 1)


def test_a_payload_that_is_too_deep(store: DocumentStore) -> None:
    payload: list[Any] = []
    for _ in range(64):
        payload = [payload]
    store.add([Document("a", "x", payload[0])])
    with pytest.raises(ClickvecError, match="'b' is not JSON: the JSON is nested more than 64 levels"):
        store.add([Document("b", "x", payload)])


def test_an_id_twice_in_one_large_call(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_store, "_BLOCK", 10)
    twice = [Document(str(n % 30), "x") for n in range(35)]
    for _ in range(2):  # into an empty store, then into one that is not
        with pytest.raises(ClickvecError, match=r"the id '[0-4]' is given to more than one title"):
            store.add(twice)
        store.add([Document("0", "x")])
        assert titles(store) == {"0": "x"}
    store.check()


def test_an_iterable_that_fails_changes_nothing(store: DocumentStore) -> None:
    def documents() -> Iterator[Document]:
        yield from (Document(n, "") for n in range(25_000))
        raise OSError("cannot read")

    with pytest.raises(OSError, match="cannot read"):
        store.add(documents())
    assert (list(store), store.last()) == ([], (0, 0))
    store.check()


def test_a_reader_cannot_write(path: Path) -> None:
    DocumentStore.create(path).close()
    with DocumentStore.open(path) as store, pytest.raises(ClickvecError, match="opened for reading only"):
        store.add([Document("a", "x")])


def test_files_that_are_no_store(path: Path) -> None:
    with pytest.raises(ClickvecError, match=r"cannot open .*documents.sqlite: No such file"):
        DocumentStore.open(path)
    assert not path.exists()
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(ClickvecError, match=r"documents.sqlite is damaged .file is not a database.; restore"):
        DocumentStore.open(path)
    path.write_bytes(b"")
    with pytest.raises(ClickvecError, match=r"documents.sqlite is damaged .it is not a database of clickvec"):
        DocumentStore.open(path, writing=True)
    with pytest.raises(ClickvecError, match=r"cannot create .*documents.sqlite: File exists"):
        DocumentStore.create(path)


def test_a_newer_version(path: Path) -> None:
    DocumentStore.create(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=2")
    connection.close()
    with pytest.raises(ClickvecError, match=r"documents.sqlite has version 2, but this clickvec reads 1 at most"):
        DocumentStore.open(path)


def test_a_locked_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.01)
    with DocumentStore.create(path) as store, DocumentStore.open(path, writing=True) as other:
        with other.transaction(), pytest.raises(ClickvecError, match=r"documents.sqlite is locked: another process"):
            store.add([Document("a", "x")])
        assert store.add([Document("a", "x")]) == 1


def test_a_closed_store(store: DocumentStore) -> None:
    store.close()
    store.close()
    for use in (store.state, store.version, lambda: store.add([]), lambda: list(store)):
        with pytest.raises(ClickvecError, match="is closed; open it again"):
            use()


# Close a store while three threads use it: each must get an error, and SQLite must not crash.
CLOSED_IN_USE = """
    import sys, threading
    from pathlib import Path
    from clickvec.errors import ClickvecError
    from clickvec.search.documents.document_store import DocumentStore
    from clickvec.search.documents.document import Document

    def use(store, thread, started, errors):
        started.wait(60)
        try:
            for number in range(100_000):
                store.add([Document(f"{thread} {number}", "x")])
                store.version(), len(store)
        except ClickvecError as error:
            errors.append(str(error))

    for turn in range(30):
        path, started, errors = Path(sys.argv[1]) / str(turn), threading.Event(), []
        store = DocumentStore.create(path)
        threads = [threading.Thread(target=use, args=(store, number, started, errors)) for number in range(3)]
        for thread in threads:
            thread.start()
        started.set()
        threads[0].join(0.004 * (turn % 6))
        store.close()
        for thread in threads:
            thread.join(60)
        assert len(errors) == 3 and all("is closed; open it again" in error for error in errors), errors
        with DocumentStore.open(path) as again:
            assert len(list(again)) == len(again)
"""


def test_a_store_is_closed_while_threads_use_it(tmp_path: Path) -> None:
    run_script(CLOSED_IN_USE, tmp_path)


# Fork while a thread of the parent asks for the version, and close the store in the child.
CLOSED_IN_CHILD = """
    import os, sys, threading
    from pathlib import Path
    from clickvec.search.documents.document_store import DocumentStore
    store = DocumentStore.create(Path(sys.argv[1]))
    stop = threading.Event()

    def watch():
        while not stop.is_set():
            store.version()

    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(20):
        child = os.fork()
        if child == 0:
            store.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    thread.join(60)
"""


def test_a_forked_child_closes_a_store_that_the_parent_uses(path: Path) -> None:
    run_script(CLOSED_IN_CHILD, path)


def test_no_connection_is_opened_after_closing(path: Path) -> None:
    store = DocumentStore.create(path)
    database = store._database
    with database.connection():  # a thread that has begun to ask for the version
        store.close()
        with pytest.raises(ClickvecError, match="is closed"):
            database._connect()
    assert not list(path.parent.glob("*-wal"))


def test_a_file_that_was_replaced_is_not_mixed_with_the_new_one(path: Path) -> None:
    DocumentStore.create(path).close()
    with DocumentStore.open(path) as store:
        other = path.with_name("other")
        DocumentStore.create(other).close()
        other.rename(path)
        with ThreadPoolExecutor(1) as pool, pytest.raises(ClickvecError, match="was replaced by another file"):
            pool.submit(len, store).result()


def test_a_path_with_odd_characters(tmp_path: Path) -> None:
    folder = tmp_path / 'a?mode=rw#b%20 "é\n'
    folder.mkdir()
    with DocumentStore.create(folder / "documents.sqlite") as store:
        store.add([Document("a", "x")])
    with DocumentStore.open(folder / "documents.sqlite") as store:
        assert len(store) == 1
    assert list(tmp_path.iterdir()) == [folder]


# --- model -----------------------------------------------------------------------------------------------------------

ids = st.integers(-3, 3) | st.sampled_from(["-1", "0", "1", "a", "\ud800", ""])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
all_text = st.text(st.characters(), max_size=5)
added = st.lists(
    st.builds(Document, ids, all_text, json_values), max_size=5, unique_by=lambda document: str(document.id)
)
changes = st.lists(
    st.tuples(st.just("add"), added)
    | st.tuples(st.just("delete"), st.lists(ids, max_size=5))
    | st.tuples(st.just("reopen"), st.none()),
    max_size=8,
)


@pytest.mark.parametrize("in_memory", [False, True])
@given(changes=changes)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_changes_do_what_they_do_to_a_dict(
    tmp_path_factory: pytest.TempPathFactory, in_memory: bool, changes: list[tuple[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("store") / "documents.sqlite"
    store = DocumentStore.create(None if in_memory else path)
    model: dict[str, tuple[int, Document]] = {}
    next_seq, deleted = 1, list[int]()
    for kind, values in changes:
        if kind == "add":
            store.add(values)
            for document in values:
                if str(document.id) in model:
                    deleted.append(model.pop(str(document.id))[0])
                model[str(document.id)] = (next_seq, document)
                next_seq += 1
        elif kind == "delete":
            existing = [model.pop(str(value))[0] for value in dict.fromkeys(map(str, values)) if str(value) in model]
            assert store.delete(values) == len(existing)
            deleted += existing
        elif in_memory:
            store = pickle.loads(pickle.dumps(store))
        else:
            store.close()
            store = DocumentStore.open(path, writing=True)
        assert list(store) == [document for _, document in model.values()]
        assert store.get(range(next_seq + 1)) == dict(model.values())
        assert [store.find(doc_id) for doc_id in model] == [seq for seq, _ in model.values()]
        assert (store.deletions(0)[0].tolist(), len(store)) == (deleted, len(model))
        assert store.last() == (next_seq - 1, len(deleted))
    store.check()
    store.close()


# --- threads and processes -------------------------------------------------------------------------------------------


def test_threads_read_and_write(store: DocumentStore) -> None:
    def work(thread: int) -> None:
        for n in range(10):
            store.add([Document(f"{thread}-{n}", "x"), Document("shared", str(thread))])
            assert store.find(f"{thread}-{n}") is not None
            assert len(list(store)) >= n // 2 + 2
            if n % 2:
                assert store.delete([f"{thread}-{n}"]) == 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert len(store) == 4 * 5 + 1
    store.check()


def test_a_read_sees_one_state(path: Path) -> None:
    with DocumentStore.create(path) as store, DocumentStore.open(path) as reader:
        store.add([Document("a", "x")])
        with reader.reading():
            assert len(reader) == 1
            store.add([Document("b", "y")])
            store.set_state(segment=1)
            assert (len(reader), reader.state(), len(list(reader))) == (1, {}, 1)
        assert (len(reader), reader.state()) == (2, {"segment": 1})


def test_the_version_changes_with_every_commit(store: DocumentStore) -> None:
    versions = [store.version(), store.version()]
    assert len(set(versions)) == 1
    store.add([Document("a", "x")])
    versions.append(store.version())
    thread = threading.Thread(target=store.delete, args=(["a"],))
    thread.start()
    while store.version() == versions[-1]:
        pass
    thread.join(60)
    assert store.version() not in versions


def test_a_reader_sees_the_changes_of_the_writer(path: Path) -> None:
    with DocumentStore.create(path) as store, DocumentStore.open(path) as reader:
        before = reader.version()
        store.add([Document("a", "x")])
        assert reader.version() != before
        assert list(reader) == [Document("a", "x")]


def test_connections_end_with_their_thread(path: Path) -> None:
    with DocumentStore.create(path) as store:
        for _ in range(20):
            thread = threading.Thread(target=store.state)
            thread.start()
            thread.join(60)
        assert len(store._database._handles) <= 2


def test_a_pickle_of_a_file_opens_it(path: Path) -> None:
    with DocumentStore.create(path) as store:
        store.add([Document("a", "x")])
        with pickle.loads(pickle.dumps(store)) as again:
            assert list(again) == [Document("a", "x")]


FORKED = """
    import os, sys
    from pathlib import Path
    from clickvec.search.documents.document_store import DocumentStore
    from clickvec.search.documents.document import Document
    store = DocumentStore.create(Path(sys.argv[1]))
    store.add([Document("a", "x")])
    with store._database._writing:  # another thread could hold it
        child = os.fork()
        if child == 0:
            try:
                assert list(store) == [Document("a", "x")]
                store.close()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    store.add([Document("b", "y")])
    assert len(store) == 2
"""


def test_a_forked_process_opens_its_own_connection(path: Path) -> None:
    run_script(FORKED, path)


# A reader that is another user, while root adds a document.
OTHER_USER = """
    import os, sys
    from pathlib import Path
    from clickvec.search.documents.document_store import DocumentStore
    from clickvec.search.documents.document import Document
    path = Path(sys.argv[1])
    to_parent, to_child = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            with DocumentStore.open(path) as reader:  # nobody has it open: no write-ahead log
                count, before = len(reader), reader.version()
                os.write(to_parent[1], b"x")
                os.read(to_child[0], 1)
                assert count == 1 and reader.version() != before and len(reader) == 2
        except BaseException as error:
            os.write(2, f"{error!r}".encode())
            os._exit(1)
        os._exit(0)
    os.close(to_parent[1])
    assert os.read(to_parent[0], 1), "the reader has failed"
    with DocumentStore.open(path, writing=True) as store:
        store.add([Document("b", "y")])
        os.write(to_child[1], b"x")
        assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
def test_a_reader_who_cannot_write_to_the_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:  # other users cannot enter the folders of pytest
        Path(folder).chmod(0o755)
        path = Path(folder) / "documents.sqlite"
        with DocumentStore.create(path) as store:
            store.add([Document("a", "x")])
        run_script(OTHER_USER, path)


# --- faults ----------------------------------------------------------------------------------------------------------

# Add documents for ever: two per transaction, and a line on stdout after each.
ADDER = """
    import sys
    from pathlib import Path
    from clickvec.search.documents.document_store import DocumentStore
    from clickvec.search.documents.document import Document
    store = DocumentStore.open(Path(sys.argv[1]), writing=True)
    n = int(sys.argv[2])
    while True:
        store.add([Document(n, f"title {n}", [n]), Document("last", str(n))])
        print(n, flush=True)
        n += 1
"""


def test_kill_9_loses_nothing_that_was_acknowledged(path: Path) -> None:
    moments = random.Random(0)
    DocumentStore.create(path).close()
    first = 0
    for _ in range(10):
        command = [sys.executable, "-c", textwrap.dedent(ADDER), str(path), str(first)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            acknowledged = int(process.stdout.readline())
            killer = threading.Timer(moments.uniform(0, 0.05), process.send_signal, (signal.SIGKILL,))
            killer.start()
            acknowledged = int([acknowledged, *process.stdout.read().split()][-1])
        with DocumentStore.open(path) as store:
            store.check()
            count = len(store) - 1
            assert count in (acknowledged + 1, acknowledged + 2)  # it may have been killed before it could print
            assert titles(store) == {n: f"title {n}" for n in range(count)} | {"last": str(count - 1)}
            assert store.last() == (2 * count, count - 1)
        first = count


def test_a_full_disk_loses_nothing(path: Path) -> None:
    with DocumentStore.create(path) as store:
        store.add([Document("a", "x")])
        with store._database.connection() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(ClickvecError, match=r"cannot write .*documents.sqlite: the disk is full; nothing was"):
            store.add(Document(n, "x" * 1000) for n in range(100))
        assert (titles(store), store.last()) == ({"a": "x"}, (1, 0))
        with store._database.connection() as connection:
            connection.execute("PRAGMA max_page_count=1000000")
        store.add(Document(n, "x" * 1000) for n in range(100))
        store.check()


def test_a_limit_of_the_file_size_loses_nothing(path: Path) -> None:
    with DocumentStore.create(path) as store:
        store.add([Document("a", "x")])
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        try:
            with pytest.raises(ClickvecError, match=r"cannot write .*documents.sqlite: .*nothing was changed"):
                store.add(Document(n, "x" * 1000) for n in range(1000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert titles(store) == {"a": "x"}
        store.add(Document(n, "x" * 1000) for n in range(1000))
    with DocumentStore.open(path) as store:
        store.check()
        assert len(store) == 1001


def everything(store: DocumentStore) -> object:
    documents = list(store)
    seqs = [store.find(document.id) for document in documents]
    missing = [store.find(doc_id) for doc_id in ("t1", "zzz", "")]
    return documents, seqs, missing, store.state(), store.deletions(0)[0].tolist(), store.last(), len(store)


def test_one_flipped_byte_is_refused_or_does_not_matter(path: Path) -> None:
    chance = random.Random(0)
    with DocumentStore.create(path) as store:
        store.add(Document(f"t{n}" if n % 3 else n, f"title {n} " * (n % 7), {"n": n}) for n in range(200))
        store.set_state(model="m", k1=1.2)
        store.delete(["t1", 6])
        store.add([Document("t2", "new"), Document("t4", "new")])
        right = everything(store)
    good = path.read_bytes()
    refused = 0
    for position in [*chance.sample(range(4096), 80), *chance.sample(range(len(good)), 170)]:
        damaged = bytearray(good)
        damaged[position] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            with DocumentStore.open(path) as store:
                assert everything(store) == right, position
        except ClickvecError as error:
            assert f"{path} " in str(error), error  # noqa: PT017 - some flips do not matter
            refused += 1
        for name in ("documents.sqlite-wal", "documents.sqlite-shm"):
            path.with_name(name).unlink(missing_ok=True)
    assert refused > 50


def test_a_file_that_ends_early_is_refused(path: Path) -> None:
    with DocumentStore.create(path) as store:
        store.add(Document(n, f"title {n}" * 10) for n in range(200))
    good = path.read_bytes()
    for length in range(1, len(good), 4096 // 2):
        path.write_bytes(good[:length])
        with pytest.raises(ClickvecError, match=r"documents.sqlite is damaged"), DocumentStore.open(path) as store:
            everything(store)


def test_checks_find_what_opening_a_large_file_does_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DocumentStore.create(path) as store:
        store.add(Document(f"t{n}", f"title {n}") for n in range(20))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"t13", b"u13", 1))  # in the index of ids
    monkeypatch.setattr(document_store, "_CHECKED_BYTES", 0)
    with DocumentStore.open(path) as store, pytest.raises(ClickvecError, match=r"documents.sqlite is damaged"):
        store.check()


KILLED = """
    import os, sys
    from pathlib import Path
    from clickvec.search.documents.document_store import DocumentStore
    from clickvec.search.documents.document import Document
    store = DocumentStore.create(Path(sys.argv[1]))
    for n in range(6):
        store.add([Document(n, f"title {n}")])
    os._exit(0)  # as a killed process: the log stays
"""


def test_a_flipped_byte_in_the_write_ahead_log(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_ahead_log.time, "sleep", lambda seconds: None)
    chance = random.Random(0)
    run_script(KILLED, path)
    log = path.with_name("documents.sqlite-wal")
    main, good = path.read_bytes(), log.read_bytes()
    told = []
    for position in [*range(0, 60, 3), *chance.sample(range(len(good)), 40)]:
        caplog.clear()
        damaged = bytearray(good)
        damaged[position] ^= 1 << chance.randrange(8)
        path.write_bytes(main)
        path.with_name("documents.sqlite-shm").unlink(missing_ok=True)
        log.write_bytes(damaged)
        try:
            with DocumentStore.open(path) as store:
                told.append(caplog.messages)
                assert titles(store) == {n: f"title {n}" for n in range(5)}
        except ClickvecError as error:
            assert f"{log} is damaged, so that its last" in str(error)  # noqa: PT017 - some flips are only warned of
    assert 0 < len(told) < 40
    assert all(
        messages == [f"{log}: the last commit is incomplete, as a killed writer leaves it, and is ignored"]
        for messages in told
    )
