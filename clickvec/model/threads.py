"""Process batches on several cores. NumPy and the compiled code release the GIL while they compute."""

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")

MOST = 1024  # more threads are never useful, and each may hold a batch


def thread_count() -> int:
    """Return the number in OMP_NUM_THREADS, the first if it is a list, as NumPy uses it, or else the number of cores.

    A library must not fail because of the environment, so this ignores a value that is not a number of threads.
    """
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    wanted = min(int(first), MOST) if re.fullmatch("[0-9]{1,9}", first) else 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return wanted or cores


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
