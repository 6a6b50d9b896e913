"""Build a new segment of an index on disk, in this process or in a child with low priority.

Only the writer of the index takes a segment into use, by one transaction. So any process may build one, and one that is
killed leaves nothing but a folder, which the next writer removes.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clickvec.errors import ClickvecError, UnavailableError
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document_store import DocumentStore
from clickvec.search.live.index_folder import SEGMENTS, IndexFolder
from clickvec.search.live.view import Settings

_RETRY_SECONDS = 60.0  # after a compaction that has failed
_log = logging.getLogger(__name__)

Swap = dict[str, Any]  # the message that takes a segment into use


def build_segment(
    path: Path, encoder: Encoder | None = None, is_fresh: bool = False, progress: Progress | None = None
) -> Swap:
    """Write a segment of all documents and return the message that takes it into use.

    Vectors are copied from the segment in use, unless there is a new `encoder` or the segment is to be built fresh.
    """
    folder = IndexFolder(path)
    store = DocumentStore.open(folder.documents)
    try:
        store.check_pages()  # opening a large file did not
        with store.reading():
            settings = Settings.of(store.state())
            if encoder is None:
                model, fingerprint = folder.open_encoder(settings), settings.model
                old = None if is_fresh else folder.open_segment(settings, model)
                if old is not None:
                    old.check(wait=True)  # damage must not be copied
            else:
                model, fingerprint, old = encoder, folder.add_model(encoder), None
            plan = folder.plan(store, settings, model, old)
            name, crc32 = folder.write_segment(plan, fingerprint, progress)
    finally:
        store.close()
    return {
        "change": "swap", "replaces": settings.segment, "last_deletion": plan.coverage.deletion,
        "state": {"model": fingerprint, "segment": name, "segment_crc32": crc32},
    }  # fmt: skip


def start_child(path: Path, is_fresh: bool = False) -> "subprocess.Popen[bytes]":
    """Do the same in a child process with low priority and one thread, so that searches go on."""
    command = [
        sys.executable,
        "-P",  # import nothing from the directory where the service was started
        "-m",
        "clickvec.search.live.compaction",
        str(path.resolve()),
        str(os.getpid()),
        *(["fresh"] if is_fresh else []),
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
    """Build segments in child processes, one at a time, and take them into use with `submit`."""

    def __init__(self, path: Path, submit: Callable[[Swap], object]) -> None:
        self._path, self._submit, self._pid = path, submit, os.getpid()
        self._starting, self._not_before = threading.Lock(), 0.0
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopped = False
        self.thread: threading.Thread | None = None

    def start(self, is_fresh: bool = False) -> None:
        """Start a child, unless one is at work or has failed a short time ago."""
        with self._starting:
            is_running = self.thread is not None and self.thread.is_alive()
            if not is_running and time.monotonic() >= self._not_before:
                self._is_stopped = False
                self.thread = threading.Thread(target=self._run, args=(is_fresh,), name="clickvec-compact", daemon=True)
                self.thread.start()

    def stop(self) -> None:
        """End the child. A later call of `start` starts another one."""
        self._is_stopped = True
        if self._child is not None and self._pid == os.getpid():
            self._child.terminate()

    def _run(self, is_fresh: bool) -> None:
        try:
            self._child = start_child(self._path, is_fresh)
            swap = self._result(self._child)
            if not self._is_stopped:
                self._submit(swap)
        except (ClickvecError, OSError) as error:
            if not self._is_stopped:
                self._not_before = time.monotonic() + _RETRY_SECONDS
                _log.warning("%s", error)
        finally:
            self._child = None

    def _result(self, child: "subprocess.Popen[bytes]") -> Swap:
        output, errors = child.communicate()
        if child.returncode:
            reason = errors.decode(errors="replace").strip().splitlines()
            said = reason[-1] if reason else f"status {child.returncode}"
            raise UnavailableError(f"no new segment of {self._path} was built: {said}")
        return dict(json.loads(output))


def main() -> None:
    """Build a segment as the child of a writer, and end with it."""
    path, parent = Path(sys.argv[1]), int(sys.argv[2])

    def check_parent(label: str, done: int, total: int | None, note: str = "") -> None:
        if os.getppid() != parent:
            raise SystemExit("the writer has ended")
        ignore(label, done, total, note)

    if hasattr(os, "nice"):
        os.nice(19)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])  # a writer process waits for it, and blocks it
    try:
        swap = build_segment(path, is_fresh="fresh" in sys.argv[3:], progress=check_parent)
    except ClickvecError as error:
        raise SystemExit(str(error)) from None
    if os.getppid() != parent:  # nobody is left to take it into use
        IndexFolder(path).remove(SEGMENTS, swap["state"]["segment"])
    print(json.dumps(swap))


if __name__ == "__main__":
    main()
