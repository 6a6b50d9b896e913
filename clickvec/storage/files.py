"""Write folders and files whole or not at all.

A folder or file is written under a temporary name (see `temporary.py`), synced, and then renamed into place: a killed
run leaves the old version or the new one. `snapshot.py` has the reader's side.
"""

import contextlib
import ctypes
import errno
import json
import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from clickvec.errors import ClickvecError
from clickvec.storage.outputs import check_output_file, check_outside, resolve
from clickvec.storage.temporary import NEW_FILE, NO_LINK, create, new_file, remove_leftovers, temporary_folder

# --- whole folders and files -------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path: Path, marker: str, names: Collection[str] = ()) -> Iterator[Path]:
    """Yield a new folder that atomically replaces `path` on success. On error, `path` is unchanged.

    A folder without the file `marker` is not ours, and is not replaced. Nor is one that holds anything but `names`,
    where they are given.
    """
    check_replaceable(path, marker, names)
    place = resolve(path)
    try:
        with temporary_folder(place) as temporary:
            fresh = temporary / "new"
            fresh.mkdir()
            yield fresh
            _sync_tree(fresh)
            _put_in_place(fresh, place)
    except Exception as error:
        if isinstance(error, OSError) or type(error).__name__ == "SafetensorError":
            raise cannot_write(path, error) from None
        raise


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a new file that atomically replaces `path` on success. On error, `path` is unchanged."""
    check_output_file(path)
    place = resolve(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(place)
        fresh, handle = create(place, new_file)
        try:
            with os.fdopen(handle, "r+b") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if os.name == "nt":  # which renames no open file
                    file.close()
                fresh.replace(place)
            _sync(place.parent)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None


@contextlib.contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """As `replacing_file`, for what can only be written by name: yield a path in a private folder."""
    place = resolve(path)
    try:
        with temporary_folder(place) as folder:
            yield folder / place.name
            put_file(folder / place.name, place)
    except Exception as error:
        if isinstance(error, OSError) or type(error).__name__ == "SafetensorError":
            raise cannot_write(path, error) from None
        raise


def put_file(fresh: Path, path: Path) -> None:
    """Rename a finished file to its place, synced."""
    _sync(fresh)
    fresh.replace(path)
    _sync(path.parent)


def check_replaceable(path: Path, marker: str, names: Collection[str] = ()) -> None:
    """Refuse to replace what is not a folder of ours, or holds more than `names`."""
    if path.name in ("", ".."):
        raise ClickvecError(f"{path} is no name for a folder to write; choose another --out")
    check_outside(path)
    if path.is_dir():
        found = sorted(entry.name for entry in path.iterdir())
        if found and marker not in found:
            raise ClickvecError(f"{path} is a folder with other things in it (no {marker}); choose another --out")
        others = [name for name in found if names and name not in names]
        if others:
            raise ClickvecError(
                f"{path} holds {others[0]}, which clickvec did not put there; move it away or choose another --out"
            )
    elif path.exists():
        raise ClickvecError(f"{path} is a file, and a folder is to be written there; choose another --out")


def cannot_write(path: Path, error: Exception) -> ClickvecError:
    """The error of a write that failed."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ClickvecError(f"cannot write {path}: {reason}; what was there before is unchanged")


def _put_in_place(fresh: Path, path: Path) -> None:
    """Rename `fresh` to `path`; where `path` exists the two are swapped, in one system call on Linux and macOS."""
    try:
        fresh.rename(path)
    except OSError:
        if not path.exists():
            raise
        if not _swap(fresh, path):
            old = fresh.with_name("old")  # where `remove_leftovers` finds it if this process is killed now
            path.rename(old)
            try:
                fresh.rename(path)
            except OSError:
                old.rename(path)
                raise
    _sync(path.parent)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two paths atomically, by a system call that Python does not offer; False where there is none."""
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


def _sync_tree(folder: Path) -> None:
    for place in sorted(folder.rglob("*")):
        _sync(place)
    _sync(folder)


def _sync(path: Path) -> None:
    """Have a file or folder on the disk before going on; not every system can do that for folders."""
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


# --- folders that stay while a run goes on -----------------------------------------------------------------------


@contextlib.contextmanager
def made(folder: Path) -> Iterator[None]:
    """Create a folder and its parents. On exit, remove the ones created here that are still empty."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for place in missing:
            with contextlib.suppress(OSError):
                place.rmdir()


def open_to_write(path: Path, *, keep: bool = False) -> BinaryIO:
    """Open a file of a run for writing, without following a link; with `keep` the one that is there goes on."""
    if not keep:
        path.unlink(missing_ok=True)
    flags = os.O_RDWR | NO_LINK | getattr(os, "O_BINARY", 0) if keep else NEW_FILE
    return os.fdopen(os.open(path, flags, 0o666), "r+b")


# --- JSON and lines, in a folder that is being written -----------------------------------------------------------


def as_json(value: object) -> str:
    """JSON that a person can read."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write_json(path: Path, value: object) -> None:
    """Write JSON that a person can read."""
    path.write_text(as_json(value), encoding="utf-8")


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write one string a line."""
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
