"""Before a run begins: do its inputs fit together, may it write there, and is the device here?"""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from clickvec.config import Recipe
from clickvec.data import Judged, dataset
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import with_relevant
from clickvec.model.folder import check_model_output
from clickvec.storage import files
from clickvec.storage.temporary import locked

RUN_FILES = ("lock", "checkpoint.safetensors", "checkpoint.tmp", "metrics.jsonl", "best")


def check_inputs(data: Dataset, recipe: Recipe, dev: Judged | None) -> None:
    """Refuse what could only fail, or mislead, an hour later."""
    dataset.check(data)
    if data.max_words != recipe.max_words:
        raise ClickvecError(
            f"the data was prepared with max_words {data.max_words}, and the recipe has {recipe.max_words}: prepare it "
            f"again, or add --set max_words={data.max_words}"
        )
    if len(data.trigrams) > recipe.max_trigrams:
        raise ClickvecError(
            f"the data was prepared with {len(data.trigrams):,} trigrams, and the recipe has max_trigrams "
            f"{recipe.max_trigrams:,}: prepare it again, or leave the setting out"
        )
    if recipe.patience and dev is None:
        raise ClickvecError("patience needs a dev set to look at; add --dev")
    if dev is not None and not with_relevant(dev):
        raise ClickvecError("the dev set has no query with a relevant title (grade 1 or more), so it measures nothing")


def check_places(out: Path, resume: bool, overwrite: bool) -> Path:
    """The folder for the state of a run into `out`; an error where one of the two is not ours to write."""
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
    begun = (run_folder / "checkpoint.safetensors").exists()
    if resume and not begun and (out / "config.json").exists():
        raise ClickvecError(f"there is nothing to resume: the run is finished, and its model is at {out}")
    if resume and not begun:
        raise ClickvecError(f"there is nothing to resume: {run_folder} holds no checkpoint; start without --resume")
    if begun and not resume and not overwrite:
        raise ClickvecError(
            f"{run_folder} holds an unfinished run; go on with --resume or start again with --overwrite"
        )
    if (out / "config.json").exists() and not overwrite and not resume:
        raise ClickvecError(
            f"{out} holds a model already; choose another --out, or overwrite it (--overwrite; overwrite=True)"
        )
    return run_folder


@contextmanager
def hold(run_folder: Path, out: Path) -> Iterator[None]:
    """Make and lock the folder for the state of a run; one that ends with nothing to keep leaves nothing there."""
    with ExitStack() as held:
        try:
            held.enter_context(files.ensured_folder(run_folder))
            held.enter_context(locked(run_folder / "lock", str(out)))
        except OSError as error:
            raise files.cannot_write(out, error) from None
        try:
            yield
        finally:
            if not any((run_folder / name).exists() for name in ("checkpoint.safetensors", "best")):
                for name in RUN_FILES:
                    (run_folder / name).unlink(missing_ok=True)


def clear(run_folder: Path) -> None:
    """Forget an earlier run, the checkpoint first: without it nothing is there to resume."""
    for name in ("checkpoint.safetensors", "metrics.jsonl"):
        (run_folder / name).unlink(missing_ok=True)
    shutil.rmtree(run_folder / "best", ignore_errors=True)


def pick_device(name: str) -> torch.device:
    """The device of this name, if it is here; for auto, a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name != "cpu" and not re.fullmatch("cuda(:[0-9]{1,3})?", name):
        raise ClickvecError(f"a device is cpu, cuda, cuda:1 and so on, or auto, not {name!r}")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ClickvecError(f"there is no CUDA device here that {name} names; use --device cpu")
    return device


def describe_device(name: str) -> str:
    """The GPU that a device name stands for, as its maker calls it; nothing for a CPU."""
    device = pick_device(name)
    return torch.cuda.get_device_name(device) if device.type == "cuda" else ""
