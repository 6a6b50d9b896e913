"""Measure reading, counting, cleaning and splitting a large click log.

    python benchmarks/logs.py [--lines 5000000] [--memory 2GB] [--at FOLDER]

The log is a TSV file with times, clients, queries and titles. Queries follow Zipf's law. The number of queries to draw
from is a tenth of the lines, that of titles a twenty-fifth. The first measurement reads the log and counts lines,
clicks and distinct queries, titles and pairs. The second one is `clickvec prepare --memory`, which cleans the log,
holds queries out and writes a data folder. Each runs in its own process. Memory is the peak of the resident memory of
that process, mapped files included. CPU seconds are those of all threads: two cores that do nothing else need at least
half as many. A log that --at holds from an earlier run is used again. Needs Linux. The last line is JSON.
"""

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BLOCK = 500_000
WORDS = 60_000
MONTH = 30 * 86_400
START = 1_700_000_000

# VmHWM, and not ru_maxrss, which starts from the memory of the process that forks.
PEAK = (
    "import time; print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0], "
    "time.process_time())"
)
PREPARE = f"import sys; from clickvec.cli.app import app; app(sys.argv[1:], standalone_mode=False); {PEAK}"
COUNT = f"""
import json, sys
from pathlib import Path
from clickvec.data.on_disk.log_store import open_store
from clickvec.data.logs import read_events
with open_store(Path(sys.argv[1]).with_name("count"), int(sys.argv[2])) as store:
    for events in read_events(sys.argv[1]):
        store.add(events)
    print(json.dumps(store.count()))
{PEAK}
"""


def texts(count: int, least: int, most: int, seed: int) -> list[str]:
    """Return texts of so many words, some of which are much more frequent than others."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = ["".join(letters[rng.integers(0, len(letters), length)]) for length in rng.integers(2, 10, WORDS)]
    lengths = rng.integers(least, most + 1, count)
    chosen = iter((WORDS ** rng.random(int(lengths.sum()))).astype(int).tolist())
    return [" ".join([words[next(chosen)] for _ in range(length)]) for length in lengths.tolist()]


def write_log(path: Path, lines: int) -> None:
    """Write a log of simulated clicks, in the order of their times."""
    rng = np.random.default_rng(0)
    queries, titles = texts(lines // 10, 1, 5, 1), texts(lines // 25, 3, 9, 2)
    with path.open("w") as file:
        file.write("time\tclient\tquery\ttitle\tclicks\n")
        for first in range(0, lines, BLOCK):
            size = min(BLOCK, lines - first)
            query = np.minimum(len(queries) ** rng.random(size), len(queries) - 1).astype(np.int64)
            title = (query * 7919 + (8 ** rng.random(size)).astype(np.int64)) % len(titles)
            client = rng.integers(0, max(lines // 20, 1), size)
            seconds = START + (first + np.arange(size)) * MONTH // lines
            columns = (
                map(str, seconds.tolist()), map("c{:x}".format, client.tolist()),
                map(queries.__getitem__, query.tolist()), map(titles.__getitem__, title.tolist()),
            )  # fmt: skip
            file.write("".join([f"{a}\t{b}\t{c}\t{d}\t1\n" for a, b, c, d in zip(*columns, strict=True)]))


def measured(program: str, *arguments: str, lines: int) -> dict[str, float]:
    """Run a program that prints its peak memory in KiB at the end."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - started
    print("\n".join(done.stdout.splitlines()[:-1]))
    peak, cpu = map(float, done.stdout.split()[-2:])
    return {"seconds": seconds, "cpu_seconds": cpu, "lines_per_second": lines / seconds, "peak_mb": peak * 1.024e-3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--at", type=Path, help="the folder for the log and the data folder")
    arguments = parser.parse_args()
    lines, report = arguments.lines, {}
    with tempfile.TemporaryDirectory(dir=arguments.at) as place:
        log = (arguments.at or Path(place)) / f"log-{lines}.tsv"
        if not log.exists():
            # In another process, as this one's memory would count as that of the processes that it starts.
            writer = multiprocessing.get_context("spawn").Process(target=write_log, args=(log, lines))
            writer.start()
            writer.join()
        print(f"{lines:,} lines, {log.stat().st_size / 1e6:,.0f} MB, {os.cpu_count()} cores")
        report["count"] = measured(COUNT, str(log), str(2 * 10**9), lines=lines)
        options = "--memory", arguments.memory, "--max-per-hour", "100", "--hold-out"
        data = str(Path(place) / "data")
        report["prepare"] = measured(PREPARE, "prepare", str(log), "--out", data, *options, lines=lines)
        for name, row in report.items():
            print(
                f"{name:8} {row['seconds']:7.1f} s, {row['lines_per_second']:9,.0f} lines/s   "
                f"{row['cpu_seconds']:7.1f} s of CPU time, {lines / row['cpu_seconds']:9,.0f} lines/s   "
                f"{row['peak_mb']:,.0f} MB"
            )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
