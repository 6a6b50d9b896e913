"""BM25 on titles: the word-matching baseline that every model is measured beside."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import Ranker
from clickvec.progress import Progress, ignore
from clickvec.text.lexical_tokens import TokenKind, tokenise
from clickvec.text.ragged import Ragged

K1, B = 1.2, 0.75  # where nothing can tune them
TUNED_TOKENS: tuple[TokenKind, ...] = ("words", "stems", "stems-stop", "trigrams", "words+trigrams")
# The settings to choose from on dev: those that came first, or nearly first, on the dev sets of msrd and dbpedia.
BM25_GRID: tuple[dict[str, Any], ...] = tuple(
    {"tokens": tokens, "k1": k1, "b": b}
    for tokens in TUNED_TOKENS
    for k1, b in ((0.3, 1.0), (0.8, 0.75), (0.8, 1.0), (1.2, 0.5), (1.2, 0.75), (2.0, 1.0))
)
_REPORTED = 100  # queries between two reports of progress


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Return the settings of BM25 for people: `words, k1 = 1.2, b = 0.75`."""
    full = {"tokens": "words", "k1": K1, "b": B, **settings}
    return f"{full['tokens']}, k1 = {full['k1']:g}, b = {full['b']:g}"


class BM25(Ranker):
    """Lucene's BM25 over a corpus of titles.

    The corpus determines the word weights (idf) and the mean length, so it must contain every title to be scored: give
    it the judged titles together with the catalogue.
    """

    def __init__(
        self, titles: Iterable[str], k1: float = K1, b: float = B, name: str = "BM25", tokens: TokenKind = "words"
    ) -> None:
        """Index the distinct titles."""
        self.name = name
        self._tokens = tokens
        self._row = {title: row for row, title in enumerate(dict.fromkeys(titles))}
        self._ids: dict[str, int] = {}
        known = self._ids
        corpus = [[known.setdefault(token, len(known)) for token in tokenise(title, tokens)] for title in self._row]
        lengths = np.fromiter(map(len, corpus), np.int64, len(corpus))
        flat = np.fromiter(chain.from_iterable(corpus), np.int64, int(lengths.sum()))
        size = max(1, len(corpus))
        # A posting is a token in a title. Postings are sorted by token, then by title.
        postings, times = np.unique(flat * size + np.repeat(np.arange(len(corpus)), lengths), return_counts=True)
        self._times = times
        self._titles_of = (postings % size).astype(np.int32)
        titles_with = np.bincount(postings // size, minlength=len(self._ids))
        self._begins = np.concatenate(([0], np.cumsum(titles_with)))
        idf = np.log(1 + (len(corpus) - titles_with + 0.5) / (titles_with + 0.5)).astype(np.float32)
        self._idf: Scores = np.repeat(idf, titles_with)
        self._length, self._mean_length = lengths, len(flat) / size
        self._weigh(k1, b)

    def _weigh(self, k1: float, b: float) -> None:
        """Compute what each token adds to the score of each title with it."""
        saturation = k1 * ((1 - b) + b * self._length[self._titles_of] / (self._mean_length or 1))
        self._weights: Scores = (self._idf * (self._times / (saturation + self._times))).astype(np.float32)

    def with_settings(self, k1: float, b: float) -> "BM25":
        """Return BM25 over the same titles and tokens with other settings, without reading the titles again."""
        other = copy(self)
        other._weigh(k1, b)
        return other

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the BM25 score of each title: 0 if it shares no token with the query.

        Raise ClickvecError if a title is not in the corpus.
        """
        scores: Scores = np.zeros(len(self._row), np.float32)
        rows = self._rows(titles)
        self._add(query, scores)
        return scores[rows]

    def search(
        self, queries: Sequence[str], ids: Sequence[str], titles: Sequence[str], k: int, progress: Progress | None
    ) -> list[list[str]]:
        """Return for each query the ids of the k best titles of a catalogue, best first, without those that score 0.

        Only the titles with a token of the query are scored and sorted.
        """
        report, label = progress or ignore, f"searching with {self.name}"
        catalogue = _Catalogue(ids, self._rows(titles), len(self._row))
        scores: Scores = np.zeros(len(self._row), np.float32)
        results = []
        for number, query in enumerate(queries):
            if number % _REPORTED == 0:
                report(label, number, len(queries))
            touched = self._add(query, scores)
            results.append(catalogue.best(scores, touched, k) if touched else [])
            for rows in touched:
                scores[rows] = 0
        report(label, len(queries), len(queries))
        return results

    def _add(self, query: str, scores: Scores) -> list[NDArray[np.int32]]:
        """Add the scores of a query, and return the titles with each of its known tokens."""
        touched = []
        for token in tokenise(query, self._tokens):
            number = self._ids.get(token)
            if number is not None:
                postings = slice(self._begins[number], self._begins[number + 1])
                scores[self._titles_of[postings]] += self._weights[postings]
                touched.append(self._titles_of[postings])
        return touched

    def _rows(self, titles: Sequence[str]) -> NDArray[np.intp]:
        unknown = next((title for title in titles if title not in self._row), None)
        if unknown is not None:
            raise ClickvecError(f"{self.name} has not indexed the title {unknown!r}; add it to the corpus of titles")
        return np.fromiter((self._row[title] for title in titles), np.intp, len(titles))


class _Catalogue:
    """The ids of a catalogue, of which several may have the same title, by the row of the title."""

    def __init__(self, ids: Sequence[str], rows: NDArray[np.intp], count: int) -> None:
        self._ids = ids
        copies = np.bincount(rows, minlength=count)
        self._entries = Ragged(
            np.argsort(rows, kind="stable").astype(np.int32), np.concatenate(([0], np.cumsum(copies)))
        )
        self._absent = copies == 0  # titles that are in the corpus only
        self._order = np.empty(len(ids), np.int64)  # equal scores are ordered by id, descending
        self._order[sorted(range(len(ids)), key=ids.__getitem__, reverse=True)] = np.arange(len(ids))

    def best(self, scores: Scores, touched: Sequence[NDArray[np.int32]], k: int) -> list[str]:
        """Return the ids with the k best scores. `touched` holds the rows with each token of the query."""
        rows = np.concatenate(touched)
        rows = rows[~self._absent[rows]]
        most = k * len(touched)  # a row occurs up to once for each token
        if len(rows) > most:
            values = scores[rows]
            rows = rows[values >= np.partition(values, -most)[-most]]
        rows = np.unique(rows)
        entries = self._entries.take(rows)
        values = np.repeat(scores[rows], entries.lengths)
        best = np.lexsort((self._order[entries.values], -values))[:k]
        return [self._ids[entry] for entry in entries.values[best].tolist()]
