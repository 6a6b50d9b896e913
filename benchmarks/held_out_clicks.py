"""How well do held-out clicks predict the order in which a judged set ranks systems, and where do they mislead?

    python benchmarks/held_out_clicks.py msrd --clicks msrd/clicks.tsv.gz --titles msrd/titles.tsv.gz \
        --test msrd/test.tsv.gz --out out/held_out/msrd
    python benchmarks/held_out_clicks.py dbpedia --clicks dbpedia/clicks_questions.tsv.gz \
        --clicks dbpedia/clicks_redirects.tsv.gz --pairs 30000 --epochs 2 --test dbpedia/test.tsv.gz \
        --out out/held_out/dbpedia

Trains a model with each recipe below on the training part of the clicks, and measures it twice: by the held-out clicks,
over all titles, and by the judged test set. Prints both for each system, Kendall's and Spearman's correlation of the
two orders with 95% confidence intervals (bootstrap over the queries of both), and the pairs of systems that the two
order differently. A model that is in --out already is not trained again.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, spearmanr

import clickvec
from clickvec.data import ClickLog, read_clicks, read_judged, read_titles
from clickvec.data.held_out import hold_out
from clickvec.evaluation.bm25 import BM25, describe_settings
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import MEASURES
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.significance import randomisation_test
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.evaluation.tuning import tune_bm25
from clickvec.model.encoder import Encoder

# What changes, over the recipe `default`: from good models to bad ones.
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    "no hard negatives": {"hard_negatives": 0},
    "2 epochs": {"epochs": 2},
    "1 epoch": {"epochs": 1},
    "32 cells": {"cells": 32},
    "8 cells": {"cells": 8},
    "learning rate / 10": {"learning_rate": 0.0002},
    "gamma 3": {"gamma": 3.0},
    "4 random negatives": {"batch_negatives": False, "hard_negatives": 0},
    "two towers": {"shared_tower": False},
    "mean pooling": {"pooling": "mean"},
    "RNN": {"tower": "rnn", "hidden": 96},
    "DSSM": {"tower": "dssm"},
    "CLSM": {"tower": "clsm"},
}
ROUNDS = 2_000
NDCG = "NDCG@10"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--clicks", type=Path, action="append", required=True)
    parser.add_argument("--titles", type=Path, help="a catalogue besides the titles of the clicks")
    parser.add_argument("--test", type=Path, required=True, help="a judged set")
    parser.add_argument("--pairs", type=int, default=0, help="use a random sample of this many lines of each log")
    parser.add_argument("--epochs", type=int, default=3, help="of every recipe that does not say otherwise")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    log = joined([sampled(read_clicks(path), options.pairs) for path in options.clicks])
    held = hold_out(log)
    if held is None:
        parser.error("too few queries to hold out")
    catalogue = Catalogue(log.titles)
    catalogue.add(title.title for title in read_titles(options.titles)) if options.titles else None
    dev, test = TestSet.of_clicks(held.dev, catalogue), TestSet.of_clicks(held.test, catalogue)
    judged = read_judged(options.test)
    print(f"{options.name}: {len(held.train):,} lines to train on, {len(test.queries):,} held-out queries over "
          f"{len(catalogue.titles):,} titles, {len(judged):,} judged queries", flush=True)  # fmt: skip
    by_clicks, by_judges = dict[str, NDArray[Any]](), dict[str, NDArray[Any]]()
    print(f"{'':24}held-out clicks: {'  '.join(f'{name:>10}' for name in MEASURES)}   judged: {NDCG}", flush=True)
    for ranker, lists_ranker in systems(held.train, options, catalogue, dev, judged):
        found, graded = measure([ranker], test), evaluate([lists_ranker], judged, cutoffs=(10,))
        by_clicks[ranker.name] = found.per_query(ranker.name, NDCG)
        by_judges[ranker.name] = graded.values[0, 0]
        cells = "  ".join(f"{mean:10.1f}" for mean in found.means[0])
        print(f"{ranker.name:24}                 {cells}   {graded.means[0, 0]:15.1f}", flush=True)
    names = list(by_clicks)
    clicks, judges = (np.stack([values[name] for name in names]) for values in (by_clicks, by_judges))
    for label, rows in (("models", slice(0, -2)), ("models and BM25", slice(None))):
        print(f"{label} ({len(names[rows])}): " + "; ".join(correlations(clicks[rows], judges[rows])))
    for line in misleading(names, clicks, judges):
        print(line)


def joined(logs: list[ClickLog]) -> ClickLog:
    queries, titles = ([text for log in logs for text in getattr(log, name)] for name in ("queries", "titles"))
    return ClickLog(queries, titles, np.concatenate([log.clicks for log in logs]))


def sampled(log: ClickLog, pairs: int) -> ClickLog:
    if not pairs or pairs >= len(log):
        return log
    chosen = np.sort(np.random.default_rng(0).choice(len(log), pairs, replace=False)).tolist()
    queries, titles = ([texts[row] for row in chosen] for texts in (log.queries, log.titles))
    return replace(log, queries=queries, titles=titles, clicks=log.clicks[chosen])


def systems(
    train: ClickLog, options: argparse.Namespace, catalogue: Catalogue, dev: Any, judged: Any  # noqa: ANN401
) -> Iterator[tuple[Ranker, Ranker]]:  # fmt: skip
    """Yield each system as it searches the catalogue, and as it ranks the judged lists."""
    for name, settings in RECIPES.items():
        if settings == {"epochs": options.epochs}:
            continue  # the same as default
        folder = options.out / name.replace(" ", "_").replace("/", "by")
        if not folder.exists():
            clickvec.train(
                train, folder, dev=None, device="cpu", if_exists="overwrite", **{"epochs": options.epochs, **settings}
            )
        ranker = Neural(Encoder.load(folder), name)
        yield ranker, ranker
    corpus = [*catalogue.titles, *(title for query in judged for title in query.titles)]
    tuned, settings = tune_bm25(dev)
    tuned.name = f"BM25 ({describe_settings(settings)})"
    yield tuned, BM25(corpus, **settings, name=tuned.name)
    yield BM25(catalogue.titles), BM25(corpus)


def correlations(clicks: NDArray[Any], judges: NDArray[Any]) -> Iterator[str]:
    """Yield Kendall's and Spearman's correlation of the means of systems, with their intervals."""
    rng = np.random.default_rng(0)
    means = []
    for _ in range(ROUNDS):
        both = (
            values[:, rng.integers(0, values.shape[1], values.shape[1])].mean(axis=1) for values in (clicks, judges)
        )
        means.append(tuple(both))
    for name, function in (("Kendall", kendalltau), ("Spearman", spearmanr)):
        value = function(clicks.mean(axis=1), judges.mean(axis=1)).statistic
        low, high = np.quantile([function(*pair).statistic for pair in means], (0.025, 0.975))
        yield f"{name} {value:.2f} [{low:.2f}, {high:.2f}]"


def misleading(names: list[str], clicks: NDArray[Any], judges: NDArray[Any]) -> Iterator[str]:
    """Yield the pairs that clicks and judges order differently, those that differ most first."""
    swapped, significant = [], 0
    for one, other in combinations(range(len(names)), 2):
        by_clicks, by_judges = (float((values[one] - values[other]).mean()) for values in (clicks, judges))
        if by_clicks * by_judges < 0:
            better, worse = (one, other) if by_clicks > 0 else (other, one)
            p = [randomisation_test(values[better], values[worse], 1_000) for values in (clicks, judges)]
            significant += max(p) < 0.05
            swapped.append((-abs(by_clicks * by_judges), better, worse, abs(by_clicks), abs(by_judges), *p))
    pairs = len(names) * (len(names) - 1) // 2
    yield f"ordered differently: {len(swapped)} of {pairs} pairs, {significant} of them significantly by both (p < .05)"
    for _, better, worse, gain, loss, p_clicks, p_judges in sorted(swapped):
        yield (
            f"  clicks prefer {names[better]} to {names[worse]} by {gain:.1f} (p {p_clicks:.3f}), "
            f"judges the other by {loss:.1f} (p {p_judges:.3f})"
        )


if __name__ == "__main__":
    main()
