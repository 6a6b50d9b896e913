"""One version of a model, index or data folder, opened whole.

A writer may replace the folder at any moment, by one rename (see `files.replacing`). So a reader opens the folder once,
and all of its files through that handle before it reads any of them: they belong to one version, and stay readable
until they are closed, even if the folder is replaced or removed. Links, devices and paths out of it are refused.
"""

import errno
import hashlib
import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.storage import arrays, json_files, temporary
from clickvec.storage.outputs import KINDS

PATIENCE_SECONDS = 10.0  # how long to try again while writers replace the folder
_SAMPLES, _SAMPLE_BYTES = 64, 4096
_USES_HANDLES = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")  # Windows has no handles of folders
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Snapshot:
    """Open files of one version of a folder, by their names in it."""

    def __init__(self, path: Path, handles: Mapping[str, BinaryIO]) -> None:
        """Use `open_folder`."""
        self.path, self._files = path, dict(handles)

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for file in self._files.values():
            file.close()

    def __contains__(self, name: str) -> bool:
        """Whether the folder has this file."""
        return name in self._files

    def folder(self, name: str) -> "Snapshot":
        """The files of a folder within this one; they are closed with this one."""
        inner = {key.removeprefix(f"{name}/"): file for key, file in self._files.items() if key.startswith(f"{name}/")}
        return Snapshot(self.path / name, inner)

    def file(self, name: str) -> BinaryIO:
        """An open file, at its beginning."""
        if name not in self._files:
            raise ClickvecError(f"{self.path} is not whole: {name} is missing; copy or make it again")
        self._files[name].seek(0)
        return self._files[name]

    def json(self, name: str) -> dict[str, Any]:
        """The JSON object in a file."""
        try:
            return json_files.read_json_object(self.file(name))
        except (ValueError, OSError) as error:
            raise ClickvecError(f"{self.path / name} cannot be read: {error}; copy or make it again") from None

    def text(self, name: str, max_bytes: int = json_files.MAX_BYTES) -> str:
        """The text of a file; none where the folder does not have it."""
        if name not in self:
            return ""
        data = self._read(name, max_bytes + 1)
        if len(data) > max_bytes:
            raise ClickvecError(f"{self.path / name} has more than {max_bytes:,} bytes; remove or replace it")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ClickvecError(f"{self.path / name} is damaged: {error}; copy or make it again") from None

    def lines(self, name: str) -> list[str]:
        """The lines of a file; only a line feed ends one."""
        self.file(name)
        return self.text(name, max_bytes=2**30).split("\n")[:-1]

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of a safetensors file, mapped into memory."""
        return arrays.read_arrays(self.file(name), str(self.path / name))

    def array(self, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """The array of an .npy file, mapped into memory, if it is of this type and shape."""
        return arrays.read_array(self.file(name), str(self.path / name), dtype, shape)

    def mapped(self, name: str) -> NDArray[Any]:
        """The bytes of a file, mapped into memory."""
        return arrays.map_file(self.file(name))

    def sha256(self, name: str) -> str:
        """The hash of all bytes of a file."""
        digest, file = hashlib.sha256(), self.file(name)
        while block := file.read(2**20):
            digest.update(block)
        return digest.hexdigest()

    def check(self, recorded: Mapping[str, Any], record: str) -> None:
        """Refuse files that are not those recorded in the file `record`, by size and, where recorded, by a sample."""
        for name, about in recorded.items():
            size = _size(self.file(name))
            if size != int(about["bytes"]):
                raise ClickvecError(
                    f"{self.path / name} has {size:,} bytes, {record} says {int(about['bytes']):,}: "
                    "copy or make it again"
                )
            if "sample" in about and about["sample"] != sample(self.file(name)):
                raise ClickvecError(
                    f"{self.path / name} is of another version than {record}; copy or make the whole folder again"
                )

    def _read(self, name: str, size: int) -> bytes:
        try:
            return self.file(name).read(size)
        except OSError as error:
            raise ClickvecError(f"{self.path / name} cannot be read: {error.strerror}") from None


def sample(file: BinaryIO) -> str:
    """Hash the size of a file and 64 blocks spread over it: cheap enough for every open, however large the file is.

    It tells the versions of a folder apart; `info --verify` reads every byte.
    """
    size = _size(file)
    digest = hashlib.sha256(size.to_bytes(8, "little"))
    last = max(0, size - _SAMPLE_BYTES)
    for start in sorted({last * block // (_SAMPLES - 1) for block in range(_SAMPLES)}):
        file.seek(start)
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:32]


def about_file(path: Path) -> dict[str, Any]:
    """Size and sample of a file that was just written."""
    with path.open("rb") as file:
        return {"bytes": _size(file), "sample": sample(file)}


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


# --- opening -----------------------------------------------------------------------------------------------------


def open_folder(path: Path, names: Sequence[str], what: str) -> Snapshot:
    """Open those of the files `names` that a folder has, all of one version; the first of them makes it a `what`.

    A name may have a folder in it: `model/config.json`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        handles: dict[str, BinaryIO] = {}
        try:
            whole = _open_all(path, names, what, handles)
        except BaseException:
            _close(handles)
            raise
        if whole and names[0] in handles:
            return Snapshot(path, handles)
        _close(handles)
        if whole and not temporary.is_being_replaced(path):
            raise _not_a(path, names[0], what)
        if time.monotonic() > deadline:
            raise ClickvecError(f"{path} is being replaced all the time, so that it cannot be opened; try again later")
        time.sleep(0.001)


def _open_all(path: Path, names: Sequence[str], what: str, handles: dict[str, BinaryIO]) -> bool:
    """Open the files into `handles`. False: the folder was replaced meanwhile, so that they may not belong together."""
    try:
        with _Folder(path) as folder:
            for name in names:
                file = folder.open(name)
                if file is not None:
                    handles[name] = file
            # A writer removes a version only after it has put another in its place. So if this is still the one at
            # `path`, all of it was there, and what is missing now was missing before.
            return folder.is_at(path)
    except FileNotFoundError:
        return True  # and nothing was opened
    except NotADirectoryError:
        raise ClickvecError(f"{path} is a file and no {what}") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ClickvecError(f"{path} cannot be opened: its links lead in a circle") from None
        raise ClickvecError(f"{path} cannot be read: {error.strerror or error}") from None


class _Folder:
    """A folder that is open: by a handle, which follows no rename, or on Windows by its name."""

    def __init__(self, path: Path) -> None:
        self._path, self._handle = path, os.open(path, os.O_RDONLY | os.O_DIRECTORY) if _USES_HANDLES else None
        try:
            self._is = _identity(os.stat(path if self._handle is None else self._handle))
            if self._handle is None and not path.is_dir():
                raise NotADirectoryError(path)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> "_Folder":
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def is_at(self, path: Path) -> bool:
        """Whether this is still the folder of that name."""
        try:
            return _identity(os.stat(path)) == self._is
        except FileNotFoundError:
            return False

    def open(self, name: str) -> BinaryIO | None:
        """A plain file in the folder, open for reading; None where there is none."""
        for place in (name.rpartition("/")[0], name):
            if not place:
                continue
            try:
                mode = os.stat(self._at(place), dir_fd=self._handle, follow_symlinks=False).st_mode
            except (FileNotFoundError, NotADirectoryError):
                return None
            if stat.S_ISLNK(mode):
                raise ClickvecError(f"{self._path / place} is a link; put the file itself in its place")
            if not (stat.S_ISREG(mode) if place == name else stat.S_ISDIR(mode)):
                raise ClickvecError(f"{self._path / place} is no plain {'file' if place == name else 'folder'}")
        try:
            handle = os.open(self._at(name), _FLAGS, dir_fd=self._handle)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(os.fstat(handle).st_mode):  # put there in between
            os.close(handle)
            raise ClickvecError(f"{self._path / name} is no plain file")
        return os.fdopen(handle, "rb")

    def _at(self, name: str) -> str | Path:
        return self._path / name if self._handle is None else name


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _close(handles: Mapping[str, BinaryIO]) -> None:
    for file in handles.values():
        file.close()


def _not_a(path: Path, marker: str, what: str) -> ClickvecError:
    """The error for a folder that lacks its marker."""
    if not path.exists():
        kept = temporary.set_aside(path)
        rest = f"; an interrupted run left it at {kept}: move it back" if kept else ""
        return ClickvecError(f"there is no {what} at {path}{rest}")
    for other, (_, kind) in KINDS.items():
        if (path / other).exists():
            return ClickvecError(f"{path} is {kind}; what is wanted here is the {what}")
    return ClickvecError(f"{path} is not a whole {what}: {marker} is missing; make it again")
