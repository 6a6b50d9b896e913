"""BM25 on titles, by bm25s: the lexical baseline that every click model has to beat."""

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra

# bm25s drops words of one character by default, and "Rocky 2" is not "Rocky".
_TOKENS: dict[str, Any] = {"token_pattern": r"(?u)\b\w+\b", "stopwords": [], "show_progress": False}


class BM25:
    """Lucene's BM25 over the distinct ones of `titles`: lower case, split at punctuation, no stemmer, no stop words.

    The corpus sets the word weights (idf, mean length), so it has to hold every title that is to be scored: index the
    judged titles together with the catalogue. A title outside it is an error and not a guess.
    """

    def __init__(self, titles: Iterable[str], k1: float = 1.2, b: float = 0.75, name: str = "BM25") -> None:
        """Index the distinct ones of `titles`."""
        self.name = name
        self._place = {title: place for place, title in enumerate(dict.fromkeys(titles))}
        self._bm25s = _bm25s()
        self._index: Any = None
        corpus = self._bm25s.tokenize(list(self._place), **_TOKENS)
        if corpus.vocab:  # bm25s cannot index a corpus without a word; without an index every score is 0
            self._index = self._bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy", csc_backend="numpy")
            self._index.index(corpus, show_progress=False)

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """BM25 of each title; 0 where it shares no word with the query."""
        places = np.array([self._find(title) for title in titles], dtype=np.intp)
        words = self._bm25s.tokenize(query, return_ids=False, **_TOKENS)[0]
        known = self._index.get_tokens_ids(words) if self._index else []
        if not known:
            return np.zeros(len(places), dtype=np.float32)
        scores: NDArray[np.float32] = self._index.get_scores_from_ids(known)
        return scores[places]

    def _find(self, title: str) -> int:
        place = self._place.get(title)
        if place is None:
            raise ClickvecError(
                f"{self.name} has not indexed the title {title!r}; give it all titles that it is to score"
            )
        return place


def _bm25s() -> ModuleType:
    try:
        import bm25s
    except ImportError as error:
        raise missing_extra("bm25s", "baselines") from error
    return cast(ModuleType, bm25s)
