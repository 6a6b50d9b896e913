"""Does it help to weight a pair by its clicks? Measured on the simulated log, where pairs are clicked several times.

    python benchmarks/click_weights.py

Trains a small model with each click_weight and seed on the training part of the log, and prints the mean NDCG@10 over
seeds on the judged dev set of the simulated site, and on held-out clicks over the whole catalogue, both with the
difference from `none` and its 95% confidence interval (bootstrap over queries, after averaging seeds).
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import clickvec
from clickvec.data import read_judged, read_titles
from clickvec.data.held_out import hold_out
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.significance import bootstrap_interval
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.lab.simulate import write

WEIGHTS = ("none", "log", "count")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--impressions", type=int, default=600_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cells", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        write(site, options.impressions, 0, 300, 600, log=False)
        log, judged = clickvec.read_clicks(site / "clicks.tsv.gz"), read_judged(site / "dev.tsv.gz")
        held = hold_out(log)
        if held is None:
            parser.error("too few queries to hold out; simulate more impressions")
        catalogue = Catalogue(title.title for title in read_titles(site / "titles.tsv.gz"))
        dev = TestSet.of_clicks(held.dev, catalogue)
        share = float((log.clicks > 1).mean())
        print(f"{len(log):,} pairs, {log.clicks.sum():,.0f} clicks, {share:.0%} of the pairs clicked more than once")
        print(f"{len(judged)} judged queries, {len(dev.queries)} held-out queries")
        values: dict[str, list[np.ndarray]] = {}
        for weight in WEIGHTS:
            runs = []
            for seed in range(1, options.seeds + 1):
                settings = {"click_weight": weight, "seed": seed, "cells": options.cells, "epochs": options.epochs}
                encoder = clickvec.train(
                    held.train, Path(folder) / f"{weight}{seed}", dev=None, device="cpu", **settings
                )
                ranker = Neural(encoder, "model")
                runs.append((
                    evaluate([ranker], judged).per_query("model", CHOSEN_BY),
                    measure([ranker], dev).per_query("model", CHOSEN_BY),
                ))  # fmt: skip
            values[weight] = [np.mean([run[at] for run in runs], axis=0) for at in range(2)]
            for label, found, base in zip(("judged", "held-out"), values[weight], values["none"], strict=True):
                ((low, high),) = bootstrap_interval((found - base)[None])
                seeds = ", ".join(f"{run[label == 'held-out'].mean():.1f}" for run in runs)
                difference = f"{(found - base).mean():+.2f} [{low:+.2f}, {high:+.2f}] from none"
                print(f"{weight:6} {label:9} {CHOSEN_BY} {found.mean():.2f} (seeds {seeds}), {difference}", flush=True)


if __name__ == "__main__":
    main()
