"""Whole words beside letter trigrams: how training begins with them, and what a trained model does."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import clickvec
from clickvec.config import TOWERS, recipe
from clickvec.data import ClickLog, data_folder, dataset
from clickvec.model.encoder import Encoder
from clickvec.text.trigrams import Vocabulary, count_units
from clickvec.training.towers import TowerPair

LETTERS = ("#sh", "sho", "hoe", "oe#")


def log_of_shoes() -> ClickLog:
    """Return clicks in which `shoe` and `red` occur often, and `rare` once."""
    colours = ("red", "blue")
    pairs = [(f"{colour} shoe {number}", f"shoe {colour} {number % 7}") for number in range(40) for colour in colours]
    pairs.append(("rare shoe", "shoe red 1"))
    return ClickLog([query for query, _ in pairs], [title for _, title in pairs], np.ones(len(pairs)))


@pytest.mark.parametrize("tower", TOWERS)
@pytest.mark.parametrize("shared", [True, False])
def test_a_word_begins_as_the_sum_of_its_trigrams(tower: str, shared: bool) -> None:
    chosen = recipe("default", tower=tower, cells=8, hidden=8, output=8, shared_tower=shared)
    arrays = TowerPair(chosen, (*LETTERS, "#shoe#"), torch.device("cpu")).to_arrays()
    inputs = [array for name, array in arrays.items() if name.endswith(".input")]
    assert inputs
    for array in inputs:
        assert not array[-1].any()
        assert array[:-1].all()


def test_a_trained_model_has_the_frequent_words(tmp_path: Path) -> None:
    encoder = clickvec.train(log_of_shoes(), tmp_path / "model", dev=None, cells=8, epochs=2)
    assert {"#shoe#", "#red#", "#blue#"} <= set(encoder.model.trigrams)
    assert "#rare#" not in encoder.model.trigrams
    weights = encoder.model.weights["shared.cell_input.input"]
    assert weights[encoder.model.trigrams.index("#shoe#")].any()
    assert json.loads((tmp_path / "model" / "config.json").read_text())["format"] == 3  # earlier versions refuse it
    again = Encoder.load(tmp_path / "model")
    texts = ["red shoe", "rare shoes", "SHOE", "a b c d e f g h red shoe shoe"]
    assert np.array_equal(again.encode_query(texts), encoder.encode_query(texts))
    single = np.stack([again.encode_query(text) for text in texts])
    assert single == pytest.approx(again.encode_query(texts), abs=1e-6)


def test_the_recipe_of_the_paper_has_no_words(tmp_path: Path) -> None:
    encoder = clickvec.train(log_of_shoes(), tmp_path / "model", dev=None, recipe="paper", cells=8, epochs=1)
    assert count_units(encoder.model.trigrams) == {"trigrams": len(encoder.model.trigrams)}


def test_a_model_that_gained_words_can_be_continued_again(tmp_path: Path) -> None:
    log = log_of_shoes()
    clickvec.train(log, tmp_path / "1", dev=None, cells=8, epochs=1, whole_words=False)
    clickvec.continue_training(log, tmp_path / "1", tmp_path / "2", whole_words=True)
    again = clickvec.continue_training(log, tmp_path / "2", tmp_path / "3")
    assert "#shoe#" in again.model.trigrams


def test_a_model_tells_that_its_data_had_no_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data, texts = dataset.prepare_with_texts(log_of_shoes(), 10, 50_000)
    data_folder.save(data, tmp_path / "data", texts)
    with caplog.at_level("INFO", logger="clickvec"):
        encoder = clickvec.train(tmp_path / "data", tmp_path / "model", dev=None, cells=8, epochs=1)
    assert "without whole words" in caplog.text
    assert encoder.model.training["recipe"]["whole_words"] is False


def test_a_whole_word_is_known_even_if_its_trigrams_are_not() -> None:
    vocabulary = Vocabulary([*LETTERS[:2], "#shoe#"])
    assert vocabulary.ids("shoe") == [0, 1, 2]
    assert vocabulary.known_share("shoe") == 1
    assert vocabulary.known_share("shoo") == 0.5
