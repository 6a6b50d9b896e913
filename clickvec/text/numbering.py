"""Distinct texts -> numbers in order of appearance: what `canonical` and a dict would give, with no loop over rows.

A text is a row of words, known by a 64-bit key made of their numbers; as with words, keys are not trusted, and what has
a known key is compared with what had it first. The numbers do not depend on the seed.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clickvec.text.keytable import Keys, mix, repeats
from clickvec.text.ragged import Ints, Ragged
from clickvec.text.spellings import CollisionError, random_keys
from clickvec.text.wordtable import WordTable

_BLOCK = 2**15  # texts that are read at once
_SAMPLE = 8  # one text of so many tells whether texts come again
_SLICE = 2**17  # rows that are looked at at once


class Numbered(NamedTuple):
    """The numbers of texts, in order of appearance, and the words of each distinct text."""

    numbers: Ints
    distinct: Ragged


def number_texts(texts: Sequence[str], words: WordTable) -> Numbered:
    """Texts of the same words get the same number; new words are entered."""
    values, lengths, places, count = bytearray(), bytearray(), bytearray(), 0  # which grow without being copied
    for first in range(0, len(texts), _BLOCK):
        different, place = _letter_by_letter(texts[first : first + _BLOCK])
        rows = words.read(different)
        values += rows.values.data
        lengths += rows.lengths.astype(np.int32).data
        places += (place + np.int32(count)).data
        count += len(different)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.frombuffer(lengths, np.int32), out=offsets[1:])
    numbers, distinct = number_rows(Ragged(np.frombuffer(values, np.int32), offsets), words.seed)
    return Numbered(numbers if count == len(texts) else numbers[np.frombuffer(places, np.int32)], distinct)


def _letter_by_letter(texts: Sequence[str]) -> tuple[Sequence[str], Ints]:
    """Texts in which none comes again, where that spares much, and the place of each one there."""
    some = texts[::_SAMPLE]
    if len(set(some)) > 0.9 * len(some) or len(different := dict.fromkeys(texts)) > len(texts) // 2:
        return texts, np.arange(len(texts), dtype=np.int32)
    place = {text: place for place, text in enumerate(different)}
    return list(different), np.fromiter(map(place.__getitem__, texts), np.int32, len(texts))


def number_rows(rows: Ragged, seed: int) -> Numbered:
    """The same for texts that are given as rows of words."""
    keys = np.empty(len(rows.offsets) - 1, np.uint64)
    for at, part in slices(rows):
        keys[at : at + _SLICE] = _row_keys(part, seed)
    again, first = repeats(keys)
    for at in range(0, len(again), _SLICE):
        here, there = rows.take(again[at : at + _SLICE]), rows.take(first[at : at + _SLICE])
        if not (np.array_equal(here.offsets, there.offsets) and np.array_equal(here.values, there.values)):
            raise CollisionError
    new = np.ones(len(keys), np.bool_)
    new[again] = False
    numbers = np.cumsum(new, dtype=np.int32)
    numbers -= 1
    numbers[again] = numbers[first]
    if not len(again):
        return Numbered(numbers, rows)
    values = rows.values[np.repeat(new, rows.lengths)]
    return Numbered(numbers, Ragged(values, np.concatenate(([0], np.cumsum(rows.lengths[new])))))


def _row_keys(rows: Ragged, seed: int) -> Keys:
    """A key for each row of numbers: the sum of one random number times another, that of the word and of its place."""
    lengths = rows.lengths
    places = np.arange(len(rows.values)) - np.repeat(rows.offsets[:-1], lengths)
    factors = random_keys(np.arange(lengths.max(initial=0)), seed) | np.uint64(1)
    terms = mix(rows.values.astype(np.uint64) + np.uint64(seed + 1)) * factors[places]
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(terms)))
    return mix(sums[rows.offsets[1:]] - sums[rows.offsets[:-1]])


# --- rows in parts -----------------------------------------------------------------------------------------------


def slices(rows: Ragged) -> Iterator[tuple[int, Ragged]]:
    """Rows by the hundred thousand, with the number of the first of them, to spare memory."""
    for first in range(0, len(rows.offsets) - 1, _SLICE):
        offsets = rows.offsets[first : first + _SLICE + 1]
        yield first, Ragged(rows.values[offsets[0] : offsets[-1]], offsets - offsets[0])


def joined(parts: Sequence[Ragged]) -> Ragged:
    """The rows of all parts."""
    lengths = [np.zeros(1, np.int64), *(part.lengths for part in parts)]
    values = [np.zeros(0, np.int32), *(part.values for part in parts)]
    return Ragged(np.concatenate(values), np.cumsum(np.concatenate(lengths)))
