"""Find the largest model that encodes as fast as model2vec on one core.

    python benchmarks/encode_sizes.py [--titles FILE ...] [--cells 96 128 160 192 256] [--rounds 7]

Compares our compiled encoder, LSTM-RNN and bidirectional, at several numbers of cells, with model2vec's StaticModel of
256 dimensions, by titles per second of CPU time on one core, from text to vector. Weights are random, because they do
not affect speed. Each round runs every system once on the same titles, so that ratios compare neighbouring runs; the
table shows the median over rounds. Titles:

- *nine words*: 8,192 titles of nine random words, all of them seen before, as in benchmarks/encode.py;
- the titles of each --titles, a catalogue or a click log, or a random sample of 50,000. *First pass*: the encoder is
  new, so it must compute the row of each distinct word once. *Second pass*: the same titles again.

The last line is JSON.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
from encode import ONE_CORE, TRIGRAMS, model2vec, rate, texts

from clickvec.config import Tower
from clickvec.evaluation.result import text_table
from clickvec.lab.simulate import Site
from clickvec.model import forward
from clickvec.model.encoder import BATCH_SIZE, Encoder
from clickvec.model.folder import Model
from clickvec.native import lstm
from clickvec.text.tokens import split_words
from clickvec.text.trigrams import Vocabulary

SAMPLE = 50_000  # titles of a catalogue
RNG = np.random.default_rng(0)
Rates = dict[str, list[float]]


def untrained(kind: str, cells: int, words: list[str]) -> Encoder:
    """Return a model with random weights, one tower, the trigrams of `words` and others up to 50,000."""
    others = map("".join, product("abcdefghijklmnopqrstuvwxyz0123456789-'", repeat=3))
    trigrams = tuple(dict.fromkeys((*Vocabulary.count(words).trigrams, *others)))[:TRIGRAMS]
    tower = Tower(kind, cells=cells)
    weights = {
        f"shared.{name}": RNG.normal(0, 0.1, shape).astype(np.float32)
        for name, shape in forward.shapes(tower, len(trigrams)).items()
    }
    return Encoder(Model(tower, True, 10, trigrams, weights, {}))


def catalogue(path: Path) -> list[str]:
    """Return the different titles of a gzip TSV file with a column `title`, or a random sample."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        column = next(file).rstrip("\n").split("\t").index("title")
        titles = list(dict.fromkeys(line.rstrip("\n").split("\t")[column] for line in file))
    chosen = np.sort(np.random.default_rng(0).permutation(len(titles))[:SAMPLE])
    return [titles[row] for row in chosen.tolist()]


def measure(models: dict[str, Encoder], titles: list[str], rounds: int, seen: bool) -> dict[str, Rates]:
    """Return the rates of each round, by pass and system. With `seen`, there is only a pass over known words."""
    static = model2vec()
    if static is None:
        sys.exit("model2vec is not installed; pip install model2vec")
    passes: dict[str, Rates] = {} if seen else {"first pass": {}}
    passes["nine words" if seen else "second pass"] = {}
    for number in range(rounds + 1):  # the first round is a warm-up
        for name, encoder in models.items():
            if not seen or not number:
                encoder._title._empty_cache()
            for rates in passes.values():
                value = rate(lambda: encoder.encode_document(titles), len(titles))  # noqa: B023
                rates.setdefault(name, []).append(value)
        for rates in passes.values():
            rates.setdefault("model2vec", []).append(rate(lambda: static(titles), len(titles)))
    return {label: {name: found[1:] for name, found in rates.items()} for label, rates in passes.items()}


def show(label: str, rates: Rates) -> dict[str, dict[str, float]]:
    """Print a table of medians, and return it."""
    base, rows, result = rates["model2vec"], [["system", "titles/s", "times model2vec", "lowest", "highest"]], {}
    for name, found in rates.items():
        ratios = [own / other for own, other in zip(found, base, strict=True)]
        middle = statistics.median(ratios)
        numbers = [f"{value:.2f}" for value in (middle, min(ratios), max(ratios))]
        rows.append([name, f"{statistics.median(found):,.0f}", *numbers])
        result[name] = {"titles/s": statistics.median(found), "times model2vec": middle}
    print(f"\n{label}\n{text_table(rows)}", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--titles", type=Path, nargs="*", default=[])
    parser.add_argument("--cells", type=int, nargs="+", default=[96, 128, 160, 192, 256])
    parser.add_argument("--towers", nargs="+", default=["lstm", "bilstm"])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ONE_CORE.items()):
        sys.exit(subprocess.run([sys.executable, *sys.argv], env={**os.environ, **ONE_CORE}).returncode)
    if lstm.kernel() is None:
        sys.exit("the C code is not compiled; run python clickvec/native/build.py")
    words = sorted({word for title in Site.build(0).titles.text for word in title.split()})
    lists = {"nine words": texts(words, BATCH_SIZE)} | {str(path): catalogue(path) for path in options.titles}
    every = words + [word for titles in list(lists.values())[1:] for title in titles for word in split_words(title)]
    models = {f"{kind} {cells}": untrained(kind, cells, every) for kind in options.towers for cells in options.cells}
    result = {}
    for label, titles in lists.items():
        length = statistics.mean(len(title.split()) for title in titles)
        distinct = len({word for title in titles for word in split_words(title)})
        print(f"\n{Path(label).name}: {len(titles):,} titles, {length:.1f} words on average, {distinct:,} distinct")
        for name, rates in measure(models, titles, options.rounds, label == "nine words").items():
            result[f"{label}, {name}"] = show(f"{Path(label).name}, {name}", rates)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
