"""The base class of everything that ranks titles."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Ranking, Scores
from clickvec.evaluation.test_set import Catalogue
from clickvec.progress import Progress, ignore

TITLES_AT_ONCE = 100_000  # judged titles whose vectors are in memory together

QueryTitles = tuple[str, Sequence[str]]  # a query and the distinct titles to score for it


class Ranker(ABC):
    """Scores titles for queries. To write one, implement `score`; override the others if batches are faster."""

    name: str  # of the system in tables

    @abstractmethod
    def score(self, query: str, titles: Sequence[str], /) -> Scores:
        """Return one finite score per title; higher is better. The titles are distinct."""

    def score_lists(self, lists: Sequence[QueryTitles], /) -> Iterable[Scores]:
        """Return the scores of many queries, each with its own titles."""
        return (self.score(query, titles) for query, titles in lists)

    def rank(self, judged: Iterable[JudgedQuery], progress: Progress | None = None) -> list[Ranking]:
        """Score the judged titles of every query, as `write_run` takes them; also queries without a relevant title."""
        queries, rankings = list(judged), list[Ranking]()
        report, label = progress or ignore, f"ranking with {self.name}"
        report(label, 0, len(queries))
        for group in _groups(queries):
            lists = [(query.query, list(dict.fromkeys(query.titles))) for query in group]
            for query, (_, titles), scores in zip(group, lists, self.score_lists(lists), strict=True):
                rankings.append(Ranking(query.query_id, query.doc_ids, _all_scores(self.name, query, titles, scores)))
                report(label, len(rankings), len(queries))
        return rankings

    def search(
        self, queries: Sequence[JudgedQuery], catalogue: Catalogue, k: int, progress: Progress | None, /
    ) -> Sequence[Sequence[str]]:
        """Return for each query the keys of the k best titles of a catalogue, best first, without those that score 0.

        Equal scores are in the order of the catalogue, as in an index.
        """
        keys, titles, results = list(catalogue.entries), catalogue.titles, []
        for query in queries:
            scores = np.asarray(self.score(query.query, titles), np.float32)
            best = np.argsort(-scores, kind="stable")[:k]
            results.append([keys[at] for at in best.tolist() if scores[at]])
        return results


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
