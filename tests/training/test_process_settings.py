"""Importing the library and training with it changes no setting of the process; programs that train apply some."""

import subprocess
import sys

import pytest

CODE = """
import os, sys, clickvec.training
assert "GOMP_SPINCOUNT" not in os.environ or os.environ["GOMP_SPINCOUNT"] == "7"
from clickvec.training.process_settings import tuned_for_training
with tuned_for_training():
    assert "torch" not in sys.modules
    print(os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("variables", "expected"), [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")]
)
def test_threads_of_a_program_spin_shortly_unless_the_user_says_otherwise(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-c", CODE], check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == expected
