"""Topics of cells: many texts as one by one, a map by hand, groups, dead cells, scores against oracles and chance."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score
from tiny import TEXTS, TOWERS, tiny

from clickvec.config import Tower
from clickvec.errors import ClickvecError
from clickvec.explanation.keywords import Rule, keywords_of, most_active
from clickvec.explanation.reading import BATCH, read
from clickvec.explanation.topics import Detections, Topic, Topics, TopicWord, agglomerate, detect, topics
from clickvec.lab.claims.topic_scores import (
    Assignments,
    cells,
    plsa_assignments,
    score,
    score_all,
    signed_cells,
    untrained,
    words_at_random,
)
from clickvec.lab.other_systems.plsa import PLSA
from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.text.trigrams import Vocabulary

UNKNOWN = "zzz qqq xxx"  # not one known trigram
MANY = [*TEXTS, "", "hotels", UNKNOWN, "zzz hotels", "new york new york", "word " * 25]
READING = [fields for name, fields in TOWERS.items() if name not in ("dssm", "clsm")]
READING += [{"kind": kind, "pooling": pooling} for kind in ("rnn", "bilstm") for pooling in ("mean", "max")]

every_reading_tower = pytest.mark.parametrize("fields", READING, ids=lambda fields: "-".join(map(str, fields.values())))


# --- many texts at once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
def test_traces_are_the_trace_of_each(fields: dict[str, Any]) -> None:
    encoder = Encoder(tiny(**fields))
    for many, trace in (
        (encoder.trace_queries(MANY), encoder.trace_query), (encoder.trace_documents(MANY), encoder.trace_document),
    ):  # fmt: skip
        row = {int(text): k for k, text in enumerate(many.order)}
        for at, text in enumerate(MANY):
            one = trace(text)
            assert many.tokens[at] == one.tokens
            for name, values in one.values.items():
                whole = len(values) == len(one.tokens)  # the layers on top of DSSM and CLSM have no token
                tokens = [many.values[name][t][row[at]] for t in range(len(values) if whole else 1)]
                np.testing.assert_allclose(np.array(tokens).reshape(values.shape), values, atol=1e-6)
            length = np.linalg.norm(many.embeddings[at])
            np.testing.assert_allclose(many.embeddings[at] / (length or 1), one.vector, atol=1e-6)
    assert encoder.trace_queries([]).tokens == ()


def one_by_one(encoder: Encoder, texts: list[str], active: int, threshold: float) -> list[tuple[int, int, str, str]]:
    """(text, cell, direction, word) of each detection, by the keywords of each text that has a vector."""
    found = []
    for at, text in enumerate(texts):
        reading = read(encoder, "query", text)
        if reading.vector.any():
            by_way = keywords_of(reading, Rule(active, threshold)).cells
            found += [
                (at, cell, way, reading.words[place])
                for way, there in by_way.items()
                for place, detected in enumerate(there)
                for cell in detected
            ]
    return found


@every_reading_tower
@pytest.mark.parametrize(("active", "threshold"), [(5, 1.0), (2, 0.2), (99, 2.5)])
def test_detections_are_those_of_the_keywords_of_each_text(
    fields: dict[str, Any], active: int, threshold: float
) -> None:
    encoder = Encoder(tiny(seed=3, **fields))
    texts = MANY * (BATCH // len(MANY) + 1)  # more than one batch
    found = detect(encoder, texts, active=active, threshold=threshold)
    expected = one_by_one(encoder, MANY, active, threshold)
    places = zip(found.text.tolist(), found.dimension.tolist(), found.word.tolist(), strict=True)
    got = Counter((text % len(MANY), *found.cells[dimension], found.words[word]) for text, dimension, word in places)
    times = len(texts) // len(MANY)
    assert got == {detection: times * count for detection, count in Counter(expected).items()}
    assert len(expected) > 20
    for text, dimension, positive in zip(found.text, found.dimension, found.positive, strict=True):
        if text < len(MANY):
            reading = read(encoder, "query", texts[text])
            assert positive == (np.concatenate([way.embedding for way in reading.directions])[dimension] > 0)


def test_the_first_word_read_is_never_detected_and_the_order_is_that_of_the_texts() -> None:
    found = detect(Encoder(tiny("bilstm")), ["hotels in shanghai", UNKNOWN, "new york"], threshold=1e-9)
    order = list(zip(found.text.tolist(), found.dimension.tolist(), strict=True))
    assert order == sorted(order)
    backward = found.dimension >= 7
    forward_words, backward_words = ({found.words[at] for at in found.word[way]} for way in (~backward, backward))
    assert (forward_words, backward_words) == ({"in", "shanghai", "york"}, {"hotels", "in", "new"})
    assert found.times_active[:7].sum() == found.times_active[7:].sum() == 2 * 5  # the unknown text has no vector


def test_most_active_of_each_row() -> None:
    rows = np.array([[0.1, -0.9, 0.5], [3.0, 3.0, -4.0]])
    assert most_active(rows, 2).tolist() == [[1, 2], [2, 0]]
    assert most_active(rows[0], 2).tolist() == [1, 2]


def test_the_title_tower_reads_titles() -> None:
    encoder = Encoder(tiny())  # two towers
    assert topics(detect(encoder, TEXTS, side="title")) != topics(detect(encoder, TEXTS))
    assert topics(detect(Encoder(tiny(shared_tower=True)), TEXTS, side="title")).topics == topics(
        detect(Encoder(tiny(shared_tower=True)), TEXTS)
    ).topics  # fmt: skip


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(ClickvecError, match="--tower rnn or lstm"):
        topics(detect(Encoder(tiny("clsm")), TEXTS))
    for bad in ({"active": 0}, {"threshold": 0.0}, {"threshold": float("nan")}):
        with pytest.raises(ClickvecError, match=r"active.*threshold"):
            topics(detect(Encoder(tiny()), TEXTS, **bad))  # type: ignore[arg-type]
    with pytest.raises(ClickvecError, match="2 texts"):
        topics(detect(Encoder(tiny()), [UNKNOWN, ""]))


# --- topics by hand ----------------------------------------------------------------------------------------------


def made(items: str, words: str, activations: list[list[float]], chosen: list[list[int]] | None = None) -> Detections:
    """Detections as given: `items` are text, dimension and word, and the sign is that of the activation."""
    rows = np.array([item.split(".") for item in items.split()], np.int64).reshape(-1, 3)
    values = np.array(activations)
    return Detections(
        tuple(f"text {k}" for k in range(len(values))), tuple(words.split()),
        tuple((k, "left to right") for k in range(values.shape[1])),
        rows[:, 0], rows[:, 1], rows[:, 2], values[rows[:, 0], rows[:, 1]] > 0,
        values, np.sum(chosen or values != 0, axis=0), "query", 5, 0.25,
    )  # fmt: skip


def signs(found: Topics, dimension: int) -> tuple[Topic, Topic]:
    """The topics of a cell above zero and below."""
    above, below = found.topics[2 * dimension : 2 * dimension + 2]
    assert (above.dimension, above.sign, below.dimension, below.sign) == (dimension, "+", dimension, "-")
    return above, below


def test_a_map_by_hand() -> None:
    """Cell 0 detects a, a, b with one sign and c with the other; cell 1 detects c, c, c, c; cell 2 hardly moves."""
    found = topics(
        made(
            "0.0.0 0.0.1 1.0.0 2.0.2 0.1.2 1.1.2 2.1.2 3.1.2", "a b c",
            [[0.5, -0.4, 0.01], [0.3, -0.6, 0.01], [-0.4, -0.4, 0.01], [0.1, -0.6, 0.01], [0, 0, 0]],
            [[1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 1, 1], [0, 0, 0]],
        )
    )  # fmt: skip
    assert (found.texts, found.detections) == (5, 8)
    above, below = signs(found, 0)
    # Of 8 detections, 2 are a, 1 is b, 5 are c. Of the 3 of cell 0 above zero, 2 are a: a lift of (2/3) / (2/8).
    assert above.words == (TopicWord("a", 2, pytest.approx(8 / 3)), TopicWord("b", 1, pytest.approx(8 / 3)))
    assert below.words == (TopicWord("c", 1, pytest.approx(8 / 5)),)
    assert (above.detections, below.detections) == (3, 1)
    # Three detections of a, a, b: the entropy is log 3 - (2/3) log 2, of at most log 3.
    assert above.specificity == pytest.approx(2 / 3 * np.log(2) / np.log(3))
    assert below.specificity == 0  # one detection shows nothing
    assert signs(found, 1)[1].specificity == pytest.approx(1)
    assert signs(found, 1)[0].detections == 0
    assert found.dead == (2,)


def test_a_cell_that_is_never_active_is_dead() -> None:
    assert topics(made("0.0.0", "a", [[1.0, 0.5], [-1.0, 0.1]], [[1, 0], [1, 0]])).dead == (1,)


def test_fewer_words_on_demand() -> None:
    detections = detect(Encoder(tiny("bilstm")), TEXTS)
    found, few = topics(detections), topics(detections, 2)
    assert max(len(topic.words) for topic in found.topics) > 2
    assert all(topic.words[:2] == less.words for topic, less in zip(found.topics, few.topics, strict=True))
    assert few.groups == found.groups


def test_nothing_detected() -> None:
    found = topics(detect(Encoder(tiny()), ["hotels", "shanghai"]))  # one word each, and the first is not counted
    assert found.detections == 0
    assert all(topic.words == () and topic.specificity == 0 for topic in found.topics)
    assert found.groups == ()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=60))
def test_shares_add_up(items: list[tuple[int, int, int]]) -> None:
    """Σ over cells of (the cell's share of all detections) · lift is 1 for each word that is there."""
    met = {word: at for at, word in enumerate(dict.fromkeys(word for _, _, word in items))}
    signs = [[1.0, -1.0, 1.0, -1.0, 1.0], [-1.0, 1.0, 1.0, 1.0, -1.0]] * 2
    found = topics(made(" ".join(f"{t}.{d}.{met[w]}" for t, d, w in items), " ".join("abcdef"[: len(met)]), signs))
    assert sum(topic.detections for topic in found.topics) == found.detections == len(items)
    total: Counter[str] = Counter()
    for topic in found.topics:
        assert -1e-9 <= topic.specificity <= 1 + 1e-9
        assert sum(word.count for word in topic.words) == topic.detections
        weights = [word.count * np.log(word.lift) for word in topic.words]
        assert weights == sorted(weights, reverse=True)
        for word in topic.words:
            total[word.word] += topic.detections / found.detections * word.lift  # type: ignore[assignment]
    assert set(total) == set("abcdef"[: len(met)])
    assert list(total.values()) == pytest.approx([1] * len(met))


# --- groups ------------------------------------------------------------------------------------------------------


def test_cells_that_detect_the_same_words_are_a_group() -> None:
    """Cells 0 above zero and 2 below it detect a and b; cell 0 below and cell 1 detect other words; one has too few."""
    above, below = [0.5, 0.5, -0.5, 0.5], [-0.5, 0.5, -0.5, 0.5]
    items = [f"0.{cell}.{word}" for cell in (0, 2) for word in (0, 0, 0, 1, 1) * 4]
    items += ["1.0.2"] * 24 + ["0.1.3"] * 24 + ["0.3.3"] * 16
    found = topics(made(" ".join(items), "a b c d", [above, below]))
    (group,) = found.groups
    assert group[:2] == ("a", "b")
    members = {(topic.dimension, topic.sign): topic.group for topic in found.topics if topic.group is not None}
    assert members == {(0, "+"): 0, (2, "-"): 0}


def test_a_chain_is_no_group() -> None:
    """0 is near 1 and 1 is near 2, and 0 is far from 2: one pair is joined, and 2 is then 0.45 near on average."""
    chain = np.array([[1, 0.8, 0.1, 0], [0.8, 1, 0.8, 0], [0.1, 0.8, 1, 0], [0, 0, 0, 1]])
    assert agglomerate(chain, 0.5) == [[0, 1]]
    assert agglomerate(chain, 0.45) == [[0, 1, 2]]
    assert agglomerate(chain, 0.9) == []
    assert agglomerate(np.zeros((0, 0)), 0.5) == []


# --- a model whose cells carry topics ----------------------------------------------------------------------------


FOOD, HEALTH = ("pizza", "lasagna", "turkey"), ("knee", "psychology", "infection")


def by_topic(weights: dict[str, list[float]]) -> Encoder:
    """An RNN of two units: the last word read decides; `weights` are what a word's trigrams add up to."""
    trigrams = Vocabulary.count(weights).trigrams
    W = np.zeros((len(trigrams), 2), np.float32)
    vocabulary = Vocabulary(trigrams)
    for word, target in weights.items():
        ids = vocabulary.ids(word)
        W[ids] += np.array(target, np.float32) / len(ids)
    tower = {"hidden.input": W, "hidden.recurrent": np.zeros((2, 2)), "hidden.bias": np.zeros(2)}
    named = {f"shared.{name}": weight.astype(np.float32) for name, weight in tower.items()}
    return Encoder(folder.Model(Tower("rnn", hidden=2), True, 10, trigrams, named, {}))


@pytest.mark.parametrize(
    ("food", "health", "clusters", "nmi"), [([2.0, 0.1], [0.1, 2.0], 2, 1.0), ([2.0, 0.1], [-2.0, 0.1], 1, 0.0)]
)
def test_cells_of_a_made_model_score_as_they_must(
    food: list[float], health: list[float], clusters: int, nmi: float
) -> None:
    """Topics in two cells are told apart by cells; in the two signs of one cell, by signed cells alone."""
    encoder = by_topic(dict.fromkeys(FOOD, food) | dict.fromkeys(HEALTH, health))
    texts = [f"{first} {word}" for first in ("the", "best") for word in (*FOOD, *HEALTH)]
    labels = ["food" if text.split()[1] in FOOD else "health" for text in texts]
    found = detect(encoder, texts, active=1)
    assert sorted(found.words[word] for word in found.word) == sorted((*FOOD, *HEALTH) * 2)
    plain, signed = score(cells(found), labels), score(signed_cells(found), labels)
    assert (plain.clusters, signed.clusters) == (clusters, 2)
    assert (plain.purity.value, plain.nmi.value) == pytest.approx((1.0, 1.0) if nmi else (0.5, 0.0))
    assert (signed.purity.value, signed.nmi.value, signed.nmi.adjusted) == pytest.approx((1, 1, 1))


# --- scores ------------------------------------------------------------------------------------------------------


def test_a_score_by_hand() -> None:
    """Clusters x: A A B, y: B. Purity 3/4; the information is log 2 - (3/4) H(1/3), entropies log 2 and H(1/4)."""
    found = score(Assignments(np.array([0, 1, 2, 3]), np.array([7, 7, 7, 9])), ["A", "A", "B", "B"])
    assert (found.items, found.texts, found.clusters, found.topics) == (4, 4, 2, 2)
    assert found.purity.value == 3 / 4

    def h(p: float) -> float:
        return float(-p * np.log(p) - (1 - p) * np.log(1 - p))

    assert found.nmi.value == pytest.approx((np.log(2) - 3 / 4 * h(1 / 3)) / ((np.log(2) + h(1 / 4)) / 2))


items_of_texts = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=50)


@given(items_of_texts, st.lists(st.sampled_from("ABC"), min_size=8, max_size=8))
def test_scores_are_those_of_scikit_learn(items: list[tuple[int, int]], labels: list[str]) -> None:
    text, cluster = np.array(items).T
    found = score(Assignments(text, cluster), labels, shuffles=2)
    topic = [labels[at] for at in text]
    expected = normalized_mutual_info_score(topic, cluster, average_method="arithmetic")
    assert found.nmi.value == pytest.approx(expected, abs=1e-9)
    most = sum(Counter(topic[k] for k in np.flatnonzero(cluster == c)).most_common(1)[0][1] for c in set(cluster))
    assert found.purity.value == pytest.approx(most / len(items))


def drawn(seed: int, texts: int = 300) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Four items a text; cluster and topic have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    return np.repeat(np.arange(texts), 4), rng.integers(0, 30, 4 * texts), list(rng.choice(list("ABCDE"), texts))


def test_chance_scores_nothing_and_a_perfect_clustering_everything() -> None:
    text, cluster, labels = drawn(0)
    nothing = score(Assignments(text, cluster), labels)
    for measure in (nothing.purity, nothing.nmi):
        assert measure.value > 0.02
        assert abs(measure.value - measure.chance) < 4 * measure.spread
        assert abs(measure.adjusted) < 0.03
    topic = np.array([ord(label) for label in labels])[text]
    perfect = score(Assignments(text, topic), labels)
    assert (perfect.purity.value, perfect.nmi.value) == pytest.approx((1, 1))
    assert (perfect.purity.adjusted, perfect.nmi.adjusted) == pytest.approx((1, 1))


def test_the_seed_decides_the_shuffles_and_nothing_else() -> None:
    text, cluster, labels = drawn(1, 60)
    one, same, other = (score(Assignments(text, cluster), labels, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.nmi.chance != other.nmi.chance
    assert one.nmi.value == other.nmi.value
    assert one.as_json()["nmi"]["adjusted"] == one.nmi.adjusted


def test_texts_without_a_topic_are_left_out() -> None:
    some = score(Assignments(np.array([0, 1, 2]), np.array([0, 0, 5])), ["A", "B", None])
    assert (some.items, some.texts, some.clusters) == (2, 2, 1)
    assert some.nmi.value == 0
    for labels, text in (([None], [0]), ([], [])):
        with pytest.raises(ClickvecError, match="nothing to score"):
            score(Assignments(np.array(text, np.int64), np.array(text, np.int64)), labels)


# The paper's table of topics: the cells that detect a word of each query, as often as they detect one.
PAPER = {
    "food": ("5 8 11", "8 23 30", "26", "10 20 26", "5 5 26 26", "26 29", "7", "3 7 26", "20 26", "8 17 22 26"),
    "health": (
        "2", "1 6 6 17 23", "13 13 15 26", "2 2 8 10 22 30", "2 6 25", "2 6 28", "2 6 6 6 13", "6 17 17 25",
        "2 6 8 8 23 23 30 30", "2 2 25 30",
    ),
}  # fmt: skip


def test_the_papers_own_table() -> None:
    """Two topics in twenty cells: by chance alone, 72 of 100 words are in a cell of their topic. The table has 87."""
    rows = [(topic, row.split()) for topic, there in PAPER.items() for row in there]
    text = np.repeat(np.arange(len(rows)), [len(row) for _, row in rows])
    cluster = np.array([int(cell) for _, row in rows for cell in row])
    found = score(Assignments(text, cluster), [topic for topic, _ in rows], shuffles=500)
    assert (found.items, found.texts, found.clusters) == (69, 20, 20)
    assert found.purity.value == 60 / 69
    assert found.purity.chance == pytest.approx(0.72, abs=0.01)
    assert 3 < (found.purity.value - found.purity.chance) / found.purity.spread < 4.5
    assert 4 < (found.nmi.value - found.nmi.chance) / found.nmi.spread < 5.5


# --- what cells are compared with --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lstm-all", "bilstm", "rnn"])
@pytest.mark.parametrize("shared_tower", [False, True])
def test_an_untrained_model_has_the_shape_and_small_weights(kind: str, shared_tower: bool) -> None:
    encoder = Encoder(tiny(shared_tower=shared_tower, **TOWERS[kind]))
    one, same, other = (untrained(encoder, seed) for seed in (1, 1, 2))
    assert {name: w.shape for name, w in one.model.weights.items()} == {
        name: w.shape for name, w in encoder.model.weights.items()
    }
    for name, weight in one.model.weights.items():
        assert weight.dtype == np.float32
        opened = name.endswith("forget_gate.bias")
        assert np.abs(weight - opened).max() <= 0.02 + 1e-6
        np.testing.assert_array_equal(weight, same.model.weights[name])
        assert (weight != other.model.weights[name]).any()
    assert detect(one, TEXTS).text.size
    assert one.model.tower == encoder.model.tower


def test_words_at_random_know_words_and_no_topics() -> None:
    found = detect(Encoder(tiny()), MANY * 3)
    one, same, other = (words_at_random(found, 4, seed) for seed in (0, 0, 1))
    assert one.cluster.tolist() == same.cluster.tolist() != other.cluster.tolist()
    assert set(one.cluster.tolist()) <= {0, 1, 2, 3}
    assert one.text is found.text
    of_word = dict(zip(found.word.tolist(), one.cluster.tolist(), strict=True))
    assert [of_word[word] for word in found.word.tolist()] == one.cluster.tolist()  # one cluster a word


def test_plsa_gives_each_word_its_topic_in_its_text() -> None:
    """Topic 0 has a and, less often, c; topic 1 has b and c. With no prior, c goes with its text."""
    plsa = PLSA(["a", "b", "c"], np.array([[0.7, 0.0], [0.0, 0.5], [0.3, 0.5]]), prior=0.0)
    texts = ["x a", "a c a", "b c", "zebra", "b zebra"]
    found = plsa_assignments(plsa, texts)
    assert found.text.tolist() == [0, 1, 1, 2, 4]  # all words but the first of each text
    assert found.cluster.tolist() == [0, 0, 0, 1, 1]  # zebra is unknown, and goes with its text
    same = plsa_assignments(plsa, texts, made("1.0.0 2.0.0 2.1.0", "c", [[1.0, 1.0]] * 5))
    assert (same.text.tolist(), same.cluster.tolist()) == ([1, 2, 2], [0, 1, 1])


def test_all_systems_are_scored_on_the_same_texts() -> None:
    encoder = Encoder(tiny())
    found = detect(encoder, TEXTS)
    labels = ["travel", "travel", "repair", "repair", "travel", "travel", None, None]
    scores = score_all(encoder, found, labels, corpus=TEXTS, seed=1)
    assert list(scores) == [
        "cells", "signed cells", "cells, untrained", "signed cells, untrained",
        "words at random, 7 clusters", "words at random, 14 clusters",
        "PLSA, 2 topics", "PLSA, 7 topics", "PLSA, 14 topics",
    ]  # fmt: skip
    assert scores["PLSA, 7 topics"].items == scores["cells"].items == scores["signed cells"].items
    assert scores["signed cells"].clusters >= scores["cells"].clusters
    assert all(np.isfinite([s.purity.adjusted, s.nmi.adjusted]).all() for s in scores.values())
    assert list(score_all(encoder, found, labels)) == list(scores)[:6]
    assert score_all(encoder, found, labels, corpus=TEXTS, seed=1) == scores
