"""The finding of `--forecast`: whether the data is enough to beat BM25, and what more of it would bring."""

import logging
import math

from clickvec.config import Recipe
from clickvec.doctor.finding import Finding, Plot, count_of
from clickvec.doctor.forecast import SHARES, Forecast, make_forecast, too_few_queries, training_share
from clickvec.doctor.line_sample import Sample
from clickvec.doctor.training_cost import Cost
from clickvec.doctor.training_findings import duration
from clickvec.progress import Progress

log = logging.getLogger(__name__)

NAME, HEADING = "forecast", "Forecast"
FAR = 100.0  # times the log: a forecast beyond it is not worth telling
SMALL_GAIN = 0.5  # NDCG@10


def forecast_finding(
    sample: Sample, pairs: int, cost: Cost, recipe: Recipe, device: str, progress: Progress | None
) -> Finding:
    """Say how long it takes, make the forecast, and report it."""
    share = training_share(pairs, recipe.epochs, cost.pairs_per_second, len(sample) / sample.lines)
    log.info(
        "The forecast trains %d models on up to %s. That takes %s.",
        len(SHARES), count_of(share * sample.lines, "line"), duration(cost.seconds * share * sum(SHARES)),
    )  # fmt: skip
    found = make_forecast(sample, share, recipe, device, progress)
    if found is None:
        return Finding(NAME, HEADING, too_few_queries(), "Collect more days.", {"queries": 0}, act=True)
    return describe_forecast(found, float(sample.lines))


def describe_forecast(found: Forecast, whole: float) -> Finding:
    """Put a forecast into words. `whole` is the number of clicked lines of the log."""
    ahead, low, high = found.ahead
    share = found.lines[-1] / whole
    used = "the whole log" if share >= 1 else f"{share:.0%} of the log"
    text = (
        f"On {count_of(found.queries, 'held-out query', 'held-out queries')}, hybrid search with a model of {used} has "
        f"NDCG@10 {found.means[-1]:.1f}, tuned BM25 {found.bm25:.1f}: a difference of {ahead:+.1f} [{low:+.1f}, "
        f"{high:+.1f}]. "
        f"Twice the clicks would bring {found.gain[0]:+.1f} [{found.gain[1]:+.1f}, {found.gain[2]:+.1f}]."
    )
    numbers = found._asdict() | {"needed": found.needed if math.isfinite(found.needed) else None}
    return Finding(NAME, HEADING, text, _advice(found, whole), numbers, plots=(_plot(found, whole),), act=low <= 0)


def _advice(found: Forecast, whole: float) -> str:
    _, low, high = found.ahead
    if low > 0:
        more = "More clicks would help little." if found.gain[2] < SMALL_GAIN else "More clicks would make it better."
        return f"There is enough data to beat BM25. {more}"
    if high >= 0:
        return "Hybrid search and BM25 are level. Collect more clicks."
    times = found.needed / whole
    if times > FAR:
        return "By this curve no amount of such clicks beats BM25. Use BM25."
    return f"Not enough data: by this curve, BM25 is beaten with about {max(times, 1):.2g} times the clicks."


def _plot(found: Forecast, whole: float) -> Plot:
    ends = [*found.intervals]
    values, lines = [*found.means], [*found.lines]
    if lines[-1] < whole:
        values.append(found.whole[0])
        ends.append(found.whole[1:])
        lines.append(whole)
    values.append(found.doubled[0])
    ends.append(found.doubled[1:])
    labels = [*(f"{count:,.0f}" for count in lines), "twice (forecast)"]
    if len(lines) > len(found.lines):
        labels[-2] += " (forecast)"
    return Plot(
        "NDCG@10 on held-out clicks, by clicked lines", "curve", tuple(labels), tuple(values),
        low=tuple(low for low, _ in ends), high=tuple(high for _, high in ends), level=("BM25", found.bm25),
    )  # fmt: skip
