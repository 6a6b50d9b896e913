"""The folder `DATA.teacher`: what a teacher says about the texts of a dataset, on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.storage import files
from clickvec.storage.arrays import npy_header, write_array, write_arrays
from clickvec.storage.snapshot import Snapshot, describe_file, open_folder
from clickvec.teacher.reduction import Reduction
from clickvec.teacher.taught_texts import Keys, KeyTable, TaughtTexts
from clickvec.teacher.teacher_vectors import Teacher

FORMAT = 1
MARKER = "teacher.json"
VECTOR_FILES = ("queries.npy", "titles.npy", "query_keys.npy", "title_keys.npy", "reduction.safetensors")
TOKEN_FILES = ("tokens.npz", "encoder.safetensors")
ALL_FILES = (MARKER, *VECTOR_FILES, *TOKEN_FILES)
TUNED = "tuned on "  # how the identity of a teacher starts that was fine-tuned on clicks
_ROWS_AT_ONCE = 2**16


class StoredTeacher(NamedTuple):
    """A teacher folder with vectors: the teacher, where its vectors come from, and how they were made small."""

    teacher: Teacher
    identity: str  # of the source
    digest: str  # of the texts
    query_keys: Keys
    title_keys: Keys
    reduction: Reduction


class StoredRows:
    """The rows of a teacher folder, by the keys of their texts."""

    def __init__(self, stored: StoredTeacher) -> None:
        self._dimensions = stored.teacher.dimensions
        self._tables = (
            (KeyTable(stored.query_keys), stored.teacher.queries),
            (KeyTable(stored.title_keys), stored.teacher.titles),
        )

    def find(self, keys: Keys) -> NDArray[np.int8]:
        """Return the rows of texts. Those of texts that are not known are zeros."""
        rows = np.zeros((len(keys), self._dimensions), np.int8)
        for table, vectors in self._tables:
            at = table.find(keys)
            rows[at >= 0] = vectors[at[at >= 0]]
        return rows


def is_teacher_folder(path: Path) -> bool:
    """Tell whether a path names a teacher folder."""
    return (path / MARKER).is_file()


def kind_of_teacher(path: Path) -> str:
    """Return what a teacher folder holds: `vectors` or `tokens`."""
    with open_teacher_folder(path) as (_, about):
        return str(about["kind"])


def load(path: Path) -> StoredTeacher:
    """Open a teacher folder that holds vectors. They are memory-mapped."""
    with open_teacher_folder(path) as (opened, about):
        if about["kind"] != "vectors":
            raise ClickvecError(f"{path} holds tokens and no vectors yet; train or prepare with --teacher {path}")
        queries, titles, width = (int(about[name]) for name in ("queries", "titles", "dimensions"))
        reduction = opened.arrays("reduction.safetensors")
        teacher = Teacher(
            str(about["name"]),
            opened.array("queries.npy", "int8", (queries, width)),
            opened.array("titles.npy", "int8", (titles, width)),
            np.array(reduction["scales"], np.float32).reshape(width),
        )
        return StoredTeacher(
            teacher, str(about["identity"]), str(about["texts"]), opened.array("query_keys.npy", "uint64", (queries,)),
            opened.array("title_keys.npy", "uint64", (titles,)),
            Reduction(np.array(reduction["projection"], np.float32), teacher.scales),
        )  # fmt: skip


@contextmanager
def open_teacher_folder(path: Path) -> Iterator[tuple[Snapshot, dict[str, Any]]]:
    """Yield the files of a teacher folder and its teacher.json."""
    with open_folder(path, ALL_FILES, "teacher folder") as opened:
        about = opened.json(MARKER)
        if about.get("format") != FORMAT:
            raise ClickvecError(
                f"{path} is a teacher folder of format {about.get('format')}, and this clickvec reads format {FORMAT}; "
                "remove it, and train again with --teacher"
            )
        try:
            opened.check(about["files"], MARKER)
            yield opened, about
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ClickvecError(
                f"{path} is damaged: it lacks or misspells {error}; remove it, and train again with --teacher"
            ) from None


def save(
    path: Path, name: str, identity: str, taught: TaughtTexts, rows: NDArray[np.int8], reduction: Reduction
) -> None:
    """Write a teacher folder from the rows of all distinct texts, in blocks. On error, `path` is unchanged."""
    with files.replacing(path, MARKER, ALL_FILES) as fresh:
        _write_rows(fresh / "queries.npy", rows, np.arange(taught.queries))
        _write_rows(fresh / "titles.npy", rows, taught.number_of_title)
        write_array(fresh / "query_keys.npy", taught.query_keys)
        write_array(fresh / "title_keys.npy", taught.title_keys)
        write_arrays(fresh / "reduction.safetensors", reduction._asdict())
        about = {
            "name": name, "identity": identity, "texts": taught.digest, "queries": taught.queries,
            "titles": taught.titles, "dimensions": rows.shape[1],
        }  # fmt: skip
        write_about(fresh, "vectors", about)


def write_about(folder: Path, kind: str, about: dict[str, Any]) -> None:
    """Write teacher.json, with what tells the versions of the other files apart."""
    described = {name: describe_file(folder / name) for name in ALL_FILES[1:] if (folder / name).exists()}
    files.write_json(folder / MARKER, {"format": FORMAT, "kind": kind, **about, "files": described})


def _write_rows(path: Path, rows: NDArray[np.int8], numbers: NDArray[np.int64]) -> None:
    with path.open("wb") as file:
        file.write(npy_header(np.dtype(np.int8), (len(numbers), rows.shape[1])))
        for first in range(0, len(numbers), _ROWS_AT_ONCE):
            file.write(np.ascontiguousarray(rows[numbers[first : first + _ROWS_AT_ONCE]]).data)
