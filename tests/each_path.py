"""Run the tests that touch C once for each compiled path that this machine has.

`python tests/each_path.py` leaves out the default path, which `make test` has tested. With --sanitize, a copy of the
package is compiled with AddressSanitizer and UBSan into build/sanitize, and its compiled paths are tested there.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from clickvec.native import loader, lstm

ROOT = Path(__file__).parents[1]
SANITIZED = ROOT / "build" / "sanitize"
TESTS = (
    "model/test_about", "model/test_encoder", "model/test_fast", "model/test_threads", "native/test_compiled",
    "native/test_postings", "native/test_products", "native/test_words", "search/test_exact", "search/test_index",
    "search/test_vector_file", "search/test_word_search",
    "training/test_compiled_training", "training/test_fast_training",
    "training/test_learning", "training/test_parity",
)  # fmt: skip
# Capturing sys.stderr alone leaves the reports of the sanitizers, which C writes, on the terminal.
PYTEST = (sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal", "--capture=sys")
SANITIZERS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


def has(path: str) -> bool:
    """Whether this machine has a path, for encoding and for training."""
    from clickvec.training.cpu import compiled as training

    return bool(lstm.load(path) and training.load(path))


def run(path: str, folder: Path, environment: dict[str, str]) -> None:
    """Run the tests of a folder with a path chosen; end if one fails."""
    print(f"\n--- {loader.SWITCH}={path}, in {folder}", flush=True)
    files = [f"tests/{name}.py" for name in TESTS]
    clean = os.environ | environment | {loader.SWITCH: path, "PYTHONPATH": str(folder)}
    status = subprocess.run([*PYTEST, *files], cwd=folder, env=clean).returncode
    if status:
        sys.exit(f"a test failed; to repeat: {loader.SWITCH}={path} python -m pytest (in {folder})")


def sanitize() -> dict[str, str]:
    """Compile a copy of the package with the sanitizers; return the environment that it runs in."""
    shutil.rmtree(SANITIZED, ignore_errors=True)
    for name in ("clickvec", "tests"):
        shutil.copytree(ROOT / name, SANITIZED / name, ignore=shutil.ignore_patterns("_*.so", "__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", SANITIZED)
    spec = importlib.util.spec_from_file_location("native_build", SANITIZED / "clickvec/native/build.py")
    assert spec
    assert spec.loader
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    hook.OPTIONS = (*hook.OPTIONS, *SANITIZERS)
    if len(hook.compile_all()) < sum(map(len, hook.SOURCES.values())):
        sys.exit("the sanitizers need a C compiler that has AddressSanitizer, UBSan and OpenMP")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    libraries = [
        subprocess.run([*compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout
        for name in ("libasan.so", "libstdc++.so.6")  # the first must be loaded before all others, torch's C++ with it
    ]
    return {
        "LD_PRELOAD": " ".join("".join(libraries).split()),
        "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",  # Python leaks on purpose
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def main() -> None:
    """Test each path, and say which ones this machine cannot run."""
    sanitized = sys.argv[1:] == ["--sanitize"]
    environment, folder = (sanitize(), SANITIZED) if sanitized else ({}, ROOT)
    here = [path for path in loader.PROCESSORS if has(path)]
    for path in loader.PROCESSORS:
        if path not in here:
            print(f"{loader.SWITCH}={path} is not tested: it was not compiled, or this processor cannot run it")
    others = [*here[1:], "0"] if any(map(lstm.load, loader.PROCESSORS)) else []
    for path in here if sanitized else others:
        run(path, folder, environment)


if __name__ == "__main__":
    main()
