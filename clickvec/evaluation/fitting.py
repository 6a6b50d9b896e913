"""Choose how an index fuses words and vectors, on held-out clicks or a judged set, by cross-validation.

The candidates of each query are what the index would consider: the best 100 titles by words and the best 100 by
vectors. All of them are used, so that the fitted probabilities are those of what a user sees. A title without a click
or grade counts as not clicked.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.evaluation.index_measures import Source, index_test_set
from clickvec.evaluation.logistic_fit import Floats, fact_rows, fit_clicks, fit_without_parts
from clickvec.evaluation.metrics import DEPTH, MEASURES, Gains, Row, gains_of, values_of, values_of_gains, values_table
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.progress import Progress, ignore
from clickvec.search.fusion import Candidates, Fusion
from clickvec.search.index import Index
from clickvec.search.parts import PARTS, PROPOSING
from clickvec.search.parts.vector_part import VECTORS

FOLDS = 5
MOST_QUERIES = 1_000  # of more, a random sample
FEWEST_QUERIES = 50  # with fewer, nothing is fitted: fusions without a weight to fit are compared
FEWEST_COMPARED = 10  # with fewer, nothing is compared
CHOSEN_BY = MEASURES.index("NDCG@10")
GRIDS = {
    "ranks": tuple(map(Fusion.ranks, (1, 5, 20, 60))),
    "mixture": tuple(Fusion.mixture(VECTORS.name, step / 20) for step in range(4, 21)),
}
METHODS = (*GRIDS, "clicks")
# Nothing of these is fitted.
FIXED = {**{part.name: Fusion.alone(part.name) for part in PROPOSING}, "default": Fusion.default()}
TRAINED = "trained"  # what the fusion that an index has already is called
# The probability of a click by one part alone, and the features of the other parts that it ignores.
ALONE = {
    f"{alone.name} alone": frozenset(
        feature.name
        for part in PARTS
        if part is not alone
        for feature in part.features
        if feature.least is not None and not feature.is_exact
    )
    for alone in PROPOSING
}
ERRORS_OF_FEW = 2  # standard errors by which another fusion must be better to be chosen on few queries
CURE = "Collect more clicks, or choose on a judged set (clickvec index --dev)."
_CALLED = {
    **{part.name: f"{part.name} alone" for part in PROPOSING},
    "default": "the default fusion",
    TRAINED: "the fusion that training has chosen",
}
BINS = 10
LABEL = "fitting the fusion"

Fit = Callable[[Sequence[int]], Fusion]  # from the numbers of queries to what is best on them


class FittedQuery(NamedTuple):
    """The candidates of a query, and what they are worth."""

    candidates: Candidates
    keys: tuple[str, ...]
    gains: Gains  # of all relevant titles, also of those that are not candidates
    facts: Floats
    worth: Floats  # the gain of each candidate
    has_copies: bool  # whether two candidates have the same key

    @classmethod
    def of(cls, candidates: Candidates, keys: tuple[str, ...], gains: Gains) -> "FittedQuery":
        """Return a query by its candidates, their keys, and the gains of the relevant titles."""
        worth = np.array([gains.get(key, 0.0) for key in keys], np.float64)
        return cls(candidates, keys, gains, fact_rows(candidates), worth, len(set(keys)) < len(keys))

    @property
    def clicked(self) -> NDArray[np.bool_]:
        """Which candidates are relevant."""
        return self.worth > 0


class Validation(NamedTuple):
    """What cross-validation gives: measures (measures, queries), how to fit each method, and probabilities."""

    values: dict[str, Floats]
    fits: dict[str, Fit]
    chances: dict[str, list[Floats]]  # of all candidates of each query, by probabilities that were fitted on others


class FittedFusion(NamedTuple):
    """The chosen fusion, and how it was chosen: plain values that are stored in the index."""

    fusion: Fusion
    report: dict[str, Any]
    values: dict[str, Floats]  # of words, vectors and each method: (measures, queries)


def fit_fusion(index: Index, source: Source, progress: Progress | None = None) -> FittedFusion:
    """Return the fusion that ranks best on queries that it was not fitted on, and the figures of all of them.

    The probability of a click is kept unless another method is clearly better, because only its scores can be compared
    with a threshold. On few queries nothing is fitted, only compared; with too few even for that, raise ClickvecError.
    """
    queries = gather(index, index_test_set(index, source).present().sample(MOST_QUERIES), progress)
    if len(queries) >= FEWEST_QUERIES:
        return choose(queries, progress)
    if len(queries) < FEWEST_COMPARED:
        raise too_few(len(queries))
    is_chosen = index.fusion_report and index.fusion != FIXED["words"]
    return compare(queries, index.fusion if is_chosen else None)


def too_few(queries: int) -> ClickvecError:
    """Return the error that says that a fusion cannot be chosen on so few queries."""
    return ClickvecError(f"the fusion cannot be chosen on {queries:,} queries; it needs at least {FEWEST_COMPARED}")


def verdict(report: dict[str, Any]) -> str:
    """Say so if the fusion is not better than words or vectors alone, and by what an index ranks then."""
    measure, chosen = MEASURES[CHOSEN_BY], report["chosen"]
    figures = {name: float(row[measure]) for name, row in report["figures"].items()}
    if not figures:
        by = "words alone" if chosen == "words" else "the default fusion"
        return f"Hybrid search ranks by {by}: {report['reason']}. {CURE}"
    if "reliability" not in report:
        return _verdict_of_few(report["queries"], chosen, figures)
    if chosen == "words":
        return (
            f"Hybrid search ranks by words alone, which is not worse here: {measure} {figures['words']:.1f}, and "
            f"{figures['clicks']:.1f} by both. {CURE}"
        )
    if chosen in ALONE:
        return (
            f"Hybrid search ranks by {chosen}, which is better here: {measure} {figures[chosen]:.1f}, and "
            f"{figures['clicks']:.1f} by both."
        )
    part = max((part.name for part in PROPOSING), key=lambda name: figures[name])
    if figures[part] < figures[chosen]:
        return ""
    return (
        f"Hybrid search is not better than {part} alone: {measure} {figures[chosen]:.1f} and {figures[part]:.1f}. The "
        "difference is not significant, so it ranks by both."
    )


def _verdict_of_few(queries: int, chosen: str, figures: dict[str, float]) -> str:
    """Say what was chosen on few queries, and why."""
    measure = MEASURES[CHOSEN_BY]
    others = ", ".join(f"{figures[name]:.1f} by {_CALLED.get(name, name)}" for name in figures if name != chosen)
    start = TRAINED if TRAINED in figures else "words"
    why = "nothing else is better" if chosen == start else f"it is better than {_CALLED[start]}"
    return (
        f"Hybrid search ranks by {_CALLED.get(chosen, chosen)}: on {queries:,} queries, {why} by more than "
        f"{ERRORS_OF_FEW} standard errors ({measure} {figures[chosen]:.1f}, and {others}). "
        f"Fitting a fusion takes at least {FEWEST_QUERIES} queries."
    )


def use_best_fusion(index: Index, source: Source, progress: Progress | None = None) -> FittedFusion:
    """Fit the fusion of an index on held-out clicks or a judged set, and store it in the index."""
    fitted = fit_fusion(index, source, progress)
    index.use_fusion(fitted.fusion, report=fitted.report)
    return fitted


def figures_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return the figures of a report as a table: a header, then a row for each method."""
    rows = [[name, *(f"{value:.1f}" for value in row.values())] for name, row in report["figures"].items()]
    return [["method", *MEASURES], *rows]


def reliability_rows(report: dict[str, Any]) -> list[list[str]]:
    """Return the reliability curve of a report as a table."""
    cells = [
        [f"{part['from']:.1f} to {part['from'] + 1 / BINS:.1f}", f"{part['candidates']:,}"]
        + ([f"{part['predicted']:.3f}", f"{part['clicked']:.3f}"] if part["candidates"] else ["", ""])
        for part in report["reliability"]
    ]
    return [["probability", "candidates", "mean prediction", "share clicked"], *cells]


def gather(index: Index, test: TestSet, progress: Progress | None = None) -> list[FittedQuery]:
    """Return the candidates of all queries."""
    report, gathered, catalogue = progress or ignore, list[FittedQuery](), test.catalogue or Catalogue()
    for number, query in enumerate(test.queries):
        report("searching", number, len(test.queries))
        proposed = index.candidates(query.query)
        order = np.argsort(proposed.positions)  # ties must not depend on the present fusion
        candidates = proposed.candidates.take(proposed.rows[order])
        found = (proposed.documents[at] for at in order.tolist())
        keys = tuple(catalogue.key(document.id, document.title) for document in found)
        gathered.append(FittedQuery.of(candidates, keys, gains_of(query)))
    report("searching", len(test.queries), len(test.queries))
    return gathered


def compare(queries: Sequence[FittedQuery], trained: Fusion | None = None) -> FittedFusion:
    """Choose among fusions of which nothing is fitted, on few queries.

    It is the one that training has chosen or, without one, words, unless another is clearly better.
    """
    fusions = ({} if trained is None else {TRAINED: trained}) | FIXED
    values = {name: measure_scores(queries, fusion.scores) for name, fusion in fusions.items()}
    start = next(iter(fusions))
    best = max(fusions, key=lambda name: float(values[name][CHOSEN_BY].mean()))
    chosen = best if _is_better(values[best][CHOSEN_BY], values[start][CHOSEN_BY], ERRORS_OF_FEW) else start
    return FittedFusion(fusions[chosen], {"queries": len(queries), "chosen": chosen, "figures": _means(values)}, values)


def unmeasured(fusion: str, queries: int, reason: str) -> FittedFusion:
    """Return one of the fusions of which nothing is fitted, chosen without a measurement for this reason."""
    return FittedFusion(FIXED[fusion], {"queries": queries, "chosen": fusion, "figures": {}, "reason": reason}, {})


def choose(
    queries: Sequence[FittedQuery], progress: Progress | None = None, *, of_few_clicks: bool = False
) -> FittedFusion:
    """Cross-validate the three methods and each part alone, choose one, and fit it on all queries.

    A part alone is chosen if it is better than the fusion by more than a standard error: otherwise the fusion does no
    harm, and it finds what that part misses. A model of few clicks knows little, so its fusion must be better than
    words, or words are chosen.
    """
    values, fits, chances = validate(queries, progress)

    def best_of(names: Iterable[str]) -> str:
        return max(names, key=lambda name: float(values[name][CHOSEN_BY].mean()))

    best, part = best_of(METHODS), best_of(ALONE)
    chosen = best if _is_better(values[best][CHOSEN_BY], values["clicks"][CHOSEN_BY], errors=2) else "clicks"
    chosen = part if _is_better(values[part][CHOSEN_BY], values[chosen][CHOSEN_BY], errors=1) else chosen
    if of_few_clicks and best_of(("words", chosen)) == "words":
        chosen = "words"
    predicted = chances.get(chosen, chances["clicks"])
    bins, error = reliability(np.concatenate(predicted), np.concatenate([query.clicked for query in queries]))
    about = {"queries": len(queries), "chosen": chosen, "figures": _means(values), "calibration_error": error}
    fusion = FIXED[chosen] if chosen in FIXED else fits[chosen](range(len(queries)))
    if fusion.is_probability:
        of_queries = [query.candidates for query in queries], [query.clicked for query in queries]
        fusion = replace(fusion, without=fit_without_parts(*of_queries))
    return FittedFusion(fusion, {**about, "reliability": bins}, values)


def _means(values: dict[str, Floats]) -> dict[str, dict[str, float]]:
    return {name: dict(zip(MEASURES, rows.mean(axis=1).tolist(), strict=True)) for name, rows in values.items()}


def validate(queries: Sequence[FittedQuery], progress: Progress | None = None) -> Validation:
    """Measure words, vectors and the default on all queries, and what is fitted by cross-validation."""
    report = progress or ignore
    values = {part.name: measure_scores(queries, partial(by_part, part.name)) for part in PROPOSING}
    values["default"] = measure_scores(queries, Fusion.default().scores)
    fits = dict[str, Fit]()
    for done, (name, fusions) in enumerate(GRIDS.items()):
        report(LABEL, done, len(METHODS))
        fits[name], values[name] = _choose_setting(queries, fusions)
    report(LABEL, len(GRIDS), len(METHODS))
    chances = dict[str, list[Floats]]()
    for name, without in {"clicks": frozenset[str](), **ALONE}.items():
        fits[name] = partial(_fit_clicks, queries, without=without)
        values[name], chances[name] = _cross_validate(queries, fits[name])
    report(LABEL, len(METHODS), len(METHODS))
    return Validation(values, fits, chances)


def reliability(chances: Floats, clicked: NDArray[np.bool_]) -> tuple[list[dict[str, float]], float]:
    """Return ten bins of predicted probabilities with the share that was clicked, and the expected calibration error.

    The bins are tenths of the probability. The error is the mean distance of the two, weighted by candidates.
    """
    number = np.minimum((chances * BINS).astype(np.int64), BINS - 1)
    bins, error = [], 0.0
    for at in range(BINS):
        inside = number == at
        count = int(inside.sum())
        predicted, actual = (float(part[inside].mean()) if count else 0.0 for part in (chances, clicked))
        bins.append({"from": at / BINS, "candidates": count, "predicted": predicted, "clicked": actual})
        error += count * abs(predicted - actual) / max(1, len(chances))
    return bins, error


def by_part(name: str, candidates: Candidates) -> NDArray[Any]:
    """Score by one part alone. What it does not find has no score."""
    own = candidates.values[name].own
    return np.where(own != 0, own, -np.inf)


def measure_scores(queries: Sequence[FittedQuery], score: Callable[[Candidates], NDArray[Any]]) -> Floats:
    """Return the measures of all queries, (measures, queries)."""
    return values_table(_ranked(query, score(query.candidates)) for query in queries)


def _ranked(query: FittedQuery, scores: NDArray[Any]) -> Row:
    best = np.argsort(-scores, kind="stable")
    best = best[np.isfinite(scores[best])]
    if query.has_copies:
        return values_of((query.keys[at] for at in best.tolist()), query.gains)
    return values_of_gains(query.worth[best[:DEPTH]], query.gains)


def _choose_setting(queries: Sequence[FittedQuery], fusions: Sequence[Fusion]) -> tuple[Fit, Floats]:
    """Return the fit that takes the best of several fusions on some queries, and its cross-validated measures."""
    values = np.stack([measure_scores(queries, fusion.scores) for fusion in fusions])  # (fusions, measures, queries)

    def best(on: Sequence[int]) -> int:
        return int(values[:, CHOSEN_BY, on].mean(axis=1).argmax())

    measured = np.zeros(values.shape[1:])
    for others, held_out in folds_of(len(queries), FOLDS):
        measured[:, held_out] = values[best(others)][:, held_out]
    return lambda on: fusions[best(on)], measured


def _cross_validate(queries: Sequence[FittedQuery], fit: Fit) -> tuple[Floats, list[Floats]]:
    """Return the measures and the scores of each query by a fusion that was fitted on the other folds."""
    rows: list[Row] = [()] * len(queries)
    scores = [np.zeros(0)] * len(queries)
    for others, held_out in folds_of(len(queries), FOLDS):
        fusion = fit(others)
        for at in held_out:
            scores[at] = fusion.scores(queries[at].candidates).astype(np.float64)
            rows[at] = _ranked(queries[at], scores[at])
    return values_table(rows), scores


def _fit_clicks(queries: Sequence[FittedQuery], on: Sequence[int], without: frozenset[str] = frozenset()) -> Fusion:
    return fit_clicks([queries[at].facts for at in on], [queries[at].clicked for at in on], without)


def folds_of(count: int, folds: int, seed: int = 0) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yield (queries to fit on, queries to measure) for cross-validation."""
    part = np.empty(count, np.int64)
    part[np.random.default_rng(seed).permutation(count)] = np.arange(count) % folds
    for fold in range(min(folds, count)):
        yield np.flatnonzero(part != fold).tolist(), np.flatnonzero(part == fold).tolist()


def _is_better(one: Floats, other: Floats, errors: float) -> bool:
    """Tell whether a mean is higher by more than so many standard errors of the paired difference."""
    difference = one - other
    return bool(difference.mean() > errors * difference.std() / np.sqrt(len(difference)))
