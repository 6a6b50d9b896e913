"""The one guard for everything that is written: no output into a folder of ours, and none over what a command reads."""

from collections.abc import Iterable
from pathlib import Path

from clickvec.errors import ClickvecError

# The file that marks a folder of ours, another that it must hold, and what the folder is.
KINDS = {
    "config.json": ("trigrams.txt", "a model folder"),
    "index.json": ("documents.jsonl", "an index folder"),
    "data.json": ("data.safetensors", "a data folder"),
}


def check_output(out: Path, reads: Iterable[Path | None] = ()) -> None:
    """Refuse an output inside of a model, index or data folder, and one that would change what the command reads."""
    check_outside(out)
    place = resolve(out)
    for path in reads:
        source = resolve(path) if path is not None and path.exists() else None
        if source is None:
            continue
        if place == source or (place.exists() and place.samefile(source)):
            raise ClickvecError(f"{out} is read by this command and would be replaced; choose another place")
        if place in source.parents:
            raise ClickvecError(f"{out} holds {path}, which this command reads; choose another place")
        if source in place.parents:
            raise ClickvecError(f"{out} is inside of {path}, which this command reads; choose another place")


def check_new_file(out: Path, overwrite: bool, reads: Iterable[Path | None]) -> None:
    """Refuse an output file that the guard refuses, or that is there already when not told to overwrite it."""
    check_output_file(out, reads)
    if out.exists() and not overwrite:
        raise ClickvecError(f"{out} is there already; choose another file, or replace it with --overwrite")


def check_run_file(run: Path, reads: Iterable[Path | None]) -> None:
    """Refuse to write a TREC run where the guard refuses it, or over a file that is no run."""
    check_output_file(run, reads)
    if run.exists():
        with run.open("rb") as file:
            fields = file.readline(100_000).split()
        if fields and (len(fields) != 6 or fields[1].upper() != b"Q0"):
            raise ClickvecError(f"{run} is there already, and is no TREC run; choose another file for --run")


def check_output_file(out: Path, reads: Iterable[Path | None] = ()) -> None:
    """Refuse an output file that the guard refuses, or that would replace a folder, a device or a pipe."""
    if out.exists() and not out.is_file():
        raise ClickvecError(f"{out} is {'a folder' if out.is_dir() else 'no plain file'}; name a file to write")
    check_output(out, reads)


def check_outside(path: Path) -> None:
    """Refuse a place inside of a model, index or data folder: these are written whole, and hold nothing else."""
    for folder in resolve(path).parents:
        if kind := kind_of(folder):
            raise ClickvecError(f"{path} is inside of {folder}, which is {kind}; choose a place outside of it")


def kind_of(folder: Path) -> str | None:
    """What a folder of ours is: "a model folder" and so on; None for any other folder."""
    for marker, (companion, kind) in KINDS.items():
        if (folder / marker).is_file() and (folder / companion).is_file():
            return kind
    return None


def resolve(path: Path) -> Path:
    """Resolve links, so that the folder or file that a link leads to is replaced rather than the link."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # Python 3.11 and 3.12 have RuntimeError for links in a circle
        raise ClickvecError(f"cannot write {path}: its links lead in a circle; choose another --out") from None
