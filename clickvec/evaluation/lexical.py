"""Word matching on titles: BM25, by bm25s, and the unigram language model. What every click model has to beat."""

from collections import Counter
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.evaluation.ranker import BaseRanker
from clickvec.text.lexical_tokens import TokenKind, tokenise

_TUNED: tuple[TokenKind, ...] = ("words", "stems", "stems-stop", "trigrams", "words+trigrams")

# What is tried on a dev set: what came first, or all but, on the dev sets of films (msrd) and of Wikipedia (dbpedia).
BM25_GRID: tuple[dict[str, Any], ...] = tuple(
    {"tokens": tokens, "k1": k1, "b": b}
    for tokens in _TUNED
    for k1, b in ((0.3, 1.0), (0.8, 0.75), (0.8, 1.0), (1.2, 0.5), (1.2, 0.75), (2.0, 1.0))
)
ULM_GRID: tuple[dict[str, Any], ...] = tuple(
    {"tokens": tokens, "mu": mu} for tokens in _TUNED for mu in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
)


class BM25(BaseRanker):
    """Lucene's BM25 over the distinct ones of `titles`, as `tokenise` takes them apart.

    The corpus sets the word weights (idf, mean length), so it has to hold every title that is to be scored: index the
    judged titles together with the catalogue. A title outside it is an error and not a guess.
    """

    def __init__(
        self, titles: Iterable[str], k1: float = 1.2, b: float = 0.75, name: str = "BM25", tokens: TokenKind = "words"
    ) -> None:
        """Index the distinct ones of `titles`."""
        self.name = name
        self._tokens = tokens
        self._place = {title: place for place, title in enumerate(dict.fromkeys(titles))}
        bm25s = _bm25s()
        ids: dict[str, int] = {}
        corpus = [[ids.setdefault(token, len(ids)) for token in tokenise(title, tokens)] for title in self._place]
        self._index: Any = None
        if ids:  # bm25s cannot index a corpus without a word; without an index every score is 0
            self._index = bm25s.BM25(k1=k1, b=b, method="lucene", backend="numpy", csc_backend="numpy")
            self._index.index((corpus, ids), show_progress=False)

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """BM25 of each title; 0 where it shares no word with the query."""
        places = np.array([self._find(title) for title in titles], dtype=np.intp)
        known = self._index.get_tokens_ids(tokenise(query, self._tokens)) if self._index else []
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


class ULM(BaseRanker):
    """The unigram language model with Dirichlet smoothing: log P(Q|D) = Σ_w log (c(w,D) + μ P(w|C)) / (|D| + μ).

    P(w|C) is a word's share of all words of the distinct ones of `titles`; any title can be scored, in the corpus or
    not. A query word that the corpus lacks has P(w|C) = 0 and would make log P(Q|D) of every title without it -∞: the
    model knows nothing about such a word, and it is left out, for all titles alike.
    """

    def __init__(self, titles: Iterable[str], mu: float = 1.0, name: str = "ULM", tokens: TokenKind = "words") -> None:
        """Count the words of the distinct ones of `titles`."""
        if not mu > 0:
            raise ClickvecError(f"mu of {name} is {mu}; it has to be above 0, or a missing word makes a score infinite")
        self.name = name
        self._mu = mu
        self._tokens = tokens
        self._count = Counter(token for title in dict.fromkeys(titles) for token in tokenise(title, tokens))
        self._total = self._count.total()

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """log P(Q|D) of each title; 0 for all if the corpus has no word of the query."""
        words = [word for word in tokenise(query, self._tokens) if word in self._count]
        bags = [Counter(tokenise(title, self._tokens)) for title in titles]
        c = np.array([[bag[word] for word in words] for bag in bags]).reshape(len(bags), len(words))
        length = np.array([bag.total() for bag in bags]).reshape(len(bags), 1)
        p = np.array([self._count[word] for word in words]) / max(self._total, 1)
        scores: NDArray[np.float64] = np.log((c + self._mu * p) / (length + self._mu)).sum(axis=1)
        return scores.astype(np.float32)


def _bm25s() -> ModuleType:
    try:
        import bm25s
    except ImportError as error:
        raise missing_extra("bm25s", "baselines") from error
    return cast(ModuleType, bm25s)
