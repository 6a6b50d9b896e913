"""Process batches on several cores. NumPy and the compiled code release the GIL while they compute."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from clickvec.errors import ClickvecError

Batch = TypeVar("Batch")
Result = TypeVar("Result")

VARIABLE = "OMP_NUM_THREADS"
MOST = 9_999  # a larger number of threads is taken for a mistake


def thread_count() -> int:
    """Return the number in OMP_NUM_THREADS, as NumPy uses it, or else the number of cores.

    A library must not fail because of the environment, so this ignores a value that is not a number of threads.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return _from_environment() or cores


def check_environment() -> None:
    """Raise if OMP_NUM_THREADS is set to something that is not a number of threads."""
    value = os.environ.get(VARIABLE, "")
    if value.strip() and _from_environment() is None:
        raise ClickvecError(f"{VARIABLE} is {value[:40]!r}; set it to a number from 1 to {MOST:,}, or unset it")


def _from_environment() -> int | None:
    """Return the number in OMP_NUM_THREADS, the first if it is a list, or None."""
    first = os.environ.get(VARIABLE, "").split(",")[0].strip()
    number = int(first) if first.isascii() and first.isdigit() and len(first) <= 9 else 0
    return number if 1 <= number <= MOST else None


def map_in_threads(work: Callable[[Batch], Result], batches: Iterable[Batch]) -> Iterator[Result]:
    """Yield `work(batch)` for each batch, in order.

    Unlike `ThreadPoolExecutor.map`, this reads only a few batches ahead, so memory does not grow with their number.
    """
    threads = thread_count()
    if threads == 1:
        yield from map(work, batches)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        waiting: deque[Future[Result]] = deque()
        for batch in batches:
            waiting.append(pool.submit(work, batch))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
