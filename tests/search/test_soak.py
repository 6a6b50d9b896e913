"""Short versions of benchmarks/soak.py: an index under kill -9, several writers, a full disk and damaged bytes."""

import sys
from argparse import Namespace
from pathlib import Path

import pytest
from tiny import tiny_model

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import soak

OPTIONS = Namespace(kills=3, moment=0.2, flips=1, writer_kills=2, megabytes=0.3, titles=300, seed=1)


@pytest.mark.parametrize("section", soak.SECTIONS)
def test_nothing_is_lost_or_wrong(section: str, tmp_path: Path) -> None:
    tiny_model(tmp_path / "model")
    result = soak.SECTIONS[section](tmp_path, OPTIONS)
    assert result["examples"] == []
    assert all(result.get(key, 1) for key in ("acknowledged changes", "refused", "bytes changed"))
