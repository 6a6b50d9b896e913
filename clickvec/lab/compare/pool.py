"""Run tasks in parallel, each in a process of its own with its share of the threads."""

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import NamedTuple

from clickvec.errors import ClickvecError, Interrupted
from clickvec.lab.compare.bench import Bench, Task
from clickvec.lab.compare.store import Recorded
from clickvec.training.process_settings import tuned_for_training

Done = dict[tuple[str, int], Recorded]
Say = Callable[[str], None]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_all(bench: Bench, tasks: Sequence[Task], say: Say) -> Done:
    """Return the scores of every task: load the stored ones and run the other tasks, `bench.jobs` at a time.

    A failed task does not stop the others; its error is raised when they are done. An interrupted task stops all.
    """
    done: Done = {}
    left: list[Task] = []
    for task in tasks:
        stored = bench.recorded(task)
        if stored:
            done[task.system.key, task.seed] = stored
        else:
            left.append(task)
    if done:
        say(f"reusing the stored scores of {len(done)} of {len(tasks)} systems and seeds")
    if left:
        say(f"{len(left)} to fit and score, {min(bench.jobs, len(left))} at a time")
    failed: list[ClickvecError] = []
    with closing(_errors(bench, left)) as finished:  # also ends the workers if it is interrupted between two tasks
        for count, (task, error) in enumerate(finished, 1):
            recorded = bench.recorded(task)
            if recorded is None:
                failed.append(error or ClickvecError(f"{task}: its scores in {bench.out} cannot be read"))
                say(str(failed[-1]))
            else:
                done[task.system.key, task.seed] = recorded
                say(f"{task}: {recorded.facts.train_seconds:,.0f} s of training ({count} of {len(left)})")
    if failed:
        others = f"; the other {len(done)} are stored. Fix it, or choose the others with --systems" if done else ""
        raise ClickvecError(f"{failed[0]}{others}")
    return done


def _errors(bench: Bench, tasks: Sequence[Task]) -> Generator[tuple[Task, ClickvecError | None], None, None]:
    """Yield each task when it is done, with its error if it failed."""
    if bench.jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, _error(bench, task)
        return
    with _threads(max(1, (os.cpu_count() or 1) // bench.jobs)):
        waiting, running = list(tasks), list[_Worker]()
        try:
            while waiting or running:
                while waiting and len(running) < bench.jobs:
                    running.append(_start(bench, waiting.pop(0)))
                connection.wait([worker.process.sentinel for worker in running])
                for worker in [worker for worker in running if not worker.process.is_alive()]:
                    running.remove(worker)
                    yield worker.task, worker.error()
        finally:
            for worker in running:  # training saves its state on SIGTERM
                worker.process.terminate()
            for worker in running:
                worker.process.join()


class _Worker(NamedTuple):
    """A process that runs one task, and the pipe that its error comes through."""

    task: Task
    process: SpawnProcess
    pipe: Connection

    def error(self) -> ClickvecError | None:
        """Return the error of the ended process, or None. Raise Interrupted if it was interrupted."""
        self.process.join()
        with suppress(EOFError, OSError):
            if self.pipe.poll():
                error: ClickvecError | None = self.pipe.recv()
                if isinstance(error, Interrupted):
                    raise error
                return error
        return ClickvecError(
            f"{self.task}: its process ended with status {self.process.exitcode}; if memory ran out, use fewer --jobs"
        )


def _start(bench: Bench, task: Task) -> _Worker:
    context = get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(bench, task, send))
    process.start()
    send.close()
    return _Worker(task, process, receive)


def _work(bench: Bench, task: Task, send: Connection) -> None:
    """Run a task in a process that leaves Ctrl-C to its parent and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # training saves its state on a KeyboardInterrupt
    logging.getLogger("clickvec").addHandler(logging.NullHandler())  # several processes would write at once
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        with tuned_for_training():
            send.send(_error(bench, task))
    except Interrupted as stopped:
        with suppress(OSError):  # the parent may have ended
            send.send(stopped)
    except KeyboardInterrupt:
        sys.exit(1)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def _follow_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _error(bench: Bench, task: Task) -> ClickvecError | None:
    try:
        bench.record(task)
    except Interrupted:
        raise Interrupted(f"{task}: stopped; run the same command again to resume") from None
    except (ClickvecError, RuntimeError, MemoryError, OSError) as error:  # torch raises RuntimeError
        return ClickvecError(f"{task}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    return None


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Set the number of threads of the processes started meanwhile, unless the user has set it."""
    ours = [name for name in _THREADS if name not in os.environ]
    os.environ |= dict.fromkeys(ours, str(count))
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]
