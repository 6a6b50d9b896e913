"""An index of a few titles, and a service that only reads it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("msgspec")

from serving import Running, running
from tiny import TEXTS, tiny_model

from clickvec.model.encoder import Encoder
from clickvec.search.index import Index

PAYLOADS = [{"country": "cn" if "shanghai" in text else "us", "words": len(text.split())} for text in TEXTS]


def make_index(path: Path, model: Path) -> Path:
    ids = [f"t{number}" for number in range(len(TEXTS))]
    index = Index.build(Encoder.load(model), titles=TEXTS, ids=ids, payloads=PAYLOADS)
    index.save(path)
    return path


@pytest.fixture(scope="session")
def read_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    return make_index(folder / "index", tiny_model(folder / "model"))


@pytest.fixture
def write_index(tmp_path: Path) -> Path:
    return make_index(tmp_path / "index", tiny_model(tmp_path / "model"))


@pytest.fixture(scope="session")
def reading(read_index: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(read_index, tmp_path_factory.mktemp("logs")) as service:
        yield service
