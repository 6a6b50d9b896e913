"""Four ways to compute what each word of a text contributes to its score against another text.

| method        | a word gets                                                   | adds up to                         |
|---------------|---------------------------------------------------------------|------------------------------------|
| shapley       | what it adds to the score, averaged over all orders in which  | the score                          |
|               | the words of the text could be added                          |                                    |
| changes       | the change of the output when it was read, Δy(t), times the   | the score                          |
|               | other vector                                                  |                                    |
| leave-one-out | the score minus the score of the text without it              | nothing in particular              |
| gradients     | integrated gradients, from tokens without trigrams to these   | the score minus that of the biases |

`changes` needs an output at each word; the others work with any tower. docs/inside.md measures which ones are most
faithful. A word is a token: the last one of a long text holds all remaining words.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.explanation.reading import Floats, encode, read
from clickvec.model import forward
from clickvec.model.encoder import Encoder
from clickvec.model.projection import project
from clickvec.text.ragged import Ragged, ragged
from clickvec.text.tokens import split_tokens

METHODS = ("shapley", "changes", "leave-one-out", "gradients")
EXACT_WORDS = 8  # up to this many words, all subsets are scored; beyond, only those along a sample of orders
ORDERS = 64  # sampled orders, about; at ten words the error is at most 0.015, where the largest contribution is 0.25
GRADIENT_POINTS = 10
_STEP = 1e-6  # of the difference quotient; in float64 its error is far below what is shown

Encode = Callable[[list[str]], Floats]
Score = Callable[[list[str]], Floats]


def word_contributions(
    encoder: Encoder, side: str, text: str, other: Floats, method: str = METHODS[0], *, encoded: Encode | None = None
) -> Floats:
    """Return what each word of a text contributes to the cosine of its vector and the unit vector `other`.

    The tower of `side` reads the text. `encoded` returns vectors of texts, for a caller that caches them.
    """
    if method not in METHODS:
        raise ClickvecError(f"there is no method {method!r}; the methods are {', '.join(METHODS)}")
    if method == "changes":
        return np.asarray(read(encoder, side, text).parts @ other)
    words = split_tokens(text, encoder.model.max_words)
    if method == "gradients":
        return _integrated_gradients(encoder, side, words, other)

    def score(texts: list[str]) -> Floats:
        return (encoded(texts) if encoded else np.asarray(encode(encoder, side, texts), np.float64)) @ other

    return shapley(words, score) if method == "shapley" else leave_one_out(words, score)


def leave_one_out(words: Sequence[str], score: Score) -> Floats:
    """Return how far the score falls without each word."""
    if not words:
        return np.zeros(0)
    scores = score([" ".join(words), *without_each(words)])
    return np.asarray(scores[0] - scores[1:])


def without_each(words: Sequence[str]) -> list[str]:
    """Return the text without its first word, without its second, and so on."""
    return [" ".join((*words[:at], *words[at + 1 :])) for at in range(len(words))]


def shapley(words: Sequence[str], score: Score) -> Floats:
    """Return what each word adds to the score, averaged over the orders in which the words could be added.

    Along every order the additions sum to the score of the whole text, and so do their means over a sample of orders.
    The words added so far keep the order of the text.
    """
    return _over_subsets(words, score) if len(words) <= EXACT_WORDS else _over_orders(words, score)


def _over_subsets(words: Sequence[str], score: Score) -> Floats:
    """Average over all orders by the 2^n subsets: one of s words precedes word t in s! (n - s - 1)! of n! orders."""
    n, subsets = len(words), np.arange(2 ** len(words))
    values = score([_text(words, subset) for subset in subsets.tolist()])
    size = np.array([subset.bit_count() for subset in subsets.tolist()])
    weight = np.array([1 / (n * math.comb(n - 1, s)) for s in range(n)])
    contributions = np.zeros(n)
    for at in range(n):
        before = subsets[(subsets >> at) & 1 == 0]
        contributions[at] = weight[size[before]] @ (values[before | 1 << at] - values[before])
    return contributions


def _over_orders(words: Sequence[str], score: Score) -> Floats:
    """Average over a sample of orders, always the same one for a text of this many words.

    Each random permutation is used in all rotations, forwards and backwards. Every word is then added at every
    position equally often, which needs half as many texts for the same error as independent permutations.
    """
    n, rng = len(words), np.random.default_rng(len(words))
    rotations = np.add.outer(np.arange(n), np.arange(n)) % n
    forwards = np.concatenate([rng.permutation(n)[rotations] for _ in range(max(1, ORDERS // (2 * n)))])
    orders = np.concatenate((forwards, forwards[:, ::-1]))
    # The words added so far, as the bits of an int: none, and after each addition.
    growing = [list(accumulate((1 << at for at in order), initial=0)) for order in orders.tolist()]
    subsets = sorted({subset for row in growing for subset in row})
    value = dict(zip(subsets, score([_text(words, subset) for subset in subsets]).tolist(), strict=True))
    gains = np.diff([[value[subset] for subset in row] for row in growing], axis=1)
    return np.asarray(np.bincount(orders.ravel(), gains.ravel()) / len(orders))


def _text(words: Sequence[str], subset: int) -> str:
    return " ".join(word for at, word in enumerate(words) if subset >> at & 1)


def _integrated_gradients(encoder: Encoder, side: str, words: Sequence[str], other: Floats) -> Floats:
    """Return ∫ ∂cos/∂x_t · x_t dα for each word, where x_t = W l(t) is scaled by α from 0 to 1.

    This is one directional derivative per word, so a difference quotient replaces backpropagation. The integral is
    computed by Gauss-Legendre quadrature.
    """
    if not words:
        return np.zeros(0)
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
