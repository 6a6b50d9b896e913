"""Open files and standard input as bytes, decompressed: plain, gzip, zstd. The first bytes say which, not the name."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, cast

from clickvec.errors import ClickvecError, missing_extra

STDIN = Path("-")  # standard input; a file with this name needs a longer path, such as ./-
PARQUET = b"PAR1"  # the first bytes of a Parquet file
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

# Files that are not text, by their first bytes. Read as text, they would only give strange bad lines.
_FOREIGN = {
    b"PK\x03\x04": "a zip archive (or a spreadsheet); unpack it, or export it as CSV",
    PARQUET: "a Parquet file, which cannot be read from a pipe; give the file itself",
}


def name_of(path: Path) -> str:
    """Return the name of a file in messages."""
    return "standard input" if path == STDIN else str(path)


def standard_input() -> BinaryIO:
    """Return standard input as a binary stream, an empty one if it is closed."""
    return sys.stdin.buffer if sys.stdin else io.BytesIO()


def is_parquet(path: Path) -> bool:
    """Whether a regular file starts as Parquet does. A pipe is not opened: it can be read only once."""
    if not is_regular(path):
        return False
    with _open_bytes(path) as file:
        return read_bytes(file, len(PARQUET), name_of(path)) == PARQUET


def is_regular(path: Path) -> bool:
    """Whether a path is a file that can be opened several times: not standard input, a pipe or a device."""
    try:
        return path != STDIN and path.is_file()
    except (OSError, ValueError):
        return False


@contextmanager
def open_stream(path: Path) -> Iterator[BinaryIO]:
    """Open a file, decompressed. Raise ClickvecError if it is missing, or not text."""
    name = name_of(path)
    with _open_bytes(path) as file:
        try:
            start = file.peek(4)
        except OSError as error:
            raise ClickvecError(f"{name} cannot be read: {error.strerror or error}") from error
        foreign = next((kind for magic, kind in _FOREIGN.items() if start.startswith(magic)), None)
        if foreign:
            raise ClickvecError(f"{name} is {foreign}")
        if start.startswith(_GZIP):
            yield cast(BinaryIO, gzip.GzipFile(fileobj=file))
        elif start.startswith(_ZSTD):
            yield cast(BinaryIO, _zstd(file))
        else:
            yield cast(BinaryIO, file)


def read_bytes(stream: BinaryIO | io.BufferedReader, size: int, name: str) -> bytes:
    """Read some bytes, none at the end. Raise ClickvecError for a damaged file."""
    # read1 returns what is there; read would wait until a pipe has filled a megabyte. The read1 of a gzip file returns
    # only a few kilobytes at a time, which is slower.
    read = stream.read if isinstance(stream, gzip.GzipFile) else getattr(stream, "read1", stream.read)
    try:
        return cast(bytes, read(size))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ClickvecError(
            f"{name}: the gzip file is cut short or damaged ({error}); copy or make it again"
        ) from error
    except _ZstdError as error:
        raise ClickvecError(
            f"{name}: the zstd file is cut short or damaged ({error}); copy or make it again"
        ) from error
    except OSError as error:
        raise ClickvecError(f"{name} cannot be read: {error.strerror or error}") from error


class _ZstdError(Exception):
    """A zstd file that is cut short or damaged."""


class _ZstdStream:
    """A decompressed zstd file. Reading raises one kind of error, whichever library decompresses."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401
        self._stream = stream

    def read(self, size: int) -> bytes:
        try:
            return cast(bytes, self._stream.read(size))
        except Exception as error:  # the libraries raise several kinds
            raise _ZstdError(" ".join(str(error).split())) from error


def _zstd(file: io.BufferedReader) -> _ZstdStream:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]  # Python 3.14
    except ImportError:
        pass
    else:
        return _ZstdStream(zstd.ZstdFile(file))
    try:
        import pyarrow
    except ImportError:
        raise missing_extra("pyarrow", "data") from None
    return _ZstdStream(pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd"))


def _open_bytes(path: Path) -> AbstractContextManager[io.BufferedReader]:
    if path == STDIN:
        stream = cast(io.BufferedReader, standard_input())  # stays open
        return nullcontext(stream if hasattr(stream, "peek") else io.BufferedReader(stream))
    try:
        return path.open("rb")
    except FileNotFoundError as error:
        raise ClickvecError(f"{path} does not exist") from error
    except IsADirectoryError as error:
        raise ClickvecError(f"{path} is a folder; name the file inside it") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ClickvecError(f"{path} cannot be read: {reason}") from error
