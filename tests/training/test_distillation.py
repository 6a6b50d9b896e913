"""What a teacher adds to the loss, against hand-worked numbers and autograd; and training with a teacher."""

import logging
import math
from pathlib import Path

import numpy as np
import pytest
from test_learning import log_of

from clickvec.config import recipe
from clickvec.data import data_folder, dataset
from clickvec.errors import ClickvecError, Interrupted
from clickvec.model.encoder import Encoder
from clickvec.teacher.teacher_vectors import Teacher

torch = pytest.importorskip("torch")

from interrupt import watch_updates  # noqa: E402

from clickvec.training import loop, windows  # noqa: E402
from clickvec.training.distillation import Divergence, teacher_loss, weigh_teacher  # noqa: E402
from clickvec.training.negatives import Sampler  # noqa: E402
from clickvec.training.update import unit  # noqa: E402

SMALL = {"cells": 16, "epochs": 2, "batch_size": 8, "teacher_titles": 6}
COLOURS = ["red", "blue", "green", "black"]
THINGS = ["shoe", "hat", "bag", "coat"]


def small_data() -> dataset.Dataset:
    """Colours and things, of which each query names one, and a catalogue that the log never mentions."""
    pairs = [(word, f"{colour} {thing}") for colour in COLOURS for thing in THINGS for word in (colour, thing)]
    return dataset.prepare(log_of(pairs), 10, 1_000, catalogue=["crimson boot", "crimson shoe", "navy boot"])


def random_teacher(data: dataset.Dataset, seed: int = 0) -> Teacher:
    rng = np.random.default_rng(seed)
    rows = [
        rng.integers(-100, 100, (len(texts.offsets) - 1, 8)).astype(np.int8) for texts in (data.queries, data.titles)
    ]
    rows[0][data.pair_query] = rows[1][data.pair_title]  # it agrees with clicks, so that it gets some weight
    return Teacher("random", *rows, np.full(8, 0.004, np.float32))


# --- the loss -----------------------------------------------------------------------------------------------------


def test_the_divergence_by_hand() -> None:
    cosines, targets = torch.tensor([[0.5, 0.1, 0.9]]), torch.tensor([[0.2, 0.4, 0.9]])
    p, t = ([math.exp(gamma * x) for x in row] for gamma, row in ((2.0, (0.5, 0.1)), (3.0, (0.2, 0.4))))
    p, t = [x / sum(p) for x in p], [x / sum(t) for x in t]
    by_hand = sum(b * math.log(b / a) for a, b in zip(p, t, strict=True))
    found = Divergence.apply(cosines, targets, torch.tensor([[True, True, False]]), 2.0, 3.0)
    assert found.item() == pytest.approx(by_hand, rel=1e-6)


def test_the_gradient_of_the_divergence_is_that_of_autograd() -> None:
    generator = torch.Generator().manual_seed(0)
    cosines = torch.rand(3, 5, generator=generator, dtype=torch.float64).requires_grad_()
    targets, counts = torch.rand(3, 5, generator=generator, dtype=torch.float64), torch.ones(3, 5, dtype=torch.bool)
    counts[1, 3] = counts[2, 0] = False
    assert torch.autograd.gradcheck(lambda R: Divergence.apply(R, targets, counts, 12.0, 20.0), (cosines,))


def test_a_model_that_agrees_with_its_teacher_pays_nothing() -> None:
    vectors = unit(torch.randn(6, 4, generator=torch.Generator().manual_seed(0)))
    chosen, known = recipe(has_teacher=True, teacher_gamma=12.0), torch.ones(6, dtype=torch.bool)
    found = teacher_loss(chosen, 5, vectors, vectors, torch.tensor([0, 2, 2]), known)
    assert found.item() == pytest.approx(0, abs=1e-5)


def test_texts_that_the_teacher_does_not_know_change_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors, teacher = (unit(torch.randn(6, 4, generator=generator)) for _ in range(2))
    chosen, known = recipe(has_teacher=True), torch.tensor([True] * 4 + [False] * 2)
    few = teacher_loss(chosen, 4, vectors[:4], teacher[:4], torch.tensor([1, 3]), known[:4])
    assert few.item() > 0
    with_unknown = teacher_loss(chosen, 4, vectors, teacher, torch.tensor([1, 3]), known)
    assert with_unknown.item() == pytest.approx(few.item(), rel=1e-5)
    half = teacher_loss(chosen, 4, vectors, teacher, torch.tensor([1, 3, 4, 5]), known)  # an unknown title is taught
    assert half.item() == pytest.approx(few.item() / 2, rel=1e-5)


# --- titles to teach ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper", "default"])
def test_titles_of_the_catalogue_are_taught(name: str) -> None:
    data = small_data()
    chosen = recipe(name, has_teacher=True, **SMALL)
    sampler, pairs, taught = Sampler(data, chosen, has_teacher=True), np.arange(8), set[int]()
    for seed in range(50):
        drawn = sampler.draw(pairs, np.random.default_rng(seed))
        assert len(drawn.taught) == 6
        assert (drawn.titles[drawn.positive] == data.pair_title[pairs]).all()
        taught |= set(drawn.titles[drawn.taught].tolist())
    assert taught == set(range(len(data.titles.offsets) - 1))
    without = Sampler(data, chosen).draw(pairs, np.random.default_rng(0))
    assert not len(without.taught)


# --- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"tower": "dssm"}, {"tower": "bilstm", "shared_tower": False}])
@pytest.mark.parametrize("name", ["paper", "default"])
def test_weights_do_not_depend_on_windows(name: str, settings: dict[str, object], tmp_path: Path) -> None:
    data_folder.save(small_data(), tmp_path / "data")
    data = data_folder.load(tmp_path / "data")
    chosen, teacher, models = recipe(name, has_teacher=True, **(SMALL | settings)), random_teacher(data), []
    for size in (None, 1, 3_000):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(windows, "window_bytes", lambda whole, size=size: size)
            models.append(loop.run_training(data, chosen, tmp_path / str(size), device="cpu", teacher=teacher))
    assert len({model.fingerprint for model in models}) == 1
    untaught = loop.run_training(data, chosen, tmp_path / "untaught", device="cpu")
    assert untaught.fingerprint != models[0].fingerprint
    about = models[0].training["teacher"]
    assert (about["name"], about["titles"]) == ("random", 19)
    assert about["agreement"] > 0.2
    assert "teacher" not in untaught.training


def test_a_run_resumes_exactly_and_refuses_another_teacher(tmp_path: Path) -> None:
    data = small_data()
    chosen, teacher, out = recipe(has_teacher=True, **SMALL), random_teacher(data), tmp_path / "cut"
    whole = loop.run_training(data, chosen, tmp_path / "whole", device="cpu", teacher=teacher)
    with pytest.MonkeyPatch.context() as patched:
        watch_updates(patched, 3)
        with pytest.raises(Interrupted):
            loop.run_training(data, chosen, out, device="cpu", teacher=teacher)
    for other in (None, random_teacher(data, seed=1)):
        with pytest.raises(ClickvecError, match="other data"):
            loop.run_training(data, chosen, out, device="cpu", teacher=other, resume=True)
    resumed = loop.run_training(data, chosen, out, device="cpu", teacher=teacher, resume=True)
    assert resumed.fingerprint == whole.fingerprint


def test_the_teacher_is_learnt(tmp_path: Path) -> None:
    """The teacher knows what the log does not tell: crimson is red, and navy is blue."""
    data = small_data()
    direction = {colour: number for number, colour in enumerate(COLOURS)} | {"crimson": 0, "navy": 1}
    titles = [colour for colour in COLOURS for _ in THINGS] + ["crimson", "crimson", "navy"]
    rows = np.eye(4, dtype=np.int8)[[direction[colour] for colour in titles]] * 100
    queries = np.zeros((len(data.queries.offsets) - 1, 4), np.int8)  # it knows none
    teacher = Teacher("colours", queries, rows, np.full(4, 0.01, np.float32))
    chosen = recipe(has_teacher=True, **(SMALL | {"epochs": 60, "teacher_weight": 15.0}))

    def margin(taught: Teacher | None) -> float:
        encoder = Encoder(loop.run_training(data, chosen, tmp_path / str(taught is None), device="cpu", teacher=taught))
        crimson, navy, red, blue = encoder.encode_document(["crimson boot", "navy boot", "red bag", "blue bag"])
        return float((crimson - navy) @ (red - blue))

    assert margin(teacher) > margin(None) + 0.5


@pytest.mark.parametrize(
    ("agreement", "weight", "message"),
    [
        (0.25, 0.5, "The teacher agrees with 25% of the clicks; its weight in the loss is 0.50."),
        (0.0, 0.0, "The teacher agrees with 0% of the clicks; its weight in the loss is 0.00."),
        (None, 0.4, "The teacher has vectors for no query with its clicked title, so nothing can be compared; "
         "its weight in the loss is 0.40."),
    ],
)  # fmt: skip
def test_the_weight_depends_on_the_agreement(
    agreement: float | None, weight: float, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "clickvec"):
        weighed = weigh_teacher(recipe(has_teacher=True, teacher_weight=2.0), agreement)
    assert weighed.teacher_weight == pytest.approx(weight)
    assert caplog.messages == [message]


# --- settings -----------------------------------------------------------------------------------------------------


def test_settings_of_a_teacher_need_one() -> None:
    assert recipe(has_teacher=True).teacher_weight > 0
    assert recipe().teacher_weight == 0
    with pytest.raises(ClickvecError, match="teacher_weight has no effect without a teacher; give one with --teacher"):
        recipe(settings=["teacher_weight=0.5"])
    with pytest.raises(ClickvecError, match="with teacher_weight=0 the teacher teaches nothing"):
        recipe(has_teacher=True, teacher_weight=0)
