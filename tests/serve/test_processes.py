"""`clickvec serve` as a program: start, signals, workers, and two services of one index."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NoReturn

import httpx
import pytest
from command import check_tells, ok, refused, run
from serving import PROGRAM, Program, until

from clickvec.serve import supervisor as supervisor_module
from clickvec.serve.application import NAMES
from clickvec.serve.counters import Counters
from clickvec.serve.limits import Settings
from clickvec.serve.query_counts import SharedCounts
from clickvec.serve.server import listen
from clickvec.serve.supervisor import Supervisor


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("needs /proc")
    return [int(child) for child in path.read_text().split()]


def _is_running(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_it_answers_stops_and_leaves_nothing(write_index: Path, tmp_path: Path) -> None:
    with Program(write_index) as program:
        assert program.client.post("/search", json={"query": "new york"}).json()["hits"]
        assert program.client.get("/readyz").json()["writable"]
        assert program.stop() == 0
    assert any('"endpoint":"POST /search"' in line for line in program.lines)
    assert "torch" not in "".join(program.lines)


def test_running_requests_are_finished_before_it_stops(write_index: Path) -> None:
    body = b'{"documents": [{"id": "z", "title": "zebra crossing"}]}'
    head = (
        b"POST /documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with Program(write_index) as program:
        with socket.create_connection(("127.0.0.1", program.port), timeout=20) as connection:
            connection.sendall(head % len(body) + body[:10])
            time.sleep(0.2)
            assert program.client.get("/healthz").status_code == 200  # so the request has begun
            program.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            connection.sendall(body[10:])
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        assert program.wait() == 0
    assert ok("search", write_index, "zebra crossing", "-k", "1")


def test_a_second_signal_stops_at_once(write_index: Path) -> None:
    with Program(write_index) as program, socket.create_connection(("127.0.0.1", program.port)) as connection:
        connection.sendall(
            b"POST /click HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        )
        time.sleep(0.2)
        program.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert program.process.poll() is None
        assert program.stop(signal.SIGTERM, timeout=3) == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_share_the_index_and_stop_together(number: int, write_index: Path) -> None:
    with Program(write_index, "--workers", 2) as program:
        until(lambda: len(children(program.process.pid)) == 2)
        processes = children(program.process.pid)
        _wait_until_ready(program)
        added = program.client.post("/documents", json={"documents": [{"id": "z", "title": "zebra crossing"}]})
        assert added.status_code == 200, added.text
        until(lambda: all(_find(program, "zebra") == ["z"] for _ in range(20)), seconds=5)
        searches = 40
        counted = sum(
            float(line.rsplit(" ", 1)[1])
            for line in program.client.get("/metrics").text.splitlines()
            if line.startswith("clickvec_requests_total") and "/search" in line
        )
        assert counted >= searches // 2
        assert program.stop(number) == 0
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def test_a_worker_that_dies_is_replaced(write_index: Path) -> None:
    with Program(write_index, "--workers", 2) as program:
        _wait_until_ready(program)
        before = children(program.process.pid)
        os.kill(before[1], signal.SIGKILL)
        until(lambda: len(children(program.process.pid)) == 2 and before[1] not in children(program.process.pid))
        until(lambda: _add(program, "y", "yellow submarine") == 200)
        until(lambda: _find(program, "submarine") == ["y"])
        assert program.stop() == 0
    assert any("is replaced" in line for line in program.lines)


def test_workers_that_stop_refuse_new_connections_and_finish_their_requests(write_index: Path) -> None:
    def is_refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", program.port)).close()
        except ConnectionRefusedError:
            return True
        return False

    with Program(write_index, "--workers", 2) as program:
        _wait_until_ready(program)
        with socket.create_connection(("127.0.0.1", program.port), timeout=20) as connection:
            connection.sendall(
                b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Expect: 100-continue\r\nContent-Length: 16\r\n\r\n"
            )
            assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
            program.process.send_signal(signal.SIGTERM)
            until(is_refused)
            assert program.process.poll() is None
            connection.sendall(b'{"query": "new"}')
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
        assert program.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_no_process_outlives_the_supervisor(number: int, write_index: Path) -> None:
    with Program(write_index, "--workers", 2) as program:
        _wait_until_ready(program)
        processes = children(program.process.pid)
        assert len(processes) == 2
        assert program.stop(number) == (0 if number == signal.SIGHUP else -number)
        until(lambda: not any(map(_is_running, processes)))


def test_it_stops_while_it_is_about_to_replace_a_worker(write_index: Path) -> None:
    with Program(write_index, "--workers", 2) as program:
        os.kill(children(program.process.pid)[-1], signal.SIGKILL)
        until(lambda: any("is replaced" in line for line in program.lines))
        assert program.stop() == 0


def test_the_supervisor_ignores_children_that_it_did_not_start(write_index: Path, tmp_path: Path) -> None:
    settings = Settings(index=write_index, click_log=tmp_path / "clicks.jsonl")
    with listen("127.0.0.1", 0) as listener:
        supervisor = Supervisor(settings, listener, Counters(NAMES), SharedCounts())
        orphan = subprocess.Popen(["true"])  # process 1 of a container inherits such ones
        supervisor._wait()
        orphan.returncode = 0
        assert not supervisor._children


@pytest.mark.parametrize("has_opened", [False, True])
def test_a_worker_that_cannot_open_the_index_ends_only_a_service_that_never_answered(
    has_opened: bool, write_index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int, *more: object) -> NoReturn:
        os._exit(supervisor_module._CANNOT_OPEN)

    monkeypatch.setattr(supervisor_module, "_SOON", 0.0)
    settings = Settings(index=write_index, click_log=tmp_path / "clicks.jsonl")
    with listen("127.0.0.1", 0) as listener:
        supervisor = Supervisor(settings, listener, Counters(NAMES), SharedCounts())
        monkeypatch.setattr(supervisor, "_run_child", fail)
        if has_opened:  # then a database has died, and the worker tries again until it is back
            supervisor._on_open()
        supervisor._start(1)
        supervisor._wait()
        assert [number for number, _ in supervisor._children.values()] == ([1] if has_opened else [])
        assert supervisor._has_failed != has_opened
        for child in supervisor._children:
            os.waitpid(child, 0)


def test_two_services_change_the_same_index(write_index: Path) -> None:
    with Program(write_index) as first, Program(write_index) as second:
        assert second.client.get("/readyz").json()["writable"]
        for program, other, doc_id in ((first, second, "z"), (second, first, "q")):
            assert _add(program, doc_id, f"zebra {doc_id}") == 200
            assert doc_id in _find(program, "zebra")
            until(lambda other=other, doc_id=doc_id: doc_id in _find(other, "zebra"), seconds=2)


def test_a_damaged_index_is_told_and_derived_files_are_built_again(write_index: Path) -> None:
    vectors = next(write_index.glob("segments/*/vectors.npy"))
    data = bytearray(vectors.read_bytes())
    data[-1] ^= 255
    vectors.write_bytes(data)
    with Program(write_index, "--workers", 2) as program:
        _wait_until_ready(program)
        assert program.client.post("/search", json={"query": "new york"}).json()["hits"]
        assert program.stop() == 0
    (write_index / "documents.sqlite").write_bytes(b"not a database" * 1000)
    for workers in (1, 2):
        done = _run(write_index, "--port", 0, "--workers", workers)
        assert done.returncode == 1
        assert "documents.sqlite" in done.stderr
        assert "Traceback" not in done.stderr


def test_other_machines_need_keys(write_index: Path, tmp_path: Path) -> None:
    check_tells(refused("serve", write_index, "--host", "0.0.0.0"), "--read-key-file", "--insecure")
    key = ok("serve", "--new-key", tmp_path / "keys").strip()
    check_tells(refused("serve", write_index, "--host", "0.0.0.0", "--read-key-file", tmp_path / "keys"), "--insecure")
    assert key.startswith("cv_")
    assert key not in (tmp_path / "keys").read_text()


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ("*", "key for reading"),
        ("null", "key for reading"),
        ("shop.example", "https://"),
        ("https://shop.example/", "not an origin"),
    ],
)
def test_origins_that_would_let_every_page_in_need_a_key(read_index: Path, origin: str, told: str) -> None:
    check_tells(refused("serve", read_index, "--cors", origin), told)


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        (("nowhere",), "no index folder", 1),
        ((), "INDEX", 2),
        (("nowhere", "--port", "99999"), "--port", 2),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], told: str, code: int) -> None:
    done = run("serve", *arguments)
    assert done.status == code
    assert told in done.err


def test_a_port_that_is_taken_is_told(write_index: Path) -> None:
    with Program(write_index) as program:
        check_tells(refused("serve", write_index, "--port", str(program.port)), program.port)


def test_it_imports_no_torch(read_index: Path) -> None:
    code = "import sys, clickvec.serve.supervisor, clickvec.cli.serve_verb; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode == 0


def _run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*PROGRAM, "serve", *map(str, arguments)], capture_output=True, text=True, timeout=30, check=False
    )


def _add(program: Program, doc_id: str, title: str) -> int:
    return program.client.post("/documents", json={"documents": [{"id": doc_id, "title": title}]}).status_code


def _find(program: Program, query: str) -> list[str]:
    with httpx.Client(base_url=program.client.base_url, trust_env=False) as client:  # any worker
        return [hit["id"] for hit in client.post("/search", json={"query": query, "mode": "words"}).json()["hits"]]


def _wait_until_ready(program: Program) -> None:
    def ready() -> bool:
        try:
            return program.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    until(ready)
