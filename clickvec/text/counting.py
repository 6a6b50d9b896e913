"""The trigrams that occur most often in many words, and the ids of each word: `Vocabulary`, for all words at once.

Words of few different letters have few trigrams: a list of all that could be made of them is short, and one bincount
counts them. Chinese has millions, most of them rare. There, trigrams are first counted in buckets, several in each:
what a bucket holds in all is a bound for each trigram in it. Only those whose bound is high enough are counted one by
one, so that memory does not grow with the rare ones.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.text.keytable import Keys, KeyTable, mix
from clickvec.text.numbering import joined, slices
from clickvec.text.ragged import Ints, Offsets, Ragged
from clickvec.text.wordtable import WordTable

_FEW = 2**20  # trigrams, of which a list of all is short
_WORDS = 2**16  # that are looked at at once
_BUCKETS = 21  # bits
_LETTER = 21  # bits
_BORDER = ord("#")
_NOT_ZERO = np.uint64(1 << 63)

Counts = NDArray[np.float64]
Letters = NDArray[np.uint32]


class _Listed(NamedTuple):
    """Trigrams as places in a list."""

    words: Ragged  # the trigrams of each word
    trigrams: NDArray[np.integer]  # three letters each, in order
    counts: Counts


class _Slice(NamedTuple):
    """Some words with a border before each and behind the last."""

    first: int  # the number of the first word
    letters: Letters
    inside: NDArray[np.bool_]  # whether it is a letter of a word; of all letters but the first and the last
    lengths: Offsets  # of the words


def most_frequent(words: WordTable, times: Counts, limit: int) -> tuple[tuple[str, ...], Ragged]:
    """`Vocabulary.count` of words that occur so often, and `Vocabulary.ids` of each word."""
    alphabet = _alphabet(words)
    listed = _all_listed(words, times, alphabet) if alphabet is not None else _frequent_listed(words, times, limit)
    used = np.flatnonzero(listed.counts)
    ranked = used[np.argsort(-listed.counts[used], kind="stable")[:limit]]
    number = np.full(len(listed.counts), -1, np.int32)
    number[ranked] = np.arange(len(ranked))
    names = tuple("".join(map(chr, letters)) for letters in listed.trigrams[ranked].tolist())
    return names, joined([_known(part, number) for _, part in slices(listed.words)])


def _known(words: Ragged, number: Ints) -> Ragged:
    """The numbers of the trigrams that have one."""
    ids = number[words.values]
    known = ids >= 0
    return Ragged(ids[known], np.concatenate(([0], np.cumsum(known)))[words.offsets])


def weigh(rows: Ragged, weights: NDArray[Any], size: int) -> Counts:
    """How often each value below `size` occurs, a row counted as often as its weight says."""
    total = np.zeros(size)
    for first, part in slices(rows):
        lengths = part.lengths
        total += np.bincount(part.values, np.repeat(weights[first : first + len(lengths)], lengths), size)
    return total


def _slices(words: WordTable) -> Iterator[_Slice]:
    for first in range(0, len(words), _WORDS):
        text = f"\n{words.text(first, first + _WORDS)}"
        letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        ends = letters == ord("\n")
        lengths = np.diff(np.flatnonzero(ends)) - 1
        yield _Slice(first, np.where(ends, np.uint32(_BORDER), letters), ~ends[1:-1], lengths)


def _alphabet(words: WordTable) -> Offsets | None:
    """The letters of all words and the border, where they are few."""
    seen = np.array([_BORDER])
    for part in _slices(words):
        seen = np.union1d(seen, np.flatnonzero(np.bincount(part.letters)))
        if len(seen) ** 3 > _FEW:
            return None
    return seen


def _all_listed(words: WordTable, times: Counts, alphabet: Offsets) -> _Listed:
    """All trigrams that could be made of the letters."""
    size = len(alphabet)
    rank = np.zeros(alphabet[-1] + 1, np.int32)
    rank[alphabet] = np.arange(size)

    def places(part: _Slice) -> tuple[Ints, Offsets]:
        ranks = rank[part.letters]
        return ((ranks[:-2] * size + ranks[1:-1]) * size + ranks[2:])[part.inside], part.lengths

    rows, every = _rows(words, places), np.arange(size**3)
    trigrams = alphabet[np.stack((every // size**2, every // size % size, every % size), axis=1)]
    return _Listed(rows, trigrams, weigh(rows, times, len(every)))


def _frequent_listed(words: WordTable, times: Counts, limit: int) -> _Listed:
    """Some trigrams, among which are the `limit` most frequent."""
    bounds = np.zeros(2**_BUCKETS)
    for part in _slices(words):
        weights = np.repeat(times[part.first : part.first + _WORDS], part.lengths)
        bounds += np.bincount(_buckets(_keys(part)), weights, len(bounds))
    least = max(_at(bounds, 2 * limit), 1.0)
    listed = _of_buckets(words, times, bounds >= least)
    reached = max(_at(listed.counts, limit), 1.0)
    if reached < least:  # a trigram that was left out may be as frequent
        listed = _of_buckets(words, times, bounds >= reached)
    return listed


def _at(counts: Counts, place: int) -> float:
    """The count that is at this place from the top; 0 where there are not so many."""
    return float(np.partition(counts, -place)[-place]) if place <= len(counts) else 0.0


def _of_buckets(words: WordTable, times: Counts, buckets: NDArray[np.bool_]) -> _Listed:
    """The trigrams of some buckets: one of the first that a bucket meets has its number, a table has the others."""
    number = np.where(buckets, np.cumsum(buckets, dtype=np.int32) - 1, np.int32(-1))
    first, table, others = np.zeros(np.count_nonzero(buckets), np.uint64), KeyTable(), [np.zeros(0, np.uint64)]

    def places(part: _Slice) -> tuple[Ints, Offsets]:
        keys = _keys(part)
        numbers = number[_buckets(keys)]
        chosen = numbers >= 0
        before = np.concatenate(([0], np.cumsum(chosen)))
        keys, numbers = keys[chosen], numbers[chosen]
        free = np.flatnonzero(first[numbers] == 0)
        first[numbers[free]] = keys[free]
        other = np.flatnonzero(first[numbers] != keys)
        more, new = table.number(mix(keys[other]))
        numbers[other] = len(first) + more
        others.append(keys[other[new]])
        return numbers, np.diff(before[np.concatenate(([0], np.cumsum(part.lengths)))])

    rows, keys = _rows(words, places), np.concatenate((first, *others))
    order = np.argsort(keys)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order))
    rows = Ragged(place[rows.values], rows.offsets)
    shifts = np.array([2 * _LETTER, _LETTER, 0], np.uint64)
    trigrams = (keys[order][:, np.newaxis] >> shifts & np.uint64(2**_LETTER - 1)).astype(np.int64)
    return _Listed(rows, trigrams, weigh(rows, times, len(keys)))


def _rows(words: WordTable, places: Callable[[_Slice], tuple[Ints, Offsets]]) -> Ragged:
    """What `places` gives for all words: values, and how many of them each word has."""
    values, lengths = [np.zeros(0, np.int32)], [np.zeros(1, np.int64)]
    for part in _slices(words):
        mine, theirs = places(part)
        values.append(mine)
        lengths.append(theirs)
    return Ragged(np.concatenate(values), np.cumsum(np.concatenate(lengths)))


def _keys(part: _Slice) -> Keys:
    """The trigram around each letter of a word, as a number; never 0."""
    letters = part.letters.astype(np.uint64)
    keys = letters[:-2] << np.uint64(2 * _LETTER) | letters[1:-1] << np.uint64(_LETTER) | letters[2:]
    return keys[part.inside] | _NOT_ZERO


def _buckets(keys: Keys) -> Offsets:
    return (mix(keys) >> np.uint64(64 - _BUCKETS)).view(np.int64)
