"""Measure how many titles mining should search: train recipe `default` with candidate pools of different sizes.

    python benchmarks/pool.py CLICKS [CLICKS ...] --dev JUDGED [--pairs 100000 300000] [--pools 524288 10000]

Pairs are sampled at random from the log, and 4,000 more are held out. A pool is a random sample of the titles; up to
10,000 are searched exactly, more by clusters. For each size the mean, minimum and maximum over the seeds are printed:
the reciprocal rank of the held-out titles among all titles, by the model that training keeps, NDCG@10 on dev after the
last epoch, and the seconds of training. The last line is JSON.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clickvec.config import recipe
from clickvec.data import BadLines, ClickLog, Judged, dataset, read_clicks, read_judged
from clickvec.evaluation.test_set import TestSet
from clickvec.model.encoder import Encoder
from clickvec.training import loop, mining

HELD = 4_000
Pairs = list[tuple[str, str]]


def reciprocal_rank(model: Path, held: Pairs, others: Pairs) -> float:
    """Return the mean reciprocal rank of the clicked title among many, in per cent."""
    titles = list(dict.fromkeys(title for _, title in (*held, *others)))
    place, encoder = {title: number for number, title in enumerate(titles)}, Encoder.load(model)
    vectors, ranks = encoder.encode_document(titles).T, list[float]()
    for few in batched(held, 200):
        scores = encoder.encode_query([query for query, _ in few]) @ vectors
        clicked = scores[np.arange(len(few)), [place[title] for _, title in few]]
        ranks += (1 + (scores > clicked[:, None]).sum(axis=1)).tolist()
    return float(100 * np.mean(1 / np.array(ranks)))


def batched(pairs: Pairs, size: int) -> Iterator[Pairs]:
    return (pairs[first : first + size] for first in range(0, len(pairs), size))


def measure(data: dataset.Dataset, held: Pairs, others: Pairs, dev: Judged, seed: int, device: str) -> list[float]:
    """Train and return the reciprocal rank, NDCG@10 on dev, and the seconds."""
    with tempfile.TemporaryDirectory() as place:
        model = Path(place) / "model"
        loop.run_training(data, recipe("default", seed=seed), model, dev=TestSet.of_judged(dev), device=device)
        last = json.loads((model / "metrics.jsonl").read_text().splitlines()[-1])
        return [reciprocal_rank(model, held, others), last["dev"]["NDCG@10"], last["seconds"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clicks", type=Path, nargs="+")
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 300_000])
    parser.add_argument("--pools", type=int, nargs="+", default=[2**19, 10_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    log, dev = read_clicks(options.clicks), read_judged(options.dev)
    order, found = np.random.default_rng(7).permutation(len(log.queries)), []
    for size in options.pairs:
        drawn = [(log.queries[place], log.titles[place]) for place in order[: size + HELD]]
        some, held = drawn[:size], drawn[size:]
        queries, titles = ([pair[side] for pair in some] for side in (0, 1))
        data = dataset.prepare(ClickLog(queries, titles, np.ones(size), BadLines()), 10, 50_000, whole_words=True)
        print(f"{size:,} pairs, {data.clicked_titles:,} clicked titles, seeds {options.seeds}")
        for pool in options.pools:
            mining.MOST_TITLES = pool
            each = [measure(data, held, some, dev, seed, options.device) for seed in options.seeds]
            said = [
                f"{statistics.mean(column):.1f} ({min(column):.1f} to {max(column):.1f})"
                for column in zip(*each, strict=True)
            ]
            print(f"{pool:9,} titles: MRR {said[0]}, dev NDCG@10 {said[1]}, {said[2]} s", flush=True)
            found.append({"pairs": size, "pool": pool, "each": each})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
