"""One writer per index: a lock, and a socket on which the writer takes the changes of other processes.

The writer holds a lock on INDEX/lock, which the system releases when the process ends in any way. Other processes send
their changes to INDEX/writer.sock. Changes that wait at the same time are committed together, because a small change
mostly waits for the disk. Each change is still made as a whole or not at all, and acknowledged after the commit.
"""

import contextlib
import errno
import logging
import os
import queue
import socket
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from clickvec.errors import ClickvecError, DiskFullError, UnavailableError
from clickvec.storage.messages import Message, connect, encode, listen, receive
from clickvec.storage.temporary import is_at

try:
    import fcntl
except ImportError:  # Windows: nothing prevents a second writer, and only the writer can change the index
    fcntl = None  # type: ignore[assignment]

START_SECONDS = 10.0  # how long a writer may take to listen after it has taken the lock
REPLY_SECONDS = 120.0
_LOCK, _SOCKET = "lock", "writer.sock"
_KINDS = (DiskFullError, UnavailableError, ClickvecError)  # of errors that a writer sends, the most special first
_MOST_TOGETHER = 64  # changes in one commit

Apply = Callable[[Message], object]
Transaction = Callable[[], AbstractContextManager[object]]
log = logging.getLogger(__name__)
_held: "weakref.WeakSet[Lock | ChangeServer]" = weakref.WeakSet()


class NoWriterError(UnavailableError):
    """No process holds the lock of the index, so that this one can take it."""


class SilentWriterError(UnavailableError):
    """The process that writes the index does not answer."""


class Lock:
    """The lock of the one writer of an index. Close it to let another process write."""

    def __init__(self, handle: int | None) -> None:
        self._handle, self._pid = handle, os.getpid()
        _held.add(self)

    def keep_on_exec(self) -> None:
        """Hold the lock also after this process has become another program (exec)."""
        if self._handle is not None:
            os.set_inheritable(self._handle, True)

    def close(self) -> None:
        """Release the lock. In a forked child, only let go of it: the parent still holds it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            if self._pid == os.getpid():
                fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    __del__ = close

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def take_lock(folder: Path) -> Lock | None:
    """Lock an index for writing. Return None if it is locked already, by another process or by this one."""
    if fcntl is None:
        return Lock(None)
    path = folder / _LOCK
    try:
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o666)
        lock = Lock(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        if not is_at(path, os.fstat(handle)):  # the folder was replaced meanwhile
            lock.close()
            return None
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d\n" % os.getpid(), 0)
    except OSError as error:
        raise UnavailableError(f"cannot lock {path}: {error.strerror or error}; check who may write there") from None
    return lock


def lock_holder(folder: Path) -> str:
    """Return who has locked an index, for messages: "process 123"."""
    try:
        return f"process {int((folder / _LOCK).read_bytes()[:20])}"
    except (OSError, ValueError):
        return "another process"


def send_changes(folder: Path, message: Message) -> Any:  # noqa: ANN401
    """Send a change to the writer. Return its result once the change is durable.

    Raise NoWriterError if no process holds the lock: then take it. Raise a ClickvecError if the writer refuses the
    change. If the writer is killed before it answers, the change is sent again to the next one.
    """
    data = encode(message)
    started = time.monotonic()
    while True:
        with contextlib.suppress(EOFError, ConnectionError, FileNotFoundError):
            return _exchange(folder, data)
        lock = take_lock(folder)
        if lock is not None:
            lock.close()
            raise NoWriterError(f"no process has opened {folder} for writing")
        if time.monotonic() - started > START_SECONDS:
            raise SilentWriterError(
                f"{lock_holder(folder)} is writing to {folder} and takes no changes from others; wait until it ends"
            )
        time.sleep(0.02)


def _exchange(folder: Path, data: bytes) -> object:
    with connect(folder / _SOCKET, START_SECONDS) as connection:
        connection.settimeout(REPLY_SECONDS)
        try:
            connection.sendall(data)
            reply = receive(connection)
        except TimeoutError:
            raise SilentWriterError(
                f"the writer of {folder} has not answered for {REPLY_SECONDS:.0f} s; it may still make the change"
            ) from None
    if "error" in reply:
        raise next((kind for kind in _KINDS if kind.__name__ == reply.get("kind")), ClickvecError)(reply["error"])
    return reply["result"]


def serve_changes(
    folder: Path, apply: Apply, transaction: Transaction, committed: Callable[[], None] = lambda: None
) -> "ChangeServer":
    """Take changes from other processes until the server is closed. The caller must hold the lock.

    `apply` makes one change and returns its result, which JSON must be able to express. It is called in one thread,
    within `transaction`, and may raise a ClickvecError, which undoes this change and is raised again in the process
    that sent it. `committed` is called after each commit, before the changes are acknowledged.
    """
    return ChangeServer(folder, apply, transaction, committed)


class ChangeServer:
    """Apply the changes of this process and of others, one after the other, in a thread of its own."""

    def __init__(self, folder: Path, apply: Apply, transaction: Transaction, committed: Callable[[], None]) -> None:
        """Use `serve_changes`."""
        self._folder, self._apply, self._transaction, self._committed = folder, apply, transaction, committed
        self._queue: queue.SimpleQueue[tuple[Message, Future[Any]] | None] = queue.SimpleQueue()
        self._closing, self._is_closed, self._pid = threading.Lock(), False, os.getpid()
        self.listener = listen(folder / _SOCKET)  # we hold the lock: a socket that is there is of a killed writer
        self._threads = [
            threading.Thread(target=run, name=f"clickvec-{run.__name__}", daemon=True)
            for run in (self._apply_all, self._accept_all)
        ]
        for thread in self._threads:
            thread.start()
        _held.add(self)

    def submit(self, message: Message) -> Any:  # noqa: ANN401
        """Apply a change. Return what `apply` returned, once the change is durable."""
        future = self._enqueue(message)
        if future is None:
            raise UnavailableError(f"{self._folder} was closed; open it again")
        return future.result()

    def close(self) -> None:
        """Apply the changes that were received, then stop."""
        if self._pid != os.getpid():
            return
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self._queue.put(None)
        with contextlib.suppress(OSError):
            (self._folder / _SOCKET).unlink()
        if self.listener is not None:
            with contextlib.suppress(OSError):
                self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self.listener.close()
        for thread in self._threads:
            thread.join(REPLY_SECONDS)

    def _enqueue(self, message: Message) -> Future[Any] | None:
        with self._closing:  # nothing follows the None that ends the queue
            if self._is_closed:
                return None
            future: Future[Any] = Future()
            self._queue.put((message, future))
        return future

    def _apply_all(self) -> None:
        is_open = True
        while is_open:
            waiting = [self._queue.get()]
            while len(waiting) < _MOST_TOGETHER and not self._queue.empty():
                waiting.append(self._queue.get())
            changes = [item for item in waiting if item is not None]
            is_open = len(changes) == len(waiting)
            results = self._commit([message for message, _ in changes]) if changes else []
            for (_, future), result in zip(changes, results, strict=True):
                if isinstance(result, BaseException):
                    future.set_exception(result)
                else:
                    future.set_result(result)

    def _commit(self, messages: list[Message]) -> list[object]:
        """Apply changes in one transaction. Return a result or an exception for each."""
        results: list[object] = []
        try:
            with self._transaction():
                for message in messages:
                    try:
                        with self._transaction():
                            results.append(self._apply(message))
                    except ClickvecError as error:
                        results.append(error)
                    except Exception as error:  # a malformed message, which must not undo the others
                        log.exception("a change of %s failed", self._folder)
                        results.append(error)
            self._committed()
        except Exception as error:  # the commit failed, so that nothing was changed; or a fault of ours
            if not isinstance(error, ClickvecError):
                log.exception("a change of %s failed", self._folder)
            return [error] * len(messages)
        return results

    def _accept_all(self) -> None:
        while self.listener is not None and not self._is_closed:
            try:
                connection, _ = self.listener.accept()
            except OSError as error:
                if error.errno not in (errno.EBADF, errno.EINVAL):
                    time.sleep(0.1)  # too many open files, for example
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        """Apply the changes of one client until it closes the connection."""
        connection.settimeout(REPLY_SECONDS)
        with connection, contextlib.suppress(OSError, EOFError):
            is_readable = True
            while is_readable:
                try:
                    future = self._enqueue(receive(connection))
                    if future is None:
                        return  # the client sends the change to the next writer
                    reply = encode({"result": future.result()})
                except ClickvecError as error:
                    kind = next(kind for kind in _KINDS if isinstance(error, kind))
                    reply = encode({"error": str(error), "kind": kind.__name__})
                except ValueError as error:
                    reply, is_readable = encode({"error": f"the message to the writer is malformed: {error}"}), False
                except (OSError, EOFError):
                    raise
                except Exception as error:  # logged by `_commit`
                    told = f"the writer of {self._folder} failed: {error!r}"
                    reply = encode({"error": told, "kind": UnavailableError.__name__})
                connection.sendall(reply)


def _close_in_child() -> None:
    """Close the lock and the socket of the parent in a forked process: its end must end them."""
    for held in list(_held):
        if isinstance(held, Lock):
            held.close()
        elif held.listener is not None:
            held.listener.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
