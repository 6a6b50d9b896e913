"""Many tasks on few cores: one process each, one thread each, so that none waits for another's threads."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from types import FrameType
from typing import NoReturn

from clickvec.compare.bench import Bench, Task
from clickvec.compare.store import Recorded
from clickvec.errors import ClickvecError

Done = dict[tuple[str, int], Recorded]
Say = Callable[[str], None]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_bench: list[Bench] = []  # in a worker: what it works with, sent once


def run_all(bench: Bench, tasks: Sequence[Task], say: Say) -> Done:
    """Every task's scores: those that are there, and the others made now, `bench.jobs` at a time.

    A task that fails does not stop the others; its error comes when they are done. One that is stopped stops all.
    """
    done: Done = {}
    left: list[Task] = []
    for task in tasks:
        found = bench.recorded(task)
        if found:
            done[task.system.key, task.seed] = found
        else:
            left.append(task)
    if done:
        say(f"{len(done)} of {len(tasks)} systems and seeds were scored before, and are not made again")
    if left:
        say(f"{len(left)} to fit and score, {min(bench.jobs, len(left))} at a time")
    failed: list[ClickvecError] = []
    for count, (task, error) in enumerate(_errors(bench, left), 1):
        recorded = bench.recorded(task)
        if recorded is None:
            failed.append(error or ClickvecError(f"the scores of {task} cannot be read back from {bench.out}"))
            say(f"{task}: {failed[-1]}")
        else:
            done[task.system.key, task.seed] = recorded
            say(f"{task}: {recorded.facts.train_seconds:,.0f} s of training ({count} of {len(left)})")
    if failed:
        raise failed[0]
    return done


def _errors(bench: Bench, tasks: Sequence[Task]) -> Iterator[tuple[Task, ClickvecError | None]]:
    """Each task as it is done, with its error if it failed."""
    if bench.jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, _error(bench, task)
        return
    with _threads(max(1, (os.cpu_count() or 1) // bench.jobs)), _terminable():
        pool = ProcessPoolExecutor(bench.jobs, get_context("spawn"), _begin, (bench, os.getpid()))
        futures = {pool.submit(_work, task): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            workers = list((pool._processes or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:  # a training run answers by saving its state
                worker.terminate()
            for worker in workers:
                worker.join()
            raise
        pool.shutdown()


def _error(bench: Bench, task: Task) -> ClickvecError | None:
    try:
        bench.record(task)
    except ClickvecError as error:
        if type(error).__name__ == "Interrupted":
            raise
        return ClickvecError(f"{task.system.label}: {error}")
    return None


def _begin(bench: Bench, parent: int) -> None:
    """A worker leaves Ctrl-C to its parent, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _bench.append(bench)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


def _work(task: Task) -> ClickvecError | None:
    if not _bench:  # stopped; the queue may hold a task or two that it is too late to cancel
        return None
    try:
        return _error(_bench[0], task)
    except ClickvecError:
        _bench.clear()
        raise


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """The number of threads of each process that is started meanwhile: libraries read it when they are loaded."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ |= dict.fromkeys(_THREADS, str(count))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the workers too, as Ctrl-C does."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
