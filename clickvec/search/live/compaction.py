"""Build a new segment of an index on disk in a child process with low priority, so that searches go on.

The child locks the index and takes the segment into use itself. If it is killed, it leaves nothing but a folder, which
the next one removes.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from clickvec.errors import ClickvecError
from clickvec.progress import ignore
from clickvec.search.live.index_folder import COMPACTION_LOCK
from clickvec.search.live.new_segment import compact
from clickvec.storage.lock import Lock, take_lock

_RETRY_SECONDS = 60.0  # after a compaction that has failed
_BUSY_SECONDS = 1.0  # while another process builds a segment
_BUSY = 75  # the status of a child that finds it so
_log = logging.getLogger(__name__)


def start_child(path: Path, damaged: str = "") -> "subprocess.Popen[bytes]":
    """Start a process that builds a segment with low priority and one thread, and ends with this one."""
    command = [
        sys.executable,
        "-P",  # import nothing from the directory where the service was started
        "-m",
        "clickvec.search.live.compaction",
        str(path.resolve()),
        str(os.getpid()),
        damaged,
    ]
    packages = str(Path(__file__).resolve().parents[3])
    paths = os.pathsep.join(filter(None, (packages, os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": paths}
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


class BackgroundCompaction:
    """Build segments in child processes, one at a time. `segment` returns the name of the one in use."""

    def __init__(self, path: Path, segment: Callable[[], str]) -> None:
        self._path, self._segment = path, segment
        self._lock, self._not_before, self._is_stopped = threading.Lock(), 0.0, False
        self._child: subprocess.Popen[bytes] | None = None
        self.thread: threading.Thread | None = None

    def start(self, damaged: str = "") -> None:
        """Start a child, unless one is at work or has failed a short time ago. The segment in use may be damaged."""
        with self._lock:
            is_running = self.thread is not None and self.thread.is_alive()
            if not is_running and not self._is_stopped and time.monotonic() >= self._not_before:
                self.thread = threading.Thread(target=self._run, args=(damaged,), name="clickvec-compact", daemon=True)
                self.thread.start()

    def stop(self) -> None:
        """End the child, and start no other one."""
        with self._lock:
            self._is_stopped = True
            if self._child is not None:
                self._child.terminate()

    def _run(self, damaged: str) -> None:
        try:
            before = self._segment()
            lock = _take_lock(self._path)
            if lock is None:
                self._not_before = time.monotonic() + _BUSY_SECONDS
                return
            lock.close()
            child = start_child(self._path, damaged)
            with self._lock:
                self._child = child
                if self._is_stopped:
                    child.terminate()
            _, errors = child.communicate()
            if child.returncode == _BUSY:
                self._not_before = time.monotonic() + _BUSY_SECONDS
            elif not self._is_stopped and self._segment() == before:
                said = errors.decode(errors="replace").strip().splitlines()
                self._pause(said[-1] if said else f"status {child.returncode}")
        except (ClickvecError, OSError) as error:
            self._pause(str(error))
        finally:
            self._child = None

    def _pause(self, reason: str) -> None:
        if not self._is_stopped:
            self._not_before = time.monotonic() + _RETRY_SECONDS
            _log.warning("no new segment of %s was built: %s", self._path, reason)


def _take_lock(path: Path) -> Lock | None:
    """Return the lock of a compaction, unless another process compacts the index or builds a segment for a change."""
    building = take_lock(path)
    if building is None:
        return None
    building.close()
    return take_lock(path, COMPACTION_LOCK)


def main() -> None:
    """Build a segment as the child of another process, and end with it."""
    path, parent, damaged = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

    def check_parent(label: str, done: int, total: int | None, note: str = "") -> None:
        if os.getppid() != parent:
            raise SystemExit("the process that has started this one has ended")
        ignore(label, done, total, note)

    if hasattr(os, "nice"):
        os.nice(19)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("it was stopped"))  # and leave no temporary folder
    lock = _take_lock(path)
    if lock is None:
        raise SystemExit(_BUSY)
    with lock:
        try:
            compact(path, damaged, check_parent, is_background=True)
        except ClickvecError as error:
            raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
