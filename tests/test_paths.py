"""Paths through the code stay short: how many functions and modules of ours a search, an added title, ... use."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

for name in ("torch", "starlette", "uvicorn", "msgspec", "httpx"):
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

# path -> functions, modules, as `python tests/path_counts.py` prints them
EXPECTED = {
    "search": (99, 27),
    "POST /search": (151, 40),
    "train": (713, 110),
    "an added title": (174, 37),
}


@pytest.fixture(scope="module")
def paths() -> dict[str, dict[str, list[str]]]:
    program = Path(__file__).with_name("path_counts.py")
    done = subprocess.run([sys.executable, program, "--json"], capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    counted: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    return counted


@pytest.mark.parametrize("path", EXPECTED)
def test_a_path_is_as_long_as_expected(path: str, paths: dict[str, dict[str, list[str]]]) -> None:
    modules = paths[path]
    counts = sum(map(len, modules.values())), len(modules)
    print(f"{path}: {counts[0]} functions in {counts[1]} modules")
    for count, expected, kind in zip(counts, EXPECTED[path], ("functions", "modules"), strict=True):
        assert count <= 1.1 * expected, (
            f"{path} runs through {count} {kind}, and {expected} were expected. Shorten the path or, if it must be "
            "that long, change EXPECTED and say why in the commit. `python tests/path_counts.py --all` lists them."
        )
        assert count >= 0.9 * expected, f'{path} is shorter now. Write it down: "{path}": {counts},'
