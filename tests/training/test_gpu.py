"""An update in Triton against the plain one: on a GPU where there is one, and elsewhere under Triton's interpreter."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # it must be there before Triton is
pytest.importorskip("triton", reason="no Triton here")

from test_learning import log_of  # noqa: E402

from clickvec.config import Recipe, recipe  # noqa: E402
from clickvec.data import dataset  # noqa: E402
from clickvec.teacher.teacher_vectors import Teacher  # noqa: E402
from clickvec.training.device import can_be_fused  # noqa: E402
from clickvec.training.gpu import graph as gpu_update  # noqa: E402
from clickvec.training.negatives import Sampler  # noqa: E402
from clickvec.training.towers import TowerPair  # noqa: E402
from clickvec.training.update import Plain, Seed  # noqa: E402

WORDS = ["hotel", "berlin", "cheap", "of", "flights", "to", "x", "extraordinarily", "shanghai", "bath", "tub", "fix"]


def small_data(pairs: int = 14) -> dataset.Dataset:
    """Texts of no word to six; queries with several clicks; a title whose trigrams no other text has."""
    rng = np.random.default_rng(0)
    draw = lambda most: " ".join(rng.choice(WORDS, rng.integers(1, most)))  # noqa: E731
    rows = [(draw(4), draw(7)) for _ in range(pairs)] + [("hotel", ""), ("hotel", "日本"), ("", "berlin")]
    return dataset.prepare(log_of(rows), 5, 60)


def random_teacher(data: dataset.Dataset) -> Teacher:
    """A teacher that does not know one query and two titles."""
    rng = np.random.default_rng(0)
    rows = [
        rng.integers(-100, 100, (len(texts.offsets) - 1, 8)).astype(np.int8) for texts in (data.queries, data.titles)
    ]
    rows[0][1] = rows[1][2] = rows[1][5] = 0
    return Teacher("random", *rows, np.full(8, 0.004, np.float32))


def two_ways(
    data: dataset.Dataset, chosen: Recipe, updates: int
) -> tuple[list[Plain | gpu_update.Fused], list[TowerPair]]:
    assert can_be_fused(data, chosen)
    ways: list[Plain | gpu_update.Fused] = []
    towers = [TowerPair(chosen, data.trigrams, DEVICE) for _ in range(2)]
    for kind, pair in zip((Plain, gpu_update.Fused), towers, strict=True):
        teacher = random_teacher(data) if chosen.teacher_weight else None
        sampler = Sampler(data, chosen, has_teacher=teacher is not None)
        sampler.mined[:] = np.random.default_rng(1).integers(-1, data.clicked_titles, sampler.mined.shape)
        weights = 1 + np.arange(len(data.pair_query), dtype=np.float32) % 5
        ways.append(kind(data, chosen, pair, sampler, weights, updates, teacher))
    return ways, towers


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("paper", {"epochs": 2}),
        ("paper", {"tower": "bilstm", "forget_gate": True, "clip_norm": 0.01, "cells": 32}),
        (
            "paper",
            {"shared_tower": True, "word_dropout": 0.3, "clip_norm": 0.0, "momentum_ends": 0.0, "ends_share": 0.3},
        ),
        ("paper", {"batch_negatives": True, "cells": 48, "schedule": "linear"}),
        ("default", {}),
        ("default", {"tower": "bilstm", "shared_tower": False, "clip_norm": 0.01}),
        ("default", {"batch_negatives": False, "forget_gate": True, "word_dropout": 0.0}),
        ("default", {"teacher_weight": 0.5, "teacher_titles": 5}),
        ("paper", {"teacher_weight": 0.5, "teacher_titles": 3}),
    ],
)
def test_an_update_is_that_of_the_plain_way(name: str, settings: dict[str, object]) -> None:
    data = small_data()
    chosen = recipe(
        name,
        has_teacher="teacher_weight" in settings,
        **{"cells": 16, "max_words": 5, "batch_size": 6, "epochs": 1, "learning_rate": 0.02, **settings},
    )
    batches = -(-len(data.pair_query) // chosen.batch_size)
    (plain, fused), towers = two_ways(data, chosen, chosen.epochs * batches)
    for epoch in range(chosen.epochs):
        order, seed = np.random.default_rng(epoch).permutation(len(data.pair_query)), Seed(1, epoch, batches)
        for expected, found in zip(plain.epoch(order, seed, 0), fused.epoch(order, seed, 0), strict=True):
            assert float(found.loss) == pytest.approx(float(expected.loss), rel=1e-5)
            assert (found.weight, int(found.masked)) == (expected.weight, int(expected.masked))
            assert float(found.negatives) == pytest.approx(float(expected.negatives), rel=1e-6)
        for way in (plain, fused):
            way.settle((epoch + 1) * batches)
    near = 2e-5 if chosen.optimizer == "nesterov" else 1e-3  # Adam makes much of a small gradient
    ours, theirs = (pair.to_arrays() for pair in towers[::-1])
    for weight, array in theirs.items():
        np.testing.assert_allclose(ours[weight], array, rtol=0, atol=near, err_msg=weight)
    for tensor, value in fused.tensors().items():
        if chosen.optimizer == "adam":  # the plain way holds the changes of input rows otherwise
            np.testing.assert_allclose(value.cpu(), plain.tensors()[tensor].cpu(), rtol=1e-4, atol=near, err_msg=tensor)


@pytest.mark.parametrize("name", ["paper", "default"])
def test_a_run_goes_on_in_the_middle_of_an_epoch(name: str) -> None:
    """From the tensors of a checkpoint, with a minibatch larger than there are titles."""
    data = small_data()
    settings = {"negatives": 30} if name == "paper" else {}
    chosen = recipe(name, cells=16, max_words=5, batch_size=8, learning_rate=0.02, **settings)
    order, seed = np.random.default_rng(0).permutation(len(data.pair_query)), Seed(1, 0, 3)
    (_, one), (_, first) = two_ways(data, chosen, 3)
    (_, other), (_, second) = two_ways(data, chosen, 3)
    losses = []
    for batch, outcome in enumerate(one.epoch(order, seed, 0)):
        losses.append(float(outcome.loss))
        if batch == 1:
            for key, tensor in (second.tensors() | other.tensors()).items():
                tensor.detach().copy_((first.tensors() | one.tensors())[key].detach())
    assert [float(outcome.loss) for outcome in other.epoch(order, seed, 2)] == pytest.approx(losses[2:], rel=1e-6)
    for key, weight in first.to_arrays().items():
        np.testing.assert_allclose(second.to_arrays()[key], weight, rtol=0, atol=1e-6, err_msg=key)
