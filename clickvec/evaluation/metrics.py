"""NDCG, recall and reciprocal rank, and the TREC run files that other tools read.

NDCG has the gain 2^grade - 1 and the discount log2(rank + 1). The ideal order is that of all judged titles of a query.
Equal scores are ordered by doc_id, descending, as trec_eval does. trec_eval has a linear gain: to get the same NDCG
from it, give it qrels with the gains instead of the grades. Scores are float32 because trec_eval stores them
so, and both must see the same ties.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.storage import files

Scores = NDArray[np.float32]


class Ranking(NamedTuple):
    """The scores of one system for the titles of one query."""

    query_id: str
    doc_ids: tuple[str, ...]
    scores: Scores


def ndcg(grades: ArrayLike, k: int) -> float:
    """Return NDCG@k for the grades of all judged titles of a query in ranked order; 0 if no title is relevant."""
    gain = np.exp2(np.asarray(grades, dtype=np.float64)) - 1
    discount = np.log2(np.arange(min(k, gain.size)) + 2.0)
    ideal = float((np.sort(gain)[::-1][:k] / discount).sum())
    return float((gain[:k] / discount).sum()) / ideal if ideal else 0.0


def ndcg_of_found(hits: Sequence[bool], relevant: int, k: int) -> float:
    """Return NDCG@k of a search that returned `hits`, if `relevant` titles of the catalogue have grade 1."""
    discounts = 1 / np.log2(np.arange(k) + 2.0)
    found = discounts[: len(hits)][np.asarray(hits[:k], bool)]
    return float(found.sum() / discounts[:relevant].sum()) if relevant else 0.0


def ndcg_of_gains(found: ArrayLike, relevant: ArrayLike, k: int) -> float:
    """Return NDCG@k of a search that returned titles with these gains, if `relevant` are all gains above 0."""
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
