"""What `clickvec info` says of a model: the paper's own numbers, and the exact count of what is in the file."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import ok
from ondisk import read_arrays
from tiny import TOWERS, tiny_model

from clickvec.config import Tower
from clickvec.model.about import PAPER_TRIGRAMS, about_model, computed_by, describe_tower, parameters
from clickvec.model.folder import open_model
from clickvec.native import lstm


@pytest.mark.parametrize(
    ("tower", "millions"),
    [
        (Tower("rnn"), 14.4),
        (Tower("lstm"), 14.4),
        (Tower("dssm"), 14.4),
        (Tower("clsm", window=1), 14.4),
        (Tower("lstm", cells=32), 4.8),
        (Tower("lstm", cells=64), 9.6),
        (Tower("clsm", window=3), 43.2),
        (Tower("clsm", window=5), 72),
    ],
    ids=["RNN-288", "LSTM-96", "DSSM", "CLSM-1", "LSTM-32", "LSTM-64", "CLSM-3", "CLSM-5"],
)
def test_the_paper_counts_its_input_weights_like_this(tower: Tower, millions: float) -> None:
    every, inputs = parameters(tower, PAPER_TRIGRAMS)
    assert PAPER_TRIGRAMS == 50_000
    assert inputs == round(millions * 1e6)
    assert every > inputs


def test_the_numbers_of_one_tower_by_hand() -> None:
    # LSTM-96 of the paper: three of (input, recurrent, bias); the forget gate adds a fourth, peepholes a matrix a gate.
    assert parameters(Tower("lstm"), 50_000) == (3 * (50_000 * 96 + 96 * 96 + 96), 14_400_000)
    complete = Tower("lstm", forget_gate=True, peepholes=True)
    assert parameters(complete, 50_000)[0] == 4 * (50_000 * 96 + 96 * 96 + 96) + 3 * 96 * 96
    assert parameters(Tower("bilstm"), 50_000)[1] == 2 * 14_400_000
    assert parameters(Tower("dssm"), 50_000)[0] == 50_000 * 288 + 288 + 288 * 96 + 96


@pytest.mark.parametrize("shared_tower", [False, True], ids=["two towers", "one tower"])
@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
def test_info_counts_what_is_in_the_file(fields: dict[str, Any], shared_tower: bool, tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "m", shared_tower=shared_tower, **fields)
    sizes = {name: array.size for name, array in read_arrays(path / "weights.safetensors").items()}
    facts = json.loads(ok("info", path, "--json"))
    assert facts["parameters"] == sum(sizes.values())
    inputs = sum(size for name, size in sizes.items() if name.endswith(".input"))
    assert facts["input weights per tower"] == inputs / (1 if shared_tower else 2)
    assert f"parameters: {sum(sizes.values()):,}\n" in ok("info", path)


def test_info_prints_the_papers_count(tmp_path: Path) -> None:
    for kind, window, said in (("lstm", 3, "14.4M"), ("clsm", 3, "43.2M"), ("clsm", 5, "72M")):
        sizes = {"cells": 96, "hidden": 288, "output": 96, "window": window}
        path = tiny_model(tmp_path / f"{kind}{window}", kind=kind, **sizes)
        assert about_model(open_model(path))["the same with 50,000 trigrams, as the paper counts"] == said
        assert f"as the paper counts: {said}\n" in ok("info", path)


def test_towers_are_described_as_the_paper_names_them() -> None:
    assert describe_tower(Tower("rnn")) == "RNN, 288 hidden units"
    assert describe_tower(Tower("lstm")) == "LSTM-RNN, 96 cells"
    assert describe_tower(Tower("lstm", 32, forget_gate=True)) == "LSTM-RNN, 32 cells with forget gate"
    both = Tower("bilstm", forget_gate=True, peepholes=True)
    described = "bidirectional LSTM-RNN, 96 cells in each direction with forget gate and peepholes"
    assert describe_tower(both) == described
    assert describe_tower(Tower("lstm", peepholes=True)) == "LSTM-RNN, 96 cells with peepholes"
    assert describe_tower(Tower("rnn", pooling="max")) == "RNN, 288 hidden units, max pooling"
    pooled = Tower("lstm", forget_gate=True, pooling="mean")
    assert describe_tower(pooled) == "LSTM-RNN, 96 cells with forget gate, mean pooling"
    assert describe_tower(Tower("dssm")) == "DSSM, 288/96"
    assert describe_tower(Tower("clsm", window=5)) == "CLSM, 288/96, window 5"


def test_info_says_what_computes_the_model_here_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, tower = tiny_model(tmp_path / "m"), Tower("lstm")
    monkeypatch.delenv("CLICKVEC_COMPILED", raising=False)
    for processor, said in (("avx512", "compiled code for AVX-512"), ("avx2", "compiled code for AVX2")):
        found = lstm.Kernel(processor, 1, lambda: 0, lambda: None)
        monkeypatch.setattr(lstm, "kernel", lambda found=found: found)
        assert f"encoded here by: {said}\n" in ok("info", path)
        assert json.loads(ok("info", path, "--json"))["encoded here by"] == said
        for plain in (Tower("lstm", peepholes=True), Tower("rnn"), Tower("dssm"), Tower("clsm")):
            assert computed_by(plain) == "NumPy: this tower has no compiled form"
    monkeypatch.setattr(lstm, "kernel", lambda: None)
    assert computed_by(tower).startswith("NumPy: nothing is compiled for this version and processor")
    monkeypatch.setenv("CLICKVEC_COMPILED", "0")
    assert computed_by(tower) == "NumPy: CLICKVEC_COMPILED says so"
