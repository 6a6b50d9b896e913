"""Fixtures for all tests: a small model with random weights, as a folder and as an encoder."""

from pathlib import Path

import hypothesis
import pytest
from tiny import tiny_model

from clickvec.encoder import Encoder

# The same examples every time, however slow the machine is.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model")


@pytest.fixture
def encoder(model_folder: Path) -> Encoder:
    return Encoder.load(model_folder)
