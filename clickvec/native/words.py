"""`TokenTable` of text.py in C (words.c), where it was compiled: the same ids for the same tokens, five times as fast.

A batch is read without the lock of the interpreter, so that other threads go on. One thread at a time may use a table;
the encoder sees to that.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from clickvec.native import loader
from clickvec.text.ragged import Ragged
from clickvec.text.token_table import TokenTable
from clickvec.text.tokens import canonical

_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64
_READ = (_LONG, _POINTER, _POINTER, _LONG, _LONG, _POINTER, _POINTER)
_FEW = 1024  # tokens of one text that there is always room for


class Functions(NamedTuple):
    """The compiled functions. While the first runs other threads go on; the others are too quick for that to pay."""

    read: Callable[..., int]
    read_one: Callable[..., int]  # the same once more
    new: Callable[..., int | None]
    free: Callable[..., None]
    count: Callable[..., int]
    letters: Callable[..., int]


def token_table(max_words: int) -> "TokenTable | CompiledTokenTable":
    """A table without a token, in C if it can be."""
    found = functions()
    return TokenTable(max_words) if found is None else CompiledTokenTable(max_words, found)


@cache
def functions() -> Functions | None:
    """The compiled functions, if they are wanted and there."""
    found = loader.library("words.c", "any") if loader.wanted() else None
    if found is None:
        return None
    keeping_the_lock = ctypes.PYFUNCTYPE
    return Functions(
        ctypes.CFUNCTYPE(*_READ)(("words_read", found)),
        keeping_the_lock(*_READ)(("words_read", found)),
        keeping_the_lock(_POINTER, ctypes.c_uint64)(("words_new", found)),
        keeping_the_lock(None, _POINTER)(("words_free", found)),
        keeping_the_lock(_LONG, _POINTER)(("words_count", found)),
        keeping_the_lock(_LONG, _POINTER, _LONG, _POINTER)(("words_letters", found)),
    )


class CompiledTokenTable:
    """Distinct tokens met so far -> small integers."""

    def __init__(self, max_words: int, found: Functions) -> None:
        self.max_words, self._c, self._count = max_words, found, 0
        self._ids_of_one, self._offsets_of_one = (ctypes.c_int32 * min(max_words, _FEW))(), (ctypes.c_int64 * 2)()
        self._handle = found.new(int.from_bytes(os.urandom(8)))
        if self._handle is None:
            raise MemoryError

    def __del__(self) -> None:
        self._c.free(self._handle)

    def __len__(self) -> int:
        """The number of distinct tokens met so far."""
        return self._count

    def read(self, texts: list[str]) -> Ragged:
        """The token ids of each text; new tokens get the next ids."""
        if not texts:
            return Ragged(np.zeros(0, np.int32), np.zeros(1, np.int64))
        joined = "\n".join(texts)
        if not joined.isascii() or joined.count("\n") >= len(texts):
            joined = "\n".join(map(_line, texts))
        ids = np.empty(min(len(texts) * self.max_words, (len(joined) + 1) // 2), np.int32)
        offsets = np.empty(len(texts) + 1, np.int64)
        return Ragged(ids[: self._read(self._c.read, joined, ids.ctypes.data, offsets.ctypes.data)], offsets)

    def read_one(self, text: str) -> list[int]:
        """The token ids of one text, as a plain list; an array of NumPy would take as long as the rest."""
        line = _line(text)
        if self.max_words > _FEW and len(line) >= 2 * _FEW:  # a token has a letter, and a space behind it
            found: list[int] = self.read([line]).values.tolist()
            return found
        return self._ids_of_one[: self._read(self._c.read_one, line, self._ids_of_one, self._offsets_of_one)]

    def _read(self, read: Callable[..., int], lines: str, ids: object, offsets: object) -> int:
        letters = lines.encode("utf-8", "surrogatepass")
        found = read(self._handle, letters, len(letters), self.max_words, ids, offsets)
        self._count = self._c.count(self._handle)
        if found < 0:
            raise MemoryError
        return found

    def tokens(self, first: int = 0) -> list[str]:
        """The tokens from id `first` on, in order of id."""
        if first >= len(self):
            return []
        place = _POINTER()
        length = self._c.letters(self._handle, first, ctypes.byref(place))
        return ctypes.string_at(place, length - 1).decode("utf-8", "surrogatepass").split("\n")


def _line(text: str) -> str:
    """A text as C wants it: capitals and white space only of ASCII, and no line feed."""
    return text if text.isascii() and "\n" not in text else canonical(text)
