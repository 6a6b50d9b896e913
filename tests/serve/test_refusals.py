"""Requests that are refused: what is wrong is told as JSON, with the right status, and the service goes on."""

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from serving import Running, running, until
from tiny import TEXTS


def error(answer: httpx.Response) -> tuple[int, str, str]:
    body = answer.json()["error"]
    return answer.status_code, body["code"], body["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nope", 404, "not_found"),
        ("GET", "/page/", 404, "not_found"),
        ("POST", "/", 405, "method_not_allowed"),
        ("POST", "/search/", 404, "not_found"),
        ("GET", "/search", 405, "method_not_allowed"),
        ("PUT", "/documents/1", 405, "method_not_allowed"),
        ("OPTIONS", "/search", 405, "method_not_allowed"),
        ("GET", "/documents/../../etc/passwd", 404, "not_found"),
        ("GET", "/documents/%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404, "not_found"),
        ("GET", "/documents/%00", 404, "not_found"),
        ("GET", "/documents/%ff%fe", 400, "bad_request"),
    ],
)
def test_paths_and_methods(reading: Running, method: str, path: str, status: int, code: str) -> None:
    answer = reading.client.request(method, path)
    assert error(answer)[:2] == (status, code)
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        (b"", 400, "not valid JSON"),
        (b"{", 400, "not valid JSON"),
        (b'{"query": "a"} x', 400, "not valid JSON"),
        (b'{"query": "\xff"}', 400, "not valid JSON"),
        (b'{"query": "\\ud800"}', 400, "not valid JSON"),
        (b"[" * 100_000, 422, ""),
        (b'{"where": ' + b'{"a":' * 50_000, 400, ""),
        (b'{"query": "a", "min_score": NaN}', 400, "not valid JSON"),
        (b"[]", 422, "object"),
        (b"{}", 422, "query or queries"),
        (b'{"query": "a", "queries": ["b"]}', 422, "query or queries"),
        (b'{"query": 1}', 422, "$.query"),
        (b'{"query": "a", "qeury": 1}', 422, "qeury"),
        (b'{"query": "a", "k": 0}', 422, "$.k"),
        (b'{"query": "a", "k": 1e400}', 422, ""),
        (b'{"query": "a", "k": 1001}', 422, "1,000"),
        (b'{"query": "a", "k": 99999999999999999999999999}', 422, ""),
        (b'{"query": "a", "offset": -1}', 422, "$.offset"),
        (b'{"query": "a", "offset": 995}', 422, "1,005"),
        (b'{"query": "a", "mode": "magic"}', 422, "magic"),
        (json.dumps({"query": "a" * 1001}).encode(), 422, "1,001"),
        (json.dumps({"queries": ["a"] * 101}).encode(), 422, "101"),
    ],
)
def test_bodies(reading: Running, body: bytes, status: int, told: str) -> None:
    answer = reading.client.post("/search", content=body, headers={"content-type": "application/json"})
    assert error(answer)[0] == status, answer.text
    assert told in error(answer)[2]
    assert reading.client.get("/healthz").status_code == 200


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
def test_a_body_must_be_declared_as_json(reading: Running, kind: str | None) -> None:
    answer = reading.client.post("/search", content=b'{"query": "a"}', headers={"content-type": kind} if kind else {})
    assert error(answer)[:2] == (415, "unsupported_media_type")
    fine = {"content-type": "Application/JSON; charset=utf-8"}
    assert reading.client.post("/search", content=b'{"query": "a"}', headers=fine).status_code == 200


def test_other_host_names_are_refused(reading: Running) -> None:
    for host in ("evil.example", "evil.example:80", "localhost.evil.example", ""):
        assert error(reading.client.get("/healthz", headers={"host": host}))[:2] == (421, "wrong_host")
    for host in ("localhost:80@evil.example", "localhost:evil.example", "[::1].evil.example", "localhost/", ":80"):
        assert reading.client.get("/healthz", headers={"host": host}).status_code in (400, 421)
    with reading.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 421 ")
    for host in ("localhost", "localhost:9", "127.0.0.1", "[::1]", "[::1]:8080", "LOCALHOST"):
        assert reading.client.get("/healthz", headers={"host": host}).status_code == 200


def test_the_host_is_checked_at_every_loopback_address(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, host="127.0.0.2") as service:
        assert error(service.client.get("/healthz", headers={"host": "evil.example"}))[0] == 421
        assert service.client.get("/healthz", headers={"host": "127.0.0.2:80"}).status_code == 200


def test_a_body_that_is_too_large_is_refused_before_it_is_read(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"body_bytes": 10_000}) as service:
        fine = service.post("/rerank", {"query": "a", "documents": ["b" * 1_000] * 9})
        assert fine.status_code == 200
        declared = service.post("/rerank", {"query": "a", "documents": ["b" * 1_000] * 11})
        assert error(declared)[:2] == (413, "body_too_large")
        assert "10,000" in error(declared)[2]

        def long() -> Iterator[bytes]:
            for _ in range(1_000):
                yield b" " * 1_000

        chunked = service.client.post("/search", content=long(), headers={"content-type": "application/json"})
        assert error(chunked)[0] == 413
        assert service.service.body_bytes == 0
        assert service.client.get("/healthz").status_code == 200


def test_bodies_count_until_their_requests_are_answered(
    read_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clickvec.serve.endpoint._BODIES", 1_000)
    with running(read_index, tmp_path) as service, service.held_searches() as release:
        body = {"query": "a", "facets": ["b" * 800]}
        thread = threading.Thread(target=service.post, args=("/search", body))
        thread.start()
        until(lambda: service.service._running == 1)
        assert error(service.post("/search", body))[:2] == (429, "too_many_requests")
        release.set()
        thread.join(60)
        assert service.post("/search", body).status_code == 200
        assert service.service.body_bytes == 0


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"queries": ["a"] * 20, "k": 51}, "1,020 hits in all queries"),
        ({"queries": ["a"] * 20, "k": 1, "offset": 50}, "1,020 hits in all queries"),
        ({"queries": ["a"] * 50, "k": 1, "facets": ["n"] * 21}, "1,050 facets in all queries"),
    ],
)
def test_many_queries_with_many_results_are_refused(body: object, told: str, read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"documents": 1_000}) as service:
        answer = error(service.post("/search", body))
        assert answer[0] == 422
        assert told in answer[2]


def test_explanations_that_take_too_long_end(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"seconds": 1e-9}) as service:
        assert error(service.post("/search", {"query": "shanghai hotel", "explain": True}))[0] == 504
        until(lambda: service.service._running == 0)


def test_no_memory_is_503(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path) as service:

        def search(*args: object) -> None:
            raise MemoryError

        service.service.index.search = search  # type: ignore[method-assign, assignment]
        assert error(service.post("/search", {"query": "a"}))[:2] == (503, "unavailable")


def test_too_many_requests_get_429_and_finished_ones_free_their_place(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"concurrent": 2}, threads=1) as service, service.held_searches() as release:
        threads = [threading.Thread(target=service.post, args=("/search", {"query": "a"})) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: service.service._running == 2)
        answer = service.post("/search", {"query": "a"})
        assert error(answer)[:2] == (429, "too_many_requests")
        assert int(answer.headers["retry-after"]) >= 1
        assert service.client.get("/healthz").status_code == 200
        release.set()
        for thread in threads:
            thread.join(60)
        assert service.post("/search", {"query": "a"}).status_code == 200
        assert service.service._running == 0


def test_a_request_that_takes_too_long_gets_504_and_keeps_its_place_until_it_ends(
    read_index: Path, tmp_path: Path
) -> None:
    with running(read_index, tmp_path, {"seconds": 0.2}, threads=1) as service, service.held_searches() as release:
        for _ in range(2):  # the second waits for the only thread and never starts
            assert error(service.post("/search", {"query": "a"}))[:2] == (504, "timeout")
        assert service.service._running == 1
        release.set()
        until(lambda: service.service._running == 0)
        until(lambda: service.post("/search", {"query": "a"}).status_code == 200)


def test_cors_is_closed_unless_an_origin_is_named(reading: Running, read_index: Path, tmp_path: Path) -> None:
    origin = {"origin": "https://shop.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in reading.client.options("/search", headers=origin).headers
    with running(read_index, tmp_path, cors=("https://shop.example",)) as service:
        allowed = service.client.options("/search", headers=origin)
        assert allowed.headers["access-control-allow-origin"] == "https://shop.example"
        refused = service.post("/search", {"query": 7}, headers={"origin": "https://shop.example"})
        assert refused.status_code == 422
        assert refused.headers["access-control-allow-origin"] == "https://shop.example"
        other = service.client.options("/search", headers=origin | {"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


def test_an_access_log_that_nobody_reads_stops_nothing_and_lines_are_not_cut(read_index: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with running(read_index, tmp_path, access_log=pipe) as service:
            for _ in range(600):  # over 64 KiB, which a pipe holds
                assert service.client.get("/healthz").status_code == 200
        data = os.read(reader, 2**20)
    finally:
        os.close(reader)
    lines = data.splitlines()
    assert 100 < len(lines) < 600
    assert all(json.loads(line)["status"] == 200 for line in lines)


def test_the_client_in_the_access_log_is_short(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path) as service:
        service.client.get("/healthz", headers={"x-forwarded-for": 'evil"}' * 1_000})
    (line,) = (tmp_path / "access.jsonl").read_text().splitlines()
    assert len(json.loads(line)["client"]) == 64


def test_the_access_log_has_queries_only_if_asked(read_index: Path, tmp_path: Path) -> None:
    for asked in (False, True):
        with running(read_index, tmp_path, log_queries=asked) as service:
            service.post("/search", {"query": TEXTS[0]})
            service.client.get("/documents/secret-id?secret=1")
        lines = [json.loads(line) for line in (tmp_path / "access.jsonl").read_text().splitlines()]
        search, document = lines[-2:]
        assert (search["status"], search["endpoint"], search["worker"]) == (200, "POST /search", 0)
        assert (TEXTS[0] in json.dumps(lines[-2:])) is asked
        assert "secret" not in json.dumps(document)
