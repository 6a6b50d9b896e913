"""Keys of 64 bits -> numbers in order of appearance: a hash table in NumPy, for thousands of keys at a time."""

import numpy as np
from numpy.typing import NDArray

from clickvec.text.ragged import Ints, Offsets

Keys = NDArray[np.uint64]

_ROOM = 2  # places in a table for each key, at least
_ODD = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(29)


def mix(keys: Keys) -> Keys:
    """Other keys, of which all bits depend on all bits; different ones stay different, and 0 stays 0."""
    keys = keys * _ODD
    keys ^= keys >> _FOLD
    keys *= _ODD
    return keys


def repeats(keys: Keys) -> tuple[Offsets, Offsets]:
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


class KeyTable:
    """Keys -> numbers in order of appearance: open addressing, for all the keys of a call in step."""

    def __init__(self) -> None:
        self._count = 0
        self._make(bits=12)

    def __len__(self) -> int:
        """The number of keys."""
        return self._count

    def _make(self, bits: int) -> None:
        self._bits = bits
        self._keys: Keys = np.zeros(2**bits, np.uint64)  # 0 is a free place
        self._numbers: Ints = np.zeros(2**bits, np.int32)

    def number(self, keys: Keys) -> tuple[Ints, Offsets]:
        """The numbers of keys, none of which is 0, and the first place of each new one, which gets the next number."""
        numbers = self._look_up(keys)
        unknown = np.flatnonzero(numbers < 0)
        if not len(unknown):
            return numbers, unknown
        again, first = repeats(keys[unknown])
        is_first = np.ones(len(unknown), np.bool_)
        is_first[again] = False
        fresh = np.cumsum(is_first, dtype=np.int32) + np.int32(self._count - 1)
        fresh[again] = fresh[first]
        numbers[unknown], new = fresh, unknown[is_first]
        self._insert(keys[new], numbers[new])
        return numbers, new

    def _look_up(self, keys: Keys) -> Ints:
        """The numbers of keys, -1 where there is none."""
        places = self._places(keys)
        numbers, held = self._numbers[places], self._keys[places]
        seeking = np.flatnonzero(held != keys)
        places, keys, held = places[seeking], keys[seeking], held[seeking]
        while len(seeking):
            numbers[seeking] = -1
            taken = np.flatnonzero(held)  # by another key, so that ours may stand further on
            seeking, keys, places = seeking[taken], keys[taken], places[taken] + 1 & (2**self._bits - 1)
            numbers[seeking], held = self._numbers[places], self._keys[places]
            astray = np.flatnonzero(held != keys)
            seeking, keys, places, held = seeking[astray], keys[astray], places[astray], held[astray]
        return numbers

    def _insert(self, keys: Keys, numbers: Ints) -> None:
        """Enter different keys, none of which is there."""
        self._count += len(keys)
        if self._count > 2**self._bits // _ROOM:
            held, theirs = self._keys, self._numbers
            self._make(bits=(_ROOM * self._count).bit_length())
            self._enter(held[held != 0], theirs[held != 0])
        self._enter(keys, numbers)

    def _enter(self, keys: Keys, numbers: Ints) -> None:
        places = self._places(keys)
        while len(keys):
            free = self._keys[places] == 0
            self._keys[places[free]] = keys[free]  # of two that want one place, the last gets it
            mine = self._keys[places] == keys
            self._numbers[places[mine]] = numbers[mine]
            keys, numbers, places = keys[~mine], numbers[~mine], places[~mine] + 1 & (2**self._bits - 1)

    def _places(self, keys: Keys) -> Offsets:
        return (keys >> np.uint64(64 - self._bits)).astype(np.int64)
