# ruff: noqa: D102
"""Send HTTP requests over kept-alive connections and measure how long the answers take. A process of its own.

    python benchmarks/http_load.py PORT BODIES --connections 16 --seconds 10             as fast as answers come
    python benchmarks/http_load.py PORT BODIES --connections 64 --seconds 10 --rate 500  so many a second

BODIES is a file of JSON lines `[method, path, body]`, sent in turn. With --rate, latency counts from the moment
at which a request is due, even if all connections are busy then (no coordinated omission). The result is one line of
JSON: answers by status, requests/s, and percentiles of the latency in ms.
"""

import argparse
import asyncio
import json
import time
from collections import Counter, deque
from itertools import cycle
from pathlib import Path

import numpy as np
import uvloop


class Connection(asyncio.Protocol):
    """One kept-alive connection with one request at a time."""

    def __init__(self, load: "Load") -> None:
        self.load, self.buffer, self.needed, self.due = load, b"", 0, 0.0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport) -> None:  # noqa: ANN001
        self.transport = transport
        self.load.free(self)

    def send(self, request: bytes, due: float) -> None:
        self.due = due
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer = self.buffer + data if self.buffer else data
        if not self.needed:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end].lower()
            start = head.find(b"content-length: ") + 16
            self.needed = end + 4 + int(head[start:].split(b"\r\n", 1)[0])
        if len(self.buffer) >= self.needed:
            self.load.done(self, int(self.buffer[9:12]))
            self.buffer, self.needed = b"", 0
            self.load.free(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self.load.idle:
            self.load.idle.remove(self)
        if not self.load.stopped:
            self.load.lost += 1
            if self.due:
                self.load.statuses["lost"] += 1
            self.load.reconnect()


class Load:
    """All connections, and what they have measured."""

    def __init__(self, port: int, requests: list[bytes], rate: float | None) -> None:
        self.port, self.requests, self.rate = port, cycle(requests), rate
        self.statuses: Counter[object] = Counter()
        self.latencies: list[float] = []
        self.waiting: deque[float] = deque()  # times at which requests were due
        self.idle: list[Connection] = []
        self.tasks: list[asyncio.Future] = []
        self.stopped, self.lost, self.most_waiting = False, 0, 0

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: Connection(self), "127.0.0.1", self.port)

    def reconnect(self) -> None:
        self.tasks.append(asyncio.ensure_future(self.connect()))

    def free(self, connection: Connection) -> None:
        connection.due = 0.0
        if self.stopped:
            return
        if self.rate is None:
            connection.send(next(self.requests), time.perf_counter())
        elif self.waiting:
            connection.send(next(self.requests), self.waiting.popleft())
        else:
            self.idle.append(connection)

    def done(self, connection: Connection, status: int) -> None:
        self.latencies.append(time.perf_counter() - connection.due)
        self.statuses[status] += 1

    async def run(self, connections: int, seconds: float) -> dict:
        for _ in range(connections):
            await self.connect()
        started = time.perf_counter()
        if self.rate is None:
            await asyncio.sleep(seconds)
        else:
            for number in range(int(self.rate * seconds)):
                due = started + number / self.rate
                if (delay := due - time.perf_counter()) > 0:
                    await asyncio.sleep(delay)
                if self.idle:
                    self.idle.pop().send(next(self.requests), due)
                else:
                    self.waiting.append(due)
                    self.most_waiting = max(self.most_waiting, len(self.waiting))
            limit = time.perf_counter() + 5
            while len(self.idle) < connections and time.perf_counter() < limit:
                await asyncio.sleep(0.01)
        took = time.perf_counter() - started
        self.stopped = True
        milliseconds = 1000 * np.array(self.latencies or [np.nan])
        return {
            "statuses": {str(status): count for status, count in self.statuses.items()},
            "per_second": len(self.latencies) / took,
            **{f"p{p:g}": float(np.percentile(milliseconds, p)) for p in (50, 90, 99, 99.9)},
            "max": float(milliseconds.max()),
            "most_waiting": self.most_waiting,
        }


def as_http(method: str, path: str, body: object, key: str | None = None) -> bytes:
    """Return the bytes of a request."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    return head.encode() + b"\r\n" + data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("bodies", type=Path)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--key")
    options = parser.parse_args()
    with options.bodies.open(encoding="utf-8") as lines:
        requests = [as_http(*json.loads(line), key=options.key) for line in lines]
    load = Load(options.port, requests, options.rate)
    print(json.dumps(uvloop.run(load.run(options.connections, options.seconds))))


if __name__ == "__main__":
    main()
