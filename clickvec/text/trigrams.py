"""Tokens to letter trigrams to ids: the fixed hashing operator W_h of the paper (section III-A).

A vocabulary may also hold whole words, which the paper does not have: a frequent word then counts as one more trigram
of itself, written `#word#`.

Nothing here learns or depends on the order of a set or a hash: the same tokens give the same ids.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clickvec.text.ragged import Ints, Offsets, Ragged, concatenate
from clickvec.text.tokens import split_words

MAX_TRIGRAMS = 50_000
LEAST_TIMES = 20  # minimum count of a whole word: rarer ones lower the quality of small logs (docs/log.md)
_FEW_TOKENS = 8  # such as the new ones of a query, which are looked up one by one
_TOKENS_AT_ONCE = 2**12  # tokens whose letters are in memory at the same time
_LETTER_BITS = 21  # enough for any letter; three of them fit into an int64
_SLOTS = 2**19  # ten for each of 50,000 trigrams
_BUCKETS = 2**20  # of the first, rough count
_PENDING = 2**17  # trigrams that wait to be added to the count

Counts = NDArray[np.float64]


class Tokens(Protocol):
    """Tokens that can be counted and sliced: a list of strings, or a token table."""

    def __len__(self) -> int: ...

    def __getitem__(self, ids: slice, /) -> Sequence[str]: ...


def trigrams(token: str) -> list[str]:
    """Return the letter trigrams of `#word#` for each word of a token, repeated as often as they occur."""
    marked = [f"#{word}#" for word in token.split(" ")]
    return [word[at : at + 3] for word in marked for at in range(len(word) - 2)]


def is_whole_word(trigram: str) -> bool:
    """Tell whether an entry of a vocabulary is a whole word. A word of one letter is a trigram."""
    return len(trigram) > 3 and trigram[0] == trigram[-1] == "#"


def count_units(known: Sequence[str]) -> dict[str, int]:
    """Return the number of trigrams of a vocabulary and, if it has any, of whole words, by name."""
    words = sum(map(is_whole_word, known))
    return {"trigrams": len(known) - words, **({"whole words": words} if words else {})}


class Vocabulary:
    """The trigrams and whole words that a model knows. The id of one is its position. Unknown ones count nothing."""

    def __init__(self, known: Sequence[str]) -> None:
        self.trigrams = tuple(known)
        self._ids = {trigram: number for number, trigram in enumerate(self.trigrams)}
        self._words = {trigram[1:-1]: number for trigram, number in self._ids.items() if is_whole_word(trigram)}
        self._table: tuple[Offsets, Ints, Ints] | None = None

    def __len__(self) -> int:
        """The number of trigrams and whole words."""
        return len(self.trigrams)

    @classmethod
    def count(cls, texts: Iterable[str], limit: int = MAX_TRIGRAMS) -> "Vocabulary":
        """Return the vocabulary of the most frequent trigrams of these texts, at most `limit`."""
        words = Counter(word for text in texts for word in split_words(text))
        return cls.of_tokens(list(words), np.array(list(words.values()), np.float64), limit)

    @classmethod
    def of_tokens(
        cls, tokens: Tokens, times: Counts, limit: int = MAX_TRIGRAMS, *, whole_words: bool = False
    ) -> "Vocabulary":
        """Return the vocabulary of the most frequent trigrams. `times` holds the count of each token.

        With `whole_words`, trigrams and words compete for the `limit` places. They are sorted by count, the most
        frequent first, and then by text.
        """
        keys, counts = _most_frequent(tokens, times, limit)
        chosen = np.argsort(-counts, kind="stable")[:limit]
        letters = keys[chosen, np.newaxis] >> np.array([2 * _LETTER_BITS, _LETTER_BITS, 0]) & 2**_LETTER_BITS - 1
        frequent = ["".join(map(chr, trigram)) for trigram in letters.tolist()]
        if not whole_words:
            return cls(frequent)
        counted = [*zip((-counts[chosen]).tolist(), frequent, strict=True), *_frequent_words(tokens, times, limit)]
        return cls([text for _, text in sorted(counted)[:limit]])

    def ids(self, token: str) -> list[int]:
        """Return the ids of a token's known trigrams, each as often as it occurs: the non-zeros of l(t) = W_h x(t).

        Those of its whole words follow.
        """
        known, words = self._ids, self._words
        return [
            *(known[trigram] for trigram in trigrams(token) if trigram in known),
            *(words[word] for word in token.split(" ") if word in words),
        ]

    def known_share(self, word: str) -> float:
        """Return the share of a word's trigrams that are known; 1 if the word itself is."""
        if word in self._words:
            return 1.0
        of_word = trigrams(word)
        return sum(trigram in self._ids for trigram in of_word) / len(of_word)

    def rows(self, tokens: Tokens) -> Ragged:
        """Return the `ids` of each token, for many tokens far faster than one by one."""
        if len(tokens) <= _FEW_TOKENS:
            ids = list(map(self.ids, tokens[: len(tokens)]))
            return Ragged(np.array(list(chain(*ids)), np.int32), np.cumsum([0, *map(len, ids)]))
        rows = []
        for _, block, keys, offsets in _trigram_blocks(tokens):
            of_trigrams = self._rows(keys, offsets)
            rows.append(self._add_words(of_trigrams, block) if self._words else of_trigrams)
        return concatenate(rows)

    def _rows(self, keys: Offsets, offsets: Offsets) -> Ragged:
        ids = self._look_up(keys)
        known = ids >= 0
        return Ragged(ids[known], np.concatenate(([0], np.cumsum(known)))[offsets])

    def _add_words(self, rows: Ragged, tokens: Sequence[str]) -> Ragged:
        """Return the rows of tokens with the ids of their whole words at the end of each."""
        words = self._words
        found = [(row, words[token]) for row, token in enumerate(tokens) if token in words]
        joined = [(row, token.split(" ")) for row, token in enumerate(tokens) if " " in token]
        found += [(row, words[word]) for row, parts in joined for word in parts if word in words]
        if not found:
            return rows
        row, ids = np.array(sorted(found, key=itemgetter(0)), np.int64).reshape(-1, 2).T
        counts = np.bincount(row, minlength=len(tokens))
        values = np.insert(rows.values, rows.offsets[row + 1], ids.astype(np.int32))
        return Ragged(values, rows.offsets + np.concatenate(([0], np.cumsum(counts))))

    def _look_up(self, keys: Offsets) -> Ints:
        """Return the ids of trigrams by their keys, -1 for unknown ones: most by hashing, the others by bisection."""
        if self._table is None:
            self._table = self._make_table()
        known, ids, slots = self._table
        rows = slots[_slot(keys)]
        collided = np.flatnonzero((rows > 0) & (known[rows] != keys))
        rows[collided] = np.searchsorted(known, keys[collided], side="right") - 1
        rows[known[rows] != keys] = 0
        return ids[rows]

    def _make_table(self) -> tuple[Offsets, Ints, Ints]:
        """Return the known keys, sorted, their ids, and a row of these two for each slot. Row 0 means unknown."""
        of_three = {trigram: number for trigram, number in self._ids.items() if len(trigram) == 3}
        letters = np.frombuffer("".join(of_three).encode("utf-32-le", "surrogatepass"), np.int32)
        keys = np.append(_keys(*letters.reshape(-1, 3).T), -1)
        order = np.argsort(keys)
        slots = np.zeros(_SLOTS, np.int32)
        slots[_slot(keys[order[1:]])] = np.arange(1, len(keys))
        return keys[order], np.array([*of_three.values(), -1], np.int32)[order], slots


def _slot(keys: Offsets, size: int = _SLOTS) -> Offsets:
    """Return a pseudo-random number below `size`, a power of two, for each key."""
    mixed = keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed >> np.uint64(65 - size.bit_length())).view(np.int64)


def _keys(first: Ints, second: Ints, third: Ints) -> Offsets:
    """Return trigrams as numbers, in the same order."""
    return (first.astype(np.int64) << _LETTER_BITS | second) << _LETTER_BITS | third


def _trigram_blocks(tokens: Tokens) -> Iterator[tuple[int, Sequence[str], Offsets, Offsets]]:
    """Yield (number of the first token, some tokens, keys of their trigrams, offsets of each token among these)."""
    for start in range(0, len(tokens), _TOKENS_AT_ONCE):
        block = tokens[start : start + _TOKENS_AT_ONCE]
        text = "\n".join(["", *block, ""])
        letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.int32)
        ends = letters == ord("\n")
        between = ends | (letters == ord(" "))
        letters = np.where(between, np.int32(ord("#")), letters)
        inside = ~between[1:-1]  # there is one trigram around each letter of a word
        before = np.concatenate(([0], np.cumsum(inside)))
        keys = _keys(letters[:-2], letters[1:-1], letters[2:])[inside]
        yield start, block, keys, before[np.flatnonzero(ends).clip(max=len(inside))]


def _most_frequent(tokens: Tokens, times: Counts, limit: int) -> tuple[Offsets, Counts]:
    """Return the keys and counts of trigrams, sorted by key; the `limit` most frequent are among them.

    Chinese has millions of trigrams, most of them rare. So trigrams are first counted in buckets, several in each. The
    count of a bucket is an upper bound for its trigrams; only trigrams with a bound that is high enough get a count
    of their own, so that memory does not grow with the rare ones.
    """
    bounds = np.zeros(_BUCKETS)
    for keys, weights in _weighted(tokens, times):
        np.add.at(bounds, _slot(keys, _BUCKETS), weights)
    least = _nth_largest(bounds, 2 * limit)
    while True:
        keys, counts = _count_chosen(tokens, times, chosen=bounds >= max(least, 1))
        reached = _nth_largest(counts, limit)
        if reached >= least:
            return keys[counts > 0], counts[counts > 0]
        least = reached  # a trigram that was left out may be as frequent: count again


def _frequent_words(tokens: Tokens, times: Counts, limit: int) -> list[tuple[float, str]]:
    """Return (-count, `#word#`) of the most frequent words, at most `limit`. Words of joined tokens are not counted."""
    words, least = list[tuple[float, str]](), float(LEAST_TIMES)
    for first in range(0, len(tokens), _TOKENS_AT_ONCE):
        counts = np.asarray(times[first : first + _TOKENS_AT_ONCE])
        chosen = np.flatnonzero(counts >= least).tolist()
        block = tokens[first : first + _TOKENS_AT_ONCE] if chosen else ()
        frequent = ((-float(counts[at]), block[at]) for at in chosen)
        words += [(count, f"#{word}#") for count, word in frequent if len(word) > 1 and " " not in word]
        if len(words) > 4 * limit + _TOKENS_AT_ONCE:
            words = heapq.nsmallest(limit, words)
            least = -words[-1][0]
    return heapq.nsmallest(limit, words)


def _count_chosen(tokens: Tokens, times: Counts, chosen: NDArray[np.bool_]) -> tuple[Offsets, Counts]:
    """Return the keys and counts of the trigrams in the chosen buckets, sorted by key."""
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0)]
    for new, weights in _weighted(tokens, times):
        kept = chosen[_slot(new, _BUCKETS)]
        keys.append(new[kept])
        counts.append(weights[kept])
        if sum(map(len, keys[1:])) > max(_PENDING, len(keys[0])):
            keys, counts = _summed(keys, counts)
    (distinct,), (total,) = _summed(keys, counts)
    return distinct, total


def _summed(keys: list[Offsets], counts: list[Counts]) -> tuple[list[Offsets], list[Counts]]:
    distinct, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    total: Counts = np.bincount(inverse, np.concatenate(counts), len(distinct)).astype(np.float64, copy=False)
    return [distinct], [total]


def _weighted(tokens: Tokens, times: Counts) -> Iterator[tuple[Offsets, Counts]]:
    for start, _, keys, offsets in _trigram_blocks(tokens):
        yield keys, np.repeat(times[start : start + len(offsets) - 1], np.diff(offsets))


def _nth_largest(counts: Counts, n: int) -> float:
    """Return the n-th largest count, 0 if there are fewer."""
    counts = counts[counts > 0]  # np.partition is slow where most of the numbers are equal
    return float(np.partition(counts, -n)[-n]) if n <= len(counts) else 0.0
