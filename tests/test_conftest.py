"""How the tests run: what the last lines say, which examples the property tests try, and signals."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def pytest_in(folder: Path, *options: str, before: tuple[str, ...] = (), **variables: str) -> str:
    """Run pytest on a folder with the settings of our tests; return its output.

    Only the plugins that matter here are loaded: all of them together take more than a second.
    """
    plugins = ("no:cacheprovider", "xdist.plugin", "_hypothesis_pytestplugin", "conftest")
    command = [sys.executable, "-m", "pytest", *(word for name in plugins for word in ("-p", name)), *options]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | variables
    done = subprocess.run(
        [*before, *command, str(folder)], cwd=ROOT / "tests", env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
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


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_ignored_signals_reach_neither_the_tests_nor_their_programs(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "test_some.py").write_text(
        "import os, signal, subprocess, sys, pytest\n"
        "NAMES = ('SIGINT', 'SIGHUP', 'SIGTERM')\n"
        "@pytest.mark.parametrize('name', NAMES)\n"
        "def test_a_program_ends(name):\n"
        "    end = f'import os, signal, time; os.kill(os.getpid(), signal.{name}); time.sleep(20)'\n"
        "    number = getattr(signal, name)\n"
        "    assert subprocess.run([sys.executable, '-c', end], stderr=-3).returncode == -number\n"
        "def test_ctrl_c():\n"
        "    with pytest.raises(KeyboardInterrupt):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "def test_we_survive_the_end_of_the_terminal():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
    )
    ignoring = ("bash", "-c", "trap '' INT HUP TERM; exec \"$@\"", "bash")
    assert "5 passed" in pytest_in(tmp_path, *options, before=ignoring)


@pytest.mark.slow
def test_no_test_waits_for_ever(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import subprocess, threading\n"
        "def test_thread(): threading.Event().wait()\n"
        "def test_program():\n"
        "    with subprocess.Popen(['sleep', '20']) as running: running.wait()\n"
        "def test_quick(): pass\n"
    )
    out = pytest_in(tmp_path, CLICKVEC_TEST_SECONDS="0.5")
    assert "2 failed, 1 passed" in out
    assert "takes longer than 0.5 s" in out


@pytest.mark.slow
def test_code_that_cannot_be_interrupted_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import ctypes\ndef test_c():\n    while True: ctypes.PyDLL(None).sleep(1)\n"  # holds the GIL
    )
    assert "passed" not in pytest_in(tmp_path, CLICKVEC_TEST_SECONDS="0.2")
