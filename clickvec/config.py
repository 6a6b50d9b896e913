"""Every setting there is: the shape of a tower, the recipe of a training run, and the two named recipes.

A value comes from one of three places, the later over the earlier: the named recipe, one TOML file, `--set key=value`.
"""

import dataclasses
import difflib
import math
import os
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickvec.errors import ClickvecError

TOWERS = ("rnn", "lstm", "bilstm", "dssm", "clsm")
RECURRENT = ("rnn", "lstm", "bilstm")  # the towers that give an output y(t) at each word
POOLINGS = ("last", "mean", "max")
MAX_COUNT = 2**31 - 1  # of words, trigrams, titles, updates: array indices and their sums stay within 64 bits
MAX_SIZE = 65_536  # units of a layer: a square float32 matrix of this size takes 17 GB
MAX_SEED = 2**63 - 1
HARD_POOL = 20  # titles mined for each query, from which `hard_negatives` are drawn


@dataclass(frozen=True)
class Tower:
    """What decides the parameters of one tower, and so what a model folder must hold to run it."""

    kind: str = "lstm"
    cells: int = 96  # LSTM cells; in each direction for bilstm
    hidden: int = 288  # units of the RNN, of the first layer of DSSM, of the convolution of CLSM
    output: int = 96  # units of the last layer of DSSM and CLSM
    window: int = 3  # words under the convolution of CLSM
    forget_gate: bool = False
    peepholes: bool = False
    pooling: str = "last"  # of the outputs y(t), for rnn, lstm and, each direction by itself, bilstm

    @property
    def dimensions(self) -> int:
        """The length of the vector that the tower gives."""
        return {"rnn": self.hidden, "lstm": self.cells, "bilstm": 2 * self.cells}.get(self.kind, self.output)


@dataclass(frozen=True)
class Recipe:
    """One training run, all of it. The defaults of the fields are the paper's own choices."""

    # text
    max_words: int = 10
    max_trigrams: int = 50_000
    # towers
    tower: str = "lstm"
    cells: int = 96
    hidden: int = 288
    output: int = 96
    window: int = 3
    forget_gate: bool = False
    peepholes: bool = False
    pooling: str = "last"  # what embeds a text: y at the last word, or the mean or max over the y of all words
    shared_tower: bool = False
    initial_scale: float = 0.1  # weights are drawn from U(-scale, scale)
    # objective
    gamma: float = 10.0
    negatives: int = 4  # titles drawn at random for each pair
    batch_negatives: bool = False  # the other titles of the minibatch, in place of drawn ones
    shown_negatives: int = 4  # titles that were shown and not clicked, where --shown gives them
    hard_negatives: int = 0  # titles the model itself mistakes for clicked ones, mined before each epoch but the first
    click_weight: str = "none"  # none, log or count: how clicks weigh a pair
    word_dropout: float = 0.0  # the chance that a word of a query or a title is left out of a minibatch
    # optimisation
    optimizer: str = "nesterov"
    step: float = 0.01
    schedule: str = "fixed"  # fixed, or linear or cosine: the step falls to 0, by a line or by half a cosine
    warm_up: float = 0.0  # the share of all updates over which the step rises, by a line, before it falls
    momentum: float = 0.995
    momentum_ends: float = 0.9  # in the first and the last `ends_share` of all updates
    ends_share: float = 0.02
    average: float = 0.0  # decay of a moving average of the weights, which is then measured and kept; 0 is off
    clip: float = 1.0  # the threshold th_G of Algorithm 1, for each tower; 0 is off
    batch_size: int = 256
    epochs: int = 10
    patience: int = 0  # stop after this many epochs without a better dev NDCG@10; 0 runs them all
    keep: str = "last"  # which model is kept: the last, or the best on dev by NDCG@10
    precision: str = "float32"  # of the recurrent products on a GPU: float32 or bfloat16
    bptt_steps: int = 0  # how many steps from the end the gradient reaches; 0 is all of them
    seed: int = 1

    def tower_shape(self) -> Tower:
        """The part of the recipe that the model folder needs."""
        return Tower(
            self.tower, self.cells, self.hidden, self.output, self.window, self.forget_gate, self.peepholes,
            self.pooling,
        )  # fmt: skip


# Chosen on the dev set of msrd, each tower from the same trials; docs/log.md has the search and its commands.
PAPER_BY_TOWER: dict[str, dict[str, Any]] = {
    "lstm": {"step": 0.01, "gamma": 5.0, "clip": 0.3, "epochs": 10, "initial_scale": 0.05},
    "bilstm": {"step": 0.01, "gamma": 5.0, "clip": 0.3, "epochs": 10, "initial_scale": 0.05},
    "rnn": {"step": 0.003, "gamma": 7.0, "clip": 1.0, "epochs": 10, "initial_scale": 0.01},
    "dssm": {"step": 0.005, "gamma": 5.0, "clip": 0.3, "epochs": 5, "initial_scale": 0.05},
    "clsm": {"step": 0.01, "gamma": 5.0, "clip": 0.3, "epochs": 10, "initial_scale": 0.05},
}
# The best that we have measured, one for the dev sets of msrd and dbpedia.
DEFAULT: dict[str, Any] = {
    "shared_tower": True,
    "initial_scale": 0.02,
    "gamma": 12.0,
    "batch_negatives": True,
    "hard_negatives": 2,
    "word_dropout": 0.05,
    "optimizer": "adam",
    "step": 0.002,
    "schedule": "linear",
    "clip": 0.0,
    "batch_size": 1024,
    "epochs": 5,
    "keep": "best",
}
RECIPES = ("default", "paper")

_CHOICES = {
    "tower": TOWERS,
    "pooling": POOLINGS,
    "optimizer": ("nesterov", "adam"),
    "schedule": ("fixed", "linear", "cosine"),
    "click_weight": ("none", "log", "count"),
    "keep": ("last", "best"),
    "precision": ("float32", "bfloat16"),
}
_AT_LEAST: dict[str, float] = {
    "max_words": 1, "max_trigrams": 1, "cells": 1, "hidden": 1, "output": 1, "window": 1, "initial_scale": 0,
    "gamma": 0, "negatives": 1, "shown_negatives": 0, "step": 0, "momentum": 0, "momentum_ends": 0, "ends_share": 0,
    "clip": 0, "batch_size": 1, "epochs": 1, "patience": 0, "bptt_steps": 0, "seed": 0, "hard_negatives": 0,
    "word_dropout": 0, "warm_up": 0, "average": 0,
}  # fmt: skip
_AT_MOST: dict[str, float] = {
    "momentum": 0.9999, "momentum_ends": 0.9999, "ends_share": 0.5, "initial_scale": 10,
    "hard_negatives": HARD_POOL, "word_dropout": 0.9999, "warm_up": 0.9999, "average": 0.99999,
    "cells": MAX_SIZE, "hidden": MAX_SIZE, "output": MAX_SIZE, "window": MAX_SIZE, "seed": MAX_SEED,
    **dict.fromkeys(
        ("max_words", "max_trigrams", "negatives", "shown_negatives", "batch_size", "epochs", "patience", "bptt_steps"),
        MAX_COUNT,
    ),
}  # fmt: skip
# A recipe file holds a few dozen short lines. Larger ones are refused before they are parsed.
MAX_FILE_BYTES = 65_536
MAX_LINE = 1_000  # characters; parsing time grows with the square of the length of a dotted key


def recipe(
    name: str = "default",
    *,
    tower: str | None = None,
    file: str | Path | None = None,
    settings: Sequence[str] = (),
    **overrides: object,
) -> Recipe:
    """The named recipe for a tower, with a TOML file, `key=value` settings and keyword overrides laid over it."""
    if name not in RECIPES:
        raise ClickvecError(f"there is no recipe {name!r}; the recipes are {', '.join(RECIPES)}")
    given: dict[str, object] = dict(_read_toml(Path(file)) if file else {})
    given |= dict(_read_setting(setting) for setting in settings)
    given |= overrides
    if tower is not None:
        given["tower"] = tower
    checked = {key: _coerce(key, value) for key, value in given.items()}
    base: dict[str, Any] = DEFAULT
    if name == "paper":
        base = PAPER_BY_TOWER.get(checked.get("tower", Recipe.tower), {})
    chosen = Recipe(**(base | checked))
    if chosen.batch_negatives and chosen.negatives != Recipe.negatives:
        raise ClickvecError(f"negatives={chosen.negatives} does nothing while batch_negatives is on; set that to false")
    if chosen.pooling != Recipe.pooling and chosen.tower not in RECURRENT:
        raise ClickvecError(
            f"pooling={chosen.pooling} does nothing for {chosen.tower}, which has no output at each word; leave it out"
        )
    return chosen


def _read_toml(file: Path) -> Mapping[str, object]:
    try:
        text = _read_bounded(file).decode()
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > MAX_LINE:
                raise ClickvecError(f"{file}:{number} is longer than {MAX_LINE:,} characters; give a recipe file")
        return tomllib.loads(text)
    except OSError as error:
        raise ClickvecError(f"cannot read the recipe file {file}: {error.strerror}") from None
    except RecursionError:
        raise ClickvecError(f"{file} is not a recipe: its brackets are nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise ClickvecError(f"{file} is not TOML: {error}") from None


def _read_bounded(path: Path) -> bytes:
    """Read a small file, or a pipe such as /dev/stdin; refuse a device or a folder, which may never end."""
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            raise ClickvecError(f"{path} is no file; give a recipe file in TOML")
        read = file.read(MAX_FILE_BYTES + 1)
    if len(read) > MAX_FILE_BYTES:
        raise ClickvecError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes; give a recipe file in TOML")
    return read


def _read_setting(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not equals:
        raise ClickvecError(f"--set takes key=value, not {setting!r}")
    return key.strip(), value.strip()


_FIELDS = {field.name: field for field in dataclasses.fields(Recipe)}


def check_tower(tower: Tower) -> None:
    """Raise a ClickvecError that names the first field of the wrong type or out of its bounds."""
    for field in dataclasses.fields(Tower):
        value = getattr(tower, field.name)
        if type(value) is not type(field.default):
            raise ClickvecError(f"the setting {field.name} takes {_KIND_NAMES[type(field.default)]}, not {_cut(value)}")
        _check("tower" if field.name == "kind" else field.name, value)


def _coerce(key: str, value: object) -> Any:  # noqa: ANN401
    """The value of a setting in its field's type, or an error that says what the field takes."""
    if key not in _FIELDS:
        near = difflib.get_close_matches(key[:100], _FIELDS, n=1, cutoff=0.0)
        raise ClickvecError(f"there is no setting {_cut(key)}; the nearest is {near[0]!r}")
    kind = type(_FIELDS[key].default)
    parsed = _parse(kind, value)
    if parsed is None:
        raise ClickvecError(f"the setting {key} takes {_KIND_NAMES[kind]}, not {_cut(value)}")
    _check(key, parsed)
    return parsed


def _check(key: str, value: Any) -> None:  # noqa: ANN401
    """Raise an error if a value of the right type is not one of the choices, or is out of bounds."""
    if key in _CHOICES and value not in _CHOICES[key]:
        raise ClickvecError(f"the setting {key} is one of {', '.join(_CHOICES[key])}, not {_cut(value)}")
    if key in _AT_LEAST and not value >= _AT_LEAST[key]:
        raise ClickvecError(f"the setting {key} is at least {_AT_LEAST[key]:,}, not {_cut(value)}")
    if key in _AT_MOST and value > _AT_MOST[key]:
        raise ClickvecError(f"the setting {key} is at most {_AT_MOST[key]:,}, not {_cut(value)}")
    if key == "window" and value % 2 == 0:
        raise ClickvecError(f"the setting window is odd (a word and as many on each side), not {value}")


_KIND_NAMES = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a word"}


def _parse(kind: type, value: object) -> Any:  # noqa: ANN401
    """The value as `kind`, or None when it is not one."""
    if kind is bool and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    if isinstance(value, bool) or kind in (bool, str):
        return value if type(value) is kind else None
    try:
        number = kind(value) if isinstance(value, str) or kind is float or value == int(value) else None  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None
    return None if isinstance(number, float) and not math.isfinite(number) else number


def _cut(value: object, most: int = 60) -> str:
    """A value for a message, however long it is."""
    try:
        shown = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits; lists in lists
        return "a very long value"
    return shown if len(shown) <= most else f"{shown[:most]}..."
