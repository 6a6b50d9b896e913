"""A TREC run file, `qid Q0 docid rank score tag`, as a system: what another search engine returned for each query.

The order is that of the scores; equal scores are ordered by doc_id, descending, as trec_eval does. The rank is ignored.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from clickvec.data import BadLines, JudgedQuery
from clickvec.data.parsing.lines import MAX_BAD, file_lines
from clickvec.data.parsing.records import wrong_width
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Ranking, Scores, rank_order
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.test_set import Catalogue
from clickvec.progress import Progress

_FIELDS = ("query_id", "Q0", "doc_id", "rank", "score", "tag")
NOT_RETURNED = -np.inf  # the score of a judged title that the engine did not return


class RunFile(Ranker):
    """Ranks by the scores of a run file. It knows query ids and document ids, and no texts."""

    def __init__(self, name: str, scores: Mapping[str, Mapping[str, float]], bad: BadLines) -> None:
        self.name, self.scores, self.bad = name, scores, bad

    @classmethod
    def read(cls, path: str | Path, max_bad: float = MAX_BAD) -> "RunFile":
        """Read a run file. Raise ClickvecError if more than `max_bad` of its lines are bad."""
        name, bad, scores, kept = str(path), BadLines(), dict[str, dict[str, float]](), 0
        for first, lines in file_lines(Path(path), bad):
            for number, line in enumerate(lines, first):
                fields = line.split()
                if not fields:
                    continue
                if len(fields) != len(_FIELDS):
                    bad.add(name, number, *wrong_width(len(fields), _FIELDS))
                    continue
                score = _number(fields[4])
                if score is None:
                    bad.add(name, number, "bad score", f"score {fields[4]!r:.60} is not a number")
                elif scores.setdefault(fields[0], {}).setdefault(fields[2], score) != score:
                    bad.add(name, number, "repeated title", f"{fields[2]!r:.60} is there twice for {fields[0]!r:.60}")
                else:
                    kept += 1
        bad.check(name, max_bad, kept, "line of a TREC run: query_id Q0 doc_id rank score tag")
        return cls(name, scores, bad)

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Refuse to score texts."""
        raise ClickvecError(f"{self.name} is a run file, which has ids and no texts; measure it on a judged set")

    def rank(self, judged: Iterable[JudgedQuery], progress: Progress | None = None) -> list[Ranking]:
        """Return the scores of the judged titles of every query."""
        rankings = []
        for query in judged:
            scores = self.scores.get(query.query_id, {})
            values = np.array([scores.get(doc_id, NOT_RETURNED) for doc_id in query.doc_ids], np.float32)
            rankings.append(Ranking(query.query_id, query.doc_ids, values))
        return rankings

    def search(
        self, queries: Sequence[JudgedQuery], catalogue: Catalogue, k: int, progress: Progress | None
    ) -> list[list[str]]:
        """Return for each query the ids that the engine returned, best first."""
        if not catalogue.has_ids:
            raise ClickvecError(f"{self.name} cannot be compared: the titles that are searched have other ids")
        results = []
        for query in queries:
            scores = self.scores.get(query.query_id, {})
            ids = list(scores)
            results.append([ids[row] for row in rank_order(list(scores.values()), ids).tolist()])
        return results

    def unknown(self, query_ids: set[str], doc_ids: set[str], of: str) -> list[str]:
        """Return sentences about queries and documents that only the run or only the judged set has."""
        found = {doc_id for query_id, scores in self.scores.items() if query_id in query_ids for doc_id in scores}
        sides = (
            ("queries of it are not in the judged set and are ignored", self.scores.keys() - query_ids),
            ("judged queries are not in it and count as 0", query_ids - self.scores.keys()),
            (f"documents of it are not in the {of}", found - doc_ids),
        )
        return [f"{self.name}: {len(ids):,} {text}; such as {min(ids)!r:.60}" for text, ids in sides if ids]


def is_run_file(system: object) -> bool:
    """Tell whether a system is a file: a model and an index are folders."""
    return isinstance(system, str | Path) and Path(system).is_file()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
