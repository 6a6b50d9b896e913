"""Clients that are slow, many, or do not speak HTTP."""

import contextlib
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


def test_connections_leave_some_files_to_the_index(
    read_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clickvec.serve.server.resource.getrlimit", lambda kind: (20, 20))
    with running(read_index, tmp_path) as service:
        connections = [service.connect() for _ in range(30)]
        until(lambda: len(service.server.server_state.connections) <= 10)
        for connection in connections:
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


SEARCH = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def test_a_body_that_nobody_reads_does_not_keep_a_connection_open(read_index: Path, tmp_path: Path) -> None:
    limits = {"read_seconds": 0.3, "idle_seconds": 0.3}
    with running(read_index, tmp_path, limits) as service:
        slow, ended = service.connect(), service.connect()
        slow.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        ended.sendall(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
        assert slow.recv(100).startswith(b"HTTP/1.1 404 ")
        assert ended.recv(100).startswith(b"HTTP/1.1 404 ")
        ended.sendall(b"{}")

        def is_cut_off() -> bool:
            try:
                slow.sendall(b"x")  # which counts as activity
            except OSError:
                return not service.server.server_state.connections
            return False

        until(is_cut_off, 5)
        slow.close()
        ended.close()


def test_trailers_are_not_headers_and_are_limited(read_index: Path, tmp_path: Path) -> None:
    with running(read_index, tmp_path, {"body_bytes": 10_000}) as service:
        chunked = b'Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nd\r\n{"query":"a"}\r\n0\r\n'
        connection = service.connect()
        connection.sendall(SEARCH.replace(b"Content-Type", b"X") + chunked + b"Content-Type: application/json\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 415 ")
        connection = service.connect()
        connection.sendall(SEARCH + chunked)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 10**8:
                sent += connection.send(b"a:b\r\n" * 1000)
        assert sent < 10**8
        assert read_all(connection)[:13] in (b"HTTP/1.1 431 ", b"")  # it may be lost, if the client sends on


def test_what_follows_a_request_does_not_spoil_its_answer(reading: Running) -> None:
    connection = reading.connect()
    connection.sendall(SEARCH + b'Content-Length: 13\r\n\r\n{"query":"a"}garbage\r\n\r\n')
    first, second = read_all(connection).split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 OK")
    assert second.startswith(b"400 ")


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_a_client_that_would_rather_speak_another_protocol_is_answered(reading: Running, protocol: str) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABk\r\n" % protocol.encode()
    request = SEARCH + upgrade + b'Content-Length: 13\r\n\r\n{"query":'
    connection = reading.connect()
    connection.sendall(request)
    time.sleep(0.05)
    connection.sendall(
        b'"a"}' + request + b'"b"}' + b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert read_all(connection).count(b"HTTP/1.1 200 OK") == 3


def test_answers_that_wait_for_their_clients_are_limited(
    read_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clickvec.serve.connections._UNREAD", 8_000_000)
    with running(read_index, tmp_path, {"title_characters": 10**7}) as service:
        service.post("/rerank", {"query": "a", "documents": ["x"]})
        body = json.dumps({"query": "a", "documents": ["x" * 7_000_000]}).encode()
        head = SEARCH.replace(b"/search", b"/rerank") + b"Content-Length: %d\r\n\r\n" % len(body)
        connections = [service.connect() for _ in range(4)]
        for connection in connections:
            connection.sendall(head + body)  # and never read
        until(lambda: len(service.server.server_state.connections) < 4, 20)
        for connection in connections:
            connection.close()
