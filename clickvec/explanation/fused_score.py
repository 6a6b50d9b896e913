"""How the parts of a hit make its score: the terms of the fusion, and what each part knows about its own value.

The terms add up to the score, or to its log odds if the score is the probability of a click. The words of the query add
up to BM25, as the words of both texts add up to the cosine (explained_pair.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickvec.explanation.reading import Floats
from clickvec.search.fusion import Candidates, candidates_at, candidates_of_texts
from clickvec.search.parts import FEATURES
from clickvec.search.parts.part import Explained
from clickvec.search.retrieval import Ranking, ranking_of
from clickvec.search.view_protocol import SearchView

# Terms that are no feature of a part.
_LABELS = {"constant": ("constant", "what every title has"), "calibration": ("calibration", "corrects probabilities")}


@dataclass(frozen=True)
class ScoreTerm:
    """One term of a fused score."""

    name: str
    label: str
    meaning: str
    contribution: float


@dataclass(frozen=True)
class Fused:
    """The score of a hit, and its parts."""

    score: float
    method: str  # of the fusion
    is_probability: bool
    total: float  # sum of `terms`: the score, or its log odds if the score is a probability
    terms: tuple[ScoreTerm, ...]
    parts: tuple[Explained, ...]
    read: dict[str, int | None]  # about how many titles each part reads to find candidates; None if it is not known

    def part(self, name: str) -> Explained:
        """Return a part by its name."""
        return next(part for part in self.parts if part.name == name)


class FusedQuery:
    """One query in an index: its order, its candidates, and the scores of these and of any other texts."""

    def __init__(self, view: SearchView, query: str) -> None:
        """Search, as hybrid search does."""
        self.view, self.query = view, query
        self.ranking = self.ranking_by("hybrid")
        self.head = self.ranking.head

    def ranking_by(self, mode: str) -> Ranking:
        """Return the order of the titles in a mode."""
        return ranking_of(self.view, self.query, mode, self.view.allowed(None))

    def of_title(self, position: int, title: str) -> Fused:
        """Split the score of a title of the index."""
        rows = np.flatnonzero(self.head.positions == position)
        if len(rows):
            return self._split(self.head.candidates, int(self.head.rows[rows[0]]), title)
        return self._split_last(candidates_at(self.ranking.parts, np.array([position], np.int64)), title)

    def of_text(self, title: str, payload: Any = None) -> Fused:  # noqa: ANN401
        """Split the score that a title with this payload would have in the index."""
        return self._split_last(candidates_of_texts(self.ranking.parts, [title], payload), title)

    def scores(self, titles: Sequence[str], payload: Any = None) -> Floats:  # noqa: ANN401
        """Return the scores that titles with this payload would have in the index."""
        added = candidates_of_texts(self.ranking.parts, titles, payload)
        return np.asarray(self.view.fusion.scores(added, self.head.candidates), np.float64)

    def _split_last(self, added: Candidates, title: str) -> Fused:
        """Split the score of a title that is no candidate, as if it were one."""
        return self._split(self.head.candidates.joined(added), -1, title)

    def _split(self, candidates: Candidates, row: int, title: str) -> Fused:
        fusion = self.view.fusion
        terms = tuple(
            ScoreTerm(name, *_labels(name, fusion.method), value)
            for name, value in fusion.terms_of(candidates, row).items()
        )
        return Fused(
            float(fusion.scores(candidates)[row]),
            fusion.method,
            fusion.is_probability,
            sum(term.contribution for term in terms),
            terms,
            tuple(one.explain(candidates.values[one.part.name], row, title) for one in self.ranking.parts),
            {one.part.name: one.cost for one in self.ranking.parts if one.part.proposes},
        )


def _labels(term: str, method: str) -> tuple[str, str]:
    """Return what a term is called in tables, and what it means."""
    if method == "ranks":
        return term, f"the rank by {term} alone"
    feature = FEATURES.get(term)
    return (feature.label, feature.meaning) if feature else _LABELS[term]
