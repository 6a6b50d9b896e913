"""A small model with random weights, in a model folder: enough to encode, index and search. No torch."""

from pathlib import Path
from typing import Any

import numpy as np

from clickvec.config import Tower
from clickvec.model import folder, forward
from clickvec.text.trigrams import Vocabulary

TEXTS = (
    "hotels in shanghai",
    "shanghai hotels accommodation hotel in shanghai discount and reservation",
    "how to fix bath tub wont turn off",
    "how do you paint a bathtub and what paint should you use",
    "cheap flights to new york",
    "new york city guide",
    "naïve café",
    "上海 酒店",
)
TOWERS: dict[str, dict[str, Any]] = {
    "rnn": {"kind": "rnn"},
    "lstm": {"kind": "lstm"},
    "lstm-forget": {"kind": "lstm", "forget_gate": True},
    "lstm-all": {"kind": "lstm", "forget_gate": True, "peepholes": True},
    "bilstm": {"kind": "bilstm"},
    "bilstm-all": {"kind": "bilstm", "forget_gate": True, "peepholes": True},
    "dssm": {"kind": "dssm"},
    "clsm": {"kind": "clsm"},
}


def tiny(
    kind: str = "lstm", shared_tower: bool = False, seed: int = 0, max_words: int = 10, **tower_fields: int
) -> folder.Model:
    """The model in memory."""
    sizes: dict[str, Any] = {"cells": 7, "hidden": 9, "output": 6} | tower_fields
    tower = Tower(kind, **sizes)
    trigrams = Vocabulary.count(TEXTS).trigrams
    rng = np.random.default_rng(seed)
    weights = {
        f"{side}.{name}": rng.normal(0, 0.5, shape).astype(np.float32)
        for side in folder.sides(shared_tower)
        for name, shape in forward.shapes(tower, len(trigrams)).items()
    }
    return folder.Model(tower, shared_tower, max_words, trigrams, weights, {"recipe": "none"})


def tiny_model(
    path: Path, kind: str = "lstm", shared_tower: bool = False, seed: int = 0, max_words: int = 10, **tower_fields: int
) -> Path:
    """The model in a folder at `path`, which is returned."""
    model = tiny(kind, shared_tower, seed, max_words, **tower_fields)
    folder.save_model(model._replace(metrics='{"epoch": 1}\n', card="# A tiny model\n"), path)
    return path
