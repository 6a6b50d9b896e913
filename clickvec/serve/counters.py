"""Counts and latencies of requests, as Prometheus text.

The counts of all workers are in one anonymous shared mapping that is made before they are forked. Each worker writes to
its own row, from its event loop only, so no lock is needed; a scrape sums the rows, whichever worker answers it. A
worker that replaces a dead one continues its row, so that no count ever falls.
"""

import mmap
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds
STATUSES = (200, 202, 204, 304, 400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 500, 503, 504)
OTHER = "other"  # a path that no endpoint has; an unexpected status


class Counters:
    """The counts of all workers."""

    def __init__(self, endpoints: Sequence[str], workers: int = 1) -> None:
        self.endpoints = {name: row for row, name in enumerate((*endpoints, OTHER))}
        self._statuses = {status: column for column, status in enumerate(STATUSES)}
        shape = (workers, len(self.endpoints), len(STATUSES) + 1 + len(BUCKETS) + 2)
        self._memory = mmap.mmap(-1, 8 * int(np.prod(shape)))
        self._values = np.frombuffer(self._memory, np.float64).reshape(shape)

    def count(self, worker: int, endpoint: str, status: int, seconds: float) -> None:
        """Count one request."""
        row = self._values[worker, self.endpoints.get(endpoint, len(self.endpoints) - 1)]
        row[self._statuses.get(status, len(STATUSES))] += 1
        bucket = next((place for place, limit in enumerate(BUCKETS) if seconds <= limit), len(BUCKETS))
        row[len(STATUSES) + 1 + bucket] += 1
        row[-1] += seconds

    def requests(self, endpoint: str) -> int:
        """Return the number of requests of an endpoint, over all workers."""
        return int(self._buckets(endpoint).sum())

    def within(self, endpoint: str, share: float) -> float | None:
        """Return within how many seconds this share of the requests was answered: the bound of a bucket.

        Return None if that is longer than the longest bound.
        """
        counts = np.cumsum(self._buckets(endpoint))
        bucket = int(np.searchsorted(counts, share * counts[-1]))
        return BUCKETS[bucket] if bucket < len(BUCKETS) else None

    def _buckets(self, endpoint: str) -> NDArray[np.float64]:
        counts: NDArray[np.float64] = self._values[:, self.endpoints[endpoint], len(STATUSES) + 1 : -1].sum(axis=0)
        return counts

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Return the counts of all workers, and `gauges`: a help text and a value for each name."""
        values = self._values.sum(axis=0)
        lines = [
            "# HELP clickvec_requests_total Requests by endpoint and status.",
            "# TYPE clickvec_requests_total counter",
        ]
        for endpoint, row in self.endpoints.items():
            for status, count in zip((*STATUSES, OTHER), values[row, : len(STATUSES) + 1].tolist(), strict=True):
                if count:
                    lines.append(f'clickvec_requests_total{{endpoint="{endpoint}",status="{status}"}} {count:.0f}')
        name = "clickvec_request_seconds"
        lines += [f"# HELP {name} Time from the headers of a request to its answer.", f"# TYPE {name} histogram"]
        for endpoint, row in self.endpoints.items():
            counts = np.cumsum(values[row, len(STATUSES) + 1 : -1]).tolist()
            if not counts[-1]:
                continue
            for limit, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                lines.append(f'{name}_bucket{{endpoint="{endpoint}",le="{limit}"}} {count:.0f}')
            lines.append(f'{name}_sum{{endpoint="{endpoint}"}} {values[row, -1]:.6f}')
            lines.append(f'{name}_count{{endpoint="{endpoint}"}} {counts[-1]:.0f}')
        for name, (about, value) in gauges.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge", f"{name} {value:.15g}"]
        return "\n".join(lines) + "\n"
