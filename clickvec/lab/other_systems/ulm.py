"""The unigram language model on titles: the paper's second word-matching baseline."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.evaluation.bm25 import TUNED_TOKENS
from clickvec.evaluation.metrics import Scores
from clickvec.evaluation.ranker import Ranker
from clickvec.text.lexical_tokens import TokenKind, tokenise

# The settings to choose from on dev.
ULM_GRID: tuple[dict[str, Any], ...] = tuple(
    {"tokens": tokens, "mu": mu} for tokens in TUNED_TOKENS for mu in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
)


class ULM(Ranker):
    """The unigram language model with Dirichlet smoothing: log P(Q|D) = Σ_w log (c(w,D) + μ P(w|C)) / (|D| + μ).

    P(w|C) is the share of a word in the corpus, the distinct titles. Titles outside the corpus can be scored too. A
    query word that is not in the corpus is ignored: with P(w|C) = 0, it would make log P(Q|D) = -∞ for most titles.
    """

    def __init__(self, titles: Iterable[str], mu: float = 1.0, name: str = "ULM", tokens: TokenKind = "words") -> None:
        """Count the words of the distinct titles."""
        if not mu > 0:
            raise ClickvecError(f"mu of {name} is {mu}; it must be above 0, or a missing word makes a score infinite")
        self.name = name
        self._mu = mu
        self._tokens = tokens
        self._count = Counter(token for title in dict.fromkeys(titles) for token in tokenise(title, tokens))
        self._total = self._count.total()

    def score(self, query: str, titles: Sequence[str]) -> Scores:
        """Return log P(Q|D) of each title; 0 for all titles if no query word is in the corpus."""
        words = [word for word in tokenise(query, self._tokens) if word in self._count]
        bags = [Counter(tokenise(title, self._tokens)) for title in titles]
        c = np.array([[bag[word] for word in words] for bag in bags]).reshape(len(bags), len(words))
        length = np.array([bag.total() for bag in bags]).reshape(len(bags), 1)
        p = np.array([self._count[word] for word in words]) / max(self._total, 1)
        scores: NDArray[np.float64] = np.log((c + self._mu * p) / (length + self._mu)).sum(axis=1)
        return scores.astype(np.float32)
