"""BM25 on titles, computed by bm25s: the word-matching baseline that every model is measured beside."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import Ranker
from clickvec.text.lexical_tokens import TokenKind, tokenise


class BM25(Ranker):
    """Lucene's BM25 over a corpus of titles.

    The corpus determines the word weights (idf) and the mean length, so it must contain every title to be scored: give
    it the judged titles together with the catalogue.
    """

    def __init__(
        self, titles: Iterable[str], k1: float = 1.2, b: float = 0.75, name: str = "BM25", tokens: TokenKind = "words"
    ) -> None:
        """Index the distinct titles."""
        self.name = name
        self._tokens = tokens
        self._row = {title: row for row, title in enumerate(dict.fromkeys(titles))}
        try:
            import bm25s
        except ImportError as error:
            raise missing_extra("bm25s", "baselines") from error
        logging.getLogger("bm25s").setLevel(logging.WARNING)  # bm25s sets it to DEBUG
        ids: dict[str, int] = {}
        corpus = [[ids.setdefault(token, len(ids)) for token in tokenise(title, tokens)] for title in self._row]
        self._index: Any = None
        if ids:  # bm25s cannot index a corpus without words; every score is 0 then
            self._index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy", csc_backend="numpy")
            self._index.index((corpus, ids), show_progress=False)

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return the BM25 score of each title: 0 if it shares no token with the query.

        Raise ClickvecError if a title is not in the corpus.
        """
        unknown = next((title for title in titles if title not in self._row), None)
        if unknown is not None:
            raise ClickvecError(f"{self.name} has not indexed the title {unknown!r}; add it to the corpus of titles")
        rows = np.array([self._row[title] for title in titles], dtype=np.intp)
        known = self._index.get_tokens_ids(tokenise(query, self._tokens)) if self._index else []
        if not known:
            return np.zeros(len(rows), dtype=np.float32)
        scores: Scores = self._index.get_scores_from_ids(known)
        return scores[rows]
