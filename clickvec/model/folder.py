"""The model folder, which connects training and run time: `training/` writes it, `encoder.py` reads it.

It holds
    config.json           format, tower, text settings, fingerprint, size and hash of each file, how it was trained
    weights.safetensors   the weights, by name: `query.input_gate.recurrent`, ... (`shared.` when one tower serves both)
                          float32; input weights also float16, or int8 with their `.scale` (format 2, see `shrink.py`)
    trigrams.txt          the vocabulary, one trigram or whole word (format 3) per line; its id is the line number
    README.md             the model card
    metrics.jsonl         one JSON object per epoch of training
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickvec.config import MAX_COUNT, Tower
from clickvec.errors import ClickvecError, UnavailableError
from clickvec.model import forward
from clickvec.model.fusion_report import is_report
from clickvec.storage.arrays import write_arrays
from clickvec.storage.files import check_replaceable, replacing, write_json, write_lines
from clickvec.storage.json_files import json_hash
from clickvec.storage.snapshot import Snapshot, describe_file, open_folder
from clickvec.text.trigrams import is_whole_word

MODEL_FORMAT = 3  # the newest known format; a model is written in the oldest format that can hold it
MODEL_FILES = ("config.json", "weights.safetensors", "trigrams.txt", "README.md", "metrics.jsonl")
_HASHED = ("weights.safetensors", "trigrams.txt")  # what the fingerprint covers


class Model(NamedTuple):
    """The content of a model folder. The names of weights begin with the tower: query, title or shared."""

    tower: Tower
    shared_tower: bool
    max_words: int
    trigrams: tuple[str, ...]
    weights: Mapping[str, forward.Array]
    training: dict[str, Any]  # recipe, data and metrics, for people
    fingerprint: str = ""
    metrics: str = ""  # metrics.jsonl
    card: str = ""  # README.md
    fusion: Mapping[str, Any] | None = None  # how an index of this model ranks (search/fusion.py): method and weights
    fusion_report: dict[str, Any] | None = None  # how it was chosen

    def tower_weights(self, side: str) -> dict[str, forward.Array]:
        """Return the weights of the query or title tower, with the names and in the order of `forward.shapes`."""
        weights = forward.direction(self.weights, "shared" if self.shared_tower else side)
        names = forward.shapes(self.tower, len(self.trigrams))
        scales = (f"{name}.scale" for name in names if f"{name}.scale" in weights)
        return {name: weights[name] for name in (*names, *scales)}

    @property
    def precision(self) -> str:
        """The number format of the input weights: float32, or float16 or int8 after `shrink`."""
        return str(next(weight.dtype for name, weight in self.weights.items() if name.endswith(".input")))


def sides(shared_tower: bool) -> tuple[str, ...]:
    """Return the names of the towers of a model."""
    return ("shared",) if shared_tower else ("query", "title")


def check_model_output(path: Path) -> None:
    """Refuse to write a model over anything but another model."""
    check_replaceable(path, "config.json", MODEL_FILES)


def save_model(model: Model, path: Path) -> str:
    """Write a model folder atomically and return its fingerprint."""
    with replacing(path, "config.json", MODEL_FILES) as fresh:
        return write_model(model, fresh)


def write_model(model: Model, fresh: Path) -> str:
    """Write a model into an empty folder and return its fingerprint."""
    write_arrays(fresh / "weights.safetensors", model.weights)
    write_lines(fresh / "trigrams.txt", model.trigrams)
    (fresh / "README.md").write_text(model.card, encoding="utf-8")
    (fresh / "metrics.jsonl").write_text(model.metrics, encoding="utf-8")
    config = {
        "format": _format_of(model),
        "tower": _tower_fields(model.tower),
        "shared_tower": model.shared_tower,
        "max_words": model.max_words,
        "files": {name: _bytes_and_hash(fresh / name) for name in _HASHED},
        "samples": {name: describe_file(fresh / name) for name in _HASHED},
        "training": model.training,
    }
    if model.fusion is not None:  # not in the fingerprint: another fusion does not change a vector
        fusion = dict(model.fusion)
        config["fusion"] = {"hash": json_hash(fusion), **fusion, "report": model.fusion_report}
    config["fingerprint"] = _fingerprint(config)
    write_json(fresh / "config.json", config)
    return str(config["fingerprint"])


def _tower_fields(tower: Tower) -> dict[str, Any]:
    """Return the tower for config.json, without the default pooling.

    So models from before pooling was a choice keep their fingerprint, and older versions can open newer models.
    """
    fields = dataclasses.asdict(tower)
    if tower.pooling == Tower.pooling:
        del fields["pooling"]
    return fields


def open_model(path: Path, verify: bool = False) -> Model:
    """Open a model folder. See `read_model`."""
    with open_folder(path, MODEL_FILES, "model folder") as opened:
        return read_model(opened, verify)


def read_model(opened: Snapshot, verify: bool = False) -> Model:
    """Return the model in an open folder. Check names, shapes, sizes and fingerprint; the weights are memory-mapped.

    With `verify`, also check every byte: the hashes, and that all weights are finite.
    """
    config, path = opened.json("config.json"), opened.path
    check_format(config.get("format"), MODEL_FORMAT, path, "model")
    try:
        tower = _read_tower(config["tower"], path)
        fingerprint = str(config["fingerprint"])
        _check_kinds(config)
        if fingerprint != _fingerprint(config):
            raise UnavailableError(f"{path}/config.json was changed: its fingerprint disagrees; copy the folder again")
        if set(config["files"]) != set(_HASHED):
            raise ValueError("files")
        opened.check(config["files"], "config.json")
        opened.check(config.get("samples", {}), "config.json")  # earlier versions wrote none
        for name in _HASHED if verify else ("trigrams.txt",):  # it is small, and needed anyway
            if opened.sha256(name) != config["files"][name]["sha256"]:
                raise UnavailableError(f"{path}/{name} was changed: its hash disagrees; copy the folder again")
        model = Model(
            tower, config["shared_tower"], config["max_words"], tuple(opened.lines("trigrams.txt")),
            opened.arrays("weights.safetensors"), config["training"], fingerprint,
            opened.text("metrics.jsonl"), opened.text("README.md"), *_read_fusion(config.get("fusion"), path),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UnavailableError(f"{path}/config.json lacks or misspells {error}; copy the folder again") from None
    _check_weights(model, path)
    if verify:
        _check_finite(model.weights, path)
    return model


def _read_tower(fields: dict[str, Any], path: Path) -> Tower:
    try:
        return Tower(**fields)
    except ClickvecError as error:
        raise UnavailableError(f"{path}/config.json is damaged: {error}; copy the folder again") from None


def _read_fusion(stored: object, path: Path) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return how an index of the model ranks, and how that was chosen; None if training did not choose it."""
    if stored is None:
        return None, None
    if not isinstance(stored, dict):
        raise ValueError("fusion")
    if (report := stored.get("report")) is not None and not is_report(report):
        raise ValueError("the report of the fusion")
    fusion = {name: stored[name] for name in ("method", "weights", "without") if name in stored}
    if stored["hash"] != json_hash(fusion):
        raise UnavailableError(
            f"{path}/config.json was changed: the hash of its fusion disagrees; copy the folder again"
        )
    return fusion, report


def _check_kinds(config: Mapping[str, Any]) -> None:
    """Raise ValueError with the name of a setting that has the wrong type or an unknown value."""
    kinds = {"shared_tower": bool, "max_words": int, "training": dict}
    for name, kind in kinds.items():
        if type(config[name]) is not kind:
            raise ValueError(f"{name}: {config[name]!r}")
    if not 1 <= config["max_words"] <= MAX_COUNT:
        raise ValueError(f"max_words: {config['max_words']:.2g}")


def _format_of(model: Model) -> int:
    """Return 3 for a vocabulary with whole words, otherwise 2 for weights that are not float32."""
    if any(map(is_whole_word, model.trigrams)):
        return 3
    return 2 if model.precision in ("float16", "int8") else 1


def check_format(number: object, newest: int, path: Path, kind: str) -> None:
    """Refuse a folder without a format, or of a newer format than this version knows."""
    if type(number) is not int or number < 1:
        raise UnavailableError(f"{path} is not a {kind} folder of clickvec: it names no format")
    if number > newest:
        raise UnavailableError(f"{path} has {kind} format {number}, newer than {newest}: update clickvec")


def _check_weights(model: Model, path: Path) -> None:
    """Raise if names, shapes or types of weights do not fit the tower, or if a small weight is not finite."""
    expected = {
        f"{side}.{name}": shape
        for side in sides(model.shared_tower)
        for name, shape in forward.shapes(model.tower, len(model.trigrams)).items()
    }
    for name in [name for name in expected if name.endswith(".input") and name in model.weights]:
        if model.weights[name].dtype == np.int8:
            expected[f"{name}.scale"] = (len(model.trigrams),)
        elif model.weights[name].dtype.kind != "f" or f"{name}.scale" in model.weights:
            raise UnavailableError(
                f"{path}: {name} is {model.weights[name].dtype}, but only int8 has a scale; copy the folder again"
            )
    for name, shape in expected.items():
        actual = model.weights[name].shape if name in model.weights else "nothing"
        if actual != shape:
            raise UnavailableError(f"{path}: {name} should have the shape {shape}, but has {actual}; copy it again")
    # The input matrices are large and are not read here. The encoder finds NaN in them when it computes a vector.
    _check_finite({name: w for name, w in model.weights.items() if not name.endswith(".input")}, path)


def _check_finite(weights: Mapping[str, forward.Array], path: Path) -> None:
    for name, weight in weights.items():
        if not np.isfinite(weight).all():
            raise UnavailableError(f"{path}: {name} holds a NaN or infinite weight; train the model again")


def _bytes_and_hash(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}


def _fingerprint(config: Mapping[str, Any]) -> str:
    """Return a hash of what the model computes: tower, text settings, and the hashes of weights and trigrams."""
    parts = {key: config[key] for key in ("tower", "shared_tower", "max_words", "files")}
    return json_hash(parts)
