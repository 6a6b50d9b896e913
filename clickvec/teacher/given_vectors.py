"""Vectors that somebody already has, with their texts: .npy and .txt, Parquet, or the teacher folder of other data."""

import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError, missing_extra
from clickvec.storage.snapshot import describe_file
from clickvec.teacher import teacher_folder
from clickvec.teacher.reduction import Floats, Reduction, unit
from clickvec.teacher.taught_texts import Keys, KeyTable, in_blocks, keys_of
from clickvec.text.tokens import canonical

log = logging.getLogger(__name__)
_ROWS_AT_ONCE = 2**14
_PART = "part of "
_TEXT_NAMES, _VECTOR_NAMES = ("text", "title", "query", "sentence"), ("vector", "embedding", "vectors", "embeddings")


class GivenVectors:
    """Vectors by the keys of their texts."""

    texts_at_once = 2**15
    reduction: Reduction | None = None

    def __init__(self, name: str, identity: str, keys: Keys, vectors: NDArray[Any]) -> None:
        """Use `open_npy` or `open_parquet`."""
        self.name, self.identity = name, identity
        self._table, self._vectors = KeyTable(keys), vectors
        if self._table.duplicates:
            log.warning("%s has %s of its texts twice; the first vector counts.", name, f"{self._table.duplicates:,}")

    def vectors(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> Floats:
        """Return the vectors of texts; zeros for one that is not there."""
        rows = self._table.find(keys_of(texts))
        vectors = np.zeros((len(rows), self._vectors.shape[1]), np.float32)
        known = np.flatnonzero(rows >= 0)
        known = known[np.argsort(rows[known])]  # random reads from disk are slow
        vectors[known] = self._vectors[rows[known]]
        bad = np.flatnonzero(~np.isfinite(vectors).all(1))
        if len(bad):
            row = int(rows[bad[0]])
            raise ClickvecError(f"{self.name} has NaN or infinity in row {row:,}, the vector of {texts[bad[0]][:80]!r}")
        return vectors


class StoredVectors:
    """The teacher folder of another dataset, as a source for this one."""

    texts_at_once = 2**15

    def __init__(self, path: Path) -> None:
        stored = teacher_folder.load(path)
        self.name, self._scales = stored.teacher.name, stored.teacher.scales
        # Texts that it does not know would be known to the teacher itself.
        self.identity = f"{_PART}{stored.identity.removeprefix(_PART)}"
        self.reduction: Reduction | None = Reduction(np.eye(len(self._scales), dtype=np.float32), self._scales)
        self._rows = teacher_folder.StoredRows(stored)

    def vectors(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> Floats:
        """Return the vectors of texts; zeros for one that is not there."""
        return self._rows.find(keys_of(texts)) * self._scales


def open_npy(path: Path) -> GivenVectors:
    """Open an array of vectors. Its texts are in a file of the same name: .txt, or the first column of .tsv."""
    try:
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ClickvecError(f"{path} cannot be read as an .npy file: {error}") from None
    _check_array(path, vectors)
    beside = [path.with_suffix(suffix) for suffix in (".txt", ".tsv") if path.with_suffix(suffix).is_file()]
    if not beside:
        raise ClickvecError(f"{path} has no texts beside it; write them to {path.with_suffix('.txt')}, one in a line")
    keys = _keys(_lines(beside[0]))
    if len(keys) != len(vectors):
        raise ClickvecError(f"{beside[0]} has {len(keys):,} lines, and {path} has {len(vectors):,} vectors")
    identity = f"vectors {describe_file(path)['sample']} {describe_file(beside[0])['sample']}"
    return GivenVectors(path.name, identity, keys, vectors)


def open_parquet(path: Path, scratch: Path) -> GivenVectors:
    """Open a Parquet file with a column of texts and one of lists of numbers.

    Its vectors are copied to an unnamed file in the folder `scratch`, in float16, because rows of a Parquet file cannot
    be read one by one.
    """
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise missing_extra("pyarrow", "data") from None
    keys, vectors = [np.zeros(0, np.uint64)], None
    try:
        file = parquet.ParquetFile(path)
        text, vector = _columns(path, file.schema_arrow)
        with tempfile.TemporaryFile(dir=scratch) as copy:
            width = 0
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=[text, vector]):
                block = _lists(path, batch.column(vector))
                if width not in (0, block.shape[1]):
                    raise ClickvecError(f"{path} has vectors of {width} and of {block.shape[1]} dimensions")
                width = block.shape[1]
                copy.write(unit(block).astype(np.float16).data)
                keys.append(_keys(value or "" for value in batch.column(text).to_pylist()))
            copy.flush()
            count = sum(map(len, keys))
            if count and width:
                vectors = np.memmap(copy, np.float16, "r", shape=(count, width))
    except (OSError, ArrowException) as error:
        raise ClickvecError(f"{path} cannot be read as a Parquet file: {str(error).partition(chr(10))[0]}") from None
    if vectors is None:
        raise ClickvecError(f"{path} has no vectors in it")
    return GivenVectors(path.name, f"vectors {describe_file(path)['sample']}", np.concatenate(keys), vectors)


def _check_array(path: Path, vectors: NDArray[Any]) -> None:
    if vectors.ndim != 2 or not vectors.size:
        raise ClickvecError(f"{path} has the shape {vectors.shape}; a row for each text is needed, and some columns")
    if vectors.dtype.kind != "f":
        raise ClickvecError(f"{path} holds {vectors.dtype}; vectors are float16, float32 or float64")


def _lines(path: Path) -> Iterator[str]:
    """Yield the texts of a file: its lines or, of a .tsv, the first column. Only a line feed ends a line."""
    is_table = path.suffix == ".tsv"
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for line in file:
                text = line.rstrip("\n").rstrip("\r")
                yield text.partition("\t")[0] if is_table else text
    except UnicodeDecodeError as error:
        raise ClickvecError(f"{path} is not UTF-8: {error.reason} at byte {error.start:,}") from None


def _keys(texts: Iterable[str]) -> Keys:
    blocks = (keys_of(map(canonical, block)) for block in in_blocks(texts))
    return np.concatenate([np.zeros(0, np.uint64), *blocks])


def _columns(path: Path, schema: Any) -> tuple[str, str]:  # noqa: ANN401
    """Return the names of the columns with texts and with vectors."""
    from pyarrow import types

    def is_vector(kind: Any) -> bool:  # noqa: ANN401
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return bool(is_list and types.is_floating(kind.value_type))

    texts = [field.name for field in schema if types.is_string(field.type) or types.is_large_string(field.type)]
    vectors = [field.name for field in schema if is_vector(field.type)]
    chosen = []
    for found, usual, what in ((texts, _TEXT_NAMES, "text"), (vectors, _VECTOR_NAMES, "lists of floats")):
        names = found if len(found) == 1 else [name for name in found if name.lower() in usual]
        if len(names) != 1:
            raise ClickvecError(f"{path} has {len(found)} columns of {what}; leave one, or name it {usual[0]}")
        chosen += names
    return chosen[0], chosen[1]


def _lists(path: Path, column: Any) -> Floats:  # noqa: ANN401
    """Return a column of lists of the same length as an array."""
    from pyarrow import compute

    if column.null_count:
        raise ClickvecError(f"{path} has {column.null_count:,} rows without a vector; leave them out")
    lengths = np.unique(compute.list_value_length(column).to_numpy(zero_copy_only=False))
    if len(lengths) > 1:
        raise ClickvecError(f"{path} has vectors of {lengths[0]} and of {lengths[-1]} dimensions")
    return np.asarray(column.flatten().to_numpy(zero_copy_only=False), np.float32).reshape(len(column), -1)
