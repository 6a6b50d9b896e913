"""Evaluate systems on a judged set: NDCG on the judged titles of each query, and recall over a whole catalogue."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, JudgedQuery, Rows, Title, read_judged, read_titles
from clickvec.data.parsing.given_table import is_table
from clickvec.data.parsing.source import Given, as_path
from clickvec.errors import ClickvecError, check_type
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.held_out_clicks import Catalogue, collection, measure
from clickvec.evaluation.index_ranker import Hybrid
from clickvec.evaluation.metrics import (
    Ranking,
    Scores,
    ndcg,
    ndcg_of_gains,
    rank_order,
    recall_at,
    reciprocal_rank,
    with_relevant,
)
from clickvec.evaluation.neural import Neural, stored_settings
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.result import CATALOGUE, LISTS, Evaluation
from clickvec.evaluation.run_file import NOT_RETURNED, RunFile, is_run_file
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

T = TypeVar("T")
log = logging.getLogger(__name__)

System = Ranker | Encoder | Index | str | Path  # a string is a model folder, a TREC run file or "bm25"
CATALOGUE_MEASURES = ("Recall@100", "MRR@10")
TITLES_AT_ONCE = 100_000  # judged titles whose vectors are in memory together


def evaluate(
    systems: System | Sequence[System] | Mapping[str, System],
    judged: Iterable[JudgedQuery] | ClickLog | Given,
    *,
    catalogue: Iterable[Title | Document] | Given | None = None,
    cutoffs: Sequence[int] = (1, 3, 10),
    progress: Progress | None = None,
) -> Evaluation:
    """Measure systems on a judged set by NDCG at the cutoffs, in per cent.

    A system is an `Encoder`, an `Index` (hybrid search), the path of a model folder or of a TREC run file, "bm25"
    or a `Ranker`. Give one system, a list, or a dictionary that names them. `judged` is a judged set, its path, or a
    table of its columns (a DataFrame, dicts). Queries without a relevant title (grade 1 or more) are not measured. BM25
    has the settings that one of the models carries, if held-out clicks have tuned it.

    With a `catalogue` (titles with ids, or a path), each system also searches the whole catalogue. This adds Recall@100
    and MRR@10; titles without a grade count as not relevant. An `Index` brings its own titles as the catalogue.

    `judged` may also be a click log that the systems were not trained on. They are then measured by MRR@10, Recall@100
    and NDCG@10 over all titles of the log and the catalogue; `.intervals` of the result are their confidence intervals.

    Run files alone are measured on all that their engine returned. Beside other systems and without a catalogue, their
    judged titles are ranked.
    """
    named = _named(systems)
    if not named:
        raise ClickvecError("there is no system to measure; give an Encoder, an Index, a path, or bm25")
    check_type("cutoffs", cutoffs, (list, tuple, range), "a list of whole numbers, such as [1, 3, 10]")
    if catalogue is None:
        catalogue = next((system for _, system in named if isinstance(system, Index)), None)
    known = None if catalogue is None else _read("catalogue", catalogue, (Title, Document), read_titles)
    if isinstance(judged, ClickLog):
        test = collection(judged, Catalogue(title.title for title in known or ()))
        names, rankers = _rankers(named, test.catalogue.titles)
        # An index has ids of its own, and the catalogue merges titles with the same words.
        rankers = [Hybrid(one.index, one.name, by_words=True) if isinstance(one, Hybrid) else one for one in rankers]
        return measure(dict(zip(names, rankers, strict=True)), test, progress)
    everything = _read("judged", judged, (JudgedQuery,), read_judged)
    queries = with_relevant(everything)
    if not queries:
        raise ClickvecError(f"none of the {len(everything)} judged queries has a relevant title (grade 1 or more)")
    corpus = [*(title.title for title in known or ()), *(title for query in everything for title in query.titles)]
    names, rankers = _rankers(named, corpus)
    measures = [f"NDCG@{k}" for k in cutoffs]
    scopes = [LISTS] * len(measures)
    if min(cutoffs) < 1:
        raise ClickvecError(f"cannot measure {measures[0]}; the cutoffs are whole numbers from 1 up")
    runs = [ranker for ranker in rankers if isinstance(ranker, RunFile)]
    if len(runs) == len(rankers):
        scopes = [CATALOGUE] * len(measures)
        values = np.stack([_ndcg_of_all(run, queries, cutoffs) for run in runs])
    else:
        values = np.stack([_ndcg(ranker, queries, cutoffs, progress) for ranker in rankers])
    absent = 0
    if known is not None or len(runs) == len(rankers):
        searched = [_recall(ranker, queries, known or (), progress) for ranker in rankers]
        values = np.concatenate((values, np.stack(searched)), axis=1)
        measures += CATALOGUE_MEASURES
        scopes += [CATALOGUE] * len(CATALOGUE_MEASURES)
    if known is not None:
        ids = {str(title.id) for title in known}
        absent = sum(len(_relevant(query) - ids) for query in queries)
    return Evaluation(
        systems=names,
        measures=tuple(measures),
        ranked=tuple(scopes),
        query_ids=tuple(query.query_id for query in queries),
        left_out=len(everything) - len(queries),
        values=values,
        relevant=sum(len(_relevant(query)) for query in queries),
        absent=absent,
    )


def is_bm25(system: System) -> bool:
    """Tell whether a system is BM25 by name, and not the path of a model."""
    return isinstance(system, str) and system.lower() == "bm25" and not Path(system).exists()


def _rankers(named: Sequence[tuple[str, System]], titles: Sequence[str]) -> tuple[tuple[str, ...], list[Ranker]]:
    """Return the names and rankers of systems. BM25 counts words in `titles`."""
    models = [make_ranker(system) for _, system in named if not is_bm25(system)]
    rest = iter(models)
    rankers = [
        BM25(titles, **(stored_settings(_encoders(models)) or {})) if is_bm25(system) else next(rest)
        for _, system in named
    ]
    names = tuple(name or ranker.name for (name, _), ranker in zip(named, rankers, strict=True))
    if len(set(names)) < len(names):
        raise ClickvecError(
            f"two systems have the same name ({', '.join(names)}); give each once, or name them with a dictionary"
        )
    return names, rankers


def _encoders(rankers: Iterable[Ranker]) -> list[Ranker]:
    """Return the models of rankers, also of indexes."""
    return [Neural(one.index.encoder, one.name) if isinstance(one, Hybrid) else one for one in rankers]


def make_ranker(system: System) -> Ranker:
    """Return the ranker of a system that is not BM25."""
    match system:
        case str() | Path() if is_run_file(system):
            return RunFile.read(system)
        case str() | Path():
            return Neural(Encoder.load(system), str(system))
        case Encoder():
            return Neural(system, str(system.path or "model"))
        case Index():
            return Hybrid(system, "index")
        case _ if hasattr(system, "score_lists"):
            return system
    check_type("a system", system, (str, Path, Encoder, Index), "an Encoder, an Index, a path, or bm25")
    raise AssertionError


def rank_lists(ranker: Ranker, judged: Iterable[JudgedQuery], progress: Progress | None = None) -> list[Ranking]:
    """Score the judged titles of every query, as `write_run` takes them; also queries without a relevant title."""
    if isinstance(ranker, RunFile):
        return [ranker.of_judged(query) for query in judged]
    queries, rankings = list(judged), list[Ranking]()
    report, label = progress or ignore, f"ranking with {ranker.name}"
    report(label, 0, len(queries))
    for group in _groups(queries):
        lists = [(query.query, list(dict.fromkeys(query.titles))) for query in group]
        for query, (_, titles), scores in zip(group, lists, ranker.score_lists(lists), strict=True):
            rankings.append(Ranking(query.query_id, query.doc_ids, _all_scores(ranker.name, query, titles, scores)))
            report(label, len(rankings), len(queries))
    return rankings


def _groups(queries: Iterable[JudgedQuery]) -> Iterator[list[JudgedQuery]]:
    """Yield groups of queries whose titles are scored together."""
    group, titles = list[JudgedQuery](), 0
    for query in queries:
        group.append(query)
        titles += len(query.titles)
        if titles > TITLES_AT_ONCE:
            yield group
            group, titles = [], 0
    if group:
        yield group


def _all_scores(name: str, query: JudgedQuery, distinct: Sequence[str], scores: Scores) -> Scores:
    """Return the scores of all titles of a query from those of its distinct titles, so that equal titles tie."""
    scores = np.asarray(scores, dtype=np.float32)
    if scores.shape != (len(distinct),) or np.isnan(scores).any():
        fault = "NaN among the scores" if scores.shape == (len(distinct),) else f"scores of shape {scores.shape}"
        raise ClickvecError(
            f"{name} gave {fault} for the {len(distinct)} titles of query_id {query.query_id} ({query.query!r})"
        )
    row = {title: number for number, title in enumerate(distinct)}
    return scores[[row[title] for title in query.titles]]


def _ndcg(
    ranker: Ranker, queries: Sequence[JudgedQuery], cutoffs: Sequence[int], progress: Progress | None
) -> NDArray[np.float64]:
    """Return (cutoffs, queries), in per cent, as a contiguous array: the last bit of a mean depends on the layout."""
    columns = []
    for query, ranking in zip(queries, rank_lists(ranker, queries, progress), strict=True):
        order = rank_order(ranking.scores, ranking.doc_ids)
        if isinstance(ranker, RunFile):
            gains = np.exp2(query.grades.astype(np.float64)) - 1
            found = gains[order[ranking.scores[order] > NOT_RETURNED]]
            columns.append([100 * ndcg_of_gains(found, gains, k) for k in cutoffs])
        else:
            columns.append([100 * ndcg(query.grades[order], k) for k in cutoffs])
    return np.ascontiguousarray(np.array(columns).T)


def _ndcg_of_all(run: RunFile, queries: Sequence[JudgedQuery], cutoffs: Sequence[int]) -> NDArray[np.float64]:
    """Return (cutoffs, queries), in per cent. Titles that an engine returned and nobody judged keep their ranks."""
    columns = []
    for query in queries:
        gains = dict(zip(query.doc_ids, (np.exp2(query.grades.astype(np.float64)) - 1).tolist(), strict=True))
        found = [gains.get(doc_id, 0.0) for doc_id in run.returned(query.query_id)]
        columns.append([100 * ndcg_of_gains(found, list(gains.values()), k) for k in cutoffs])
    return np.ascontiguousarray(np.array(columns).T)


def _recall(
    ranker: Ranker, queries: Sequence[JudgedQuery], catalogue: Sequence[Title | Document], progress: Progress | None
) -> NDArray[np.float64]:
    """Return (catalogue measures, queries), in per cent."""
    if isinstance(ranker, RunFile):
        results: Sequence[Sequence[str]] = [ranker.returned(query.query_id) for query in queries]
    else:
        ids, titles = [str(title.id) for title in catalogue], [title.title for title in catalogue]
        results = ranker.search([query.query for query in queries], ids, titles, 100, progress)
    if len(results) != len(queries):
        raise ClickvecError(f"{ranker.name} was asked {len(queries)} queries and gave {len(results)} lists")
    columns = []
    for query, doc_ids in zip(queries, results, strict=True):
        relevant = _relevant(query)
        hits = [doc_id in relevant for doc_id in dict.fromkeys(doc_ids)]  # a repeated id counts once
        columns.append([100 * recall_at(hits, 100, len(relevant)), 100 * reciprocal_rank(hits, 10)])
    return np.ascontiguousarray(np.array(columns).T)


def _relevant(query: JudgedQuery) -> frozenset[str]:
    return frozenset(doc_id for doc_id, grade in zip(query.doc_ids, query.grades.tolist(), strict=True) if grade >= 1)


# --- arguments ---------------------------------------------------------------------------------------------------


def _named(systems: System | Sequence[System] | Mapping[str, System]) -> list[tuple[str, System]]:
    """Return the systems with their names; an empty name stands for the name of the ranker."""
    if isinstance(systems, Mapping):
        return list(systems.items())
    if isinstance(systems, Sequence) and not isinstance(systems, str):
        return [("", system) for system in systems]
    return [("", systems)]


def _read(
    name: str, items: Iterable[T] | Given, kinds: tuple[type, ...], reader: Callable[[Given], Rows[T]]
) -> list[T]:
    """Return the items of an argument. Read a file or a table, and log a warning about its bad lines."""
    if not (isinstance(items, str | Path) or is_table(items)):
        if not isinstance(items, Iterable):
            as_path(items)  # says what can be given
        found = list(items)
        wrong = next((at for at, item in enumerate(found) if not isinstance(item, kinds)), None)
        if wrong is not None:
            raise ClickvecError(
                f"{name}[{wrong}] is of type {type(found[wrong]).__name__}; give a path, a DataFrame, or a list of "
                f"dicts or {' or '.join(kind.__name__ for kind in kinds)}"
            )
        return found
    rows = reader(items)
    if rows.bad.count:
        log.warning("skipped %d of %d lines; the first: %s", rows.bad.count, rows.bad.total, rows.bad.examples[0])
    return list(rows)
