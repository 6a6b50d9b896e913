"""Distinct words and distinct texts -> numbers in order of appearance, thousands of texts at a time.

What `canonical` and a dict would give, without a Python object for each word: a word is a range of bytes, known by a
64-bit key made of its bytes; a text is a row of words, known by a key made of their numbers. Keys are not trusted:
what has a known key is compared with what had it first. Should two things ever share a key, `CollisionError` asks
for another seed; the numbers do not depend on the seed.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar
from unicodedata import is_normalized, normalize

import numpy as np
from numpy.typing import NDArray

from clickvec.keytable import Keys, KeyTable, mix
from clickvec.text import Ints, Offsets, Ragged

Number = TypeVar("Number", bound=np.generic)

_BLOCK = 2**15  # texts that are read at once
_SAMPLE = 8  # one text of so many tells whether texts come again
_SLICE = 2**17  # rows that are looked at at once
_LONGEST = 256  # bytes of a word up to which all are read in step; beyond that one by one
_LIMB = 8  # bytes that are looked at at once
_TOLD = 15  # bytes up to which words are told by two limbs
# Lower case, and blanks for the white space of ASCII but for the line feed, which ends a text.
_PLAIN = bytes(32 if byte in b"\t\v\f\r\x1c\x1d\x1e\x1f" else byte for byte in bytes(range(256)).lower())
_BLANK, _END = 32, 10
_SPACES = "\x85\u1680\u2028\u2029"  # white space that NFKC leaves as it is
_KEEP = np.array([(1 << 8 * count) - 1 for count in range(_LIMB + 1)], np.uint64)  # the first bytes of a limb
_LENGTHS = np.array([*(count << 56 for count in range(_LIMB)), 0], np.uint64)  # in the byte that a short word leaves
_IS_LONG = np.uint64(1 << 63)


class CollisionError(Exception):
    """Two different words or texts have the same key; take another seed."""


class WordTable:
    """The distinct words met so far.

    What stands in a text is a spelling: `É` and `e\u0301` are one word. Only a spelling met for the first time is
    normalised, and apart from the words beside it: neither NFKC nor lower case looks past white space.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._spellings = _Spellings(seed)
        self._spelling = _Growing(np.zeros(0, np.int32))  # of each word, as it stands in `text`
        self._words = _Growing(np.zeros(0, np.int32))  # of all spellings; mostly one each
        self._starts = _Growing(np.zeros(1, np.int64))
        self._one_each = True

    def __len__(self) -> int:
        """The number of words."""
        return len(self._spelling.values)

    def read(self, texts: Sequence[str]) -> Ragged:
        """The words of each text, by their numbers; new words get the next numbers."""
        found = _find_words(_as_bytes(texts))
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
        found = _find_words(_framed(normal))
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


class _Spellings:
    """Different rows of letters, in order of appearance."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._table = KeyTable()
        self._letters = _Growing(np.zeros(0, np.uint8))  # each with a line feed behind it
        self._starts = _Growing(np.zeros(1, np.int64))
        self._first = _Growing(np.zeros(0, np.uint64))  # limbs, as `_Limbs` has them
        self._second = _Growing(np.zeros(0, np.uint64))

    def __len__(self) -> int:
        return len(self._table)

    def number(self, found: "_Found") -> Ints:
        """The numbers of what was found; new ones get the next numbers."""
        limbs = _limbs(found)
        before = len(self)
        numbers, new = self._table.number(_word_keys(found, limbs, self._seed))
        if len(self) > before:
            self._keep(found, limbs, new)
        self._check(found, limbs, numbers)
        return numbers

    def text(self, numbers: Ints) -> str:
        """Some of them, each with a line feed behind it."""
        starts, stops = self._starts.values[numbers], self._starts.values[numbers + 1]
        if np.array_equal(starts[1:], stops[:-1]):  # they stand side by side
            letters = self._letters.values[starts[:1].sum() : stops[-1:].sum()]
        else:
            letters = _ranges(self._letters.values, starts, stops - starts)
        return letters.tobytes().decode("utf-8", "surrogatepass")

    def _keep(self, found: "_Found", limbs: "_Limbs", new: Offsets) -> None:
        lengths = found.lengths[new] + 1
        ends = np.cumsum(lengths)
        letters = _ranges(found.letters, found.starts[new], lengths)
        letters[ends - 1] = _END
        self._starts.extend(self._starts.values[-1] + ends)
        self._letters.extend(letters)
        self._first.extend(limbs.first[new])
        second = np.zeros(len(found.starts), np.uint64)
        second[limbs.long] = limbs.second
        self._second.extend(second[new])

    def _check(self, found: "_Found", limbs: "_Limbs", numbers: Ints) -> None:
        """Compare each word with the first of its number; those of less than eight bytes are told by their keys."""
        theirs = numbers[limbs.long]
        if (self._first.values[theirs] != limbs.first[limbs.long]).any():
            raise CollisionError
        if (self._second.values[theirs] != limbs.second).any():
            raise CollisionError
        long, first, lengths = limbs.longer, self._starts.values[numbers[limbs.longer]], found.lengths[limbs.longer]
        if (self._starts.values[numbers[long] + 1] - first != lengths + 1).any():
            raise CollisionError
        known, at = self._letters.padded(_LIMB), _TOLD
        while len(long) and at < _LONGEST:
            if (
                _limb(found.letters, found.starts[long] + at, lengths - at) != _limb(known, first + at, lengths - at)
            ).any():
                raise CollisionError
            at += _LIMB
            longer = lengths > at
            long, first, lengths = long[longer], first[longer], lengths[longer]
        for start, there, length in zip(found.starts[long], first, lengths, strict=True):
            if _rest(found.letters, start, length) != _rest(known, there, length):
                raise CollisionError


def _ranges(letters: NDArray[np.uint8], starts: Offsets, lengths: Offsets) -> NDArray[np.uint8]:
    """So many letters from each start on, one after the other."""
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
    found: NDArray[np.uint8] = letters[places]
    return found


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
    again, first = _repeats(keys)
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


def _repeats(keys: Keys) -> tuple[Offsets, Offsets]:
    """The places whose key stands further in front too, and for each the first place that has it."""
    first = np.arange(len(keys))
    left, mixed = first, keys  # different keys stay different
    while len(left):
        mixed = mix(mixed)
        bits = (2 * len(left)).bit_length()
        slots = (mixed >> np.uint64(64 - bits)).astype(np.int64)
        holder = np.empty(2**bits, np.int32)
        holder[slots[::-1]] = np.arange(len(left) - 1, -1, -1)  # of all that want a slot, the first gets it
        holders = holder[slots]
        same = mixed[holders] == mixed
        first[left[same]] = left[holders[same]]
        left, mixed = left[~same], mixed[~same]
    again = np.flatnonzero(first != np.arange(len(keys)))
    return again, first[again]


# --- bytes -> words ----------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """Words in a block of bytes, and which of them each text has."""

    letters: NDArray[np.uint8]  # with some bytes more at the end
    starts: Offsets
    lengths: Offsets
    offsets: Offsets


def _as_bytes(texts: Sequence[str]) -> bytes:
    """Texts with a line feed before each and behind the last."""
    joined = "\n".join(texts)
    if joined.count("\n") >= len(texts):
        joined = "\n".join([text.replace("\n", " ") for text in texts])
    return _framed(joined)


def _framed(lines: str) -> bytes:
    """Lines in UTF-8, a line feed before each and behind the last; ASCII in lower case, its white space as blanks."""
    return b"".join((b"\n", lines.encode("utf-8", "surrogatepass").translate(_PLAIN), b"\n", bytes(_LIMB)))


def _find_words(block: bytes) -> _Found:
    letters = np.frombuffer(block, np.uint8)
    ends = letters[:-_LIMB] == _END
    between = ends | (letters[:-_LIMB] == _BLANK)
    edges = np.flatnonzero(between[1:] != between[:-1]) + 1
    starts, stops = edges[::2], edges[1::2]
    return _Found(letters, starts, stops - starts, np.searchsorted(starts, np.flatnonzero(ends)))


class _Limbs(NamedTuple):
    """The first bytes of words as numbers; a word of at most fifteen bytes shares its own with no other."""

    first: Keys  # eight bytes of each word; the last one holds the length of a word that is shorter
    long: Offsets  # the words that have eight bytes or more
    second: Keys  # the next seven bytes of those, and how many they have beyond the first eight, or 8
    longer: Offsets  # the words of more than fifteen bytes


def _limbs(found: _Found) -> _Limbs:
    first = _limb(found.letters, found.starts, found.lengths) | _LENGTHS[np.minimum(found.lengths, _LIMB)]
    long = np.flatnonzero(found.lengths >= _LIMB)
    left = found.lengths[long] - _LIMB
    second = _limb(found.letters, found.starts[long] + _LIMB, np.minimum(left, _LIMB - 1))
    second |= np.minimum(left, _LIMB).astype(np.uint64) << np.uint64(56)
    return _Limbs(first, long, second, long[left >= _LIMB])


def _limb(letters: NDArray[np.uint8], starts: Offsets, lengths: Offsets) -> Keys:
    """Eight bytes from each start on as a number; only the first `lengths` of them, where that is less."""
    at_each = np.ndarray(len(letters) - _LIMB + 1, "<u8", letters, strides=(1,))  # overlapping
    limbs: Keys = at_each[starts] & _KEEP[np.minimum(lengths, _LIMB)]
    return limbs


def _word_keys(found: _Found, limbs: _Limbs, seed: int) -> Keys:
    """A key for each word, never 0; one of less than eight bytes shares it with no other word, whatever its length."""
    keys = limbs.first.copy()
    keys[limbs.long] = mix(mix(keys[limbs.long] ^ _random(np.ones(1, np.int64), seed)) ^ limbs.second) | _IS_LONG
    if len(limbs.longer):
        keys[limbs.longer] = _longer_word_keys(found, limbs.longer, keys[limbs.longer], seed) | _IS_LONG
    return mix(keys)


def _longer_word_keys(found: _Found, places: Offsets, keys: Keys, seed: int) -> Keys:
    starts, lengths = found.starts[places], found.lengths[places]
    keys ^= _random(lengths, seed)
    long, at = np.arange(len(places)), _TOLD
    while len(long) and at < _LONGEST:
        keys[long] = mix(keys[long] ^ _limb(found.letters, starts[long] + at, lengths[long] - at))
        at += _LIMB
        long = long[lengths[long] > at]
    for place in long.tolist():
        rest = _rest(found.letters, starts[place], lengths[place])
        keys[place] ^= np.uint64(int.from_bytes(blake2b(rest, digest_size=8, salt=bytes([seed])).digest()))
    return keys


def _rest(letters: NDArray[np.uint8], start: np.int64, length: np.int64) -> bytes:
    """What a word has beyond the length up to which all words are read in step."""
    return letters[start + _LONGEST : start + length].tobytes()


def _row_keys(rows: Ragged, seed: int) -> Keys:
    """A key for each row of numbers: the sum of one random number times another, that of the word and of its place."""
    lengths = rows.lengths
    places = np.arange(len(rows.values)) - np.repeat(rows.offsets[:-1], lengths)
    factors = _random(np.arange(lengths.max(initial=0)), seed) | np.uint64(1)
    terms = mix(rows.values.astype(np.uint64) + np.uint64(seed + 1)) * factors[places]
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(terms)))
    return mix(sums[rows.offsets[1:]] - sums[rows.offsets[:-1]])


def _random(numbers: NDArray[np.int64], seed: int) -> Keys:
    return mix(mix(numbers.astype(np.uint64) + np.uint64(seed << 32)))


class _Growing(Generic[Number]):
    """An array that grows at its end."""

    def __init__(self, values: NDArray[Number]) -> None:
        self._room, self._size = values, len(values)

    @property
    def values(self) -> NDArray[Number]:
        return self._room[: self._size]

    def padded(self, more: int) -> NDArray[Number]:
        """The values, and some elements more that mean nothing."""
        self._make_room(more)
        return self._room[: self._size + more]

    def extend(self, values: NDArray[Number]) -> None:
        self._make_room(len(values))
        self._room[self._size : self._size + len(values)] = values
        self._size += len(values)

    def _make_room(self, more: int) -> None:
        if self._size + more > len(self._room):
            room: NDArray[Any] = np.zeros(self._size + more + self._size // 2, self._room.dtype)
            room[: self._size] = self.values
            self._room = room


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
