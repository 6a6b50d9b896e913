"""Distinct words -> numbers in order of appearance: what `split_words` and a dict would give."""

from collections.abc import Sequence
from unicodedata import is_normalized, normalize

import numpy as np

from clickvec.text.ragged import Ragged
from clickvec.text.spellings import Growing, Spellings, as_bytes, find_words, framed

_SPACES = "\x85\u1680\u2028\u2029"  # white space that NFKC leaves as it is


class WordTable:
    """The distinct words met so far.

    What stands in a text is a spelling: `É` and `e\u0301` are one word. Only a spelling met for the first time is
    normalised, and apart from the words beside it: neither NFKC nor lower case looks past white space.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._spellings = Spellings(seed)
        self._spelling = Growing(np.zeros(0, np.int32))  # of each word, as it stands in `text`
        self._words = Growing(np.zeros(0, np.int32))  # of all spellings; mostly one each
        self._starts = Growing(np.zeros(1, np.int64))
        self._one_each = True

    def __len__(self) -> int:
        """The number of words."""
        return len(self._spelling.values)

    def read(self, texts: Sequence[str]) -> Ragged:
        """The words of each text, by their numbers; new words get the next numbers."""
        found = find_words(as_bytes(texts))
        before = len(self._spellings)
        numbers = self._spellings.number(found)
        if len(self._spellings) > before:
            self._learn(before)
        if len(self) == len(self._spellings):  # each is its own word
            return Ragged(numbers, found.offsets)
        if self._one_each:
            return Ragged(self._words.values[numbers], found.offsets)
        words = Ragged(self._words.values, self._starts.values).take(numbers)
        return Ragged(words.values, words.offsets[found.offsets])

    def text(self, first: int = 0, stop: int | None = None) -> str:
        """The words from number `first` to before number `stop`, each with a line feed behind it."""
        return self._spellings.text(self._spelling.values[first:stop])

    def _learn(self, before: int) -> None:
        """Find the words of all spellings from number `before` on; a word too is a spelling, its own."""
        rows = self._normalised(before)
        words = np.empty(len(rows.values), np.int32)
        known = rows.values < before
        words[known] = self._words.values[self._starts.values[rows.values[known]]]
        distinct, first, inverse = np.unique(rows.values[~known], return_index=True, return_inverse=True)
        order = np.argsort(first)
        fresh = np.empty(len(order), np.int32)
        fresh[order] = np.arange(len(self), len(self) + len(order))
        words[~known] = fresh[inverse]
        self._spelling.extend(distinct[order])
        self._starts.extend(self._starts.values[-1] + rows.offsets[1:])
        self._words.extend(words)
        self._one_each = self._one_each and bool((rows.lengths == 1).all())

    def _normalised(self, before: int) -> Ragged:
        """The words of each spelling from number `before` on, by their own spellings, which are entered."""
        new = np.arange(before, len(self._spellings), dtype=np.int32)
        spelled = self._spellings.text(new)
        if spelled.isascii():
            return Ragged(new, np.arange(len(new) + 1))
        normal = _normalise(spelled[:-1])
        if normal == spelled[:-1]:
            return Ragged(new, np.arange(len(new) + 1))
        found = find_words(framed(normal))
        numbers, after = self._spellings.number(found), before + len(new)
        more = np.arange(after, len(self._spellings), dtype=np.int32)
        ends = found.offsets[-1] + np.arange(1, len(more) + 1)
        return Ragged(np.concatenate((numbers, more)), np.concatenate((found.offsets, ends)))


def _normalise(words: str) -> str:
    """`normalise` of words with a line feed between them, and blanks for white space that is not ASCII."""
    words = _compatible(_compatible(words).lower())
    for space in _SPACES:
        words = words.replace(space, " ")
    return words


def _compatible(words: str) -> str:
    """NFKC; if only some words change, the others cost nothing."""
    if is_normalized("NFKC", words):
        return words
    return "\n".join([normalize("NFKC", word) for word in words.split("\n")])
