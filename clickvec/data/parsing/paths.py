"""The files of a log: files, patterns such as logs/*.tsv.gz, folders with all log files below, standard input."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from clickvec.data.parsing.given_table import is_table
from clickvec.data.parsing.open_files import STDIN
from clickvec.data.parsing.source import Given, as_path
from clickvec.errors import ClickvecError
from clickvec.storage.outputs import kind_of

_LOG_NAME = re.compile(r"(.*\.(tsv|csv|jsonl|ndjson|json|txt|log|parquet)|part-.*)(\.gz|\.zst)?", re.IGNORECASE)
_NOT_A_LOG = re.compile(r"[._].*|.*(readme|license).*|.*\.crc", re.IGNORECASE)  # _SUCCESS, .part-0.crc, README.txt


def log_files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files that paths, patterns and folders name, in this order, those of a folder by name.

    A BEIR folder stays a folder. Raise ClickvecError for a pattern or folder without a file.
    """
    given = [paths] if isinstance(paths, (str, Path)) else paths
    return [file for path in given for file in _files(Path(path))]


def log_parts(given: Given) -> list[Given]:
    """Return the files of a log as `log_files` does, and the tables in memory among them as they are."""
    given = list(given) if isinstance(given, Iterator) else given
    parts = given if isinstance(given, list | tuple) and not is_table(given) else [given]
    return [file for part in parts for file in ([part] if is_table(part) else _files(as_path(part)))]


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
    files: list[Path] = []
    for root, names, leaves in os.walk(folder):
        names[:] = sorted(name for name in names if not _NOT_A_LOG.fullmatch(name) and not kind_of(Path(root, name)))
        files += (Path(root, name) for name in leaves if _LOG_NAME.fullmatch(name) and not _NOT_A_LOG.fullmatch(name))
    if not files:
        raise ClickvecError(
            f"{folder} holds no log file (.tsv, .csv, .jsonl or .parquet, also .gz or .zst); name a file"
        )
    return sorted(files)
