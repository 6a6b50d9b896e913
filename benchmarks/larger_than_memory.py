"""Measure training from a data folder of which at most a quarter is in memory.

    python benchmarks/larger_than_memory.py [--pairs 300000] [--runs 2]

The log is that of benchmarks/growth.py. It is trained on for one epoch with the recipe `default`, in its own process,
with and without a limit in turn. With the limit, training is told that a quarter of the size of the data folder's
arrays is available, and it copies windows to memory (clickvec/training/windows.py), which take half of the limit. The
other half is for the page cache. That limit is not one of the system, which would need a control group. A thread asks
the system every 10 ms how much of the arrays is in the page cache. If it is too much, the thread drops all of it, so
that training reads it from disk again. This is stricter than a limit that drops the oldest pages. Without the limit,
the thread asks and drops nothing. The memory of the model, the optimizer, the order of the pairs and the mined titles
is not limited. Needs Linux. The last line is JSON.
"""

import argparse
import ctypes
import json
import logging
import mmap
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np


class Evictor(threading.Thread):
    """Keep at most `limit` bytes of a mapped file in the page cache."""

    def __init__(self, array: np.ndarray, path: Path, limit: int) -> None:
        super().__init__(daemon=True)
        while not isinstance(array, np.memmap) or not isinstance(array._mmap, mmap.mmap):
            array = array.base
        self.map, self.file, self.limit, self.drops = array._mmap, os.open(path, os.O_RDONLY), limit, 0
        self.address = np.frombuffer(self.map, np.uint8).ctypes.data
        self.size = os.fstat(self.file).st_size
        self.looks = self.seen = 0

    def cached(self) -> int:
        """Return the bytes of the file that are in the page cache."""
        pages = (ctypes.c_ubyte * (-(-self.size // mmap.PAGESIZE)))()
        if ctypes.CDLL(None, use_errno=True).mincore(ctypes.c_void_p(self.address), ctypes.c_size_t(self.size), pages):
            raise OSError(ctypes.get_errno(), "mincore")
        return int((np.frombuffer(pages, np.uint8) & 1).sum()) * mmap.PAGESIZE

    def run(self) -> None:
        """Look every 10 ms."""
        while True:
            cached = self.cached()
            self.looks, self.seen = self.looks + 1, self.seen + cached
            if cached > self.limit:
                self.drop()
            time.sleep(0.01)

    def drop(self) -> None:
        """Drop the file from the page cache."""
        self.map.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)
        self.drops += 1


def train(folder: Path, limited: bool) -> None:
    """Train for one epoch. Print pairs/s, windows, drops, and the mean part of the data in memory."""
    from clickvec.config import recipe
    from clickvec.data import data_folder
    from clickvec.training import windows
    from clickvec.training.loop import run_training

    messages: list[str] = []
    logger, handler = logging.getLogger("clickvec"), logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    data, path = data_folder.load(folder), folder / "data.safetensors"
    size = path.stat().st_size
    memory, copied = size // 4, list[int]()
    evictor = Evictor(data.pair_query, path, memory - 2 * (memory // windows.SHARE) if limited else 2**63)
    if limited:
        evictor.drop()
        copy = windows.copy_window

        def count(*arguments: Any) -> windows.Window:  # noqa: ANN401
            window = copy(*arguments)
            copied.append(sum(array.nbytes for array in window.arrays()))
            return window

        windows.available_memory, windows.copy_window = lambda: memory, count
    evictor.start()
    started = time.process_time()
    run_training(data, recipe("default", epochs=1), folder.with_name(f"model-{os.getpid()}"), device="cpu")
    rate = next(
        float(found[1].replace(",", "")) for text in messages if (found := re.search(r"([\d,]+) pairs/s", text))
    )
    processor = len(data.pair_query) / (time.process_time() - started)
    used = (evictor.seen / evictor.looks + 2 * max(copied, default=0)) / size
    row = {"windows": len(copied), "drops": evictor.drops, "used": used}
    print(json.dumps({"pairs_per_second": rate, "by_cpu_time": processor} | row))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limited", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments.train, arguments.limited)
        return
    from growth import prepare

    rates: dict[str, list[float]] = {"in memory": [], "a quarter in memory": []}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "data"
        prepare(arguments.pairs, folder)
        os.sync()  # only pages that are on disk can be dropped
        print(f"{arguments.pairs:,} pairs, {(folder / 'data.safetensors').stat().st_size / 1e6:,.0f} MB")
        for _ in range(arguments.runs):
            for name, option in (("in memory", []), ("a quarter in memory", ["--limited"])):
                call = [sys.executable, __file__, "--train", str(folder), *option]
                done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
                row = json.loads(done.stdout.splitlines()[-1])
                rates[name].append(row["pairs_per_second"])
                print(
                    f"{name:20} {row['pairs_per_second']:7,.0f} pairs/s, {row['by_cpu_time']:,.0f} by CPU time; "
                    f"{row['windows']} windows, {row['drops']:,} drops, mean {row['used']:.0%} in memory",
                    flush=True,
                )
    ratios = [limited / free for free, limited in zip(*rates.values(), strict=True)]  # of neighbours: the load changes
    print(f"ratio {statistics.median(ratios):.2f} (median of {', '.join(f'{ratio:.2f}' for ratio in ratios)})")
    print(json.dumps({"pairs": arguments.pairs, **rates, "ratio": statistics.median(ratios)}))


if __name__ == "__main__":
    main()
