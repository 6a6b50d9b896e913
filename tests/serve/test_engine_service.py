"""A service of an index in PostgreSQL: it reads and writes through the database, and other services share it."""

from pathlib import Path
from typing import Any

import pytest
from real_servers import kill_postgres, own_postgres
from serving import Program, until

from clickvec.model.encoder import Encoder
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

__all__ = ["own_postgres"]


def found_by(service: Program) -> list[str]:
    answer = service.client.post("/search", json={"query": "cheap hotels"}).json()
    return [hit["id"] for hit in answer.get("hits", ())]


@pytest.mark.slow
def test_services_share_a_database_and_survive_its_death(own_postgres: Any, encoder: Encoder, tmp_path: Path) -> None:  # noqa: ANN401
    location = f"{own_postgres.get_uri()}&table=served"
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
        kill_postgres(own_postgres)
        for service in (one, other):
            answer = service.client.post("/search", json={"query": "new york"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        own_postgres.ensure_postgres_running()
        for service in (one, other):
            until(lambda service=service: found_by(service) == ["a"])  # the server may still read its log
        assert any("does not answer" in line for line in one.lines)
        assert one.stop() == other.stop() == 0
