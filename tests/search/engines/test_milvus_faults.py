"""Milvus servers that die or have lost something: one sentence, and nothing is lost."""

from pathlib import Path
from typing import Any

import pytest
from command import check_tells, refused
from real_servers import program, restart_milvus, running_milvus
from tiny import tiny_model

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

pytestmark = pytest.mark.slow


ADDING = """
import sys
from clickvec.search.index import Index
index = Index.open(sys.argv[1])
for number in range(100000):
    index.add(ids=[f"{number}-{part}" for part in range(3)], titles=[f"hotel number {number}"] * 3)
    print(number, flush=True)
"""


def test_a_server_killed_during_writes_loses_nothing_that_was_acknowledged(encoder: Encoder, tmp_path: Path) -> None:
    acknowledged = -1
    with running_milvus(tmp_path / "server", asks_password=True) as server:
        location = f"milvus://root:Milvus@127.0.0.1:{server.listen_port}?collection=killed&words={tmp_path / 'words'}"
        first = [Document("first", "new york"), Document("gone", "new york")]
        with Index.create(location, encoder, first) as index:
            wrong = location.replace("Milvus@", "wrongcret@")
            for verb in (("search", wrong, "hotel"), ("index", "add", wrong, tmp_path / "none")):
                message = refused(*verb)
                assert "milvus://root@127.0.0.1" in message
                assert "refuses the user or the password; correct the address" in message
                assert "cret" not in message
            with program(ADDING, location) as adding:
                assert adding.stdout
                while acknowledged < 5:
                    acknowledged = int(adding.stdout.readline())
                server.server_proc.kill()
                server.server_proc.wait(60)
                rest = [int(line) for line in adding.stdout.read().split()]  # the writer ends with an error
                acknowledged = rest[-1] if rest else acknowledged
                assert adding.wait(60) == 1
            with pytest.raises(ClickvecError, match=r"milvus://root@127.0.0.1:\d+ .*does not answer"):
                index.search("hotel", mode="vectors")
            with pytest.raises(ClickvecError, match=r"does not answer.*repeating it is safe"):
                index.add(ids=["new"], titles=["hotel in shanghai"])
            with pytest.raises(ClickvecError, match=r"does not answer.*repeating it is safe"):
                index.delete(["gone"])
            with pytest.raises(ClickvecError, match="does not answer"):
                Index.open(location)
            assert [hit.id for hit in index.search("shanghai", mode="words", k=1)] == ["new"]
            restart_milvus(server)
            ids = {document.id for document in index}
            assert {f"{number}-{part}" for number in range(acknowledged + 1) for part in range(3)} <= ids
            by_call = [len({f"{number}-{part}" for part in range(3)} & ids) for number in range(acknowledged + 3)]
            assert set(by_call) <= {0, 3}  # all of a call, or nothing
            assert {"first", "new"} <= ids
            assert "gone" not in ids
            with Index.open(location) as repaired:  # writes the vectors that are missing
                assert {hit.id for hit in repaired.search("hotel", k=999, mode="vectors")} == ids
            index.add(ids=["new"], titles=["hotel in shanghai"])  # the same object connects again
            assert {hit.id for hit in index.search("hotel in shanghai", k=999, mode="vectors")} == ids


def test_a_server_that_is_not_there(encoder: Encoder, tmp_path: Path) -> None:
    pytest.importorskip("pymilvus", reason="pymilvus is not installed")
    address = f"milvus://me:cret@127.0.0.1:1?collection=x&words={tmp_path / 'words'}"
    with pytest.raises(ClickvecError, match=r"milvus://me@127.0.0.1:1 .*does not answer") as error:
        Index.create(address, encoder, [])
    assert "cret" not in str(error.value)
    assert not (tmp_path / "words").exists()
    Index.create(tmp_path / "words", encoder, [Document("a", "hotel")]).close()
    message = refused("search", address, "hotel")
    check_tells(message, "has no vectors in milvus://me@127.0.0.1:1", "--to")
    assert "cret" not in message


def test_a_collection_that_is_not_the_one_of_the_index(milvus: Any, encoder: Encoder, tmp_path: Path) -> None:  # noqa: ANN401
    """The index of words names the collection of its vectors, which may have been lost, or be one of another model."""
    address = f"milvus://127.0.0.1:{milvus.listen_port}?collection=mine&words="
    Index.create(f"{address}{tmp_path / 'words'}", encoder, [Document("a", "hotel")]).close()
    with Index.open(tmp_path / "words") as words:
        name = words._live.state()["milvus"]  # type: ignore[attr-defined]
    other = Encoder.load(tiny_model(tmp_path / "model", seed=1))
    with Index.create(tmp_path / "other", other, [Document("b", "hotel")]) as words:
        words._live.set_state(milvus=name)
    check_tells(refused("search", f"{address}{tmp_path / 'other'}", "hotel"), "vectors of another model", "build")
    with Index.open(tmp_path / "other") as words:
        words._live.set_state(milvus="mine_clickvec_lost")
    check_tells(refused("search", f"{address}{tmp_path / 'other'}", "hotel"), "has lost the collection", "build")
    with Index.open(f"{address}{tmp_path / 'words'}") as index:
        assert [hit.id for hit in index.search("hotel", mode="vectors")] == ["a"]  # nothing was changed
