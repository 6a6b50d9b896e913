"""Training a model further on new clicks: what it keeps, what it adds, and when the old model stays."""

import dataclasses
import inspect
import json
import logging
from pathlib import Path

import numpy as np
import pytest
from command import ok, refused, run

import clickvec
from clickvec.config import recipe, stored_recipe
from clickvec.data import ClickLog, data_folder, dataset
from clickvec.data.held_out import hold_out, near_duplicate_key
from clickvec.errors import ClickvecError, Interrupted
from clickvec.model.folder import Model, open_model
from clickvec.text.tokens import canonical
from clickvec.text.trigrams import Vocabulary, is_whole_word

torch = pytest.importorskip("torch")

from interrupt import watch_updates  # noqa: E402
from test_learning import log_of  # noqa: E402

from clickvec.training import gate  # noqa: E402
from clickvec.training.continuing import add_trigrams, continued_recipe, split_new  # noqa: E402
from clickvec.training.gate import Start, decide  # noqa: E402

SMALL = {"cells": 16, "epochs": 1, "batch_size": 64}
WORDS = [f"{first}{second}{third}" for first in "bdfgklmnprst" for second in "aeiou" for third in ("nd", "rk", "st")]


def made_up(first: int, queries: int, extra: str = "") -> ClickLog:
    """Return a log whose queries begin at a number, so that logs can overlap. Each has two clicked titles."""
    pairs = []
    for number in range(first, first + queries):
        one, other = WORDS[number % len(WORDS)], WORDS[number * 7 % 61]
        query = f"{one} {other} {number // len(WORDS)}"
        pairs += [(query, f"{one} {other} {extra}".strip()), (query, f"{other} {one} number {number % 9}")]
    return log_of(pairs)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("old") / "model"
    clickvec.train(made_up(0, 600), path, learning_rate=0.004, **SMALL)
    return path


def test_old_rows_stay_and_new_trigrams_get_rows(old: Path, tmp_path: Path) -> None:
    before = open_model(old)
    found = clickvec.continue_training(made_up(600, 600, "qqxyz"), old, tmp_path / "model", learning_rate=0.0)
    after = found.model
    known = len(before.trigrams)
    assert after.trigrams[:known] == before.trigrams
    assert {"#qq", "qqx", "qxy", "xyz", "yz#"} <= set(after.trigrams[known:])
    for name, weight in before.weights.items():  # a learning rate of 0 changes nothing
        np.testing.assert_array_equal(after.weights[name][: len(weight)], weight)
    np.testing.assert_array_equal(
        found.encode_query(["band bork"]), clickvec.Encoder.load(old).encode_query(["band bork"])
    )
    assert open_model(tmp_path / "model", verify=True).fingerprint == found.fingerprint


def test_the_recipe_is_that_of_the_model_with_fewer_epochs_and_a_lower_rate(old: Path, tmp_path: Path) -> None:
    chosen = continued_recipe(open_model(old), epochs=7)
    assert chosen == recipe("default", **SMALL | {"epochs": 7, "learning_rate": 0.0004})
    first = clickvec.continue_training(made_up(600, 600), old, tmp_path / "first")
    assert first.model.training["recipe"]["learning_rate"] == 0.0004
    again = continued_recipe(first.model)
    assert again.learning_rate == 0.0004  # a tenth of that of the first training, and not of the last one
    for settings in ({"cells": 32}, {"tower": "bilstm"}, {"max_words": 5}, {"shared_tower": False}):
        (name,) = settings
        with pytest.raises(ClickvecError, match=f"{name}=.* the model was trained with {name}="):
            clickvec.continue_training(made_up(600, 600), old, tmp_path / "other", **settings)


def test_a_model_that_cannot_be_continued_is_refused(old: Path, tmp_path: Path) -> None:
    ok("shrink", old, "--out", tmp_path / "small", "--weights", "int8")
    with pytest.raises(ClickvecError, match="shrunk to int8"):
        clickvec.continue_training(made_up(600, 600), tmp_path / "small", tmp_path / "model")
    with pytest.raises(ClickvecError, match="does not tell its recipe"):
        continued_recipe(open_model(old)._replace(training={}))
    with pytest.raises(ClickvecError, match="already holds a model"):
        clickvec.continue_training(made_up(600, 600), old, old)


def test_an_older_recipe_is_understood() -> None:
    stored = dataclasses.asdict(recipe("default", learning_rate=0.5)) | {"bptt_steps": 0, "warm_up": 0.0}
    stored["step"] = stored.pop("learning_rate")
    assert stored_recipe(stored) == recipe("default", learning_rate=0.5)


def test_trigrams_are_renumbered_by_hand() -> None:
    data = dataset.prepare(log_of([("ab", "ab cd"), ("cd", "xy")]), 10, 100)
    model = open_like(("#cd", "zzz", "ab#", "#ab"))
    found = add_trigrams(data, None, model, recipe(max_trigrams=100))
    assert found.trigrams[:4] == model.trigrams
    assert sorted(found.trigrams) == sorted({*model.trigrams, *data.trigrams})
    for token in range(len(data.tokens.lengths)):
        words = [
            [one.trigrams[number] for number in one.tokens.take(np.array([token])).values] for one in (data, found)
        ]
        assert words[0] == words[1]
    few = add_trigrams(data, None, model, recipe(max_trigrams=5))
    assert len(few.trigrams) == 5
    dataset.check(few)


def test_rare_words_of_the_model_are_read_in_new_clicks() -> None:
    log = log_of([("ab", "ab cd xy zz"), ("cd", "xy ab")])
    data, texts = dataset.prepare_with_texts(log, 3, 100, whole_words=True)
    assert not any(map(is_whole_word, data.trigrams))  # each word occurs a few times
    model = open_like(("#ab", "#ab#", "#zz#"))
    found = add_trigrams(data, texts, model, recipe())
    assert found.trigrams[:3] == model.trigrams
    vocabulary = Vocabulary(found.trigrams)
    tokens = dataset.token_texts(data, texts)
    assert sorted(tokens) == ["ab", "cd", "xy", "xy zz"]
    for number, token in enumerate(tokens):
        assert found.tokens.take(np.array([number])).values.tolist() == vocabulary.ids(token)
    dataset.check(found)


def test_whole_words_cannot_be_taken_from_a_model() -> None:
    weights = {"shared.cell_input.input": np.zeros((2, 96), np.float32)}
    model = open_like(("#ab", "#ab#"))._replace(
        weights=weights, training={"recipe": dataclasses.asdict(recipe())}
    )  # fmt: skip
    assert continued_recipe(model).whole_words
    with pytest.raises(ClickvecError, match="whole_words=false, but the model has whole words"):
        continued_recipe(model, whole_words=False)


def test_a_model_without_whole_words_gets_none() -> None:
    log = log_of([("ab", f"ab {letter}") for letter in "cdefghijkl"])
    data = dataset.prepare(log, 10, 100, whole_words=True)
    assert "#ab#" in data.trigrams
    model = open_like(("#cd", "#ab"))
    assert "#ab#" in add_trigrams(data, None, model, recipe()).trigrams
    without = add_trigrams(data, None, model, recipe(whole_words=False))
    assert set(without.trigrams) == {*data.trigrams, "#cd"} - {"#ab#"}
    dataset.check(without)


def open_like(trigrams: tuple[str, ...]) -> Model:
    return Model(recipe().tower_shape(), True, 10, trigrams, {}, {})


def test_what_was_held_out_of_old_clicks_is_not_learned_from_new_ones() -> None:
    first, second = made_up(0, 700), made_up(300, 900)
    held = hold_out(first)
    assert held is not None
    parts = split_new(second, first)
    kept_apart = {near_duplicate_key(query) for query in (*held.dev.queries, *held.test.queries)}
    trained = {near_duplicate_key(query) for query in parts.train.queries}
    measured = {near_duplicate_key(query.query) for test in parts.tests.values() for query in test.queries}
    assert parts.dev is not None
    chosen = {near_duplicate_key(query.query) for query in parts.dev.queries}
    assert not trained & (kept_apart | measured | chosen)
    assert not measured & chosen
    assert set(parts.tests) == {"held-out clicks of old days", "held-out clicks of new days"}
    assert {canonical(query.query) for query in parts.tests["held-out clicks of old days"].queries} == {
        canonical(query) for query in held.test.queries
    }
    titles = {canonical(title) for title in (*first.titles, *second.titles)}
    assert {canonical(title) for title in parts.dev.titles} == titles
    with pytest.raises(ClickvecError, match="nothing to learn"):
        split_new(held.test, first)


def test_a_small_log_is_learned_unmeasured(old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = clickvec.continue_training(made_up(600, 50), old, tmp_path / "model")
    assert "unmeasured" in caplog.text
    assert found.model.training["continued"]["compared"] == []
    with_old = clickvec.continue_training(made_up(600, 50), old, tmp_path / "other", old_clicks=made_up(0, 600))
    (row,) = with_old.model.training["continued"]["compared"]
    assert row["on"] == "held-out clicks of old days"


def test_a_worse_model_is_not_kept(old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A large learning rate on a few titles makes the model forget."""
    new = log_of([("band", "nothing to see")] * 3 + [(f"x{number} band", "kark kork") for number in range(40)])
    found = clickvec.continue_training(
        new, old, tmp_path / "model", old_clicks=made_up(0, 600), learning_rate=0.5, epochs=5
    )
    before = open_model(old)
    after = open_model(tmp_path / "model", verify=True)
    assert found.fingerprint == after.fingerprint == before.fingerprint
    assert (after.card, after.training) == (before.card, before.training)
    (sentence,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    for part in ("significantly worse", "held-out clicks of old days", str(tmp_path / "model"), "the old model"):
        assert part in sentence
    assert not (tmp_path / "model.run").exists()


@pytest.mark.parametrize(
    ("before", "now", "keeps_new"),
    [
        ([50.0] * 40, [40.0] * 40, False),  # worse on every query
        ([50.0] * 40, [60.0] * 40, True),
        ([50.0] * 40, [49.0] + [50.0] * 39, True),  # a little worse, which may be chance
    ],
)
def test_the_decision_by_hand(
    before: list[float], now: list[float], keeps_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Result:
        def per_query(self, system: str, measure: str) -> np.ndarray:
            return np.array({"before": before, "now": now}[system])

    monkeypatch.setattr(gate, "Neural", lambda *_: None)
    monkeypatch.setattr(gate, "Encoder", lambda *_: None)
    monkeypatch.setattr(gate, "measure", lambda *_, **__: Result())
    first = open_like(("#ab",))._replace(fingerprint="first", training={"recipe": {"epochs": 5}})
    second = open_like(("#ab",))._replace(training={"recipe": {"epochs": 2}})
    chosen = decide(Start(first, {"dev": ()}), second, Path("out"), lambda *_: None)
    assert chosen is (second if keeps_new else first)
    if keeps_new:
        continued = second.training["continued"]
        assert (continued["from"], continued["first_recipe"]) == ("first", {"epochs": 5})


def test_a_stopped_run_resumes_to_the_same_weights(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"batch_size": 128, "epochs": 2}
    whole = clickvec.continue_training(made_up(600, 600), old, tmp_path / "whole", **settings)
    watch_updates(monkeypatch, stop_at=4)
    with pytest.raises(Interrupted):
        clickvec.continue_training(made_up(600, 600), old, tmp_path / "cut", **settings)
    monkeypatch.undo()
    with pytest.raises(ClickvecError, match="other data"):  # the run did not start from nothing
        clickvec.train(
            made_up(600, 600), tmp_path / "cut", if_exists="resume", **SMALL | settings, learning_rate=0.0004
        )
    resumed = clickvec.continue_training(made_up(600, 600), old, tmp_path / "cut", if_exists="resume", **settings)
    assert resumed.fingerprint == whole.fingerprint


def test_a_data_folder_of_new_clicks(old: Path, tmp_path: Path) -> None:
    data, texts = dataset.prepare_with_texts(made_up(600, 600), 10, 50_000)
    data_folder.save(data, tmp_path / "data", texts)
    found = clickvec.continue_training(tmp_path / "data", old, tmp_path / "model")
    assert found.model.training["data"]["from"].endswith("then data")
    with pytest.raises(ClickvecError, match="leave old_clicks out"):
        clickvec.continue_training(tmp_path / "data", old, tmp_path / "other", old_clicks=made_up(0, 600))


def test_the_program_reads_words_of_the_model_in_a_data_folder(old: Path, tmp_path: Path) -> None:
    assert any(map(is_whole_word, open_model(old).trigrams))
    log = write_log(tmp_path / "new.tsv", made_up(600, 600))
    ok("prepare", log, "--trigrams-only", "--hold-out", "--out", tmp_path / "data")
    ok("train", tmp_path / "data", "--from", old, "--out", tmp_path / "model")
    assert any(map(is_whole_word, open_model(tmp_path / "model").trigrams))
    told = refused("train", tmp_path / "data", "--from", old, "--set", "whole_words=false", "--out", tmp_path / "other")
    assert "whole_words" in told


def test_few_parameters_are_named() -> None:
    kinds = [parameter.kind for parameter in inspect.signature(clickvec.continue_training).parameters.values()]
    assert sum(kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY) for kind in kinds) <= 8


def write_log(path: Path, log: ClickLog) -> Path:
    path.write_text("query\ttitle\n" + "".join(f"{q}\t{t}\n" for q, t in zip(log.queries, log.titles, strict=True)))
    return path


def test_the_command_line(old: Path, tmp_path: Path) -> None:
    new = write_log(tmp_path / "new.tsv", made_up(600, 600))
    before = write_log(tmp_path / "old.tsv", made_up(0, 600))
    out = ok(
        "train", new, "--from", old, "--old-clicks", before, "--out", tmp_path / "model", "--json",
        "--set", "learning_rate=0.0001",
    )  # fmt: skip
    facts = json.loads(out)
    model = open_model(tmp_path / "model", verify=True)
    assert facts["fingerprint"] == model.fingerprint
    assert [row["on"] for row in facts["continued"]["compared"]] == [
        "held-out clicks of old days", "held-out clicks of new days",
    ]  # fmt: skip
    assert "## Continued" in model.card
    assert open_model(old).fingerprint in model.card
    done = run(
        "train", new, "--from", old, "--old-clicks", before, "--out", tmp_path / "worse", "--set", "learning_rate=3",
        "--set", "epochs=4",
    )  # fmt: skip
    assert done.status == 0
    assert "holds the old model" in done.err
    assert "the old model" in done.out
    assert open_model(tmp_path / "worse").fingerprint == open_model(old).fingerprint


def test_wrong_use_of_the_command_line(old: Path, tmp_path: Path) -> None:
    new = write_log(tmp_path / "new.tsv", made_up(600, 20))
    assert run("train", new, "--old-clicks", new, "--out", tmp_path / "m").status == 2
    for option in (("--dev", new), ("--no-hold-out",)):
        command = ("train", new, "--from", old, "--old-clicks", new, "--out", tmp_path / "m", *option)
        assert run(*command).status == 2
    assert run("train", new, "--from", old, "--recipe", "paper", "--out", tmp_path / "m").status == 2
    assert "overlaps" in refused("train", new, "--from", old, "--out", old, "--overwrite")
    assert "cells" in refused("train", new, "--from", old, "--out", tmp_path / "m", "--set", "cells=32")
    assert str(tmp_path / "absent") in refused("train", new, "--from", tmp_path / "absent", "--out", tmp_path / "m")
    assert not (tmp_path / "m").exists()
