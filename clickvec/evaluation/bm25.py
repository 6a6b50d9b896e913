"""BM25 on titles: the word-matching baseline that every model is measured beside.

It is the BM25 of an index (search/lexical), by default over the words of an index. Tuning may choose other tokens.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clickvec.data import JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.test_set import Catalogue
from clickvec.progress import Progress, ignore
from clickvec.search.lexical.query_terms import K1, B, Term
from clickvec.search.lexical.token_search import TokenSearch, token_segment
from clickvec.search.lexical.word_search import Words
from clickvec.search.lexical.word_segment import WordSegment
from clickvec.text.lexical_tokens import TokenKind

Tokens = Literal["index"] | TokenKind  # `index`: the words of an index, with its codes and corrected spellings
TUNED_TOKENS: tuple[TokenKind, ...] = ("words", "stems", "stems-stop", "trigrams", "words+trigrams")
# The settings to choose from on dev: those that came first, or nearly first, on the dev sets of msrd and dbpedia.
BM25_GRID: tuple[dict[str, Any], ...] = tuple(
    {"tokens": tokens, "k1": k1, "b": b}
    for tokens in ("index", *TUNED_TOKENS)
    for k1, b in ((0.3, 1.0), (0.8, 0.75), (0.8, 1.0), (1.2, 0.5), (1.2, 0.75), (2.0, 1.0))
)
_KEPT = 10_000  # queries whose terms are known
_REPORTED = 100  # queries between two reports of progress


def describe_settings(settings: Mapping[str, Any]) -> str:
    """Return the settings of BM25 for people: `words of the index, k1 = 1.2, b = 0.75`."""
    full = {"tokens": "index", "k1": K1, "b": B, **settings}
    tokens = "words of the index" if full["tokens"] == "index" else full["tokens"]
    return f"{tokens}, k1 = {full['k1']:g}, b = {full['b']:g}"


class BM25(Ranker):
    """BM25 over a corpus of titles.

    The corpus determines how rare words are and the mean length, so it must contain every title to be scored: give it
    the judged titles together with the catalogue.
    """

    def __init__(
        self, titles: Iterable[str], k1: float = K1, b: float = B, name: str = "BM25", tokens: Tokens = "index"
    ) -> None:
        """Index the distinct titles."""
        self.name = name
        self._tokens = tokens
        self._row = {title: row for row, title in enumerate(dict.fromkeys(titles))}
        self._segment = WordSegment.build(self._row) if tokens == "index" else token_segment(self._row, tokens)
        self._words = self._search(k1, b)
        self._known: dict[str, tuple[Term, ...]] = {}

    def _search(self, k1: float, b: float) -> Words:
        if self._tokens == "index":
            return Words([self._segment], k1, b)
        return TokenSearch(self._segment, self._tokens, k1, b)

    def with_settings(self, k1: float, b: float) -> "BM25":
        """Return BM25 over the same titles and tokens with other settings, without indexing the titles again."""
        other = copy(self)
        other._words = self._search(k1, b)
        return other

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the BM25 score of each title: 0 if it shares no token with the query.

        Raise ClickvecError if a title is not in the corpus.
        """
        rows = self._rows(titles)
        return self._words.scores(self._terms(query))[rows]

    def search(
        self, queries: Sequence[JudgedQuery], catalogue: Catalogue, k: int, progress: Progress | None
    ) -> list[list[str]]:
        """Return for each query the keys of the k best titles that share a token with it, best first."""
        report, label = progress or ignore, f"searching with {self.name}"
        keys: dict[int, list[str]] = {}  # of each row: several may have the same title
        for key, row in zip(catalogue.entries, self._rows(catalogue.titles).tolist(), strict=True):
            keys.setdefault(row, []).append(key)
        is_searched = np.zeros(len(self._row), np.bool_)
        is_searched[list(keys)] = True
        results = []
        for number, query in enumerate(queries):
            if number % _REPORTED == 0:
                report(label, number, len(queries))
            rows, _ = self._words.best(self._terms(query.query), k, is_searched)
            results.append([key for row in rows.tolist() for key in keys[row]][:k])
        report(label, len(queries), len(queries))
        return results

    def _terms(self, query: str) -> tuple[Term, ...]:
        """Return the terms of a query. They are kept: they do not depend on k1 and b."""
        terms = self._known.get(query)
        if terms is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            terms = self._known[query] = self._words.terms(query)
        return terms

    def _rows(self, titles: Sequence[str]) -> NDArray[np.int64]:
        unknown = next((title for title in titles if title not in self._row), None)
        if unknown is not None:
            raise ClickvecError(f"{self.name} has not indexed the title {unknown!r}; add it to the corpus of titles")
        return np.fromiter((self._row[title] for title in titles), np.int64, len(titles))
