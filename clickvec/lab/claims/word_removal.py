"""Remove words from queries and titles: what do NDCG and the score lose?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import JudgedQuery
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.neural import Neural
from clickvec.explanation import contributions
from clickvec.explanation.keywords import Keywords
from clickvec.explanation.reading import Floats, encode
from clickvec.explanation.side import Side
from clickvec.model import forward
from clickvec.model.encoder import Encoder
from clickvec.model.projection import project
from clickvec.text.ragged import Ragged, ragged
from clickvec.text.tokens import split_tokens

DRAWS = 5  # random choices of words, averaged
METHODS = (*contributions.METHODS, "gradients")
GRADIENT_POINTS = 10
_STEP = 1e-6  # of the difference quotient; in float64 its error is far below what is shown

QueryKeywords = tuple[JudgedQuery, Keywords]


# --- queries without some of their words -------------------------------------------------------------------------


def removable(words: Keywords) -> int:
    """Return how many words can be left out of a text both ways: keywords, and words that are not keywords."""
    return min(len(word_positions(words, True)), len(word_positions(words, False)))


def word_positions(words: Keywords, keyword: bool) -> list[int]:
    """Return the positions of the keywords of a text, or of the words that are not keywords."""
    return [at for at, verdict in enumerate(words.verdicts) if verdict is keyword]


def keyword_scores(
    encoder: Encoder, queries: Sequence[QueryKeywords], draws: int = DRAWS, seed: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Return NDCG@10 of each query: whole, without keywords, and without as many other words, in per cent.

    The words to leave out are drawn at random; the values are means over the draws.
    """
    rng = np.random.default_rng(seed)

    def drawn(words: Keywords, keyword: bool) -> list[int]:
        positions = np.array(word_positions(words, keyword))
        return [int(at) for at in rng.choice(positions, removable(words), replace=False)]

    def mean_without(keyword: bool) -> Floats:
        values = [ndcg_without(encoder, queries, lambda words: drawn(words, keyword)) for _ in range(draws)]
        return np.asarray(np.mean(values, axis=0))

    return ndcg_without(encoder, queries, lambda _: ()), mean_without(keyword=True), mean_without(keyword=False)


def ndcg_without(
    encoder: Encoder, queries: Sequence[QueryKeywords], positions: Callable[[Keywords], Sequence[int]]
) -> Floats:
    """Return NDCG@10 of each query without the words at the positions that a function chooses, in per cent."""
    if not queries:
        return np.zeros(0)
    shorter = []
    for query, words in queries:
        left_out = positions(words)
        kept = [word for at, word in enumerate(words.words) if at not in left_out]
        shorter.append(query._replace(query=" ".join(kept)))
    return np.asarray(evaluate([Neural(encoder, "model")], shorter, cutoffs=(10,)).values[0, 0])


# --- titles without more and more words --------------------------------------------------------------------------


class Deletions(NamedTuple):
    """A text, the vector of the text it is scored against, and the orders in which to leave out its words."""

    side: str
    words: list[str]
    other: Floats
    orders: dict[str, list[NDArray[np.int64]]]  # by method: largest contribution first; and "random"

    def scores(self, encoder: Encoder, order: NDArray[np.int64]) -> Floats:
        """Return the score of the whole text, without the first word of the order, without the first two, and so on."""
        left_out = [set(order[:count].tolist()) for count in range(len(self.words) + 1)]
        texts = [" ".join(word for at, word in enumerate(self.words) if at not in out) for out in left_out]
        return np.asarray(encode(encoder, self.side, texts), np.float64) @ self.other


def deletion_orders(
    encoder: Encoder,
    pairs: Iterable[tuple[str, str]],
    side: str = "title",
    *,
    methods: Sequence[str] = METHODS,
    draws: int = DRAWS,
    seed: int = 0,
) -> Iterator[Deletions]:
    """Yield the orders in which to leave out the words of the title (or of the query) of each pair.

    Texts of fewer than two words are skipped.
    """
    rng = np.random.default_rng(seed)
    for query, title in pairs:
        text, against, facing = (title, query, "query") if side == "title" else (query, title, "title")
        words = split_tokens(text, encoder.model.max_words)
        if len(words) < 2:
            continue
        other = np.asarray(encode(encoder, facing, [against])[0], np.float64)
        orders = {
            method: [np.argsort(-_contributions(encoder, side, text, other, method), kind="stable")]
            for method in methods
        }
        orders["random"] = [rng.permutation(len(words)) for _ in range(draws)]
        yield Deletions(side, words, other, orders)


def _contributions(encoder: Encoder, side: str, text: str, other: Floats, method: str) -> Floats:
    if method == "gradients":
        return integrated_gradients(encoder, side, text, other)
    return Side(encoder, side, text).contributions(other, method)


def integrated_gradients(encoder: Encoder, side: str, text: str, other: Floats) -> Floats:
    """Return ∫ ∂cos/∂x_t · x_t dα for each word, where x_t = W l(t) is scaled by α from 0 to 1.

    The sum is the score minus that of the biases alone.

    This is one directional derivative per word, so a difference quotient replaces backpropagation. The integral is
    computed by Gauss-Legendre quadrature.
    """
    words = split_tokens(text, encoder.model.max_words)
    weights = encoder.model.tower_weights(side)
    x = project(weights, ragged(map(encoder.vocabulary.ids, words))).astype(np.float64)
    small = {name: weight.astype(np.float64) for name, weight in weights.items() if not name.endswith(".input")}
    points, shares = np.polynomial.legendre.leggauss(GRADIENT_POINTS)  # for the integral from -1 to 1
    ahead = _STEP * np.eye(len(words) + 1, len(words), -1)  # a row unchanged, then one a step further along each word
    scale = (points[:, None, None] + 1) / 2 + ahead  # (points, 1 + words, words)
    table = (scale[..., None] * x).reshape(-1, x.shape[1])
    texts = Ragged(np.arange(len(table), dtype=np.int32), np.arange(0, len(table) + 1, len(words)))
    vectors = forward.unit(forward.run(encoder.model.tower, small, table, texts))
    scores = (vectors @ other).reshape(scale.shape[:2])
    return np.asarray(shares / 2 @ (scores[:, 1:] - scores[:, :1]) / _STEP)


def mean_fall(scores: Floats) -> float:
    """Return how far the score falls on average, from the whole text to the text with one word left."""
    return float((scores[0] - scores[1:-1]).mean())
