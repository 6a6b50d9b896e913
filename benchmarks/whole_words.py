"""What do whole words bring as further inputs beside letter trigrams? Train with and without them, and measure both.

    python benchmarks/whole_words.py msrd/clicks.tsv.gz --titles msrd/titles.tsv.gz --dev msrd/dev.tsv.gz
    python benchmarks/whole_words.py dbpedia/clicks_*.tsv.gz --dev dbpedia/dev.tsv.gz --pairs 200000

Trains the recipe `default` on the training part of the log, or on random samples of --pairs pairs of it, with
whole_words=true and false, and prints NDCG@10 on dev and on held-out clicks over all titles: means over the seeds, the
difference with its 95% confidence interval (bootstrap over queries, after averaging seeds), and the size of the models
after `shrink`. Samples of 1,000 and 10,000 pairs get smaller minibatches and more epochs, as in log_size.py.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from log_size import SIZES, draw

import clickvec
from clickvec.data import ClickLog, Judged, read_clicks, read_judged, read_titles
from clickvec.data.held_out import hold_out
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.significance import bootstrap_interval
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.model.folder import save_model
from clickvec.model.shrink import shrink_model


class Cell(NamedTuple):
    """What one training gave."""

    judged: np.ndarray  # NDCG@10 of each judged query
    clicks: np.ndarray  # of each held-out query
    megabytes: float  # after shrink
    trigrams: int
    words: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clicks", type=Path, nargs="+")
    parser.add_argument("--titles", type=Path, help="further titles to search")
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[0], help="sizes of samples; 0: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="settings for both")
    options = parser.parse_args()
    held, judged = hold_out(read_clicks(options.clicks)), read_judged(options.dev)
    if held is None:
        parser.error("the log has too few queries to hold any out")
    catalogue = Catalogue([*held.train.titles, *held.dev.titles, *held.test.titles])
    catalogue.add(entry.title for entry in (read_titles(options.titles) if options.titles else ()))
    clicks = TestSet.of_clicks(held.test, catalogue)
    print(f"{len(held.train):,} pairs, {len(judged)} judged queries, {len(clicks.queries):,} held-out queries over "
          f"{len(catalogue.titles):,} titles", flush=True)  # fmt: skip
    settings = dict(setting.split("=", 1) for setting in options.set)
    for size in options.pairs:
        print(f"\n{size or len(held.train):,} pairs")
        alone: list[Cell] = []
        for words in (False, True):
            cells = [
                train(draw(held.train, size, seed), judged, clicks, {
                    **SIZES.get(size, {}), **settings, "seed": seed, "whole_words": words,
                })
                for seed in range(1, options.seeds + 1)
            ]  # fmt: skip
            alone = alone or cells
            print_row("whole words" if words else "trigrams only", cells, alone)


def train(log: ClickLog, judged: Judged, clicks: TestSet, settings: dict[str, Any]) -> Cell:
    """Train a model, measure it, and shrink it."""
    with tempfile.TemporaryDirectory() as place:
        encoder = clickvec.train(log, Path(place) / "model", dev=None, **settings)
        ranker, small = Neural(encoder, "model"), Path(place) / "int8"
        save_model(shrink_model(encoder.model, "int8"), small)
        values = [
            each.per_query("model", CHOSEN_BY) for each in (evaluate([ranker], judged), measure([ranker], clicks))
        ]
        size = sum(path.stat().st_size for path in small.iterdir()) / 1e6
        words = sum(len(trigram) > 3 for trigram in encoder.model.trigrams)
        return Cell(values[0], values[1], size, len(encoder.model.trigrams) - words, words)


def print_row(name: str, cells: list[Cell], alone: list[Cell]) -> None:
    """Print the means of some seeds, and their differences from others."""
    texts = []
    for kind in ("judged", "clicks"):
        now, first = (np.mean([getattr(cell, kind) for cell in each], axis=0) for each in (cells, alone))
        text = f"{kind} {now.mean():5.2f}"
        if cells is not alone:
            ((low, high),) = bootstrap_interval((now - first)[None])
            text += f" ({(now - first).mean():+.2f}, {low:+.2f} to {high:+.2f})"
        texts.append(text)
    inputs = f"{cells[0].trigrams:,} trigrams, {cells[0].words:,} words, {cells[0].megabytes:.1f} MB"
    print(f"{name:14} {', '.join(texts)}; {inputs}", flush=True)


if __name__ == "__main__":
    main()
