"""The guard before every write: never write into a folder of ours, nor over what a command reads."""

import re
from collections.abc import Iterable
from pathlib import Path

from clickvec.errors import ClickvecError

# The file that marks each kind of folder, other files of which it must hold one, and what to call the folder.
KINDS = {
    "config.json": (("trigrams.txt",), "a model folder"),
    "index.json": (("documents.sqlite", "documents.jsonl"), "an index folder"),
    "data.json": (("data.safetensors",), "a data folder"),
    "teacher.json": (("queries.npy", "tokens.npz"), "a teacher folder"),
    "vectors.json": (("shard-00000.parquet",), "a folder of vectors"),
}

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")  # what a path starts with that was the address of a database


def check_path(path: Path, name: str = "this") -> None:
    """Refuse an address where a path is meant. As a path, it would write a password into the name of a folder."""
    if len(path.parts) > 1 and _SCHEME.fullmatch(path.parts[0]):
        raise ClickvecError(
            f"{name} needs a folder or a file and not an address ({path.parts[0]}//...); search, explain, evaluate, "
            "index, serve and export take the address of an index"
        )


def check_output(out: Path, reads: Iterable[Path | None] = ()) -> None:
    """Refuse an output inside a model, index or data folder, and one that would change what the command reads."""
    check_path(out)
    check_outside(out)
    target = resolve(out)
    for path in reads:
        if path is None or not path.exists():
            continue
        source = resolve(path)
        is_same = target.exists() and target.samefile(source)
        if is_same or target in source.parents or source in target.parents:
            raise ClickvecError(f"{out} overlaps with {path}, which this command reads; choose another output")


def check_output_file(out: Path, reads: Iterable[Path | None] = ()) -> None:
    """Refuse an output file as `check_output` does, and one that would replace a folder, a device or a pipe."""
    if out.exists() and not out.is_file():
        raise ClickvecError(f"{out} is {'a folder' if out.is_dir() else 'not a regular file'}; name a file to write")
    check_output(out, reads)


def check_new_file(out: Path, overwrite: bool, reads: Iterable[Path | None]) -> None:
    """Refuse an output file as `check_output_file` does, and one that exists unless `overwrite` is set."""
    check_output_file(out, reads)
    if out.exists() and not overwrite:
        raise ClickvecError(f"{out} already exists; choose another file, or overwrite it with --overwrite")


def check_run_file(run: Path, reads: Iterable[Path | None]) -> None:
    """Refuse a file for a TREC run as `check_output_file` does, and one that holds something else."""
    check_output_file(run, reads)
    if run.exists():
        with run.open("rb") as file:
            fields = file.readline(100_000).split()
        if fields and (len(fields) != 6 or fields[1].upper() != b"Q0"):
            raise ClickvecError(f"{run} already exists and is not a TREC run; choose another file for --run")


def check_outside(path: Path) -> None:
    """Refuse a path inside a model, index or data folder: these are replaced as a whole and hold nothing else."""
    for folder in resolve(path).parents:
        if kind := kind_of(folder):
            raise ClickvecError(f"{path} is inside {folder}, which is {kind}; choose an output outside of it")


def kind_of(folder: Path) -> str | None:
    """Return what a folder of clickvec is, such as "a model folder", or None for any other folder."""
    for marker, (companions, kind) in KINDS.items():
        if (folder / marker).is_file() and any((folder / companion).is_file() for companion in companions):
            return kind
    return None


def resolve(path: Path) -> Path:
    """Resolve symbolic links, so that a write replaces what a link points to rather than the link."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # Python 3.11 and 3.12 raise RuntimeError for a loop of links
        raise ClickvecError(f"cannot write {path}: its symbolic links form a loop; choose another output") from None
