"""Measure the HTTP service: requests/s, latency, the cost of writes and explanations, and the time to start.

    python benchmarks/serve.py MODEL TEXTS... --out DIR [--sizes 100000,1000000] [--seconds 10] [--workers 2]

TEXTS are click logs (TSV with a header, plain or gzip); their distinct titles and queries are the catalogue, and other
queries of them are the requests. Indexes are built in DIR and used again by the next run. The load comes from another
process on the same cores. The baselines are bm25s alone and MiniLM with faiss, behind the same web server
(benchmarks/serve_baselines.py), in the same run. The last line is JSON.
"""

import argparse
import contextlib
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LOAD = [sys.executable, str(HERE / "http_load.py")]


def texts_of(logs: list[Path]) -> Iterator[str]:
    """Yield the distinct titles and queries of click logs."""
    seen: set[int] = set()
    for log in logs:
        with gzip.open(log, "rt", encoding="utf-8") if log.suffix == ".gz" else log.open(encoding="utf-8") as lines:
            names = next(lines).rstrip("\n").split("\t")
            columns = names.index("title"), names.index("query")
            for line in lines:
                fields = line.rstrip("\n").split("\t")
                for column in columns:
                    if (key := hash(fields[column])) not in seen:
                        seen.add(key)
                        yield fields[column]


def build(path: Path, model: Path, logs: list[Path], size: int, search: str) -> dict:
    """Build an index, unless it is there already."""
    from clickvec.model.encoder import Encoder
    from clickvec.search.documents.document import Document
    from clickvec.search.index import Index

    if path.exists():
        return {}
    titles = (title for title, _ in zip(texts_of(logs), range(size), strict=False))
    documents = (Document(number, title, {"n": number % 100}) for number, title in enumerate(titles))
    started = time.perf_counter()
    with Index.create(path, Encoder.load(model), documents, search=search) as index:
        if len(index) < size:
            print(f"The logs have only {len(index):,} different texts.", file=sys.stderr)
    return {"build_seconds": time.perf_counter() - started}


class Served:
    """A web server that runs."""

    def __init__(self, command: list[str], port: int) -> None:
        started = time.perf_counter()
        self.port, self.process = port, subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1):
                break
            if self.process.poll() is not None:
                raise SystemExit(f"{' '.join(command)} has ended")
            time.sleep(0.01)
        self.start_seconds = time.perf_counter() - started

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process and its children so far."""
        pids, total = [self.process.pid], 0.0
        for pid in pids:
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return total

    def load(self, bodies: Path, seconds: float, connections: int = 16, rate: float | None = None) -> dict:
        """Send requests and return what the load process has measured, and CPU time for each request."""
        with self.loading(bodies, seconds, connections, rate) as result:
            pass
        return result

    @contextlib.contextmanager
    def loading(self, bodies: Path, seconds: float, connections: int = 16, rate: float | None = None) -> Iterator[dict]:
        """Do the same while the block runs."""
        options = ["--connections", str(connections), "--seconds", str(seconds)]
        options += ["--rate", str(rate)] if rate else []
        before, result = self.cpu_seconds(), {}
        process = subprocess.Popen([*LOAD, str(self.port), str(bodies), *options], stdout=subprocess.PIPE, text=True)
        yield result
        result |= json.loads(process.communicate()[0])
        count = sum(result["statuses"].values())
        result["cpu_ms"] = 1000 * (self.cpu_seconds() - before) / max(count, 1)

    def stop(self) -> None:
        """Stop it and wait."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


@contextlib.contextmanager
def served(command: list[str], port: int) -> Iterator[Served]:
    """Run a web server."""
    server = Served(command, port)
    try:
        yield server
    finally:
        server.stop()


def service(index: Path, port: int, workers: int, threads: int) -> list[str]:
    """Return the command of our service."""
    return [
        sys.executable, "-m", "clickvec", "serve", str(index), "--port", str(port), "--workers", str(workers),
        "--threads", str(threads), "--access-log", os.devnull, "--click-log", f"{index}.clicks.jsonl",
    ]  # fmt: skip


def write_bodies(folder: Path, logs: list[Path], size: int, count: int) -> dict[str, Path]:
    """Write the requests: searches in each mode, with an explanation, single explanations, and documents."""
    every = [text for text, _ in zip(texts_of(logs[::-1]), range(200_000), strict=False)]
    queries = random.Random(0).sample(every, min(count, len(every)))
    plain: dict[str, list] = {mode: [["POST", "/search", {"query": query[:500], "mode": mode}] for query in queries]
             for mode in ("hybrid", "words", "vectors")}  # fmt: skip
    requests = plain | {
        "one hit": [["POST", "/search", {"query": query[:500], "k": 1}] for query in queries],
        "explained": [["POST", "/search", {"query": query[:500], "k": 1, "explain": True}] for query in queries],
        "writes": [
            ["POST", "/documents", {"documents": [{"id": size + number, "title": query, "payload": {"n": 1}}]}]
            for number, query in enumerate(queries)
        ],
    }  # fmt: skip
    paths = {}
    for name, rows in requests.items():
        paths[name] = folder / f"{name.replace(' ', '-')}.jsonl"
        paths[name].write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return paths


def show(name: str, result: dict) -> None:
    """Print one row."""
    bad = {status: count for status, count in result["statuses"].items() if status != "200"}
    print(
        f"{name:44} {result['per_second']:9,.0f}/s  p50 {result['p50']:8.2f}  p99 {result['p99']:8.2f} ms"
        f"  CPU {result['cpu_ms']:6.2f} ms{f'  {bad}' if bad else ''}", flush=True,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("logs", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--writes", type=float, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=8655)
    parser.add_argument("--baselines", default="bm25s,minilm", help="empty: none")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict] = {}

    def keep(name: str, result: dict) -> None:
        results[name] = result
        show(name, result)

    for size in map(int, options.sizes.split(",")):
        bodies = write_bodies(options.out, options.logs, size, 5_000)
        print(f"\n{size:,} titles, {options.workers} workers, 16 connections, as fast as answers come", flush=True)
        for search in ("exact", "approximate"):
            path = options.out / f"{search}-{size}"
            built = build(path, options.model, options.logs, size, search)
            with served(service(path, options.port, options.workers, options.threads), options.port) as server:
                server.load(bodies["hybrid"], options.seconds)  # warm up: touch the mapped pages, and meet the words
                for mode in ("vectors", "hybrid") if search == "exact" else ("words", "vectors", "hybrid"):
                    keep(f"{size:,} {search} {mode}", server.load(bodies[mode], options.seconds))
            results[f"{size:,} {search} start"] = {"seconds": server.start_seconds} | built
            print(f"{'first answer after':44} {server.start_seconds:9.2f} s", flush=True)
        for name in filter(None, options.baselines.split(",")):
            command = [sys.executable, str(HERE / "serve_baselines.py"), name, *map(str, options.logs),
                       "--size", str(size), "--port", str(options.port), "--out", str(options.out)]  # fmt: skip
            with served(command, options.port) as server:
                server.load(bodies["hybrid"], options.seconds)
                keep(f"{size:,} {name}", server.load(bodies["hybrid"], options.seconds))

    print(f"\n{size:,} titles, approximate, hybrid, {options.rate:g} requests/s whatever happens", flush=True)
    path = options.out / f"approximate-{size}"
    with served(service(path, options.port, options.workers, options.threads), options.port) as server:
        server.load(bodies["hybrid"], options.seconds)
        keep("searches", server.load(bodies["hybrid"], options.seconds, 64, options.rate))
        with server.loading(bodies["writes"], options.seconds, 16, options.writes) as writes:
            keep("searches beside writes", server.load(bodies["hybrid"], options.seconds, 64, options.rate))
        keep(f"{options.writes:g} writes/s", writes)
        print("as fast as answers come", flush=True)
        keep("searches, as many as possible", server.load(bodies["hybrid"], options.seconds))
        with server.loading(bodies["writes"], options.seconds, 16, options.writes) as writes:
            keep("the same beside writes", server.load(bodies["hybrid"], options.seconds))
        print("one connection", flush=True)
        for name in ("one hit", "explained"):
            keep(name, server.load(bodies[name], options.seconds, 1))
    lost = 1 - results["the same beside writes"]["per_second"] / results["searches, as many as possible"]["per_second"]
    added = results["explained"]["p50"] - results["one hit"]["p50"]
    print(
        f"{options.writes:g} writes/s cost {lost:.0%} of the searches. Explaining a hit adds {added:.1f} ms (median)."
    )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
