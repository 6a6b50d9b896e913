"""Any rankers on any judged set -> one Evaluation: means in per cent, and the value of every query behind them."""

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Measure, Ranking, Scores, rank_order, with_relevant
from clickvec.evaluation.ranker import Ranker, Search

TITLES_AT_ONCE = 100_000  # of judged queries, whose vectors are in memory together


@dataclass(frozen=True)
class Evaluation:
    """What each system reached on each query, all in per cent."""

    systems: tuple[str, ...]
    measures: tuple[str, ...]
    query_ids: tuple[str, ...]  # the queries measured
    left_out: int  # queries without a relevant title
    values: NDArray[np.float64]  # (systems, measures, queries)
    relevant: int  # relevant titles of the queries measured
    absent: int = 0  # those of them that are not in the catalogue, and count as not found

    @property
    def means(self) -> NDArray[np.float64]:
        """(systems, measures)."""
        means: NDArray[np.float64] = self.values.mean(axis=2)
        return means

    def mean(self, system: str, measure: str) -> float:
        """One number of the table."""
        return float(self.of(system, measure).mean())

    def of(self, system: str, measure: str) -> NDArray[np.float64]:
        """A system's value on each query, in the order of `query_ids`: what a test of significance needs."""
        if system not in self.systems or measure not in self.measures:
            raise ClickvecError(f"no {measure} of {system}; there are {self.measures} of {self.systems}")
        values: NDArray[np.float64] = self.values[self.systems.index(system), self.measures.index(measure)]
        return values

    def beside(self, other: "Evaluation") -> "Evaluation":
        """These measures and those of the other, of the same systems on the same queries, as one."""
        if (self.systems, self.query_ids) != (other.systems, other.query_ids):
            raise ClickvecError("the two evaluations are not of the same systems on the same queries")
        values = np.concatenate((self.values, other.values), axis=1)
        return dataclasses.replace(
            self, measures=self.measures + other.measures, values=values, absent=self.absent + other.absent
        )

    def above(self, other: "Evaluation") -> "Evaluation":
        """These systems and those of the other, by the same measures on the same queries, as one."""
        if (self.measures, self.query_ids) != (other.measures, other.query_ids):
            raise ClickvecError("the two evaluations are not by the same measures on the same queries")
        values = np.concatenate((self.values, other.values), axis=0)
        return dataclasses.replace(self, systems=self.systems + other.systems, values=values)

    def as_table(self) -> list[list[str]]:
        """A header row, then one row a system, to one decimal."""
        rows = zip(self.systems, self.means.tolist(), strict=True)
        return [["system", *self.measures], *([name, *(f"{mean:.1f}" for mean in means)] for name, means in rows)]

    def as_json(self, per_query: bool = False) -> dict[str, Any]:
        """Plain values for `json.dumps`; with `per_query` those of every query too."""
        result: dict[str, Any] = {
            "queries": len(self.query_ids),
            "left_out": self.left_out,
            "relevant": self.relevant,
            "absent": self.absent,
            "systems": [
                {"system": name, **dict(zip(self.measures, means, strict=True))}
                for name, means in zip(self.systems, self.means.tolist(), strict=True)
            ],
        }
        if per_query:
            for entry, values in zip(result["systems"], self.values.tolist(), strict=True):
                entry["per_query"] = dict(zip(self.measures, values, strict=True))
            result["query_ids"] = list(self.query_ids)
        return result


def evaluate(
    rankers: Sequence[Ranker], judged: Iterable[JudgedQuery], cutoffs: Sequence[int] = (1, 3, 10)
) -> Evaluation:
    """NDCG at the cutoffs of each ranker on the judged titles of each query."""
    measures = [Measure.parse(f"NDCG@{k}") for k in cutoffs]
    names = tuple(ranker.name for ranker in rankers)
    if len(set(names)) < len(names):
        raise ClickvecError(f"two systems have the same name ({', '.join(names)}); give each once, or rename one")
    queries, left_out = _measurable(judged)
    values = np.empty((len(names), len(measures), len(queries)))
    for i, ranker in enumerate(rankers):
        for j, (query, ranking) in enumerate(zip(queries, run(ranker, queries), strict=True)):
            ranked = query.grades[rank_order(ranking.scores, ranking.doc_ids)]
            values[i, :, j] = [100 * measure.value(ranked) for measure in measures]
    return _evaluation(names, measures, queries, left_out, values)


def run(ranker: Ranker, judged: Iterable[JudgedQuery]) -> list[Ranking]:
    """The scores of a ranker for every query, as `write_run` takes them; queries without a relevant title too."""
    rankings = list[Ranking]()
    for some in _few_titles(judged):
        ready = ranker.prepared([title for query in some for title in query.titles])
        rankings += [Ranking(query.query_id, query.doc_ids, _scores(ready, query)) for query in some]
    return rankings


def _few_titles(judged: Iterable[JudgedQuery]) -> Iterator[list[JudgedQuery]]:
    """The queries in groups, whose titles' vectors are in memory together."""
    some, titles = list[JudgedQuery](), 0
    for query in judged:
        some.append(query)
        titles += len(query.titles)
        if titles > TITLES_AT_ONCE:
            yield some
            some, titles = [], 0
    if some:
        yield some


def evaluate_catalogue(
    search: Search,
    judged: Iterable[JudgedQuery],
    catalogue: Collection[str],
    measures: Sequence[str] = ("Recall@100", "MRR@10"),
    name: str = "search",
) -> Evaluation:
    """How much of what is relevant (grade 1 or more) a search over a whole catalogue finds.

    `search(queries, k)` gives for each query at most k doc_ids, best first; `catalogue` holds the ids that it can find.
    A title without a grade counts as not relevant.
    """
    wanted = [Measure.parse(measure) for measure in measures]
    if not wanted or any(measure.name == "NDCG" for measure in wanted):
        raise ClickvecError("a whole catalogue is measured by Recall@k and MRR@k; NDCG@k needs a grade for each title")
    queries, left_out = _measurable(judged)
    found = search([query.query for query in queries], max(measure.k for measure in wanted))
    if len(found) != len(queries):
        raise ClickvecError(f"{name} was asked {len(queries)} queries and gave {len(found)} lists")
    values = np.empty((1, len(wanted), len(queries)))
    for j, (query, doc_ids) in enumerate(zip(queries, found, strict=True)):
        relevant = _relevant(query)
        hits = [doc_id in relevant for doc_id in dict.fromkeys(doc_ids)]  # an id given twice is found once
        values[0, :, j] = [100 * measure.value(hits, len(relevant)) for measure in wanted]
    ids = frozenset(catalogue)
    absent = sum(len(_relevant(query) - ids) for query in queries)
    return _evaluation((name,), wanted, queries, left_out, values, absent)


def _measurable(judged: Iterable[JudgedQuery]) -> tuple[list[JudgedQuery], int]:
    everything = list(judged)
    queries = with_relevant(everything)
    if not queries:
        raise ClickvecError(f"none of the {len(everything)} judged queries has a relevant title (grade 1 or more)")
    return queries, len(everything) - len(queries)


def _scores(ranker: Ranker, query: JudgedQuery) -> Scores:
    """A ranker's scores, equal for equal titles: in a batch the last bit depends on the row, and would undo a tie."""
    distinct = list(dict.fromkeys(query.titles))
    scores = np.asarray(ranker.score(query.query, distinct), dtype=np.float32)
    if scores.shape != (len(distinct),) or np.isnan(scores).any():
        fault = "NaN among the scores" if scores.shape == (len(distinct),) else f"scores of shape {scores.shape}"
        raise ClickvecError(
            f"{ranker.name} gave {fault} for the {len(distinct)} titles of query_id {query.query_id} ({query.query!r})"
        )
    place = {title: i for i, title in enumerate(distinct)}
    return scores[[place[title] for title in query.titles]]


def _relevant(query: JudgedQuery) -> frozenset[str]:
    return frozenset(doc_id for doc_id, grade in zip(query.doc_ids, query.grades.tolist(), strict=True) if grade >= 1)


def _evaluation(
    systems: tuple[str, ...],
    measures: Sequence[Measure],
    queries: Sequence[JudgedQuery],
    left_out: int,
    values: NDArray[np.float64],
    absent: int = 0,
) -> Evaluation:
    relevant = sum(len(_relevant(query)) for query in queries)
    query_ids = tuple(query.query_id for query in queries)
    return Evaluation(systems, tuple(map(str, measures)), query_ids, left_out, values, relevant, absent)
