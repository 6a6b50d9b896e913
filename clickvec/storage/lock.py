"""A lock on a folder, which the system releases when the process that holds it ends in any way."""

import os
import weakref
from pathlib import Path
from types import TracebackType

from clickvec.errors import UnavailableError
from clickvec.storage.temporary import is_at

try:
    import fcntl
except ImportError:  # Windows: nothing prevents a second process
    fcntl = None  # type: ignore[assignment]

LOCK = "lock"  # the usual file in the folder
_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """A lock that this process holds. Close it to let another process take it."""

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


def take_lock(folder: Path, name: str = LOCK) -> Lock | None:
    """Lock a folder. Return None if it is locked already, by another process or by this one."""
    if fcntl is None:
        return Lock(None)
    path = folder / name
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
    """Return who has locked a folder, for messages: "process 123"."""
    try:
        return f"process {int((folder / LOCK).read_bytes()[:20])}"
    except (OSError, ValueError):
        return "another process"


def _close_in_child() -> None:
    """Close the locks of the parent in a forked process: the end of the parent must release them."""
    for lock in list(_held):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
