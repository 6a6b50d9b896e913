"""A service of an index in PostgreSQL: it reads and writes through the database, and other services share it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from real_servers import kill_postgres, start_postgres
from serving import Program, until

from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield a server that tests may kill."""
    server = start_postgres(tmp_path_factory.mktemp("served"))
    yield server
    with contextlib.suppress(Exception):
        server.cleanup()


def found_by(service: Program) -> list[str]:
    answer = service.client.post("/search", json={"query": "cheap hotels"}).json()
    return [hit["id"] for hit in answer.get("hits", ())]


@pytest.mark.slow
@pytest.mark.skipif(
    "CLICKVEC_SERVERS" not in os.environ, reason="only make test-engines kills a database under services"
)
def test_services_share_a_database_and_survive_its_death(own: Any, encoder: Encoder, tmp_path: Path) -> None:  # noqa: ANN401
    location = f"{own.get_uri()}&table=served"
    Index.create(location, encoder, [Document("a", "cheap hotels", {"n": 1})]).close()
    log = ("--click-log", tmp_path / "clicks.jsonl")
    with Program(location, *log) as one, Program(location, "--workers", 2, *log) as other:
        added = one.client.post("/documents", json={"documents": [{"id": 7, "title": "new york", "payload": {"n": 2}}]})
        assert added.json() == {"added": 1, "titles": 2}
        found = other.client.post("/search", json={"query": "new york", "k": 1, "where": {"n": 2}, "explain": True})
        assert [hit["id"] for hit in found.json()["hits"]] == [7]
        assert other.client.get("/about").json()["name"] == "served"
        assert other.client.get("/metrics").status_code == other.client.get("/topics").status_code == 200
        assert other.client.delete("/documents/7").json()["titles"] == 1
        assert one.client.get("/documents/7").status_code == 404
        kill_postgres(own)
        for service in (one, other):
            answer = service.client.post("/search", json={"query": "new york"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        own.ensure_postgres_running()
        for service in (one, other):
            until(lambda service=service: found_by(service) == ["a"])  # the server may still read its log
        assert any("does not answer" in line for line in one.lines)
        assert one.stop() == other.stop() == 0
