"""Temporary folders with unpredictable names, which the next run removes if this one is killed.

The temporary folder for PATH is .PATH.<16 random hex digits>.partial, beside it. It is created only if nothing has that
name, so no planted link is followed. Its writer holds a lock on it, which the system releases when the process ends in
any way. So the next run that writes PATH can tell a leftover from a folder that is in use.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from clickvec.errors import ClickvecError

try:
    import fcntl
except ImportError:  # Windows: only old leftovers are removed, and two runs with the same output can collide
    fcntl = None  # type: ignore[assignment]

NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_SUFFIX = ".partial"
_LONGEST_NAME = 200  # bytes of a name that fit into a temporary one; file systems allow 255
_NO_HANDLE = -1  # Windows cannot open a folder
_STALE_SECONDS = 24 * 3600  # the age at which a leftover is removed where there are no locks


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, which only its owner can enter. On exit, remove it."""
    folder, handle = _create(path)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle != _NO_HANDLE:
            os.close(handle)


def _create(path: Path) -> tuple[Path, int]:
    """Create a folder beside `path`, open it and lock it. Return its path and its handle."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    while True:
        folder = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}{_SUFFIX}")
        folder.mkdir(mode=0o700)
        if fcntl is None:
            return folder, _NO_HANDLE
        handle = os.open(folder, os.O_RDONLY | NO_LINK)
        if _lock(handle) is not False and is_at(folder, os.fstat(handle)):
            return folder, handle
        os.close(handle)  # before it was locked, another run took it for a leftover and removed it


def _prefix(path: Path) -> str:
    """Return what the temporary names for a path begin with."""
    name = path.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}."


def _lock(handle: int) -> bool | None:
    """Lock an open file or folder until it is closed.

    Return True on success, False if another process has locked it, and None if locks do not work here.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return None
    return True


def is_at(path: Path, status: os.stat_result) -> bool:
    """Return whether the file or folder with this status is still at `path`."""
    try:
        return os.path.samestat(os.stat(path), status)
    except FileNotFoundError:
        return False


def remove_leftovers(path: Path) -> None:
    """Remove the folders of killed runs that wrote `path`. If one had set the old version aside, restore it."""
    for entry in _temporaries(path):
        with contextlib.suppress(OSError), _abandoned(entry) as abandoned:
            if not abandoned:
                continue
            if not path.exists() and (entry / "old").exists():
                (entry / "old").rename(path)
            shutil.rmtree(entry, ignore_errors=True)


def set_aside(path: Path) -> Path | None:
    """Return the old version of a folder that a writer has set aside. Only systems without `_swap` ever have one."""
    candidates = (entry / "old" for entry in _temporaries(path))
    return next((old for old in candidates if old.exists()), None)


def is_being_replaced(path: Path) -> bool:
    """Return whether a writer that still runs has set the folder aside."""
    old = set_aside(path)
    if old is None:
        return False
    try:
        with _abandoned(old.parent) as abandoned:
            return not abandoned
    except FileNotFoundError:
        return True  # the writer has finished just now


def _temporaries(path: Path) -> list[Path]:
    """Return the temporary folders for this path that belong to this user."""
    name = re.compile(re.escape(_prefix(path)) + "[0-9a-f]{16}" + re.escape(_SUFFIX))
    try:
        with os.scandir(path.parent) as entries:
            return [Path(entry.path) for entry in entries if name.fullmatch(entry.name) and _is_own_folder(entry)]
    except OSError:
        return []


def _is_own_folder(entry: "os.DirEntry[str]") -> bool:
    is_mine = not hasattr(os, "geteuid") or entry.stat(follow_symlinks=False).st_uid == os.geteuid()
    return is_mine and entry.is_dir(follow_symlinks=False)


@contextlib.contextmanager
def _abandoned(entry: Path) -> Iterator[bool]:
    """Yield whether no process writes to a temporary folder any more. None can start to within the block."""
    if fcntl is None:
        yield time.time() - entry.stat().st_mtime > _STALE_SECONDS
        return
    handle = os.open(entry, os.O_RDONLY | NO_LINK)
    try:
        yield _lock(handle) is True
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, name: str) -> Iterator[None]:
    """Hold a lock file, which the system releases when the process ends in any way. Errors name what it locks."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | NO_LINK, 0o666)
    try:
        # If the lock file is gone, it belonged to a run that has ended just now.
        if _lock(handle) is False or not is_at(path, os.fstat(handle)):
            raise ClickvecError(f"{name} is in use by another process; wait for it or choose another --out")
        yield
    finally:
        os.close(handle)
