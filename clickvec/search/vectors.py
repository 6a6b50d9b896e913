"""The vectors of titles in a file, written as they come: memory stays flat, and a run that was stopped can go on.

While a run goes on, the folder FILE.run holds
    vectors.npy   the rows that are there so far; its header comes last
    state.json    what the run was begun with, and how many rows are safely on disk
    lock          held by the process that writes
At the end the rows become FILE: as they are, or, where it ends in .parquet, beside the ids and titles.
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
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.data import BadLines, Columns, parquet, stream_title_blocks, stream_titles
from clickvec.data.columns import OWN_NAMES
from clickvec.data.lines import MAX_BAD, STDIN, name_of
from clickvec.errors import ClickvecError, Interrupted
from clickvec.model.encoder import BATCH_SIZE, Encoder, in_batches
from clickvec.model.shrink import PRECISIONS, check, shrink_vectors
from clickvec.model.threads import map_in_threads
from clickvec.progress import Progress, ignore
from clickvec.storage import files
from clickvec.storage.json_files import to_dataclass
from clickvec.storage.outputs import check_output_file, resolve
from clickvec.storage.snapshot import open_folder
from clickvec.storage.temporary import locked

SAVE_SECONDS = 2.0
_HEADER_BYTES = 128
_TEXT = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".gz")  # what would hold other bytes than its name says
_NAMES = ("lock", "vectors.npy", "state.json", "state.tmp", "vectors.parquet")  # state.tmp: of earlier versions
_BEGUN_WITH = {
    "model": "another model",
    "titles": "other titles or columns",
    "queries": "the other tower",
    "vectors": "--vectors {}",
}


@dataclass
class _State:
    """What a run was begun with, and how far it is."""

    model: str  # the fingerprint
    titles: str | None  # the hash of the file, and its columns; none for a pipe, which nobody can read again
    queries: bool  # whether the query tower reads them
    vectors: str  # float32, float16 or int8
    overwrite: bool  # whether the result may take the place of what is there
    rows: int = 0
    zeros: int = 0  # of the rows
    out_of_step: int | None = None  # a line


class Written(NamedTuple):
    """What a run wrote."""

    rows: int
    zeros: int  # the rows of titles without a trigram that the model knows
    out_of_step: int | None  # the first line whose row is not its number: lines before it have no row


class _Place:
    """Where the result of a run goes, and where its state is."""

    def __init__(self, out: Path) -> None:
        self.out, self.final = out, resolve(out)
        self.folder = self.final.with_name(f"{self.final.name}.run")
        self.rows, self.state = self.folder / "vectors.npy", self.folder / "state.json"

    def saved(self) -> _State | None:
        """The state of an unfinished run, if there is one."""
        if not self.state.exists() or not self.rows.exists():
            return None
        try:
            with open_folder(self.folder, ["state.json"], "run of encode") as opened:
                state = to_dataclass(_State, opened.json("state.json"))
            if not 0 <= state.zeros <= state.rows or state.vectors not in PRECISIONS:
                raise ValueError("its numbers disagree")
        except (ValueError, ClickvecError) as error:
            raise ClickvecError(f"{self.state} is damaged ({error}); start again with --overwrite") from None
        return state


def write_vectors(
    out: Path,
    encoder: Encoder,
    titles: Path,
    *,
    queries: bool = False,
    precision: str = "float32",
    resume: bool = False,
    overwrite: bool = False,
    max_bad: float = MAX_BAD,
    bad: BadLines | None = None,
    columns: Columns = OWN_NAMES,
    progress: Progress | None = None,
) -> Written:
    """Encode the titles of a file into `out`, by the query tower if so told.

    With `resume` an unfinished run goes on, and gives the bytes that it would have given uninterrupted.
    """
    check_call(out, titles, precision, resume, overwrite)
    place, bad = _Place(out), BadLines() if bad is None else bad
    state = _State(encoder.fingerprint, _name(titles, columns), queries, precision, overwrite)
    try:
        with files.ensured_folder(place.folder), locked(place.folder / "lock", str(out)):
            check_call(out, titles, precision, resume, overwrite)  # again: another run may have ended in between
            try:
                if resume:
                    _take_over(place, state, encoder.dimensions)
                else:
                    place.state.unlink(missing_ok=True)
                _encode(place, state, encoder, _texts(titles, state, max_bad, bad, columns), progress or ignore)
                _finish(place, state, titles, columns, encoder.dimensions)
            finally:
                if not place.state.exists():  # there is nothing to go on with
                    shutil.rmtree(place.folder, ignore_errors=True)
    except KeyboardInterrupt:
        if not place.state.exists():
            raise
        raise Interrupted(f"stopped after {state.rows:,} titles; go on with --resume") from None
    except OSError as error:
        failed = files.cannot_write(out, error)
        raise ClickvecError(f"{failed}; go on with --resume") if place.state.exists() else failed from None
    return Written(state.rows, state.zeros, state.out_of_step)


# --- before a run ------------------------------------------------------------------------------------------------


def check_call(out: Path, titles: Path, precision: str, resume: bool, overwrite: bool) -> None:
    """Refuse what cannot be done, to replace what is there unasked, and to go on where nothing was begun."""
    check(precision, "vectors")
    check_output_file(out)
    if out.suffix in _TEXT:
        raise ClickvecError(f"vectors are written as .npy or .parquet, not as text; give {out} another ending")
    if parquet.wanted(out):
        parquet.check()
    if (resume or parquet.wanted(out)) and (titles == STDIN or (titles.exists() and not titles.is_file())):
        raise ClickvecError(
            f"{name_of(titles)} is no plain file, and --resume and Parquet have to read it twice; save it first"
        )
    place = _Place(out)
    _check_folder(place.folder)
    saved = None if overwrite and not resume else place.saved()
    if resume and not saved:
        why = (
            f"{out} is finished"
            if out.exists()
            else f"{place.folder} holds no rows that are safe; start without --resume"
        )
        raise ClickvecError(f"there is nothing to resume: {why}")
    if saved and not resume:
        raise ClickvecError(
            f"{place.folder} holds an unfinished run; go on with --resume or start again with --overwrite"
        )
    if out.exists() and not overwrite and not (saved and saved.overwrite):
        raise ClickvecError(f"{out} is there already; choose another --out, or replace it with --overwrite")


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ClickvecError(f"{folder} is a file, and the state of a run is kept there; choose another --out")
    found = sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []
    others = [name for name in found if name not in _NAMES and not name.startswith(".")]
    if others:
        raise ClickvecError(
            f"{folder} holds {others[0]}, and the state of a run is kept there; move it away or choose another --out"
        )


def _name(titles: Path, columns: Columns) -> str | None:
    """A name for the titles that changes when they do, or when other columns of the file are read."""
    if titles == STDIN or not titles.is_file():
        return None
    with titles.open("rb") as file:
        name = hashlib.file_digest(file, "sha256").hexdigest()
    return name if columns == OWN_NAMES else f"{name} {dict(columns.names)} {columns.header}"


def _take_over(place: _Place, now: _State, dimensions: int) -> None:
    """Go on with the rows of an unfinished run, if it was begun with the same."""
    then = place.saved()
    if then is None or place.rows.stat().st_size < _end(then, dimensions):
        raise ClickvecError(f"{place.folder} is damaged: it has fewer rows than it says; start again with --overwrite")
    for key, what in _BEGUN_WITH.items():
        if getattr(then, key) != getattr(now, key):
            raise ClickvecError(
                f"cannot resume {place.folder}: it was begun with {what.format(getattr(then, key))}; give the same, or "
                "start again with --overwrite"
            )
    now.overwrite |= then.overwrite
    now.rows, now.zeros = then.rows, then.zeros


# --- the run -----------------------------------------------------------------------------------------------------


def _encode(place: _Place, state: _State, encoder: Encoder, titles: Iterator[str], progress: Progress) -> None:
    """Write the rows that are missing. A run goes on after a whole batch, so a batch always has the same titles."""
    encode = encoder.encode_query if state.queries else encoder.encode_document
    texts = islice(titles, state.rows, None)
    saved = time.monotonic()
    progress("encoding", state.rows, None)
    with files.open_to_write(place.rows, keep=state.rows > 0) as file:
        file.truncate(_end(state, encoder.dimensions))  # what is beyond was not safe
        file.seek(0, os.SEEK_END)
        try:
            for rows in map_in_threads(encode, in_batches(texts, BATCH_SIZE)):
                file.write(shrink_vectors(rows, state.vectors).data)
                state.rows += len(rows)
                state.zeros += int((~rows.any(axis=1)).sum())
                progress("encoding", state.rows, None)
                if time.monotonic() - saved >= SAVE_SECONDS:
                    _save(place, state, file)
                    saved = time.monotonic()
        except KeyboardInterrupt:
            _save(place, state, file)
            raise
        progress("encoding", state.rows, state.rows)
        if parquet.wanted(place.out):
            _save(place, state, file)
        file.seek(0)
        file.write(_header(state, encoder.dimensions))


def _texts(titles: Path, state: _State, max_bad: float, bad: BadLines, columns: Columns) -> Iterator[str]:
    """The titles from the first on; notes the first whose row is not its line, counted from 0 below the header."""
    row = 0
    for lines, texts in stream_title_blocks(titles, bad, max_bad, columns):
        below = 1 + bad.headers
        if state.out_of_step is None and lines and lines[-1] - below != row + len(lines) - 1:
            state.out_of_step = next(line for place, line in enumerate(lines) if line - below != row + place)
        row += len(lines)
        yield from texts


def _save(place: _Place, state: _State, file: BinaryIO) -> None:
    """Make the rows safe, and only then say so."""
    if state.titles is None or not state.rows:
        return
    file.flush()
    os.fsync(file.fileno())
    with files.replacing_file(place.state) as saved:
        saved.write(files.as_json(dataclasses.asdict(state)).encode())


def _finish(place: _Place, state: _State, titles: Path, columns: Columns, dimensions: int) -> None:
    """Put the result in its place; from then on there is nothing to go on with."""
    whole = place.rows
    if parquet.wanted(place.out):
        whole = place.folder / "vectors.parquet"
        read = stream_titles(titles, BadLines(), 1.0, columns)
        with files.open_to_write(whole) as file:
            parquet.write(file, read, _read_rows(place.rows, state, dimensions))
    files.put_file(whole, place.final)
    place.state.unlink(missing_ok=True)


def _read_rows(path: Path, state: _State, dimensions: int) -> Iterator[NDArray[Any]]:
    """The rows of a file, some at a time; of a mapped file all would count as memory."""
    row_bytes = dimensions * np.dtype(state.vectors).itemsize
    with path.open("rb") as file:
        file.seek(_HEADER_BYTES)
        while block := file.read(parquet.GROUP_ROWS * row_bytes):
            yield np.frombuffer(block, state.vectors).reshape(-1, dimensions)


def _end(state: _State, dimensions: int) -> int:
    """Where the rows of the file end."""
    return _HEADER_BYTES + state.rows * dimensions * np.dtype(state.vectors).itemsize


def _header(state: _State, dimensions: int) -> bytes:
    """The head of a version 1.0 .npy file, always of the same length."""
    kind = np.dtype(state.vectors).str
    about = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({state.rows}, {dimensions}), }}"
    padded = about.ljust(_HEADER_BYTES - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("ascii")
