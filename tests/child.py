"""Run a script as a process of its own.

A test that forks does so in such a script: a fork of the test process would copy the locks of its threads, and an error
in the child would go on running tests.
"""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_script(script: str, *arguments: str | Path, seconds: float = 60) -> None:
    """Run a Python script that must succeed. Its arguments are in sys.argv[1:]."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def die(*_: object) -> None:
    """Kill this process. A new process imports it from here without torch, which takes seconds."""
    os.kill(os.getpid(), signal.SIGKILL)
