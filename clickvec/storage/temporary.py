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

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_SUFFIX = ".partial"
_LONGEST_NAME = 200  # bytes of a name that fit into a temporary one; file systems allow 255
_STALE_SECONDS = 24 * 3600  # the age at which a leftover is removed where there are no locks


@contextlib.contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`, which only its owner can enter. On exit, remove it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    folder = path.with_name(f"{_prefix(path)}{secrets.token_hex(8)}{_SUFFIX}")
    folder.mkdir(mode=0o700)
    try:
        with _lock(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    """Create the folder of a run and lock it. Errors call what it locks `name`.

    The system releases the lock when the process ends in any way. On exit, remove the folder, and the parents that were
    created here, if they are empty.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / "lock", os.O_CREAT | os.O_RDWR) as is_locked:
            if is_locked is False:
                raise ClickvecError(f"{name} is in use by another process; wait for it or choose another --out")
            yield
    finally:
        for path in missing:
            with contextlib.suppress(OSError):
                path.rmdir()


@contextlib.contextmanager
def _lock(path: Path, flags: int = os.O_RDONLY) -> Iterator[bool | None]:
    """Lock a file or folder until the block or the process ends.

    Yield True on success, False if another process has locked it, and None if locks do not work here.
    """
    if fcntl is None:
        yield None
        return
    handle = os.open(path, flags | _NO_LINK, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked: bool | None = is_at(path, os.fstat(handle))  # else it was that of a run that has just ended
        except BlockingIOError:
            is_locked = False
        except OSError:  # some network file systems
            is_locked = None
        yield is_locked
    finally:
        os.close(handle)


def is_at(path: Path, status: os.stat_result) -> bool:
    """Return whether the file or folder with this status is still at `path`."""
    try:
        return os.path.samestat(os.stat(path), status)
    except FileNotFoundError:
        return False


def remove_leftovers(path: Path) -> None:
    """Remove the folders of killed runs that wrote `path`. If one had set the old version aside, restore it."""
    for entry in _temporaries(path):
        with contextlib.suppress(OSError), _lock(entry) as is_locked:
            if is_locked is None:
                is_locked = time.time() - entry.stat().st_mtime > _STALE_SECONDS
            if not is_locked:
                continue
            if not path.exists() and (entry / "old").exists():
                (entry / "old").rename(path)
            shutil.rmtree(entry, ignore_errors=True)


def set_aside(path: Path) -> Path | None:
    """Return the old version of a folder that a writer has set aside. Only systems without `_swap` ever have one."""
    candidates = (entry / "old" for entry in _temporaries(path))
    return next((old for old in candidates if old.exists()), None)


def _temporaries(path: Path) -> list[Path]:
    """Return the temporary folders for this path that belong to this user."""
    name = re.compile(re.escape(_prefix(path)) + "[0-9a-f]{16}" + re.escape(_SUFFIX))
    user = os.geteuid() if hasattr(os, "geteuid") else 0  # on Windows, all files belong to 0
    try:
        with os.scandir(path.parent) as entries:
            own = (entry for entry in entries if entry.stat(follow_symlinks=False).st_uid == user)
            return [Path(entry) for entry in own if name.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _prefix(path: Path) -> str:
    """Return what the temporary names for a path begin with."""
    name = path.name
    if len(os.fsencode(name)) > _LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f".{name}."
