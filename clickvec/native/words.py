"""`TokenTable` of text/token_table.py in C (words.c): the same ids for the same texts, five times as fast.

A batch is read without the GIL, so that other threads continue. Only one thread at a time may use a table; the encoder
takes care of that.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias, TypeVar
from unicodedata import is_normalized, normalize

import numpy as np

from clickvec.native import loader
from clickvec.text.ragged import Ragged
from clickvec.text.token_table import TokenTable
from clickvec.text.tokens import canonical

_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64
_READ = (_LONG, _POINTER, _POINTER, _LONG, _LONG, _POINTER, _POINTER)
_IDS_OF_ONE = 1024  # token ids of a single text that there is always room for
_OTHER_SPACES = "\x85\u1680\u2028\u2029"  # white space that is not ASCII and that NFKC does not turn into a space

AnyTokenTable: TypeAlias = "TokenTable | CompiledTokenTable"
Letters = TypeVar("Letters", bytes, ctypes.c_void_p)


class Functions(NamedTuple):
    """The compiled functions. Only `read` releases the GIL; the others are too quick for that to pay."""

    read: Callable[..., int]
    read_one: Callable[..., int]  # the same function, called with the GIL
    new: Callable[..., int | None]
    free: Callable[..., None]
    count: Callable[..., int]
    letters: Callable[..., int]


def token_table(max_words: int) -> AnyTokenTable:
    """Return an empty token table: the one in C if it was compiled, otherwise the one in Python."""
    compiled = functions()
    return TokenTable(max_words) if compiled is None else CompiledTokenTable(max_words, compiled)


@cache
def functions() -> Functions | None:
    """Return the compiled functions; None if they were not compiled or CLICKVEC_COMPILED turns them off."""
    library = loader.library("words.c", "any") if loader.wanted() else None
    if library is None:
        return None
    with_gil = ctypes.PYFUNCTYPE
    return Functions(
        ctypes.CFUNCTYPE(*_READ)(("words_read", library)),
        with_gil(*_READ)(("words_read", library)),
        with_gil(_POINTER, ctypes.c_uint64)(("words_new", library)),
        with_gil(None, _POINTER)(("words_free", library)),
        with_gil(_LONG, _POINTER)(("words_count", library)),
        with_gil(_LONG, _POINTER, _LONG, _LONG, _POINTER)(("words_letters", library)),
    )


class CompiledTokenTable:
    """The distinct tokens read so far, with ids in order of first appearance; see `TokenTable`."""

    def __init__(self, max_words: int, compiled: Functions) -> None:
        self.max_words, self._c, self._count = max_words, compiled, 0
        self._ids_of_one = (ctypes.c_int32 * min(max_words or 1, _IDS_OF_ONE))()
        self._offsets_of_one = (ctypes.c_int64 * 2)()
        self._handle = compiled.new(int.from_bytes(os.urandom(8)))
        if self._handle is None:
            raise MemoryError

    def __del__(self) -> None:
        self._c.free(self._handle)

    def __len__(self) -> int:
        """The number of distinct tokens read so far."""
        return self._count

    def __getitem__(self, ids: slice) -> list[str]:
        """Return the tokens with these ids, which must be consecutive."""
        first, stop, _ = ids.indices(len(self))
        if first >= stop:
            return []
        start, length = self._letters(first, stop)
        return ctypes.string_at(start, length).decode("utf-8", "surrogatepass").split("\n")

    def encoded(self, first: int, stop: int) -> bytes:
        """Return the tokens with these ids in UTF-8, each followed by a line feed, without making Python strings."""
        start, length = self._letters(first, stop)
        return ctypes.string_at(start, length + 1)

    def read(self, texts: list[str]) -> Ragged:
        """Return the token ids of each text. New tokens get the next ids."""
        if not texts:
            return Ragged(np.zeros(0, np.int32), np.zeros(1, np.int64))
        letters = _lines(texts).encode("utf-8", "surrogatepass")
        return self._read_lines(letters, len(letters), len(texts))

    def read_table(self, texts: AnyTokenTable, first: int) -> Ragged:
        """Return what `read(texts[first:])` returns, without making Python strings."""
        if isinstance(texts, TokenTable) or first >= len(texts):
            return self.read(texts[first:])
        return self._read_lines(*texts._letters(first, len(texts)), len(texts) - first)

    def read_one(self, text: str) -> list[int]:
        """Return the token ids of one text as a plain list; making a NumPy array would take as long as the rest."""
        line = text if text.isascii() and "\n" not in text else canonical(text)
        if self.max_words > _IDS_OF_ONE and len(line) >= 2 * _IDS_OF_ONE:  # a token has a letter, and a space after it
            ids: list[int] = self.read([line]).values.tolist()
            return ids
        letters = line.encode("utf-8", "surrogatepass")
        count = self._read(self._c.read_one, letters, len(letters), self._ids_of_one, self._offsets_of_one)
        return self._ids_of_one[:count]

    def _letters(self, first: int, stop: int) -> tuple[ctypes.c_void_p, int]:
        """Return where the tokens with these ids are in memory, with a line feed between them, and their length."""
        start = ctypes.c_void_p()
        length = self._c.letters(self._handle, first, stop, ctypes.byref(start))
        return start, length - 1

    def _read_lines(self, letters: Letters, length: int, count: int) -> Ragged:
        ids = np.empty(min(count * self.max_words, (length + 1) // 2) if self.max_words else count, np.int32)
        offsets = np.empty(count + 1, np.int64)
        return Ragged(ids[: self._read(self._c.read, letters, length, ids.ctypes.data, offsets.ctypes.data)], offsets)

    def _read(self, read: Callable[..., int], letters: Letters, length: int, ids: object, offsets: object) -> int:
        count = read(self._handle, letters, length, self.max_words, ids, offsets)
        self._count = self._c.count(self._handle)
        if count < 0:
            raise MemoryError
        return count


def _lines(texts: list[str]) -> str:
    """Return texts as lines for C: normalised unless they are ASCII, with ASCII white space only."""
    lines = "\n".join(texts)
    if lines.count("\n") >= len(texts):
        lines = "\n".join([text.replace("\n", " ") for text in texts])
    if lines.isascii():
        return lines
    # As `normalise` does, for all lines at once: neither NFKC nor lower() looks beyond a line feed.
    lines = _nfkc(_nfkc(lines).lower())
    for space in _OTHER_SPACES:
        lines = lines.replace(space, " ")
    return lines


def _nfkc(lines: str) -> str:
    """Return lines in NFKC. Line by line, because normalize() is slow for a string that is not in NFKC already."""
    if is_normalized("NFKC", lines):
        return lines
    return "\n".join([normalize("NFKC", line) for line in lines.split("\n")])
