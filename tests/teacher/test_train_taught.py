"""`clickvec.train` with a catalogue and a teacher, from Python."""

from pathlib import Path

import numpy as np
import pytest
from fake_teacher import CATALOGUE, QUERIES, TITLES, tiny_data, write_npy

import clickvec
from clickvec.data import ClickLog, data_folder
from clickvec.errors import ClickvecError
from clickvec.teacher import teacher_folder
from clickvec.teacher.opening import open_teacher

pytest.importorskip("torch")

SMALL = {"cells": 16, "epochs": 1, "device": "cpu", "dev": None}
TEXTS = [*QUERIES, *TITLES, *CATALOGUE]


def log() -> ClickLog:
    return ClickLog(list(QUERIES), list(TITLES), np.ones(len(QUERIES)))


def weights(path: Path) -> bytes:
    return (path / "weights.safetensors").read_bytes()


def test_a_catalogue_without_a_teacher_changes_no_bit(tmp_path: Path) -> None:
    clickvec.train(log(), tmp_path / "a", **SMALL)
    clickvec.train(log(), tmp_path / "b", catalogue=CATALOGUE, **SMALL)
    (tmp_path / "titles.tsv").write_text("title\n" + "".join(f"{title}\n" for title in CATALOGUE))
    clickvec.train(log(), tmp_path / "c", catalogue=tmp_path / "titles.tsv", **SMALL)
    assert weights(tmp_path / "a") == weights(tmp_path / "b") == weights(tmp_path / "c")
    assert not (tmp_path / "a.teacher").exists()


def test_the_log_and_the_catalogue_are_taught(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "v.npy", TEXTS)
    encoder = clickvec.train(log(), tmp_path / "m", catalogue=CATALOGUE, teacher=path, **SMALL)
    about = encoder.model.training["teacher"]
    assert (about["name"], about["titles"]) == ("v.npy", 7)
    assert encoder.model.training["data"]["catalogue"] == 3
    card = (tmp_path / "m" / "README.md").read_text()
    assert "v.npy, for 7 titles." in card
    assert f"It agrees with {100 * about['agreement']:.0f}% of the clicks." in card
    assert len(teacher_folder.load(tmp_path / "m.teacher").teacher.titles) == 7


def test_a_data_folder_keeps_its_teacher_beside_it(tmp_path: Path) -> None:
    data, texts = tiny_data()
    data_folder.save(data, tmp_path / "data", texts)
    clickvec.train(tmp_path / "data", tmp_path / "m", teacher=write_npy(tmp_path / "v.npy", TEXTS), **SMALL)
    kept = tmp_path / "data.teacher"
    clickvec.train(tmp_path / "data", tmp_path / "n", teacher=kept, **SMALL)
    clickvec.train(data, tmp_path / "o", teacher=teacher_folder.load(kept).teacher, **SMALL)
    assert weights(tmp_path / "m") == weights(tmp_path / "n") == weights(tmp_path / "o")


def test_a_teacher_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "v.npy", TEXTS)
    data, _ = tiny_data()
    with pytest.raises(ClickvecError, match="a Dataset has no texts for the teacher; give the path of a data folder"):
        clickvec.train(data, tmp_path / "m", teacher=path, **SMALL)
    other = open_teacher(*tiny_data(["one more"]), path, tmp_path / "other")
    with pytest.raises(ClickvecError, match="the teacher has 4 queries and 8 titles, and the data 4 and 7"):
        clickvec.train(data, tmp_path / "m", teacher=other, **SMALL)
    with pytest.raises(ClickvecError, match=r"there is no .*none\.npy"):
        clickvec.train(log(), tmp_path / "m", teacher=tmp_path / "none.npy", **SMALL)
    assert not (tmp_path / "m").exists()


def test_a_model_is_trained_further_with_and_without_a_teacher(tmp_path: Path) -> None:
    path = write_npy(tmp_path / "v.npy", TEXTS)
    clickvec.train(log(), tmp_path / "plain", **SMALL)
    clickvec.train(log(), tmp_path / "taught", catalogue=CATALOGUE, teacher=path, **SMALL)
    options = {"catalogue": CATALOGUE, "device": "cpu"}
    more = clickvec.continue_training(log(), tmp_path / "plain", tmp_path / "a", teacher=path, **options)
    assert more.model.training["teacher"]["titles"] == 7
    assert more.model.training["recipe"]["teacher_weight"] > 0
    alone = clickvec.continue_training(log(), tmp_path / "taught", tmp_path / "b", **options)
    assert "teacher" not in alone.model.training
    assert alone.model.training["recipe"]["teacher_weight"] == 0
    again = clickvec.continue_training(log(), tmp_path / "taught", tmp_path / "c", teacher=path, **options)
    assert weights(tmp_path / "b") != weights(tmp_path / "c")
    assert again.model.training["teacher"]["name"] == "v.npy"
