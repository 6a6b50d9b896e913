"""Get the teacher's vectors of all texts of a dataset, in blocks, and keep each block that is finished."""

import json
import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, Interrupted
from clickvec.progress import Progress, ignore
from clickvec.storage import files
from clickvec.storage.arrays import read_arrays, write_arrays
from clickvec.storage.json_files import parse_json
from clickvec.storage.outputs import resolve
from clickvec.storage.temporary import locked
from clickvec.teacher import teacher_folder
from clickvec.teacher.reduction import DIMENSIONS, SAMPLE, Floats, Reduction, fit, unit
from clickvec.teacher.taught_texts import TaughtTexts
from clickvec.teacher.teacher_folder import StoredRows, StoredTeacher
from clickvec.teacher.teacher_source import Source
from clickvec.teacher.teacher_vectors import Teacher

log = logging.getLogger(__name__)

LEAST_KNOWN = 0.5  # of the titles; a teacher that knows fewer is for other texts
Sample = tuple[NDArray[np.int64], NDArray[np.int8]]
_RUN_FILES = ("plan.json", "reduction.safetensors", "rows", "done.txt")


def teach(taught: TaughtTexts, source: Source, folder: Path, progress: Progress | None = None) -> Teacher:
    """Return the teacher's vectors of all texts of a dataset, and keep them in `folder`.

    If the folder has them already, they are read from there. Those of a part of the texts, as before the dataset was
    appended to, are used again. Until all are there, finished blocks are in `FOLDER.run`, and the next call continues
    with them, also after a kill.
    """
    folder = resolve(folder)
    earlier = _earlier(folder, source)
    if earlier and earlier.digest == taught.digest:
        return earlier.teacher
    files.check_replaceable(folder, teacher_folder.MARKER, teacher_folder.ALL_FILES)
    run = folder.with_name(f"{folder.name}.run")
    try:
        with locked(run, str(folder)), _removed_if_empty(run):
            _Teaching(run, taught, source, earlier, progress or ignore).finish(folder)
            _clear(run)
    except KeyboardInterrupt:
        raise Interrupted("Stopped before the first block of the teacher. Run the same command again") from None
    except OSError as error:
        raise files.cannot_write(folder, error) from None
    return teacher_folder.load(folder).teacher


def _earlier(folder: Path, source: Source) -> StoredTeacher | None:
    """Return what a folder holds of the same source."""
    if not teacher_folder.is_teacher_folder(folder):
        return None
    try:
        if teacher_folder.kind_of_teacher(folder) == "tokens":
            return None
        earlier = teacher_folder.load(folder)
    except ClickvecError as error:
        log.warning("The vectors of the teacher are computed again: %s.", error)
        return None
    if earlier.identity != source.identity:
        if earlier.identity.startswith(teacher_folder.TUNED):
            raise ClickvecError(
                f"{folder} has the vectors of {earlier.teacher.name}, which took long to make; to use them, give "
                f"--teacher {folder}; to replace them, remove the folder first"
            )
        log.warning("%s has the vectors of another teacher, %s; they are replaced.", folder, earlier.teacher.name)
        return None
    return earlier


def _clear(run: Path) -> None:
    """Remove what a run keeps, the plan first: without it, nothing is continued."""
    for name in _RUN_FILES:
        (run / name).unlink(missing_ok=True)


@contextmanager
def _removed_if_empty(run: Path) -> Iterator[None]:
    """On exit, remove the folder of a run if it holds nothing to continue from, and no files of somebody else."""
    try:
        yield
    finally:
        if not any((run / name).exists() for name in ("done.txt", "reduction.safetensors")):
            _clear(run)
            (run / "lock").unlink(missing_ok=True)
            with suppress(OSError):
                run.rmdir()


class _Teaching:
    """An unfinished teacher folder: the file `rows` has the rows of all texts, and `done.txt` tells which are there."""

    def __init__(
        self, run: Path, taught: TaughtTexts, source: Source, earlier: StoredTeacher | None, progress: Progress
    ) -> None:
        self._run, self._taught, self._source, self._earlier, self._progress = run, taught, source, earlier, progress
        self._stored = StoredRows(earlier) if earlier else None
        self._start()
        self._reduction, self._sample = self._read_reduction() or self._fit()
        shape = (len(taught), len(self._reduction.scales))
        path, size = run / "rows", shape[0] * shape[1]
        if not path.exists() or path.stat().st_size != size:
            (run / "done.txt").unlink(missing_ok=True)
            with path.open("wb") as file:
                file.truncate(size)
        self._rows = np.memmap(path, np.int8, "r", shape=shape) if size else np.zeros(shape, np.int8)

    def finish(self, folder: Path) -> None:
        """Compute what is missing, and write the folder."""
        total, is_done = len(self._taught), self._finished()
        count = int(is_done.sum())
        self._progress("teacher's texts", count, total)
        try:
            for first, stop in self._blocks():
                if not is_done[first:stop].all():
                    self._compute(first, stop)
                    count += int((~is_done[first:stop]).sum())
                    self._progress("teacher's texts", count, total)
        except KeyboardInterrupt:
            raise Interrupted(
                f"Stopped after {count:,} of {total:,} texts of the teacher. Run the same command again to continue"
            ) from None
        self._check_known()
        teacher_folder.save(folder, self._source.name, self._source.identity, self._taught, self._rows, self._reduction)

    def _blocks(self) -> Iterator[tuple[int, int]]:
        size = self._source.texts_at_once
        return ((first, min(first + size, len(self._taught))) for first in range(0, len(self._taught), size))

    def _compute(self, first: int, stop: int) -> None:
        if self._stored:
            rows = self._stored.find(self._taught.keys[first:stop])
        else:
            rows = np.zeros((stop - first, self._rows.shape[1]), np.int8)
        numbers, sample = self._sample
        at = slice(*np.searchsorted(numbers, (first, stop)).tolist())
        rows[numbers[at] - first] = sample[at]
        missing = np.flatnonzero(~rows.any(1))
        if len(missing):
            texts = self._taught.block(first, stop)
            rows[missing] = self._reduction.rows(self._vectors(first + missing, [texts[at] for at in missing.tolist()]))
        with (self._run / "rows").open("r+b") as file:  # a full disk would end a process that writes to mapped memory
            file.seek(first * rows.shape[1])
            file.write(rows.data)
            file.flush()
            os.fsync(file.fileno())
        with (self._run / "done.txt").open("a", encoding="ascii") as file:
            file.write(f"{first} {stop} {zlib.crc32(rows.data)}\n")
            file.flush()
            os.fsync(file.fileno())

    def _vectors(self, numbers: NDArray[np.int64], texts: list[str]) -> Floats:
        vectors = self._source.vectors(numbers, texts)
        vectors = unit(vectors) if self._source.reduction is None else vectors
        if not np.isfinite(vectors).all():
            row = int(np.flatnonzero(~np.isfinite(vectors).all(1))[0])
            raise ClickvecError(f"the teacher {self._source.name} gives NaN for {texts[row][:80]!r}; use another one")
        return vectors

    # --- state ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Continue an interrupted run if it had the same source and texts. Otherwise, remove what it left."""
        plan = {
            "identity": self._source.identity, "texts": self._taught.digest, "dimensions": DIMENSIONS,
            "earlier": self._earlier.digest if self._earlier else "",
        }  # fmt: skip
        path = self._run / "plan.json"
        if path.exists():
            try:
                if parse_json(path.read_bytes()) == plan:
                    return
            except ValueError:
                pass
            log.warning("%s has what an interrupted run left for another teacher or other texts; removed.", self._run)
        _clear(self._run)
        with files.replacing_file(path) as file:
            file.write(json.dumps(plan).encode())

    def _read_reduction(self) -> tuple[Reduction, Sample] | None:
        path = self._run / "reduction.safetensors"
        if not path.exists():
            return None
        try:
            with path.open("rb") as file:
                arrays = read_arrays(file, str(path))
            reduction = Reduction(*(np.array(arrays[name], np.float32) for name in Reduction._fields))
            return reduction, (np.array(arrays["numbers"], np.int64), np.array(arrays["rows"], np.int8))
        except (ClickvecError, KeyError):
            (self._run / "done.txt").unlink(missing_ok=True)
            return None

    def _fit(self) -> tuple[Reduction, Sample]:
        """Fit the reduction on a random sample of the texts, unless the vectors are small already.

        Return it, and the sample: the numbers of its texts, in ascending order, and their rows.
        """
        reduction = self._source.reduction or (self._earlier.reduction if self._earlier else None)
        if reduction is None:
            count = len(self._taught)
            numbers = np.sort(np.random.default_rng(0).choice(count, min(SAMPLE, count), replace=False))
            texts, size, blocks = self._taught.take(numbers), self._source.texts_at_once, []
            for first in range(0, len(numbers), size):
                self._progress("teacher's sample", first, len(numbers))
                blocks.append(self._vectors(numbers[first : first + size], texts[first : first + size]))
            vectors = np.concatenate(blocks)
            reduction = fit(vectors)
            rows = reduction.rows(vectors)
        else:
            numbers, rows = np.zeros(0, np.int64), np.zeros((0, len(reduction.scales)), np.int8)
        with files.replacing_path(self._run / "reduction.safetensors") as path:
            write_arrays(path, {**reduction._asdict(), "numbers": numbers, "rows": rows})
        return reduction, (numbers, rows)

    def _finished(self) -> NDArray[np.bool_]:
        """Tell which texts are in finished and undamaged blocks."""
        path, is_done = self._run / "done.txt", np.zeros(len(self._taught), bool)
        for line in path.read_text("ascii", "replace").splitlines() if path.exists() else ():
            numbers = [int(number) for number in line.split() if number.isdecimal()]
            if len(numbers) == 3 and numbers[0] < numbers[1] <= len(is_done):
                block = slice(*numbers[:2])
                if zlib.crc32(np.ascontiguousarray(self._rows[block]).data) == numbers[2]:
                    is_done[block] = True
        return is_done

    def _check_known(self) -> None:
        """Refuse a teacher that knows less than half of the titles, and tell how many it does not know."""
        known = np.concatenate([np.zeros(0, bool), *(self._rows[slice(*block)].any(1) for block in self._blocks())])
        titles = known[self._taught.number_of_title]
        queries = known[: self._taught.queries]
        if titles.sum() < LEAST_KNOWN * len(titles):
            _clear(self._run)
            raise ClickvecError(
                f"the teacher {self._source.name} knows {int(titles.sum()):,} of {len(titles):,} titles, and half of "
                "them are needed; its texts must be those of the log and the catalogue"
            )
        if not known.all():
            log.warning(
                "The teacher does not know %s of %s titles and %s of %s queries; they are learned from clicks alone.",
                *(f"{int(count):,}" for part in (titles, queries) for count in ((~part).sum(), len(part))),
            )
