"""A transformer is fine-tuned on clicks: the gradient is that of the library, and a run can be continued."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import ok
from fake_teacher import CATALOGUE, QUERIES, TITLES, tiny_data, write_npy
from tiny_bert import write_tiny_bert

import clickvec
from clickvec.data import ClickLog
from clickvec.data.dataset import Dataset, Texts
from clickvec.errors import ClickvecError, Interrupted
from clickvec.storage.arrays import read_arrays, read_metadata, write_arrays
from clickvec.teacher import teacher_folder
from clickvec.teacher.opening import folder_of, open_teacher
from clickvec.teacher.taught_texts import TaughtTexts
from clickvec.teacher.token_source import TokenSource, write_tokens

torch = pytest.importorskip("torch")
for library in ("transformers", "sentence_transformers", "tokenizers"):
    if find_spec(library) is None:
        pytest.skip(f"no {library} here", allow_module_level=True)

from clickvec.training import tuned_teacher  # noqa: E402
from clickvec.training.fine_tuning import Tuner, Tuning  # noqa: E402
from clickvec.training.tuned_teacher import open_tuned  # noqa: E402

FAST = Tuning(epochs=3, batch_size=2, learning_rate=1e-2)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("model") / "tiny-bert")


def tuner_of(bert: Path, folder: Path, tuning: Tuning = FAST, saved: Path | None = None) -> tuple[Tuner, Any, Dataset]:
    data, texts = tiny_data()
    write_tokens(data, texts, str(bert), folder)
    source = TokenSource(folder)
    model = source.model(to_train=True)
    tuner = Tuner(model, data, *source.all_tokens(TaughtTexts(data, texts)), tuning, saved or folder.with_name("s"))
    return tuner, model, data


def weights(model: Any) -> dict[str, np.ndarray]:  # noqa: ANN401
    return {name: weight.detach().numpy().copy() for name, weight in model.weights.items()}


def test_the_gradient_is_that_of_the_library(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    tuner, model, data = tuner_of(bert, tmp_path / "t", Tuning(1, hard_negatives=0))
    library = transformers.BertModel.from_pretrained(bert)
    library.eval()
    named = dict(library.named_parameters())
    with torch.no_grad():
        for name, weight in model.weights.items():
            named[name][: len(weight)].copy_(weight)
    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", lambda *_: None)
    monkeypatch.setattr(model, "_at_once", 8)  # so that there are several groups of texts
    before = weights(model)
    drawn = tuner._draw(np.arange(len(data.pair_query)), 0, 0)
    tuner._set_learning_rate(0)
    loss = tuner._update(drawn)

    def encode(tokens: list[int]) -> Any:  # noqa: ANN401
        states = library(torch.tensor([tokens])).last_hidden_state[0]
        return torch.nn.functional.normalize(states.mean(0), dim=0)

    queries, titles = (
        torch.stack([encode(side.part(slice(row, row + 1)).values.tolist()) for row in range(len(side.lengths))])
        for side in (drawn.queries, drawn.titles)
    )
    cosines, total = 20.0 * queries @ titles.T, torch.zeros(())
    for row, positive in enumerate(drawn.candidates.positive.tolist()):
        clicked = set(data.clicked.take(data.pair_query[[row]]).values.tolist())
        others = [at for at, title in enumerate(drawn.candidates.titles.tolist()) if title not in clicked]
        total = total + torch.nn.functional.cross_entropy(cosines[row, [positive, *others]], torch.tensor(0))
    (total / len(queries)).backward()
    assert float(loss) == pytest.approx(float(total.detach()), rel=1e-4)
    for name, weight in model.weights.items():
        expected = named[name].grad[: len(weight)]
        torch.testing.assert_close(weight.grad, expected, rtol=1e-3, atol=1e-5)
    assert any((before[name] != after).any() for name, after in weights(model).items())


def test_tuning_learns_the_clicks(bert: Path, tmp_path: Path) -> None:
    tuner, _, data = tuner_of(bert, tmp_path / "t", FAST._replace(epochs=20))
    drawn = tuner._draw(np.arange(len(data.pair_query)), 0, 0)

    def loss() -> float:
        vectors = (tuner._bert.encode(side) for side in (drawn.queries, drawn.titles))
        return float(tuner._loss(drawn.candidates, *vectors))

    before = loss()
    tuner.run("run")
    assert loss() < before / 3


def test_a_run_that_was_stopped_continues_to_the_same_weights(bert: Path, tmp_path: Path) -> None:
    whole, model, _ = tuner_of(bert, tmp_path / "t", saved=tmp_path / "a")
    whole.run("run")

    def stop(label: str, done: int, total: int | None, note: str = "") -> None:
        if label.startswith("teacher, epoch 3"):
            raise KeyboardInterrupt

    part, _, _ = tuner_of(bert, tmp_path / "t")
    part._progress = stop
    with pytest.raises(KeyboardInterrupt):
        part.run("run")
    rest, continued, _ = tuner_of(bert, tmp_path / "t")
    labels: list[str] = []
    rest._progress = lambda label, *_: labels.append(label)
    rest.run("run")
    assert set(labels) == {"teacher, epoch 3/3"}
    for name, weight in weights(model).items():
        np.testing.assert_array_equal(weights(continued)[name], weight)


@pytest.mark.parametrize("damage", ["truncated", "another run", "another shape", "incomplete", "no such epoch"])
def test_a_damaged_state_or_that_of_another_run_is_not_used(bert: Path, tmp_path: Path, damage: str) -> None:
    tuner, _, _ = tuner_of(bert, tmp_path / "t", FAST._replace(epochs=2))
    tuner.run("run" if damage != "another run" else damage)
    with (tmp_path / "s").open("rb") as file:
        about, arrays = read_metadata(file, "s"), {key: np.array(a) for key, a in read_arrays(file, "s").items()}
    if damage == "truncated":
        (tmp_path / "s").write_bytes((tmp_path / "s").read_bytes()[:100])
    elif damage == "another shape":
        write_arrays(tmp_path / "s", {key: array.ravel()[:1] for key, array in arrays.items()}, about)
    elif damage == "no such epoch":
        write_arrays(tmp_path / "s", arrays, {**about, "epoch": "99"})
    elif damage == "incomplete":
        write_arrays(tmp_path / "s", dict(list(arrays.items())[1:]), about)
    again, model, _ = tuner_of(bert, tmp_path / "t", FAST._replace(epochs=2))
    before = weights(model)
    assert again._restore("run") == 0
    assert all((weights(model)[name] == weight).all() for name, weight in before.items())


def test_the_tuned_vectors_are_kept(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data, texts), beside = tiny_data(), tmp_path / "d"
    raw = open_tuned(data, texts, str(bert), tmp_path / "raw", FAST._replace(learning_rate=0.0))
    first = open_tuned(data, texts, str(bert), beside, FAST)
    assert first.name == "tiny-bert, fine-tuned"
    assert (first.titles != raw.titles).any()
    assert not (tmp_path / "d.teacher.tuning").exists()
    monkeypatch.setattr(tuned_teacher, "_tune", lambda *_: pytest.fail("it was tuned already"))
    for teacher in (str(bert), folder_of(beside)):
        np.testing.assert_array_equal(open_tuned(data, texts, teacher, beside, FAST).titles, first.titles)


def test_tokens_can_be_tuned_where_they_lie(bert: Path, tmp_path: Path) -> None:
    data, texts = tiny_data()
    named = open_tuned(data, texts, str(bert), tmp_path / "a", FAST)
    write_tokens(data, texts, str(bert), folder_of(tmp_path / "b"))
    tokens = open_tuned(data, texts, folder_of(tmp_path / "b"), tmp_path / "b", FAST)
    np.testing.assert_array_equal(tokens.titles, named.titles)
    assert teacher_folder.kind_of_teacher(folder_of(tmp_path / "b")) == "vectors"


def test_a_stopped_run_leaves_the_earlier_vectors(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data, texts), beside = tiny_data(), tmp_path / "d"
    earlier = open_tuned(data, texts, str(bert), beside, FAST)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tuner, "_update", stop)
    with pytest.raises(Interrupted, match="Run the same command again"):
        open_tuned(data, texts, str(bert), beside, FAST._replace(seed=2))
    np.testing.assert_array_equal(teacher_folder.load(folder_of(beside)).teacher.titles, earlier.titles)


def test_tuned_vectors_are_not_lost(bert: Path, tmp_path: Path) -> None:
    (data, texts), beside = tiny_data(), tmp_path / "d"
    made = open_tuned(data, texts, str(bert), beside, FAST)
    with pytest.raises(ClickvecError, match="was fine-tuned on other clicks or with other teacher_epochs; leave out"):
        open_tuned(data, texts, folder_of(beside), beside, FAST._replace(epochs=2))
    with pytest.raises(ClickvecError, match="which took long to make; to use them, give --teacher"):
        open_teacher(data, texts, str(bert), beside)
    for again in (
        open_teacher(data, texts, folder_of(beside), beside),
        open_tuned(data, texts, folder_of(beside), tmp_path / "another", FAST),
    ):
        np.testing.assert_array_equal(again.titles, made.titles)


def test_only_files_of_the_run_are_removed(bert: Path, tmp_path: Path) -> None:
    (data, texts), run = tiny_data(), tmp_path / "d.teacher.tuning"
    run.mkdir()
    (run / "mine.txt").write_text("mine")
    open_tuned(data, texts, str(bert), tmp_path / "d", FAST)
    assert [path.name for path in run.iterdir()] == ["mine.txt"]


def test_a_damaged_folder_is_made_again(bert: Path, tmp_path: Path) -> None:
    (data, texts), beside = tiny_data(), tmp_path / "d"
    made = np.array(open_tuned(data, texts, str(bert), beside, FAST).titles)  # a copy of what is memory-mapped
    (folder_of(beside) / "titles.npy").write_bytes(b"x")
    np.testing.assert_array_equal(open_tuned(data, texts, str(bert), beside, FAST).titles, made)


def test_another_encoder_is_refused_before_anything_is_written(bert: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(bert, other)
    (other / "config.json").write_text((other / "config.json").read_text().replace('"gelu"', '"relu"'))
    log = ClickLog(list(QUERIES), list(TITLES), np.ones(len(QUERIES)))
    with pytest.raises(ClickvecError, match="teacher_epochs are for BERT encoders with mean pooling, and other has"):
        clickvec.train(log, tmp_path / "m", teacher=other, teacher_epochs=1, dev=None)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_what_cannot_be_tuned(bert: Path, tmp_path: Path) -> None:
    def data_and(teacher: str | Path | list[str | Path]) -> tuple[Dataset, Texts, Any, Path, Tuning]:
        return *tiny_data(), teacher, tmp_path / "d", FAST

    vectors = write_npy(tmp_path / "v.npy", [*QUERIES, *TITLES, *CATALOGUE])
    with pytest.raises(ClickvecError, match="holds vectors, which cannot be fine-tuned"):
        open_tuned(*data_and(vectors))
    log = ClickLog(list(QUERIES), list(TITLES), np.ones(len(QUERIES)))
    small = {"cells": 8, "epochs": 1, "device": "cpu", "dev": None}
    clickvec.train(log, tmp_path / "m", teacher=vectors, **small)
    with pytest.raises(ClickvecError, match="name the transformer instead"):
        open_tuned(*data_and(tmp_path / "m.teacher"))
    with pytest.raises(ClickvecError, match="the teacher is a clickvec model"):
        clickvec.train(log, tmp_path / "n", teacher=tmp_path / "m", teacher_epochs=1, **small)
    with pytest.raises(ClickvecError, match="teacher_epochs has no effect without a teacher"):
        clickvec.train(log, tmp_path / "n", teacher_epochs=1, **small)


def test_train_with_a_tuned_teacher(bert: Path, tmp_path: Path) -> None:
    log, model = tmp_path / "log.tsv", tmp_path / "m"
    log.write_text("query\ttitle\n" + "".join(f"{q}\t{t}\n" for q, t in zip(QUERIES, TITLES, strict=True)))
    options = ["--no-hold-out", "--set", "cells=8", "--set", "epochs=1", "--out", model]
    ok("train", log, "--teacher", bert, "--set", "teacher_epochs=2", *options)
    encoder = clickvec.Encoder.load(model)
    assert encoder.model.training["teacher"]["name"] == "tiny-bert, fine-tuned"
    assert "fine-tuned" in (model / "README.md").read_text()
