"""Measure how time and memory of training grow with the number of distinct pairs.

    python benchmarks/growth.py [--full] [--device cuda] [--draw growth.json docs/images/growth.png]

The built-in log has only some hundred thousand distinct pairs, so the words are artificial; the frequencies of words
and letters fall as in `benchmarks/train.py`. Every title has nine words and one click, no two titles are equal, and
the query is three of its words. 50,000 trigrams, 96 cells. Each log is prepared in one process and trained on for one
epoch in another. The first epoch mines no titles, so one mining is timed separately. Recipe `paper` is slower and
gets smaller logs. With --full the largest log has 10^7 pairs, and preparing it needs about 12 GB of memory.

Anonymous memory belongs to the process alone. Mapped pages are pages of files, which the system can reclaim. `train`
is a whole run from data folder to model folder; `CPU` is its CPU time, which other programs disturb less. Slopes are
of log(time) over log(pairs): 1 is linear. The last line is JSON, and --draw draws it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from log_axes import make_logarithmic, power_of_ten
from train import TRIGRAMS, WORDS, made_up_words

if TYPE_CHECKING:
    from clickvec.data.dataset import Dataset

AT_ONCE = 100_000
COUNTS, FULL = (10_000, 100_000, 1_000_000), 10_000_000
LARGEST = {"paper": 100_000, "default": FULL}  # pairs of the largest log; with --full ten times as many, here and
MINED = 100_000  # for the largest log that is mined
COLUMNS = (  # of the table: head, name in a row, digits after the point
    ("     pairs", "pairs", 0), ("prepare s", "prepare_s", 1), ("train s", "train_s", 1),
    ("      CPU s", "processor_s", 1), ("epoch s", "epoch_s", 1), ("  pairs/s", "pairs_per_s", 0),
    (" mine s", "mine_s", 1),
    ("anonymous MB", "anonymous_mb", 0), ("mapped MB", "mapped_mb", 0), ("data MB", "data_mb", 0),
)  # fmt: skip
Row = dict[str, Any]


def made_up(pairs: int) -> tuple[list[str], list[str]]:
    """Return artificial queries and titles."""
    rng = np.random.default_rng(0)
    words = made_up_words(rng).astype(object)
    below = np.cumsum(1 / np.arange(1, WORDS + 1) ** 0.9)
    queries: list[str] = []
    titles: list[str] = []
    for first in range(0, pairs, AT_ONCE):
        rows = np.searchsorted(below, rng.random((min(AT_ONCE, pairs - first), 9)) * below[-1])
        asked = np.take_along_axis(rows, rng.random(rows.shape).argsort(axis=1)[:, :3], axis=1)
        titles += map(" ".join, words[rows].tolist())
        queries += map(" ".join, words[asked].tolist())
    return queries, titles


def with_all_trigrams(data: "Dataset") -> "Dataset":
    """Add trigrams that no word has, so that models of logs of all sizes are equally large."""
    missing = TRIGRAMS - len(data.trigrams)
    return data._replace(trigrams=data.trigrams + tuple(f"~{number}" for number in range(missing)))


def prepare(pairs: int, place: Path) -> Row:
    """Make the data folder of a log, and time the preparation and the writing."""
    from clickvec.data import BadLines, ClickLog, data_folder, dataset

    log = ClickLog(*made_up(pairs), np.ones(pairs), BadLines())
    started, processor = time.perf_counter(), time.process_time()
    data = with_all_trigrams(dataset.prepare(log, 10, TRIGRAMS))
    data_folder.save(data, place)
    seconds, processor = time.perf_counter() - started, time.process_time() - processor
    return {
        "pairs": len(data.pair_query), "queries": len(data.queries.offsets) - 1, "titles": data.clicked_titles,
        "prepare_s": seconds, "prepare_processor_s": processor,
        "data_mb": sum(file.stat().st_size for file in place.iterdir()) / 1e6,
    }  # fmt: skip


class Memory(threading.Thread):
    """Records the peak memory of this process, sampled fifty times per second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.anonymous = self.mapped = self.resident = 0.0
        self.at_first = self._look()
        self.start()

    def _look(self) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        mb = {line.split(":")[0]: int(line.split()[1]) / 1000 for line in lines if line.startswith("Rss")}
        anonymous, mapped = mb["RssAnon"], mb["RssFile"] + mb["RssShmem"]
        self.anonymous, self.mapped = max(self.anonymous, anonymous), max(self.mapped, mapped)
        self.resident = max(self.resident, anonymous + mapped)
        return anonymous

    def run(self) -> None:
        """Sample until the process ends."""
        while True:
            self._look()
            time.sleep(0.02)


def train(place: Path, recipe: str, device: str, mined: int) -> Row:
    """Train one epoch and write the model. For logs of at most `mined` pairs, also time one mining."""
    import torch

    from clickvec.config import recipe as named
    from clickvec.data import data_folder
    from clickvec.training import loop

    chosen = named(recipe, epochs=1)
    on = loop.pick_device(device)
    torch.zeros(1, device=on)
    data, memory = data_folder.load(place), Memory()
    with tempfile.TemporaryDirectory(dir=place.parent) as out:
        started, processor = time.perf_counter(), time.process_time()
        model = loop.run_training(data, chosen, Path(out) / "model", device=device)
        row: Row = {
            "train_s": time.perf_counter() - started, "processor_s": time.process_time() - processor,
            "epoch_s": model.training["kept"]["seconds"],
            "anonymous_mb": memory.anonymous, "at_first_mb": memory.at_first, "mapped_mb": memory.mapped,
            "resident_mb": memory.resident, "loss": model.training["kept"]["loss"],
        }  # fmt: skip
        if on.type == "cuda":
            row["device_mb"] = torch.cuda.max_memory_allocated(on) / 1e6
        if chosen.hard_negatives and len(data.pair_query) <= mined:
            run = loop.Run(data, chosen, Path(out), None, on)
            run.state.epoch = 1  # the first that mines
            started, processor = time.perf_counter(), time.process_time()
            run._mine()
            row |= {"mine_s": time.perf_counter() - started, "mine_processor_s": time.process_time() - processor}
            row |= {"mine_anonymous_mb": memory.anonymous}
    return row


def child(threads: int, *arguments: str) -> Row:
    """Call `prepare` or `train` in its own process and return the result."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def slope(rows: list[Row], name: str) -> float | None:
    """Return the slope of log(name) over log(pairs) by least squares, over the rows that have the value."""
    known = [row for row in rows if name in row]
    if len(known) < 2:
        return None
    return float(np.polyfit(np.log([row["pairs"] for row in known]), np.log([row[name] for row in known]), 1)[0])


def line(recipe: str, row: Row | None) -> str:
    """Return a line of the table; without a row, the header."""
    cells = []
    for head, name, digits in COLUMNS:
        value = f"{row[name]:,.{digits}f}" if row and name in row else "" if row else head
        cells.append(value.rjust(len(head)))
    return f"{recipe:8}" + "  ".join(cells)


def measure(full: bool, device: str, threads: int, within: str | None) -> Row:
    """Measure all logs with all recipes that are fast enough for them."""
    print(f"{TRIGRAMS:,} trigrams, 96 cells, titles of nine words; one epoch on {device}, {threads} threads")
    print(line("recipe", None))
    found: dict[str, list[Row]] = {recipe: [] for recipe in LARGEST}
    more = 10 if full else 1
    for count in (*COUNTS, FULL) if full else COUNTS:
        with tempfile.TemporaryDirectory(dir=within) as folder:
            place = Path(folder) / "data"
            prepared = child(threads, "--prepare", str(count), str(place))
            for recipe, largest in LARGEST.items():
                if count <= largest * more:
                    trained = child(threads, "--train", str(place), recipe, device, str(MINED * more))
                    row = prepared | trained | {"pairs_per_s": prepared["pairs"] / trained["epoch_s"]}
                    found[recipe].append(row)
                    print(line(recipe, row), flush=True)
    slopes = {
        recipe: {name: slope(rows, f"{name}_s") for name in ("prepare", "train", "epoch", "processor", "mine")}
        for recipe, rows in found.items()
    }
    for recipe, values in slopes.items():
        print(f"{recipe:8}slopes: {', '.join(f'{name} {value:.2f}' for name, value in values.items() if value)}")
    return {"device": device, "threads": threads, "rows": found, "slopes": slopes}


def draw(report: Row, path: Path) -> None:
    """Draw time and memory over pairs."""
    from clickvec.render.figures.style import GREY, PALE, RUST, TEAL, drawing

    default, paper = report["rows"]["default"], report["rows"]["paper"]
    with drawing(path, 8.0, 3.6) as figure:
        times, memory = figure.subplots(1, 2)
        for rows, name, label, colour in (
            (paper, "epoch_s", "an epoch of paper", TEAL),
            (default, "epoch_s", "an epoch of default", RUST),
            (default, "prepare_s", "preparing", PALE),
        ):
            times.plot([row["pairs"] for row in rows], [row[name] for row in rows], "o-", color=colour, label=label)
        ends = np.array([default[0]["pairs"], default[-1]["pairs"]])
        linear = default[-1]["epoch_s"] * ends / ends[-1]
        times.plot(ends, linear, "--", color=GREY, linewidth=0.9, label="linear")
        pairs = [row["pairs"] for row in default]
        for name, label, colour, style in (
            ("anonymous_mb", "memory of its own", RUST, "o-"),
            ("mapped_mb", "mapped from disk", PALE, "o-"),
            ("data_mb", "data folder", GREY, "o--"),
        ):
            memory.plot(pairs, [row[name] for row in default], style, color=colour, label=label)
        for axes, label in ((times, "seconds"), (memory, "MB, training default")):
            make_logarithmic(axes, "pairs", label)
            axes.set_xticks(pairs, [power_of_ten(count) for count in pairs])
            axes.legend(loc="lower right", fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--full", action="store_true", help=f"{FULL:,} pairs too")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--within", help="the folder for temporary files, on a disk and not in memory")
    parser.add_argument("--draw", nargs=2, type=Path, metavar=("JSON", "PNG"), help="draw what was printed")
    parser.add_argument("--prepare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--train", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.draw:
        draw(json.loads(options.draw[0].read_text().splitlines()[-1]), options.draw[1])
    elif options.prepare:
        print(json.dumps(prepare(int(options.prepare[0]), Path(options.prepare[1]))))
    elif options.train:
        place, recipe, device, mined = options.train
        print(json.dumps(train(Path(place), recipe, device, int(mined))))
    else:
        print(json.dumps(measure(options.full, options.device, options.threads, options.within)))


if __name__ == "__main__":
    main()
