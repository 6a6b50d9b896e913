"""What is compiled when the package is installed; that it computes what forward.py does is tested in test_fast.py."""

import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from command import program, sentence
from hypothesis import given
from hypothesis import strategies as st
from kernels import each_path, misaligned
from random_towers import SMALL, projections, random_weights
from tiny import TEXTS, tiny_model

from clickvec.config import Tower
from clickvec.errors import ClickvecError
from clickvec.model import fast, forward
from clickvec.model.encoder import Encoder
from clickvec.native import loader, lstm
from clickvec.text.ragged import Ragged, ragged

ROOT = Path(__file__).parents[2]
PROBE = """#include <immintrin.h>
#ifdef _OPENMP
#include <omp.h>
#endif
int probe(void) { return 0; }
"""
each_kernel = pytest.mark.parametrize("kernel", each_path(lstm.load))


@cache
def compiles(*options: str) -> bool:
    """Whether the compiler that set-up calls knows these options, and has what they need."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*shlex.split(os.environ.get("CC", "cc")), "-shared", "-fPIC", *options, "-x", "c", "-"]
        try:
            made = subprocess.run(
                [*command, "-o", f"{folder}/probe.so"], input=PROBE, capture_output=True, text=True, timeout=300
            )
        except OSError:
            return False
        return made.returncode == 0 and Path(folder, "probe.so").exists()


can_compile = pytest.mark.skipif(
    platform.machine() != "x86_64" or sys.platform != "linux" or not compiles(),
    reason="the C is compiled on x86-64 Linux with a C compiler, and not here",
)


def expected(hook: ModuleType) -> dict[str, list[str]]:
    """The paths that this compiler can compile each source for: without OpenMP, none for training."""
    return {
        name: [processor for processor, options in processors.items() if compiles(*options)]
        for name, processors in hook.SOURCES.items()
    }


def build_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("native_build", ROOT / "clickvec/native/build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@can_compile
def test_set_up_has_compiled_it() -> None:
    hook = build_hook()
    assert tuple(hook.PROCESSORS) == loader.PROCESSORS
    for name, processors in expected(hook).items():
        file = ROOT / "clickvec/native" / name
        shared = (ROOT / "clickvec/native" / hook.SHARED).read_bytes()
        source = hashlib.sha256(file.read_bytes() + shared).hexdigest().encode()
        for processor in processors:
            assert source in (ROOT / "clickvec/native" / f"_{file.stem}_{processor}.so").read_bytes(), (
                "run `make setup`"
            )


@pytest.mark.slow
@can_compile
def test_it_compiles_into_a_folder_and_is_used_for_that_source_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = build_hook()
    made = hook.compile_all(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(made)
    assert len(made) == sum(map(len, expected(hook).values()))
    monkeypatch.setattr(loader, "__file__", str(tmp_path / "compiled.py"))
    shutil.copy(ROOT / "clickvec/native" / hook.SHARED, tmp_path)
    for name, processors in expected(hook).items():
        source = (ROOT / "clickvec/native" / name).read_bytes()
        (tmp_path / name).write_bytes(source)
        assert all(loader.library(name, processor) for processor in processors)
        (tmp_path / name).write_bytes(source + b"/* a later version */")
        assert not any(loader.library(name, processor) for processor in processors)
        (tmp_path / name).unlink()
        assert not any(loader.library(name, processor) for processor in processors)
    assert not any(map(lstm.load, loader.PROCESSORS))


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
    assert "_lstm_avx2.so" in capfd.readouterr().err


@pytest.mark.slow
@can_compile
def test_a_compiler_without_openmp_compiles_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "compiler"
    ours = os.environ.get("CC", "cc")
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-fopenmp*) exit 1;; esac\nexec {ours} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    (tmp_path / "made").mkdir()
    made = {file.name for file in build_hook().compile_all(tmp_path / "made")}
    files = {f"_{name}_{path}.so" for name in ("lstm", "products") for path in expected(build_hook())[f"{name}.c"]}
    assert made == files | {"_words_any.so", "_postings_any.so"}


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    tiny_model(tmp_path / "model", cells=32)
    code = (
        "import sys, numpy, clickvec; from clickvec.native import loader, lstm, words; "
        "encoder = clickvec.Encoder.load(sys.argv[1]); "
        "numpy.save(sys.argv[2], encoder.encode_document(sys.argv[3:])); print(lstm.kernel(), words.functions())"
    )
    call = [sys.executable, "-c", code, str(tmp_path / "model"), str(tmp_path / "off.npy"), *TEXTS]
    done = subprocess.run(
        call, env={"CLICKVEC_COMPILED": "0"}, cwd=ROOT, check=True, capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "None None\n"
    ours = Encoder.load(tmp_path / "model").encode_document(TEXTS)
    np.testing.assert_allclose(np.load(tmp_path / "off.npy"), ours, rtol=0, atol=1e-6)


def test_a_file_that_is_no_library_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "__file__", str(tmp_path / "compiled.py"))
    assert lstm.load("avx2") is None
    (tmp_path / "_lstm_avx2.so").write_bytes(b"not a library")
    assert lstm.load("avx2") is None


@each_kernel
def test_of_gates_that_are_all_but_closed_the_digits_are_kept(
    kernel: lstm.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast.native, "kernel", lambda: kernel)
    weights = random_weights(SMALL, np.float32)
    weights = weights | {f"{gate}.bias": weights[f"{gate}.bias"] - 15 for gate in ("input_gate", "output_gate")}
    exact = {key: weight.astype(np.float64) for key, weight in weights.items()}
    texts = ragged([[1, 2, 3], [4], [5, 6, 7, 8, 9, 10, 11]])
    plain = forward.run(SMALL, exact, projections(exact), texts)
    tower = fast.FastTower(SMALL, weights)
    found = tower.run(tower.rows(projections(weights)), texts)
    assert 0 < np.abs(plain).max() < 1e-6
    np.testing.assert_allclose(found, plain, rtol=1e-4)


@each_kernel
@given(texts=st.lists(st.lists(st.integers(0, 11), max_size=9), min_size=1, max_size=20), random=st.randoms())
def test_a_text_gives_the_same_bits_in_any_company(kernel: lstm.Kernel, texts: list[list[int]], random: Random) -> None:
    weights = random_weights(SMALL, np.float32)
    tower = fast.FastTower(SMALL, weights)
    table = tower.rows(projections(weights))
    order = list(range(len(texts)))
    random.shuffle(order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast.native, "kernel", lambda: kernel)
        together = tower.run(table, ragged(texts))
        shuffled = tower.run(table, ragged(texts[place] for place in order))
        np.testing.assert_array_equal(shuffled, together[order])
        for place, text in enumerate(texts):
            np.testing.assert_array_equal(tower.run(table, ragged([text]))[0], together[place])


# --- the switch ----------------------------------------------------------------------------------------------------


def switched(value: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line with CLICKVEC_COMPILED set."""
    return program(*arguments, env={**os.environ, loader.SWITCH: value}, cwd=ROOT)


@pytest.mark.parametrize("processor", [pytest.param(name, id=name) for name in loader.PROCESSORS])
def test_it_chooses_a_path_or_ends_in_one_sentence(processor: str, tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model")
    (tmp_path / "titles.txt").write_text("".join(f"{text}\n" for text in ("title", *TEXTS)))
    for verb in (
        ("info", model, "--json"),
        ("encode", model, tmp_path / "titles.txt", "--out", tmp_path / "vectors.npy"),
    ):
        done = switched(processor.upper(), *verb)
        if lstm.load(processor):
            assert done.returncode == 0, done.stderr
        else:
            assert (done.returncode, done.stdout) == (1, "")
            said = sentence(done.stderr)
            assert repr(processor) in said
            assert {"0", "1"} <= set(said.split("; use ")[1].split(", ")) <= {"0", "1", *loader.PROCESSORS}
    if lstm.load(processor):
        named = {"avx512": "AVX-512", "avx2": "AVX2"}[processor]
        facts = json.loads(switched(processor, "info", model, "--json").stdout)
        assert facts["encoded here by"] == f"compiled code for {named}"


@pytest.mark.parametrize("kind", ["lstm", "dssm"])
def test_an_unknown_value_ends_in_one_sentence(kind: str, tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "model", kind=kind)
    (tmp_path / "titles.txt").write_text("hotels\n")
    for verb in (("info", model), ("encode", model, tmp_path / "titles.txt", "--out", tmp_path / "vectors.npy")):
        done = switched("sse9", *verb)
        assert (done.returncode, done.stdout) == (1, "")
        said = sentence(done.stderr)
        assert loader.SWITCH in said
        assert "'sse9'" in said
        assert said.endswith("use 0, 1, avx512, avx2")
    assert not (tmp_path / "vectors.npy").exists()


@pytest.mark.parametrize("value", ["", "1", "true", "YES", "on"])
def test_it_may_choose_the_fastest(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.SWITCH, value)
    assert loader.wanted() == loader.PROCESSORS
    assert loader.choose({"avx2": 2}.get, "encoding") == 2
    assert loader.choose({"avx2": 2, "avx512": 5}.get, "encoding") == 5
    assert loader.choose({}.get, "encoding") is None


@pytest.mark.parametrize("value", ["0", "false", "No", "off"])
def test_it_may_choose_none(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.SWITCH, value)
    assert loader.wanted() == ()
    assert loader.choose({"avx2": 2}.get, "encoding") is None


def test_a_path_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loader.SWITCH, "avx512")
    monkeypatch.setattr(loader, "runs_here", {"avx2": 2}.get)
    with pytest.raises(ClickvecError, match=r"'avx512'.* for encoding .*use 0, 1, avx2$"):
        loader.choose({"avx2": 2}.get, "encoding")
    monkeypatch.setattr(loader, "runs_here", {"avx512": 5}.get)
    assert loader.wanted() == ("avx512",)
    with pytest.raises(ClickvecError, match=r"'avx512'.* for training .*use 0, 1$"):
        loader.choose({}.get, "training")


# --- memory that is not as C wants it --------------------------------------------------------------------------------


class Addresses(NamedTuple):
    """A kernel that remembers the addresses that it is given."""

    kernel: lstm.Kernel
    seen: list[int]

    @classmethod
    def of(cls, kernel: lstm.Kernel) -> "Addresses":
        seen: list[int] = []

        def watch(function: Callable[..., int], types: tuple[type, ...]) -> Callable[..., int]:
            def call(*given: int) -> int:
                seen.extend(int(one) for one, kind in zip(given, types, strict=True) if kind is lstm._POINTER)
                return function(*given)

            return call

        watched = kernel._replace(read=watch(kernel.read, lstm._READ), sum_rows=watch(kernel.sum_rows, lstm._ROWS))
        return cls(watched, seen)


@each_kernel
@pytest.mark.parametrize("tower", [SMALL, Tower("bilstm", cells=32, forget_gate=True)], ids=["lstm", "bilstm"])
def test_misaligned_arrays_give_the_same_bits(
    kernel: lstm.Kernel, tower: Tower, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched, seen = Addresses.of(kernel)
    monkeypatch.setattr(fast.native, "kernel", lambda: watched)
    weights, texts = random_weights(tower, np.float32), ragged([[1, 2, 3], [4], [], [5, 6, 7, 0, 1]])
    trigrams = ragged([[1, 2], [3], [], [4, 5, 6], [7], [8, 8], [9], [10]])
    results = []
    for made in (np.copy, misaligned):
        ready = fast.FastTower(tower, {name: made(weight) for name, weight in weights.items()})
        table = np.zeros((ready.parts, 8, tower.cells), np.float32)
        ready.write_rows(table, Ragged(made(trigrams.values), made(trigrams.offsets)))
        results.append([table, ready.run(made(table), Ragged(made(texts.values), made(texts.offsets)))])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
    assert seen
    assert not [address for address in seen if address % 4]
