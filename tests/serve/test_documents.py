"""Adding, replacing and deleting documents, filters and facets, over real HTTP."""

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command import small_disk
from serving import Running, running, until
from tiny import TEXTS

from clickvec.search.index import Index
from clickvec.search.live.live_folder import LiveFolder
from clickvec.storage import database


def test_documents_are_added_found_replaced_and_deleted(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path) as service:
        added = service.post("/documents", {"documents": [{"id": 7, "title": "zebra crossing", "payload": {"n": 1}}]})
        assert added.json() == {"added": 1, "titles": len(TEXTS) + 1}
        document = {"id": 7, "title": "zebra crossing", "payload": {"n": 1}}
        assert service.client.get("/documents/7").json() == document
        hit = service.post("/search", {"query": "zebra", "k": 1}).json()["hits"][0]
        assert {name: hit[name] for name in document} == document
        assert hit["parts"]["bm25"] > 0

        service.post("/documents", {"documents": [{"id": 7, "title": "giraffe house"}]})
        assert service.client.get("/documents/7").json() == {"id": 7, "title": "giraffe house"}
        assert service.post("/search", {"query": "giraffe", "k": 1}).json()["hits"][0]["id"] == 7
        assert service.post("/search", {"query": "zebra", "mode": "words"}).json()["hits"] == []

        assert service.client.delete("/documents/7").json() == {"deleted": 1, "titles": len(TEXTS)}
        assert service.client.get("/documents/7").status_code == 404
        again = service.client.delete("/documents/7")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "not_found")
    with running(write_index, tmp_path) as service:  # it is on disk
        assert service.client.get("/readyz").json()["titles"] == len(TEXTS)


@pytest.mark.parametrize(
    "doc_id", ["a/b", "..", "../../etc/passwd", "über 7%", "酒店", "a?b#c", " a", "a\n", "\na", "a\r\nb"]
)
def test_any_text_is_an_id_and_none_is_a_path(doc_id: str, write_index: Path, tmp_path: Path) -> None:
    from urllib.parse import quote

    with running(write_index, tmp_path) as service:
        service.post("/documents", {"documents": [{"id": doc_id, "title": "a title"}]})
        path = "/documents/" + quote(doc_id, safe="").replace(".", "%2E")
        assert service.client.get(path).json() == {"id": doc_id, "title": "a title"}
        assert service.client.delete(path).status_code == 200


@pytest.mark.parametrize(
    ("documents", "status", "told"),
    [
        ([{"id": "a"}], 422, "title"),
        ([{"title": "a"}], 422, "id"),
        ([{"id": None, "title": "a"}], 422, "id"),
        ([{"id": 1.5, "title": "a"}], 422, "id"),
        ([{"id": "", "title": "a"}], 422, "The id '' of the title 'a' is blank"),
        ([{"id": " \n", "title": "a"}], 422, "is blank"),
        ([{"id": "a", "title": " \t"}], 422, "title"),
        ([{"id": "a", "title": "b" * 10_001}], 422, "10,001"),
        ([{"id": "a" * 1_001, "title": "b"}], 422, "1,001"),
        ([{"id": "a", "title": "b", "colour": 1}], 422, "colour"),
        ([{"id": "a", "title": "b", "payload": ["c" * 65_536]}], 422, "65,540"),
        ([{"id": str(n), "title": "b"} for n in range(21)], 422, "21"),
    ],
)
def test_bad_documents_change_nothing(
    documents: object, status: int, told: str, write_index: Path, tmp_path: Path
) -> None:
    with running(write_index, tmp_path, {"documents": 20}) as service:
        answer = service.post("/documents", {"documents": documents})
        assert answer.status_code == status, answer.text
        assert told in answer.json()["error"]["message"]
        assert service.client.get("/readyz").json()["titles"] == len(TEXTS)


def test_fields_are_changed_and_the_others_stay(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path, {"documents": 3}) as service:
        document = {"id": 7, "title": "zebra crossing", "payload": {"n": 1, "brand": "x"}}
        service.post("/documents", {"documents": [document]})

        def patch(*documents: object) -> tuple[int, Any]:
            answer = service.client.patch("/documents", json={"documents": documents})
            return answer.status_code, answer.json()

        assert patch({"id": 7, "payload": {"n": 2}}) == (200, {"updated": 1, "titles": len(TEXTS) + 1})
        assert service.client.get("/documents/7").json() == document | {"payload": {"n": 2, "brand": "x"}}
        assert patch({"id": "7", "title": "giraffe house", "payload": {"brand": None}})[0] == 200
        after = {"id": 7, "title": "giraffe house", "payload": {"n": 2}}
        assert service.client.get("/documents/7").json() == after
        assert service.post("/search", {"query": "giraffe", "k": 1}).json()["hits"][0]["id"] == 7
        for documents, status, told in (
            ([{"id": 7, "payload": {"n": 3}}, {"id": "nope", "payload": {"n": 3}}], 404, "'nope'"),
            ([{"id": 7, "title": " "}], 422, "title"),
            ([{"id": 7, "payload": None}], 422, "payload"),
            ([{"id": 7, "payload": ["x"]}], 422, "payload"),
            ([{"id": 7, "price": 3}], 422, "price"),
            ([{"payload": {}}], 422, "id"),
            ([{"id": 7}, {"id": "7"}], 422, "more than one title"),
            ([{"id": 7, "payload": {"a": "c" * 65_536}}], 422, "65,"),
            ([{"id": str(at)} for at in range(4)], 422, "4"),
        ):
            answer = patch(*documents)
            assert answer[0] == status, answer
            assert told in answer[1]["error"]["message"]
        assert service.client.get("/documents/7").json() == after
        assert patch() == (200, {"updated": 0, "titles": len(TEXTS) + 1})


def test_no_documents_are_fine(reading: Running) -> None:
    assert reading.post("/documents", {"documents": []}).json() == {"added": 0, "titles": len(TEXTS)}


def test_filters_offsets_and_modes(reading: Running) -> None:
    def ids(**more: object) -> list[str]:
        answer = reading.post("/search", {"query": "hotels in shanghai", **more})
        assert answer.status_code == 200, answer.text
        return [hit["id"] for hit in answer.json()["hits"]]

    everything = ids()
    assert ids(offset=1, k=2) == everything[1:3]
    assert set(ids(where={"country": "cn"})) == {"t0", "t1"}
    assert set(ids(where={"not": {"country": "cn"}, "words": {"lt": 6}})) <= {"t4", "t5", "t6", "t7"}
    assert set(ids(mode="words")) == {"t0", "t1"}
    assert ids(mode="vectors")
    assert ids(min_score=1e9) == []


@pytest.mark.parametrize("where", [{"words": {"gte": []}}, {"or": 1}, {"words": {"nope": 1}}])
def test_a_bad_filter_is_told_by_its_path(reading: Running, where: object) -> None:
    answer = reading.post("/search", {"query": "hotels", "where": where})
    assert answer.status_code == 422
    assert "where" in answer.json()["error"]["message"]


def test_facets_count_the_values_of_a_field(reading: Running) -> None:
    answer = reading.post("/search", {"query": "hotels in shanghai", "facets": ["country", "nope"], "k": 1}).json()
    counts = {item["value"]: item["count"] for item in answer["facets"]["country"]}
    assert counts["cn"] == 2
    assert answer["facets"]["nope"] == []
    many = reading.post("/search", {"queries": ["hotels in shanghai"], "facets": ["country"], "k": 1}).json()
    assert many["results"][0]["facets"]["country"] == answer["facets"]["country"]


def test_facets_count_what_the_search_finds(reading: Running) -> None:
    def counts(**more: object) -> int:
        body = {"query": "hotels in shanghai", "facets": ["country"], "k": 1, **more}
        return sum(item["count"] for item in reading.post("/search", body).json()["facets"]["country"])

    best = reading.post("/search", {"query": "hotels in shanghai", "k": 1}).json()["hits"][0]["score"]
    assert counts(mode="words") == 2
    assert counts(min_score=best - 1e-6) == 1
    assert counts() > 2


def test_corrected_words_and_useless_filters_are_told(reading: Running) -> None:
    answer = reading.post("/search", {"query": "hotels in shangai", "k": 1}).json()
    assert answer["corrected"] == {"shangai": ["shanghai"]}
    many = reading.post("/search", {"queries": ["hotels", "shangai"], "k": 1}).json()["results"]
    assert [result.get("corrected") for result in many] == [None, {"shangai": ["shanghai"]}]
    assert "corrected" not in reading.post("/search", {"query": "shangai", "mode": "vectors"}).json()
    assert reading.post("/search", {"query": "hotels qx-9774", "k": 1}).json()["corrected"] == {"qx-9774": []}
    answer = reading.post("/search", {"query": "hotels", "where": {"contry": "cn"}}).json()
    assert answer == {"hits": [], "notes": ["where.contry: no document has the field contry"]}


def test_explain_comes_with_each_hit_if_asked(reading: Running) -> None:
    plain = reading.post("/search", {"query": "hotels in shanghai", "k": 2}).json()["hits"]
    assert all("explanation" not in hit for hit in plain)
    for hit in reading.post("/search", {"query": "hotels in shanghai", "k": 2, "explain": True}).json()["hits"]:
        assert hit["explanation"]["title"] == hit["title"]
        assert hit["explanation"]["score"] == pytest.approx(hit["score"], abs=1e-5)
        assert hit["explanation"]["fused"]["parts"][0]["value"] == pytest.approx(hit["parts"]["cosine"], abs=1e-5)
    words = reading.post("/search", {"query": "hotels in shanghai", "mode": "words", "explain": True})
    assert words.status_code == 422


def test_an_empty_index_answers_everything(tmp_path: Path, model_folder: Path) -> None:
    from clickvec.model.encoder import Encoder
    from clickvec.search.index import Index

    Index.create(tmp_path / "empty", Encoder.load(model_folder)).close()
    with running(tmp_path / "empty", tmp_path) as service:
        assert service.post("/search", {"query": "a", "facets": ["x"]}).json() == {"hits": [], "facets": {"x": []}}
        assert service.post("/search", {"query": "a", "explain": True}).json() == {"hits": []}
        assert service.post("/explain", {"query": "a"}).status_code == 422
        assert service.client.get("/topics").json() == {"titles": 0, "topics": [], "cells": 0, "dead": []}
        assert service.client.get("/readyz").json()["titles"] == 0
        assert service.client.get("/documents/a").status_code == 404
        assert service.post("/documents", {"documents": [{"id": 1, "title": "b"}]}).json()["titles"] == 1
        assert service.post("/search", {"query": ""}).json() == {"hits": []}


def test_half_of_a_surrogate_pair_becomes_a_question_mark(write_index: Path, tmp_path: Path) -> None:
    with Index.open(write_index) as index:
        index.add(ids=["s"], titles=["zebra \udfff crossing"], payloads=[{"n\ud800": 1}])
    with running(write_index, tmp_path) as service:
        document = service.client.get("/documents/s").json()
        assert document == {"id": "s", "title": "zebra ? crossing", "payload": {"n?": 1}}
        (hit,) = service.post("/search", {"query": "zebra crossing", "k": 1, "explain": True}).json()["hits"]
        assert hit["id"] == "s"


def test_changes_of_other_processes_are_followed_without_requests(write_index: Path, tmp_path: Path) -> None:
    with Index.open(write_index) as writer, running(write_index, tmp_path) as service:
        live = service.service.index._live
        assert isinstance(live, LiveFolder)
        writer.add(ids=["new"], titles=["a new title"])
        until(lambda: len(live._view) == len(TEXTS) + 1, seconds=5)  # `view` would look for changes itself


def test_many_writers_at_once_lose_nothing(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path) as service, ThreadPoolExecutor(8) as pool:
        bodies = [{"documents": [{"id": f"{n}-{m}", "title": f"title {n} {m}"} for m in range(3)]} for n in range(40)]
        assert {answer.status_code for answer in pool.map(lambda body: service.post("/documents", body), bodies)} == {
            200
        }
        assert service.client.get("/readyz").json()["titles"] == len(TEXTS) + 120


def test_a_full_disk_is_503_and_changes_nothing(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path) as service:
        documents = [{"id": f"d{number}", "title": f"title {number} " * 20} for number in range(5_000)]
        with small_disk(200_000):
            answer = service.post("/documents", {"documents": documents})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert str(tmp_path) not in answer.text
        assert service.post("/search", {"query": "new york"}).json()["hits"]
        assert service.client.get("/readyz").json()["titles"] == len(TEXTS)


def test_documents_that_another_program_has_locked_are_503(
    write_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    with (
        running(write_index, tmp_path) as service,
        contextlib.closing(sqlite3.connect(write_index / "documents.sqlite", isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        answer = service.post("/documents", {"documents": [{"id": "a", "title": "b"}]})
        assert answer.status_code == 503
        assert str(write_index) not in answer.text
        other.execute("ROLLBACK")
        assert service.post("/documents", {"documents": [{"id": "a", "title": "b"}]}).status_code == 200


def test_a_damaged_document_is_503(write_index: Path, tmp_path: Path) -> None:
    with sqlite3.connect(write_index / "documents.sqlite") as connection:
        connection.execute("UPDATE documents SET title = 'new jersey' WHERE title = 'new york city guide'")
    connection.close()
    with running(write_index, tmp_path) as service:
        answer = service.client.get("/documents/t5")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
        assert service.client.get("/documents/t4").status_code == 200
