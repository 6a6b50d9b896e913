"""How the tests run: what the last lines say, and which examples the property tests try."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_in(folder: Path, *options: str) -> str:
    """Run pytest on a folder with the settings of our tests; return its output.

    Only the plugins that matter here are loaded: all of them together take more than a second.
    """
    plugins = ("no:cacheprovider", "xdist.plugin", "_hypothesis_pytestplugin", "conftest")
    command = [sys.executable, "-m", "pytest", *(word for name in plugins for word in ("-p", name)), *options]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*command, str(folder)], cwd=ROOT / "tests", env=environment, capture_output=True, text=True)
    return done.stdout


@pytest.mark.slow
def test_the_last_lines_say_what_was_skipped_and_why(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.skip(reason='the moon is not full')\n"
        "def test_a(): pass\n"
        "@pytest.mark.parametrize('k', range(3))\n"
        "def test_b(k): pytest.skip('no cat is here')\n"
        "def test_c(): pass\n"
    )
    for options in ((), ("-n", "2")):
        *_, cats, moons, last = filter(None, pytest_in(tmp_path, *options).splitlines())
        assert cats.split(maxsplit=1) == ["3", "no cat is here"]
        assert moons.split(maxsplit=1) == ["1", "the moon is not full"]
        assert "1 passed, 4 skipped" in last


@pytest.mark.slow
def test_examples_are_the_same_in_every_run_unless_we_explore(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "from hypothesis import given, strategies as st\n"
        "def test_plain(): pass\n"
        "@given(st.integers())\n"
        "def test_drawn(number): print(number)\n"
    )

    def drawn(*options: str) -> str:
        out = pytest_in(tmp_path, "-s", "-m", "hypothesis", *options)
        assert "1 passed, 1 deselected" in out
        return out.split(" passed")[0]

    explore = "--hypothesis-profile=explore"
    assert drawn() == drawn()
    assert drawn(explore, "--hypothesis-seed=1") == drawn(explore, "--hypothesis-seed=1") != drawn(explore)


def test_the_profile_decides_for_every_property_test() -> None:
    with_settings_of_their_own = [
        path.name
        for path in sorted((ROOT / "tests").glob("test_*.py"))
        if "derandomize" in path.read_text() and path.name != Path(__file__).name
    ]
    assert with_settings_of_their_own == []
