"""Looking inside one text and one pair: readings, attenuation, and why a query and a title have their score."""

import dataclasses
import itertools
import json
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny

import clickvec
from clickvec.config import POOLINGS, RECURRENT, Tower
from clickvec.errors import ClickvecError
from clickvec.explanation import METHODS, Pair, explain, read
from clickvec.explanation.explained_pair import LINK_CELLS, LINKS
from clickvec.explanation.keywords import keywords
from clickvec.explanation.reading import cell_names
from clickvec.explanation.side import Side, effects_of, unimportant
from clickvec.model import folder, forward
from clickvec.model.encoder import Encoder, _Reader
from clickvec.search.index import Index
from clickvec.text.tokens import split_tokens

QUERY, TITLE = TEXTS[0], TEXTS[1]
READ = {name: fields for name, fields in TOWERS.items() if fields["kind"] in RECURRENT}
ADD_UP = ("shapley", "changes")  # the methods whose contributions add up to the score
SIDES = ("query", "title")
MANY = (*TEXTS, "hotels", "zzz hotels", "hotels zzz", "new " * 25)

read_towers = pytest.mark.parametrize("name", READ)
all_towers = pytest.mark.parametrize("name", TOWERS)
poolings = pytest.mark.parametrize("pooling", POOLINGS)


def explain_pair(encoder: Encoder, query: str, title: str, **more: object) -> Pair:
    return explain(encoder, query, title, **more).pair


@cache
def encoder_of(name: str, pooling: str = "last", shared_tower: bool = False) -> Encoder:
    fields: dict[str, Any] = {"pooling": pooling} if pooling != "last" else {}
    return Encoder(tiny(shared_tower=shared_tower, **TOWERS[name], **fields))


def vector_of(encoder: Encoder, side: str, text: str) -> np.ndarray:
    vector = encoder.encode_query(text) if side == "query" else encoder.encode_document(text)
    return vector.astype(np.float64)


def hand_made(tower: Tower, trigrams: tuple[str, ...], weights: dict[str, Any]) -> Encoder:
    """A model with these weights and one tower."""
    arrays = {f"shared.{key}": np.asarray(value, np.float32) for key, value in weights.items()}
    for key, shape in forward.shapes(tower, len(trigrams)).items():
        assert arrays[f"shared.{key}"].shape == shape
    return Encoder(folder.Model(tower, True, 10, trigrams, arrays, {}))


# --- reading -----------------------------------------------------------------------------------------------------


@read_towers
@poolings
@pytest.mark.parametrize("shared_tower", [False, True])
def test_the_parts_of_the_words_add_up_to_the_vector(name: str, pooling: str, shared_tower: bool) -> None:
    encoder = encoder_of(name, pooling, shared_tower)
    for side, text in itertools.product(SIDES, MANY):
        reading, vector = read(encoder, side, text), vector_of(encoder, side, text)
        assert reading.words == tuple(split_tokens(text, 10))
        assert reading.parts.shape == (len(reading.words), encoder.dimensions)
        np.testing.assert_array_equal(reading.vector, vector)
        np.testing.assert_allclose(reading.parts.sum(axis=0), vector, rtol=0, atol=1e-6)
        embedding = np.concatenate([way.embedding for way in reading.directions])
        np.testing.assert_allclose(embedding / np.linalg.norm(embedding), vector, rtol=0, atol=1e-6)


@given(
    name=st.sampled_from(sorted(READ)),
    pooling=st.sampled_from(POOLINGS),
    side=st.sampled_from(SIDES),
    text=st.text() | st.lists(st.sampled_from(" ".join(TEXTS).split()), max_size=14).map(" ".join),
)
def test_the_parts_of_any_text_add_up(name: str, pooling: str, side: str, text: str) -> None:
    reading = read(encoder_of(name, pooling), side, text)
    vector = vector_of(encoder_of(name, pooling), side, text)
    np.testing.assert_allclose(reading.parts.sum(axis=0), vector, rtol=0, atol=1e-5)


@poolings
@pytest.mark.parametrize("name", ["bilstm", "bilstm-all"])
def test_right_to_left_is_in_the_order_of_the_text(name: str, pooling: str) -> None:
    """Each direction alone is an LSTM-RNN; that of the other way reads the words from the last to the first."""
    both = encoder_of(name, pooling).model
    text = "how to fix bath tub wont turn off"
    reading = read(encoder_of(name, pooling), "title", text)
    assert [way.name for way in reading.directions] == ["left to right", "right to left"]
    assert [way.first for way in reading.directions] == [0, 7]
    for way, prefix in zip(reading.directions, ("forward", "backward"), strict=True):
        one_way = Encoder(
            both._replace(
                tower=dataclasses.replace(both.tower, kind="lstm"),
                weights={
                    key.replace(f".{prefix}.", "."): value
                    for key, value in both.weights.items()
                    if f".{prefix}." in key
                },
            )
        )
        backward = prefix == "backward"
        alone = read(one_way, "title", " ".join(text.split()[::-1]) if backward else text)
        order = slice(None, None, -1 if backward else 1)
        assert set(way.values) == set(alone.directions[0].values)
        for key, value in way.values.items():
            np.testing.assert_allclose(value, alone.directions[0].values[key][order], rtol=0, atol=1e-6)
        np.testing.assert_allclose(way.gains, alone.directions[0].gains[order], rtol=0, atol=1e-6)
        np.testing.assert_allclose(way.embedding, alone.directions[0].embedding, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("pooling", "embedding", "parts"),
    [("last", -0.8, [0.75, -1.75]), ("mean", -0.1, [6, -7]), ("max", 0.6, [1, 0])],
)
def test_the_changes_of_one_neuron_by_hand(pooling: str, embedding: float, parts: list[float]) -> None:
    """y(1) = tanh(w_a) = 0.6 and y(2) = tanh(w_b + 0.5 y(1)) = -0.8, so the changes are 0.6 and -1.4."""
    encoder = hand_made(
        Tower("rnn", hidden=1, pooling=pooling),
        ("#a#", "#b#"),
        {
            "hidden.input": [[np.arctanh(0.6)], [np.arctanh(-0.8) - 0.3]],
            "hidden.recurrent": [[0.5]],
            "hidden.bias": [0.0],
        },
    )
    reading = read(encoder, "query", "a b")
    assert reading.words == ("a", "b")
    np.testing.assert_allclose(reading.directions[0].values["output"], [[0.6], [-0.8]], atol=1e-6)
    np.testing.assert_allclose(reading.directions[0].embedding, [embedding], atol=1e-6)
    np.testing.assert_allclose(reading.parts[:, 0], parts, atol=1e-5)
    assert reading.vector == np.sign(embedding)


@read_towers
@pytest.mark.parametrize("text", ["", " \t\u3000"])
def test_a_text_without_words_is_nothing(name: str, text: str) -> None:
    reading = read(encoder_of(name), "title", text)
    assert (reading.words, reading.directions) == ((), ())
    assert reading.parts.shape == (0, encoder_of(name).dimensions)
    assert not reading.vector.any()


@read_towers
@poolings
def test_a_text_without_a_known_trigram_has_outputs_and_no_parts(name: str, pooling: str) -> None:
    """The outputs are what the biases make of nothing; the encoder gives no vector."""
    reading = read(encoder_of(name, pooling), "query", "zzz qqq")
    assert reading.words == ("zzz", "qqq")
    assert all(way.values["output"].any() for way in reading.directions)
    assert not reading.vector.any()
    assert not any(way.embedding.any() for way in reading.directions)
    assert reading.parts.shape == (2, encoder_of(name).dimensions)
    assert not reading.parts.any()


@read_towers
def test_a_long_text_ends_in_a_token_of_many_words(name: str) -> None:
    title = "how do you paint a bathtub and what paint should you use yahoo answers"
    reading = read(encoder_of(name), "title", title)
    assert reading.words[-2:] == ("paint", "should you use yahoo answers")
    assert {len(way.values["output"]) for way in reading.directions} == {len(reading.words)} == {10}


def test_readings_are_float64() -> None:
    reading = read(encoder_of("bilstm-all", "mean"), "query", QUERY)
    way = reading.directions[1]
    assert {array.dtype for array in (reading.vector, reading.parts, way.gains, way.embedding)} == {
        np.dtype(np.float64)
    }
    assert {value.dtype for way in reading.directions for value in way.values.values()} == {np.dtype(np.float64)}


@pytest.mark.parametrize("name", ["dssm", "clsm"])
def test_a_tower_that_does_not_read_word_by_word_says_so(name: str) -> None:
    for asked in (
        lambda: read(encoder_of(name), "query", QUERY),
        lambda: keywords(encoder_of(name), QUERY),
        lambda: explain_pair(encoder_of(name), QUERY, TITLE, method="changes"),
    ):
        with pytest.raises(ClickvecError, match=rf"{name.upper()}.*--tower rnn or lstm") as error:
            asked()
        assert "\n" not in str(error.value)


# --- attenuation -------------------------------------------------------------------------------------------------


@read_towers
@poolings
def test_effects_are_those_of_leaving_the_word_out(name: str, pooling: str) -> None:
    encoder = encoder_of(name, pooling)
    for side, text in itertools.product(SIDES, (QUERY, TITLE)):
        found, words = Side(encoder, side, text), text.split()
        expected = [
            1 - vector_of(encoder, side, text) @ vector_of(encoder, side, " ".join(words[:at] + words[at + 1 :]))
            for at in range(len(words))
        ]
        np.testing.assert_allclose(found.effects, expected, rtol=0, atol=1e-6)
        assert unimportant(found.effects).tolist() == [effect < np.mean(expected) / 2 for effect in expected]


@read_towers
def test_gates_are_the_means_of_the_trace(name: str) -> None:
    encoder = encoder_of(name)
    reading, trace = read(encoder, "title", TITLE), encoder.trace_document(TITLE)
    if name == "rnn":
        assert reading.mean("input_gate") is None
        return
    gates, inputs = trace.values.get("input_gate"), trace.values.get("cell_input")
    if name.startswith("bilstm"):  # what was read from the last word to the first, turned round
        gates = np.hstack([trace.values["forward.input_gate"], trace.values["backward.input_gate"][::-1]])
        inputs = np.hstack([trace.values["forward.cell_input"], trace.values["backward.cell_input"][::-1]])
    np.testing.assert_allclose(reading.mean("input_gate"), gates.mean(axis=1), rtol=0, atol=1e-6)
    both = reading.mean("input_gate", "cell_input")
    np.testing.assert_allclose(both, np.abs(gates * inputs).mean(axis=1), rtol=0, atol=1e-6)


def test_unimportant_words_by_hand() -> None:
    """Unimportant is less than half of the mean effect."""
    vector, cosines = np.array([1.0, 0.0]), [0.875, 0.8125, 0.75, 0.0]  # effects: 1/8, 3/16, 1/4, 1
    left = np.array([[cosine, np.sqrt(1 - cosine**2)] for cosine in cosines])
    effects = effects_of(vector, left)
    assert effects.tolist() == [0.125, 0.1875, 0.25, 1.0]
    assert unimportant(effects).tolist() == [True, True, False, False]  # the mean is 0.390625
    assert unimportant(np.array([0.25, 0.75])).tolist() == [False, False]  # 0.25 is half of the mean, and not less


@read_towers
def test_attenuation_of_little(name: str) -> None:
    encoder = encoder_of(name)
    expected = {"hotels": [1.0], "": [], "zzz qqq": [0.0, 0.0]}
    for text, effects in expected.items():
        found = Side(encoder, "query", text).effects
        assert found.tolist() == effects
        assert not unimportant(found).any()
    assert Side(encoder, "query", "hotels zzz").effects[0] == 1.0  # what is left has no vector


def test_rounding_makes_no_effect_negative() -> None:
    """A word that a bag of trigrams does not know changes nothing, but float32 vectors are not quite of length 1."""
    encoder = encoder_of("dssm")
    for text in TEXTS:
        unknown = explain_pair(encoder, f"zzz {text}", TITLE).query_words[0]
        assert 0 <= unknown.effect < 1e-6


# --- why this hit ------------------------------------------------------------------------------------------------


@all_towers
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shared_tower", [False, True])
def test_everything_adds_up_to_the_score(name: str, method: str, shared_tower: bool) -> None:
    if method == "changes" and name not in READ:
        return
    encoder = encoder_of(name, shared_tower=shared_tower)
    for query, title in ((QUERY, TITLE), (TEXTS[2], TEXTS[3]), ("hotels", "new york"), ("zzz york", "york zzz city")):
        found = explain_pair(encoder, query, title, method=method)
        expected = encoder.similarity(encoder.encode_query([query]), encoder.encode_document([title])).item()
        assert found.score == pytest.approx(expected, abs=1e-6)
        assert (found.query, found.title, found.method) == (query, title, method)
        assert [word.word for word in found.query_words] == split_tokens(query, 10)
        assert [word.word for word in found.title_words] == split_tokens(title, 10)
        assert sum(cell.contribution for cell in found.cells) == pytest.approx(found.score, abs=1e-12)
        for words in (found.query_words, found.title_words):
            if method in ADD_UP:
                assert sum(word.contribution for word in words) == pytest.approx(found.score, abs=1e-6)
        if name not in READ:
            assert found.links is None
            assert found.strongest == ()
            continue
        links = np.array(found.links)
        assert links.shape == (len(found.query_words), len(found.title_words))
        np.testing.assert_allclose(links.sum(), found.score, rtol=0, atol=1e-6)
        if method == "changes":
            for axis, words in ((1, found.query_words), (0, found.title_words)):
                contributions = [word.contribution for word in words]
                np.testing.assert_allclose(links.sum(axis=axis), contributions, rtol=0, atol=1e-6)


@read_towers
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_it_adds_up_with_pooled_outputs_too(name: str, pooling: str) -> None:
    found = explain_pair(encoder_of(name, pooling), QUERY, TITLE)
    for words in (found.query_words, found.title_words):
        assert sum(word.contribution for word in words) == pytest.approx(found.score, abs=1e-6)
    np.testing.assert_allclose(np.sum(found.links), found.score, rtol=0, atol=1e-6)


@all_towers
def test_without_a_word(name: str) -> None:
    encoder = encoder_of(name)
    query, title = (vector_of(encoder, side, text) for side, text in (("query", QUERY), ("title", TITLE)))
    found = explain_pair(encoder, QUERY, TITLE)
    for side, text, words, own, other in (
        ("query", QUERY, found.query_words, query, title),
        ("title", TITLE, found.title_words, title, query),
    ):
        split = text.split()
        for at, word in enumerate(words):
            left = vector_of(encoder, side, " ".join(split[:at] + split[at + 1 :]))
            assert word.without == pytest.approx(left @ other, abs=1e-6)
            assert word.effect == pytest.approx(1 - left @ own, abs=1e-6)
        least = np.mean([word.effect for word in words]) / 2
        assert [word.unimportant for word in words] == [word.effect < least for word in words]


@all_towers
def test_words_carry_gates_and_keywords(name: str) -> None:
    encoder = encoder_of(name)
    found = explain_pair(encoder, QUERY, TITLE)
    for side, text, words in (("query", QUERY, found.query_words), ("title", TITLE, found.title_words)):
        if name not in READ:
            assert {(word.gate, word.keyword) for word in words} == {(None, None)}
            assert all(word.detected_by == {} for word in words)
            continue
        gates, voted = read(encoder, side, text).mean("input_gate"), keywords(encoder, text, side)
        assert [word.gate for word in words] == ([None] * len(words) if gates is None else gates.tolist())
        assert [word.keyword for word in words] == list(voted.verdicts)
        for at, word in enumerate(words):
            assert word.detected_by == {way: counts[at] for way, counts in voted.counts.items()}


def test_the_share_of_known_trigrams() -> None:
    """`#hotzz#` has the trigrams #ho, hot, otz, tzz, zz#, and two of the five are known."""
    found = explain_pair(encoder_of("lstm"), "hotels hotzz zzz", "new york")
    assert [word.known for word in found.query_words] == [1.0, 0.4, 0.0]


@all_towers
def test_cells_are_the_products_of_the_two_vectors(name: str) -> None:
    encoder = encoder_of(name)
    found = explain_pair(encoder, QUERY, TITLE)
    query, title = vector_of(encoder, "query", QUERY), vector_of(encoder, "title", TITLE)
    assert [(cell.query, cell.title) for cell in found.cells] == list(zip(query.tolist(), title.tolist(), strict=True))
    assert all(cell.contribution == cell.query * cell.title for cell in found.cells)
    assert [(cell.cell, cell.way) for cell in found.cells] == cell_names(encoder)
    ways = {"left to right": 9 if name == "rnn" else 7}
    if name.startswith("bilstm"):
        ways["right to left"] = 7
    if name not in READ:
        ways = {"": 6}
    assert cell_names(encoder) == [(cell, way) for way, cells in ways.items() for cell in range(cells)]


@read_towers
def test_the_strongest_links(name: str) -> None:
    encoder = encoder_of(name)
    found = explain_pair(encoder, QUERY, TITLE)
    weights = [link.weight for link in found.strongest]
    assert weights == sorted(weights, reverse=True)
    assert all(weight > 0 for weight in weights)
    positive = sorted((weight for row in found.links for weight in row if weight > 0), reverse=True)
    assert weights == positive[:LINKS]
    query, title = read(encoder, "query", QUERY).parts, read(encoder, "title", TITLE).parts
    for link in found.strongest:
        assert link.weight == found.links[link.query_word][link.title_word]
        products = query[link.query_word] * title[link.title_word]
        assert products.sum() == pytest.approx(link.weight, abs=1e-12)
        largest = sorted(products[products > 0], reverse=True)[:LINK_CELLS]
        assert [products[cell] for cell in link.cells] == largest


def test_a_link_names_no_cell_that_speaks_against_it() -> None:
    """One cell of two answers to both words with the same sign; the other one with opposite signs."""
    encoder = hand_made(
        Tower("rnn", hidden=2),
        ("#a#", "#b#"),
        {"hidden.input": [[1, 0.1], [1, -0.1]], "hidden.recurrent": np.zeros((2, 2)), "hidden.bias": [0, 0]},
    )
    (link,) = explain_pair(encoder, "a", "b").strongest
    assert link.cells == (0,)


@pytest.mark.parametrize("method", METHODS)
@all_towers
def test_json(name: str, method: str) -> None:
    if method == "changes" and name not in READ:
        return
    for query, title in ((QUERY, TITLE), ("", ""), ("zzz", TITLE), (QUERY, "")):
        found = explain_pair(encoder_of(name), query, title, method=method)
        plain = dataclasses.asdict(found)
        back = json.loads(json.dumps(plain, allow_nan=False))
        assert back["score"] == found.score
        assert [word["contribution"] for word in back["title_words"]] == [w.contribution for w in found.title_words]
        assert [cell["way"] for cell in back["cells"]] == [cell.way for cell in found.cells]
        assert list(back) == [field.name for field in dataclasses.fields(found)]
        assert json.loads(json.dumps(back)) == json.loads(json.dumps(plain))


@all_towers
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("query", "title"), [("", TITLE), (QUERY, ""), ("", ""), ("zzz qqq", TITLE), ("zzz", "qqq")])
def test_a_text_without_a_vector_has_no_score_to_split(name: str, method: str, query: str, title: str) -> None:
    if method == "changes" and name not in READ:
        return
    found = explain_pair(encoder_of(name), query, title, method=method)
    assert found.score == 0
    assert not any(cell.contribution for cell in found.cells)
    for text, words in ((query, found.query_words), (title, found.title_words)):
        assert [word.word for word in words] == text.split()
        assert all(word.without == 0 for word in words)
        np.testing.assert_allclose([word.contribution for word in words], 0, rtol=0, atol=1e-8)
    assert found.strongest == ()
    assert found.links is None or not np.any(found.links)


@all_towers
def test_two_hundred_words(name: str) -> None:
    encoder = encoder_of(name)
    title = " ".join(itertools.islice(itertools.cycle(" ".join(TEXTS[:6]).split()), 200))
    found = explain_pair(encoder, QUERY, title)
    assert len(found.title_words) == 10
    assert len(found.title_words[-1].word.split()) == 191
    assert found.title_words[-1].known == 1
    assert sum(word.contribution for word in found.title_words) == pytest.approx(found.score, abs=1e-6)
    # Without the first word the others move up, as in any text: the last token is one word shorter.
    left = vector_of(encoder, "title", title.split(" ", 1)[1])
    assert found.title_words[0].without == pytest.approx(left @ vector_of(encoder, "query", QUERY), abs=1e-6)


@pytest.mark.parametrize(("query", "title"), [(QUERY, TITLE), ("", "")])
def test_an_unknown_method_is_named(query: str, title: str) -> None:
    with pytest.raises(ClickvecError, match=r"'magic'.*shapley, changes") as error:
        explain_pair(encoder_of("lstm"), query, title, method="magic")
    assert "\n" not in str(error.value)


def test_a_broken_model_says_so() -> None:
    model = tiny("lstm")
    model.weights["title.cell_input.bias"][3] = np.nan
    with pytest.raises(ClickvecError, match="--verify"):
        explain_pair(Encoder(model), QUERY, TITLE)


def test_gates_that_a_huge_bias_shuts_are_told_and_no_nan_is_explained() -> None:
    model = tiny("lstm", shared_tower=True)
    model.weights["shared.output_gate.bias"][:] = -1e38
    with pytest.raises(ClickvecError, match="a weight is too large"):
        explain_pair(Encoder(model), QUERY, TITLE)


def test_a_model_of_zeros_explains_a_score_of_zero() -> None:
    model = tiny("bilstm")
    zeros = model._replace(weights={key: np.zeros_like(value) for key, value in model.weights.items()})
    found = explain_pair(Encoder(zeros), QUERY, TITLE)
    assert found.score == 0
    assert {word.contribution for word in found.title_words} == {0.0}
    assert {word.keyword for word in found.title_words} == {False}
    json.dumps(dataclasses.asdict(found), allow_nan=False)


# --- each thing once ---------------------------------------------------------------------------------------------


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is encoded or traced from now on."""
    texts: list[str] = []
    encode, trace = _Reader.encode, _Reader.trace
    monkeypatch.setattr(_Reader, "encode", lambda self, batch: texts.extend(batch) or encode(self, batch))
    monkeypatch.setattr(_Reader, "trace", lambda self, text: texts.append(text) or trace(self, text))
    return texts


@all_towers
@pytest.mark.parametrize("method", ["shapley", "leave-one-out"])
def test_nothing_is_encoded_twice_and_a_look_encodes_no_more(
    name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, long = encoder_of(name), " ".join(TEXTS[3].split()[:10])
    texts = counted(monkeypatch)
    explain_pair(encoder, QUERY, long, method=method)
    once, texts[:] = list(texts), []
    traces = 1 if name in READ else 0  # the whole text is traced, and encoded with the others
    assert all(once.count(text) <= 1 + traces + (text == "") for text in once)
    clickvec.explain(encoder, QUERY, long, method=method)
    assert sorted(texts) == sorted(once)
    texts[:] = []
    clickvec.explain(encoder, QUERY, long, TITLE, method=method)
    assert texts.count(QUERY) == once.count(QUERY)


# --- the public function -----------------------------------------------------------------------------------------


@all_towers
def test_explain_twice_in_one_process_gives_the_same(name: str) -> None:
    encoder = encoder_of(name)
    for title, other in ((TITLE, None), (TITLE, TEXTS[2])):
        once, again = (clickvec.explain(encoder, QUERY, title, other) for _ in range(2))
        assert json.dumps(once.as_json(), allow_nan=False) == json.dumps(again.as_json(), allow_nan=False)
        assert repr(once) == repr(again)


def test_explain_shows_the_words_that_add_up_to_the_score() -> None:
    found = clickvec.explain(encoder_of("lstm"), QUERY, TITLE)
    assert found.score == pytest.approx(sum(word.contribution for word in found.query_words), abs=1e-6)
    assert found.score == pytest.approx(sum(word.contribution for word in found.title_words), abs=1e-6)
    assert found.pair == explain_pair(encoder_of("lstm"), QUERY, TITLE)
    assert found.title_side.keywords == keywords(encoder_of("lstm"), TITLE, "title")
    assert (found.rank, found.why_not) == (None, None)
    first, query, title = repr(found).splitlines()
    assert f"{found.score:.3f}" in first
    assert [word.word in query for word in found.query_words] == [True] * 3
    for word in found.title_words:
        assert f"{word.word}{'*' if word.keyword else ''} {word.contribution:+.3f}" in title


def test_explain_in_an_index_ranks_the_title_and_compares_it_with_the_top_hit() -> None:
    index = Index.build(encoder_of("lstm"), titles=TEXTS, ids=[f"t{at}" for at in range(len(TEXTS))])
    top, *_, last = index.search(QUERY, k=len(TEXTS))
    best = clickvec.explain(index, QUERY)
    assert best.rank
    assert (best.pair.title, best.rank[:4]) == (top.title, (1, len(TEXTS), top.id, top.id))
    assert best.why_not is None
    worst = clickvec.explain(index, QUERY, last.id)
    assert worst.pair.title == last.title
    assert worst.rank
    assert worst.rank.rank == len(TEXTS)
    assert worst.why_not
    assert worst.why_not.first.title == top.title
    assert worst.why_not.gap == pytest.approx(top.score - last.score, abs=1e-6)
    other = clickvec.explain(index, QUERY, last.id, index.search(QUERY, k=2)[1].id)
    assert other.why_not
    assert other.why_not.first.title == index.search(QUERY, k=2)[1].title


def test_explain_takes_integer_ids_of_an_index() -> None:
    index = Index.build(encoder_of("lstm"), titles=TEXTS, ids=range(len(TEXTS)))
    for number in (0, 1):
        assert clickvec.explain(index, QUERY, number).pair.title == TEXTS[number]
    assert clickvec.explain(index, QUERY, 1).as_json() == clickvec.explain(index, QUERY, "1").as_json()
    with pytest.raises(ClickvecError, match="99"):
        clickvec.explain(index, QUERY, 99)
    with pytest.raises(ClickvecError, match="not 1"):
        clickvec.explain(encoder_of("lstm"), QUERY, 1)
    with pytest.raises(ClickvecError, match="not 3"):
        clickvec.explain(encoder_of("lstm"), 3, TITLE)  # type: ignore[arg-type]


def test_explain_says_if_there_is_no_title() -> None:
    with pytest.raises(ClickvecError, match="give a title, or an index"):
        clickvec.explain(encoder_of("lstm"), QUERY)
    with pytest.raises(ClickvecError, match="finds nothing for 'zzz'"):
        clickvec.explain(Index.build(encoder_of("lstm"), TEXTS), "zzz")
