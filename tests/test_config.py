"""Where a setting comes from, and what a wrong one says."""

import contextlib
import copy
import dataclasses
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from command import refused

from clickvec.config import DEFAULT, PAPER_BY_TOWER, RECURRENT, TOWERS, Recipe, RecipeSettings, Tower, recipe
from clickvec.errors import ClickvecError


def test_the_paper_recipe_is_the_paper_to_the_letter() -> None:
    for tower in TOWERS:
        paper = recipe("paper", tower=tower)
        assert paper.tower == tower
        assert (paper.shared_tower, paper.forget_gate, paper.peepholes) == (False, False, False)
        assert (paper.optimizer, paper.schedule, paper.negatives, paper.batch_negatives) == (
            "nesterov",
            "fixed",
            4,
            False,
        )
        assert (paper.momentum, paper.momentum_ends, paper.ends_share) == (0.995, 0.9, 0.02)
        assert (paper.patience, paper.keep, paper.max_words, paper.max_trigrams) == (0, "last", 10, 50_000)
        assert (paper.cells, paper.hidden, paper.output) == (96, 288, 96)
        assert set(PAPER_BY_TOWER[tower]) == {"learning_rate", "gamma", "clip_norm", "epochs", "initial_scale"}


def test_settings_go_over_the_file_and_the_file_over_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('gamma = 3\ncells = 7\ntower = "bilstm"\nforget_gate = true\n')
    found = recipe("default", file=file, settings=["cells=9", "learning_rate = 1e-4", "keep=last"])
    assert (found.gamma, found.cells, found.tower, found.forget_gate) == (3.0, 9, "bilstm", True)
    assert (found.learning_rate, found.keep, found.shared_tower) == (1e-4, "last", DEFAULT["shared_tower"])
    assert isinstance(found.gamma, float)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("cels=3", "no setting 'cels'; the nearest is 'cells'"),
        ("learning_rat=3", "the nearest is 'learning_rate'"),
        ("cells=many", "cells takes a whole number, not 'many'"),
        ("cells=1.5", "cells takes a whole number"),
        ("cells=0", "cells is at least 1"),
        ("learning_rate=-1", "learning_rate is at least 0"),
        ("learning_rate=nan", "learning_rate takes a finite number"),
        ("gamma=inf", "gamma takes a finite number"),
        ("tower=cnn", f"tower is one of {', '.join(TOWERS)}, not 'cnn'"),
        ("shared_tower=maybe", "shared_tower takes true or false"),
        ("window=2", "window is odd"),
        ("cells", "--set takes key=value"),
        ("momentum=1.5", "momentum is at most"),
        ("negatives=9", "negatives=9 has no effect while batch_negatives"),
        ("pooling=sum", "pooling is one of last, mean, max"),
        ("schedule=steps", "schedule is one of fixed, linear"),
        ("warm_up=0.1", "warm_up was removed"),
        ("weight_average=0.9", "weight_average was removed"),
        ("average=0.9", "weight_average was removed"),
        ("word_dropout=1", "word_dropout is at most 0.9999"),
        ("word_dropout=-0.1", "word_dropout is at least 0"),
        ("hard_negatives=21", "hard_negatives is at most 20"),
        ("hard_negatives=-1", "hard_negatives is at least 0"),
        ("max_words=100000000000000000000000", "max_words is at most"),
        ("max_trigrams=100000000000000000000000", "max_trigrams is at most"),
        ("cells=100000000000000000000000", "cells is at most"),
        ("hidden=1e23", "hidden takes a whole number"),
        ("output=70000", "output is at most"),
        ("window=70001", "window is at most"),
        ("batch_size=2147483648", "batch_size is at most"),
        ("epochs=2147483648", "epochs is at most"),
        ("seed=9223372036854775808", "seed is at most"),
        (f"cells={'9' * 5000}", "cells takes a whole number"),
        ("clip_norm=1e999", "clip_norm takes a finite number"),
    ],
)
def test_a_wrong_setting_says_what_is_right(setting: str, says: str) -> None:
    with pytest.raises(ClickvecError, match=says):
        recipe("default", settings=[setting])


@pytest.mark.parametrize("tower", TOWERS)
def test_pooling_is_for_towers_with_an_output_at_each_token(tower: str) -> None:
    if tower in RECURRENT:
        assert recipe("default", tower=tower, pooling="mean").tower_shape().pooling == "mean"
    else:
        with pytest.raises(ClickvecError, match=f"pooling=max has no effect for {tower}"):
            recipe("default", tower=tower, pooling="max")


@pytest.mark.parametrize("setting", ["forget_gate", "peepholes"])
@pytest.mark.parametrize("tower", TOWERS)
def test_a_forget_gate_and_peepholes_are_for_towers_with_gates(tower: str, setting: str) -> None:
    if tower in ("lstm", "bilstm"):
        assert getattr(recipe("default", settings=[f"tower={tower}", f"{setting}=true"]), setting)
    else:
        with pytest.raises(ClickvecError, match=f"{setting}=true has no effect for {tower}"):
            recipe("default", settings=[f"tower={tower}", f"{setting}=true"])


def test_what_the_paper_does_not_have_is_off() -> None:
    for tower in TOWERS:
        chosen = recipe("paper", tower=tower)
        assert (chosen.pooling, chosen.hard_negatives, chosen.word_dropout) == ("last", 0, 0)


def test_a_wrong_recipe_or_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="no recipe 'papr'"):
        recipe("papr")
    with pytest.raises(ClickvecError, match="cannot read the recipe file"):
        recipe(file=tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("cells = = 3")
    with pytest.raises(ClickvecError, match="is not TOML"):
        recipe(file=tmp_path / "bad.toml")
    (tmp_path / "endless.toml").write_text("epochs = inf")
    with pytest.raises(ClickvecError, match="epochs takes a whole number"):
        recipe(file=str(tmp_path / "endless.toml"))
    (tmp_path / "nested.toml").write_text("[cells]\nx = 1")
    with pytest.raises(ClickvecError, match="cells takes a whole number"):
        recipe(file=tmp_path / "nested.toml")


def nested(depth: int) -> bytes:
    return b"cells = " + b"[" * depth + b"]" * depth


@pytest.mark.parametrize(
    ("content", "tells"),
    [
        (nested(8_000), "nested"),
        (b"cells = [\n" + b"[\n" * 8_000, "nested"),
        (nested(300), "cells"),
        (b"#\n" * 1_000_000, "larger than 16,384 bytes"),
        (b"a." * 500_000 + b"a = 1", "larger than"),
        (b"cells = '\xff\xfe'", "not TOML"),
        (b"cells = " + b"9" * 900, "cells is at most"),
        (b"cells = 0x" + b"f" * 900, "cells is at most"),
        (b"gamma = 0x" + b"f" * 900, "gamma takes a finite number"),
        (b"forget_gate = 0x" + b"f" * 900, "forget_gate takes true or false"),
        (b"tower = 5", "tower takes a word, not 5"),
        (b"tower = ['lstm']", "tower takes a word"),
        (b"forget_gate = 1", "forget_gate takes true or false, not 1"),
        (b"cells = 'many'", "cells takes a whole number, not 'many'"),
        (b"cells = 1979-05-27", "cells takes a whole number"),
        (b"learning_rate = [1.0]", "learning_rate takes a finite number"),
        (b"max_words = 1" + b"0" * 23, "max_words is at most"),
        (b"a." * 400 + b"a = 1", "no setting 'a'"),
        (b"'" + b"x" * 900 + b"' = 1", "the fields of clickvec.Recipe"),
    ],
)
def test_any_file_that_is_no_recipe_is_an_error_of_one_short_sentence(
    content: bytes, tells: str, tmp_path: Path
) -> None:
    (tmp_path / "recipe.toml").write_bytes(content)
    with pytest.raises(ClickvecError) as error:
        recipe(file=tmp_path / "recipe.toml")
    assert tells in str(error.value)
    assert len(str(error.value)) < 300 + len(str(tmp_path))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no /dev/zero")
def test_a_folder_or_a_device_is_no_recipe(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(ClickvecError, match=str(path)):
            recipe(file=path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    for content, cells in ((b"cells = 7\n", 7), (b"#\n" * 100_000, None)):
        pipe = tmp_path / str(cells)
        os.mkfifo(pipe)

        def write(pipe: Path = pipe, content: bytes = content) -> None:
            with contextlib.suppress(BrokenPipeError):
                pipe.write_bytes(content)

        writer = threading.Thread(target=write)
        writer.start()
        if cells:
            assert recipe(file=pipe).cells == cells
        else:
            with pytest.raises(ClickvecError, match="larger than"):
                recipe(file=pipe)
        writer.join(60)


@pytest.mark.parametrize(
    ("fields", "tells"),
    [
        ({"kind": "cnn"}, "tower"),
        ({"cells": 0}, "cells"),
        ({"cells": True}, "cells"),
        ({"hidden": 10**23}, "hidden"),
        ({"output": "96"}, "output"),
        ({"window": 4}, "window"),
        ({"pooling": []}, "pooling"),
        ({"forget_gate": 1}, "forget_gate"),
    ],
)
def test_a_tower_is_checked_field_by_field(fields: dict[str, Any], tells: str) -> None:
    with pytest.raises(ClickvecError, match=tells):
        Tower(**fields)


def test_a_recipe_is_checked_however_it_is_made() -> None:
    with pytest.raises(ClickvecError, match="cells is at least 1, not 0"):
        Recipe(cells=0)
    with pytest.raises(ClickvecError, match="gamma takes a finite number"):
        dataclasses.replace(Recipe(), gamma=float("nan"))
    with pytest.raises(ClickvecError, match="no setting 'gama'; the nearest is 'gamma'"):
        dataclasses.replace(Recipe(), gama=3.0)
    with pytest.raises(ClickvecError, match="step is called learning_rate now"):
        Recipe(**{"step": 3.0})
    with pytest.raises(ClickvecError, match="window"):
        dataclasses.replace(Tower(), window=2)
    whole = Recipe(gamma=3)
    assert isinstance(whole.gamma, float)
    assert pickle.loads(pickle.dumps(whole)) == copy.deepcopy(whole) == whole


def test_a_recipe_from_an_old_model_card_may_hold_removed_settings_that_were_off(tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text("warm_up = 0.0\naverage = 0.0\ngamma = 3.0\n")
    assert recipe(file=tmp_path / "card.toml").gamma == 3.0


def test_settings_are_accepted_under_their_earlier_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "old.toml").write_text("clip = 0.5\n")
    chosen = recipe("paper", file=tmp_path / "old.toml", settings=["step=0.25"])
    assert (chosen.learning_rate, chosen.clip_norm) == (0.25, 0.5)
    for old, new in (("step", "learning_rate"), ("clip", "clip_norm")):
        assert f"{old} is called {new} now" in caplog.text


def test_the_keywords_of_train_are_the_fields_of_a_recipe() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(Recipe)}
    assert RecipeSettings.__annotations__ == fields
    assert list(RecipeSettings.__annotations__) == list(fields)


def test_the_bounds_admit_whoever_means_no_bound() -> None:
    chosen = recipe("default", max_words=10**9, max_trigrams=10**9, batch_size=10**9)
    assert chosen.max_words == chosen.batch_size == 10**9


def test_every_field_can_be_set() -> None:
    defaults = Recipe()
    for name, value in vars(defaults).items():
        assert getattr(recipe("default", settings=[f"{name}={str(value).lower()}"]), name) == value


@pytest.mark.parametrize("option", ["--max-words", "--max-trigrams"])
def test_prepare_has_the_same_bounds(option: str, tmp_path: Path) -> None:
    said = refused("prepare", tmp_path / "absent.tsv", "--out", tmp_path / "data", option, f"1{'0' * 23}")
    assert option.strip("-").replace("-", "_") in said
    assert "is at most" in said
