"""Encode titles into a file of vectors. Memory use is constant, and an interrupted run can be resumed.

During a run, the folder FILE.run holds
    vectors.npy   the rows so far; its header is written last
    state.json    the settings of the run, and how many rows are safely on disk
    lock          held by the process that writes
At the end the rows become FILE. If it ends in .parquet, ids and titles are written beside them.
"""

import dataclasses
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clickvec.data import BadLines, Columns, stream_title_blocks, stream_titles
from clickvec.data.columns import OWN_NAMES
from clickvec.data.lines import MAX_BAD
from clickvec.data.open_files import STDIN, name_of
from clickvec.errors import ClickvecError, Interrupted
from clickvec.model.encoder import BATCH_SIZE, Encoder, in_batches
from clickvec.model.shrink import VECTOR_TYPES, check_vector_type, shrink_vectors
from clickvec.model.threads import map_in_threads
from clickvec.progress import Progress, ignore
from clickvec.search import parquet
from clickvec.storage import files
from clickvec.storage.arrays import npy_header
from clickvec.storage.json_files import to_dataclass
from clickvec.storage.outputs import check_output_file, resolve
from clickvec.storage.snapshot import open_folder
from clickvec.storage.temporary import locked

SAVE_SECONDS = 2.0
_HEADER_BYTES = 128
_TEXT = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".gz")  # file endings that promise something else than vectors
_NAMES = ("lock", "vectors.npy", "state.json", "vectors.parquet")
_SETTINGS = {  # what a resumed run must have in common with the interrupted one
    "model": "another model",
    "titles": "other titles or columns",
    "queries": "the other tower",
    "vectors": "--vectors {}",
}


@dataclass(frozen=True)
class VectorFile:
    """What to encode, and where to write it."""

    out: Path
    titles: Path
    columns: Columns = OWN_NAMES
    queries: bool = False  # encode with the query tower
    vectors: str = "float32"  # number format: float32 or int8
    overwrite: bool = False
    resume: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the rows and the state during a run."""
        target = resolve(self.out)
        return target.with_name(f"{target.name}.run")

    @property
    def rows(self) -> Path:
        """The file of the rows so far."""
        return self.folder / "vectors.npy"

    @property
    def state(self) -> Path:
        """The file of the state."""
        return self.folder / "state.json"


@dataclass
class RunState:
    """The settings of a run and what it has written, as state.json holds them."""

    model: str  # the fingerprint
    titles: str | None  # hash of the file, and its columns; None for a pipe, which cannot be read again
    queries: bool
    vectors: str
    overwrite: bool  # whether the result may replace an existing file
    rows: int = 0
    zeros: int = 0  # rows of titles without a known trigram
    out_of_step: int | None = None  # the first line whose row number differs from its line number


def write_vectors(
    request: VectorFile,
    encoder: Encoder,
    *,
    max_bad: float = MAX_BAD,
    bad: BadLines | None = None,
    progress: Progress | None = None,
) -> RunState:
    """Encode the titles of a file and return what was written.

    A resumed run writes the same bytes as one that was never interrupted. Raise if more than `max_bad` of the lines
    are bad; `bad` collects them.
    """
    check_request(request)
    bad = BadLines() if bad is None else bad
    state = RunState(
        encoder.fingerprint, _hash(request.titles, request.columns), request.queries, request.vectors, request.overwrite
    )
    try:
        with locked(request.folder, str(request.out)):
            check_request(request)  # again: another run may have ended in between
            try:
                if request.resume:
                    _take_over(request, state, encoder.dimensions)
                else:
                    request.state.unlink(missing_ok=True)
                _encode(request, state, encoder, _texts(request, state, max_bad, bad), progress or ignore)
                _finish(request, state, encoder.dimensions)
            finally:
                if not request.state.exists():  # there is nothing to resume
                    shutil.rmtree(request.folder, ignore_errors=True)
    except KeyboardInterrupt:
        if not request.state.exists():
            raise
        raise Interrupted(f"stopped after {state.rows:,} titles; resume with --resume") from None
    except OSError as error:
        failed = files.cannot_write(request.out, error)
        raise ClickvecError(f"{failed}; resume with --resume") if request.state.exists() else failed from None
    return state


# --- before a run ------------------------------------------------------------------------------------------------


def check_request(request: VectorFile) -> None:
    """Refuse what cannot work, to overwrite a file without being asked, and to resume if there is nothing to resume."""
    out, titles = request.out, request.titles
    check_vector_type(request.vectors)
    check_output_file(out)
    if out.suffix in _TEXT:
        raise ClickvecError(f"vectors are written as .npy or .parquet, not as text; give {out} another ending")
    if parquet.wanted(out):
        parquet.check()
    is_regular = titles != STDIN and (not titles.exists() or titles.is_file())
    if (request.resume or parquet.wanted(out)) and not is_regular:
        raise ClickvecError(
            f"{name_of(titles)} is not a regular file, but --resume and Parquet read it twice; save it to a file first"
        )
    _check_folder(request.folder)
    saved = None if request.overwrite and not request.resume else _read_state(request)
    if request.resume and not saved:
        why = (
            f"{out} is finished"
            if out.exists()
            else f"{request.folder} holds no rows that are safe; start without --resume"
        )
        raise ClickvecError(f"there is nothing to resume: {why}")
    if saved and not request.resume:
        raise ClickvecError(
            f"{request.folder} holds an interrupted run; resume it with --resume, or start again with --overwrite"
        )
    if out.exists() and not request.overwrite and not (saved and saved.overwrite):
        raise ClickvecError(f"{out} already exists; choose another --out, or overwrite it with --overwrite")


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ClickvecError(f"{folder} is a file, but it is needed as a folder for the run; choose another --out")
    entries = sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []
    others = [name for name in entries if name not in _NAMES and not name.startswith(".")]
    if others:
        raise ClickvecError(
            f"{folder} holds {others[0]}, but it is needed for the run; move it away or choose another --out"
        )


def _read_state(request: VectorFile) -> RunState | None:
    """Return the state of an interrupted run, if there is one."""
    if not request.state.exists() or not request.rows.exists():
        return None
    try:
        with open_folder(request.folder, ["state.json"], "run of encode") as opened:
            state = to_dataclass(RunState, opened.json("state.json"))
        if not 0 <= state.zeros <= state.rows or state.vectors not in VECTOR_TYPES:
            raise ValueError("its numbers disagree")
    except (ValueError, ClickvecError) as error:
        raise ClickvecError(f"{request.state} is damaged ({error}); start again with --overwrite") from None
    return state


def _hash(titles: Path, columns: Columns) -> str | None:
    """Return a text that changes if the titles change, or if other columns of the file are read."""
    if titles == STDIN or not titles.is_file():
        return None
    with titles.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return digest if columns == OWN_NAMES else f"{digest} {dict(columns.names)} {columns.header}"


def _take_over(request: VectorFile, now: RunState, dimensions: int) -> None:
    """Continue with the rows of an interrupted run. Raise if its settings were different."""
    then = _read_state(request)
    if then is None or request.rows.stat().st_size < _end(then, dimensions):
        raise ClickvecError(f"{request.folder} is damaged: rows are missing; start again with --overwrite")
    for key, difference in _SETTINGS.items():
        if getattr(then, key) != getattr(now, key):
            raise ClickvecError(
                f"cannot resume {request.folder}: it was started with {difference.format(getattr(then, key))}; "
                "give the same, or start again with --overwrite"
            )
    now.overwrite |= then.overwrite
    now.rows, now.zeros = then.rows, then.zeros


# --- the run -----------------------------------------------------------------------------------------------------


def _encode(request: VectorFile, state: RunState, encoder: Encoder, titles: Iterator[str], progress: Progress) -> None:
    """Write the missing rows. A run resumes after a whole batch, so that a batch always has the same titles."""
    encode = encoder.encode_query if state.queries else encoder.encode_document
    batches = in_batches(islice(titles, state.rows, None), BATCH_SIZE)
    saved = time.monotonic()
    progress("encoding", state.rows, None)
    with files.open_to_write(request.rows, keep=state.rows > 0) as file:
        file.truncate(_end(state, encoder.dimensions))  # the rest was not safe
        file.seek(0, os.SEEK_END)
        try:
            for rows in map_in_threads(encode, batches):
                file.write(shrink_vectors(rows, state.vectors).data)
                state.rows += len(rows)
                state.zeros += int((~rows.any(axis=1)).sum())
                progress("encoding", state.rows, None)
                if time.monotonic() - saved >= SAVE_SECONDS:
                    _save(request, state, file)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            _save(request, state, file)
            raise
        progress("encoding", state.rows, state.rows)
        if parquet.wanted(request.out):
            _save(request, state, file)
        file.seek(0)
        file.write(npy_header(np.dtype(state.vectors), (state.rows, encoder.dimensions)))


def _texts(request: VectorFile, state: RunState, max_bad: float, bad: BadLines) -> Iterator[str]:
    """Yield the titles. Note the first line whose row number differs from its line number below the header."""
    row = 0
    for lines, texts in stream_title_blocks(request.titles, bad, max_bad, request.columns):
        below = 1 + bad.headers
        if state.out_of_step is None and lines and lines[-1] - below != row + len(lines) - 1:
            state.out_of_step = next(line for number, line in enumerate(lines, row) if line - below != number)
        row += len(lines)
        yield from texts


def _save(request: VectorFile, state: RunState, file: BinaryIO) -> None:
    """Sync the rows to disk, and only then record how many there are."""
    if state.titles is None or not state.rows:
        return
    file.flush()
    os.fsync(file.fileno())
    with files.replacing_path(request.state) as fresh:
        files.write_json(fresh, dataclasses.asdict(state))


def _finish(request: VectorFile, state: RunState, dimensions: int) -> None:
    """Move the result to its final name. From then on there is nothing to resume."""
    result = request.rows
    if parquet.wanted(request.out):
        result = request.folder / "vectors.parquet"
        titles = stream_titles(request.titles, BadLines(), 1.0, request.columns)
        with files.open_to_write(result) as file:
            parquet.write(file, titles, _read_rows(request.rows, state, dimensions))
    files.put_file(result, resolve(request.out))
    request.state.unlink(missing_ok=True)


def _read_rows(path: Path, state: RunState, dimensions: int) -> Iterator[NDArray[Any]]:
    """Yield the rows of a file in blocks. If the file were mapped, all of it would count as memory of the process."""
    row_bytes = dimensions * np.dtype(state.vectors).itemsize
    with path.open("rb") as file:
        file.seek(_HEADER_BYTES)
        while block := file.read(parquet.GROUP_ROWS * row_bytes):
            yield np.frombuffer(block, state.vectors).reshape(-1, dimensions)


def _end(state: RunState, dimensions: int) -> int:
    """Return the offset at which the rows of the file end."""
    return _HEADER_BYTES + state.rows * dimensions * np.dtype(state.vectors).itemsize
