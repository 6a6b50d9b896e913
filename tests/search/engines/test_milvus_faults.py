"""Milvus servers that die or have lost something: one sentence, and nothing is lost."""

from pathlib import Path

import pytest
from real_servers import program, running_milvus

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

pytestmark = pytest.mark.slow


ADDING = """
import sys
from clickvec.search.index import Index
index = Index.open(sys.argv[1], writing=True)
for number in range(100000):
    index.add([f"{number}-{part}" for part in range(3)], [f"hotel number {number}"] * 3)
    print(number, flush=True)
"""


def test_a_server_killed_during_writes_loses_nothing_that_was_acknowledged(encoder: Encoder, tmp_path: Path) -> None:
    address = "milvus://127.0.0.1:{}?collection=dying&words={}"
    words, acknowledged = tmp_path / "words", -1
    with running_milvus(tmp_path / "server") as server:
        location = address.format(server.listen_port, words)
        Index.create(location, encoder, [Document("first", "new york"), Document("gone", "new york")]).close()
        with program(ADDING, location) as adding:
            assert adding.stdout
            while acknowledged < 5:
                acknowledged = int(adding.stdout.readline())
            server.server_proc.kill()
            server.server_proc.wait()
            rest = [int(line) for line in adding.stdout.read().split()]  # the writer ends with an error
            acknowledged = rest[-1] if rest else acknowledged
        assert adding.returncode == 1
    with running_milvus(tmp_path / "server") as server:
        location = address.format(server.listen_port, words)
        with Index.open(location, writing=True) as index:  # writes the vectors that are missing
            ids = {document.id for document in index}
            assert {f"{number}-{part}" for number in range(acknowledged + 1) for part in range(3)} | {"first"} <= ids
            by_call = [len({f"{number}-{part}" for part in range(3)} & ids) for number in range(acknowledged + 3)]
            assert set(by_call) <= {0, 3}  # all of a call, or nothing
            assert {hit.id for hit in index.search("hotel number", k=999, mode="vectors")} == ids
            # The same object survives a second death of the server, and repeating a change is safe.
            server.server_proc.kill()
            server.server_proc.wait()
            with pytest.raises(ClickvecError, match=r"milvus://127.0.0.1:\d+ .*does not answer"):
                index.search("hotel", mode="vectors")
            with pytest.raises(ClickvecError, match=r"does not answer.*repeating it is safe"):
                index.add(["new"], ["hotel in shanghai"])
            with pytest.raises(ClickvecError, match=r"does not answer.*repeating it is safe"):
                index.delete(["gone"])
            assert [hit.id for hit in index.search("shanghai", mode="words")] == ["new"]
            port = server.listen_port
            server.stop()
            server.start()
            assert server.listen_port == port
            index.add(["new"], ["hotel in shanghai"])
            wanted = (ids | {"new"}) - {"gone"}
            assert {hit.id for hit in index.search("hotel in shanghai", k=999, mode="vectors")} == wanted
    with pytest.raises(ClickvecError, match=r"does not answer"):
        Index.open(location)


def test_a_server_that_is_not_there(encoder: Encoder, tmp_path: Path) -> None:
    pytest.importorskip("pymilvus", reason="pymilvus is not installed")
    address = f"milvus://me:cret@127.0.0.1:1?collection=x&words={tmp_path / 'words'}"
    with pytest.raises(ClickvecError, match=r"milvus://me@127.0.0.1:1 .*does not answer") as error:
        Index.create(address, encoder, [])
    assert "cret" not in str(error.value)
    assert not (tmp_path / "words").exists()
