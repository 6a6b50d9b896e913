"""The device to train on, and the fastest way to update on it."""

import logging
import re
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from clickvec.config import Recipe
from clickvec.data.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.native import loader
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.training.cpu import compiled
from clickvec.training.data_parallel import DataParallel
from clickvec.training.negatives import Sampler
from clickvec.training.towers import TowerPair
from clickvec.training.update import Plain
from clickvec.training.workers import ALONE, Workers

if TYPE_CHECKING:
    from clickvec.training.gpu.graph import Fused

log = logging.getLogger(__name__)


def pick_device(name: str, workers: Workers = ALONE) -> torch.device:
    """Return the device with this name; for `auto`, a GPU if there is one. Raise a ClickvecError if it is not here.

    If there are several workers on this machine, each gets a GPU of its own.
    """
    if workers.local_count > 1 and (name == "cuda" or (name == "auto" and torch.cuda.is_available())):
        if torch.cuda.device_count() < workers.local_count:
            raise ClickvecError(
                f"there are {workers.local_count} workers and {torch.cuda.device_count()} GPUs on this machine; start "
                "one worker for each GPU (torchrun --nproc-per-node), or use --device cpu"
            )
        return torch.device("cuda", workers.local_rank)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name != "cpu" and not re.fullmatch("cuda(:[0-9]{1,3})?", name):
        raise ClickvecError(f"a device is cpu, cuda, cuda:1 and so on, or auto, not {name!r}")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ClickvecError(f"there is no CUDA device {name} on this machine; use --device cpu")
    return device


def make_updater(
    data: Dataset,
    recipe: Recipe,
    towers: TowerPair,
    sampler: Sampler,
    weights: NDArray[np.float32],
    updates: int,
    teacher: Teacher | None = None,
    workers: Workers = ALONE,
) -> "Plain | Fused":
    """Return the fastest updater for this recipe on the device of the towers. Warn if a faster one cannot run."""
    compiled.kernel()  # a bad CLICKVEC_COMPILED is an error here, before the first update
    device = next(iter(towers.tensors().values())).device
    if device.type == "cuda" and can_be_fused(data, recipe) and workers.count == 1:
        try:
            from clickvec.training.gpu.graph import Fused  # needs Triton

            return Fused(data, recipe, towers, sampler, weights, updates, teacher)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # for example, there is no C compiler; whatever it is, there is a slower way
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            log.warning("Triton does not work here (%s). Training continues without it, many times slower.", reason)
    if workers.count > 1:
        if device.type == "cuda" and can_be_fused(data, recipe):
            log.warning("Several GPUs train without the CUDA graph and kernels of a single one, which may be faster.")
        return DataParallel(data, recipe, towers, sampler, weights, updates, teacher, workers=workers)
    return Plain(data, recipe, towers, sampler, weights, updates, teacher)


def warn_if_slow(device: torch.device, recipe: Recipe) -> None:
    """Warn if the compiled training code cannot run, or is slower than it could be."""
    if device.type != "cpu" or recipe.tower not in ("lstm", "bilstm"):
        return
    kernel = compiled.kernel()
    if kernel is None and loader.wanted():
        log.warning("The compiled training code cannot run here. Training uses torch alone, at half the speed.")
    elif kernel and recipe.cells % kernel.lanes:
        more = recipe.cells + kernel.lanes - recipe.cells % kernel.lanes
        log.warning(
            "cells=%d is not a multiple of %d, the width of a register: cells=%d would train faster.",
            recipe.cells, kernel.lanes, more,
        )  # fmt: skip


def can_be_fused(data: Dataset, recipe: Recipe) -> bool:
    """Return whether `gpu/graph.py` supports the tower and the options, and 32-bit integers can index the data."""
    tower = recipe.tower in ("lstm", "bilstm") and recipe.cells % 16 == 0 and not recipe.peepholes
    largest = max(len(texts.values) for texts in (data.tokens, data.queries, data.titles, data.clicked))
    return tower and recipe.pooling == "last" and largest < 2**31
