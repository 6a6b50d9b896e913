"""Batches on several cores: NumPy and the compiled kernel let other threads go on while they compute."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from clickvec.errors import ClickvecError

Batch = TypeVar("Batch")
Result = TypeVar("Result")


VARIABLE = "OMP_NUM_THREADS"
MOST = 9_999  # threads; a larger number is taken for a mistake


def cores() -> int:
    """How many threads to use: OMP_NUM_THREADS where it is set, as for NumPy's own, or else a thread for each core.

    A library must not fail over the environment: a value that is no number of threads is ignored here.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _wanted() or cpus


def check_environment() -> None:
    """Refuse an OMP_NUM_THREADS that is set to no number of threads: the user meant something by it."""
    value = os.environ.get(VARIABLE, "")
    if value.strip() and _wanted() is None:
        raise ClickvecError(f"{VARIABLE} is {value[:40]!r}; set it to a number from 1 to {MOST:,}, or unset it")


def _wanted() -> int | None:
    """The number in OMP_NUM_THREADS, the first where it is a list; None where there is none."""
    first = os.environ.get(VARIABLE, "").split(",")[0].strip()
    number = int(first) if first.isascii() and first.isdigit() and len(first) <= 9 else 0
    return number if 1 <= number <= MOST else None


def in_order(work: Callable[[Batch], Result], batches: Iterable[Batch]) -> Iterator[Result]:
    """What `work` makes of each batch, in the order of the batches; few of them are in memory at a time."""
    iterator, threads = iter(batches), cores()
    first = list(islice(iterator, 2 if threads > 1 else 0))
    if len(first) < 2:  # one batch is not worth a thread
        yield from map(work, chain(first, iterator))
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    pool = ThreadPoolExecutor(threads)
    try:
        waiting: deque[Future[Result]] = deque(pool.submit(work, batch) for batch in first)
        for batch in iterator:
            if len(waiting) > threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, batch))
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
