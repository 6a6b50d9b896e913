"""Measure how fast the built-in click log is generated, in memory and as files. The last line is JSON.

python benchmarks/simulate.py [impressions ...]
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from clickvec.lab import simulate

COUNTS = (1_000_000, 5_000_000)
TARGET = 200_000  # impressions a second


def draw(site: simulate.Site, count: int) -> float:
    start = time.perf_counter()
    for _ in simulate.impressions(site, count):
        pass
    return time.perf_counter() - start


def write(count: int) -> tuple[float, int]:
    """Return the seconds to write the whole folder, including building the site, and the size of the log."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "log"
        start = time.perf_counter()
        simulate.write(out, count)
        return time.perf_counter() - start, (out / "impressions.tsv.gz").stat().st_size


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(counts: tuple[int, ...]) -> dict[str, object]:
    start = time.perf_counter()
    site = simulate.Site.build()
    build = time.perf_counter() - start
    print(f"the site: {build:.2f} s, {len(site.queries):,} queries, {len(site.titles):,} titles")
    print(f"{'impressions':>12} {'drawn/s':>12} {'written/s':>12} {'log MB':>8} {'peak MB':>8}")
    rows = []
    for count in counts:
        drawn = count / draw(site, count)
        seconds, size = write(count)
        row: dict[str, float] = {
            "impressions": count,
            "drawn_per_s": round(drawn),
            "written_per_s": round(count / seconds),
        }
        row |= {"log_mb": round(size / 1e6, 1), "peak_mb": round(peak_mb())}
        print(f"{count:12,} {drawn:12,.0f} {count / seconds:12,.0f} {row['log_mb']:8} {row['peak_mb']:8}")
        rows.append(row)
    return {"benchmark": "simulate", "target_per_s": TARGET, "build_s": round(build, 2), "runs": rows}


if __name__ == "__main__":
    print(json.dumps(measure(tuple(int(count) for count in sys.argv[1:]) or COUNTS)))
