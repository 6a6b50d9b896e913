"""NDCG, recall and reciprocal rank, and the TREC files that other tools read.

NDCG has the gain 2^grade - 1 and the discount log2(rank + 1). The ideal order is that of all judged titles of a query.
Equal scores are ordered by doc_id, descending, as trec_eval does. trec_eval has a linear gain: to get the same NDCG
from it, give it the file that `write_qrels(..., gains=True)` writes. Scores are float32 because trec_eval stores them
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


class Measure(NamedTuple):
    """A measure: its name and its cutoff."""

    name: str
    k: int

    @classmethod
    def parse(cls, text: str) -> "Measure":
        """Parse `NDCG@10`, `Recall@100` or `MRR@10`, in upper or lower case."""
        name, _, cutoff = text.partition("@")
        known = {known.lower(): known for known in ("NDCG", "Recall", "MRR")}
        if name.lower() not in known or not (cutoff.isascii() and cutoff.isdigit() and int(cutoff)):
            raise ClickvecError(f"{text!r} is not a measure; write NDCG@k, Recall@k or MRR@k, with k from 1 up")
        return cls(known[name.lower()], int(cutoff))

    def __str__(self) -> str:
        """Return the measure as users write it."""
        return f"{self.name}@{self.k}"

    def value(self, grades: ArrayLike, relevant: int | None = None) -> float:
        """Return the value, 0 to 1, for grades in ranked order. `relevant` is the number of all relevant titles."""
        if self.name == "NDCG":
            return ndcg(grades, self.k)
        return recall_at(grades, self.k, relevant) if self.name == "Recall" else reciprocal_rank(grades, self.k)


def gains(grades: ArrayLike) -> NDArray[np.float64]:
    """Return 2^grade - 1."""
    return np.exp2(np.asarray(grades, dtype=np.float64)) - 1


def ndcg(grades: ArrayLike, k: int) -> float:
    """Return NDCG@k for the grades of all judged titles of a query in ranked order; 0 if no title is relevant."""
    gain = gains(grades)
    discount = np.log2(np.arange(min(k, gain.size)) + 2.0)
    ideal = float((np.sort(gain)[::-1][:k] / discount).sum())
    return float((gain[:k] / discount).sum()) / ideal if ideal else 0.0


def recall_at(grades: ArrayLike, k: int, relevant: int | None = None) -> float:
    """Return the share of the relevant titles (grade 1 or more) that are among the first k."""
    hits = np.asarray(grades) >= 1
    total = int(hits.sum()) if relevant is None else relevant
    return int(hits[:k].sum()) / total if total else 0.0


def reciprocal_rank(grades: ArrayLike, k: int) -> float:
    """Return 1 / rank of the first relevant title, or 0 if there is none among the first k."""
    positions = np.flatnonzero(np.asarray(grades)[:k] >= 1)
    return 1.0 / (int(positions[0]) + 1) if positions.size else 0.0


def rank_order(scores: ArrayLike, doc_ids: Sequence[str]) -> NDArray[np.intp]:
    """Return the rows in ranked order: by score, descending, and equal scores by doc_id, descending."""
    values = np.asarray(scores, dtype=np.float32)
    if values.shape != (len(doc_ids),):
        raise ClickvecError(f"there are {len(doc_ids)} titles to rank, but the scores have the shape {values.shape}")
    if np.isnan(values).any():
        doc_id = doc_ids[int(np.isnan(values).argmax())]
        raise ClickvecError(f"the score of doc_id {doc_id} is NaN; every title needs a finite score")
    by_id = np.array(sorted(range(len(doc_ids)), key=doc_ids.__getitem__, reverse=True), dtype=np.intp)
    return by_id[np.argsort(-values[by_id], kind="stable")]


def with_relevant(judged: Iterable[JudgedQuery]) -> list[JudgedQuery]:
    """Return the queries with a relevant title. The others cannot be measured."""
    return [query for query in judged if (query.grades >= 1).any()]


def check_ids(judged: Iterable[JudgedQuery]) -> None:
    """Refuse ids that a TREC file cannot contain."""
    for query in judged:
        _id(query.query_id, "query_id")
        for doc_id in query.doc_ids:
            _id(doc_id, "doc_id")


def write_run(path: str | Path, rankings: Iterable[Ranking], tag: str) -> None:
    """Write a TREC run file: `qid Q0 docid rank score tag`. Nine digits reproduce the float32 scores exactly."""
    _write(Path(path), (line for ranking in rankings for line in _run_lines(ranking, _id(tag, "tag"))))


def write_qrels(path: str | Path, judged: Iterable[JudgedQuery], gains: bool = False) -> None:
    """Write a TREC qrels file: `qid 0 docid grade`. With `gains`, write 2^grade - 1 instead of the grade."""
    _write(Path(path), (line for query in judged for line in _qrels_lines(query, gains)))


def _run_lines(ranking: Ranking, tag: str) -> Iterable[str]:
    query_id = _id(ranking.query_id, "query_id")
    for rank, row in enumerate(rank_order(ranking.scores, ranking.doc_ids).tolist(), 1):
        doc_id = _id(ranking.doc_ids[row], "doc_id")
        yield f"{query_id} Q0 {doc_id} {rank} {ranking.scores[row]:.9g} {tag}\n"


def _qrels_lines(query: JudgedQuery, gains: bool) -> Iterable[str]:
    query_id = _id(query.query_id, "query_id")
    for doc_id, grade in zip(query.doc_ids, query.grades.tolist(), strict=True):
        yield f"{query_id} 0 {_id(doc_id, 'doc_id')} {2**grade - 1 if gains else grade}\n"


def _id(text: str, kind: str) -> str:
    if text.split() != [text]:
        raise ClickvecError(
            f"{kind} {text!r} is empty or contains white space, which separates the fields of a TREC file"
        )
    return text


def _write(path: Path, lines: Iterable[str]) -> None:
    with files.replacing_file(path) as file:
        file.writelines(line.encode() for line in lines)
