"""Does a catalogue teach anything by itself, without a teacher? Titles that should find themselves, as further pairs.

    python benchmarks/self_supervised.py --clicks msrd/clicks.tsv.gz --titles msrd/titles.tsv.gz --dev msrd/dev.tsv.gz

Each title of the catalogue becomes a query for itself: with one of its words dropped, with one of them misspelled, or
half of the titles each. Trains the recipe `default` on the clicks and these pairs, and prints NDCG@10 on dev and on
held-out clicks over the whole catalogue: mean over the seeds, difference from clicks alone, and its 95% confidence
interval (bootstrap over queries, after averaging seeds).
"""

import argparse
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from misspelled import misspelled

import clickvec
from clickvec.data import BadLines, ClickLog, Judged, read_clicks, read_judged, read_titles
from clickvec.data.held_out import hold_out
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.significance import bootstrap_interval
from clickvec.evaluation.test_set import Catalogue, TestSet

Change = Callable[[str, random.Random], str | None]


def dropped(title: str, rng: random.Random) -> str | None:
    """Return a title without one of its words; None if it has only one."""
    words = title.split()
    if len(words) < 2:
        return None
    words.pop(rng.randrange(len(words)))
    return " ".join(words)


def with_typo(title: str, rng: random.Random) -> str | None:
    """Return a title with a typo; None if it has no word of four letters."""
    return misspelled(title, 1, 4, rng)


def either(title: str, rng: random.Random) -> str | None:
    """Return a title without one of its words, or with a typo."""
    return rng.choice((dropped, with_typo))(title, rng)


CHANGES: dict[str, Change | None] = {
    "clicks alone": None, "+ a word dropped": dropped, "+ a word misspelled": with_typo, "+ either": either,
}  # fmt: skip


def with_titles(log: ClickLog, titles: list[str], change: Change) -> ClickLog:
    """Return the log with a pair for each title: the title as changed, and the title."""
    rng = random.Random(0)
    found = [(query, title) for title in titles if (query := change(title, rng)) is not None]
    queries, clicked = zip(*found, strict=True)
    clicks = np.concatenate([log.clicks, np.ones(len(found))])
    return ClickLog([*log.queries, *queries], [*log.titles, *clicked], clicks, BadLines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clicks", type=Path, action="append", required=True)
    parser.add_argument("--titles", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    log, judged = read_clicks(options.clicks), read_judged(options.dev)
    titles = list(dict.fromkeys(title.title for title in read_titles(options.titles)))
    held = hold_out(log)
    if held is None:
        parser.error("the log has too few queries to hold any out")
    catalogue = Catalogue(log.titles)
    catalogue.add(titles)
    clicks = TestSet.of_clicks(held.test, catalogue)
    print(f"{len(held.train):,} pairs, {len(titles):,} titles; {len(judged)} judged, {len(clicks.queries):,} held-out")
    alone: list[np.ndarray] = []
    for name, change in CHANGES.items():
        data = held.train if change is None else with_titles(held.train, titles, change)
        each = [measured(data, judged, clicks, seed) for seed in range(1, options.seeds + 1)]
        values = [np.mean(column, axis=0) for column in zip(*each, strict=True)]
        alone = alone or values
        cells = [f"{now.mean():5.2f}{describe(now - first)}" for now, first in zip(values, alone, strict=True)]
        print(f"{name:20} dev {cells[0]}, held-out clicks {cells[1]}", flush=True)


def measured(data: ClickLog, judged: Judged, clicks: TestSet, seed: int) -> list[np.ndarray]:
    """Train and return NDCG@10 of each judged query and of each held-out one."""
    with tempfile.TemporaryDirectory() as place:
        ranker = Neural(clickvec.train(data, Path(place) / "model", dev=None, seed=seed), "model")
        return [
            result.per_query("model", CHOSEN_BY) for result in (evaluate([ranker], judged), measure([ranker], clicks))
        ]


def describe(difference: np.ndarray) -> str:
    """Return a mean difference with its confidence interval; nothing for the row that others are compared with."""
    ((low, high),) = bootstrap_interval(difference[None])
    return f" ({difference.mean():+.2f}, {low:+.2f} to {high:+.2f})" if difference.any() else ""


if __name__ == "__main__":
    main()
