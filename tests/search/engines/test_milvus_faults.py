"""Milvus servers that die or have lost something: one sentence, and nothing is lost."""

from pathlib import Path

import pytest
from real_servers import start_milvus

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

pytestmark = pytest.mark.slow


def test_a_killed_server_loses_nothing_that_was_acknowledged(encoder: Encoder, tmp_path: Path) -> None:
    server = start_milvus(tmp_path / "server")
    address = "milvus://127.0.0.1:{}?collection=killed&words={}"
    words = tmp_path / "words"
    titles = [f"hotel number {number} in new york" for number in range(40)]
    try:
        with Index.create(address.format(server.listen_port, words), encoder, [Document("first", "new york")]) as index:
            for number in range(10):
                index.add([number], [titles[number]], [{"n": number}])
            index.delete([0])
            server.server_proc.kill()
            server.server_proc.wait()
            with pytest.raises(ClickvecError, match=r"milvus://127.0.0.1:\d+ .*does not answer"):
                index.search("hotel", mode="vectors")
            with pytest.raises(ClickvecError, match=r"does not answer.*repeating it is safe"):
                index.add([10], [titles[10]])
            assert [hit.id for hit in index.search("number 10", mode="words", k=1)] == [10]
    finally:
        server.stop()
    server = start_milvus(tmp_path / "server")
    try:
        with Index.open(address.format(server.listen_port, words)) as index:  # writes what is missing
            found = {hit.id for hit in index.search("hotel number in new york", k=99, mode="vectors")}
            assert found == {"first", *range(1, 11)}
            index.add([10], [titles[10]])
            assert len(index.search("hotel number in new york", k=99, mode="vectors")) == 11
        with pytest.raises(ClickvecError, match=r"has no vectors in milvus.*--to"):
            Index.open(address.format(server.listen_port, words).replace("killed", "other"))
    finally:
        server.stop()


def test_a_server_that_is_not_there(encoder: Encoder, tmp_path: Path) -> None:
    pytest.importorskip("pymilvus", reason="pymilvus is not installed")
    address = f"milvus://me:cret@127.0.0.1:1?collection=x&words={tmp_path / 'words'}"
    with pytest.raises(ClickvecError, match=r"milvus://me@127.0.0.1:1 .*does not answer") as error:
        Index.create(address, encoder, [])
    assert "cret" not in str(error.value)
    assert not (tmp_path / "words").exists()
