"""What clickvec writes to disk goes through here: folders and files that are replaced whole or not at all, and arrays.

A folder is written under a temporary name, synced, then put in place in one rename: a killed run leaves the old folder
or the new one. Nothing is unpickled, ever.
"""

import contextlib
import ctypes
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError

# The file that tells a folder of ours, and what the folder is.
_FOLDERS = {"config.json": "a model folder", "index.json": "an index folder", "data.json": "a data folder"}
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "|i1", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip


@contextlib.contextmanager
def replacing(path: Path, marker: str, names: Collection[str] = ()) -> Iterator[Path]:
    """A fresh folder to fill, which takes the place of `path` when all went well; else `path` stays as it was.

    `marker` is a file that tells a folder of ours: a folder without it is somebody else's, and is not replaced. Nor is
    one that holds anything but `names`, where they are given.
    """
    check_replaceable(path, marker, names)
    place = resolve(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    except OSError as error:
        raise cannot_write(path, error) from None
    try:
        yield fresh
        fresh.chmod(0o755)
        _sync_tree(fresh)
        _put_in_place(fresh, place)
    except Exception as error:
        if isinstance(error, OSError) or type(error).__name__ == "SafetensorError":
            raise cannot_write(path, error) from None
        raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def check_replaceable(path: Path, marker: str, names: Collection[str] = ()) -> None:
    """Refuse to replace what is not a folder of ours, or holds more than `names`."""
    if path.name in ("", ".."):
        raise ClickvecError(f"{path} is no name for a folder to write; choose another --out")
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


@contextlib.contextmanager
def replacing_file(path: Path) -> Iterator[BinaryIO]:
    """A fresh file to fill, which takes the place of `path` when all went well; else `path` stays as it was."""
    check_replaceable_file(path)
    place = resolve(path)
    fresh = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with fresh.open("wb") as file:
                yield file
            replace_file(place, fresh)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(path, error) from None


def check_replaceable_file(path: Path) -> None:
    """Refuse to replace a folder, a device or a pipe by a file."""
    if path.exists() and not path.is_file():
        raise ClickvecError(f"{path} is {'a folder' if path.is_dir() else 'no plain file'}; name a file to write")


def resolve(path: Path) -> Path:
    """Where a path leads: of a link to a folder, the folder is replaced, and not the link."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # Python 3.11 and 3.12 have RuntimeError for links in a circle
        raise ClickvecError(f"cannot write {path}: its links lead in a circle; choose another --out") from None


def cannot_write(path: Path, error: Exception) -> ClickvecError:
    """The error of a write that failed."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ClickvecError(f"cannot write {path}: {reason}; what was there before is unchanged")


def _put_in_place(fresh: Path, path: Path) -> None:
    """Rename `fresh` to `path`; where `path` exists the two are swapped, in one system call on Linux."""
    try:
        fresh.rename(path)
    except OSError:
        if not path.exists():
            raise
        if not _swap(fresh, path):
            aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
            path.rename(aside / path.name)
            try:
                fresh.rename(path)
            except OSError:
                (aside / path.name).rename(path)
                aside.rmdir()
                raise
            shutil.rmtree(aside, ignore_errors=True)
    _sync(path.parent)


def _swap(one: Path, other: Path) -> bool:
    """Exchange two paths atomically: renameat2 with RENAME_EXCHANGE, which Python does not offer."""
    with contextlib.suppress(OSError, AttributeError):
        at_cwd, exchange = -100, 2
        renameat2 = ctypes.CDLL(None).renameat2
        return bool(renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0)
    return False


def replace_file(path: Path, fresh: Path) -> None:
    """Put a finished file in the place of another, synced."""
    _sync(fresh)
    fresh.replace(path)
    _sync(path.parent)


def _sync_tree(folder: Path) -> None:
    for place in sorted(folder.rglob("*")):
        _sync(place)
    _sync(folder)


def _sync(path: Path) -> None:
    with contextlib.suppress(PermissionError):  # some systems do not open folders
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def made(folder: Path) -> Iterator[None]:
    """Make a folder; of those that were not there before, what is empty at the end is taken away again."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for place in missing:
            with contextlib.suppress(OSError):
                place.rmdir()


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file, which the system frees when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on this system: two runs into one folder are then the user's own affair
        yield
        return
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle.fileno()).st_ino != path.stat().st_ino:
                raise OSError  # the run that had it has just ended, and taken the file along
        except OSError:
            raise ClickvecError(f"{what} is in use by another process; wait for it or choose another --out") from None
        yield


# --- JSON, lines and arrays --------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    """JSON that a person can read."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file that makes its folder a `what`."""
    if not path.parent.exists():
        raise ClickvecError(f"there is no {what} at {path.parent}")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        for marker, kind in _FOLDERS.items():
            if (path.parent / marker).exists():
                raise ClickvecError(f"{path.parent} is {kind}; what is wanted here is the {what}") from None
        raise ClickvecError(f"{path.parent} is not a whole {what}: {path.name} is missing; make it again") from None
    except NotADirectoryError:
        raise ClickvecError(f"{path.parent} is a file and no {what}") from None
    except (ValueError, OSError) as error:
        raise ClickvecError(f"{path} cannot be read: {error}; copy or make it again") from None
    if not isinstance(value, dict):
        raise ClickvecError(f"{path} does not hold a JSON object; copy or make it again")
    return value


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """One string a line."""
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())


def read_lines(path: Path) -> list[str]:
    """The lines of a file; only a line feed ends one."""
    try:
        return _read(path).decode().split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise ClickvecError(f"{path} is damaged: {error}; copy or make it again") from None


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> None:
    """Arrays by name, as safetensors."""
    from safetensors.numpy import save_file

    path.touch()
    mode = path.stat().st_mode  # what the umask grants; safetensors makes a file that its owner alone can read
    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path, dict(metadata or {}))
    path.chmod(mode)


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file, mapped into memory and read-only."""
    header, start = _safetensors_header(path)
    arrays: dict[str, NDArray[Any]] = {}
    whole = np.memmap(path, np.uint8, "r")
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            first, last = entry["data_offsets"]
            dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
            if not 0 <= first <= last <= len(whole) - start:
                raise ValueError
            arrays[name] = whole[start + first : start + last].view(dtype).reshape(shape)
        except (KeyError, TypeError, ValueError):
            raise ClickvecError(f"{path} is truncated or damaged at {name}; copy or make it again") from None
    return arrays


def read_metadata(path: Path) -> dict[str, str]:
    """The strings stored beside the arrays of a safetensors file."""
    found = _safetensors_header(path)[0].get("__metadata__", {})
    return found if isinstance(found, dict) else {}


def _safetensors_header(path: Path) -> tuple[dict[str, Any], int]:
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 0 < size <= 100_000_000:
                raise ValueError
            header = json.loads(file.read(size))
            if not isinstance(header, dict):
                raise ValueError
    except FileNotFoundError:
        raise ClickvecError(f"{path.parent} is not whole: {path.name} is missing; copy or make it again") from None
    except (ValueError, OSError):
        raise ClickvecError(f"{path} is not a whole safetensors file; copy or make it again") from None
    return header, 8 + size


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ClickvecError(f"{path.parent} is not whole: {path.name} is missing; copy or make it again") from None
    except OSError as error:
        raise ClickvecError(f"{path} cannot be read: {error.strerror}") from None


def check_size(path: Path, size: int, record: str) -> None:
    """Refuse a file that is missing, or has not the size that the file `record` says."""
    try:
        found = path.stat().st_size
    except OSError:
        raise ClickvecError(f"{path.parent} is not whole: {path.name} is missing; copy or make it again") from None
    if found != size:
        raise ClickvecError(f"{path} has {found:,} bytes, {record} says {size:,}: copy or make it again")
