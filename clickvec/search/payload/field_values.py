"""The values of one payload field: a code for each value, and the distinct values in the order of their codes.

Code 0 is false and 1 is true. Then come the numbers in rising order, then the strings in the order of their characters.
So each comparison with a value is a range of codes, found by bisection, and one pass over the codes of all documents.
All arrays can be memory-mapped.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.storage.arrays import check_texts

MAX_LENGTH = 256  # characters of a string in a filter
Scalar = str | bool | int | float
Mask = NDArray[np.bool_]

_BOOLS = 2  # codes of false and true
_EXACT = 2.0**53  # from here on, float64 cannot express every integer
_FEW = 4  # codes that are compared one after the other; for more of them a table is faster


class Texts:
    """Byte strings in an array, by their offsets."""

    def __init__(self, content: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self.content, self.offsets = content, offsets

    @classmethod
    def of(cls, texts: Iterable[bytes]) -> "Texts":
        """Join byte strings."""
        texts = list(texts)
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        return cls(np.frombuffer(b"".join(texts), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> bytes:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.content[self.offsets[number] : self.offsets[number + 1]].tobytes()


class Numbers:
    """Distinct numbers in rising order. Integers that float64 cannot express are kept as text too."""

    def __init__(self, values: NDArray[np.float64], large: Texts) -> None:
        self.values, self.large = values, large

    @classmethod
    def of(cls, numbers: Iterable[int | float]) -> "Numbers":
        """Keep numbers, which must be distinct and sorted."""
        numbers = list(numbers)
        values = np.array([_float(number) for number in numbers], np.float64)
        is_large = np.abs(values) >= _EXACT
        return cls(values, Texts.of(json.dumps(numbers[at]).encode() for at in np.flatnonzero(is_large)))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, number: int) -> int | float:
        value = float(self.values[number])
        if abs(value) >= _EXACT:  # these are the first and the last numbers
            text = self.large[number if value < 0 else number - len(self) + len(self.large)]
            try:
                return int(text)
            except ValueError:  # it is not an integer
                return value
        return int(value) if value.is_integer() else value


class Field:
    """The values of one field in all documents of a part.

    If `rows` is None, code i belongs to document i, and the code `missing` means that it has no value. Otherwise `rows`
    are the documents of the codes, in rising order.
    """

    def __init__(
        self, count: int, codes: NDArray[Any], rows: NDArray[np.int32] | None, numbers: Numbers, strings: Texts
    ) -> None:
        self.count, self.codes, self.rows, self.numbers, self.strings = count, codes, rows, numbers, strings
        self.missing = _BOOLS + len(numbers) + len(strings)  # one more than the largest code of a value

    def check(self) -> None:
        """Raise ValueError if the arrays do not fit each other. All of them are read."""
        numbers, rows, codes = self.numbers, self.rows, self.codes
        if len(numbers.large) != np.count_nonzero(np.abs(numbers.values) >= _EXACT):
            raise ValueError("numbers are missing")
        for texts in (numbers.large, self.strings):
            check_texts(texts.content, texts.offsets)
        if len(codes) != (self.count if rows is None else len(rows)):
            raise ValueError(f"it has {len(codes)} codes")
        if len(codes) and not 0 <= codes.min() <= codes.max() <= self.missing:
            raise ValueError(f"it has codes outside of 0 to {self.missing}")
        if rows is None or not len(rows):
            return
        if not 0 <= rows.min() <= rows.max() < self.count or (rows[1:] < rows[:-1]).any():
            raise ValueError(f"its rows do not rise from 0 to {self.count - 1}")

    def has_bools(self) -> bool:
        """Tell whether a value is a bool."""
        return bool((self.codes < _BOOLS).any())

    def value(self, code: int) -> Scalar:
        """Return the value of a code."""
        if code < _BOOLS:
            return bool(code)
        if code < _BOOLS + len(self.numbers):
            return self.numbers[code - _BOOLS]
        return self.strings[code - _BOOLS - len(self.numbers)].decode("utf-8", "surrogatepass")

    def code(self, value: Scalar) -> int | None:
        """Return the code of a value, or None if no document has it."""
        if isinstance(value, bool):
            return int(value)
        values: Any = self.strings if isinstance(value, str) else self.numbers
        key = _text(value) if isinstance(value, str) else value
        at = bisect_left(values, key)
        if at == len(values) or values[at] != key:
            return None
        return _BOOLS + at + (len(self.numbers) if isinstance(value, str) else 0)

    def between(
        self, low: Scalar | None, high: Scalar | None, low_open: bool = False, high_open: bool = False
    ) -> tuple[int, int]:
        """Return the first code, and the one after the last, of the values between two bounds of the same type.

        They are numbers or strings. None means that there is no bound; one of the two must be given. An open bound
        excludes the bound itself.
        """
        kind = low if low is not None else high
        values: Any = self.strings if isinstance(kind, str) else self.numbers
        start = _BOOLS + (len(self.numbers) if isinstance(kind, str) else 0)
        low_key, high_key = (_text(bound) if isinstance(bound, str) else bound for bound in (low, high))
        first = 0 if low_key is None else (bisect_right if low_open else bisect_left)(values, low_key)
        end = len(values) if high_key is None else (bisect_left if high_open else bisect_right)(values, high_key)
        return start + first, start + max(first, end)

    def with_range(self, first: int, end: int) -> Mask:
        """Return the documents that have a value with a code from `first` to before `end`."""
        if end <= first:
            return np.zeros(self.count, np.bool_)
        if end == first + 1:
            return self._documents(self.codes == first)
        matches = self.codes < end
        return self._documents(matches if first == 0 else matches & (self.codes >= first))

    def with_codes(self, codes: list[int]) -> Mask:
        """Return the documents that have a value with one of these codes."""
        if len(codes) > _FEW:
            table = np.zeros(self.missing + 1, np.bool_)
            table[codes] = True
            return self._documents(table.take(self.codes))
        matches = np.zeros(len(self.codes), np.bool_)
        for code in codes:
            matches |= self.codes == code
        return self._documents(matches)

    @cached_property
    def present(self) -> Mask:
        """The documents that have a value."""
        return self.with_range(0, self.missing)

    def counts(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each code how many of the documents at these distinct positions have its value."""
        if self.rows is None:
            codes = self.codes[positions]
        elif len(positions) * 32 < len(self.rows):
            same_type = positions.astype(np.int32)  # otherwise NumPy copies the rows
            first, end = (np.searchsorted(self.rows, same_type, side) for side in ("left", "right"))
            lengths = end - first
            starts = np.repeat(first - np.cumsum(lengths) + lengths, lengths)
            codes = self.codes[starts + np.arange(len(starts))]
        else:
            chosen = np.zeros(self.count, np.bool_)
            chosen[positions] = True
            codes = self.codes[chosen[self.rows]]
        return np.bincount(codes, minlength=self.missing + 1)[: self.missing]

    def number_range(self, counts: NDArray[np.int64]) -> list[int | float]:
        """Return the smallest and the largest number that has a count, or nothing if there are no numbers."""
        has_count = np.flatnonzero(counts[_BOOLS : _BOOLS + len(self.numbers)])
        return [self.numbers[int(at)] for at in has_count[[0, -1]]] if len(has_count) else []

    def _documents(self, matches: Mask) -> Mask:
        """Return the documents whose values match."""
        if self.rows is None:
            return matches
        documents = np.zeros(self.count, np.bool_)
        documents[self.rows[np.flatnonzero(matches)]] = True  # faster than a mask
        return documents


def make_field(count: int, keys: list[Any], codes: NDArray[np.int64], rows: NDArray[np.int64]) -> Field:
    """Make a field from keys in any order, their numbers in `codes`, and the rising `rows` of these.

    A key is a str, a number, or a tuple of one bool, since True would equal 1.
    """
    numbers = sorted((at for at, key in enumerate(keys) if isinstance(key, int | float)), key=keys.__getitem__)
    strings = sorted((at for at, key in enumerate(keys) if isinstance(key, str)), key=keys.__getitem__)
    final = np.zeros(len(keys), np.int64)
    for at, key in enumerate(keys):
        if isinstance(key, tuple):
            final[at] = key[0]
    final[numbers + strings] = _BOOLS + np.arange(len(numbers) + len(strings))
    codes, missing = final[codes], _BOOLS + len(numbers) + len(strings)
    if (np.diff(rows) == 0).any():
        both = np.unique(rows * (missing + 1) + codes)  # a document may have a value twice
        rows, codes = both // (missing + 1), both % (missing + 1)
    is_single = not (np.diff(rows) == 0).any()
    small = np.dtype(np.uint8 if missing < 256 else np.int32)
    if is_single and len(rows) * 4 >= count:
        dense = np.full(count, missing, small)
        dense[rows] = codes
        codes, kept = dense, None
    else:
        codes, kept = codes.astype(small), rows.astype(np.int32)
    texts = Texts.of(_text(keys[at]) for at in strings)
    return Field(count, codes, kept, Numbers.of(keys[at] for at in numbers), texts)


def _text(value: str) -> bytes:
    """Return a string as bytes, which sort as its characters do."""
    return value.encode("utf-8", "surrogatepass")


def _float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
