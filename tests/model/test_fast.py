"""The fast forms give what the equations of forward.py give: every tower and option, batches and one text alone."""

import dataclasses
import itertools

import numpy as np
import pytest
from kernels import each_path
from random_towers import SMALL, TRIGRAMS, projections, random_texts, random_weights
from tiny import TEXTS, tiny

from clickvec import config
from clickvec.config import POOLINGS, RECURRENT, TOWERS, Tower
from clickvec.model import fast, forward, projection
from clickvec.model.encoder import Encoder
from clickvec.model.projection import project
from clickvec.model.shrink import shrink_model
from clickvec.native import lstm
from clickvec.search.index import Index
from clickvec.text.ragged import Ragged, ragged

EVERY = [
    dataclasses.replace(SMALL, kind=kind, forget_gate=forget, peepholes=peep, pooling=pooling)
    for kind, forget, peep, pooling in itertools.product(TOWERS, (False, True), (False, True), POOLINGS)
    if (pooling == "last" or kind in RECURRENT) and (kind.endswith("lstm") or not (forget or peep))
]
BATCHES = {
    "ragged": [3, 1, 0, 8, 8, 2, 0, 5, 4, 4, 1],
    "empty": [0],
    "none": [],
    "equal": [4, 4, 4, 4, 4],
    "ascending": [1, 2, 3, 4, 5],
}


def name(tower: Tower) -> str:
    return "-".join([tower.kind, tower.pooling, *["forget"] * tower.forget_gate, *["peep"] * tower.peepholes])


every_tower = pytest.mark.parametrize("tower", EVERY, ids=name)
precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-13)], ids=["f32", "f64"]
)


@pytest.fixture(params=[pytest.param(None, id="numpy"), *each_path(lstm.load)])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What reads batches: NumPy, or the compiled form for a kind of processor."""
    monkeypatch.setattr(fast.native, "kernel", lambda: request.param)
    return request.param.processor if request.param else "numpy"


def run_fast(tower: Tower, weights: forward.Weights, texts: Ragged) -> forward.Array:
    ready = fast.FastTower(tower, weights)
    return ready.run(ready.rows(projections(weights)), texts)


@every_tower
@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES.keys())
@precisions
@pytest.mark.usefixtures("form")
def test_a_batch(tower: Tower, lengths: list[int], dtype: type, tolerance: float) -> None:
    weights, texts = random_weights(tower, dtype), random_texts(lengths)
    plain = forward.run(tower, weights, projections(weights), texts)
    found = run_fast(tower, weights, texts)
    assert found.shape == (len(lengths), tower.dimensions)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, plain, rtol=0, atol=tolerance)


@every_tower
@precisions
@pytest.mark.usefixtures("form")
def test_one_text(tower: Tower, dtype: type, tolerance: float) -> None:
    weights = random_weights(tower, dtype)
    ready = fast.FastTower(tower, weights)
    table = ready.rows(projections(weights))
    for length in (1, 2, 9):
        texts = random_texts([length])
        (plain,) = forward.run(tower, weights, projections(weights), texts)
        found = ready.run_one(table, texts.values.tolist())
        assert found.shape == (tower.dimensions,)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, plain, rtol=0, atol=tolerance)


@every_tower
@pytest.mark.parametrize(("chunk", "block"), [(1, 1), (3, 2), (4, 96), (96, 4)])
def test_however_the_texts_are_cut(tower: Tower, chunk: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, texts = random_weights(tower, np.float64), random_texts(BATCHES["ragged"])
    whole = run_fast(tower, weights, texts)
    monkeypatch.setattr(fast, "CHUNK", chunk)
    monkeypatch.setattr(fast, "BLOCK", block)
    np.testing.assert_allclose(run_fast(tower, weights, texts), whole, rtol=0, atol=1e-13)


@every_tower
@pytest.mark.usefixtures("form")
def test_great_weights_saturate_and_do_not_overflow(tower: Tower) -> None:
    weights = {key: 1e4 * weight for key, weight in random_weights(tower, np.float32).items()}
    texts = random_texts(BATCHES["ragged"])
    plain = forward.run(tower, weights, projections(weights), texts)
    np.testing.assert_allclose(run_fast(tower, weights, texts), plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("cells", [1, 8, 15, 16, 17, 33, 96])
@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.usefixtures("form")
def test_any_number_of_cells_and_of_texts(cells: int, forget: bool) -> None:
    tower = Tower(cells=cells, forget_gate=forget)
    weights = {key: weight / cells**0.5 for key, weight in random_weights(tower, np.float32).items()}
    for count in (1, 5, 7, 8, 9, 30):
        texts = random_texts([1 + 7 * k % 10 for k in range(count)])
        plain = forward.run(tower, weights, projections(weights), texts)
        np.testing.assert_allclose(run_fast(tower, weights, texts), plain, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["lstm", "bilstm"])
@pytest.mark.parametrize("cells", [3, 7, 16, 64, 96, 100])
@pytest.mark.usefixtures("form")
def test_rows_of_the_table_are_the_same_bits(kind: str, cells: int) -> None:
    tower = Tower(kind, cells=cells, forget_gate=True)
    weights = random_weights(tower, np.float32)
    trigrams = ragged([[], [3], [3, 3], list(range(30)), [], [5, 1, 39, 5, 0], [7, 2] * 50])
    ready = fast.FastTower(tower, weights)
    expected = ready.rows(project(weights, trigrams))
    table = np.full((ready.parts, 9, cells), np.float32(7))
    ready.write_rows(table[:, 1:8], trigrams)
    np.testing.assert_array_equal(table[:, 1:8], expected)
    np.testing.assert_array_equal(table[:, [0, 8]], np.float32(7))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.usefixtures("form")
def test_what_is_not_a_number_stays_so(pooling: str) -> None:
    tower = dataclasses.replace(SMALL, pooling=pooling)
    weights, texts = random_weights(tower, np.float32), random_texts([3, 1, 9])
    for gate in forward.gates(tower):
        spoilt = weights | {f"{gate}.bias": weights[f"{gate}.bias"] * np.float32(np.nan)}
        assert np.isnan(run_fast(tower, spoilt, texts)).all()


def test_the_weights_and_the_table_stay_as_they_are() -> None:
    tower = EVERY[0]
    weights = random_weights(tower, np.float32)
    before = {key: weight.copy() for key, weight in weights.items()}
    ready = fast.FastTower(tower, weights)
    table = ready.rows(projections(weights))
    rows = table.copy()
    ready.run(table, random_texts(BATCHES["ragged"]))
    ready.run_one(table, [1, 2, 3])
    np.testing.assert_array_equal(table, rows)
    for key, weight in weights.items():
        np.testing.assert_array_equal(weight, before[key])


@pytest.mark.parametrize("tower", [tower for tower in EVERY if tower.pooling == "last"], ids=name)
@pytest.mark.parametrize("chunk", [2048, 2, 1])
def test_projections_are_sums_of_rows(tower: Tower, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "CHUNK", chunk)
    weights = random_weights(tower, np.float64)
    rows = [[], [3], [3, 3], list(range(30)), [], [5, 1, 39, 5, 0], [7] * 100]
    inputs = [weight.reshape(TRIGRAMS, -1) for key, weight in weights.items() if key.endswith(".input")]
    expected = [np.concatenate([weight[row].sum(axis=0) for weight in inputs]) for row in rows]
    np.testing.assert_allclose(project(weights, ragged(rows)), expected, rtol=0, atol=1e-12)
    assert project(weights, ragged([])).shape == (0, len(expected[0]))


def test_a_new_tower_changes_forward_py_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoder, shrink, search and traces work for a tower that only config.py and forward.py know."""

    def shapes(tower: Tower, trigrams: int) -> forward.Shapes:
        return {"bag.input": (trigrams, tower.output)}

    def run(
        tower: Tower, w: forward.Weights, table: forward.Array, texts: Ragged, record: forward.Record | None
    ) -> forward.Array:
        rows = [table[ids].sum(axis=0) for ids in np.split(texts.values, texts.offsets[1:-1])]
        if record is not None:
            record["output"] = [np.array(rows)]
        return np.array(rows)

    monkeypatch.setitem(config._CHOICES, "tower", (*TOWERS, "bag"))
    monkeypatch.setitem(forward.TOWERS, "bag", forward.TowerKind("bag of {output} units", shapes, run))
    for model in (tiny("bag"), shrink_model(tiny("bag"), "int8")):
        encoder = Encoder(model)
        vectors = encoder.encode_document(TEXTS)
        assert vectors.shape == (len(TEXTS), 6)
        for text, vector in zip(TEXTS, vectors, strict=True):
            np.testing.assert_allclose(encoder.encode_document(text), vector, atol=1e-6)
            np.testing.assert_array_equal(encoder.trace_document(text).vector, encoder.encode_document(text))
        assert "bag of 6 units" in repr(encoder)
        assert Index.build(encoder, TEXTS).search(vectors[0], k=1)[0].title == TEXTS[0]
