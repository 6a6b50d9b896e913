"""The map of the catalogue, and where a text lies on it."""

from pathlib import Path

import numpy as np
import pytest
from serving import Running, running, until
from tiny import TEXTS

from clickvec.search.index import Index
from clickvec.serve.service import STUDIES


def test_every_title_is_on_the_map_of_a_small_catalogue(reading: Running) -> None:
    drawn = reading.client.get("/map").json()
    assert drawn["catalogue"] == len(TEXTS)
    assert sorted(drawn["titles"]) == sorted(TEXTS)
    assert drawn["ids"] == [f"t{TEXTS.index(title)}" for title in drawn["titles"]]
    both = np.array([drawn["x"], drawn["y"]])
    assert both.min() >= 0
    assert both.max() <= drawn["size"]
    assert (np.ptp(both, axis=1).max()) == drawn["size"]  # it fills its square
    assert [group["titles"] for group in drawn["groups"]] == np.bincount(drawn["group"]).tolist()
    for number, group in enumerate(drawn["groups"]):
        members = " ".join(
            title for title, of in zip(drawn["titles"], drawn["group"], strict=True) if of == number
        ).split()
        assert set(group["words"]) <= set(members)
    assert reading.client.get("/map").json() == drawn


def test_a_title_lies_where_the_map_shows_it(reading: Running) -> None:
    drawn = reading.client.get("/map").json()
    placed = reading.post("/map/place", {"text": TEXTS[3], "side": "title"}).json()
    number = drawn["ids"].index("t3")
    assert placed["near"][0] == number
    assert placed["cosines"][0] == pytest.approx(1, abs=1e-3)
    assert abs(placed["x"] - drawn["x"][number]) < drawn["size"] / 3


def test_a_query_lies_near_the_titles_that_vectors_find(reading: Running, read_index: Path) -> None:
    placed = reading.post("/map/place", {"text": "hotels in shanghai"}).json()
    drawn = reading.client.get("/map").json()
    best = Index.open(read_index).search("hotels in shanghai", k=1, mode="vectors")[0]
    assert drawn["ids"][placed["near"][0]] == best.id


def test_a_text_without_a_known_trigram_has_no_place(reading: Running) -> None:
    assert reading.post("/map/place", {"text": "ЖЖЖ"}).json() == {"x": None, "y": None, "near": [], "cosines": []}
    refused = reading.post("/map/place", {"text": "a" * 1001})
    assert refused.status_code == 422
    assert "1,001" in refused.json()["error"]["message"]


def test_the_map_follows_a_catalogue_that_grows(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path) as service:
        assert service.client.get("/map").json()["catalogue"] == len(TEXTS)
        more = [{"id": number, "title": f"{TEXTS[number % 8]} {TEXTS[number // 8]}"} for number in range(64)]
        assert service.post("/documents", {"documents": more}).status_code == 200
        grown = service.client.get("/map").json()
        assert grown["catalogue"] == len(TEXTS) + 64
        assert set(grown["ids"]) > {0, 63}


def test_too_few_titles_have_an_empty_map(write_index: Path, tmp_path: Path) -> None:
    with running(write_index, tmp_path) as service:
        for number in range(len(TEXTS) - 1):
            service.client.delete(f"/documents/t{number}")
        drawn = service.client.get("/map").json()
        assert (drawn["catalogue"], drawn["titles"], drawn["groups"]) == (1, [], [])
        assert service.post("/map/place", {"text": "hotels"}).json()["x"] is None


def test_a_map_that_is_being_drawn_holds_up_no_search(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"seconds": 0.3}) as service:
        with service.service.remembered._locks["map"]:  # as if it took long to draw
            pending = service.client.get("/map")
            assert (pending.status_code, pending.json()) == (202, {"pending": True})
            statuses = [service.client.get("/map").status_code for _ in range(3)]
            assert statuses == [202, 202, 202]
            assert service.post("/search", {"query": "hotels"}).status_code == 200
        until(lambda: service.client.get("/map").status_code == 200)


def test_too_many_requests_for_the_map_are_refused_and_counted(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"seconds": 0.2}) as service:
        for _ in range(STUDIES):
            assert service.service.studies.acquire(blocking=False)
        refused = service.client.get("/map")
        assert refused.status_code == 429
        assert f"{STUDIES} requests" in refused.json()["error"]["message"]
        assert service.post("/search", {"query": "hotels"}).status_code == 200
        service.service.studies.release(STUDIES)
        until(lambda: service.client.get("/map").status_code == 200)
        for _ in range(STUDIES):  # all are free again
            assert service.service.studies.acquire(blocking=False)
