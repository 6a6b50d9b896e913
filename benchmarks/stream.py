"""Measure memory and speed of `clickvec encode`: peak memory must not grow with the number of titles.

    python benchmarks/stream.py [--titles 1000000 3000000] [--files npy] [--work DIR]

A model of the paper's size (50,000 trigrams, 96 cells) and titles of nine words, one of which is new in every title,
so that the table of known words fills up again and again. Writes .npy, and Parquet if pyarrow is installed. Seconds
are wall clock on all cores; CPU seconds are the sum over all cores. The last line is JSON.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from clickvec.config import Tower
from clickvec.evaluation.result import text_table
from clickvec.lab.simulate.site import Site
from clickvec.model import folder, forward
from clickvec.text.trigrams import Vocabulary

TRIGRAMS, WORDS = 50_000, 9
CHILD = (
    "import resource, sys; from clickvec.cli.app import app; app(sys.argv[1:], standalone_mode=False); "
    "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_maxrss, used.ru_utime + used.ru_stime)"
)


def write_titles(path: Path, count: int, words: list[str]) -> None:
    """Write titles of eight words of the built-in log and a unique number."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        file.write("title\n")
        for first in range(0, count, 10_000):
            rows = rng.integers(0, len(words), (min(10_000, count - first), WORDS - 1)).tolist()
            file.writelines(
                f"{' '.join(words[place] for place in row)} {first + number}\n" for number, row in enumerate(rows)
            )


def full_size_model(path: Path, words: list[str]) -> None:
    """Write a model with random weights, the trigrams of the words, and artificial ones up to 50,000."""
    known = Vocabulary.count([*words, *map(str, range(1000))]).trigrams
    trigrams = (*known, *(f"{number:05x}" for number in range(TRIGRAMS - len(known))))
    rng, tower = np.random.default_rng(0), Tower()
    weights = {
        f"shared.{name}": rng.normal(0, 0.05, shape).astype(np.float32)
        for name, shape in forward.shapes(tower, len(trigrams)).items()
    }
    folder.save_model(folder.Model(tower, True, 10, trigrams, weights, {}), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titles", type=int, nargs="+", default=[1_000_000, 3_000_000])
    parser.add_argument("--files", nargs="+", choices=["npy", "parquet"], default=["npy", "parquet"])
    parser.add_argument("--work", type=Path, help="where there is room for the files")
    options = parser.parse_args()
    words = sorted({word for title in Site.build(0).titles.text for word in title.split()})
    endings = [file for file in options.files if file == "npy" or importlib.util.find_spec("pyarrow")]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.work) as place:
        model, titles = Path(place) / "model", Path(place) / "titles.txt"
        full_size_model(model, words)
        for ending in endings:
            for count in options.titles:
                write_titles(titles, count, words)
                out = Path(place) / f"out.{ending}"
                call = [sys.executable, "-c", CHILD, "encode", str(model), str(titles), "--out", str(out)]
                started = time.perf_counter()
                done = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True)
                taken = time.perf_counter() - started
                *_, peak, processor = done.stdout.split()
                rows.append(
                    {"file": ending, "titles": count, "peak MB": int(peak) / 1024, "seconds": taken,
                     "titles/s": count / taken, "CPU seconds": float(processor),
                     "titles/s per core": count / float(processor), "file MB": out.stat().st_size / 1e6}
                )  # fmt: skip
                out.unlink()
    cells = [[f"{value:,.0f}" if not isinstance(value, str) else value for value in row.values()] for row in rows]
    print(text_table([list(rows[0]), *cells]))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
