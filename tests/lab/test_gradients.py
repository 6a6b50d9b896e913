"""Integrated gradients: their sum, torch's gradients, and a linear model by hand."""

import math

import numpy as np
import pytest
from tiny import TEXTS, TOWERS, tiny

from clickvec.config import POOLINGS, RECURRENT, Tower
from clickvec.explanation.reading import encode
from clickvec.lab.claims.word_removal import GRADIENT_POINTS, integrated_gradients
from clickvec.model import folder, forward
from clickvec.model.encoder import Encoder
from clickvec.model.projection import project
from clickvec.text.ragged import ragged

QUERY, TITLE = TEXTS[0], TEXTS[1]

READ = {name for name, fields in TOWERS.items() if fields["kind"] in RECURRENT}

all_towers = pytest.mark.parametrize("name", TOWERS)


def other_of(encoder: Encoder, side: str) -> np.ndarray:
    """The vector of the query on the other side."""
    return encode(encoder, "title" if side == "query" else "query", [QUERY])[0].astype(np.float64)


def inputs_of(encoder: Encoder, side: str, words: list[str], scale: float) -> dict[str, np.ndarray]:
    """The tower's weights with a row for each word in place of the trigrams: its own, summed, times `scale`."""
    ids = [encoder.vocabulary.ids(word) for word in words]
    return {
        key: scale * np.stack([value[row].sum(axis=0) for row in ids]).astype(np.float64)
        if key.endswith(".input")
        else value.astype(np.float64)
        for key, value in encoder.model.tower_weights(side).items()
    }


def score_at(encoder: Encoder, side: str, words: list[str], other: np.ndarray, scale: float) -> float:
    """The score with all inputs scaled; with 0 it is the biases' own."""
    weights = inputs_of(encoder, side, words, scale)
    each = ragged([[place] for place in range(len(words))])
    vector = forward.run(encoder.model.tower, weights, project(weights, each), ragged([list(range(len(words)))]))
    return float(forward.unit(vector)[0] @ other)


@pytest.mark.parametrize("side", ["query", "title"])
@all_towers
def test_gradients_add_up_to_the_score_less_that_of_the_biases(name: str, side: str) -> None:
    model = tiny(**TOWERS[name])  # with weights as small as those of a trained model, so that ten points are enough
    encoder = Encoder(model._replace(weights={key: value / 4 for key, value in model.weights.items()}))
    for text in (QUERY, TITLE, "hotels", "hotels zzz"):
        words, other = text.split(), other_of(encoder, side)
        found = integrated_gradients(encoder, side, text, other)
        assert score_at(encoder, side, words, other, 1) == pytest.approx(
            encode(encoder, side, [text])[0].astype(np.float64) @ other, abs=1e-5
        )
        expected = score_at(encoder, side, words, other, 1) - score_at(encoder, side, words, other, 0)
        assert found.sum() == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("pooling", POOLINGS)
@all_towers
def test_gradients_are_those_of_torch(name: str, pooling: str) -> None:
    torch = pytest.importorskip("torch")
    from clickvec.training.towers import TorchTower, make_batch

    if pooling != "last" and name not in READ:
        return
    encoder, words = Encoder(tiny(**TOWERS[name], **({"pooling": pooling} if name in READ else {}))), TITLE.split()
    other = other_of(encoder, "title")
    batch = make_batch(ragged([list(range(len(words)))]), ragged([[place] for place in range(len(words))]))
    x = TorchTower.from_arrays(encoder.model.tower, inputs_of(encoder, "title", words, 1), torch.float64)
    expected = np.zeros(len(words))
    points, shares = np.polynomial.legendre.leggauss(GRADIENT_POINTS)
    for point, share in zip((points + 1) / 2, shares / 2, strict=True):
        tower = TorchTower.from_arrays(encoder.model.tower, inputs_of(encoder, "title", words, point), torch.float64)
        vector = tower(batch)[0]
        (vector @ torch.tensor(other) / vector.norm()).backward()
        slope = (tower.weights["input"].grad * x.weights["input"]).sum(dim=1)
        expected += share * slope.detach().numpy()
    found = integrated_gradients(encoder, "title", TITLE, other)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_gradients_of_a_linear_model_by_hand() -> None:
    """So near to zero tanh is linear: the vector is (Σ a_t, 1) before scaling, and its cosine with (1, 0) is

    α Σ a / sqrt((α Σ a)² + 1) along the way: each word gets a_t / sqrt((Σ a)² + 1), its share by a_t.
    """
    small, a = 1e-3, {"a": 0.75, "b": -0.25, "c": 0.5}
    weights = {
        "layer1.input": [[small * value, 0] for value in a.values()],
        "layer1.bias": [0, small],
        "layer2.weight": np.eye(2),
        "layer2.bias": [0, 0],
    }
    arrays = {f"shared.{key}": np.asarray(value, np.float32) for key, value in weights.items()}
    tower = Tower("dssm", hidden=2, output=2)
    encoder = Encoder(folder.Model(tower, True, 10, tuple(f"#{word}#" for word in a), arrays, {}))
    found = integrated_gradients(encoder, "query", "a b c", np.array([1.0, 0.0]))
    np.testing.assert_allclose(found, np.array([0.75, -0.25, 0.5]) / math.sqrt(2), rtol=0, atol=1e-5)
