"""Write files and folders atomically.

A file or folder is written under a temporary name (see `temporary.py`), synced to disk, and then renamed into place. A
killed run leaves the old version or the new one, never a mixture. `snapshot.py` is the reader's side.
"""

import contextlib
import ctypes
import errno
import json
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from clickvec.errors import ClickvecError, DiskFullError, UnavailableError, is_disk_full
from clickvec.storage.outputs import check_output_file, check_outside, resolve
from clickvec.storage.temporary import temporary_folder

# --- atomic replacement ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path: Path, marker: str, names: Collection[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder that atomically replaces `path` on success. On error, `path` is unchanged.

    Refuse to replace a folder that lacks the file `marker`, since it is not ours, and one that holds anything but
    `names`, if they are given.
    """
    check_replaceable(path, marker, names)
    with filling(resolve(path), path) as fresh:
        yield fresh


@contextlib.contextmanager
def filling(target: Path, name: Path | None = None) -> Iterator[Path]:
    """Yield a temporary folder that atomically replaces `target` on success. Check nothing. Errors call it `name`."""
    try:
        with temporary_folder(target) as temporary:
            fresh = temporary / "new"
            fresh.mkdir()
            yield fresh
            for entry in (*sorted(fresh.rglob("*")), fresh):
                _sync(entry)
            _put_in_place(fresh, target)
    except OSError as error:
        raise cannot_write(name or target, error) from None


@contextlib.contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that atomically replaces `path` on success. On error, `path` is unchanged."""
    check_output_file(path)
    target = resolve(path)
    try:
        with temporary_folder(target) as folder:
            yield folder / target.name
            _sync(folder / target.name)
            (folder / target.name).replace(target)
            _sync(target.parent)
    except OSError as error:
        raise cannot_write(path, error) from None


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """Do the same as `replacing_path`, but yield the open file."""
    with replacing_path(path) as fresh, fresh.open("w+b") as file:
        yield file


def check_replaceable(path: Path, marker: str, names: Collection[str] = ()) -> None:
    """Refuse to replace what is not a folder of ours, or one that holds more than `names`."""
    if path.name in ("", ".."):
        raise ClickvecError(f"{path} cannot be the name of a new folder; choose another --out")
    check_outside(path)
    if path.is_dir():
        entries = sorted(entry.name for entry in path.iterdir())
        if entries and marker not in entries:
            raise ClickvecError(f"{path} is a folder with other files in it (no {marker}); choose another --out")
        others = [name for name in entries if names and name not in names]
        if others:
            raise ClickvecError(
                f"{path} holds {others[0]}, which clickvec did not write; move it away or choose another --out"
            )
    elif path.exists():
        raise ClickvecError(f"{path} is a file, but the output is a folder; choose another --out")


def cannot_write(path: Path, error: OSError) -> ClickvecError:
    """Return the error for a failed write."""
    kind = DiskFullError if is_disk_full(error) else UnavailableError
    return kind(f"cannot write {path}: {error.strerror or error}; what was there before is unchanged")


def _put_in_place(fresh: Path, path: Path) -> None:
    """Rename `fresh` to `path`. If `path` exists, swap the two, in one system call on Linux and macOS."""
    try:
        fresh.rename(path)
    except OSError:
        if not path.exists():
            raise
        if not _swap(fresh, path):
            old = fresh.with_name("old")  # `remove_leftovers` restores it if this process is killed now
            path.rename(old)
            try:
                fresh.rename(path)
            except OSError:
                old.rename(path)
                raise
    _sync(path.parent)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two paths atomically, by a system call that Python lacks. Return False if the system lacks it too."""
    at_cwd, exchange = -100, 2
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows
        return False
    first, second = os.fsencode(one), os.fsencode(other)
    if hasattr(library, "renameat2"):  # Linux
        return bool(library.renameat2(at_cwd, first, at_cwd, second, exchange) == 0)
    if hasattr(library, "renamex_np"):  # macOS
        return bool(library.renamex_np(first, second, exchange) == 0)
    return False


def _sync(path: Path) -> None:
    """Wait until a file or folder is on disk. Ignore systems that cannot sync folders."""
    is_folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)  # Windows syncs only what is open for writing
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if not is_folder or error.errno not in (errno.EACCES, errno.EPERM, errno.EBADF, errno.EINVAL):
            raise


# --- JSON and lines ----------------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    """Write indented JSON. Where a text has half of a surrogate pair, which UTF-8 has not, it is all ASCII."""
    try:
        data = json.dumps(value, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        data = json.dumps(value, indent=2).encode()
    path.write_bytes(data + b"\n")


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write one string per line."""
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
