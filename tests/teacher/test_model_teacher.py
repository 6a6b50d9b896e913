"""A clickvec model as teacher, alone and beside another teacher."""

from pathlib import Path

import numpy as np
import pytest
from command import ok, wrong_usage
from fake_teacher import CATALOGUE, QUERIES, TITLES, tiny_data, write_npy

import clickvec
from clickvec import config
from clickvec.data import ClickLog, data_folder
from clickvec.errors import ClickvecError
from clickvec.teacher.opening import check_source, open_teacher
from clickvec.teacher.teacher_vectors import Teacher, mean_of

pytest.importorskip("torch")

from clickvec.model.folder import open_model
from clickvec.training.continuing import continued_recipe

SMALL = {"cells": 16, "epochs": 1, "device": "cpu", "dev": None}
TEXTS = [*QUERIES, *TITLES, *CATALOGUE]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large"
    clickvec.train(ClickLog(list(QUERIES), list(TITLES), np.ones(len(QUERIES))), path, **SMALL | {"cells": 32})
    return path


def cosines(teacher: Teacher) -> np.ndarray:
    return (teacher.queries * teacher.scales) @ (teacher.titles * teacher.scales).T


def test_a_model_teaches_its_cosines_and_nothing_is_kept(tmp_path: Path, large: Path) -> None:
    data, texts = tiny_data()
    teacher = open_teacher(data, texts, large, tmp_path / "data")
    encoder = clickvec.Encoder.load(large)
    expected = encoder.encode_query(texts.queries[0:4]) @ encoder.encode_document(texts.titles[0:7]).T
    np.testing.assert_allclose(cosines(teacher), expected, atol=0.02)
    assert (teacher.name, teacher.dimensions) == ("large", 32)
    assert not (tmp_path / "data.teacher").exists()


def test_of_two_teachers_the_cosines_are_averaged(tmp_path: Path, large: Path) -> None:
    data, texts = tiny_data()
    vectors = write_npy(tmp_path / "v.npy", TEXTS)
    one, other = (open_teacher(data, texts, teacher, tmp_path / "data") for teacher in (vectors, large))
    both = open_teacher(data, texts, [vectors, large], tmp_path / "data")
    np.testing.assert_allclose(cosines(both), (cosines(one) + cosines(other)) / 2, atol=1e-6)
    assert both.name == "v.npy and large"
    assert mean_of([one]) is one


def test_a_text_that_one_teacher_does_not_know_is_not_taught() -> None:
    one = Teacher("a", np.array([[3, 4], [0, 0]], np.int8), np.array([[1, 0]], np.int8), np.ones(2, np.float32))
    other = Teacher("b", np.array([[5], [6]], np.int8), np.array([[7]], np.int8), np.ones(1, np.float32))
    both = mean_of([one, other])
    assert both.queries.tolist() == [[3, 4, 5], [0, 0, 0]]
    assert both.titles.tolist() == [[1, 0, 7]]
    assert one.queries.tolist() == [[3, 4], [0, 0]]


def test_many_dimensions_become_few_and_products_stay() -> None:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(40, 100))  # a transformer has many dimensions that hardly matter

    def teacher_of(name: str) -> Teacher:
        rows = rng.normal(size=(300, 40)) @ mixing
        rows = np.rint(127 * rows / np.abs(rows).max()).astype(np.int8)
        rows[7] = 0
        return Teacher(name, rows[:100], rows[100:], np.full(100, 0.01, np.float32))

    one, other = teacher_of("one"), teacher_of("other")
    both = mean_of([one, other])
    assert both.dimensions == 128
    assert not both.queries[7].any()
    assert both.facts() == {"name": "one and other", "titles": 200}
    assert both.fingerprint() == mean_of([one, other]).fingerprint() != mean_of([other, one]).fingerprint()
    assert both._replace(titles=both.titles ^ 1).fingerprint() == both.fingerprint()  # as another number of threads
    expected = (cosines(one) + cosines(other)) / 2
    assert np.abs(cosines(both) - expected).max() < 0.03 * np.abs(expected).max()


def test_training_by_two_teachers_resumes_to_the_same_weights(tmp_path: Path, large: Path) -> None:
    data, texts = tiny_data()
    data_folder.save(data, tmp_path / "data", texts)
    teachers = [write_npy(tmp_path / "v.npy", TEXTS), large]
    made = clickvec.train(tmp_path / "data", tmp_path / "a", teacher=teachers, **SMALL)
    again = clickvec.train(tmp_path / "data", tmp_path / "b", teacher=[tmp_path / "data.teacher", large], **SMALL)
    alone = clickvec.train(tmp_path / "data", tmp_path / "c", teacher=[teachers[0]], **SMALL)
    about = made.model.training["teacher"]
    assert (about["name"], about["titles"]) == ("v.npy and large", 7)
    assert made.model.fingerprint == again.model.fingerprint != alone.model.fingerprint


def test_what_cannot_teach_is_refused(tmp_path: Path, large: Path) -> None:
    vectors = write_npy(tmp_path / "v.npy", TEXTS)
    with pytest.raises(ClickvecError, match=r"v\.npy and all-MiniLM-L6-v2 cannot both teach: .* give one of them"):
        check_source([vectors, large, "all-MiniLM-L6-v2"])
    for nothing in ([], "", [large, ""]):
        with pytest.raises(ClickvecError, match="the name of a teacher is empty"):
            check_source(nothing)
    with pytest.raises(ClickvecError, match="large/ is given twice; give it once"):
        check_source([large, f"{large}/"])
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("trigrams.txt", "weights.safetensors", "config.json"):
        (broken / name).write_bytes((large / name).read_bytes()[:100])
    with pytest.raises(ClickvecError, match="broken"):
        check_source(broken)


def test_prepare_keeps_no_vectors_of_a_model(tmp_path: Path, large: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\tclicks\nsofa\tcouch\t1\n")
    told = wrong_usage("prepare", log, "--out", tmp_path / "data", "--teacher", large)
    assert "is a clickvec model, whose vectors are not kept; give it to train" in " ".join(told.split())


def test_the_program_takes_several_teachers(tmp_path: Path, large: Path) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\n" + "".join(f"{q}\t{t}\n" for q, t in zip(QUERIES, TITLES, strict=True)))
    vectors = write_npy(tmp_path / "v.npy", TEXTS)
    settings = ("--set", "cells=16", "--set", "epochs=1", "--no-hold-out", "--device", "cpu")
    ok("train", log, "--out", tmp_path / "m", "--teacher", vectors, "--teacher", large, *settings)
    assert "v.npy and large, for 4 titles." in (tmp_path / "m" / "README.md").read_text()


def test_a_model_of_another_language_is_refused(tmp_path: Path, large: Path) -> None:
    log = ClickLog(["ванна", "диван"], ["синяя ванна", "красный диван"], np.ones(2))
    vectors = write_npy(tmp_path / "v.npy", [*log.queries, *log.titles])
    with pytest.raises(ClickvecError, match="large knows 0 of 2 titles, and half of them are needed"):
        clickvec.train(log, tmp_path / "m", teacher=[vectors, large], **SMALL)
    assert not (tmp_path / "m").exists()


def test_the_recipe_of_a_teacher(large: Path) -> None:
    assert config.recipe(has_teacher=True) == config.recipe(teacher_weight=1.5, teacher_gamma=18.0, has_teacher=True)
    paper, taught = config.recipe("paper"), config.recipe("paper", has_teacher=True)
    assert (taught.learning_rate, taught.batch_size, taught.epochs) == (
        paper.learning_rate,
        paper.batch_size,
        paper.epochs,
    )
    assert taught.teacher_weight > 0
    continued = continued_recipe(open_model(large), has_teacher=True)
    assert continued.teacher_gamma == config.recipe(has_teacher=True).teacher_gamma
