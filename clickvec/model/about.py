"""What a model is, in numbers, and what computes it here: for `clickvec info`."""

import math
from pathlib import Path
from typing import Any

from clickvec.config import Tower
from clickvec.model import fast, forward
from clickvec.model.folder import Model, sides
from clickvec.native import loader, lstm

PAPER_TRIGRAMS = 50_000
_PROCESSORS = {"avx512": "AVX-512", "avx2": "AVX2"}


def parameters(tower: Tower, trigrams: int) -> tuple[int, int]:
    """The number of weights of one tower: all of them, and the input weights alone, which is what the paper counts."""
    counts = {name: math.prod(shape) for name, shape in forward.shapes(tower, trigrams).items()}
    return sum(counts.values()), sum(count for name, count in counts.items() if name.endswith(".input"))


def about_model(model: Model) -> dict[str, Any]:
    """Facts by name."""
    towers, trigrams = len(sides(model.shared_tower)), len(model.trigrams)
    every, inputs = parameters(model.tower, trigrams)
    in_paper = parameters(model.tower, PAPER_TRIGRAMS)[1]
    return {
        "tower": describe_tower(model.tower),
        "towers": "one, shared by queries and titles" if model.shared_tower else "two: query and title",
        "dimensions": model.tower.dimensions,
        "trigrams": trigrams,
        "words read": model.max_words,
        "parameters": towers * every,
        "input weights are": model.precision,
        "input weights per tower": inputs,
        "the same with 50,000 trigrams, as the paper counts": f"{in_paper / 1e6:g}M",
        "fingerprint": model.fingerprint,
        "data": model.training.get("data", {}),
        "kept": model.training.get("kept", {}),
        "recipe": model.training.get("recipe", {}),
    }


def computed_by(tower: Tower) -> str:
    """What encodes texts on this machine, compiled code or NumPy; and if NumPy, why."""
    kernel = lstm.kernel()
    if not fast.has_fast_form(tower):
        return "NumPy: this tower has no compiled form"
    if kernel:
        return f"compiled code for {_PROCESSORS.get(kernel.processor, kernel.processor)}"
    if not loader.wanted():
        return "NumPy: CLICKVEC_COMPILED says so"
    if not list(Path(loader.__file__).parent.glob("_lstm_*.so")):
        return (
            "NumPy: nothing was compiled at installation; with a C compiler and an x86-64 processor, install it again"
        )
    return "NumPy: what was compiled is of another version, or for another processor; install clickvec again"


def describe_tower(tower: Tower) -> str:
    """The tower in the words of the paper's table."""
    extras = [name for name, on in (("forget gate", tower.forget_gate), ("peepholes", tower.peepholes)) if on]
    options = f" with {' and '.join(extras)}" if extras else ""
    options += f", {tower.pooling} pooling" if tower.pooling != Tower.pooling else ""
    return {
        "rnn": f"RNN, {tower.hidden} hidden units{options}",
        "lstm": f"LSTM-RNN, {tower.cells} cells{options}",
        "bilstm": f"bidirectional LSTM-RNN, {tower.cells} cells in each direction{options}",
        "dssm": f"DSSM, {tower.hidden}/{tower.output}",
        "clsm": f"CLSM, {tower.hidden}/{tower.output}, window {tower.window}",
    }[tower.kind]
