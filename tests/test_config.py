"""Where a setting comes from, and what a wrong one says."""

from pathlib import Path

import pytest

from clickvec.config import DEFAULT, PAPER_BY_TOWER, RECURRENT, TOWERS, Recipe, recipe
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
        assert set(PAPER_BY_TOWER[tower]) == {"step", "gamma", "clip", "epochs", "initial_scale"}


def test_settings_go_over_the_file_and_the_file_over_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text('gamma = 3\ncells = 7\ntower = "rnn"\nforget_gate = true\n')
    found = recipe("default", file=file, settings=["cells=9", "step = 1e-4", "keep=last"])
    assert (found.gamma, found.cells, found.tower, found.forget_gate) == (3.0, 9, "rnn", True)
    assert (found.step, found.keep, found.shared_tower) == (1e-4, "last", DEFAULT["shared_tower"])
    assert isinstance(found.gamma, float)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("cels=3", "no setting 'cels'; the nearest is 'cells'"),
        ("learning_rate=3", "the nearest is"),
        ("cells=many", "cells takes a whole number, not 'many'"),
        ("cells=1.5", "cells takes a whole number"),
        ("cells=0", "cells is at least 1"),
        ("step=-1", "step is at least 0"),
        ("step=nan", "step is at least 0"),
        ("gamma=inf", "gamma is at least 0"),
        ("tower=gru", "tower is one of rnn, lstm, bilstm, dssm, clsm"),
        ("shared_tower=maybe", "shared_tower takes true or false"),
        ("window=2", "window is odd"),
        ("cells", "--set takes key=value"),
        ("momentum=1.5", "momentum is at most"),
        ("negatives=9", "does nothing while batch_negatives is on"),
        ("pooling=sum", "pooling is one of last, mean, max"),
        ("schedule=steps", "schedule is one of fixed, linear, cosine"),
        ("warm_up=1", "warm_up is at most 0.9999"),
        ("warm_up=-0.1", "warm_up is at least 0"),
        ("word_dropout=1", "word_dropout is at most 0.9999"),
        ("word_dropout=-0.1", "word_dropout is at least 0"),
        ("average=1", "average is at most 0.99999"),
        ("average=nan", "average is at least 0"),
        ("hard_negatives=21", "hard_negatives is at most 20"),
        ("hard_negatives=-1", "hard_negatives is at least 0"),
    ],
)
def test_a_wrong_setting_says_what_is_right(setting: str, says: str) -> None:
    with pytest.raises(ClickvecError, match=says):
        recipe("default", settings=[setting])


@pytest.mark.parametrize("tower", TOWERS)
def test_pooling_is_for_towers_with_an_output_at_each_word(tower: str) -> None:
    if tower in RECURRENT:
        assert recipe("default", tower=tower, pooling="mean").tower_shape().pooling == "mean"
    else:
        with pytest.raises(ClickvecError, match=f"pooling=max does nothing for {tower}"):
            recipe("default", tower=tower, pooling="max")


def test_what_the_paper_has_not_is_off() -> None:
    for tower in TOWERS:
        chosen = recipe("paper", tower=tower)
        assert (chosen.pooling, chosen.hard_negatives, chosen.word_dropout) == ("last", 0, 0)
        assert (chosen.warm_up, chosen.average) == (0, 0)


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


def test_every_field_can_be_set() -> None:
    defaults = Recipe()
    for name, value in vars(defaults).items():
        assert getattr(recipe("default", settings=[f"{name}={str(value).lower()}"]), name) == value
