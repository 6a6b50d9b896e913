"""Measure an index over its own catalogue: hybrid search, words alone and vectors alone, beside a baseline."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.held_out_clicks import Catalogue, collection, judged_collection
from clickvec.evaluation.index_queries import DEPTH, MEASURES, IndexQueries, values_of, values_table
from clickvec.evaluation.index_ranker import Hybrid as Hybrid
from clickvec.evaluation.neural import Settings
from clickvec.evaluation.result import CATALOGUE, Evaluation
from clickvec.evaluation.run_file import RunFile
from clickvec.evaluation.tuning import tune_bm25
from clickvec.progress import Progress, ignore
from clickvec.search.index import Index

MODES = ("hybrid", "words", "vectors")
MOST_TITLES = 2_000_000  # of a larger index, BM25 as a baseline would take too much memory
_AT_ONCE = 64  # queries between two reports of progress


def measure_index(
    index: Index, queries: IndexQueries, bm25: BM25 | None = None, progress: Progress | None = None,
    modes: Sequence[str] = MODES, runs: Sequence[RunFile] = (),
) -> Evaluation:  # fmt: skip
    """Let an index search for all queries in each mode, and `bm25` over its titles, and return the measures.

    Runs of other engines are measured beside them, if the ids of judged titles are those of the index.
    """
    if runs and not queries.by_id:
        raise ClickvecError(f"{runs[0].name} cannot be compared: the judged set has other ids than the index")
    rows = {mode: _values(index, queries, mode, progress) for mode in modes}
    if bm25 is not None:
        rows[bm25.name] = _baseline_values(index, queries, bm25, progress)
    for run in runs:
        rows[run.name] = values_table(values_of(run.returned(one.query_id), one.gains) for one in queries.queries)
    relevant = sum(len(query.gains) for query in queries.queries)
    ids = tuple(query.query_id for query in queries.queries)
    values = np.stack(list(rows.values()))
    return Evaluation(tuple(rows), MEASURES, (CATALOGUE,) * 3, ids, queries.left_out, values, relevant, queries.absent)


def tuned_settings(index: Index, dev: Sequence[JudgedQuery] | ClickLog, progress: Progress | None = None) -> Settings:
    """Return the settings of BM25 that are best in searches of the index's titles, by a judged set or by clicks."""
    catalogue = Catalogue(document.title for document in index)
    queries = collection(dev, catalogue) if isinstance(dev, ClickLog) else judged_collection(dev, catalogue)
    return tune_bm25(queries, progress)[1]


def _values(index: Index, queries: IndexQueries, mode: str, progress: Progress | None) -> NDArray[np.float64]:
    report, label, total = progress or ignore, f"searching by {mode}", len(queries.queries)
    rows = []
    for start in range(0, total, _AT_ONCE):
        report(label, start, total)
        part = queries.queries[start : start + _AT_ONCE]
        results = index.search([query.text for query in part], k=DEPTH, mode=mode)
        rows += [
            values_of((queries.key(hit) for hit in hits), query.gains)
            for query, hits in zip(part, results, strict=True)
        ]
    report(label, total, total)
    return values_table(rows)


def _baseline_values(index: Index, queries: IndexQueries, bm25: BM25, progress: Progress | None) -> NDArray[np.float64]:
    documents = list(index)
    ids, titles = [str(row) for row in range(len(documents))], [document.title for document in documents]
    results = bm25.search([query.text for query in queries.queries], ids, titles, DEPTH, progress)
    return values_table(
        values_of((queries.key(documents[int(row)]) for row in found), query.gains)
        for query, found in zip(queries.queries, results, strict=True)
    )
