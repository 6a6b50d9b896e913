"""Fixtures for all tests: a small model with random weights, and a simulated site with a model trained on it."""

from collections.abc import Iterator
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


# --- for the tests of the command line, which only read them -----------------------------------------------------


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    from command import on_one_thread

    with on_one_thread():
        yield


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from command import ok

    path = tmp_path_factory.mktemp("cli") / "site"
    ok("simulate", path, "--impressions", "10000", "--dev-queries", "20", "--test-queries", "20")
    return path


@pytest.fixture(scope="session")
def trained(site: Path) -> Path:
    from command import SMALL, ok, on_one_thread

    with on_one_thread():
        ok("train", site / "clicks.tsv.gz", "--dev", site / "dev.tsv.gz", "--out", site.parent / "trained", *SMALL)
    return site.parent / "trained"


@pytest.fixture(scope="session")
def indexed(site: Path, trained: Path) -> Path:
    from command import ok

    ok("index", trained, site / "titles.tsv.gz", "--out", site.parent / "indexed")
    return site.parent / "indexed"
