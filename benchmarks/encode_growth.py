"""Measure how the cost of encoding grows with titles, distinct words, trigrams and cells.

    python benchmarks/encode_growth.py [--titles 10000 100000 1000000] [--draw growth.json FILE.png]

One core, CPU time, titles of nine words. Each point is the best of a few runs, because other programs can only slow a
run down. Distinct words are new to the encoder, so each one needs a new row of its table. Trigrams are those that the
model knows. Recurrent weights are those of 32 to 384 cells; their matrix products alone are the lower bound. *Growth*
is the exponent since the first point: 1 is linear. The last line is JSON, and --draw draws it.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from log_axes import make_logarithmic

from clickvec.config import Tower
from clickvec.evaluation.result import text_table
from clickvec.model import forward
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model

WORDS = 9
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-'"
RNG = np.random.default_rng(0)


class Point(NamedTuple):
    """The cost at one size."""

    what: str
    size: int
    seconds: float
    titles: int


def model(trigrams: int = 50_000, cells: int = 96) -> Encoder:
    """Return the paper's LSTM-RNN in memory, with random weights and this many trigrams."""
    known = tuple("".join(letters) for letters, _ in zip(product(LETTERS, repeat=3), range(trigrams), strict=False))
    tower = Tower(cells=cells)
    shapes = forward.shapes(tower, trigrams)
    weights = {f"shared.{name}": RNG.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    return Encoder(Model(tower, True, 10, known, weights, {}))


def draw_words(count: int) -> list[str]:
    """Return distinct words of seven letters."""
    found: dict[str, None] = {}
    while len(found) < count:
        rows = RNG.integers(0, len(LETTERS), (count, 7)).tolist()
        found |= dict.fromkeys("".join(LETTERS[place] for place in row) for row in rows)
    return list(found)[:count]


def draw_titles(words: list[str], count: int) -> list[str]:
    """Return titles in which every word occurs, if there are enough titles."""
    places = RNG.permutation(np.arange(count * WORDS) % len(words)).reshape(count, WORDS).tolist()
    return [" ".join([words[place] for place in row]) for row in places]


def seconds(run: Callable[[], object], times: int = 3) -> float:
    """Return the minimum CPU time of some runs."""
    found = []
    for _ in range(times):
        started = time.process_time()
        run()
        found.append(time.process_time() - started)
    return min(found)


def by_titles(sizes: list[int]) -> list[Point]:
    """Measure the same two thousand words in more and more titles."""
    encoder, words = model(), draw_words(2_000)
    encoder.encode_document(draw_titles(words, 1_000))
    some = draw_titles(words, 10_000)

    def encode(count: int) -> None:  # in portions: the vectors of a million titles are no part of the cost
        for _ in range(0, count, len(some)):
            encoder.encode_document(some)

    return [Point("titles", size, seconds(lambda: encode(size), 3 if size < 10**6 else 1), size) for size in sizes]  # noqa: B023


def by_words() -> list[Point]:
    """Measure twenty thousand titles with more and more distinct words, all of them new."""
    encoder, points = model(), []
    for size in (1_000, 3_000, 10_000, 30_000, 100_000):
        titles = draw_titles(draw_words(size), 20_000)

        def encode(titles: list[str] = titles) -> None:
            encoder._title._empty_cache()
            encoder.encode_document(titles)

        points.append(Point("distinct words", size, seconds(encode), len(titles)))
    return points


def by_trigrams() -> list[Point]:
    """Measure the same titles of new words with models that know more and more trigrams."""
    titles, points = draw_titles(draw_words(20_000), 20_000), []
    for size in (1_000, 5_000, 20_000, 50_000):
        encoder = model(trigrams=size)
        encoder.encode_document(titles[:100])

        def encode(encoder: Encoder = encoder) -> None:
            encoder._title._empty_cache()
            encoder.encode_document(titles)

        points.append(Point("trigrams", size, seconds(encode), len(titles)))
    return points


def by_cells() -> list[Point]:
    """Measure the same titles of known words with more and more cells, and the matrix products alone."""
    titles, points, limits = draw_titles(draw_words(2_000), 8_192), [], []
    for cells in (32, 64, 96, 192, 384):
        encoder = model(trigrams=5_000, cells=cells)
        encoder.encode_document(titles)
        taken = seconds(lambda: encoder.encode_document(titles))  # noqa: B023
        points.append(Point("recurrent weights", 3 * cells**2, taken, len(titles)))
        y, W_rec = np.ones((1024, cells), np.float32), np.ones((3, cells, cells), np.float32)
        out = np.empty((3, 1024, cells), np.float32)
        alone = seconds(lambda: [np.matmul(y, W_rec, out) for _ in range(8 * (WORDS - 1))])  # noqa: B023
        limits.append(Point("matrix products", 3 * cells**2, alone, len(titles)))
    return points + limits


def draw(points: list[Point], path: Path) -> None:
    """Draw seconds over each size."""
    from clickvec.render.figures.style import GREY, PALE, RUST, TEAL, drawing

    panels = {
        "titles": {"titles": ("encoding", RUST)},
        "distinct words, trigrams": {"distinct words": ("distinct words", TEAL), "trigrams": ("trigrams", PALE)},
        "recurrent weights": {"recurrent weights": ("encoding", RUST), "matrix products": ("matrix products", PALE)},
    }
    with drawing(path, 9.0, 3.2) as figure:
        for axes, (label, curves) in zip(figure.subplots(1, 3), panels.items(), strict=True):
            for what, (name, colour) in curves.items():
                found = [point for point in points if point.what == what]
                sizes, seconds = [point.size for point in found], [point.seconds for point in found]
                axes.plot(sizes, seconds, "o-", color=colour, label=name)
            linear = [seconds[-1] * size / sizes[-1] for size in sizes]
            axes.plot(sizes, linear, "--", color=GREY, linewidth=0.9, label="linear")
            make_logarithmic(axes, label, "seconds")
            axes.legend(loc="lower right", fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titles", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--draw", type=Path, nargs=2, metavar=("JSON", "PNG"))
    options = parser.parse_args()
    if options.draw:
        found, picture = options.draw
        draw([Point(**point) for point in json.loads(found.read_text().splitlines()[-1])], picture)
        return
    if os.environ.get("OMP_NUM_THREADS") != "1":
        sys.exit(subprocess.run([sys.executable, *sys.argv], env={**os.environ, "OMP_NUM_THREADS": "1"}).returncode)
    points = [*by_titles(options.titles), *by_words(), *by_trigrams(), *by_cells()]
    rows: list[list[str]] = []
    firsts: dict[str, Point] = {}
    for point in points:
        first = firsts.setdefault(point.what, point)
        growth = "" if first is point else f"{math.log(point.seconds / first.seconds, point.size / first.size):.2f}"
        rate = f"{point.titles / point.seconds:,.0f}"
        rows.append([point.what, f"{point.size:,}", f"{point.seconds:.3f}", rate, growth])
    print(text_table([["variable", "size", "seconds", "titles/s", "growth"], *rows]))
    print(json.dumps([point._asdict() for point in points]))


if __name__ == "__main__":
    main()
