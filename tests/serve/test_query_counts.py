"""What people searched: counted over all workers, in bounded memory, only if asked for."""

from pathlib import Path

import pytest
from serving import Program, Running, running, until

from clickvec.serve import query_counts
from clickvec.serve.keys import Keys
from clickvec.serve.query_counts import QueryCount, QueryCounts, SharedCounts


def counted(shared: SharedCounts) -> dict[str, tuple[int, int, int, int]]:
    return {
        count.query: (count.searches, count.nothing, count.no_words, count.clicks) for count in shared.all()[0]
    }  # fmt: skip


def test_workers_count_together_and_a_replacement_goes_on() -> None:
    shared = SharedCounts(2)
    one, two = QueryCounts(shared, 0), QueryCounts(shared, 1)
    one.search("Bath  tub", is_found=True, has_words=True)
    one.search("zzz", is_found=False, has_words=False)
    two.search("bath tub", is_found=True, has_words=False)
    two.click("bath tub")
    two.click(" ")
    one.copy()
    two.copy()
    expected = {"Bath tub": (2, 0, 1, 1), "zzz": (1, 1, 0, 0)}
    assert counted(shared) == expected
    one.close()
    again = QueryCounts(shared, 0)
    again.search("zzz", is_found=False, has_words=False)
    again.copy()
    assert counted(shared) == expected | {"zzz": (2, 2, 0, 0)}
    again.close()
    two.close()


def test_what_a_user_types_is_one_query(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = SharedCounts()
    counts = QueryCounts(shared, 0)
    for query in ("b", "ba", "bath", "bath", "bath tu", "bath"):
        counts.search(query, is_found=True, has_words=True, browser="10.0.0.1")
    counts.search("bathroom", is_found=True, has_words=True, browser="10.0.0.2")  # another user
    counts.copy()
    assert counted(shared) == {}  # both may still be typing
    counts.search("mirror", is_found=True, has_words=True, browser="10.0.0.1")
    counts.copy()
    assert counted(shared) == {"bath": (1, 0, 0, 0)}
    monkeypatch.setattr(query_counts, "_TYPING", 0.0)
    counts.copy()
    assert counted(shared) == {"bath": (1, 0, 0, 0), "bathroom": (1, 0, 0, 0), "mirror": (1, 0, 0, 0)}
    counts.close()


def test_rare_queries_are_dropped_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_counts, "MOST", 10)
    monkeypatch.setattr(query_counts, "_BROWSERS", 3)
    shared = SharedCounts()
    counts = QueryCounts(shared, 0)
    for number in range(25):
        counts.search("often", is_found=True, has_words=True)
        counts.search(f"rare {number}", is_found=True, has_words=True)
        counts.search("x" * number + "typed", is_found=True, has_words=True, browser=f"10.0.0.{number}")
    counts.copy()
    listed, dropped = shared.all()
    assert len(listed) <= 10
    assert dropped >= 30
    assert counted(shared)["often"][0] == 25
    counts.close()


def test_queries_that_do_not_fit_into_the_shared_memory_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_counts, "_BYTES", 4096)
    shared = SharedCounts(2)
    many = [QueryCount(f"{number} \x01 上海 " + "é" * 50, number) for number in range(200)]
    shared.copy(1, 0, many)
    listed, dropped = shared.all()
    assert 0 < len(listed) < 30
    assert len(listed) + dropped == 200
    assert max(count.searches for count in listed) == 199


def test_a_worker_that_was_killed_while_it_copied_is_left_out_and_replaced() -> None:
    shared = SharedCounts()
    shared.copy(0, 0, [QueryCount("a", 1)])
    version, length = query_counts._HEAD.unpack_from(shared._memory, 0)
    query_counts._HEAD.pack_into(shared._memory, 0, version + 1, length)
    assert shared.all() == ([], 0)
    shared.copy(0, 0, [QueryCount("b", 1)])
    assert [count.query for count in shared.all()[0]] == ["b"]


def test_half_a_character_and_long_queries_are_counted() -> None:
    shared = SharedCounts()
    counts = QueryCounts(shared, 0)
    counts.search("\ud800", is_found=False, has_words=False)
    counts.search("y" * 5000, is_found=False, has_words=False)
    counts.copy()
    assert set(counted(shared)) == {"?", "y" * query_counts.LONGEST}
    counts.close()


# --- GET /queries ------------------------------------------------------------------------------------------------


def test_queries_are_listed(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, log_queries=True) as service:
        for query in ("new york", "new york", "hotels", "ЖЖЖ"):
            service.post("/search", {"query": query})
        service.post("/search", {"query": "hotels", "offset": 5})  # a further page
        service.post("/search", {"query": "hotels", "where": {"country": "xx"}})  # the filter finds nothing
        service.post("/search", {"queries": ["hotels", "cheap"]})
        service.post("/search", {"query": "hote", "mode": "words"}, headers={"origin": "http://localhost"})
        service.post("/click", {"query": "New York", "clicked": ["t4"]})
        service.post("/click", {"query": "hotels", "shown": ["t0"]})
        told = service.client.get("/queries").json()
    assert (told["searches"], told["clicks"], told["different"], told["dropped"]) == (7, 1, 4, 0)
    assert [(row["query"], row["searches"]) for row in told["frequent"][:2]] == [("hotels", 3), ("new york", 2)]
    assert told["frequent"][1]["clicks"] == 1
    assert [row["query"] for row in told["without_results"]] == ["ЖЖЖ"]
    assert {row["query"] for row in told["without_clicks"]} == {"hotels", "ЖЖЖ", "cheap"}


def test_without_the_option_nothing_is_kept(reading: Running) -> None:
    refused = reading.client.get("/queries")
    assert refused.status_code == 404
    assert "--log-queries" in refused.json()["error"]["message"]
    assert reading.service.queries is None


def test_queries_need_the_key_for_writing(read_index: Path, tmp_path: Path) -> None:
    keys = {name: Keys((b"x" * 32,)) for name in ("read_keys", "write_keys")}
    with running(read_index, tmp_path, log_queries=True, **keys) as service:
        assert service.client.get("/queries").status_code == 401
    with running(read_index, tmp_path, log_queries=True, read_keys=keys["read_keys"]) as service:
        assert service.client.get("/queries").status_code == 403


@pytest.mark.slow
def test_all_workers_are_counted(write_index: Path) -> None:
    with Program(write_index, "--workers", 2, "--log-queries") as program:
        for _ in range(20):
            program.client.post("/search", json={"query": "new york"}, headers={"connection": "close"})

        def is_complete() -> bool:
            frequent = program.client.get("/queries").json()["frequent"]
            return bool(frequent) and frequent[0]["searches"] == 20

        until(is_complete)
