"""Smaller models and smaller vectors: float16, or int8 with a scale for each row.

Nearly all of a model are its input matrices, one row for each trigram; the rest stays float32. W l(t) is a sum of a few
rows, which `projection.project` scales as it gathers them: the matrix is never whole in float32, on disk or in memory.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model.folder import Model, check_model_place, open_model, open_model_folder, read_model, save_model

PRECISIONS = ("float32", "float16", "int8")
_STEPS = 127  # int8 from -127 to 127: -128 has no counterpart


class Rows(NamedTuple):
    """Rows of int8, and what to multiply each by."""

    values: NDArray[np.int8]
    scales: NDArray[np.float32]


def to_int8(rows: NDArray[Any]) -> Rows:
    """Each row in 255 steps, as wide as its largest value asks for; all that a row holds is on its first axis."""
    flat = np.asarray(rows, np.float32).reshape(len(rows), math.prod(rows.shape[1:]))
    scales = np.abs(flat).max(axis=1, initial=0) / np.float32(_STEPS)
    scales[scales == 0] = 1  # a row of zeros
    values = np.rint(flat / scales[:, None]).clip(-_STEPS, _STEPS).astype(np.int8)  # beyond: of the least float32
    return Rows(values.reshape(rows.shape), scales)


class Written(NamedTuple):
    """A smaller model on disk."""

    model: Model
    bytes: int
    bytes_before: int


def write_shrunk(source: Path, out: Path, precision: str, overwrite: bool = False) -> Written:
    """Read a model folder, and write it to `out` with smaller weights and with its card and its history."""
    check_model_place(out)
    if out.exists() and out.samefile(source):
        raise ClickvecError(f"{out} is the model itself, whose weights would be lost; choose another --out")
    if (out / "config.json").exists() and not overwrite:
        raise ClickvecError(f"{out} holds a model already; choose another --out, or overwrite it with --overwrite")
    with open_model_folder(source) as opened:
        small = shrink_model(read_model(opened), precision)
        card = opened.text("README.md").rstrip("\n")
    was = small.training["shrunk"]["from"]
    card += f"\n\n## Shrunk\n\nThe input weights are {precision}; in the model {was} they were float32.\n"
    save_model(small, out, card.lstrip("\n"))
    return Written(open_model(out), _size(out), _size(source))


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def shrink_model(model: Model, precision: str) -> Model:
    """The model with its input weights in float16 or int8; the small weights stay as they are."""
    check(precision, "weights")
    if model.precision != "float32":
        raise ClickvecError(f"the model is shrunk already, to {model.precision}; shrink the one that it was made from")
    if precision == "float32":
        raise ClickvecError("the model is in float32 already; choose float16 or int8 for its weights")
    weights: dict[str, NDArray[Any]] = {}
    for name, weight in model.weights.items():
        if not name.endswith(".input"):
            weights[name] = weight
        elif not np.isfinite(weight).all():
            raise ClickvecError(f"{name} holds a weight that is not a number; train the model again")
        elif precision == "int8":
            weights[name], weights[f"{name}.scale"] = to_int8(weight)
        else:
            weights[name] = _to_float16(weight, name)
    training = model.training | {"shrunk": {"from": model.fingerprint, "weights": precision}}
    return model._replace(weights=weights, training=training, fingerprint="")


def _to_float16(weight: NDArray[Any], name: str) -> NDArray[np.float16]:
    if weight.size and np.abs(weight).max() > np.finfo(np.float16).max:
        raise ClickvecError(f"{name} holds a weight that is too large for float16; shrink the model to int8")
    return weight.astype(np.float16)


def shrink_vectors(vectors: NDArray[np.float32], precision: str) -> NDArray[Any]:
    """Vectors in fewer bytes. One of int8 is a direction: divided by its length it is of length 1 again."""
    if precision == "int8":
        return to_int8(vectors).values
    return vectors.astype(precision, copy=False)


def one_over_length(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """What makes shrunk vectors ones of length 1; 1 for a vector of zeros."""
    length = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1))
    return (1 / np.where(length > 0, length, 1)).astype(np.float32)


def check(precision: str, what: str) -> None:
    """Refuse a precision that there is not."""
    if precision not in PRECISIONS:
        raise ClickvecError(f"{what} are {', '.join(PRECISIONS[:-1])} or {PRECISIONS[-1]}, not {precision!r}")
