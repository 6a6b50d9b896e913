"""Shrink models and vectors: float16, or int8 with one scale per row.

Nearly all of a model is its input matrices, with one row per trigram; the other weights stay float32. W l(t) is a sum
of a few rows, which `projection.project` scales as it reads them, so the whole matrix never exists in float32.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model.folder import Model, check_model_output, open_model, save_model

StoredVectors = NDArray[Any]  # float32, int8 or float16
VECTOR_TYPES = ("float32", "int8")
_LARGEST = 127  # int8 values go from -127 to 127: -128 has no counterpart


def to_int8(rows: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return rows of int8, and the factor of each row.

    Each row, along axis 0, is rounded to 255 equally spaced values, as far apart as its largest value needs.
    """
    flat = np.asarray(rows, np.float32).reshape(len(rows), math.prod(rows.shape[1:]))
    scales = np.abs(flat).max(axis=1, initial=0) / np.float32(_LARGEST)
    scales[scales == 0] = 1  # a row of zeros
    values = np.rint(flat / scales[:, None]).clip(-_LARGEST, _LARGEST).astype(np.int8)  # subnormal scales need the clip
    return values.reshape(rows.shape), scales


# --- models ------------------------------------------------------------------------------------------------------


def write_shrunk(source: Path, out: Path, precision: str, overwrite: bool = False) -> tuple[Model, int, int]:
    """Read a model folder and write it to `out` with smaller weights, its card and its training history.

    Return the smaller model, its bytes on disk and those of the original.
    """
    check_model_output(out)
    if out.exists() and out.samefile(source):
        raise ClickvecError(f"{out} is the model itself, whose weights would be lost; choose another --out")
    if (out / "config.json").exists() and not overwrite:
        raise ClickvecError(f"{out} already holds a model; choose another --out, or overwrite it with --overwrite")
    small = shrink_model(open_model(source), precision)
    original, card = small.training["shrunk"]["from"], small.card.rstrip("\n")
    card += f"\n\n## Shrunk\n\nThe input weights are {precision}; in the model {original} they were float32.\n"
    save_model(small._replace(card=card.lstrip("\n")), out)
    return open_model(out), _size(out), _size(source)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def shrink_model(model: Model, precision: str) -> Model:
    """Return the model with its input weights in float16 or int8. The other weights stay as they are."""
    if precision not in ("float16", "int8"):
        raise ClickvecError(f"weights can be shrunk to float16 or int8, not {precision!r}")
    if model.precision != "float32":
        raise ClickvecError(f"the model is already shrunk to {model.precision}; shrink the original model")
    weights: dict[str, NDArray[Any]] = {}
    for name, weight in model.weights.items():
        if not name.endswith(".input"):
            weights[name] = weight
        elif not np.isfinite(weight).all():
            raise ClickvecError(f"{name} holds a NaN or infinite weight; train the model again")
        elif precision == "int8":
            weights[name], weights[f"{name}.scale"] = to_int8(weight)
        elif weight.size and np.abs(weight).max() > np.finfo(np.float16).max:
            raise ClickvecError(f"{name} holds a weight that is too large for float16; shrink the model to int8")
        else:
            weights[name] = weight.astype(np.float16)
    training = model.training | {"shrunk": {"from": model.fingerprint, "weights": precision}}
    return model._replace(weights=weights, training=training, fingerprint="")


# --- vectors -----------------------------------------------------------------------------------------------------


def check_vector_type(name: str) -> None:
    """Refuse a number format in which vectors are not written."""
    if name not in VECTOR_TYPES:
        raise ClickvecError(f"vectors can be {' or '.join(VECTOR_TYPES)}, not {name!r}")


def shrink_vectors(vectors: NDArray[np.float32], vector_type: str) -> StoredVectors:
    """Return the vectors in this number format. int8 rows must be normalised before use."""
    return to_int8(vectors)[0] if vector_type == "int8" else vectors


def inverse_lengths(vectors: StoredVectors) -> NDArray[np.float32]:
    """Return the factor that scales each vector to length 1, or 1 for a zero vector."""
    length = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1))
    return (1 / np.where(length > 0, length, 1)).astype(np.float32)
