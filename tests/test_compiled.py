"""What is compiled when the package is installed; that it computes what forward.py does is tested in test_fast.py."""

import hashlib
import importlib.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_fast import SMALL, projections, random_weights
from tiny import TEXTS, tiny_model

from clickvec import compiled, fast, forward
from clickvec.encoder import Encoder
from clickvec.text import ragged

ROOT = Path(__file__).parents[1]
can_compile = pytest.mark.skipif(
    shutil.which("cc") is None or platform.machine() != "x86_64" or sys.platform != "linux",
    reason="no C compiler, or another kind of processor",
)

is_compiled = pytest.mark.skipif(compiled.kernel() is None, reason="not compiled, or not for this processor")


def build_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@can_compile
def test_set_up_has_compiled_it() -> None:
    hook = build_hook()
    assert tuple(hook.PROCESSORS) == compiled.PROCESSORS
    for name, processors in hook.SOURCES.items():
        file = ROOT / "clickvec" / name
        shared = (ROOT / "clickvec" / hook.SHARED).read_bytes()
        source = hashlib.sha256(file.read_bytes() + shared).hexdigest().encode()
        for processor in processors:
            assert source in (ROOT / "clickvec" / f"_{file.stem}_{processor}.so").read_bytes(), "run `make setup`"


@can_compile
def test_it_compiles_into_a_folder_and_is_used_for_that_source_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = build_hook()
    made = hook.compile_all(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(made)
    assert len(made) == sum(map(len, hook.SOURCES.values()))
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    (tmp_path / "train").mkdir()
    shutil.copy(ROOT / "clickvec" / hook.SHARED, tmp_path)
    for name, processors in hook.SOURCES.items():
        source = (ROOT / "clickvec" / name).read_bytes()
        (tmp_path / name).write_bytes(source)
        assert all(compiled.library(name, processor) for processor in processors)
        here = [processor for processor in processors if name != "lstm.c" or compiled.load(processor)]
        assert here or compiled.kernel() is None
        (tmp_path / name).write_bytes(source + b"/* a later version */")
        assert not any(compiled.library(name, processor) for processor in processors)
        (tmp_path / name).unlink()
        assert not any(compiled.library(name, processor) for processor in processors)
    assert not any(map(compiled.load, compiled.PROCESSORS))


@pytest.mark.parametrize("compiler", ["false", "no-such-compiler --option"])
def test_without_a_compiler_there_is_nothing_and_no_error(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", compiler)
    (tmp_path / "_lstm_avx2.so").write_bytes(b"of an older source")
    hook = build_hook()
    monkeypatch.setattr(hook.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(hook.sys, "platform", "linux")
    assert hook.compile_all(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    assert "Python will do its work" in capfd.readouterr().err


@can_compile
def test_a_compiler_without_openmp_compiles_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ncase "$*" in *-fopenmp*) exit 1;; esac\nexec cc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    (tmp_path / "made").mkdir()
    made = {file.name for file in build_hook().compile_all(tmp_path / "made")}
    assert made == {"_lstm_avx2.so", "_lstm_avx512.so", "_words_any.so"}


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    tiny_model(tmp_path / "model", cells=32)
    code = (
        "import sys, numpy, clickvec; from clickvec import compiled, words; "
        "encoder = clickvec.Encoder.load(sys.argv[1]); "
        "numpy.save(sys.argv[2], encoder.encode_document(sys.argv[3:])); print(compiled.kernel(), words.functions())"
    )
    call = [sys.executable, "-c", code, str(tmp_path / "model"), str(tmp_path / "off.npy"), *TEXTS]
    done = subprocess.run(call, env={"CLICKVEC_COMPILED": "0"}, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "None None\n"
    ours = Encoder.load(tmp_path / "model").encode_document(TEXTS)
    np.testing.assert_allclose(np.load(tmp_path / "off.npy"), ours, rtol=0, atol=1e-6)


def test_a_file_that_is_no_library_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    assert compiled.load("avx2") is None
    (tmp_path / "_lstm_avx2.so").write_bytes(b"not a library")
    assert compiled.load("avx2") is None


@is_compiled
def test_of_gates_that_are_all_but_closed_the_digits_are_kept() -> None:
    weights = random_weights(SMALL, np.float32)
    weights = weights | {f"{gate}.bias": weights[f"{gate}.bias"] - 15 for gate in ("input_gate", "output_gate")}
    exact = {key: weight.astype(np.float64) for key, weight in weights.items()}
    texts = ragged([[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11]])
    plain = forward.run(SMALL, exact, projections(exact), texts)
    tower = fast.FastTower(SMALL, weights)
    found = tower.run(tower.rows(projections(weights)), texts)
    assert 0 < np.abs(plain).max() < 1e-6
    np.testing.assert_allclose(found, plain, rtol=1e-4)


@is_compiled
@given(st.lists(st.lists(st.integers(0, 11), max_size=9), min_size=1, max_size=20), st.randoms())
def test_a_text_gives_the_same_bits_in_any_company(texts: list[list[int]], random: Random) -> None:
    weights = random_weights(SMALL, np.float32)
    tower = fast.FastTower(SMALL, weights)
    table = tower.rows(projections(weights))
    order = list(range(len(texts)))
    random.shuffle(order)
    together = tower.run(table, ragged(texts))
    shuffled = tower.run(table, ragged(texts[place] for place in order))
    np.testing.assert_array_equal(shuffled, together[order])
    for place, text in enumerate(texts):
        np.testing.assert_array_equal(tower.run(table, ragged([text]))[0], together[place])
