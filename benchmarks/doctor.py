"""Measure how long `clickvec doctor` takes, and how much memory, on ten million lines.

    python benchmarks/doctor.py [--lines 10000000]

Two logs are written to a temporary folder as plain TSV: impressions of the built-in log with clients, times and
positions; and clicks in which two of three queries are new, so that counts do not fit into memory. `clickvec doctor`
runs in its own process, everything included: start, reading, counting, the sample, and a short training run to measure
its cost. Wall clock, CPU time and peak memory are measured. The last line is JSON.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from clickvec.lab.simulate import Site, impressions
from clickvec.lab.simulate.traffic import encoded_lines

BLOCK = 100_000
CHILD = "from clickvec.cli.app import main; main()"


def write_impressions(path: Path, site: Site, lines: int) -> None:
    """Write every impression of the built-in log."""
    with path.open("wb") as file:
        file.write(b"time\tclient\tquery\ttitle\tposition\tclicked\n")
        for block in encoded_lines(site, impressions(site, lines)):
            file.write(block)


def write_new_queries(path: Path, site: Site, lines: int) -> None:
    """Write clicks in which two of three queries were never typed before."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        file.write("query\ttitle\n")
        for first in range(0, lines, BLOCK):
            rows = min(BLOCK, lines - first)
            queries = [site.queries.text[at] for at in rng.integers(0, len(site.queries), rows).tolist()]
            titles = [site.titles.text[at] for at in rng.integers(0, len(site.titles), rows).tolist()]
            numbers = rng.integers(0, 1_000_000, rows).tolist()
            file.writelines(
                f"{query} {number}\t{title}\n" if number % 3 else f"{query}\t{title}\n"
                for query, number, title in zip(queries, numbers, titles, strict=True)
            )


def measure(path: Path, lines: int) -> dict[str, float]:
    """Run the doctor on a file."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "doctor", str(path), "--json"], check=True, capture_output=True, text=True
    )
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    numbers = {finding["name"]: finding["numbers"] for finding in json.loads(done.stdout)["findings"]}
    assert numbers["lines"]["good"] == lines
    found = {"lines": lines, "seconds": wall, "cpu_seconds": cpu, "peak_mb": after.ru_maxrss / 1024}
    print(
        f"{path.stem:12} {lines:12,} lines {numbers['clicks']['queries']:11,} queries {wall:7.1f} s "
        f"({lines / wall:9,.0f} lines/s) {cpu:7.1f} s of CPU {found['peak_mb']:7,.0f} MB"
    )
    return found


def main() -> None:
    """Measure both logs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    lines = parser.parse_args().lines
    site, results = Site.build(0), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (("impressions", write_impressions), ("new queries", write_new_queries)):
            path = Path(folder) / f"{name}.tsv"
            write(path, site, lines)
            results[name] = measure(path, lines)
            path.unlink()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
