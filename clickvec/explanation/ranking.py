"""How well a model ranks a judged set, next to BM25, and the queries that it ranks worst."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import JudgedQuery
from clickvec.evaluation.bm25 import BM25, describe_settings
from clickvec.evaluation.measure import measure
from clickvec.evaluation.metrics import CHOSEN_BY, rank_order
from clickvec.evaluation.neural import Neural, stored_settings
from clickvec.evaluation.result import Evaluation
from clickvec.evaluation.test_set import TestSet
from clickvec.explanation.contributions import METHODS
from clickvec.explanation.side import Side
from clickvec.explanation.why_not import WhyNot, why_not
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress

BASELINE = "BM25"
SAME = 1e-9  # values closer than this are equal


class Ranked(NamedTuple):
    """A judged title and its rank; 1 is the top."""

    rank: int
    grade: int
    doc_id: str
    title: str


@dataclass(frozen=True)
class Missed:
    """A query that the model ranks badly: a title ranked too high, and a better one ranked below it."""

    query_id: str
    query: str
    ndcg: float  # in per cent
    baseline: float  # NDCG of BM25
    titles: int  # number of judged titles
    above: Ranked
    below: Ranked
    why: WhyNot  # why `below` is not ranked higher than `above`


@dataclass(frozen=True)
class Ranking:
    """NDCG of the model and of BM25, and the queries ranked worst."""

    evaluation: Evaluation  # the model is the first system
    imperfect: int  # queries whose NDCG@10 is below 100
    worst: tuple[Missed, ...]  # worst first
    bm25: str = ""  # its settings

    @property
    def against_baseline(self) -> tuple[int, int, int]:
        """The numbers of queries on which the model's NDCG@10 is higher than BM25's, equal, and lower."""
        model, baseline = (self.evaluation.per_query(name, CHOSEN_BY) for name in self.evaluation.systems)
        signs = np.sign(np.round(model - baseline, 6)).tolist()
        return signs.count(1), signs.count(0), signs.count(-1)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return {
            **self.evaluation.as_json(per_query=True),
            "imperfect": self.imperfect,
            "worst": [_missed_json(missed) for missed in self.worst],
        }


def _missed_json(missed: Missed) -> dict[str, Any]:
    return {
        "query_id": missed.query_id, "query": missed.query, CHOSEN_BY: missed.ndcg, BASELINE: missed.baseline,
        "titles": missed.titles,
        "above": {**missed.above._asdict(), "score": missed.why.first.score},
        "below": {**missed.below._asdict(), "score": missed.why.title.score},
        "query_words": [asdict(share) for share in missed.why.words],
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
    """Measure a model, and BM25 with word counts from the judged titles and those of a catalogue in `titles`.

    BM25 has the settings that the model carries, if held-out clicks have tuned it.
    """
    test = TestSet.of_judged(judged)
    queries = test.queries
    model = Neural(encoder, name if name != BASELINE else f"{name} (model)")
    corpus = [*titles, *(title for query in judged for title in query.titles)]
    tuned = stored_settings([encoder])
    evaluation = measure([model, BM25(corpus, name=BASELINE, **(tuned or {}))], test, progress=progress)
    values = evaluation.per_query(model.name, CHOSEN_BY)
    baseline = evaluation.per_query(BASELINE, CHOSEN_BY)
    imperfect = [at for at in np.argsort(values, kind="stable").tolist() if values[at] < 100 - SAME]
    shown = imperfect[:worst]
    missed = []
    for at, scored in zip(shown, model.rank([queries[at] for at in shown]), strict=True):
        order = rank_order(scored.scores, scored.doc_ids).tolist()
        missed.append(_missed(encoder, queries[at], order, float(values[at]), float(baseline[at])))
    settings = describe_settings(tuned or {}) + (", tuned on held-out clicks" if tuned else "; not tuned")
    return Ranking(evaluation, len(imperfect), tuple(missed), settings)


def _missed(encoder: Encoder, query: JudgedQuery, order: list[int], ndcg: float, baseline: float) -> Missed:
    grades = query.grades[order]
    above, below = (
        Ranked(at + 1, int(grades[at]), query.doc_ids[order[at]], query.titles[order[at]])
        for at in first_inversion(grades)
    )
    title, first = (Side(encoder, "title", ranked.title) for ranked in (below, above))
    why = why_not(Side(encoder, "query", query.query), title, first, METHODS[0])
    return Missed(query.query_id, query.query, ndcg, baseline, len(order), above, below, why)


def first_inversion(grades: NDArray[np.int64]) -> tuple[int, int]:
    """Return the first position in an imperfect ranking where a better title belongs, and the position of the best one.

    If several are best, return the first: it is the one the model came closest to ranking correctly.
    """
    above = next(at for at in range(len(grades)) if grades[at] < grades[at:].max())
    return above, above + int(grades[above:].argmax())
