"""Words as ranges of bytes -> numbers in order of appearance, thousands of texts at a time.

A word is known by a 64-bit key made of its bytes. Keys are not trusted: what has a known key is compared with what had
it first. Should two ever share a key, `CollisionError` asks for another seed.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.text.keytable import Keys, KeyTable, mix
from clickvec.text.ragged import Ints, Offsets

Number = TypeVar("Number", bound=np.generic)

_LONGEST = 256  # bytes of a word up to which all are read in step; beyond that one by one
_LIMB = 8  # bytes that are looked at at once
_TOLD = 15  # bytes up to which words are told by two limbs
# Lower case, and blanks for the white space of ASCII but for the line feed, which ends a text.
_PLAIN = bytes(32 if byte in b"\t\v\f\r\x1c\x1d\x1e\x1f" else byte for byte in bytes(range(256)).lower())
_BLANK, _END = 32, 10
_KEEP = np.array([(1 << 8 * count) - 1 for count in range(_LIMB + 1)], np.uint64)  # the first bytes of a limb
_LENGTHS = np.array([*(count << 56 for count in range(_LIMB)), 0], np.uint64)  # in the byte that a short word leaves
_IS_LONG = np.uint64(1 << 63)


class CollisionError(Exception):
    """Two different words or texts have the same key; take another seed."""


# --- bytes -> words ----------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """Words in a block of bytes, and which of them each text has."""

    letters: NDArray[np.uint8]  # with some bytes more at the end
    starts: Offsets
    lengths: Offsets
    offsets: Offsets


def as_bytes(texts: Sequence[str]) -> bytes:
    """Texts with a line feed before each and behind the last."""
    joined = "\n".join(texts)
    if joined.count("\n") >= len(texts):
        joined = "\n".join([text.replace("\n", " ") for text in texts])
    return framed(joined)


def framed(lines: str) -> bytes:
    """Lines in UTF-8, a line feed before each and behind the last; ASCII in lower case, its white space as blanks."""
    return b"".join((b"\n", lines.encode("utf-8", "surrogatepass").translate(_PLAIN), b"\n", bytes(_LIMB)))


def find_words(block: bytes) -> Found:
    """The words of lines that `framed` gives."""
    letters = np.frombuffer(block, np.uint8)
    ends = letters[:-_LIMB] == _END
    between = ends | (letters[:-_LIMB] == _BLANK)
    edges = np.flatnonzero(between[1:] != between[:-1]) + 1
    starts, stops = edges[::2], edges[1::2]
    last = np.flatnonzero(letters[stops] == _END)
    if len(last) == np.count_nonzero(ends) - 1:  # each text ends with a word
        return Found(letters, starts, stops - starts, np.concatenate(([0], last + 1)))
    return Found(letters, starts, stops - starts, np.searchsorted(starts, np.flatnonzero(ends)))


class _Limbs(NamedTuple):
    """The first bytes of words as numbers; a word of at most fifteen bytes shares its own with no other."""

    first: Keys  # eight bytes of each word; the last one holds the length of a word that is shorter
    long: Offsets  # the words that have eight bytes or more
    second: Keys  # the next seven bytes of those, and how many they have beyond the first eight, or 8
    longer: Offsets  # the words of more than fifteen bytes


def _limbs(found: Found) -> _Limbs:
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


def _word_keys(found: Found, limbs: _Limbs, seed: int) -> Keys:
    """A key for each word, never 0; one of less than eight bytes shares it with no other word, whatever its length."""
    keys = limbs.first.copy()
    keys[limbs.long] = mix(mix(keys[limbs.long] ^ random_keys(np.ones(1, np.int64), seed)) ^ limbs.second) | _IS_LONG
    if len(limbs.longer):
        keys[limbs.longer] = _longer_word_keys(found, limbs.longer, keys[limbs.longer], seed) | _IS_LONG
    return mix(keys)


def _longer_word_keys(found: Found, places: Offsets, keys: Keys, seed: int) -> Keys:
    starts, lengths = found.starts[places], found.lengths[places]
    keys ^= random_keys(lengths, seed)
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


def random_keys(numbers: NDArray[np.int64], seed: int) -> Keys:
    """A key for each number, as if drawn at random."""
    return mix(mix(numbers.astype(np.uint64) + np.uint64(seed << 32)))


# --- words -> numbers --------------------------------------------------------------------------------------------


class Spellings:
    """Words that differ in some byte, numbered in order of appearance."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._table = KeyTable()
        self._letters = Growing(np.zeros(0, np.uint8))  # each with a line feed behind it
        self._starts = Growing(np.zeros(1, np.int64))
        self._first = Growing(np.zeros(0, np.uint64))  # limbs, as `_Limbs` has them
        self._second = Growing(np.zeros(0, np.uint64))

    def __len__(self) -> int:
        return len(self._table)

    def number(self, found: "Found") -> Ints:
        """The numbers of what was found; new ones get the next numbers."""
        limbs = _limbs(found)
        before = len(self)
        numbers, new = self._table.number(_word_keys(found, limbs, self._seed))
        if len(self) > before:
            self._keep(found, limbs, new)
        self._check(found, limbs, numbers, new)
        return numbers

    def text(self, numbers: Ints) -> str:
        """Some of them, each with a line feed behind it."""
        starts, stops = self._starts.values[numbers], self._starts.values[numbers + 1]
        if np.array_equal(starts[1:], stops[:-1]):  # they stand side by side
            letters = self._letters.values[starts[:1].sum() : stops[-1:].sum()]
        else:
            letters = _ranges(self._letters.values, starts, stops - starts)
        return letters.tobytes().decode("utf-8", "surrogatepass")

    def _keep(self, found: "Found", limbs: "_Limbs", new: Offsets) -> None:
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

    def _check(self, found: "Found", limbs: "_Limbs", numbers: Ints, new: Offsets) -> None:
        """Compare each word with the first of its number; those of less than eight bytes are told by their keys."""
        theirs = numbers[limbs.long]
        if (self._first.values[theirs] != limbs.first[limbs.long]).any():
            raise CollisionError
        if (self._second.values[theirs] != limbs.second).any():
            raise CollisionError
        seen = np.ones(len(numbers), np.bool_)
        seen[new] = False  # these are the first themselves
        long = limbs.longer[seen[limbs.longer]]
        first, lengths = self._starts.values[numbers[long]], found.lengths[long]
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


class Growing(Generic[Number]):
    """An array that grows at its end."""

    def __init__(self, values: NDArray[Number]) -> None:
        self._room, self._size = values, len(values)

    @property
    def values(self) -> NDArray[Number]:
        """All elements so far."""
        return self._room[: self._size]

    def padded(self, more: int) -> NDArray[Number]:
        """The values, and some elements more that mean nothing."""
        self._make_room(more)
        return self._room[: self._size + more]

    def extend(self, values: NDArray[Number]) -> None:
        """Put values at the end."""
        self._make_room(len(values))
        self._room[self._size : self._size + len(values)] = values
        self._size += len(values)

    def _make_room(self, more: int) -> None:
        if self._size + more > len(self._room):
            room: NDArray[Any] = np.zeros(self._size + more + self._size // 2, self._room.dtype)
            room[: self._size] = self.values
            self._room = room
