"""The folder `OUT.run`, which holds the state of a run until `OUT` is written, and the checkpoint in it.

A resumed run ends with the same weights as an uninterrupted one.
Random numbers depend on (seed, epoch, minibatch) alone, so there is no generator to save.
"""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clickvec.config import REMOVED, RENAMED, Recipe
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.evaluation.test_set import TestSet
from clickvec.model.folder import check_model_output
from clickvec.storage import files
from clickvec.storage.arrays import read_metadata, write_arrays
from clickvec.storage.json_files import parse_json, to_dataclass
from clickvec.storage.snapshot import open_folder
from clickvec.storage.temporary import locked
from clickvec.teacher.teacher_vectors import Teacher


class CheckpointError(ClickvecError):
    """A checkpoint cannot be resumed: it is damaged, or belongs to other data or settings."""


RUN_FILES = ("lock", "checkpoint.safetensors", "checkpoint.tmp", "metrics.jsonl", "best")


def check_output_folder(out: Path, resume: bool, overwrite: bool) -> None:
    """Raise a ClickvecError if a run may not write to `out` or its run folder, or cannot be resumed."""
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


def is_unfinished(out: Path) -> bool:
    """Return whether there is a run to resume."""
    return (out.with_name(out.name + ".run") / "checkpoint.safetensors").exists()


@contextmanager
def locked_run_folder(run_folder: Path, out: Path) -> Iterator[None]:
    """Create and lock the run folder. On exit, remove it if it holds nothing to resume from."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(run_folder, str(out)))
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


@dataclass
class State:
    """How far a run is."""

    epoch: int = 0
    batch: int = 0  # minibatches of the epoch that are done
    loss_sum: float = 0.0
    weight_sum: float = 0.0
    masked: int = 0
    seconds: float = 0.0
    best_epoch: int = 0
    best_score: float = -1.0
    history: list[dict[str, Any]] = field(default_factory=list)  # the metrics of each finished epoch

    def check(self, path: Path, recipe: Recipe) -> None:
        """Raise a ClickvecError if the numbers cannot come from a run of this recipe."""
        fits = 0 <= self.best_epoch <= self.epoch <= recipe.epochs and len(self.history) == self.epoch
        fits &= self.batch >= 0 and min(self.masked, self.seconds) >= 0 and (self.batch == 0 or self.weight_sum > 0)
        if not fits:
            raise damaged(path, "its state")

    def metrics(self) -> str:
        """Return the metrics of all finished epochs as JSON lines."""
        return "".join(json.dumps(row) + "\n" for row in self.history)


def damaged(path: Path, where: str) -> CheckpointError:
    """Return the error for a checkpoint that no run can have written."""
    return CheckpointError(f"{path} is damaged at {where}; start again with --overwrite")


def save(path: Path, state: State, recipe: Recipe, data_name: str, tensors: Mapping[str, Tensor]) -> None:
    """Write the checkpoint, atomically replacing the one before, and the metrics beside it."""
    about = {"state": dataclasses.asdict(state), "recipe": dataclasses.asdict(recipe), "data": data_name}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    with files.replacing_path(path) as fresh:
        write_arrays(fresh, arrays, {"run": json.dumps(about)})
    with files.replacing_file(path.with_name("metrics.jsonl")) as file:
        file.write(state.metrics().encode())


def restore(path: Path, recipe: Recipe, data_name: str, tensors: Mapping[str, Tensor]) -> State:
    """Read the checkpoint into the tensors and return its state. Refuse one of another recipe or other data."""
    now = dataclasses.asdict(recipe) | REMOVED
    with open_folder(path.parent, [path.name], "checkpoint") as opened:
        try:
            arrays = opened.arrays(path.name)
            about = parse_json(read_metadata(opened.file(path.name), str(path))["run"])
            written = {RENAMED.get(name, name): value for name, value in about["recipe"].items()}
            then = dataclasses.asdict(Recipe()) | REMOVED | written  # a setting that is missing is newer, and was off
            state, started_on = to_dataclass(State, about["state"]), str(about["data"])
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path, str(error)) from None
        except ClickvecError as error:
            raise CheckpointError(str(error)) from None
    for key in now:
        if then[key] != now[key]:
            raise CheckpointError(
                f"cannot resume {path.parent}: it was started with {key}={then[key]}, not {now[key]}; "
                "give the same settings, or start again with --overwrite"
            )
    state.check(path, recipe)
    if started_on != data_name:
        raise CheckpointError(
            f"cannot resume {path.parent}: it was started with other data or another dev set; "
            "start again with --overwrite"
        )
    if set(arrays) != set(tensors):
        raise CheckpointError(
            f"cannot resume {path.parent}: it was started on another device, or with Triton, which is missing now; "
            "resume it there, or start again with --overwrite"
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            stored, expected = arrays[name], tensor.detach().cpu().numpy()
            if stored.shape != expected.shape or stored.dtype != expected.dtype:
                raise damaged(path, name)
            if tensor.device.type == "cpu":
                np.copyto(tensor.detach().numpy(), arrays[name])  # directly from the file, which may be large
            else:
                tensor.copy_(torch.tensor(arrays[name]))
    return state


def check_indices(path: Path, tensors: Mapping[str, Tensor], ends: Mapping[str, int]) -> None:
    """Raise a ClickvecError if an index is not below its end, since compiled code does not check that."""
    for name, tensor in tensors.items():
        end = ends.get(name.rpartition(".")[2])
        if end and tensor.numel() and not (int(tensor.min()) >= -1 and int(tensor.max()) < end):
            raise damaged(path, name)


def name_data(data: Dataset, dev: TestSet | None, teacher: Teacher | None = None) -> str:
    """Return a hash of the data, the dev set and the vectors of the teacher."""
    digest = hashlib.sha256(json.dumps([data.trigrams, data.max_words, data.clicked_titles]).encode())
    for rows in (data.tokens, data.queries, data.titles, data.shown):
        digest.update(np.ascontiguousarray(rows.values).data)
        digest.update(np.ascontiguousarray(rows.offsets).data)
    looks = () if data.pair_looks is None else (data.pair_looks,)
    for column in (data.pair_query, data.pair_title, data.pair_clicks, *looks):
        digest.update(np.ascontiguousarray(column).data)
    if teacher is not None:
        digest.update(teacher.fingerprint().encode())
    for query in dev.queries if dev else ():
        digest.update(json.dumps([query.query, query.doc_ids, query.titles, query.grades.tolist()]).encode())
    if dev and dev.catalogue:
        digest.update(json.dumps(dev.catalogue.titles).encode())
    return digest.hexdigest()[:32]
