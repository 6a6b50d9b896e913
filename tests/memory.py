"""Watch the memory and the time of a process of its own, which reads a file that may be hostile."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from child import ROOT

_SCRIPT = """
import sys
{script}
print()
# Not ru_maxrss: that begins with the memory of the process that started this one.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


class Used(NamedTuple):
    """What a script printed and took."""

    text: str
    megabytes: int  # at its peak
    seconds: float


def used_by(script: str, *arguments: str | Path, seconds: float = 60) -> Used:
    """Run a Python script that must succeed. Its arguments are in sys.argv[1:]."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc to measure memory")
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(script=script), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    text, _, peak = done.stdout.rstrip().rpartition("\n")
    return Used(text.strip(), int(peak) // 1024, time.monotonic() - start)
