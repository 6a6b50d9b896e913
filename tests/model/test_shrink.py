"""Smaller models and vectors: how much is lost, what is written, and that every verb works as before."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import contents, ok, refused
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tiny import TEXTS, TOWERS, tiny, tiny_model

from clickvec.errors import ClickvecError
from clickvec.explanation import METHODS, explain
from clickvec.model import folder, forward
from clickvec.model.encoder import Encoder
from clickvec.model.folder import open_model
from clickvec.model.projection import project
from clickvec.model.shrink import inverse_lengths, shrink_model, shrink_vectors, to_int8, write_shrunk
from clickvec.search.index import Index
from clickvec.search.vectors.exact import ExactSearch
from clickvec.storage.arrays import write_arrays
from clickvec.text.ragged import ragged

SMALL = ("float16", "int8")


# --- numbers -----------------------------------------------------------------------------------------------------


def test_int8_by_hand() -> None:
    values, scales = to_int8(np.array([[127, -63.4, 0.5], [0, 0, 0], [-2.54, 1.27, 0.02]], np.float32))
    assert values.tolist() == [[127, -63, 0], [0, 0, 0], [-127, 64, 1]]  # 0.5 to the even number; 63.5 too
    np.testing.assert_allclose(scales, [1, 1, 0.02], rtol=1e-6)
    assert (values.dtype, scales.dtype) == (np.int8, np.float32)


@given(arrays.arrays(np.float32, (3, 2, 5), elements=st.floats(-(2.0**100), 2.0**100, width=32)))
def test_int8_is_off_by_half_a_step_at_most(rows: np.ndarray) -> None:
    values, scales = to_int8(rows)
    assert values.shape == rows.shape
    step = scales[:, None, None].astype(np.float64)
    assert (np.abs(values * step - rows) <= 0.500001 * step + 1e-40).all()
    assert np.abs(values.astype(int)).max() <= 127


def test_rows_of_the_least_numbers_and_no_rows() -> None:
    least = np.float32(1e-45)
    values, _ = to_int8(np.array([[150 * least, -150 * least], [least, 0]], np.float32))
    assert values.tolist() == [[127, -127], [0, 0]]
    assert to_int8(np.zeros((0, 4), np.float32))[0].shape == (0, 4)


def test_vectors_point_where_they_did() -> None:
    vectors = forward.unit(np.random.default_rng(0).normal(size=(500, 96))).astype(np.float32)
    vectors[7] = 0
    small = shrink_vectors(vectors, "int8")
    assert small.dtype == np.int8
    again = small.astype(np.float64) * inverse_lengths(small)[:, None]
    np.testing.assert_allclose(np.linalg.norm(again, axis=1), np.arange(500) != 7, atol=1e-6)
    assert (again * vectors).sum(axis=1)[np.arange(500) != 7].min() > 1 - 1e-3
    assert shrink_vectors(vectors, "float32") is vectors


# --- models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", SMALL)
@pytest.mark.parametrize("shared_tower", [False, True])
@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
def test_a_shrunk_model_computes_with_the_weights_that_it_has(
    fields: dict[str, Any], shared_tower: bool, precision: str, tmp_path: Path
) -> None:
    model = tiny(shared_tower=shared_tower, **fields)
    folder.save_model(shrink_model(model, precision), tmp_path / "small")
    small = open_model(tmp_path / "small", verify=True)
    whole = {}  # its input weights, written out in float32: the oracle
    for name, weight in small.weights.items():
        if name.endswith(".input"):
            scale = small.weights.get(f"{name}.scale", np.ones(len(weight), np.float32))
            whole[name] = weight.astype(np.float32) * scale.reshape(-1, *[1] * (weight.ndim - 1))
            np.testing.assert_allclose(whole[name], model.weights[name], atol=0.01)
        elif not name.endswith(".scale"):
            whole[name] = weight
            np.testing.assert_array_equal(weight, model.weights[name])
    assert whole.keys() == model.weights.keys()
    found, oracle, before = Encoder.load(tmp_path / "small"), Encoder(model._replace(weights=whole)), Encoder(model)
    for one, other, old in (
        (found.encode_query(TEXTS), oracle.encode_query(TEXTS), before.encode_query(TEXTS)),
        (found.encode_document(TEXTS), oracle.encode_document(TEXTS), before.encode_document(TEXTS)),
    ):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=2e-6)
        assert (one * old).sum(axis=1).min() > 0.999
    trace = found.trace_query(TEXTS[1])
    assert {value.dtype for value in trace.values.values()} == {np.dtype(np.float32)}


def test_the_projection_of_int8_by_hand() -> None:
    weights: dict[str, Any] = {
        "hidden.input": np.array([[100, -50], [127, 1], [-7, 0]], np.int8),
        "hidden.input.scale": np.array([0.5, 0.01, 2], np.float32),
    }
    found = project(weights, ragged([[0, 1], [], [2, 2, 0]]))
    np.testing.assert_allclose(found, [[51.27, -24.99], [0, 0], [22, -25]], rtol=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("precision", SMALL)
def test_what_is_written(precision: str, tmp_path: Path) -> None:
    tiny_model(tmp_path / "model", "bilstm", cells=64)
    before = contents(tmp_path / "model")
    written, size, size_before = write_shrunk(tmp_path / "model", tmp_path / "small", precision)
    assert contents(tmp_path / "model") == before
    small, config = open_model(tmp_path / "small"), json.loads((tmp_path / "small" / "config.json").read_text())
    assert (small.precision, config["format"], json.loads(before["config.json"])["format"]) == (precision, 2, 1)
    assert {str(w.dtype) for name, w in small.weights.items() if name.endswith(".input")} == {precision}
    assert {str(w.dtype) for name, w in small.weights.items() if not name.endswith(".input")} == {"float32"}
    assert not any(weight.flags.writeable for weight in small.weights.values())
    was = open_model(tmp_path / "model").fingerprint
    assert small.training == {"recipe": "none", "shrunk": {"from": was, "weights": precision}}
    assert small.fingerprint == written.fingerprint != was
    assert size == sum(map(len, contents(tmp_path / "small").values())) < size_before
    after = contents(tmp_path / "small")
    assert after["README.md"].startswith(before["README.md"])
    assert b"## Shrunk" in after["README.md"]
    assert after["metrics.jsonl"] == before["metrics.jsonl"]
    write_shrunk(tmp_path / "model", tmp_path / "again", precision)
    assert contents(tmp_path / "again") == after


def test_the_size_of_the_dbpedia_model_by_arithmetic() -> None:
    trigrams, cells = 43_700, 96
    shapes = forward.shapes(tiny(cells=cells).tower, trigrams)
    inputs = [shape for name, shape in shapes.items() if name.endswith(".input")]
    rest = sum(4 * int(np.prod(shape)) for name, shape in shapes.items() if not name.endswith(".input"))
    size = sum(rows * columns + 4 * rows for rows, columns in inputs) + rest + 6 * trigrams
    assert 13_000_000 < size < 15_000_000


def test_an_older_clickvec_says_that_it_is_too_old(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match=r"format 2, newer than 1.*update"):
        folder.check_format(2, 1, tmp_path, "model")


def damaged(path: Path, change: Any) -> str:  # noqa: ANN401
    """What is said of a shrunk model whose weights were changed, and signed."""
    folder.save_model(shrink_model(tiny(), "int8"), path)
    found = {name: np.array(weight) for name, weight in open_model(path).weights.items()}
    change(found)
    write_arrays(path / "weights.safetensors", found)
    config = json.loads((path / "config.json").read_text())
    config["files"] = {name: folder._bytes_and_hash(path / name) for name in config["files"]}
    del config["samples"]
    config["fingerprint"] = folder._fingerprint(config)
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ClickvecError) as raised:
        open_model(path)
    return str(raised.value)


def test_scales_are_checked(tmp_path: Path) -> None:
    scale, matrix = "title.input_gate.input.scale", "title.input_gate.input"
    assert "scale should have the shape (135,), but has nothing" in damaged(tmp_path / "a", lambda w: w.pop(scale))
    assert "should have the shape (135,), but has (2,)" in damaged(
        tmp_path / "b", lambda w: w.update({scale: np.ones(2, np.float32)})
    )
    assert "NaN" in damaged(tmp_path / "c", lambda w: w.update({scale: np.full(135, np.nan, np.float32)}))
    for dtype in (np.float32, np.int32):
        said = damaged(tmp_path / str(dtype), lambda w, t=dtype: w.update({matrix: w[matrix].astype(t)}))
        assert f"{matrix} is {np.dtype(dtype)}" in said


def test_what_cannot_be_shrunk(tmp_path: Path) -> None:
    model = tiny()
    name = "query.input_gate.input"
    for value, precision, said in (
        (np.nan, "int8", f"{name} holds a NaN"),
        (1e6, "float16", f"{name} .* too large for float16; .* int8"),
    ):
        weights = {**model.weights, name: np.full_like(model.weights[name], value)}
        with pytest.raises(ClickvecError, match=said):
            shrink_model(model._replace(weights=weights), precision)
    with pytest.raises(ClickvecError, match="already shrunk to int8"):
        shrink_model(shrink_model(model, "int8"), "float16")
    path = tiny_model(tmp_path / "model")
    (tmp_path / "link").symlink_to("model")
    tiny_model(tmp_path / "other", seed=1)
    before = contents(tmp_path)
    for wrong in ("float32", "int4"):
        said = refused("shrink", path, "--out", tmp_path / "x", "--weights", wrong)
        assert "float16 or int8" in said
        assert wrong in said
    for out in (path, tmp_path / "link"):
        assert "which this command reads" in refused("shrink", path, "--out", out, "--overwrite")
    assert "already holds a model" in refused("shrink", path, "--out", tmp_path / "other")
    assert "which this command reads" in refused("shrink", path, "--out", tmp_path, "--overwrite")
    assert "there is no model folder at" in refused("shrink", tmp_path / "none", "--out", tmp_path / "x")
    assert contents(tmp_path) == before
    ok("shrink", path, "--out", tmp_path / "other", "--overwrite")
    assert open_model(tmp_path / "other").precision == "int8"


def test_a_model_of_no_trigrams(tmp_path: Path) -> None:
    model = tiny()
    weights = {name: weight[:0] if name.endswith(".input") else weight for name, weight in model.weights.items()}
    for precision in SMALL:
        empty = shrink_model(model._replace(trigrams=(), weights=weights), precision)
        folder.save_model(empty, tmp_path / precision)
        assert open_model(tmp_path / precision, verify=True).precision == precision


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["lstm", "bilstm"])
def test_explanations_are_those_of_the_whole_model(kind: str, method: str) -> None:
    model = tiny(kind)
    whole = explain(Encoder(model), TEXTS[0], TEXTS[1], method=method)
    for precision, atol in (("float16", 1e-3), ("int8", 2e-2)):
        small = explain(Encoder(shrink_model(model, precision)), TEXTS[0], TEXTS[1], method=method)
        assert small.score == pytest.approx(whole.score, abs=atol)
        for one, other in ((small.query_words, whole.query_words), (small.title_words, whole.title_words)):
            found, before = [word.contribution for word in one], [word.contribution for word in other]
            np.testing.assert_allclose(found, before, atol=atol)


@pytest.mark.parametrize("precision", SMALL)
def test_every_verb_takes_a_shrunk_model(precision: str, site: Path, tmp_path: Path) -> None:
    tiny_model(tmp_path / "model")
    model, index, titles = tmp_path / "small", tmp_path / "index", site / "titles.tsv.gz"
    said = ok("shrink", tmp_path / "model", "--out", model, "--weights", precision)
    assert said.startswith(f"{model}: {precision}, 0.0 MB instead of 0.")
    facts = json.loads(ok("shrink", tmp_path / "model", "--out", tmp_path / "b", "--weights", precision, "--json"))
    assert (facts["weights"], facts["fingerprint"]) == (precision, open_model(model).fingerprint)
    assert f"input weights are: {precision}" in ok("info", model, "--verify")
    ok("evaluate", model, "--judged", site / "dev.tsv.gz")
    ok("encode", model, titles, "--out", tmp_path / "vectors.npy")
    ok("index", model, titles, "--out", index)
    assert contents(index / "models" / facts["fingerprint"]) == contents(model)
    assert len(json.loads(ok("search", index, "hotels", "--json"))["hits"]) == 10
    ok("rerank", model, stdin="hotels\t1\thotels in shanghai\n")
    ok("explain", index, "hotels", "--json")
    ok("explain", model, "hotels in shanghai", "shanghai hotels", "--method", "changes")
    ok("nearest", index, "pizza")
    with pytest.raises(ClickvecError, match="is an index of another model"):
        Index.open(index, Encoder.load(tmp_path / "model"))
    Index.build(Encoder(shrink_model(tiny(), precision)), TEXTS).save(tmp_path / "unsaved")  # written, not copied
    assert Index.open(tmp_path / "unsaved").encoder.model.precision == precision


# --- an index of small vectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
def test_an_index_scores_what_it_keeps(fields: dict[str, Any], tmp_path: Path) -> None:
    encoder, titles = Encoder(tiny(**fields)), [*TEXTS, "zzz qqq", *TEXTS[::-1]]
    Index.build(encoder, titles, vectors="int8").save(tmp_path / "index")
    index = Index.open(tmp_path / "index")
    assert index.precision == "int8"
    kept = shrink_vectors(encoder.encode_document(titles), "int8").astype(np.float64)
    for query in TEXTS:
        vector = encoder.encode_query(query).astype(np.float64)
        with np.errstate(invalid="ignore"):
            scores = np.nan_to_num(kept @ vector / np.linalg.norm(kept, axis=1))
        hits = index.search(query, k=len(titles), mode="vectors")
        there = scores[kept.any(axis=1)]  # a title without a vector is not found
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(there)[::-1], atol=2e-6)
        places = [int(hit.id) for hit in hits]
        np.testing.assert_allclose([hit.score for hit in hits], scores[places], atol=2e-6)
        by_title: dict[str, set[float]] = {}
        for hit in hits:
            by_title.setdefault(hit.title, set()).add(hit.score)
        assert all(len(found) == 1 for found in by_title.values())  # equal titles score the same


def test_a_search_of_many_small_vectors_is_exact() -> None:
    """More than one block, and 400 equal ones; the scores are those of brute force, to the last bit."""
    encoder = Encoder(tiny(cells=93))
    vectors = forward.unit(np.random.default_rng(0).normal(size=(40_000, 93))).astype(np.float32)
    vectors[::100] = vectors[39_999]
    small = shrink_vectors(vectors, "int8")
    index = Index.build(encoder, [""] * len(small))
    index._live.view().segment.exact = ExactSearch(small, inverse_lengths(small))
    vector = encoder.encode_query("hotels in shanghai")
    exact = (small.astype(np.float64) * vector).sum(axis=1) * inverse_lengths(small)
    for k in (1, 10, 1000):
        best = np.argsort(-exact.astype(np.float32), kind="stable")[:k]
        hits = index.search("hotels in shanghai", k, mode="vectors")
        assert [int(hit.id) for hit in hits] == best.tolist()
        assert [hit.score for hit in hits] == exact[best].astype(np.float32).tolist()


def test_the_folder_of_such_an_index(encoder: Encoder, tmp_path: Path) -> None:
    Index.build(encoder, TEXTS).save(tmp_path / "float32")
    Index.build(encoder, TEXTS, vectors="int8").save(tmp_path / "int8")
    for precision in ("float32", "int8"):
        (segment,) = (tmp_path / precision / "segments").iterdir()
        assert json.loads((segment / "segment.json").read_text())["vectors"] == precision
        assert np.load(segment / "vectors.npy").dtype == precision
        assert (segment / "scales.npy").exists() == (precision == "int8")
    for wrong in ("int4", "float16"):
        with pytest.raises(ClickvecError, match=f"{wrong}.*int8|int8.*{wrong}"):
            Index.build(encoder, TEXTS, vectors=wrong)
    Index.build(encoder, [], vectors="int8").save(tmp_path / "empty")
    assert Index.open(tmp_path / "empty").search("hotels") == []


def test_index_on_the_command_line(site: Path, tmp_path: Path) -> None:
    model, titles = tiny_model(tmp_path / "model"), site / "titles.tsv.gz"
    ok("index", model, titles, "--out", tmp_path / "int8", "--vectors", "int8")
    assert Index.open(tmp_path / "int8").precision == "int8"
    ok("search", tmp_path / "int8", "pizza")
    ok("explain", tmp_path / "int8", "hotels", "--json")
    for wrong in ("double", "float16"):
        said = refused("index", model, titles, "--out", tmp_path / "x", "--vectors", wrong)
        assert wrong in said
        assert "int8" in said
