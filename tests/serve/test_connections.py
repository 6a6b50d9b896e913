"""Clients that are slow, many, or do not speak HTTP."""

import json
import socket
import time
from pathlib import Path

import pytest
from serving import Running, running, until


def read_all(connection: socket.socket) -> bytes:
    data = b""
    with connection:
        try:
            while block := connection.recv(65536):
                data += block
        except ConnectionResetError:
            pass
    return data


def test_slow_headers_and_bodies_are_cut_off(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"read_seconds": 0.3}) as service:
        silent, slow, body = service.connect(), service.connect(), service.connect()
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localh")
        body.sendall(
            b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        for connection in (silent, slow, body):
            assert read_all(connection).startswith(b"HTTP/1.1 408 ")
        idle = service.connect()
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.5)  # longer than headers may take, but the connection is idle between requests
        idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert read_all(idle).count(b"HTTP/1.1 200 OK") == 2


def test_a_second_request_that_is_slow_is_cut_off_too(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"read_seconds": 0.3}) as service:
        connection = service.connect()
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /heal")
        answer = read_all(connection)
        assert b"HTTP/1.1 200 OK" in answer
        assert b"HTTP/1.1 408 " in answer


def test_requests_in_one_packet_are_answered_in_order(reading: Running) -> None:
    connection = reading.connect()
    connection.sendall(
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nope HTTP/1.1\r\nHost: localhost\r\n\r\n"
        b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    answer = read_all(connection)
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]


def test_headers_that_are_too_long_and_other_protocols_are_refused(reading: Running) -> None:
    for data, status in (
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * 1000) for n in range(50)), 431),
        (b"GET /" + b"a" * 100_000, 431),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
    ):
        connection = reading.connect()
        connection.sendall(data)
        answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


def test_300_idle_connections_do_no_harm(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path) as service:
        idle = [service.connect() for _ in range(300)]
        assert service.post("/search", {"query": "new york"}).json()["hits"]
        for connection in idle:
            connection.close()


def test_more_connections_than_allowed_are_closed(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"connections": 5}) as service:
        assert service.client.get("/healthz").status_code == 200  # keeps one open
        idle = [service.connect() for _ in range(10)]
        assert service.client.get("/healthz").status_code == 200
        closed = 0
        for connection in idle:
            connection.settimeout(0.2)
            try:
                closed += connection.recv(1) == b""
            except ConnectionResetError:
                closed += 1
            except TimeoutError:
                pass
            connection.close()
        assert closed == 6


def test_a_client_that_never_reads_its_answer_is_cut_off(
    read_index: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running(read_index, tmp_path, {"idle_seconds": 0.5}) as service:
        connection = service.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.5)
        try:
            for _ in range(500):
                connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        except (TimeoutError, ConnectionError):
            pass
        assert service.post("/search", {"query": "new york"}).json()["hits"]
        until(lambda: not service.server.server_state.connections)  # that of the search is idle by then
        connection.close()
    assert "failed" not in caplog.text
