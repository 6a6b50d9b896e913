"""Read one consistent version of a model, index or data folder.

A writer may replace the folder at any moment by one rename (see `files.replacing`). So a reader opens all files before
it reads any of them, and checks then that the folder was not replaced meanwhile. They belong to one version and stay
readable until they are closed, even if the folder is replaced or removed. It refuses links, devices and outside paths.
"""

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from clickvec.errors import ClickvecError, UnavailableError
from clickvec.storage import arrays, json_files, temporary
from clickvec.storage.outputs import KINDS

PATIENCE_SECONDS = 10.0  # how long to retry while writers replace the folder
_SAMPLES, _SAMPLE_BYTES = 64, 4096
_USES_HANDLES = hasattr(os, "O_DIRECTORY")  # Windows cannot open a folder, and does not reuse its number
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Snapshot:
    """Open files of one version of a folder, by their names in it."""

    def __init__(self, path: Path, files: Mapping[str, BufferedReader]) -> None:
        """Use `open_folder`."""
        self.path, self._files = path, files

    def __contains__(self, name: str) -> bool:
        """Return whether the folder has this file."""
        return name in self._files

    def folder(self, name: str) -> "Snapshot":
        """Return the files of a folder inside this one. They are closed together with this one."""
        inner = {key.removeprefix(f"{name}/"): file for key, file in self._files.items() if key.startswith(f"{name}/")}
        return Snapshot(self.path / name, inner)

    def file(self, name: str) -> BufferedReader:
        """Return an open file, positioned at its beginning. Raise if the folder does not have it."""
        if name not in self._files:
            raise UnavailableError(f"{self.path} is incomplete: {name} is missing; copy or make it again")
        self._files[name].seek(0)
        return self._files[name]

    def json(self, name: str) -> dict[str, Any]:
        """Return the JSON object in a file."""
        try:
            return json_files.read_json_object(self.file(name))
        except (ValueError, OSError) as error:
            raise UnavailableError(f"{self.path / name} cannot be read: {error}; copy or make it again") from None

    def text(self, name: str, max_bytes: int = json_files.MAX_BYTES) -> str:
        """Return the text of a file, or nothing if the folder does not have it."""
        if name not in self:
            return ""
        try:
            data = self.file(name).read(max_bytes + 1)
            if len(data) > max_bytes:
                raise ValueError(f"it has more than {max_bytes:,} bytes")
            return data.decode()
        except (ValueError, OSError) as error:
            raise UnavailableError(f"{self.path / name} cannot be read: {error}; copy or make it again") from None

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file. Only a line feed ends a line."""
        self.file(name)
        return self.text(name, max_bytes=2**30).split("\n")[:-1]

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of a safetensors file, memory-mapped."""
        return arrays.read_arrays(self.file(name), str(self.path / name))

    def array(self, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the array of an .npy file, memory-mapped. Raise if its type or shape is another one."""
        return arrays.read_array(self.file(name), str(self.path / name), dtype, shape)

    def sha256(self, name: str) -> str:
        """Return the hash of all bytes of a file."""
        return hashlib.file_digest(self.file(name), "sha256").hexdigest()

    def check(self, recorded: Mapping[str, Any], record: str) -> None:
        """Raise if a file differs in size or sample from what the file `record` says (see `describe_file`)."""
        for name, expected in recorded.items():
            size = _size(self.file(name))
            if size != int(expected["bytes"]):
                raise UnavailableError(
                    f"{self.path / name} has {size:,} bytes, {record} says {int(expected['bytes']):,}: "
                    "copy or make it again"
                )
            if "sample" in expected and expected["sample"] != sample(self.file(name)):
                raise UnavailableError(
                    f"{self.path / name} is from another version than {record}; copy or make the whole folder again"
                )


def sample(file: BufferedReader) -> str:
    """Return a hash of the size of a file and of 64 blocks spread over it.

    It tells versions of a folder apart, and is cheap enough for every open of a large file. `info --verify` reads
    every byte.
    """
    size = _size(file)
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    last = max(0, size - _SAMPLE_BYTES)
    for start in sorted({last * block // (_SAMPLES - 1) for block in range(_SAMPLES)}):
        file.seek(start)
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:32]


def describe_file(path: Path) -> dict[str, Any]:
    """Return the size and the sample of a file, as a folder records them."""
    with path.open("rb") as file:
        return {"bytes": _size(file), "sample": sample(file)}


def _size(file: BufferedReader) -> int:
    return os.fstat(file.fileno()).st_size


# --- opening -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_folder(path: Path, names: Sequence[str], kind: str) -> Iterator[Snapshot]:
    """Yield those of the files `names` that a folder has, open and all of one version. On exit, close them.

    A name may contain a folder, such as `model/config.json`. The first name marks a folder of this `kind`: raise if it
    is missing.
    """
    with contextlib.ExitStack() as opened:
        yield Snapshot(path, _open_files(path, names, kind, opened))


def _open_files(path: Path, names: Sequence[str], kind: str, opened: contextlib.ExitStack) -> dict[str, BufferedReader]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        files = _open_version(path, names, opened)
        if files and names[0] in files:
            return files
        opened.close()
        is_late = time.monotonic() > deadline
        may_be_back = temporary.set_aside(path) is not None or (path / names[0]).exists()
        if files is not None and (is_late or not may_be_back):
            raise _not_a(path, names[0], kind)
        if is_late:
            raise UnavailableError(f"{path} cannot be opened because it is replaced all the time; try again later")
        time.sleep(0.001)


def _open_version(path: Path, names: Sequence[str], opened: contextlib.ExitStack) -> dict[str, BufferedReader] | None:
    """Return the open files, or None if the folder was replaced meanwhile, so that they may not belong together."""
    try:
        status = _pin(path, opened)
        files = {name: opened.enter_context(file) for name in names if (file := _open_file(path, name))}
        # A writer removes the old version only after the new one is in place. So if `path` is still this folder,
        # none of its files was removed, and those that are missing were never there.
        return files if temporary.is_at(path, status) else None
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror or error}") from None


def _pin(path: Path, opened: contextlib.ExitStack) -> os.stat_result:
    """Return the status of a folder. Keep it open: until then, no other folder can get its inode number."""
    if not _USES_HANDLES:
        return os.stat(path)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    opened.callback(os.close, handle)
    return os.fstat(handle)


def _open_file(folder: Path, name: str) -> BufferedReader | None:
    """Open a regular file of a folder for reading. Return None if there is none; refuse links, devices and pipes."""
    path = folder / name
    try:
        for part in (path, *path.parents[: name.count("/")]):
            if part.is_symlink():
                raise UnavailableError(f"{part} is a link; replace it by the file itself")
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnavailableError(f"{path} is not a regular file")
        return os.fdopen(os.open(path, _FLAGS), "rb")
    except (FileNotFoundError, NotADirectoryError):
        return None


_CURES = {  # by the marker of a folder and the kind that was expected
    ("config.json", "index folder"): "; build one with: clickvec index MODEL CATALOGUE --out INDEX",
    ("data.json", "index folder"): "; train a model on it first: clickvec train",
    ("data.json", "model folder"): "; train a model on it: clickvec train",
}


def _not_a(path: Path, marker: str, kind: str) -> ClickvecError:
    """Return the error for a folder that lacks its marker."""
    if not path.exists():
        old = temporary.set_aside(path)
        cure = f"; an interrupted run left it at {old}: move it back" if old else ""
        return UnavailableError(f"there is no {kind} at {path}{cure}")
    if not path.is_dir():
        return UnavailableError(f"{path} is a file; expected: {kind}")
    if (path / "up.json").is_file():
        return UnavailableError(
            f"{path} is the folder of clickvec up; expected: {kind}. Its index is {path / 'index'} and its model "
            f"{path / 'model'}"
        )
    for other, (_, other_kind) in KINDS.items():
        if (path / other).exists():
            cure = _CURES.get((other, kind), "")
            return UnavailableError(f"{path} is {other_kind}; expected: {kind}{cure}")
    return UnavailableError(f"{path} is not a complete {kind}: {marker} is missing; make it again")
