"""Three ways to compute what each word of a text contributes to its score against another text.

| method        | a word gets                                                         | adds up to            |
|---------------|---------------------------------------------------------------------|-----------------------|
| shapley       | what it adds to the score, averaged over all orders in which the    | the score             |
|               | words of the text could be added                                    |                       |
| changes       | the change of the output when it was read, Δy(t), times the other   | the score             |
|               | vector (`Reading.parts`)                                            |                       |
| leave-one-out | the score minus the score of the text without it                    | nothing in particular |

`changes` needs an output at each word; the others work with any tower. docs/inside.md measures which ones are most
faithful. A word is a token: the last one of a long text holds all remaining words.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from clickvec.explanation.reading import Floats

METHODS = ("shapley", "changes", "leave-one-out")
EXACT_WORDS = 8  # up to this many words, all subsets are scored; beyond, only those along a sample of orders
ORDERS = 64  # sampled orders, about; at ten words the error is at most 0.015, where the largest contribution is 0.25

Score = Callable[[list[str]], Floats]


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
    The words added so far keep the order of the text. `score` may also return a row of numbers for each text, such as
    its vector; then each word gets a row.
    """
    return _over_subsets(words, score) if len(words) <= EXACT_WORDS else _over_orders(words, score)


def _over_subsets(words: Sequence[str], score: Score) -> Floats:
    """Average over all orders by the 2^n subsets: one of s words precedes word t in s! (n - s - 1)! of n! orders."""
    n, subsets = len(words), np.arange(2 ** len(words))
    values = score([_text(words, subset) for subset in subsets.tolist()])
    size = np.array([subset.bit_count() for subset in subsets.tolist()])
    weight = np.array([1 / (n * math.comb(n - 1, s)) for s in range(n)])
    contributions = np.zeros((n, *values.shape[1:]))
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
    values = score([_text(words, subset) for subset in subsets])
    number = {subset: row for row, subset in enumerate(subsets)}
    gains = np.diff(values[[[number[subset] for subset in row] for row in growing]], axis=1)  # by order and step
    step = np.argsort(orders, axis=1)  # at which each word is added
    return np.asarray(gains[np.arange(len(orders))[:, None], step].mean(axis=0))


def _text(words: Sequence[str], subset: int) -> str:
    return " ".join(word for at, word in enumerate(words) if subset >> at & 1)
