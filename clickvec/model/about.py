"""Facts about a model, and what computes it on this machine: for `clickvec info`."""

import dataclasses
import math
from typing import Any

from clickvec.config import Tower
from clickvec.model import fast, forward
from clickvec.model.folder import Model, sides
from clickvec.native import loader, lstm
from clickvec.text.trigrams import count_units

PAPER_TRIGRAMS = 50_000
_PROCESSORS = {"avx512": "AVX-512", "avx2": "AVX2"}


def parameters(tower: Tower, trigrams: int) -> tuple[int, int]:
    """Return the number of weights of one tower, and of its input weights alone, which is what the paper counts."""
    counts = {name: math.prod(shape) for name, shape in forward.shapes(tower, trigrams).items()}
    return sum(counts.values()), sum(count for name, count in counts.items() if name.endswith(".input"))


def about_model(model: Model) -> dict[str, Any]:
    """Return facts about a model, by name."""
    towers, trigrams = len(sides(model.shared_tower)), len(model.trigrams)
    weights, inputs = parameters(model.tower, trigrams)
    in_paper = parameters(model.tower, PAPER_TRIGRAMS)[1]
    return {
        "tower": describe_tower(model.tower),
        "towers": "one, shared by queries and titles" if model.shared_tower else "two: query and title",
        "dimensions": model.tower.dimensions,
        **count_units(model.trigrams),
        "words read": model.max_words,
        "parameters": towers * weights,
        "input weights are": model.precision,
        "input weights per tower": inputs,
        "the same with 50,000 trigrams, as the paper counts": f"{in_paper / 1e6:g}M",
        "fingerprint": model.fingerprint,
        "data": model.training.get("data", {}),
        "kept": model.training.get("kept", {}),
        **_held_out(model.training.get("held_out")),
        "recipe": model.training.get("recipe", {}),
    }


def _held_out(figures: dict[str, Any] | None) -> dict[str, Any]:
    """Return the figures on held-out clicks, if there were any: of each system by each measure."""
    if not figures:
        return {}
    measures = {
        f"{system['system']} {name}": system[name] for system in figures["systems"] for name in system["intervals"]
    }
    name = "cross-validated clicks" if "folds" in figures else "held-out clicks"
    return {name: {"queries": figures["queries"], "titles": figures["titles"], **measures}}


def computed_by(tower: Tower) -> str:
    """Return what encodes texts on this machine: compiled code, or NumPy and the reason for it."""
    kernel = lstm.kernel()  # raises if CLICKVEC_COMPILED has an unknown value
    if not fast.has_fast_form(tower):
        return "NumPy: this tower has no compiled form"
    if kernel:
        return f"compiled code for {_PROCESSORS.get(kernel.processor, kernel.processor)}"
    if not loader.wanted():
        return "NumPy: CLICKVEC_COMPILED says so"
    return "NumPy: nothing is compiled for this version and processor. With a C compiler and x86-64, reinstall clickvec"


def describe_tower(tower: Tower) -> str:
    """Return the tower in the words of the paper's table."""
    description = forward.TOWERS[tower.kind].description.format(**dataclasses.asdict(tower))
    options = [name for name, is_on in (("forget gate", tower.forget_gate), ("peepholes", tower.peepholes)) if is_on]
    description += f" with {' and '.join(options)}" if options else ""
    return description + (f", {tower.pooling} pooling" if tower.pooling != Tower.pooling else "")
