"""Many tasks on few cores: one process each, one thread each, so that none waits for another's threads."""

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
from types import FrameType
from typing import NamedTuple, NoReturn

from clickvec.errors import ClickvecError, Interrupted
from clickvec.lab.compare.bench import Bench, Task
from clickvec.lab.compare.store import Recorded

Done = dict[tuple[str, int], Recorded]
Say = Callable[[str], None]
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
    with closing(_errors(bench, left)) as finished:  # a stop between two tasks ends the workers too
        for count, (task, error) in enumerate(finished, 1):
            recorded = bench.recorded(task)
            if recorded is None:
                failed.append(error or ClickvecError(f"{task}: its scores cannot be read back from {bench.out}"))
                say(str(failed[-1]))
            else:
                done[task.system.key, task.seed] = recorded
                say(f"{task}: {recorded.facts.train_seconds:,.0f} s of training ({count} of {len(left)})")
    if failed:
        others = f"; the other {len(done)} are kept: mend it, or name the others with --systems" if done else ""
        raise ClickvecError(f"{failed[0]}{others}")
    return done


def _errors(bench: Bench, tasks: Sequence[Task]) -> Generator[tuple[Task, ClickvecError | None], None, None]:
    """Each task as it is done, with its error if it failed."""
    if bench.jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, _error(bench, task)
        return
    with _threads(max(1, (os.cpu_count() or 1) // bench.jobs)), _terminable():
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
            for worker in running:  # a training run answers by saving its state
                worker.process.terminate()
            for worker in running:
                worker.process.join()


class _Worker(NamedTuple):
    """A process that does one task, and the end of the pipe where its error arrives."""

    task: Task
    process: SpawnProcess
    pipe: Connection

    def error(self) -> ClickvecError | None:
        """What went wrong, now that the process has ended. One that was stopped stops all."""
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
    """In a process of its own: it leaves Ctrl-C to its parent, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("clickvec").addHandler(logging.NullHandler())  # several processes would write at once
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        send.send(_error(bench, task))
    except Interrupted as stopped:
        with suppress(OSError):  # the parent may be gone
            send.send(stopped)
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
    except Interrupted as stopped:
        raise Interrupted(f"{task}: stopped; the same command goes on from here", stopped.signal) from None
    except (ClickvecError, RuntimeError, MemoryError, OSError) as error:  # torch: RuntimeError, for want of memory too
        return ClickvecError(f"{task}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    return None


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """The number of threads of each process that is started meanwhile, unless the user has set it."""
    ours = [name for name in _THREADS if name not in os.environ]
    os.environ |= dict.fromkeys(ours, str(count))
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the workers too, as Ctrl-C does."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread() or callable(signal.getsignal(signal.SIGTERM)):
        yield  # a handler of the program's own does it
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
