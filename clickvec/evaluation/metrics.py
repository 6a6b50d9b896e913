"""NDCG, recall and reciprocal rank, and the TREC run files that other tools read.

NDCG has the gain 2^grade - 1 and the discount log2(rank + 1). The ideal order is that of all judged titles of a query.
Equal scores are ordered by doc_id, descending, as trec_eval does. trec_eval has a linear gain: to get the same NDCG
from it, give it qrels with the gains instead of the grades. Scores are float32 because trec_eval stores them
so, and both must see the same ties.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.model.fusion_report import MEASURES as MEASURES
from clickvec.storage import files

DEPTH = 100  # titles that a search of a catalogue returns for a query
CHOSEN_BY = "NDCG@10"  # chooses epochs and settings, and compares systems

Scores = NDArray[np.float32]
Row = tuple[float, ...]  # the value of each measure
Gains = Mapping[str, float]  # of the relevant titles of a query, by the key of the title


class Ranking(NamedTuple):
    """The scores of one system for the titles of one query."""

    query_id: str
    doc_ids: tuple[str, ...]
    scores: Scores


def gains_of(query: JudgedQuery) -> dict[str, float]:
    """Return the gains, 2^grade - 1, of the relevant titles of a query: those of grade 1 or more."""
    gains: dict[str, float] = {}
    for doc_id, grade in zip(query.doc_ids, query.grades.tolist(), strict=True):
        if grade >= 1:
            gains[doc_id] = max(gains.get(doc_id, 0.0), 2.0**grade - 1)
    return gains


def value_of(measure: str, found: NDArray[np.float64], relevant: Sequence[float]) -> float:
    """Return a measure, such as NDCG@10, in per cent.

    `found` has the gains of the titles in ranked order, `relevant` those of all relevant titles of the query.
    """
    name, _, cutoff = measure.partition("@")
    k = int(cutoff)
    match name:
        case "NDCG":
            return 100 * ndcg(found, relevant, k)
        case "Recall":
            return 100 * recall_at(found > 0, k, len(relevant))
        case _:
            return 100 * reciprocal_rank(found > 0, k)


def values_of(keys: Iterable[str], gains: Gains, measures: Sequence[str] = MEASURES) -> Row:
    """Return the measures, in per cent, of a search that returned these titles, best first. A copy does not count."""
    return values_of_gains(np.array([gains.get(key, 0.0) for key in dict.fromkeys(keys)], np.float64), gains, measures)


def values_of_gains(found: NDArray[np.float64], gains: Gains, measures: Sequence[str] = MEASURES) -> Row:
    """Return the measures, in per cent, of a search that returned titles with these gains, best first."""
    relevant = list(gains.values())
    return tuple(value_of(measure, found, relevant) for measure in measures)


def values_table(rows: Iterable[Row]) -> NDArray[np.float64]:
    """Return (measures, queries) as a contiguous array: the last bit of a mean depends on the layout."""
    return np.ascontiguousarray(np.array(list(rows), np.float64).T)


def ndcg(found: ArrayLike, relevant: ArrayLike, k: int) -> float:
    """Return NDCG@k of titles with the gains `found` in ranked order; 0 if no title is relevant.

    `relevant` are the gains of all relevant titles of the query, in any order.
    """
    discounts = 1 / np.log2(np.arange(k) + 2.0)
    ideal, first = np.sort(np.asarray(relevant, np.float64))[::-1][:k], np.asarray(found, np.float64)[:k]
    best = float(ideal @ discounts[: len(ideal)])
    return float(first @ discounts[: len(first)]) / best if best else 0.0


def recall_at(grades: ArrayLike, k: int, relevant: int) -> float:
    """Return the share of the `relevant` titles (grade 1 or more) of a query that are among the first k."""
    return int((np.asarray(grades)[:k] >= 1).sum()) / relevant if relevant else 0.0


def reciprocal_rank(grades: ArrayLike, k: int) -> float:
    """Return 1 / rank of the first relevant title, or 0 if there is none among the first k."""
    positions = np.flatnonzero(np.asarray(grades)[:k] >= 1)
    return 1.0 / (int(positions[0]) + 1) if positions.size else 0.0


def rank_order(scores: ArrayLike, doc_ids: Sequence[str]) -> NDArray[np.intp]:
    """Return the rows in ranked order: by score, descending, and equal scores by doc_id, descending."""
    values = np.asarray(scores, dtype=np.float32)
    by_id = np.array(sorted(range(len(doc_ids)), key=doc_ids.__getitem__, reverse=True), dtype=np.intp)
    return by_id[np.argsort(-values[by_id], kind="stable")]


def with_relevant(judged: Iterable[JudgedQuery]) -> list[JudgedQuery]:
    """Return the queries with a relevant title. The others cannot be measured."""
    return [query for query in judged if (query.grades >= 1).any()]


def write_run(path: str | Path, rankings: Iterable[Ranking], tag: str) -> None:
    """Write a TREC run file: `qid Q0 docid rank score tag`. Nine digits reproduce the float32 scores exactly."""
    with files.replacing_file(Path(path)) as file:
        file.writelines(line.encode() for ranking in rankings for line in _run_lines(ranking, trec_field(tag, "tag")))


def _run_lines(ranking: Ranking, tag: str) -> Iterable[str]:
    query_id = trec_field(ranking.query_id, "query_id")
    for rank, row in enumerate(rank_order(ranking.scores, ranking.doc_ids).tolist(), 1):
        doc_id = trec_field(ranking.doc_ids[row], "doc_id")
        yield f"{query_id} Q0 {doc_id} {rank} {ranking.scores[row]:.9g} {tag}\n"


def trec_field(text: str, kind: str) -> str:
    """Return a text that a TREC file can contain. Raise ClickvecError if it cannot."""
    if text.split() != [text]:
        raise ClickvecError(
            f"{kind} {text!r} is empty or contains white space, which separates the fields of a TREC file"
        )
    return text
