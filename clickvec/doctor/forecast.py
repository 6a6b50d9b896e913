"""Is there enough data to beat BM25, and what would twice the data bring? Measured on held-out clicks.

A model is trained on an eighth, a quarter, half and all of the clicks, each a random sample of the next. What is
measured is what users get: hybrid search with each model, its fusion fitted on the dev part. It searches all titles of
the log for the held-out test queries, and so does BM25, whose settings are tuned on the dev part too. A power law
through the four figures says what more data would bring.
"""

import contextlib
import logging
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.config import Recipe
from clickvec.data import ClickLog, dataset
from clickvec.data.held_out import fewest_queries, hold_out
from clickvec.doctor.line_sample import Sample
from clickvec.doctor.power_law import PowerLaws, fit_power_laws
from clickvec.errors import ClickvecError
from clickvec.evaluation.fitting import use_best_fusion
from clickvec.evaluation.index_measures import index_rankers
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.evaluation.tuning import tune_bm25
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.index import Index
from clickvec.training.loop import run_training

SHARES = (0.125, 0.25, 0.5, 1.0)
MOST_SECONDS = 600.0  # of training; a larger log is sampled
MOST_QUERIES = 2_000  # test queries
ROUNDS = 1_000  # of the bootstrap
SEED = 0

Floats = NDArray[np.float64]
log = logging.getLogger(__name__)


class Forecast(NamedTuple):
    """The learning curve, in per cent of NDCG@10 on held-out clicks, with 95% confidence intervals over queries."""

    queries: int  # held out
    titles: int  # searched
    lines: tuple[float, ...]  # clicked lines of the log that each model stands for
    means: tuple[float, ...]
    intervals: tuple[tuple[float, float], ...]
    bm25: float
    settings: str  # of BM25
    ahead: tuple[float, float, float]  # hybrid search minus BM25 at the largest size: mean, low, high
    whole: tuple[float, float, float]  # forecast for the whole log, if the largest model had a sample of it
    doubled: tuple[float, float, float]  # forecast for twice the log
    gain: tuple[float, float, float]  # of twice the log over the whole log
    needed: float  # lines at which the curve reaches BM25; infinite if it never does


def training_share(pairs: int, epochs: int, pairs_per_second: float, sampled: float) -> float:
    """Return the share of the log that the largest model gets, so that all four models are trained in time.

    `sampled` is the share of the log that is in memory.
    """
    seconds = pairs * epochs / pairs_per_second * sum(SHARES)
    return min(sampled, MOST_SECONDS / seconds)


def make_forecast(
    sample: Sample, share: float, recipe: Recipe, device: str = "auto", progress: Progress | None = None
) -> Forecast | None:
    """Train four models and return the learning curve; None if the log has too few different queries to hold any out.

    `sample` holds lines of the log, and the largest model gets this share of the whole log.
    """
    clicks = ClickLog(
        sample.queries, sample.titles, np.array(sample.clicks),
        times=None if sample.times is None else np.array(sample.times, np.int64),
    )  # fmt: skip
    parts = hold_out(clicks)
    if parts is None:
        return None
    catalogue = Catalogue(clicks.titles)
    dev, test = (TestSet.of_clicks(part, catalogue).sample(MOST_QUERIES) for part in (parts.dev, parts.test))
    bm25, settings = tune_bm25(dev, progress=progress)
    baseline = measure([bm25], test).per_query(bm25.name, CHOSEN_BY)
    in_memory = len(sample) / sample.lines
    values, lines = [], []
    rng = np.random.default_rng(SEED)
    train = _thin(parts.train, min(1.0, share / in_memory), rng)
    for size in reversed(SHARES):
        values.append(_train_and_measure(train, recipe, dev, test, device, progress))
        lines.append(sample.lines * share * size)
        log.info("%.3g of the log: NDCG@10 %.1f", share * size, values[-1].mean())
        train = _thin(train, 0.5, rng)
    return summarise(
        np.array(lines[::-1]), np.array(values[::-1]), baseline, float(sample.lines), len(catalogue.titles),
        ", ".join(f"{name} {value}" for name, value in settings.items()),
    )  # fmt: skip


def _thin(clicks: ClickLog, share: float, rng: np.random.Generator) -> ClickLog:
    """Keep each click with this probability."""
    if share >= 1:
        return clicks
    kept = rng.binomial(np.maximum(1, np.rint(clicks.clicks)).astype(np.int64), share)
    rows = np.flatnonzero(kept).tolist()
    return replace(
        clicks, queries=[clicks.queries[row] for row in rows], titles=[clicks.titles[row] for row in rows],
        clicks=kept[rows].astype(np.float64), times=None if clicks.times is None else clicks.times[rows],
    )  # fmt: skip


def _train_and_measure(
    clicks: ClickLog, recipe: Recipe, dev: TestSet, test: TestSet, device: str, progress: Progress | None
) -> Floats:
    """Return the NDCG@10 of hybrid search on each test query. A sample without a click counts as finding nothing."""
    if not len(clicks):
        return np.zeros(len(test.queries))
    data = dataset.prepare(clicks, recipe.max_words, recipe.max_trigrams, whole_words=recipe.whole_words)
    with tempfile.TemporaryDirectory() as folder:
        model = run_training(data, recipe, Path(folder) / "model", device=device, progress=progress)
        index = Index.build(Encoder(model), test.titles)
        with contextlib.suppress(ClickvecError):  # too few queries
            use_best_fusion(index, dev, progress)
        return measure(index_rankers(index, ["hybrid"]), test, [CHOSEN_BY]).per_query("hybrid", CHOSEN_BY)


def summarise(
    lines: Floats, values: Floats, baseline: Floats, whole: float, titles: int = 0, settings: str = ""
) -> Forecast:
    """Fit the curve to the values, (sizes, queries), and to bootstrap samples of the queries.

    `whole` is the number of lines of the whole log, `baseline` the values of BM25.
    """
    queries = values.shape[1]
    chosen = np.random.default_rng(SEED).integers(0, queries, (ROUNDS, queries))
    means = np.concatenate([values.mean(axis=1)[None], values[:, chosen].mean(axis=2).T])  # the first row is the data
    bm25 = np.concatenate([[baseline.mean()], baseline[chosen].mean(axis=1)])
    curves = fit_power_laws(lines, means)
    at_whole = means[:, -1] if lines[-1] >= whole else curves.at(whole)
    at_double = _no_lower(curves, at_whole, whole)
    return Forecast(
        queries, titles, tuple(lines.tolist()), tuple(means[0].tolist()),
        tuple(_interval(means[:, at])[1:] for at in range(len(lines))), float(bm25[0]), settings,
        _interval(means[:, -1] - bm25), _interval(at_whole), _interval(at_double), _interval(at_double - at_whole),
        float(curves.size_for(float(bm25[0]))[0]),
    )  # fmt: skip


def _no_lower(curves: PowerLaws, at_whole: Floats, whole: float) -> Floats:
    """Return the forecast for twice the log: what the curve gains from there, added to the value at the whole log."""
    return np.minimum(100.0, at_whole + curves.at(2 * whole) - curves.at(whole))


def _interval(values: Floats) -> tuple[float, float, float]:
    low, high = np.quantile(values[1:], (0.025, 0.975)).tolist()
    return float(values[0]), low, high


def too_few_queries() -> str:
    """Say why there is no forecast."""
    return f"The log has fewer than {fewest_queries()} different queries, too few to hold any out."
