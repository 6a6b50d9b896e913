"""Break the HTTP service in every way we know, and count wrong answers. There must be none.

    python benchmarks/soak_http.py [--requests 1000000] [--idle 1000] [--examples 2000] [--seconds 30]
                                   [--bodies 2000] [--only idle,slow,memory,restarts,schema,bodies]

idle      A thousand idle connections; searches beside them must be answered as before.
slow      Clients that send one byte a second, open a body and never end it, or never read the answer.
memory    A million requests of all kinds, good and bad. Memory after the first tenth and at the end must be the same.
restarts  A worker is killed every second while clients search and write; nothing acknowledged is lost.
schema    schemathesis over the whole API, with many examples: no answer may be a 5xx.
bodies    Hostile requests (hostile_bodies.py): other types, huge, deep, no UTF-8, keys twice, cut off, wrong lengths.
          No answer may be a 5xx, none may hold a path of the server, and the log no traceback.
The last line is JSON.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import hostile_bodies
import httpx
from http_load import as_http
from serving import Program
from tiny import TEXTS, tiny_model

from clickvec.model.encoder import Encoder
from clickvec.search.index import Index

HEAD = b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def make_index(folder: Path) -> Path:
    titles = [f"{text} {number}" for number in range(500) for text in TEXTS]
    payloads = [{"n": number % 7} for number in range(len(titles))]
    Index.build(Encoder.load(tiny_model(folder / "model")), titles=titles, payloads=payloads).save(folder / "index")
    return folder / "index"


def search_for(program: Program, seconds: float) -> Counter:
    """Search for some time and count the statuses."""
    limit, statuses = time.monotonic() + seconds, Counter()
    while time.monotonic() < limit:
        statuses[str(program.client.post("/search", json={"query": random.choice(TEXTS)}).status_code)] += 1
    return statuses


def idle(program: Program, options: argparse.Namespace) -> dict:
    alone = search_for(program, 3)
    connections = [socket.create_connection(("127.0.0.1", program.port)) for _ in range(options.idle)]
    for connection in connections[::2]:  # half of them have made a request before
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    beside = search_for(program, 3)
    for connection in connections:
        connection.close()
    return {"connections": options.idle, "alone": dict(alone), "beside": dict(beside), "wrong": _wrong(alone + beside)}


def slow(program: Program, options: argparse.Namespace) -> dict:
    is_over, ended = threading.Event(), Counter()

    def drip(data: bytes, pause: float) -> None:
        while not is_over.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", program.port)) as connection:
                connection.settimeout(pause)
                for byte in data:
                    connection.sendall(bytes([byte]))
                    with contextlib.suppress(TimeoutError):
                        if connection.recv(4096):
                            ended["refused"] += 1
                            break
                    if is_over.is_set():
                        return

    def never_read() -> None:
        request = as_http("GET", "/openapi.json", None)
        while not is_over.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", program.port)) as connection:
                connection.settimeout(1)
                with contextlib.suppress(TimeoutError):
                    for _ in range(50):
                        connection.sendall(request)
                ended["never read"] += 1
                is_over.wait(1)

    header = b"GET /healthz HTTP/1.1\r\nX-Slow: " + b"a" * 10_000
    body = HEAD % 100_000 + b'{"query": "' + b"a" * 10_000
    threads = [threading.Thread(target=drip, args=(data, 1.0)) for data in (header, body) for _ in range(50)]
    threads += [threading.Thread(target=never_read) for _ in range(5)]
    for thread in threads:
        thread.start()
    statuses = search_for(program, options.seconds)
    is_over.set()
    for thread in threads:
        thread.join()
    return {"slow clients": len(threads), "ended": dict(ended), "searches": dict(statuses), "wrong": _wrong(statuses)}


def memory(program: Program, options: argparse.Namespace) -> dict:
    rng, rows = random.Random(0), []
    for number in range(2_000):
        query = " ".join(rng.choices(" ".join(TEXTS).split(), k=rng.randint(1, 12)))
        rows.append(["POST", "/search", {"query": query, "k": rng.randint(1, 50), "where": {"n": {"lt": 5}}}])
        rows.append(["POST", "/search", {"queries": [query, f"word{number}"], "facets": ["n"]}])
        rows.append(["POST", "/documents", {"documents": [{"id": f"d{number % 300}", "title": query}]}])
        rows.append(["DELETE", f"/documents/d{rng.randint(0, 400)}", None])
        rows.append(["POST", "/search", {"query": number}])
        rows.append(["POST", "/v1/embeddings", {"input": [query, f"text {number}"]}])
        rows.append(["GET", f"/documents/d{rng.randint(0, 400)}", None])
        rows.append(["GET", f"/nowhere/{number}", None])
        rows.append(["POST", "/rerank", {"query": query, "documents": list(TEXTS)}])
        rows.append(["GET", "/metrics", None])
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
        file.flush()
        done, statuses, sizes = 0, Counter(), []
        while done < options.requests:
            command = [sys.executable, str(Path(__file__).parent / "http_load.py"), str(program.port), file.name]
            part = ["--connections", "8", "--seconds", str(min(30, max(1, options.requests / 1_000)))]
            result = json.loads(subprocess.run([*command, *part], check=True, stdout=subprocess.PIPE).stdout)
            done += sum(result["statuses"].values())
            statuses.update(result["statuses"])
            sizes.append((done, _resident(program.process.pid)))
            print(f"  {done:,} requests, {sizes[-1][1]:.1f} MB", file=sys.stderr, flush=True)
    first = next(size for count, size in sizes if count >= min(done, options.requests) / 10)
    bad = sum(count for status, count in statuses.items() if status == "lost" or int(status) >= 500)
    return {"requests": done, "statuses": dict(statuses), "mb": [first, sizes[-1][1]], "wrong": bad}


def restarts(index: Path, options: argparse.Namespace) -> dict:
    acknowledged: set[str] = set()
    statuses, kills, is_over = Counter(), 0, threading.Event()
    with Program(index, "--workers", 2) as program:

        def write(writer: int) -> None:
            for number in range(10**9):
                if is_over.is_set():
                    return
                doc_id = f"r{writer}-{number}"
                body = {"documents": [{"id": doc_id, "title": f"restart {number}"}]}
                try:
                    with httpx.Client(base_url=program.client.base_url, timeout=30, trust_env=False) as client:
                        status = client.post("/documents", json=body).status_code
                        statuses[str(client.post("/search", json={"query": "restart"}).status_code)] += 1
                except httpx.TransportError:
                    statuses["connection lost"] += 1
                    continue
                statuses[f"write {status}"] += 1
                if status == 200:
                    acknowledged.add(doc_id)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
        for thread in threads:
            thread.start()
        limit = time.monotonic() + options.seconds
        while time.monotonic() < limit:
            time.sleep(1)
            children = Path(f"/proc/{program.process.pid}/task/{program.process.pid}/children").read_text().split()
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(random.choice(children)), signal.SIGKILL)
                kills += 1
        is_over.set()
        for thread in threads:
            thread.join()
        program.stop()
    with Index.open(index) as opened:
        lost = sum(opened.get(doc_id) is None for doc_id in acknowledged)
    wrong = sum(count for status, count in statuses.items() if status.isdigit() and int(status) >= 500)
    counts = {"kills": kills, "acknowledged": len(acknowledged), "lost": lost, "wrong": lost + wrong}
    return counts | {"statuses": dict(statuses)}


def schema(program: Program, options: argparse.Namespace) -> dict:
    command = [
        "schemathesis", "run", f"http://127.0.0.1:{program.port}/openapi.json", "--checks", "not_a_server_error",
        "--max-examples", str(options.examples), "--workers", "1", "--no-color",
    ]  # fmt: skip
    program_path = str(Path(sys.executable).parent / command[0])
    with tempfile.TemporaryDirectory() as folder:  # for its cache
        done = subprocess.run([program_path, *command[1:]], capture_output=True, text=True, check=False, cwd=folder)
    lines = done.stdout.splitlines()
    for line in lines[-15:]:
        print(f"  {line}", file=sys.stderr)
    cases = next((line.strip() for line in lines if "generated," in line), "")
    return {"cases": cases, "wrong": int(done.returncode != 0)}


def bodies(program: Program, options: argparse.Namespace) -> dict:
    statuses: dict[str, Counter] = {}
    examples: list[str] = []
    wrong = 0
    for number in range(options.bodies):
        seed = f"{options.seed}-{number}"
        sent = hostile_bodies.request(seed)
        answer = _exchange(program.port, sent.data)
        status = answer[9:12].decode("latin-1") if answer.startswith(b"HTTP/1.1 ") else "closed"
        statuses.setdefault(sent.kind, Counter())[status] += 1
        if status[0] == "5" or str(options.folder).encode() in answer:
            wrong += 1
            examples.append(f"{seed}: {answer[:300]!r}")
    alive = program.client.post("/search", json={"query": TEXTS[0]}).status_code
    tracebacks = sum("Traceback" in line for line in program.lines)
    for kind, counts in sorted(statuses.items()):
        told = ", ".join(f"{status} {count}" for status, count in sorted(counts.items()))
        print(f"  {kind:10} {told}", file=sys.stderr)
    for line in examples[:10]:
        print(f"  {line}", file=sys.stderr)
    wrong += tracebacks + (alive != 200)
    return {
        "bodies": options.bodies,
        "5xx or paths": len(examples),
        "tracebacks": tracebacks,
        "alive": alive,
        "wrong": wrong,
    }


def _exchange(port: int, data: bytes) -> bytes:
    """Send bytes and return the answer. If the service waits for more, say that there is no more."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
        with contextlib.suppress(OSError):  # the service may refuse before it has read everything
            connection.sendall(data)
        while True:
            try:
                part = connection.recv(65_536)
            except TimeoutError:
                if connection.gettimeout() != 2:
                    raise
                connection.settimeout(15)
                connection.shutdown(socket.SHUT_WR)
                continue
            if not part:
                break
            answer += part
    return answer


def _wrong(statuses: Counter) -> int:
    return sum(count for status, count in statuses.items() if status != "200")


def _resident(pid: int) -> float:
    """Return the memory of a process in MB that is not shared with files."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--idle", type=int, default=1_000)
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--bodies", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="idle,slow,memory,restarts,schema,bodies")
    options = parser.parse_args()
    results: dict[str, dict] = {}
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            index = make_index(Path(folder))
            options.folder = folder
            if name == "restarts":
                results[name] = restarts(index, options)
            else:
                limits = ("--read-seconds", 5, "--access-log", os.devnull)
                with Program(index, *limits) as program:
                    sections = {"idle": idle, "slow": slow, "memory": memory, "schema": schema, "bodies": bodies}
                    results[name] = sections[name](program, options)
        print(f"{name}: {results[name]}", flush=True)
    print(json.dumps(results))
    sys.exit(any(result["wrong"] for result in results.values()))


if __name__ == "__main__":
    main()
