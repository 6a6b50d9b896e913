"""The folder `OUT.run`, which holds the state of a run until `OUT` is written."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from clickvec.errors import ClickvecError
from clickvec.model.folder import check_model_output
from clickvec.storage import files
from clickvec.storage.temporary import locked

RUN_FILES = ("lock", "checkpoint.safetensors", "checkpoint.tmp", "metrics.jsonl", "best")


def check_output_folder(out: Path, resume: bool, overwrite: bool) -> Path:
    """Return the run folder of `out`. Raise a ClickvecError if a run may not write there, or cannot be resumed."""
    check_model_output(out)
    run_folder = out.with_name(out.name + ".run")
    if run_folder.exists() and not run_folder.is_dir():
        raise ClickvecError(f"{run_folder} is a file, and training keeps its state there; choose another --out")
    others = [entry.name for entry in run_folder.iterdir()] if run_folder.exists() else []
    others = sorted(name for name in others if name not in RUN_FILES and not name.startswith("."))
    if others:
        raise ClickvecError(
            f"{run_folder} holds {others[0]}, and training keeps its state there; move it away or choose another --out"
        )
    unfinished, finished = (run_folder / "checkpoint.safetensors").exists(), (out / "config.json").exists()
    if resume and not unfinished:
        if finished:
            raise ClickvecError(f"there is nothing to resume: the run is finished, and its model is at {out}")
        raise ClickvecError(f"there is nothing to resume: {run_folder} holds no checkpoint; start without --resume")
    if unfinished and not resume and not overwrite:
        raise ClickvecError(
            f"{run_folder} holds an unfinished run; continue it with --resume, or start again with --overwrite"
        )
    if finished and not overwrite and not resume:
        raise ClickvecError(f"{out} already holds a model; choose another --out, or replace it with --overwrite")
    return run_folder


@contextmanager
def locked_run_folder(run_folder: Path, out: Path) -> Iterator[None]:
    """Create and lock the run folder. On exit, remove it if it holds nothing to resume from."""
    with ExitStack() as stack:
        try:
            stack.enter_context(files.ensured_folder(run_folder))
            stack.enter_context(locked(run_folder / "lock", str(out)))
        except OSError as error:
            raise files.cannot_write(out, error) from None
        try:
            yield
        finally:
            if not any((run_folder / name).exists() for name in ("checkpoint.safetensors", "best")):
                for name in RUN_FILES:
                    (run_folder / name).unlink(missing_ok=True)


def clear(run_folder: Path) -> None:
    """Remove an earlier run, the checkpoint first: without it there is nothing to resume."""
    for name in ("checkpoint.safetensors", "metrics.jsonl"):
        (run_folder / name).unlink(missing_ok=True)
    shutil.rmtree(run_folder / "best", ignore_errors=True)
