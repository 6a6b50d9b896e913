"""Four ways to say what each word of a text gave to its score against another text.

| method        | what a word gets                                             | adds up to                         |
|---------------|--------------------------------------------------------------|------------------------------------|
| shapley       | what it adds to the score, averaged over all orders in which | the score                          |
|               | the words of the text could have been put in                 |                                    |
| changes       | the change of the output when it was read, Δy(t), times the  | the score                          |
|               | other vector                                                 |                                    |
| leave-one-out | the score, less the score of the text without it             | nothing in particular              |
| gradients     | integrated gradients, from tokens without a trigram to these  | the score, less that of the biases |

`changes` needs an output at each word; the others work with any tower. Which one to believe is measured, not argued:
docs/inside.md. A word is a token of the text: the last one of a long text is several words.
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
EXACT_WORDS = 8  # up to so many words all subsets are scored; beyond, those along some orders
ORDERS = 64  # or nearly; at ten words the worst word of a title is then off by 0.015, where the largest gets 0.25
GRADIENT_POINTS = 10
_STEP = 1e-6  # of the difference quotient; in float64 its error is far below what is shown

Encode = Callable[[list[str]], Floats]
Score = Callable[[list[str]], Floats]


def word_contributions(
    encoder: Encoder, side: str, text: str, other: Floats, method: str = METHODS[0], *, encoded: Encode | None = None
) -> Floats:
    """What each word of the text, read by the tower of `side`, gives to its cosine with the unit vector `other`.

    `encoded` gives the vectors of texts, for a caller who keeps them.
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
    """How far the score falls when one word is left out."""
    if not words:
        return np.zeros(0)
    scores = score([" ".join(words), *without_each(words)])
    return np.asarray(scores[0] - scores[1:])


def without_each(words: Sequence[str]) -> list[str]:
    """The text without its first word, without its second, and so on."""
    return [" ".join((*words[:place], *words[place + 1 :])) for place in range(len(words))]


def shapley(words: Sequence[str], score: Score) -> Floats:
    """The mean, over the orders in which the words could be added, of what a word adds to the score.

    Along every order the additions sum to the score of the whole text, and so do their means, even where only some
    orders are tried. The words that are in keep the order of the text.
    """
    return _over_subsets(words, score) if len(words) <= EXACT_WORDS else _over_orders(words, score)


def _over_subsets(words: Sequence[str], score: Score) -> Floats:
    """All orders, by the 2^n subsets: one with s words stands before word t in s! (n - s - 1)! of the n! orders."""
    n, subsets = len(words), np.arange(2 ** len(words))
    values = score([_text(words, subset) for subset in subsets.tolist()])
    size = np.array([subset.bit_count() for subset in subsets.tolist()])
    weight = np.array([1 / (n * math.comb(n - 1, s)) for s in range(n)])
    found = np.zeros(n)
    for place in range(n):
        before = subsets[(subsets >> place) & 1 == 0]
        found[place] = weight[size[before]] @ (values[before | 1 << place] - values[before])
    return found


def _over_orders(words: Sequence[str], score: Score) -> Floats:
    """Some orders, always the same ones for a text of this many words.

    The words are laid in a circle by chance, and each word in turn begins, both ways round: every word is then added
    at every place equally often, and half as many texts do for the same error as with orders that are merely drawn.
    """
    n, rng = len(words), np.random.default_rng(len(words))
    turned = np.add.outer(np.arange(n), np.arange(n)) % n
    one_way = np.concatenate([rng.permutation(n)[turned] for _ in range(max(1, ORDERS // (2 * n)))])
    orders = np.concatenate((one_way, one_way[:, ::-1]))
    # The words that are in, as the bits of an int: none, and after each addition.
    grown = [list(accumulate((1 << place for place in order), initial=0)) for order in orders.tolist()]
    subsets = sorted({subset for row in grown for subset in row})
    value = dict(zip(subsets, score([_text(words, subset) for subset in subsets]).tolist(), strict=True))
    gains = np.diff([[value[subset] for subset in row] for row in grown], axis=1)
    return np.asarray(np.bincount(orders.ravel(), gains.ravel()) / len(orders))


def _text(words: Sequence[str], subset: int) -> str:
    return " ".join(word for place, word in enumerate(words) if subset >> place & 1)


def _integrated_gradients(encoder: Encoder, side: str, words: Sequence[str], other: Floats) -> Floats:
    """∫ ∂cos/∂x_t · x_t dα with x_t = W l(t) scaled by α from 0 to 1: a derivative along x_t, for each word.

    One direction a word needs no way back through the network: the quotient of a small difference will do. The
    integral is Gauss's sum.
    """
    if not words:
        return np.zeros(0)
    weights = encoder.model.tower_weights(side)
    x = project(weights, ragged(map(encoder.vocabulary.ids, words))).astype(np.float64)
    small = {name: weight.astype(np.float64) for name, weight in weights.items() if not name.endswith(".input")}
    points, shares = np.polynomial.legendre.leggauss(GRADIENT_POINTS)  # of the integral from -1 to 1
    ahead = _STEP * np.eye(len(words) + 1, len(words), -1)  # a row as it is, then one a step further along each word
    scale = (points[:, None, None] + 1) / 2 + ahead  # (points, 1 + words, words)
    table = (scale[..., None] * x).reshape(-1, x.shape[1])
    texts = Ragged(np.arange(len(table), dtype=np.int32), np.arange(0, len(table) + 1, len(words)))
    vectors = forward.unit(forward.run(encoder.model.tower, small, table, texts))
    scores = (vectors @ other).reshape(scale.shape[:2])
    return np.asarray(shares / 2 @ (scores[:, 1:] - scores[:, :1]) / _STEP)
