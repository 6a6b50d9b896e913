"""The files of a log: files, patterns such as logs/*.tsv.gz, folders with all log files below, standard input."""

import glob
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from clickvec.data.parsing.given_table import is_table
from clickvec.data.parsing.open_files import STDIN
from clickvec.data.parsing.source import Given, as_path
from clickvec.errors import ClickvecError
from clickvec.storage.outputs import kind_of

_LOG_NAME = re.compile(r"(.*\.(tsv|csv|jsonl|ndjson|json|txt|log|parquet)|part-.*)(\.gz|\.zst)?", re.IGNORECASE)
_NOT_A_LOG = re.compile(r"[._].*|(readme|license)(\..*)?|.*\.crc", re.IGNORECASE)  # _SUCCESS, .part-0.crc, README.txt
_NAMED = 5  # files that are left out
log = logging.getLogger(__name__)


def log_files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files that paths, patterns and folders name, in this order, those of a folder by name.

    A file that is named twice is read once. A BEIR folder stays a folder. Raise ClickvecError for a pattern or folder
    without a file.
    """
    given = [paths] if isinstance(paths, (str, Path)) else paths
    return _distinct(file for path in given for file in _files(Path(path)))


def log_parts(given: Given) -> list[Given]:
    """Return the files of a log as `log_files` does, and the tables in memory among them as they are."""
    given = list(given) if isinstance(given, Iterator) else given
    parts = given if isinstance(given, list | tuple) and not is_table(given) else [given]
    return _distinct(file for part in parts for file in ([part] if is_table(part) else _files(as_path(part))))


def _distinct(files: Iterable[Any]) -> list[Any]:
    """Return each file once, and tables and standard input as they are."""
    kept, seen = list[Any](), set[tuple[int, int]]()
    for file in files:
        if isinstance(file, Path) and file != STDIN and file.exists():
            status = file.stat()
            if (status.st_dev, status.st_ino) in seen:
                _warn_once(f"{file} is given twice, or by two names; it is read once")
                continue
            seen.add((status.st_dev, status.st_ino))
        kept.append(file)
    return kept


@cache
def _warn_once(text: str) -> None:
    """Warn once in a process: a command may look at its files several times."""
    log.warning(text)


def is_beir(path: Path) -> bool:
    """Whether a folder holds a corpus, queries and judgements in the layout of BEIR."""
    return (path / "corpus.jsonl").is_file() and (path / "queries.jsonl").is_file() and (path / "qrels").is_dir()


def _files(path: Path) -> list[Path]:
    if path == STDIN:
        return [path]
    try:
        if path.is_dir():
            return [path] if is_beir(path) else _in_folder(path)
        if glob.has_magic(str(path)) and not path.exists():
            return _matching(path)
    except (OSError, ValueError) as error:
        raise ClickvecError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return [path]


def _matching(pattern: Path) -> list[Path]:
    found = [Path(match) for match in sorted(glob.glob(str(pattern), recursive=True))]
    files = [file for path in found for file in ([path] if path.is_file() else _files(path))]
    if not files:
        raise ClickvecError(f"no file matches {pattern}; check the pattern")
    return files


def _in_folder(folder: Path) -> list[Path]:
    """Return the log files below a folder, but not those of a model, an index or a data folder."""
    if kind := kind_of(folder):
        raise ClickvecError(f"{folder} is {kind}, not a click log")
    files, others = list[Path](), list[Path]()
    for root, names, leaves in os.walk(folder):
        names[:] = sorted(name for name in names if not _NOT_A_LOG.fullmatch(name) and not kind_of(Path(root, name)))
        others += (Path(root, name) for name in names if Path(root, name).is_symlink())
        for name in leaves:
            if not _NOT_A_LOG.fullmatch(name):
                (files if _LOG_NAME.fullmatch(name) else others).append(Path(root, name))
    if files and others:
        some = ", ".join(str(path.relative_to(folder)) for path in sorted(others)[:_NAMED])
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        _warn_once(
            f"Left out of {folder}, because of their names: {some}{more}. Files that are named one by one are read"
        )
    if not files:
        raise ClickvecError(
            f"{folder} holds no log file (.tsv, .csv, .jsonl or .parquet, also .gz or .zst); name a file"
        )
    return sorted(files)
