"""The cores of the machine, each at a part of its own.

torch shares out every operation among its threads and waits for all of them at its end. An update has a thousand small
operations, so that it waits a thousand times, for long where the machine has other work too; and some operations it
does not share out at all. Here each thread takes a part of the texts, or of the rows, through many operations, and
torch's own threads rest.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

Result = TypeVar("Result")
LARGE = 2**17  # numbers that are worth the time to call a thread


class Part(NamedTuple):
    """From `low` up to and without `high`."""

    low: int
    high: int


class _Crew:
    """The threads that there are beside this one."""

    others: ThreadPoolExecutor | None = None
    size = 1


@contextmanager
def at_work() -> Iterator[None]:
    """As many threads as torch has are a crew; without it, `each` goes through the parts one after the other."""
    size = torch.get_num_threads()
    if size == 1 or _Crew.others is not None:
        yield
        return
    with ThreadPoolExecutor(size - 1, initializer=_alone) as _Crew.others:
        _Crew.size = size
        torch.set_num_threads(1)
        try:
            yield
        finally:
            _Crew.others, _Crew.size = None, 1
            torch.set_num_threads(size)


def _alone() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)


def size() -> int:
    """How many work."""
    return _Crew.size


def each(function: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """What a function makes of each part; it is no place for autograd, which the other threads have turned off."""
    if _Crew.others is None or len(parts) == 1:
        return [function(part) for part in parts]
    elsewhere = [_Crew.others.submit(function, part) for part in parts[1:]]
    return [function(parts[0]), *(one.result() for one in elsewhere)]


def shares(work_until: ArrayLike) -> list[Part]:
    """A part for each of the crew, with equal work: `work_until[k]` is that of the items before k, the last one all."""
    until = np.asarray(work_until)
    cuts = np.searchsorted(until, until[-1] * np.arange(1, _Crew.size) / _Crew.size)
    edges = [0, *cuts.tolist(), len(until) - 1]
    return [Part(low, high) for low, high in pairwise(edges) if high > low] or [Part(0, 0)]


def in_parts(tensor: Tensor, function: Callable[[Tensor], Result]) -> list[Result]:
    """What a function makes of the rows of a tensor, each thread some of them if there are many."""
    if _Crew.others is None or tensor.numel() < LARGE:
        return [function(tensor)]
    return each(lambda rows: function(tensor[rows.low : rows.high]), shares(range(len(tensor) + 1)))


def ahead(make: Callable[[int], Result], numbers: Iterable[int]) -> Iterator[Result]:
    """What `make` makes of each number, in order; the next one is made in a thread of its own while one is in use."""
    with ThreadPoolExecutor(1, initializer=_alone) as beside:
        coming = None
        for number in numbers:
            ready, coming = coming, beside.submit(make, number)
            if ready is not None:
                yield ready.result()
        if coming is not None:
            yield coming.result()
