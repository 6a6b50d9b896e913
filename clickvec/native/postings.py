"""Sort postings and find the best titles: in C (postings.c), or with the same results in NumPy."""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.native import loader
from clickvec.native.loader import ready

_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64
_MOST = 255  # the largest frequency and length in a code

Positions = NDArray[np.int32]
Codes = NDArray[np.uint16]
Scores = NDArray[np.float32]


class Postings:
    """The titles that contain a word, by rising position, and a code for each.

    A code is 256 times how often the word occurs in the title, plus the length of the title in words. Both are at most
    255.
    """

    __slots__ = ("addresses", "codes", "positions")

    def __init__(self, positions: Positions, codes: Codes) -> None:
        self.positions, self.codes = ready(positions, np.int32), ready(codes, np.uint16)
        if len(self.positions) != len(self.codes):  # C reads as many of both
            raise ValueError(f"there are {len(self.positions)} positions and {len(self.codes)} codes")
        self.addresses = _address(self.positions), _address(self.codes)

    def __len__(self) -> int:
        """The number of titles."""
        return len(self.positions)


class Functions(NamedTuple):
    """The compiled functions, which release the GIL."""

    sort: Callable[..., int]
    best: Callable[..., int]


@cache
def functions() -> Functions | None:
    """Return the compiled functions; None if they were not compiled or CLICKVEC_COMPILED turns them off."""
    library = loader.library("postings.c", "any") if loader.wanted() else None
    if library is None:
        return None
    sort, best = library.postings_sort, library.postings_best
    sort.argtypes = (_POINTER, _POINTER, _POINTER, _LONG, _LONG, _POINTER, _POINTER, _POINTER)
    best.argtypes = (*(_POINTER,) * 4, _LONG, _POINTER, _POINTER, _LONG, _LONG, *(_POINTER,) * 3)
    sort.restype = best.restype = _LONG
    return Functions(sort, best)


def sort_postings(
    words: NDArray[np.int32], counts: NDArray[np.int32], lengths: NDArray[np.uint8], vocabulary: int
) -> tuple[NDArray[np.int64], Positions, Codes]:
    """Return the offsets at which the postings of each word begin, and the positions and codes of all postings.

    `words` holds the words of one title after the other, as numbers below `vocabulary`; `counts` holds the number of
    words of each title, and `lengths` the length that its codes have.
    """
    compiled = functions()
    if compiled is None:
        return sort_by_numpy(words, counts, lengths, vocabulary)
    words, counts, lengths = ready(words, np.int32), ready(counts, np.int32), ready(lengths, np.uint8)
    offsets = np.zeros(vocabulary + 1, np.int64)
    given = _address(words), _address(counts), _address(lengths), len(counts), vocabulary, _address(offsets)
    size = compiled.sort(*given, None, None)
    if size < 0:
        raise MemoryError
    positions, codes = np.empty(size, np.int32), np.empty(size, np.uint16)
    if size and compiled.sort(*given, _address(positions), _address(codes)) < 0:
        raise MemoryError
    return offsets, positions, codes


def sort_by_numpy(
    words: NDArray[np.int32], counts: NDArray[np.int32], lengths: NDArray[np.uint8], vocabulary: int
) -> tuple[NDArray[np.int64], Positions, Codes]:
    """Do the same in NumPy."""
    size = max(1, len(counts))
    keys = words.astype(np.int64) * size + np.repeat(np.arange(len(counts)), counts)
    keys, times = np.unique(keys, return_counts=True)
    positions = (keys % size).astype(np.int32)
    codes = np.minimum(times, _MOST).astype(np.uint16) << np.uint16(8) | lengths[positions]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(keys // size, minlength=vocabulary))))
    return offsets.astype(np.int64), positions, codes.astype(np.uint16)


def best_titles(
    postings: Sequence[Postings], weights: Scores, table: Scores, size: int, k: int, allowed: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], Scores]:
    """Return the positions and scores of the k best of `size` titles, best first; equal scores by position.

    A title scores the sum of weight * table[code] over its postings, in their order. Titles without a posting are not
    returned, nor those that are not `allowed`.
    """
    compiled = functions()
    if compiled is None:
        return best_by_numpy(postings, weights, table, size, k, allowed)
    lists = [
        (*one.addresses, len(one), weight) for one, weight in zip(postings, weights.tolist(), strict=True) if len(one)
    ]
    positions, codes, counts, weights_of_lists = zip(*lists, strict=True) if lists else ((), (), (), ())
    k = min(k, sum(counts))
    mask = None if allowed is None else ready(allowed, np.bool_)
    if mask is not None and len(mask) != size:
        raise ValueError(f"allowed has {len(mask)} rows for {size} titles")
    best, scores = np.empty(k, np.int64), np.empty(k, np.float32)
    found = compiled.best(
        (_POINTER * len(lists))(*positions), (_POINTER * len(lists))(*codes), (_LONG * len(lists))(*counts),
        (ctypes.c_float * len(lists))(*weights_of_lists), len(lists), _address(table),
        None if mask is None else _address(mask), size, k, (_LONG * (2 * len(lists)))(), _address(best),
        _address(scores),
    )  # fmt: skip
    if found < 0:
        raise MemoryError
    return best[:found], scores[:found]


def best_by_numpy(
    postings: Sequence[Postings], weights: Scores, table: Scores, size: int, k: int, allowed: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], Scores]:
    """Do the same in NumPy."""
    scores = np.zeros(size, np.float32)
    for one, weight in zip(postings, weights, strict=True):
        scores[one.positions] += weight * table[one.codes]
    if allowed is not None:
        scores[~allowed] = 0
    found = np.flatnonzero(scores >= np.finfo(np.float32).tiny)
    if len(found) > k:
        values = scores[found]
        found = found[values >= np.partition(values, -k)[-k]] if k else found[:0]
    best = found[np.argsort(-scores[found], kind="stable")[:k]]
    return best.astype(np.int64), scores[best]


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]  # as array.ctypes.data, in half the time
    return address
