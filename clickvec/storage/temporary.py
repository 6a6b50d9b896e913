"""Temporary files and folders that cannot be guessed, follow no link, and are removed by the next run if one is killed.

The name for PATH is .PATH.<16 random hex digits>.partial, beside it, and is created only if nothing is there. Its
writer holds a lock on it, which the system releases when the process ends, however it ends. So the next run into the
same path can tell what is left over from what is being written.
"""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from clickvec.errors import ClickvecError

try:
    import fcntl
except ImportError:  # Windows: only old leftovers are removed, and two runs into one place are not kept apart
    fcntl = None  # type: ignore[assignment]

NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_RDWR | NO_LINK | getattr(os, "O_BINARY", 0)
_SUFFIX = ".partial"
_LONGEST_NAME = 200  # bytes of a name that fit into a temporary one; file systems allow 255
_STALE_SECONDS = 24 * 3600  # the age at which a leftover is removed where there are no locks

Handle = TypeVar("Handle", int, int | None)


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path` that is removed at the end, or by the next run if this one is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    folder, handle = create(path, new_folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _stem(path: Path) -> str:
    """What the temporary names for a path begin with."""
    name = path.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}."


def create(path: Path, make: Callable[[Path], Handle]) -> tuple[Path, Handle]:
    """Create a file or folder beside `path` and lock it; its name, and its handle."""
    while True:
        fresh = path.with_name(f"{_stem(path)}{secrets.token_hex(8)}{_SUFFIX}")
        handle = make(fresh)
        if handle is None or (_lock(handle) is not False and _is_at(handle, fresh)):
            return fresh, handle
        os.close(handle)  # before it was locked, another run has taken it for a leftover and removes it


def new_file(path: Path) -> int:
    """Create a file and open it."""
    return os.open(path, NEW_FILE, 0o666)


def new_folder(path: Path) -> int | None:
    """Create a folder that only its owner can enter, and open it to lock it, where there are locks."""
    path.mkdir(mode=0o700)
    return os.open(path, os.O_RDONLY | NO_LINK) if fcntl else None


def _lock(handle: int) -> bool | None:
    """Lock an open file or folder until it is closed. False: another process has locked it. None: locks do not work."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return None
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def remove_leftovers(path: Path) -> None:
    """Remove what killed runs into `path` left under temporary names; a version that one had set aside is put back."""
    for entry in _temporaries(path):
        with contextlib.suppress(OSError), _abandoned(entry) as abandoned:
            if not abandoned:
                continue
            if not path.exists() and (entry / "old").exists():
                (entry / "old").rename(path)
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()


def set_aside(path: Path) -> Path | None:
    """The version of a folder that a writer has set aside to put another in its place; seen only without `_swap`."""
    found = (entry / "old" for entry in _temporaries(path))
    return next((old for old in found if old.exists()), None)


def is_being_replaced(path: Path) -> bool:
    """Whether a writer that still runs has set the folder aside."""
    old = set_aside(path)
    if old is None:
        return False
    try:
        with _abandoned(old.parent) as abandoned:
            return not abandoned
    except FileNotFoundError:
        return True  # it was, a moment ago


def _temporaries(path: Path) -> list[Path]:
    """Our own temporary files and folders for this path."""
    stem = _stem(path)
    try:
        with os.scandir(path.parent) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if entry.name.startswith(stem)
                and re.fullmatch(f"[0-9a-f]{{16}}{_SUFFIX}", entry.name[len(stem) :])
                and _is_own(entry.stat(follow_symlinks=False))
            ]
    except OSError:
        return []


def _is_own(found: os.stat_result) -> bool:
    is_mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return is_mine and (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode))


@contextlib.contextmanager
def _abandoned(entry: Path) -> Iterator[bool]:
    """Whether no process writes to a temporary file or folder any more; none can begin to within the block."""
    if fcntl is None:
        yield time.time() - entry.stat().st_mtime > _STALE_SECONDS
        return
    handle = os.open(entry, os.O_RDONLY | NO_LINK)
    try:
        yield _lock(handle) is True
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file, which the system frees when the process ends, however it ends."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | NO_LINK, 0o666)
    try:
        # A lock whose file is gone was that of a run that has just ended.
        if _lock(handle) is False or not _is_at(handle, path):
            raise ClickvecError(f"{what} is in use by another process; wait for it or choose another --out")
        yield
    finally:
        os.close(handle)
