"""How well a model ranks a judged set, beside BM25 where that is installed, and where it fails worst."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import JudgedQuery
from clickvec.evaluation.judged_lists import evaluate, rank_lists
from clickvec.evaluation.metrics import rank_order, with_relevant
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.result import Evaluation
from clickvec.explanation.why_not import WhyNot, why_not
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress

BASELINE = "BM25"
MEASURE = "NDCG@10"
BINS = 10  # of the distribution, from 0 to 100 per cent
SAME = 1e-9  # values that are nearer than this are the same


class Ranked(NamedTuple):
    """A judged title where the model put it; the first rank is 1."""

    rank: int
    grade: int
    doc_id: str
    title: str


@dataclass(frozen=True)
class Missed:
    """A query that the model ranks badly: a title that it puts too high, and a better one that it puts below."""

    query_id: str
    query: str
    ndcg: float  # in per cent
    baseline: float | None  # what BM25 reaches, where it is measured
    titles: int  # judged
    above: Ranked
    below: Ranked
    why: WhyNot  # why `below` does not stand above the other


@dataclass(frozen=True)
class Ranking:
    """NDCG of the model and of BM25, and the queries that went worst."""

    evaluation: Evaluation  # the model first
    imperfect: int  # queries whose NDCG@10 is below 100
    worst: tuple[Missed, ...]  # the worst first
    counted: int = 0  # different titles whose words BM25 counts: the judged ones
    catalogue: bool = False  # and those of a catalogue

    @property
    def baseline(self) -> bool:
        """Whether BM25 was measured."""
        return len(self.evaluation.systems) > 1

    @property
    def distribution(self) -> dict[str, tuple[int, ...]]:
        """For each system, how many queries have an NDCG@10 in each tenth from 0 to 100; 100 is in the last."""
        return {
            name: tuple(np.histogram(self.evaluation.per_query(name, MEASURE), BINS, (0.0, 100.0))[0].tolist())
            for name in self.evaluation.systems
        }

    @property
    def against_baseline(self) -> tuple[int, int, int]:
        """On how many queries the model has the higher NDCG@10, the same, and the lower."""
        model, other = (self.evaluation.per_query(name, MEASURE) for name in self.evaluation.systems)
        return tuple(int(np.sum(np.sign(np.round(model - other, 6)) == sign)) for sign in (1, 0, -1))  # type: ignore[return-value]

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return {
            **self.evaluation.as_json(per_query=True),
            "bm25_titles": self.counted if self.baseline else None,
            "distribution": {name: list(counts) for name, counts in self.distribution.items()},
            "imperfect": self.imperfect,
            "worst": [_missed_json(missed) for missed in self.worst],
        }


def _missed_json(missed: Missed) -> dict[str, Any]:
    words = [
        {"word": share.word, "above": share.first, "below": share.title, "difference": share.difference}
        for share in missed.why.words
    ]
    scores = {"above": missed.why.first.score, "below": missed.why.title.score}
    return {
        "query_id": missed.query_id, "query": missed.query, MEASURE: missed.ndcg, BASELINE: missed.baseline,
        "titles": missed.titles,
        **{
            name: {**ranked._asdict(), "score": scores[name]}
            for name, ranked in (("above", missed.above), ("below", missed.below))
        },
        "query_words": words,
    }  # fmt: skip


def rank(
    encoder: Encoder,
    judged: Sequence[JudgedQuery],
    name: str,
    titles: Sequence[str] = (),
    worst: int = 10,
    *,
    progress: Progress | None = None,
) -> Ranking:
    """Measure a model; BM25 counts its words in `titles` and the judged ones."""
    queries = with_relevant(judged)
    model = Neural(encoder, name if name != BASELINE else f"{name} (model)")
    rankers: list[Ranker] = [model]
    counted = set(titles).union(*(query.titles for query in judged))
    if find_spec("bm25s") is not None:
        from clickvec.evaluation.bm25 import BM25

        rankers.append(BM25([*titles, *(title for query in judged for title in query.titles)]))
    evaluation = evaluate(rankers, judged, progress=progress)
    values = evaluation.per_query(model.name, MEASURE)
    beside = evaluation.per_query(BASELINE, MEASURE) if len(rankers) > 1 else None
    missed = (
        _missed(encoder, queries[at], order, float(values[at]), None if beside is None else float(beside[at]))
        for at, order in _worst_first(model, queries, values, worst)
    )
    imperfect = int(np.sum(values < 100 - SAME))
    return Ranking(evaluation, imperfect, tuple(missed), len(counted), bool(titles))


def _worst_first(
    model: Ranker, queries: Sequence[JudgedQuery], values: NDArray[np.float64], most: int
) -> list[tuple[int, list[int]]]:
    """The places of the worst queries that are not perfect, each with the order in which the model puts its titles.

    Of those with the same NDCG the worse one is that whose best title stands further down, below the tenth rank too.
    """
    bad = [place for place in np.argsort(values, kind="stable").tolist() if values[place] < 100 - SAME]
    if not most or not bad:
        return []
    last = values[bad[:most][-1]]
    tied = [place for place in bad if values[place] <= last + SAME]
    found = []
    for place, scored in zip(tied, rank_lists(model, [queries[place] for place in tied]), strict=True):
        order: list[int] = rank_order(scored.scores, scored.doc_ids).tolist()
        best = int(queries[place].grades[order].argmax())
        found.append((round(float(values[place]), 6), -best, place, order))
    return [(place, order) for _, _, place, order in sorted(found)[:most]]


def _missed(encoder: Encoder, query: JudgedQuery, order: list[int], ndcg: float, baseline: float | None) -> Missed:
    grades = query.grades[order]
    above, below = first_inversion(grades)
    one, other = (
        Ranked(place + 1, int(grades[place]), query.doc_ids[order[place]], query.titles[order[place]])
        for place in (above, below)
    )
    why = why_not(encoder, query.query, other.title, one.title)
    return Missed(query.query_id, query.query, ndcg, baseline, len(order), one, other, why)


def first_inversion(grades: NDArray[np.int64]) -> tuple[int, int]:
    """In a ranking that is not perfect: the first place that a better title should have, and where the best of them is.

    Of several best ones, the one that comes first: the model was nearest to getting that one right.
    """
    above = next(place for place in range(len(grades)) if grades[place] < grades[place:].max())
    return above, above + int(grades[above:].argmax())
