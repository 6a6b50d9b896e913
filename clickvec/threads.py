"""Batches on several cores: NumPy and the compiled kernel let other threads go on while they compute."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def cores() -> int:
    """How many threads to use: OMP_NUM_THREADS where it is set, as for NumPy's own, or else a thread for each core."""
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
