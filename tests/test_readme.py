"""The README: its Python block runs, its commands exist, and it stays short."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_the_python_block_runs(site: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "site").symlink_to(site)
    code += (
        "\nassert len(hits) == 2 and hits[0].id in (17, 18, 19) and vectors.shape == (3, 96), (hits, vectors.shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "BM25" in done.stdout
    assert (tmp_path / "my-index").is_dir()


def test_it_is_short_and_starts_with_the_two_commands() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 200
    first_screen = "\n".join(lines[:25])
    assert "make demo" in first_screen
    assert "make test" in first_screen
    assert "<img" in first_screen
