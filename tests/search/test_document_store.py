"""The store of documents: what was added is returned as it was given, from any thread, and damage is refused."""

from pathlib import Path

from clickvec.search.document_store import DocumentStore
from clickvec.search.documents import Document


def test_add_replace_delete(tmp_path: Path) -> None:
    store = DocumentStore.create(tmp_path / "documents.sqlite")
    assert store.add([Document("a", "x"), Document(7, "y", {"n": 1})]) == 2
    assert store.add([Document("7", "z")]) == 1
    assert store.find(7) == 3
    assert store.get([1, 2, 3]) == {1: Document("a", "x"), 3: Document("7", "z")}
    assert store.delete(["a", "b"]) == 1
    assert [seq.tolist() if n else seq for n, seq in zip((1, 0), store.deletions(0), strict=True)] == [[2, 1], 2]
    assert (len(store), store.last()) == (1, (3, 2))
