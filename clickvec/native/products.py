"""The products of queries with the vectors of titles: for one query in C (products.c), otherwise in NumPy.

The last digits differ, since the order of the sum does.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.native.loader import choose, library

_POINTER, _LONG = ctypes.c_void_p, ctypes.c_int64
_ARGUMENTS = (_POINTER, _POINTER, _LONG, _LONG, _POINTER, _POINTER)


class Functions(NamedTuple):
    """The compiled functions, which release the GIL."""

    float32: Callable[..., None]
    int8: Callable[..., None]


@cache
def functions() -> Functions | None:
    """Return the compiled functions that CLICKVEC_COMPILED chooses; None if NumPy is to compute everything."""
    return choose(load, "search")


def load(processor: str) -> Functions | None:
    """Return the functions for this kind of processor; None if they were not compiled or it cannot run them."""
    compiled = library("products.c", processor)
    if compiled is None or not compiled.products_runs_here():
        return None
    for function in (compiled.products_float32, compiled.products_int8):
        function.argtypes, function.restype = _ARGUMENTS, None
    return Functions(compiled.products_float32, compiled.products_int8)


def multiply(
    vectors: NDArray[Any], rows: slice | NDArray[np.int64], queries: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return (queries, rows): the products of each query with these rows of the vectors."""
    compiled = functions() if len(queries) == 1 and vectors.flags.c_contiguous and vectors.flags.aligned else None
    if compiled is None or vectors.dtype not in (np.float32, np.int8):
        return multiply_by_numpy(vectors, rows, queries)
    if isinstance(rows, slice):
        vectors, positions, count = vectors[rows], None, len(range(*rows.indices(len(vectors))))
    else:
        positions, count = np.ascontiguousarray(rows, np.int64), len(rows)
        if count and not 0 <= positions.min() <= positions.max() < len(vectors):
            raise IndexError(f"positions from {positions.min()} to {positions.max()} of {len(vectors)} vectors")
    query, products = np.ascontiguousarray(queries, np.float32), np.empty((1, count), np.float32)
    function = compiled.float32 if vectors.dtype == np.float32 else compiled.int8
    function(
        vectors.ctypes.data, None if positions is None else positions.ctypes.data, count, vectors.shape[1],
        query.ctypes.data, products.ctypes.data,
    )  # fmt: skip
    return products


def multiply_by_numpy(
    vectors: NDArray[Any], rows: slice | NDArray[np.int64], queries: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Do the same in NumPy."""
    return np.asarray(queries @ vectors[rows].astype(np.float32, copy=False).T, np.float32)
