"""Measure the memory of `clickvec prepare` relative to the size of the log.

    python benchmarks/prepare_memory.py [--sizes 20 60 200]

The logs come from the simulator, one line per click: query, title, 1. In the log `repeated`, queries and titles
repeat, as in the built-in log. In the log `distinct`, a number follows each title, so that no two titles are equal.
Each log is prepared in its own process. The ratio is its peak resident memory, minus that of preparing one line, over
the size of the file. Needs Linux. The last line is JSON.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from clickvec.lab.simulate import Site, impressions

MEGABYTE = 1_000_000
BLOCK = 1_000_000  # impressions drawn at a time
# VmHWM, and not ru_maxrss, which starts from the memory of the process that forks.
CHILD = (
    "import sys; from clickvec.cli.app import app; app(sys.argv[1:], standalone_mode=False); "
    "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
)


def clicks(site: Site) -> Iterator[tuple[str, str]]:
    """Yield clicked pairs of the simulated site without end."""
    for seed in count():
        for block in impressions(site, BLOCK, seed):
            chosen = zip(block.query[block.clicked].tolist(), block.title[block.clicked].tolist(), strict=True)
            yield from ((site.queries.text[query], site.titles.text[title]) for query, title in chosen)


def write_log(path: Path, pairs: Iterator[tuple[str, str]], size: int, distinct: bool) -> None:
    """Write a log of at least `size` bytes."""
    written = 0
    with path.open("w", encoding="utf-8") as file:
        written += file.write("query\ttitle\tclicks\n")
        for number, (query, title) in enumerate(pairs):
            written += file.write(f"{query}\t{title}{f' {number}' if distinct else ''}\t1\n")
            if written >= size:
                return


def peak_memory(log: Path, folder: Path) -> int:
    """Return the peak resident memory of preparing a log, in bytes."""
    arguments = ["prepare", str(log), "--out", str(folder), "--overwrite"]
    done = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=True)
    return 1024 * int(done.stdout.split()[-1])


def measure(sizes: list[int]) -> list[dict[str, Any]]:
    """Return one row for each kind and size of log."""
    site, rows = Site.build(0), []
    with tempfile.TemporaryDirectory() as place:
        log, folder = Path(place) / "log.tsv", Path(place) / "data"
        write_log(log, clicks(site), 1, distinct=False)
        bare = peak_memory(log, folder)
        print("log           size MB  peak MB  ratio")
        for kind in ("repeated", "distinct"):
            for size in sizes:
                write_log(log, clicks(site), size * MEGABYTE, distinct=kind == "distinct")
                peak, actual = peak_memory(log, folder), log.stat().st_size
                row = {"log": kind, "size_mb": actual / MEGABYTE, "peak_mb": peak / MEGABYTE}
                rows.append(row | {"ratio": (peak - bare) / actual})
                print(f"{kind:<12}  {size:7,}  {peak / MEGABYTE:7,.0f}  {rows[-1]['ratio']:5.1f}", flush=True)
    return rows


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="memory of clickvec prepare against the size of the log")
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 60, 200], metavar="MB")
    print(json.dumps(measure(parser.parse_args().sizes)))


if __name__ == "__main__":
    main()
