"""How the parts of a hit make its score: the terms of the fusion, and what each word of the query adds to BM25.

The terms add up to the score, or to its log odds if the score is the probability of a click. The words of the query add
up to BM25, as the words of both texts add up to the cosine (explained_pair.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clickvec.explanation.reading import Floats
from clickvec.search.fusion import Candidates, candidates_of
from clickvec.search.lexical.word_tokens import title_words
from clickvec.search.retrieval import Ranking
from clickvec.search.view_protocol import SearchView


@dataclass(frozen=True)
class Part:
    """One term of a fused score."""

    name: str
    contribution: float


@dataclass(frozen=True)
class WordMatch:
    """A word of the query, and what it adds to BM25."""

    word: str
    matched: tuple[str, ...]  # the words of the title that it matches; others than itself if no title contains it
    is_known: bool  # whether a title contains it
    similar: tuple[str, ...]  # if none does, the words of the index that it stands for
    idf: float  # how rare it is
    contribution: float


@dataclass(frozen=True)
class Fused:
    """The score of a hit, and its parts."""

    score: float
    method: str  # of the fusion
    is_probability: bool
    total: float  # sum of `parts`: the score, or its log odds if the score is a probability
    parts: tuple[Part, ...]
    cosine: float  # by the vectors of the index
    rounding: float  # this much of the cosine comes from the number format of the vectors
    bm25: float
    words: tuple[WordMatch, ...]  # add up to `bm25`


class FusedQuery:
    """One query in an index: its order, its candidates, and the scores of these and of any other texts."""

    def __init__(self, view: SearchView, query: str) -> None:
        """Search, as hybrid search does."""
        self.view, self.query, self.vector = view, query, view.encoder.encode_query(query)
        self.ranking = self.ranking_by("hybrid")
        self.terms, self.candidates = self.ranking.terms, self.ranking.head

    def ranking_by(self, mode: str) -> Ranking:
        """Return the order of the titles in a mode."""
        return Ranking(self.view, self.query, self.vector, mode, self.view.allowed(None))

    def of_title(self, position: int, title: str, cosine: float) -> Fused:
        """Split the score of a title of the index. `cosine` is the one that the model gives, without rounding."""
        rows = np.flatnonzero(self.candidates.positions == position)
        if len(rows):
            return self._split(self.candidates.facts, int(rows[0]), title, cosine)
        only = np.array([position], np.int64)
        matches, cosines = self.view.words.matches(self.terms, only), self.view.cosines(self.vector, only)
        return self._split(self._with(matches, cosines), -1, title, cosine)

    def of_text(self, title: str, cosine: float) -> Fused:
        """Split the score that a title would have in the index."""
        matches, _ = self.view.words.matches_of_texts(self.terms, [title])
        return self._split(self._with(matches, np.array([cosine])), -1, title, cosine)

    def scores(self, titles: Sequence[str], cosines: Floats) -> Floats:
        """Return the scores that titles would have in the index."""
        matches, _ = self.view.words.matches_of_texts(self.terms, titles)
        added = candidates_of(self.terms, matches, cosines)
        return np.asarray(self.view.fusion.scores(added, self.candidates.facts), np.float64)

    def _with(self, matches: NDArray[np.float32], cosines: NDArray[np.floating]) -> Candidates:
        """Return the candidates and one more, as the last one."""
        ours, added = self.candidates.facts, candidates_of(self.terms, matches, cosines)
        return ours._replace(
            cosine=np.append(ours.cosine, added.cosine),
            matches=np.concatenate((ours.matches, added.matches)),
        )

    def _split(self, candidates: Candidates, row: int, title: str, cosine: float) -> Fused:
        fusion = self.view.fusion
        parts = tuple(Part(*term) for term in fusion.terms_of(candidates, row).items())
        present, matches = title_words(title)[0], candidates.matches[row].tolist()
        stored = float(candidates.cosine[row])
        return Fused(
            float(fusion.scores(candidates)[row]),
            fusion.method,
            fusion.is_probability,
            sum(part.contribution for part in parts),
            parts,
            stored,
            stored - cosine,
            float(sum(matches)),
            tuple(
                WordMatch(
                    term.word,
                    tuple(word for word in term.words if word in present),
                    term.is_known,
                    () if term.is_known else term.words,
                    term.idf,
                    match,
                )
                for term, match in zip(self.terms, matches, strict=True)
            ),
        )
