"""The products of queries with the vectors of titles, and their exact scores: in C (products.c) or in NumPy.

The last digits of a product differ, since the order of the sum does. A score is a sum of float64, rounded to float32,
so it hardly depends on the order, and equal vectors have equal scores.
"""

import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.native.loader import choose, library

_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64
_ARGUMENTS = (_POINTER, _POINTER, _LONG, _LONG, _POINTER, _POINTER)
Positions = NDArray[np.int64]
Floats = NDArray[np.float32]


class Functions(NamedTuple):
    """The compiled functions, which release the GIL."""

    products: Mapping[str, Callable[..., None]]  # by the number format of the vectors
    scores: Mapping[str, Callable[..., None]]


@cache
def functions() -> Functions | None:
    """Return the compiled functions that CLICKVEC_COMPILED chooses; None if NumPy is to compute everything."""
    return choose(load, "search")


def load(processor: str) -> Functions | None:
    """Return the functions for this kind of processor; None if they were not compiled or it cannot run them."""
    compiled = library("products.c", processor)
    if compiled is None or not compiled.products_runs_here():
        return None
    products = {"float32": compiled.products_float32, "int8": compiled.products_int8}
    scores = {"float32": compiled.scores_float32, "int8": compiled.scores_int8}
    for function in products.values():
        function.argtypes, function.restype = _ARGUMENTS, None
    for function in scores.values():
        function.argtypes, function.restype = (*_ARGUMENTS, _POINTER), None
    return Functions(products, scores)


def multiply(vectors: NDArray[Any], rows: slice | Positions, queries: Floats) -> Floats:
    """Return (queries, rows): the products of each query with these rows of the vectors."""
    compiled = functions() if len(queries) == 1 and _is_readable(vectors) else None
    if compiled is None:
        return multiply_by_numpy(vectors, rows, queries)
    positions = None
    if isinstance(rows, slice):
        vectors = vectors[rows]
        count = len(vectors)
    else:
        positions, count = _checked(rows, len(vectors)), len(rows)
    query, products = np.ascontiguousarray(queries, np.float32), np.empty((1, count), np.float32)
    compiled.products[vectors.dtype.name](
        vectors.ctypes.data, None if positions is None else positions.ctypes.data, count, vectors.shape[1],
        query.ctypes.data, products.ctypes.data,
    )  # fmt: skip
    return products


def exact_scores(
    vectors: NDArray[Any], query: Floats, scales: Floats | None = None, positions: Positions | None = None
) -> Floats:
    """Return the scores of the vectors at some positions, or of all: products with a query, times their scales."""
    compiled = functions() if _is_readable(vectors) else None
    if compiled is None:
        return exact_scores_by_numpy(vectors, query, scales, positions)
    if positions is not None:
        positions = _checked(positions, len(vectors))
    count = len(vectors) if positions is None else len(positions)
    wide, scores = np.ascontiguousarray(query, np.float64), np.empty(count, np.float32)
    if scales is not None:
        scales = np.ascontiguousarray(scales, np.float32)
    compiled.scores[vectors.dtype.name](
        vectors.ctypes.data, None if positions is None else positions.ctypes.data, count, vectors.shape[1],
        wide.ctypes.data, None if scales is None else scales.ctypes.data, scores.ctypes.data,
    )  # fmt: skip
    return scores


def _is_readable(vectors: NDArray[Any]) -> bool:
    """Return whether C can read these vectors."""
    return vectors.flags.c_contiguous and vectors.flags.aligned and vectors.dtype.name in ("float32", "int8")


def _checked(positions: Positions, count: int) -> Positions:
    """Return positions as C needs them. Raise if one is outside."""
    positions = np.ascontiguousarray(positions, np.int64)
    if len(positions) and not 0 <= positions.min() <= positions.max() < count:
        raise IndexError(f"positions from {positions.min()} to {positions.max()} of {count} vectors")
    return positions


def multiply_by_numpy(vectors: NDArray[Any], rows: slice | Positions, queries: Floats) -> Floats:
    """Do the same in NumPy."""
    return np.asarray(queries @ vectors[rows].astype(np.float32, copy=False).T, np.float32)


def exact_scores_by_numpy(
    vectors: NDArray[Any], query: Floats, scales: Floats | None = None, positions: Positions | None = None
) -> Floats:
    """Do the same in NumPy."""
    if positions is not None:
        vectors, scales = vectors[positions], None if scales is None else scales[positions]
    scores = (vectors.astype(np.float64) * query).sum(axis=1)
    return np.asarray(scores if scales is None else scores * scales, np.float32)
