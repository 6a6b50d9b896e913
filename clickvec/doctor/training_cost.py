"""What training will cost on this machine: some minibatches are trained on the sample, and the rest is arithmetic."""

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clickvec.config import Recipe
from clickvec.data import ClickLog, dataset
from clickvec.doctor.line_sample import Sample
from clickvec.training import mining
from clickvec.training.device import pick_device
from clickvec.training.loop import Run
from clickvec.training.update import Seed

SAMPLE_PAIRS = 50_000
WARM_UP = 5  # minibatches that are not timed: the first ones allocate memory
MINIBATCHES = 300
SECONDS = 4.0  # after which the measurement ends
MINED_QUERIES = 2_000


class Cost(NamedTuple):
    """The time of one training run, without reading the log and without measuring the model."""

    device: str
    minibatches: int  # that were measured
    pairs_per_second: float
    epochs: int
    update_seconds: float  # of all epochs
    mining_seconds: float

    @property
    def seconds(self) -> float:
        """The time of the run."""
        return self.update_seconds + self.mining_seconds


def measure_cost(sample: Sample, pairs: int, queries: int, titles: int, recipe: Recipe, device: str = "auto") -> Cost:
    """Train on a part of the sample for a few seconds, and estimate the time for a log with these numbers."""
    on = pick_device(device)
    part = slice(0, SAMPLE_PAIRS)
    log = ClickLog(sample.queries[part], sample.titles[part], np.array(sample.clicks[part]))
    data = dataset.prepare(log, recipe.max_words, recipe.max_trigrams, whole_words=recipe.whole_words)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(data, recipe, Path(folder), device=on)
        rate, minibatches = _rate(run, recipe)
        mining_seconds = _mining(run, queries, titles) if recipe.hard_negatives and recipe.epochs > 1 else 0.0
    update_seconds = pairs * recipe.epochs / rate
    return Cost(str(on), minibatches, rate, recipe.epochs, update_seconds, mining_seconds * (recipe.epochs - 1))


def _rate(run: Run, recipe: Recipe) -> tuple[float, int]:
    """Return the pairs trained per second, and the number of minibatches that were timed."""
    wanted = (WARM_UP + MINIBATCHES) * recipe.batch_size
    order = np.random.default_rng(0).permutation(run.pairs)
    order = np.tile(order, -(-wanted // run.pairs))[:wanted].astype(np.int64)
    done, started = 0, time.perf_counter()
    for done, outcome in enumerate(run.updater.epoch(order, Seed(0, 0, WARM_UP + MINIBATCHES), 0), 1):
        if done <= WARM_UP:
            float(outcome.loss)  # waits for a GPU
            started = time.perf_counter()
        elif time.perf_counter() - started > SECONDS:
            break
    float(outcome.loss)
    timed = done - WARM_UP
    return timed * recipe.batch_size / (time.perf_counter() - started), timed


def _mining(run: Run, queries: int, titles: int) -> float:
    """Return the seconds to mine hard negatives once for so many queries and titles.

    Titles are encoded once and queries are compared with them, so the time is a constant and a rate.
    """
    all_rows = min(MINED_QUERIES, len(run.sampler.mined))
    few_rows = max(1, all_rows // 4)
    few, all_of_them = (_mine(run, rows) for rows in (few_rows, all_rows))
    by_query = max(0.0, all_of_them - few) / max(1, all_rows - few_rows)
    titles_here = run.data.clicked_titles
    encoded = min(titles, mining.MOST_TITLES) / min(titles_here, mining.MOST_TITLES)
    compared = mining.titles_searched(titles, queries) / mining.titles_searched(titles_here, all_rows)
    return encoded * max(0.0, few - few_rows * by_query) + compared * queries * by_query


def _mine(run: Run, rows: int) -> float:
    started = time.perf_counter()
    mining.mine(run.data, run.towers, np.random.default_rng(0), run.device, run.sampler.mined[:rows])
    return time.perf_counter() - started
