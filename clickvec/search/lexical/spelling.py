"""The words of a vocabulary that are spelled nearly like another word, so that a misspelled query finds titles.

Distances are counted in edits: a letter that is missing, added or replaced, or two neighbours that are swapped. Words
at distance 1 are found because they become equal when a letter of either is left out. Words further away are found by
the letter trigrams of `#word#` that they share.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.search.lexical.word_tokens import is_code

SHORTEST, LONGEST = 3, 32  # letters of words that are corrected
MOST_WORDS = 500_000  # of a vocabulary: the most frequent ones
_COMPARED = 50  # words with the most shared trigrams, whose distance is computed
_READ = 30_000  # words with a trigram, at most about so many are read
_FACTOR = 0x9E3779B97F4A7C15  # odd, so that it has an inverse
_INVERSE = pow(_FACTOR, -1, 2**64)
_LETTER_BITS = np.uint64(21)

Letters = NDArray[np.uint64]
Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int32]  # of words


class Spelling:
    """The words of a vocabulary by what is left of them without a letter, and by their trigrams.

    Words have numbers that rise from the most frequent to the least. `rows` says where each is in the vocabulary.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.rows: NDArray[np.int32] = arrays["spelled"]
        self._deletions: Hashes = arrays["deletions"]  # 32 bits of a hash, then the number of the word; rising
        self._trigrams: Hashes = arrays["trigrams"]  # rising; trigram k is in the words offsets[k] to offsets[k + 1]
        self._trigram_offsets: NDArray[np.int64] = arrays["trigram_offsets"]
        self._trigram_words: NDArray[np.int32] = arrays["trigram_words"]
        self._sizes: NDArray[np.uint8] = arrays["spelled_lengths"]

    @staticmethod
    def build(words: Sequence[str], title_counts: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the arrays for a vocabulary and the number of titles with each word."""
        lengths = np.fromiter((len(word) if _can_be_near(word) else 0 for word in words), np.uint8, len(words))
        rows = np.flatnonzero(lengths)
        rows = rows[np.argsort(-title_counts[rows], kind="stable")][:MOST_WORDS]
        lengths = lengths[rows]
        deletions, trigrams, numbers = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
        for length in np.unique(lengths).tolist():
            group = np.flatnonzero(lengths == length)
            letters = _letters([words[row] for row in rows[group].tolist()], length)
            deletions.append((_deletions(letters) | group.astype(np.uint64)[:, None]).reshape(-1))
            trigrams.append(_trigrams(letters).reshape(-1))
            numbers.append(np.repeat(group.astype(np.int32), length))
        keys = np.concatenate(trigrams)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = _first_of_each(keys)
        left = np.sort(np.concatenate(deletions))
        return {
            "spelled": rows.astype(np.int32),
            "spelled_lengths": lengths,
            "deletions": left[_first_of_each(left)],
            "trigrams": keys[first],
            "trigram_offsets": np.append(first, len(keys)).astype(np.int64),
            "trigram_words": np.concatenate(numbers)[order],
        }

    def one_deletion(self, word: str) -> list[int]:
        """Return the numbers of words that may be at distance 1, the most frequent first."""
        keys = _deletions(_letters([word], len(word)))[0]
        starts = np.searchsorted(self._deletions, keys)
        ends = np.searchsorted(self._deletions, keys | np.uint64(0xFFFFFFFF), side="right")
        ranges = [self._deletions[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        numbers = np.unique(np.concatenate(ranges) & np.uint64(0xFFFFFFFF))
        return [int(number) for number in numbers]

    def with_trigrams(self, keys: Hashes) -> list[Numbers]:
        """Return the numbers of the words with each trigram."""
        found = []
        for key, row in zip(keys.tolist(), np.searchsorted(self._trigrams, keys).tolist(), strict=True):
            has_words = row < len(self._trigrams) and int(self._trigrams[row]) == key
            ends = self._trigram_offsets[row : row + 2].tolist() if has_words else (0, 0)
            found.append(self._trigram_words[ends[0] : ends[1]])
        return found

    def lengths(self, numbers: Numbers) -> NDArray[np.int64]:
        """Return the number of letters of each word."""
        return self._sizes[numbers].astype(np.int64)


class RecentSpelling:
    """The words of a vocabulary that grows, by what is left of them without a letter, and by their trigrams."""

    def __init__(self) -> None:
        self._shortened: dict[str, list[str]] = {}
        self._trigrams: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}

    def add(self, word: str, number: int) -> None:
        """Add a word that is new, and its number."""
        if _can_be_near(word):
            self._lengths[number] = len(word)
            for key in _without_a_letter(word):
                self._shortened.setdefault(key, []).append(word)
            for trigram in set(trigrams(word).tolist()):
                self._trigrams.setdefault(trigram, []).append(number)

    def one_deletion(self, word: str) -> set[str]:
        """Return the words that may be at distance 1."""
        return {near for key in _without_a_letter(word) for near in self._shortened.get(key, ())}

    def with_trigrams(self, keys: Hashes) -> list[Numbers]:
        """Return the numbers of the words with each trigram."""
        return [np.array(self._trigrams.get(key, ()), np.int32) for key in keys.tolist()]

    def lengths(self, numbers: Numbers) -> NDArray[np.int64]:
        """Return the number of letters of each word."""
        return np.array([self._lengths[number] for number in numbers.tolist()], np.int64)


def rarest_lists(lists: Sequence[Numbers]) -> list[Numbers]:
    """Return the lists of words of the rarest trigrams.

    Frequent trigrams are left out if there are many words with the others: they tell little and take long.
    """
    counts = np.array([len(words) for words in lists], np.int64)
    rarest = np.argsort(counts, kind="stable")
    used = rarest[: 1 + int(np.searchsorted(np.cumsum(counts[rarest]), _READ))]
    return [lists[row] for row in used.tolist()]


def share_most(
    word: str,
    most_edits: int,
    lists: Sequence[Numbers],
    lengths: Callable[[Numbers], NDArray[np.int64]],
    hashes: Callable[[Numbers], Hashes],
) -> Numbers:
    """Return the numbers of the words that share the most trigrams, of nearly the same length; ties by their hash.

    `lists` are the words with each trigram of `word`. The functions take rising numbers.
    """
    entries = np.sort(np.concatenate([np.zeros(0, np.int32), *rarest_lists(lists)]))
    first = _first_of_each(entries)
    numbers, shared = entries[first], np.diff(first, append=len(entries))
    sizes = lengths(numbers)
    is_near = np.abs(sizes - len(word)) <= most_edits
    numbers, dice = numbers[is_near], 2 * shared[is_near] / (sizes[is_near] + len(word))
    if len(dice) <= _COMPARED:
        return numbers
    least = np.partition(dice, -_COMPARED)[-_COMPARED]
    better, tied = numbers[dice > least], numbers[dice == least]
    last = _COMPARED - len(better) - 1
    return np.concatenate((better, tied[np.argpartition(hashes(tied), last)[: last + 1]]))


def trigrams(word: str) -> Hashes:
    """Return the different trigrams of a word, as rising numbers."""
    return np.unique(_trigrams(_letters([word], len(word)))[0])


def most_edits(word: str) -> int:
    """Return how far a word may be from the one that it is taken for: 1 in short words, 3 in long ones."""
    return 1 if len(word) < 5 else 2 if len(word) < 8 else 3


def can_be_corrected(word: str) -> bool:
    """Return whether to look for words that are spelled nearly like this one. Codes that differ are not the same."""
    return SHORTEST <= len(word) <= LONGEST and not is_code(word)


def is_one_edit(word: str, other: str) -> bool:
    """Return whether the distance of two different words is 1."""
    start, end, other_end = 0, len(word), len(other)
    while start < end and start < other_end and word[start] == other[start]:
        start += 1
    while start < end and start < other_end and word[end - 1] == other[other_end - 1]:
        end, other_end = end - 1, other_end - 1
    left, right = word[start:end], other[start:other_end]
    return (len(left) < 2 and len(right) < 2) or (len(left) == 2 and left == right[::-1])


def distances(word: str, others: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of edits between a word and each of the others. No two edits change the same letter."""
    lengths = np.array([len(other) for other in others], np.int64)
    longest = int(lengths.max(initial=1))
    letters = _letters([other.ljust(longest) for other in others], longest)
    columns = np.arange(longest + 1)
    above = np.repeat(columns[None], len(others), axis=0)  # edits to make k letters of each other word
    before = above
    for row, letter in enumerate(map(ord, word), 1):
        current = np.empty_like(above)
        current[:, 0] = row
        np.minimum(above[:, 1:] + 1, above[:, :-1] + (letters != letter), out=current[:, 1:])
        if row > 1:
            is_swap = (letters[:, :-1] == letter) & (letters[:, 1:] == ord(word[row - 2]))
            swapped = np.where(is_swap, before[:, :-2] + 1, current[:, 2:])
            current[:, 2:] = np.minimum(current[:, 2:], swapped)
        current = np.minimum.accumulate(current - columns, axis=1) + columns  # letters that are added
        before, above = above, current
    edits: NDArray[np.int64] = above[np.arange(len(others)), lengths]
    return edits


def splits(word: str) -> list[tuple[str, str]]:
    """Return the ways to split a word into two of at least three letters."""
    return [(word[:at], word[at:]) for at in range(SHORTEST, len(word) - SHORTEST + 1)]


def _can_be_near(word: str) -> bool:
    return SHORTEST - 1 <= len(word) <= LONGEST + 1 and not is_code(word)


def _without_a_letter(word: str) -> Iterable[str]:
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


def _first_of_each(values: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each distinct value begins in a sorted array. This is much faster than np.unique."""
    is_first = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)


def _letters(words: Sequence[str], length: int) -> Letters:
    """Return the code points of words of the same length, (words, length)."""
    encoded = "".join(words).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(encoded, np.uint32).reshape(len(words), length).astype(np.uint64)


def _deletions(letters: Letters) -> Hashes:
    """Return hashes of each word, and of what is left of it without each letter, (words, length + 1).

    They are polynomials in `_FACTOR`, of which the upper 32 bits are kept. The lower ones are 0.
    """
    powers = np.array([pow(_FACTOR, at, 2**64) for at in range(letters.shape[1])], np.uint64)
    upto = np.cumsum(letters * powers, axis=1, dtype=np.uint64)
    whole = upto[:, -1:]
    before = np.concatenate((np.zeros_like(whole), upto[:, :-1]), axis=1)
    without = before + (whole - upto) * np.uint64(_INVERSE)
    mixed = np.concatenate((whole, without), axis=1)
    mixed ^= mixed >> np.uint64(29)
    return (mixed * np.uint64(_FACTOR)) & np.uint64(0xFFFFFFFF00000000)


def _trigrams(letters: Letters) -> Hashes:
    """Return the trigrams of `#word#` as numbers, (words, length)."""
    edge = np.full((len(letters), 1), ord("#"), np.uint64)
    marked = np.concatenate((edge, letters, edge), axis=1)
    return (marked[:, :-2] << _LETTER_BITS | marked[:, 1:-1]) << _LETTER_BITS | marked[:, 2:]
