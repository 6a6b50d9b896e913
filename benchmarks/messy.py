"""Find what is planted in the messy log, and train with and without weighting clicks by position.

python benchmarks/messy.py [--impressions 1000000] [--seeds 3] [--part test] [--weights none,rate,...]
python benchmarks/messy.py --find-only: do not train
python benchmarks/messy.py --clean --impressions 400000 --part dev: train on the clean log

The log is that of `clickvec lab simulate --messy`. Each planted thing is compared with truth.json: precision is the
share of what was found that is planted, recall the share of what is planted that was found. Training uses the log as
`clickvec prepare --max-per-hour 120` cleans it, with the default recipe except for the weights of the pairs:

- none: every pair has weight 1
- count: its clicks
- rate: its clicks per look of a reader, where a look is weighted by the position (click_weight=rate)
- per impression: the same as if readers looked at all positions equally often
- inverse: its clicks, each divided by the propensity of its position
"""

import argparse
import json
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from position_bias import count as count_impressions

import clickvec
from clickvec import config
from clickvec.data import ClickLog, dataset, position_bias, read_clicks
from clickvec.data.cleaning import Cleaning, clean
from clickvec.data.dataset import Dataset
from clickvec.data.secrets import KINDS, mask
from clickvec.doctor.sample_words import Words, misspelled_words
from clickvec.evaluation.significance import bootstrap_interval
from clickvec.lab.simulate import write, write_messy
from clickvec.text.lexical_tokens import tokenise

MAX_PER_HOUR = 120
WEIGHTS = ("none", "count", "inverse", "per impression", "rate")
MEASURES = ("NDCG@1", "NDCG@3", "NDCG@10")
Floats = NDArray[np.float64]


def find(log: ClickLog, truth: dict[str, Any]) -> None:
    """Print the precision and recall of each planted thing."""
    print(f"{'planted':24} {'planted':>8} {'found':>8} {'precision':>10} {'recall':>8}")
    without_bots, _ = clean(log, Cleaning(keep_secrets=True, max_per_hour=MAX_PER_HOUR, k_anonymous=0))
    print_row("bots", truth["bots"], clients_of(log) - clients_of(without_bots))
    typed: dict[str, set[str]] = {}
    for part in parts_of(without_bots):
        for query, client in zip(part.queries, part.clients or (), strict=True):
            typed.setdefault(query, set()).add(client)
    anonymous, _ = clean(without_bots, Cleaning(keep_secrets=True, merge_minutes=0))
    left = {query for part in parts_of(anonymous) for query in part.queries}
    rare = [query for query, clients in typed.items() if len(clients) < Cleaning.k_anonymous]
    print_row(f"fewer than {Cleaning.k_anonymous} clients", rare, typed.keys() - left)
    find_typos(without_bots, truth)
    find_secrets([query for part in parts_of(log) for query in part.queries], truth)


def find_typos(log: ClickLog, truth: dict[str, Any]) -> None:
    """Print the precision and recall of misspelled words, among the words of queries with a click."""
    words = Words(list(map(tokenise, log.queries)), list(map(tokenise, log.titles)))
    planted = set[str]()
    for query in set(log.queries) & truth["misspelled"].keys():
        planted |= set(tokenise(query)) - set(tokenise(truth["misspelled"][query]))
    print_row("misspelled words", planted, misspelled_words(words))


def find_secrets(queries: Iterable[str], truth: dict[str, Any]) -> None:
    """Print the precision and recall of masking: of distinct queries, and by the kind of secret."""
    distinct = list(dict.fromkeys(queries))
    masked, _ = mask(distinct)
    changed = {old: new for old, new in zip(distinct, masked, strict=True) if new != old}
    planted = {row["query"]: row for row in truth["secrets"]}
    print_row("secrets", planted, changed)
    for kind in KINDS:
        of_kind = [query for query, row in planted.items() if row["kind"] == kind]
        print_row(f"- {kind}", of_kind, [query for query, new in changed.items() if f"<{kind}>" in new])
    decoys = {row["query"] for row in truth["decoys"]}
    kept = len(decoys - changed.keys())
    print(f"other numbers: {len(decoys):,} planted, {kept:,} kept ({kept / max(len(decoys), 1):.1%})")


def print_row(name: str, planted: Iterable[str], found: Iterable[str]) -> None:
    planted, found = set(planted), set(found)
    right = len(planted & found)
    precision, recall = right / max(len(found), 1), right / max(len(planted), 1)
    print(f"{name:24} {len(planted):8,} {len(found):8,} {precision:10.3f} {recall:8.3f}")


def parts_of(log: ClickLog) -> list[ClickLog]:
    return [log] if log.shown is None else [log, log.shown]


def clients_of(log: ClickLog) -> set[str]:
    return {client for part in parts_of(log) for client in part.clients or ()}


def weighted(log: ClickLog, weights: str, recipe: clickvec.Recipe) -> tuple[Dataset, str]:
    """Return the data to train on and the setting click_weight."""
    prepare = partial(
        dataset.prepare, max_words=recipe.max_words, max_trigrams=recipe.max_trigrams, whole_words=recipe.whole_words
    )
    if weights == "per impression":
        with patch.object(position_bias, "try_propensities", lambda _: np.ones(1)):
            return prepare(log), "rate"
    if weights == "inverse" and log.positions is not None:
        propensities = position_bias.estimate_propensities(count_impressions(log))
        return prepare(replace(log, clicks=1 / propensities[log.positions - 1])), "count"
    return prepare(log), weights


def train(log: ClickLog, folder: Path, weights: str, seed: int, part: str) -> Floats:
    """Return the measures of each query of a judged set: (measures, queries)."""
    data, setting = weighted(log, weights, config.recipe())
    with tempfile.TemporaryDirectory() as out:
        model = clickvec.train(data, Path(out) / "m", dev=folder / "dev.tsv.gz", click_weight=setting, seed=seed)
        return np.asarray(clickvec.evaluate(model, folder / f"{part}.tsv.gz", cutoffs=(1, 3, 10)).values[0])


def compare(log: ClickLog, folder: Path, chosen: list[str], seeds: int, part: str) -> None:
    """Train with each weighting and print the measures, and the differences to the first one."""
    print(f"\n{part}, mean of {seeds} seeds; difference to {chosen[0]} with its 95% confidence interval")
    values: dict[str, Floats] = {}
    for weights in chosen:
        runs = np.array([train(log, folder, weights, seed, part) for seed in range(1, seeds + 1)])
        values[weights] = runs.mean(axis=0)
        cells = [f"{name} {mean:.2f}" for name, mean in zip(MEASURES, values[weights].mean(axis=1), strict=True)]
        difference = values[weights] - values[chosen[0]]
        if weights != chosen[0]:
            lows_highs = bootstrap_interval(difference)
            means = zip(difference.mean(axis=1), lows_highs, strict=True)
            cells += [f"{mean:+.2f} ({low:+.2f} to {high:+.2f})" for mean, (low, high) in means]
        seeds_at_10 = " ".join(f"{mean:.2f}" for mean in runs[:, -1].mean(axis=1))
        print(f"{weights:16}", *cells, f"[NDCG@10 by seed: {seeds_at_10}]", sep="  ", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--part", choices=("dev", "test"), default="test")
    parser.add_argument("--weights", default=",".join(WEIGHTS))
    parser.add_argument("--find-only", action="store_true")
    parser.add_argument("--clean", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "messy"
        print(
            (write if options.clean else write_messy)(folder, options.impressions, dev_queries=900, test_queries=1800)
        )
        if options.clean:
            log = read_clicks(folder / "impressions.tsv.gz")
            compare(log, folder, options.weights.split(","), options.seeds, options.part)
            return
        truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
        log = read_clicks(folder / "impressions.tsv.gz")
        find(log, truth)
        log, report = clean(log, Cleaning(max_per_hour=MAX_PER_HOUR))
        print(report)
        if not options.find_only:
            log = replace(log, clients=None, times=None)  # what training does not need
            compare(log, folder, options.weights.split(","), options.seeds, options.part)


if __name__ == "__main__":
    main()
