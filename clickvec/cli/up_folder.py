"""The folder of `clickvec up`: its files, which stages are done, and which process uses it.

`up.json` holds for each finished stage what it depended on: hashes of the bytes of its inputs, its settings and the
formats of its files. A stage is done if all of them are still the same and its result is there. The record of a stage
is removed before the stage runs and written after it, both atomically, so that a killed stage is not taken for done.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.errors import ClickvecError
from clickvec.storage.files import replacing_file
from clickvec.storage.json_files import parse_json
from clickvec.storage.lock import Lock, lock_holder, take_lock
from clickvec.storage.outputs import check_output

FORMAT = 1
STATE = "up.json"

Inputs = Mapping[str, str]  # what a stage depends on, by the name that messages use


class Told(NamedTuple):
    """What a stage tells the user: a paragraph, and a table with a header."""

    text: str
    table: Sequence[Sequence[str]] = ()


class Record(NamedTuple):
    """A finished stage."""

    inputs: dict[str, str]
    told: Told
    seconds: float
    result: Any  # what identifies the result, if others may change it later


class UpFolder:
    """The paths in the folder, and its state. Make it with `opened`, which locks the folder."""

    def __init__(self, path: Path, lock: Lock) -> None:
        self.path, self.lock = path, lock
        self.site, self.data, self.titles = path / "site", path / "data", path / "titles.jsonl"
        self.model, self.index, self.about = path / "model", path / "index", path / "about"
        state = _read(path)
        self._stages: dict[str, Any] = state["stages"]
        self.logs: list[str] = state.get("logs") or []  # the logs of the last run, as absolute paths
        self._address: str | None = None
        self._write()

    def use_for(self, logs: Sequence[Path], is_chosen: bool) -> None:
        """Remember the logs. Refuse a folder of other logs unless the user has chosen it."""
        paths = [os.fsencode(path.absolute()).decode(errors="replace") for path in logs]
        if self._stages and self.logs != paths and not is_chosen:
            of = f"of {self.logs[0]}" if self.logs else "of the built-in log"
            raise ClickvecError(
                f"{self.path} is the folder {of}; choose another one with --out, or this one to replace it"
            )
        self.logs = paths
        self._write()

    def record(self, stage: str) -> Record | None:
        """Return what is known of a finished stage."""
        stored = self._stages.get(stage)
        if stored is None:
            return None
        return Record(stored["inputs"], Told(*stored["told"]), stored["seconds"], stored["result"])

    def begin(self, stage: str) -> None:
        """Forget a stage before its result is replaced."""
        if self._stages.pop(stage, None) is not None:
            self._write()

    def finish(self, stage: str, record: Record) -> None:
        """Remember a finished stage."""
        self._stages[stage] = record._asdict()
        self._write()

    def serve_at(self, address: str) -> None:
        """Tell other processes the address of the page, and keep the lock when this process becomes the service."""
        self._address = address
        self._write()
        self.lock.keep_on_exec()

    def remove_if_empty(self) -> None:
        """Remove the folder if no stage has finished and nothing else is in it."""
        if not self._stages and not {*os.listdir(self.path)} - {STATE, "lock"}:
            for name in (STATE, "lock"):
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()

    def _write(self) -> None:
        state = {"format": FORMAT, "logs": self.logs, "address": self._address, "stages": self._stages}
        with replacing_file(self.path / STATE) as file:
            file.write((json.dumps(state, indent=2) + "\n").encode())


@contextlib.contextmanager
def opened(path: Path, reads: Iterable[Path | None]) -> Iterator[UpFolder]:
    """Create or open the folder and lock it. Refuse a folder with other files, and one that is in use."""
    check_output(path, reads)
    if path.exists() and not path.is_dir():
        raise ClickvecError(f"{path} is a file, and up writes a folder; choose another --out")
    if path.is_dir() and not (path / STATE).exists():
        others = sorted(name for name in os.listdir(path) if name != "lock" and not name.startswith(f".{STATE}."))
        if others:
            raise ClickvecError(f"{path} holds {others[0]}, which up did not write; choose another --out")
    path.mkdir(parents=True, exist_ok=True)
    lock = take_lock(path)
    if lock is None:
        raise ClickvecError(_in_use(path))
    with lock:
        folder = UpFolder(path, lock)
        try:
            yield folder
        finally:
            folder.remove_if_empty()


def _in_use(path: Path) -> str:
    address = None
    with contextlib.suppress(ClickvecError):
        address = _read(path).get("address")
    by = lock_holder(path)
    if address:
        return f"{path} is served at {address} already, by {by}; stop it with Ctrl-C, or choose another --out"
    return f"{path} is in use by {by}; wait for it, or choose another --out"


def _read(path: Path) -> dict[str, Any]:
    """Read the state; that of a new folder if there is none."""
    file = path / STATE
    try:
        state: dict[str, Any] = parse_json(file.read_bytes())
    except FileNotFoundError:
        return {"format": FORMAT, "stages": {}}
    except ValueError as error:
        raise ClickvecError(f"{file} is damaged: {error}; delete it, and all stages are done again") from None
    number = state.get("format") if isinstance(state, dict) else None
    if number != FORMAT:
        raise ClickvecError(f"{file} has format {number}, and this clickvec reads {FORMAT}; choose another --out")
    if not isinstance(state.get("stages"), dict) or not all(map(_is_record, state["stages"].values())):
        raise ClickvecError(f"{file} is damaged: stages; delete it, and all stages are done again")
    return state


def _is_record(value: object) -> bool:
    return isinstance(value, dict) and set(Record._fields) <= set(value) and isinstance(value["inputs"], dict)


# --- what a stage depends on -------------------------------------------------------------------------------------


def hash_files(paths: Iterable[Path]) -> str:
    """Return a hash of the bytes of files, and of all files below folders. Their names count by their endings."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in below:
            if path.is_dir() and not file.is_file():
                continue
            digest.update("".join(file.suffixes).lower().encode(errors="surrogateescape") + b"\0")
            digest.update(_hash_file(file))
    return digest.hexdigest()


def hash_value(value: object) -> str:
    """Return a hash of plain values."""
    return hashlib.blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=16).hexdigest()


def check_file(path: Path) -> None:
    """Refuse a file that is missing, and what can be read only once, such as a pipe."""
    if not path.exists():
        raise ClickvecError(f"{path} does not exist; check the name")
    if not path.is_file():
        raise ClickvecError(f"{path} is not a regular file; up reads it several times, so save it to a file first")


def _hash_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).digest()
    except OSError as error:
        raise ClickvecError(f"{path} cannot be read: {error.strerror or error}") from None
