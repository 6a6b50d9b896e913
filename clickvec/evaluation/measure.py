"""Measure anything that ranks on a test set."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import DEPTH, MEASURES, gains_of, rank_order, values_of, values_table
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.result import CATALOGUE, LISTS, Evaluation
from clickvec.evaluation.run_file import NOT_RETURNED
from clickvec.evaluation.test_set import TestSet
from clickvec.progress import Progress

LIST_MEASURES = ("NDCG@1", "NDCG@3", "NDCG@10")


def measure(
    rankers: Sequence[Ranker] | Mapping[str, Ranker],
    test: TestSet,
    measures: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Let each system rank for all queries, and return its measures on each, in per cent.

    By default the measures are NDCG@1, @3 and @10 of lists, and MRR@10, Recall@100 and NDCG@10 over a catalogue.
    """
    names = tuple(rankers) if isinstance(rankers, Mapping) else tuple(ranker.name for ranker in rankers)
    rankers = list(rankers.values()) if isinstance(rankers, Mapping) else rankers
    if len(set(names)) < len(names):
        raise ClickvecError(
            f"two systems have the same name ({', '.join(names)}); give each once, or name them with a dictionary"
        )
    test.check()
    if measures is None:
        measures = LIST_MEASURES if test.catalogue is None else MEASURES
    scope = LISTS if test.catalogue is None else CATALOGUE
    values = np.stack([_values(ranker, test, measures, progress) for ranker in rankers])
    ids = tuple(query.query_id for query in test.queries)
    return Evaluation(
        names, tuple(measures), (scope,) * len(measures), ids, test.left_out, values, test.relevant, test.absent
    )


def _values(ranker: Ranker, test: TestSet, measures: Sequence[str], progress: Progress | None) -> NDArray[np.float64]:
    """Return (measures, queries)."""
    ranked = ranked_lists(ranker, test.queries, progress) if test.catalogue is None else search(ranker, test, progress)
    return values_table(
        values_of(keys, gains_of(query), measures) for query, keys in zip(test.queries, ranked, strict=True)
    )


def ranked_lists(
    ranker: Ranker, queries: Sequence[JudgedQuery], progress: Progress | None = None
) -> Iterable[list[str]]:
    """Yield for each query the ids of its judged titles, best first, without those that an engine did not return."""
    for ranking in ranker.rank(queries, progress):
        order = rank_order(ranking.scores, ranking.doc_ids)
        yield [ranking.doc_ids[row] for row in order[ranking.scores[order] > NOT_RETURNED].tolist()]


def search(ranker: Ranker, test: TestSet, progress: Progress | None = None) -> Sequence[Sequence[str]]:
    """Return for each query the keys of the titles that a system finds in the catalogue, best first."""
    if test.catalogue is None:
        raise ValueError("the test set has no catalogue")
    results = ranker.search(test.queries, test.catalogue, DEPTH, progress)
    if len(results) != len(test.queries):
        raise ClickvecError(f"{ranker.name} was asked {len(test.queries)} queries and gave {len(results)} lists")
    return results


def pooled_lists(test: TestSet, rankers: Sequence[Ranker], progress: Progress | None = None) -> list[JudgedQuery]:
    """Return a judged set: for each query its relevant titles, and all others that a system returns (grade 0).

    Among these titles, each system has the same NDCG@10 as in a search of the whole catalogue, if ten titles or more
    score above 0.
    """
    entries = test.catalogue.entries if test.catalogue else {}
    # Lists order equal scores by doc_id, descending: that is the order of the catalogue.
    doc_id = {key: f"{len(entries) - number:08}" for number, key in enumerate(entries)}
    pools, lists = zip(*(search(ranker, test, progress) for ranker in rankers), strict=True), []
    for number, (query, found) in enumerate(zip(test.queries, pools, strict=True)):
        gains = gains_of(query)
        keys = list(dict.fromkeys([*gains, *(key for part in found for key in part)]))
        titles, grades = tuple(entries[key] for key in keys), np.array([key in gains for key in keys], np.int64)
        lists.append(JudgedQuery(str(number), query.query, tuple(doc_id[key] for key in keys), titles, grades))
    return lists
