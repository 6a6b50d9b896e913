"""How an index of a new model ranks: the fusion is fitted on clicks that the model was not trained on, and measured.

These are the clicks that were held out. If they are too few, as in a small log, the fusion is cross-fitted: the queries
are split into folds, and for each fold another model is trained on the queries of the others. Together, the folds have
all queries of the log, each with the candidates of a model that was not trained on it.

A model of very few clicks knows less than words, so an index of it ranks by words (benchmarks/small_logs.py).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data.dataset import Dataset, Texts
from clickvec.data.held_out import ENOUGH, fewest_queries, near_duplicate_groups
from clickvec.data.pairs import rows_of
from clickvec.evaluation.fitting import (
    FEWEST_COMPARED,
    FEWEST_QUERIES,
    MOST_QUERIES,
    FittedFusion,
    FittedQuery,
    choose,
    compare,
    gather,
    unmeasured,
    verdict,
)
from clickvec.evaluation.index_measures import index_rankers
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import MEASURES
from clickvec.evaluation.result import CATALOGUE, Evaluation
from clickvec.evaluation.test_set import Catalogue, TestSet, clicked_query
from clickvec.evaluation.tuning import tune_bm25
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model
from clickvec.progress import Progress
from clickvec.search.index import Index

log = logging.getLogger(__name__)

FOLDS = 5
FEWEST_FOLDED = ENOUGH  # different queries; with fewer, the choice is a matter of luck (benchmarks/small_logs.py)
MOST_PAIRS = 20_000  # of a larger log, models of folds are not trained: that would take too long
NAMES = {"vectors": "model"}  # what the search by vectors alone is called in the figures of a model

TrainFold = Callable[[Dataset, int], Model]  # from a part of the data and the number of the fold


class LogTexts(NamedTuple):
    """The texts of the data that a model was trained on, and more titles that are searched."""

    texts: Texts
    titles: Sequence[str] = ()


def fit_and_measure(
    model: Model, data: Dataset, dev: TestSet | None, test: TestSet | None, texts: LogTexts | None,
    train_fold: TrainFold, progress: Progress, start: Model | None = None,
) -> Model:  # fmt: skip
    """Return the model with the fusion that is best on dev, or cross-fitted, and with its figures.

    The figures are of the clicks in `test`; without them, of the queries of all folds. With too few queries, the fusion
    is that of `start`, the model that training has continued; without one, what is safe for so many clicks.
    """
    catalogue = _catalogue(data, dev, texts)
    held_out = dev if dev is None or dev.catalogue else TestSet.of_judged(dev.queries, catalogue)
    index = None if held_out is None else Index.build(Encoder(model), catalogue.titles)
    queries = [] if index is None or held_out is None else _gather(index, held_out, MOST_QUERIES, progress)
    folds, searched = 0, catalogue
    if len(queries) < FEWEST_QUERIES and texts is not None and _can_be_folded(data, texts):
        folds = FOLDS
        log.info("Training %d models on parts of the log: with few queries, this is how the fusion is fitted.", FOLDS)
        searched = Catalogue(catalogue.titles)
        searched.add(texts.texts.titles[: data.clicked_titles])  # the catalogue of a judged set may lack them
        for number, (part, clicks) in enumerate(_folds(data, texts.texts, searched)):
            fold = Index.build(Encoder(train_fold(part, number)), searched.titles)
            queries += _gather(fold, clicks, MOST_QUERIES // FOLDS, progress)
    if start is not None and len(queries) < FEWEST_QUERIES:
        model = model._replace(fusion=start.fusion, fusion_report=start.fusion_report)
        log.info("The fusion of the old model is kept: it takes %d queries to fit another one.", FEWEST_QUERIES)
    else:
        fitted = _choose(queries, _different_queries(data, texts), folds, progress)
        model = model._replace(fusion=fitted.fusion.as_json(), fusion_report=fitted.report)
        if index is not None:
            index.use_fusion(fitted.fusion)
        if (told := verdict(fitted.report)) and (dev is not None or texts is not None):
            log.info(told)
        if test is None and folds:
            model.training["held_out"] = _cross_validated(fitted, queries, len(searched.titles))
    if index is not None and dev is not None and dev.catalogue and test is not None:
        model.training["held_out"] = _figures(index, dev, test, progress)
    return model


def _choose(queries: list[FittedQuery], different: int, folds: int, progress: Progress) -> FittedFusion:
    """Choose the fusion of a model of so many different queries, on queries that it was not trained on."""
    if len(queries) >= FEWEST_QUERIES:
        fitted = choose(queries, progress, of_few_clicks=folds > 0)
    elif len(queries) >= FEWEST_COMPARED:
        fitted = compare(queries)
    elif different < fewest_queries():
        least = FEWEST_FOLDED if different < FEWEST_FOLDED else fewest_queries()
        count = "1 query" if different == 1 else f"{different:,} different queries"
        reason = f"the model was trained on {count}, and with fewer than {least:,} it is not known to be better"
        fitted = unmeasured("words", different, reason)
    else:
        fitted = unmeasured("default", different, "there are no held-out queries to choose a fusion")
    return fitted._replace(report=fitted.report | {"folds": folds})


def _different_queries(data: Dataset, texts: LogTexts | None) -> int:
    """Return how many queries the log has. In a small log, near-duplicates count once, if their texts are known."""
    count = len(data.queries.offsets) - 1
    if texts is None or count > MOST_PAIRS:
        return count
    return len(np.unique(near_duplicate_groups(_queries(data, texts.texts))))


def _catalogue(data: Dataset, dev: TestSet | None, texts: LogTexts | None) -> Catalogue:
    """Return the titles that are searched: those of dev, or of the log and the catalogue."""
    if dev is not None and dev.catalogue:
        return dev.catalogue
    catalogue = Catalogue(() if texts is None else texts.texts.titles[: data.clicked_titles])
    catalogue.add(() if texts is None else texts.titles)
    return catalogue


def _gather(index: Index, clicks: TestSet, most: int, progress: Progress) -> list[FittedQuery]:
    return gather(index, clicks.present().sample(most), progress)


# --- folds -------------------------------------------------------------------------------------------------------


def _can_be_folded(data: Dataset, texts: LogTexts) -> bool:
    """Tell whether the log has enough queries, and is small enough to train on it five times more."""
    return len(data.pair_query) <= MOST_PAIRS and _different_queries(data, texts) >= FEWEST_FOLDED


def _queries(data: Dataset, texts: Texts) -> list[str]:
    return list(texts.queries[: len(data.queries.offsets) - 1])


def _folds(data: Dataset, texts: Texts, catalogue: Catalogue) -> Iterator[tuple[Dataset, TestSet]]:
    """Yield for each fold the data of the other folds, and its own clicks."""
    queries, titles = _queries(data, texts), texts.titles[: data.clicked_titles]
    fold_of = near_duplicate_groups(queries) % FOLDS
    offsets, clicked = data.clicked.offsets, data.clicked.values
    for number in range(FOLDS):
        inside = np.flatnonzero((fold_of == number) & (data.clicked.lengths > 0)).tolist()
        clicks = tuple(
            clicked_query(
                queries[query], (titles[row] for row in clicked[offsets[query] : offsets[query + 1]].tolist())
            )
            for query in inside
        )
        yield _only(data, fold_of[data.pair_query] != number), TestSet(clicks, catalogue)


def _only(data: Dataset, kept: NDArray[np.bool_]) -> Dataset:
    """Return the data with some of its pairs."""
    query, title = data.pair_query[kept], data.pair_title[kept]
    looks = None if data.pair_looks is None else data.pair_looks[kept]
    clicked = rows_of(query, title, len(data.queries.offsets) - 1)
    return data._replace(
        pair_query=query, pair_title=title, pair_clicks=data.pair_clicks[kept], pair_looks=looks, clicked=clicked
    )


# --- figures -----------------------------------------------------------------------------------------------------


def _figures(index: Index, dev: TestSet, test: TestSet, progress: Progress) -> dict[str, Any]:
    """Measure a model on test: alone, in hybrid search, beside the words of an index and BM25 that is tuned on dev.

    Return plain values for the model card.
    """
    bm25, settings = tune_bm25(dev, progress=progress)
    bm25.name = "BM25 (tuned)"
    result = measure([*index_rankers(index, ("vectors", "hybrid", "words")), bm25], test, progress=progress)
    return _as_json(result, len(index)) | {"bm25": settings}


def _cross_validated(fitted: FittedFusion, queries: list[FittedQuery], titles: int) -> dict[str, Any]:
    """Return the figures of the queries of all folds: each by a model and a fusion that were not fitted on it."""
    values = np.stack([fitted.values[name] for name in ("vectors", fitted.report["chosen"], "words")])
    relevant = sum(len(query.gains) for query in queries)
    ids = tuple(str(number) for number in range(len(queries)))
    result = Evaluation(("vectors", "hybrid", "words"), MEASURES, (CATALOGUE,) * 3, ids, 0, values, relevant)
    return _as_json(result, titles) | {"folds": FOLDS}


def _as_json(result: Evaluation, titles: int) -> dict[str, Any]:
    named = replace(result, systems=tuple(NAMES.get(name, name) for name in result.systems))
    return {"queries": len(named.query_ids), "titles": titles, "systems": named.as_json(intervals=True)["systems"]}
