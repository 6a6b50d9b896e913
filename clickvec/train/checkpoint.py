"""The state of an unfinished run in one file, so that a resumed run ends in the same weights as an uninterrupted one.

Random numbers come from (seed, epoch, minibatch) and have no state to keep.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clickvec import files
from clickvec.config import Recipe
from clickvec.dataset import Dataset
from clickvec.errors import ClickvecError
from clickvec.readers import Judged


@dataclass
class State:
    """Where a run is. Everything here goes into the checkpoint."""

    epoch: int = 0
    batch: int = 0  # of the epoch: minibatches done
    loss_sum: float = 0.0
    weight_sum: float = 0.0
    masked: int = 0
    seconds: float = 0.0
    best_epoch: int = 0
    best_score: float = -1.0
    history: list[dict[str, Any]] = field(default_factory=list)  # the metrics of each finished epoch


def save(path: Path, state: State, recipe: Recipe, data_name: str, tensors: Mapping[str, Tensor]) -> None:
    """Write the checkpoint in the place of the one before."""
    about = {"state": dataclasses.asdict(state), "recipe": dataclasses.asdict(recipe), "data": data_name}
    fresh = path.with_suffix(".tmp")
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    try:
        files.write_arrays(fresh, arrays, {"run": json.dumps(about)})
        files.replace_file(path, fresh)
    except Exception as error:
        fresh.unlink(missing_ok=True)
        raise files.cannot_write(path, error) from None


def restore(path: Path, recipe: Recipe, data_name: str, tensors: Mapping[str, Tensor]) -> State:
    """Read the checkpoint back into the tensors; refuse one of another recipe or other data."""
    try:
        about = json.loads(files.read_metadata(path)["run"])
        then = dataclasses.asdict(Recipe()) | about["recipe"]  # a setting that it lacks is newer, and was off
        now, state = dataclasses.asdict(recipe), State(**about["state"])
    except (KeyError, TypeError, ValueError):
        raise ClickvecError(f"{path} is damaged; start again with --overwrite") from None
    for key in now:
        if then[key] != now[key]:
            raise ClickvecError(
                f"cannot resume {path.parent}: it was begun with {key}={then[key]}, not {now[key]}; "
                "give the same settings, or start again with --overwrite"
            )
    if about["data"] != data_name:
        raise ClickvecError(
            f"cannot resume {path.parent}: it was begun on other data or another dev set; start again with --overwrite"
        )
    arrays = files.read_arrays(path)
    if set(arrays) != set(tensors):
        raise ClickvecError(
            f"cannot resume {path.parent}: it was begun on another device, or with Triton and not without; resume it "
            "where it was begun, or start again with --overwrite"
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name not in arrays or arrays[name].shape != tuple(tensor.shape):
                raise ClickvecError(f"{path} is damaged at {name}; start again with --overwrite")
            if tensor.device.type == "cpu":
                np.copyto(tensor.detach().numpy(), arrays[name])  # straight from the file: there may be much of it
            else:
                tensor.copy_(torch.tensor(arrays[name]))
    return state


def name_data(data: Dataset, dev: Judged | None) -> str:
    """A name for the data and the dev set that changes when they do."""
    digest = hashlib.sha256(json.dumps([data.trigrams, data.max_words, data.clicked_titles]).encode())
    for rows in (data.steps, data.queries, data.titles, data.shown):
        digest.update(np.ascontiguousarray(rows.values).data)
        digest.update(np.ascontiguousarray(rows.offsets).data)
    for column in (data.pair_query, data.pair_title, data.pair_clicks):
        digest.update(np.ascontiguousarray(column).data)
    for query in dev or ():
        digest.update(json.dumps([query.query, query.doc_ids, query.titles, query.grades.tolist()]).encode())
    return digest.hexdigest()[:32]
