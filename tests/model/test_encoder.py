"""What an encoder promises: shapes, lengths, the same vector in any company, traces, and no torch."""

import copy
import os
import pickle
import random
import re
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny, tiny_model

from clickvec.errors import ClickvecError
from clickvec.model import encoder as encoder_module
from clickvec.model import fast, folder, forward
from clickvec.model.encoder import Encoder
from clickvec.model.projection import project
from clickvec.text.token_table import TokenTable
from clickvec.text.trigrams import Vocabulary

MANY = [
    *TEXTS,
    "",
    "hotels",
    "unknown zzz hotels",
    "word " * 25,
    *(" ".join(TEXTS[i % 8].split()[:i]) for i in range(8)),
]
GATES = ("cell_input", "input_gate", "forget_gate", "cell", "output_gate", "output")

every_tower = pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())


# --- shapes ------------------------------------------------------------------------------------------------------


def test_a_str_gives_one_vector_and_a_list_gives_rows(encoder: Encoder) -> None:
    one, two = encoder.encode_query("hotels in shanghai"), encoder.encode_query(["hotels in shanghai", "new york"])
    assert one.shape == (encoder.dimensions,) == (7,)
    assert two.shape == (2, 7)
    assert encoder.encode_document("new york").shape == (7,)
    np.testing.assert_allclose(two[0], one, atol=1e-6)
    np.testing.assert_array_equal(encoder.encode_query(text for text in TEXTS), encoder.encode_query(TEXTS))
    assert encoder.encode_query(["one"]).shape == (1, 7)


def test_nothing_gives_no_rows(encoder: Encoder) -> None:
    for nothing in ([], (), iter(())):
        vectors = encoder.encode_document(nothing)
        assert vectors.shape == (0, 7)
        assert vectors.dtype == np.float32


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_has_a_text(encoder: Encoder, batch_size: int) -> None:
    with pytest.raises(ClickvecError, match="batch_size"):
        encoder.encode_query(["one"], batch_size=batch_size)


@every_tower
@pytest.mark.parametrize("shared_tower", [False, True])
def test_vectors_are_float32_and_of_length_1_or_0(tmp_path: Path, fields: dict[str, Any], shared_tower: bool) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "m", shared_tower=shared_tower, **fields))
    for vectors in (encoder.encode_query(MANY), encoder.encode_document(MANY)):
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(MANY), encoder.dimensions)
        wordless = np.array([not text.split() for text in MANY])
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.where(wordless, 0, 1), atol=1e-6)
        assert not vectors[wordless].any()


@every_tower
def test_a_text_without_words_is_similar_to_nothing(tmp_path: Path, fields: dict[str, Any]) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "m", **fields))
    empty, others = encoder.encode_query(["", " \t", "\u3000"]), encoder.encode_document(MANY)
    assert not empty.any()
    similarity = encoder.similarity(empty, others)
    assert similarity.shape == (3, len(MANY))
    assert similarity.dtype == np.float32
    assert not similarity.any()
    assert not encoder.encode_query("").any()


def test_similarity_is_the_cosine(encoder: Encoder) -> None:
    queries, titles = encoder.encode_query(TEXTS), encoder.encode_document(TEXTS[:3])
    np.testing.assert_allclose(encoder.similarity(queries, titles)[4, 2], float(queries[4] @ titles[2]), atol=1e-6)
    assert encoder.similarity(queries[0], titles).shape == (3,)
    np.testing.assert_allclose(np.diag(encoder.similarity(queries, queries)), 1, atol=1e-6)


# --- the same vector in any company ------------------------------------------------------------------------------


@every_tower
def test_alone_in_a_batch_and_in_any_order(tmp_path: Path, fields: dict[str, Any]) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "m", **fields))
    together = encoder.encode_document(MANY)
    alone = np.stack([encoder.encode_document(text) for text in MANY])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)
    order = list(range(len(MANY)))
    for seed in range(5):
        random.Random(seed).shuffle(order)
        shuffled = encoder.encode_document([MANY[i] for i in order], batch_size=1 + 3 * seed)
        np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-6)
    fresh = Encoder.load(tmp_path / "m").encode_document(MANY[::-1])
    np.testing.assert_allclose(fresh[::-1], together, rtol=0, atol=1e-6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text() | st.sampled_from(TEXTS), min_size=1, max_size=6))
def test_any_texts(encoder: Encoder, texts: list[str]) -> None:
    together = encoder.encode_query(texts)
    assert np.isfinite(together).all()
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(encoder.encode_query(text), vector, rtol=0, atol=1e-6)


def test_the_cache_is_bounded_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_model(tmp_path / "m")
    texts = [f"word{i} {TEXTS[i % 8]} w{i * 7}" for i in range(300)]
    large = Encoder.load(path)
    expected = large.encode_query(texts, batch_size=10)
    monkeypatch.setattr(encoder_module, "CACHE_BYTES", 4 * 3 * 7 * 50)  # 50 rows of three gates of seven cells
    small = Encoder.load(path)
    held = []
    for start in range(0, 300, 10):
        vectors = small.encode_query(texts[start : start + 10])
        np.testing.assert_allclose(vectors, expected[start : start + 10], rtol=0, atol=1e-6)
        held.append(len(small._query._tokens))
    assert max(held) <= 50 + 10 * 12
    assert len(large._query._tokens) > 600


def test_an_interrupted_read_leaves_no_wrong_rows(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Encoder(encoder.model).encode_query(TEXTS)
    encoder.encode_query("hotels")
    with monkeypatch.context() as patch:

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(fast.FastTower, "write_rows", interrupt)
        with pytest.raises(KeyboardInterrupt):
            encoder.encode_query(TEXTS)
    np.testing.assert_allclose(encoder.encode_query(TEXTS), expected, rtol=0, atol=1e-6)


def test_threads_may_share_an_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "CACHE_BYTES", 4 * 3 * 7 * 20)
    encoder = Encoder.load(tiny_model(tmp_path / "m"))
    texts = [f"{TEXTS[i % 8]} {i}" for i in range(400)]
    expected = [encoder.encode_query(text) for text in texts]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(encoder.encode_query, texts))
    finally:
        sys.setswitchinterval(before)
    np.testing.assert_allclose(np.stack(found), np.stack(expected), rtol=0, atol=1e-6)


# --- towers ------------------------------------------------------------------------------------------------------


@every_tower
def test_titles_have_their_own_tower_unless_it_is_shared(tmp_path: Path, fields: dict[str, Any]) -> None:
    untied = Encoder.load(tiny_model(tmp_path / "untied", **fields))
    shared = Encoder.load(tiny_model(tmp_path / "shared", shared_tower=True, **fields))
    assert np.abs(untied.encode_query(TEXTS) - untied.encode_document(TEXTS)).max(axis=1).min() > 0.01
    np.testing.assert_array_equal(shared.encode_query(TEXTS), shared.encode_document(TEXTS))
    for side, encode in (("query", untied.encode_query), ("title", untied.encode_document)):
        weights = untied.model.tower_weights(side)
        tokens = TokenTable(10)
        texts = tokens.read(TEXTS)
        table = project(weights, Vocabulary(untied.model.trigrams).rows(tokens))
        expected = forward.unit(forward.run(untied.model.tower, weights, table, texts))
        np.testing.assert_allclose(encode(TEXTS), expected, rtol=0, atol=1e-6)


@every_tower
def test_a_saved_model_computes_what_it_computed_in_memory(tmp_path: Path, fields: dict[str, Any]) -> None:
    model = tiny(**fields)  # a file holds the weights in the order of their names; the tower has an order of its own
    expected = Encoder(model).encode_document(MANY)
    found = Encoder.load(tiny_model(tmp_path / "m", **fields)).encode_document(MANY)
    np.testing.assert_array_equal(found, expected)


def test_a_text_of_ten_thousand_words(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(9_999)] + ["hotels"]
    encoder = Encoder.load(tiny_model(tmp_path / "m"))
    vector = encoder.encode_query(" ".join(words))
    np.testing.assert_allclose(np.linalg.norm(vector), 1, atol=1e-6)
    assert len(encoder.trace_query(" ".join(words)).tokens) == 10
    every_word = Encoder.load(tiny_model(tmp_path / "long", max_words=20_000))
    assert len(every_word.trace_query(" ".join(words)).tokens) == 10_000
    assert np.isfinite(every_word.encode_query(" ".join(words))).all()


@every_tower
def test_a_text_without_a_known_trigram_is_like_an_empty_one(tmp_path: Path, fields: dict[str, Any]) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "m", **fields))
    vectors = encoder.encode_query(["qqqq", "zzz qqq", "hotels", "zzz hotels"])
    assert not vectors[:2].any()
    np.testing.assert_allclose(np.linalg.norm(vectors[2:], axis=1), 1, atol=1e-6)
    assert not encoder.trace_query("qqqq").vector.any()
    # A word without a known trigram is still a token among others, as in training.
    if fields["kind"] != "dssm":
        assert np.abs(vectors[2] - vectors[3]).max() > 1e-4


@every_tower
def test_one_text_of_new_and_of_known_words(fields: dict[str, Any]) -> None:
    encoder, fresh = Encoder(tiny(**fields)), Encoder(tiny(**fields))
    together = encoder.encode_query(MANY)
    for text, vector in zip(MANY, together, strict=True):
        np.testing.assert_allclose(fresh.encode_query(text), vector, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(fresh.encode_query(text), fresh.encode_query([text])[0])
        np.testing.assert_array_equal(fresh.encode_query(text), fresh.trace_query(text).vector)


def test_rows_are_the_same_however_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Encoder(tiny("bilstm")).encode_query(MANY)
    monkeypatch.setattr(encoder_module, "ROWS_AT_ONCE", 3)
    np.testing.assert_array_equal(Encoder(tiny("bilstm")).encode_query(MANY), expected)


# --- traces ------------------------------------------------------------------------------------------------------


def test_a_trace_prints_on_a_line(encoder: Encoder) -> None:
    assert repr(encoder.trace_query("Hotels  in shanghai")).startswith(
        "Trace('hotels in shanghai': cell_input (3, 7), "
    )


@every_tower
def test_a_trace_ends_in_the_vector(tmp_path: Path, fields: dict[str, Any]) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "m", **fields))
    for text in ("Hotels in SHANGHAI", "hotels", "zzz hotels " * 12):
        for trace, vector in (
            (encoder.trace_query(text), encoder.encode_query(text)),
            (encoder.trace_document(text), encoder.encode_document(text)),
        ):
            np.testing.assert_allclose(trace.vector, vector, rtol=0, atol=1e-6)
            ways = ("forward.", "backward.") if fields["kind"] == "bilstm" else ("",)
            last = np.concatenate([trace.values[f"{way}output"][-1] for way in ways])
            # Before they are of length 1: of closed gates, forward.py keeps few digits, and the compiled form all.
            np.testing.assert_allclose(last, vector * np.linalg.norm(last), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        ("rnn", {"output": (3, 9)}),
        ("lstm", dict.fromkeys(GATES, (3, 7))),
        ("bilstm", {f"{way}.{gate}": (3, 7) for way in ("forward", "backward") for gate in GATES}),
        ("dssm", {"hidden": (1, 9), "output": (1, 6)}),
        ("clsm", {"convolution": (3, 9), "hidden": (1, 9), "output": (1, 6)}),
    ],
)
def test_the_names_and_shapes_of_a_trace(kind: str, shapes: dict[str, tuple[int, int]]) -> None:
    trace = Encoder(tiny(kind)).trace_query("Hotels in SHANGHAI")
    assert trace.tokens == ("hotels", "in", "shanghai")
    assert {name: value.shape for name, value in trace.values.items()} == shapes


def test_the_values_of_a_trace_are_those_of_the_gates() -> None:
    trace = Encoder(tiny("lstm", forget_gate=True)).trace_query("hotels in shanghai").values
    for gate in ("input_gate", "forget_gate", "output_gate"):
        assert ((trace[gate] > 0) & (trace[gate] < 1)).all()
    before = np.concatenate((np.zeros((1, 7)), trace["cell"][:-1]))
    cell = trace["forget_gate"] * before + trace["input_gate"] * trace["cell_input"]
    np.testing.assert_allclose(trace["cell"], cell, atol=1e-6)
    np.testing.assert_allclose(trace["output"], trace["output_gate"] * np.tanh(trace["cell"]), atol=1e-6)
    assert (Encoder(tiny("lstm")).trace_query("hotels in shanghai").values["forget_gate"] == 1).all()


def test_the_backward_half_of_a_trace_reads_from_the_end() -> None:
    encoder = Encoder(tiny("bilstm"))
    there, back = encoder.trace_query("hotels in shanghai").values, encoder.trace_query("shanghai in hotels").values
    alone = encoder.trace_query("shanghai").values
    np.testing.assert_allclose(there["backward.output"][0], alone["backward.output"][0], atol=1e-6)
    np.testing.assert_allclose(back["forward.output"][0], alone["forward.output"][0], atol=1e-6)
    assert np.abs(there["forward.output"] - back["forward.output"]).max() > 0.01


@every_tower
def test_the_trace_of_no_words(fields: dict[str, Any]) -> None:
    trace = Encoder(tiny(**fields)).trace_query("  ")
    assert trace.tokens == ()
    assert not trace.vector.any()


# --- what must not happen ----------------------------------------------------------------------------------------


@every_tower
def test_no_nan_leaves_the_encoder(tmp_path: Path, fields: dict[str, Any]) -> None:
    model = tiny(**fields)
    name = next(name for name in model.weights if name.startswith("query.") and name.endswith(".input"))
    model.weights[name][model.trigrams.index("hot")] = np.nan
    folder.save_model(model, tmp_path / "m")
    encoder = Encoder.load(tmp_path / "m")
    for encode in (encoder.encode_query, encoder.trace_query):
        with pytest.raises(ClickvecError, match="NaN"):
            encode("hotels")
    assert np.isfinite(encoder.encode_query("new york")).all()
    assert np.isfinite(encoder.encode_document("hotels")).all()


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # an import of it fails
from clickvec.evaluation import evaluate, metrics
from clickvec import data
from clickvec.model.encoder import Encoder
from clickvec.search.index import Index
encoder = Encoder.load(sys.argv[1])
Index.build(encoder, titles=["hotels in shanghai", "new york"], ids=["a", "b"]).save(sys.argv[2])
hits = Index.open(sys.argv[2]).search("Hotels in SHANGHAI", k=1)
print(hits[0].id, [name for name in ("torch", "scipy", "bm25s", "matplotlib") if sys.modules.get(name)])
"""


def test_the_run_time_needs_no_torch(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "m", shared_tower=True)
    root = str(Path(encoder_module.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_TORCH, str(path), str(tmp_path / "index")],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stderr == ""
    assert done.stdout == "a []\n"


@pytest.mark.parametrize(
    ("texts", "named"), [(["a", None], "None"), ([float("nan")], "nan"), ([b"x", "a"], "b'x'"), (b"x", "120")]
)
def test_a_text_that_is_no_str_is_named(texts: list[str], named: str, tmp_path: Path) -> None:
    tiny_model(tmp_path / "model")
    with pytest.raises(ClickvecError, match=re.escape(f"not {named} (")):
        Encoder.load(tmp_path / "model").encode_document(texts)


# --- pickling, copying, showing ----------------------------------------------------------------------------------


def encode_in_worker(encoder: Encoder) -> list[np.ndarray]:
    return [encoder.encode_query(list(TEXTS)), encoder.encode_document(TEXTS[0])]


@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
@pytest.mark.parametrize("shared_tower", [False, True])
def test_a_copy_of_an_encoder_gives_the_same_vectors(
    tmp_path: Path, fields: dict[str, Any], shared_tower: bool
) -> None:
    encoder = Encoder.load(tiny_model(tmp_path / "model", shared_tower=shared_tower, **fields))
    expected = encode_in_worker(encoder)
    shutil.rmtree(tmp_path / "model")  # a pickle needs no file
    for copied in (copy.copy(encoder), copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert copied is not encoder
        assert (copied.fingerprint, copied.path) == (encoder.fingerprint, encoder.path)
        assert (copied._query is copied._title) == shared_tower
        for vectors, same in zip(encode_in_worker(copied), expected, strict=True):
            np.testing.assert_array_equal(vectors, same)


def test_worker_processes_give_the_same_vectors(encoder: Encoder) -> None:
    expected = encode_in_worker(encoder)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for vectors, same in zip(pool.submit(encode_in_worker, encoder).result(), expected, strict=True):
            np.testing.assert_array_equal(vectors, same)


def test_repr_tells_what_it_is(encoder: Encoder) -> None:
    for part in ("LSTM-RNN", "7 cells", str(encoder.path), f"{len(encoder.model.trigrams):,} trigrams"):
        assert part in repr(encoder)
    assert "None" not in repr(Encoder(tiny()))
    trace = repr(encoder.trace_query("new york"))
    assert "new york" in trace
    assert "input_gate (2, 7)" in trace
