"""Index folders of the formats 1 to 3: they are searched as before, never changed, and refused if they are damaged."""

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from old_index import save_old_index
from tiny import TEXTS, tiny_model

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.search.index import Document, Index
from clickvec.storage.snapshot import describe_file

TITLES = [*TEXTS, "", "hotels in new york", "paint"]


@pytest.fixture
def saved(encoder: Encoder, tmp_path: Path) -> Path:
    return save_old_index(encoder, TITLES, tmp_path / "index")


@pytest.mark.parametrize("vectors", ["float32", "float16", "int8"])
@pytest.mark.parametrize("ids", [[f"t{i}" for i in range(len(TITLES))], list(range(len(TITLES)))])
def test_an_old_folder_is_searched_as_a_new_one(encoder: Encoder, tmp_path: Path, vectors: str, ids: list[Any]) -> None:
    payloads = [{"n": number % 3} for number in range(len(TITLES))]
    opened = Index.open(save_old_index(encoder, TITLES, tmp_path / "old", ids, payloads, vectors))
    built = Index.build(
        encoder, titles=TITLES, ids=ids, payloads=payloads, vectors="float32" if vectors == "float16" else vectors
    )
    assert (len(opened), opened.precision, opened.is_read_only) == (len(TITLES), vectors, True)
    assert list(opened) == list(built)
    assert opened.get(ids[3]) == opened.find(TITLES[3]) == Document(ids[3], TITLES[3], payloads[3])
    for mode in ("hybrid", "words", "vectors"):
        for where in (None, {"n": 1}):
            for query in ("hotels in new york", "paint", "ЖЖЖ", ""):
                expected = built.search(query, 20, where, mode)
                found = opened.search(query, 20, where, mode)
                np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], atol=1e-3)
                if vectors != "float16":
                    assert found == expected
    opened.save(tmp_path / "new")
    with Index.open(tmp_path / "new") as saved:
        assert list(saved) == list(built)
        saved.add(ids=["more"], titles=["hotels"])
    assert pickle.loads(pickle.dumps(opened)).search("paint") == opened.search("paint")


def test_an_old_folder_is_not_changed(saved: Path, encoder: Encoder) -> None:
    opened, before = Index.open(saved), contents(saved)
    for change_it in (
        lambda: opened.add(ids=["a"], titles=["b"]),
        lambda: opened.delete(["0"]),
        opened.compact,
        lambda: opened.use_fusion(opened.fusion),
        lambda: opened.use_model(encoder),
        lambda: Index.open(saved, writing=True),
    ):
        with pytest.raises(ClickvecError, match="index has an old format that is only read; build the index again"):
            change_it()
    opened.refresh()
    opened.close()
    assert contents(saved) == before


def test_another_model_is_refused(saved: Path, tmp_path: Path) -> None:
    other = Encoder.load(tiny_model(tmp_path / "other", seed=1))
    with pytest.raises(ClickvecError, match=r"another model.*the given encoder"):
        Index.open(saved, encoder=other)
    shutil.rmtree(saved / "model")
    shutil.copytree(tmp_path / "other", saved / "model")
    with pytest.raises(ClickvecError):
        Index.open(saved)
    sizes = {name: {"bytes": len(data)} for name, data in contents(saved).items() if name != "index.json"}
    change(saved, files=sizes)
    with pytest.raises(ClickvecError, match=r"another model.*the model in it"):
        Index.open(saved)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def change(path: Path, **values: object) -> None:
    about = json.loads((path / "index.json").read_text())
    (path / "index.json").write_text(json.dumps(about | values))


def bytes_of(name: str, changed: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes(changed((path / name).read_bytes())) and None


def signed(name: str, changed: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Other bytes in a file, of which index.json knows."""

    def damage(path: Path) -> None:
        bytes_of(name, changed)(path)
        known = json.loads((path / "index.json").read_text())["files"]
        change(path, files=known | {name: describe_file(path / name)})

    return damage


def save_array(name: str, array: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Another array in the place of one, with its size put right in index.json."""

    def damage(path: Path) -> None:
        np.save(path / name, array(np.load(path / name)))
        files = json.loads((path / "index.json").read_text())["files"]
        change(path, files=files | {name: {"bytes": (path / name).stat().st_size}})

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *((lambda path, name=name: (path / name).unlink(), f"{name} is missing") for name in
          ("vectors.npy", "documents.jsonl", "documents.offsets.npy")),
        (lambda path: (path / "index.json").unlink(), "index.json is missing"),
        (lambda path: (path / "model" / "config.json").unlink(), "model/config.json is missing"),
        (lambda path: shutil.rmtree(path / "model"), ".* is missing"),
        (bytes_of("vectors.npy", lambda data: data[:-1]), "vectors.npy has .* bytes, index.json says"),
        (bytes_of("documents.jsonl", lambda data: data[:-1]), "documents.jsonl has .* bytes, index.json says"),
        (bytes_of("documents.offsets.npy", lambda data: b""), "has 0 bytes, index.json says"),
        (bytes_of("model/weights.safetensors", lambda data: data[:-1]), "weights.safetensors has .* bytes"),
        (bytes_of("index.json", lambda data: data[:50]), "cannot be read"),
        (bytes_of("index.json", lambda data: b"{}"), "names no format"),
        (bytes_of("index.json", lambda data: b'{"format": 1}'), "lacks or misspells 'count'"),
        (bytes_of("vectors.npy", lambda data: b"x" * len(data)), "vectors.npy.*another version.*index.json"),
        (signed("vectors.npy", lambda data: b"x" * len(data)), "vectors.npy holds .xxx"),
        (lambda path: change(path, format=5), "format 5, newer than 4.*update"),
        (lambda path: change(path, count="many"), "lacks or misspells"),
        (lambda path: change(path, files=None), "lacks or misspells"),
        (lambda path: change(path, count=10), r"\(11, 7\).*\(10, 7\)"),
        (lambda path: change(path, dimensions=8), "says 8 dimensions, but its model has 7"),
        (lambda path: change(path, fingerprint="0" * 32), "index of another model"),
        (save_array("vectors.npy", lambda old: old.astype(np.float64)), "vectors.npy holds .*f8.* expected float32"),
        (save_array("vectors.npy", lambda old: old[:, :6]), r"\(11, 6\)"),
        (save_array("documents.offsets.npy", lambda old: old[:-1]), r"\(11,\).*\(12,\)"),
        (save_array("documents.offsets.npy", lambda old: old + 1), "disagree"),
    ],
)  # fmt: skip
def test_opening_refuses_what_is_damaged(saved: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(saved)
    with pytest.raises(ClickvecError, match=message) as error:
        Index.open(saved)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_is_found_by_a_search(saved: Path, bad: float) -> None:
    vectors = np.load(saved / "vectors.npy")
    vectors[3, 2] = bad
    np.save(saved / "vectors.npy", vectors)
    signed("vectors.npy", lambda data: data)(saved)
    with pytest.raises(ClickvecError, match="vector of the index holds NaN"):
        Index.open(saved).search("hotels", k=1)


def test_a_damaged_document_is_found_when_it_is_read(saved: Path) -> None:
    signed("documents.jsonl", lambda lines: b"x" + lines[1:])(saved)
    with pytest.raises(ClickvecError, match=r"documents\.jsonl is damaged at line 1"):
        Index.open(saved).search("hotels", k=100)
