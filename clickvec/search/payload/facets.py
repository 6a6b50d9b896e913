"""Facets: how often the values of a field occur among some documents."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.search.payload.field_values import Field, Scalar
from clickvec.search.payload.fields import Fields


class Facet(NamedTuple):
    """How often the values of a field occur among some documents."""

    counts: list[tuple[Scalar, int]]  # value and number of documents, most frequent first; at most `limit`
    distinct: int  # number of different values, also beyond the limit
    minimum: int | float | None  # of the numbers among the values
    maximum: int | float | None


def count_values(parts: Sequence[Fields], path: str, positions: NDArray[np.int64], limit: int = 10) -> Facet:
    """Count the values of a field among the documents at these positions, which must be distinct.

    Positions count through all parts. Equally frequent values are sorted: false, true, numbers, strings.
    """
    counted: list[tuple[Field, NDArray[np.int64]]] = []
    first = 0
    for part in parts:
        field = part.get(path)
        if field is not None:
            inside = positions[(positions >= first) & (positions < first + len(part))] - first
            counted.append((field, field.counts(inside)))
        first += len(part)
    if not counted:
        return Facet([], 0, None, None)
    counted.sort(key=lambda item: -item[0].missing)
    (main, counts), *others = counted  # the values of the largest part keep their codes, since they may be millions
    further: dict[tuple[int, Scalar], int] = {}
    for field, numbers in others:
        for at in np.flatnonzero(numbers).tolist():
            value = field.value(at)
            code = main.code(value)
            if code is not None:
                counts[code] += numbers[at]
            else:
                further[_order(value)] = further.get(_order(value), 0) + int(numbers[at])
    chosen = [(_order(main.value(code)), int(counts[code])) for code in _most_frequent(counts, limit)]
    chosen = sorted([*chosen, *further.items()], key=lambda item: (-item[1], item[0]))[:limit]
    numeric: list[Any] = main.number_range(counts) + [value for kind, value in further if kind == 1]
    distinct = int(np.count_nonzero(counts)) + len(further)
    least, largest = min(numeric, default=None), max(numeric, default=None)
    return Facet([(value, count) for (_, value), count in chosen], distinct, least, largest)


def sorted_facet(counts: Iterable[tuple[Scalar, int]], limit: int) -> Facet:
    """Return the facet of values that a database has counted."""
    every = sorted(counts, key=lambda item: (-item[1], _order(item[0])))
    numbers = [value for value, _ in every if isinstance(value, int | float) and not isinstance(value, bool)]
    return Facet(every[:limit], len(every), min(numbers, default=None), max(numbers, default=None))


def _most_frequent(counts: NDArray[np.int64], limit: int) -> list[int]:
    """Return the codes with the largest counts; of equal counts those with the smallest codes."""
    codes = np.flatnonzero(counts)
    if limit < len(codes):
        numbers = counts[codes]
        least = np.partition(numbers, -limit)[-limit] if limit else numbers.max() + 1
        more = codes[numbers > least]
        codes = np.concatenate((more, codes[numbers == least][: limit - len(more)]))
    return [int(code) for code in codes]


def _order(value: Scalar) -> tuple[int, Scalar]:
    """Return a key that sorts values, and that differs for 1 and true."""
    return (0 if isinstance(value, bool) else 2 if isinstance(value, str) else 1), value
