"""Evaluate systems, as users name them, on a judged set or on held-out clicks."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from clickvec.data import ClickLog, JudgedQuery, Rows, Title, read_judged, read_titles
from clickvec.data.parsing.given_table import is_table
from clickvec.data.parsing.source import Given, as_path
from clickvec.errors import ClickvecError, check_type
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.index_measures import IndexRanker
from clickvec.evaluation.measure import measure
from clickvec.evaluation.neural import Neural, stored_settings
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.result import Evaluation
from clickvec.evaluation.run_file import RunFile, is_run_file
from clickvec.evaluation.test_set import Catalogue, TestSet
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.search.documents.document import Document
from clickvec.search.index import Index

T = TypeVar("T")
log = logging.getLogger(__name__)

System = Ranker | Encoder | Index | str | Path  # a string is a model folder, a TREC run file or "bm25"
CATALOGUE_MEASURES = ("Recall@100", "MRR@10")  # beside the NDCG of judged lists


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
        test = TestSet.of_clicks(judged, Catalogue(title.title for title in known or ()))
        return measure(_rankers(named, test.titles), test, progress=progress)
    everything = _read("judged", judged, (JudgedQuery,), read_judged)
    lists = TestSet.of_judged(everything)
    lists.check()
    corpus = [*(title.title for title in known or ()), *(title for query in everything for title in query.titles)]
    rankers = _rankers(named, corpus)
    measures = [f"NDCG@{k}" for k in cutoffs]
    if min(cutoffs) < 1:
        raise ClickvecError(f"cannot measure {measures[0]}; the cutoffs are whole numbers from 1 up")
    if all(isinstance(ranker, RunFile) for ranker in rankers.values()):
        searches = replace(lists, catalogue=RETURNED if known is None else _with_ids(known))
        return measure(rankers, searches, [*measures, *CATALOGUE_MEASURES], progress)
    result = measure(rankers, lists, measures, progress)
    if known is None:
        return result
    searches = replace(lists, catalogue=_with_ids(known))
    return result.beside(measure(rankers, searches, CATALOGUE_MEASURES, progress))


class _Returned(Catalogue):
    """What an engine returned, of a catalogue that is not known."""

    def present(self, keys: Collection[str]) -> set[str]:
        return set(keys)


RETURNED = _Returned((), ids=())


def _with_ids(titles: Sequence[Title | Document]) -> Catalogue:
    return Catalogue((title.title for title in titles), ids=(title.id for title in titles))


def is_bm25(system: System) -> bool:
    """Tell whether a system is BM25 by name, and not the path of a model."""
    return isinstance(system, str) and system.lower() == "bm25" and not Path(system).exists()


def _rankers(named: Sequence[tuple[str, System]], titles: Sequence[str]) -> dict[str, Ranker]:
    """Return the rankers of systems by their names. BM25 counts words in `titles`."""
    made = {at: make_ranker(system) for at, (_, system) in enumerate(named) if not is_bm25(system)}
    settings = stored_settings(encoders_of(made.values())) if len(made) < len(named) else None
    rankers: dict[str, Ranker] = {}
    for at, (name, _) in enumerate(named):
        ranker = made[at] if at in made else BM25(titles, **(settings or {}))
        if (name or ranker.name) in rankers:
            raise ClickvecError(
                f"two systems have the same name ({name or ranker.name}); give each once, or name them in a dictionary"
            )
        rankers[name or ranker.name] = ranker
    return rankers


def encoders_of(rankers: Iterable[Ranker]) -> list[Encoder]:
    """Return the models of rankers, also of indexes."""
    of_index = (one.index.encoder if isinstance(one, IndexRanker) else one for one in rankers)
    return [one.encoder if isinstance(one, Neural) else one for one in of_index if isinstance(one, Neural | Encoder)]


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
            return IndexRanker(system, name="index")
        case _ if hasattr(system, "score_lists"):
            return system
    check_type("a system", system, (str, Path, Encoder, Index), "an Encoder, an Index, a path, or bm25")
    raise AssertionError


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
