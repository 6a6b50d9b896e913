"""Answers that take seconds to compute: each is computed once for each version of the index."""

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar

from clickvec.search.view_protocol import SearchView

Value = TypeVar("Value")


class Remembered:
    """The latest value of each name, and the version of the index that it was computed from.

    If many ask at once, one of them computes the value and the others wait for it.
    """

    def __init__(self) -> None:
        self._values: dict[str, tuple[object, object]] = {}
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def get(self, name: str, view: SearchView, compute: Callable[[SearchView], Value]) -> Value:
        """Return the value of a name for a view, and compute it if there is none for this version of the index."""
        version = version_of(view)
        with self._lock:
            lock = self._locks[name]
        with lock:
            known, value = self._values.get(name, (None, None))
            if known != version:
                value = compute(view)
                self._values[name] = version, value
        return value  # type: ignore[return-value]


def version_of(view: SearchView) -> tuple[str, str, int]:
    """Return what changes if the model or the segment is replaced, or if the number of titles doubles or halves."""
    return *view.version, len(view).bit_length()
