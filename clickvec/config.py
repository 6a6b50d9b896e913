"""The shape of a tower, the settings of a training run, and the two named recipes.

A setting comes from one of these, later ones first: keywords, `--set key=value`, a TOML file, the named recipe. Towers
and recipes are validated whenever they are made, also by `dataclasses.replace`.
"""

import dataclasses
import difflib
import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from clickvec.errors import ClickvecError
from clickvec.setting_values import check_bounds, convert, read_setting, read_toml, shorten, wrong_type

log = logging.getLogger(__name__)
TOWERS = ("rnn", "lstm", "bilstm", "dssm", "clsm")
RECURRENT = ("rnn", "lstm", "bilstm")  # the towers that have an output y(t) at each token
POOLINGS = ("last", "mean", "max")
MAX_COUNT = 2**31 - 1  # of tokens, trigrams, titles, updates: array indices and their sums stay within 64 bits
MAX_SIZE = 65_536  # units of a layer: a square float32 matrix of this size takes 17 GB
MAX_SEED = 2**63 - 1
HARD_POOL = 20  # titles mined for each query, from which `hard_negatives` are drawn


@dataclass(frozen=True)
class Tower:
    """The shape of one tower: all that a model folder must hold, besides the weights, to run it."""

    kind: str = "lstm"
    cells: int = 96  # LSTM cells; in each direction for bilstm
    hidden: int = 288  # units of the RNN, of the first layer of DSSM, of the convolution of CLSM
    output: int = 96  # units of the last layer of DSSM and CLSM
    window: int = 3  # tokens under the convolution of CLSM
    forget_gate: bool = False
    peepholes: bool = False
    pooling: str = "last"  # over the outputs y(t) of rnn, lstm and, for each direction, bilstm

    def __post_init__(self) -> None:
        """Raise a ClickvecError that names the first field of the wrong type or out of its bounds."""
        for field in dataclasses.fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            name = "tower" if field.name == "kind" else field.name
            if type(value) is not kind:
                raise wrong_type(name, kind, value)
            check_bounds(name, value, _CHOICES, _LIMITS)

    @property
    def dimensions(self) -> int:
        """The length of the vector that the tower computes."""
        return {"rnn": self.hidden, "lstm": self.cells, "bilstm": 2 * self.cells}.get(self.kind, self.output)


class RecipeSettings(TypedDict, total=False):
    """The settings of a `Recipe` as keywords of `clickvec.train`."""

    max_words: int
    max_trigrams: int
    whole_words: bool
    tower: str
    cells: int
    hidden: int
    output: int
    window: int
    forget_gate: bool
    peepholes: bool
    pooling: str
    shared_tower: bool
    initial_scale: float
    gamma: float
    click_weight: str
    word_dropout: float
    teacher_weight: float
    teacher_gamma: float
    teacher_titles: int
    teacher_epochs: int
    negatives: int
    batch_negatives: bool
    shown_negatives: int
    hard_negatives: int
    optimizer: str
    learning_rate: float
    schedule: str
    momentum: float
    momentum_ends: float
    ends_share: float
    clip_norm: float
    batch_size: int
    epochs: int
    patience: int
    keep: str
    seed: int


@dataclass(frozen=True)
class Recipe:
    """All settings of a training run. The defaults of the fields are the paper's own choices.

    The settings form seven groups, in this order: text (what a tower reads), tower (its shape and first weights),
    objective (the loss), teacher (what it adds to the loss), negatives (the titles that a clicked title must beat),
    optimisation (how weights change), and stopping (how long training runs and which model it keeps).
    """

    # text
    max_words: int = 10  # tokens of a text; the words from this one on form one last token
    max_trigrams: int = 50_000
    whole_words: bool = False  # frequent words get input rows of their own; `max_trigrams` limits both together
    # tower
    tower: str = "lstm"
    cells: int = 96
    hidden: int = 288
    output: int = 96
    window: int = 3
    forget_gate: bool = False
    peepholes: bool = False
    pooling: str = "last"  # the vector of a text: y at its last token, or the mean or maximum of y over its tokens
    shared_tower: bool = False  # one tower for queries and titles
    initial_scale: float = 0.1  # weights start uniformly random between -scale and scale
    # objective
    gamma: float = 10.0
    # The weight of a pair: none (1), count (its clicks), log (log2(1 + clicks)) or rate (its clicks per look of a
    # reader, if the log has impressions with positions; else 1)
    click_weight: str = "none"
    word_dropout: float = 0.0  # probability of leaving a word out of a query or title, anew for each minibatch
    # teacher
    # of its part of the loss, times its agreement with the clicks (teacher/agreement.py); 0: there is no teacher
    teacher_weight: float = 0.0
    teacher_gamma: float = 20.0  # of the cosines of the teacher's vectors, as gamma is of the model's
    teacher_titles: int = 512  # random titles of the log and the catalogue that it teaches in each minibatch
    teacher_epochs: int = 0  # of fine-tuning a transformer on the clicks before it teaches; 0: it stays as it is
    # negatives
    negatives: int = 4  # random titles for each pair
    batch_negatives: bool = False  # the other titles of the minibatch instead of random ones
    shown_negatives: int = 4  # titles that were shown and not clicked, if --shown gives any
    hard_negatives: int = 0  # unclicked titles that the model scores highest, mined before each epoch but the first
    # optimisation
    optimizer: str = "nesterov"
    learning_rate: float = 0.01
    schedule: str = "fixed"  # of the learning rate: fixed, or linear, which falls to 0
    momentum: float = 0.995
    momentum_ends: float = 0.9  # momentum in the first and the last `ends_share` of all updates
    ends_share: float = 0.02
    clip_norm: float = 1.0  # maximum norm of the gradient of each tower (th_G of Algorithm 1); 0: off
    batch_size: int = 256
    # stopping
    epochs: int = 10
    patience: int = 0  # stop after this many epochs without a better dev NDCG@10; 0: never
    keep: str = "last"  # which model to keep: that of the last epoch, or of the best by dev NDCG@10
    seed: int = 1

    if not TYPE_CHECKING:  # it would hide the types of the fields

        def __new__(cls, *values: object, **settings: object) -> "Recipe":
            """Raise a ClickvecError for a setting that does not exist."""
            for name in settings:
                if name not in _KINDS:
                    raise _unknown(name)
            return super().__new__(cls)

    def __post_init__(self) -> None:
        """Convert each setting to the type of its field; raise a ClickvecError if it does not fit."""
        for name, kind in _KINDS.items():
            value = convert(kind, getattr(self, name))
            if value is None:
                raise wrong_type(name, kind, getattr(self, name))
            check_bounds(name, value, _CHOICES, _LIMITS)
            object.__setattr__(self, name, value)
        if self.batch_negatives and self.negatives != Recipe.negatives:
            raise ClickvecError(
                f"negatives={self.negatives} has no effect while batch_negatives is true; set batch_negatives=false"
            )
        if self.pooling != Recipe.pooling and self.tower not in RECURRENT:
            raise ClickvecError(
                f"pooling={self.pooling} has no effect for {self.tower}, which has no output at each token"
            )
        for name in ("forget_gate", "peepholes"):
            if getattr(self, name) and self.tower not in ("lstm", "bilstm"):
                raise ClickvecError(f"{name}=true has no effect for {self.tower}, which has no gates; leave it out")

    def tower_shape(self) -> Tower:
        """Return the part of the recipe that the model folder needs."""
        return Tower(
            self.tower, self.cells, self.hidden, self.output, self.window, self.forget_gate, self.peepholes,
            self.pooling,
        )  # fmt: skip


_KINDS: dict[str, type] = {field.name: type(field.default) for field in dataclasses.fields(Recipe)}
# The names that settings had before. They are still accepted, except by the constructor.
RENAMED = {"step": "learning_rate", "clip": "clip_norm", "average": "weight_average"}
# Settings that were removed, with the value that turned them off. Older recipes and checkpoints still hold them.
REMOVED: dict[str, object] = {"weight_average": 0.0, "warm_up": 0.0, "bptt_steps": 0, "precision": "float32"}

# Chosen on the dev set of msrd, from the same trials for each tower; docs/log.md describes the search.
PAPER_BY_TOWER: dict[str, dict[str, Any]] = {
    "lstm": {"learning_rate": 0.01, "gamma": 5.0, "clip_norm": 0.3, "epochs": 10, "initial_scale": 0.05},
    "bilstm": {"learning_rate": 0.01, "gamma": 5.0, "clip_norm": 0.3, "epochs": 10, "initial_scale": 0.05},
    "rnn": {"learning_rate": 0.003, "gamma": 7.0, "clip_norm": 1.0, "epochs": 10, "initial_scale": 0.01},
    "dssm": {"learning_rate": 0.005, "gamma": 5.0, "clip_norm": 0.3, "epochs": 5, "initial_scale": 0.05},
    "clsm": {"learning_rate": 0.01, "gamma": 5.0, "clip_norm": 0.3, "epochs": 10, "initial_scale": 0.05},
}
# The best settings measured so far, one choice for the dev sets of msrd and dbpedia; click_weight, which has no effect
# there, for the simulated log of impressions.
DEFAULT: dict[str, Any] = {
    "whole_words": True,
    "shared_tower": True,
    "initial_scale": 0.02,
    "gamma": 12.0,
    "click_weight": "rate",
    "batch_negatives": True,
    "hard_negatives": 2,
    "word_dropout": 0.05,
    "optimizer": "adam",
    "learning_rate": 0.002,
    "schedule": "linear",
    "clip_norm": 0.0,
    "batch_size": 1024,
    "epochs": 5,
    "keep": "best",
}
# What changes if there is a teacher: more weight lowers held-out clicks (docs/log.md).
TAUGHT: dict[str, Any] = {"teacher_weight": 1.5, "teacher_gamma": 18.0}
RECIPES = ("default", "paper")

_CHOICES = {
    "tower": TOWERS,
    "pooling": POOLINGS,
    "optimizer": ("nesterov", "adam"),
    "schedule": ("fixed", "linear"),
    "click_weight": ("none", "log", "count", "rate"),
    "keep": ("last", "best"),
}
_LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("max_words", "max_trigrams", "negatives", "batch_size", "epochs"), (1, MAX_COUNT)),
    **dict.fromkeys(("shown_negatives", "patience", "teacher_epochs"), (0, MAX_COUNT)),
    **dict.fromkeys(("cells", "hidden", "output", "window"), (1, MAX_SIZE)),
    **dict.fromkeys(("gamma", "learning_rate", "clip_norm", "teacher_weight", "teacher_gamma"), (0, math.inf)),
    **dict.fromkeys(("momentum", "momentum_ends", "word_dropout"), (0, 0.9999)),
    "teacher_titles": (1, MAX_COUNT), "initial_scale": (0, 10),
    "hard_negatives": (0, HARD_POOL), "ends_share": (0, 0.5), "seed": (0, MAX_SEED),
}  # fmt: skip


def recipe(
    name: str | Recipe = "default", *, file: str | Path | None = None, settings: Sequence[str] = (),
    has_teacher: bool = False, **overrides: object,
) -> Recipe:  # fmt: skip
    """Return a recipe with a TOML file, `key=value` settings and keywords applied to it, in this order.

    With a teacher, the named recipes have further settings. A setting that does not exist, or does not fit, is a
    ClickvecError.
    """
    if not isinstance(name, Recipe) and name not in RECIPES:
        raise ClickvecError(f"there is no recipe {name!r}; the recipes are {', '.join(RECIPES)}")
    chosen = {**(read_toml(Path(file)) if file else {}), **dict(map(read_setting, settings)), **overrides}
    chosen = {_present_name(key): value for key, value in chosen.items()}
    chosen = {key: value for key, value in chosen.items() if REMOVED.get(key, math.nan) != value}  # in old model cards
    base: dict[str, Any] = DEFAULT
    if isinstance(name, Recipe):
        base = dataclasses.asdict(name)
    elif name == "paper":
        base = PAPER_BY_TOWER.get(str(chosen.get("tower", Recipe.tower)), {})
    if has_teacher and not isinstance(name, Recipe):
        base = base | TAUGHT
    made = Recipe(**(base | chosen))
    if has_teacher and not made.teacher_weight:
        raise ClickvecError("with teacher_weight=0 the teacher teaches nothing; leave the setting out, or the teacher")
    useless = [key for key in chosen if key.startswith("teacher_") and getattr(made, key) != getattr(Recipe, key)]
    if useless and not has_teacher:
        raise ClickvecError(f"the setting {useless[0]} has no effect without a teacher; give one with --teacher")
    return made


def stored_recipe(settings: Mapping[str, object]) -> Recipe:
    """Return the recipe that a model folder holds. A setting that is missing is newer, and was off."""
    if not settings:
        raise ClickvecError("the model does not tell its recipe, so training cannot continue from it; train it again")
    present = {RENAMED.get(name, name): value for name, value in settings.items()}
    return Recipe(**{name: value for name, value in present.items() if name in _KINDS})  # type: ignore[arg-type]


def _present_name(name: str) -> str:
    if name in RENAMED:
        log.warning("the setting %s is called %s now", name, RENAMED[name])
    return RENAMED.get(name, name)


def _unknown(name: str) -> ClickvecError:
    if name in RENAMED:
        return ClickvecError(f"the setting {name} is called {RENAMED[name]} now")
    if name in REMOVED:
        return ClickvecError(f"the setting {name} was removed: it helped too little (docs/log.md); leave it out")
    nearest = difflib.get_close_matches(name[:100], _KINDS, n=1, cutoff=0.6)
    cure = (
        f"the nearest is {nearest[0]!r}"
        if nearest
        else "the settings are the fields of clickvec.Recipe, such as epochs"
    )
    return ClickvecError(f"there is no setting {shorten(name)}; {cure}")


# What people write for parameters of `train` and `continue_training`, and what they mean.
_MEANT = {
    "overwrite": 'if_exists="overwrite" replaces a model', "resume": 'if_exists="resume" continues a run',
    "force": 'if_exists="overwrite" replaces a model', "columns": "read_clicks(log, columns={...}) names columns",
    "max_bad": "read_clicks(log, max_bad=...) allows bad lines", "queries": "read_clicks(log, queries=...) joins ids",
    "test": "dev is the judged set, and evaluate measures on another", "judged": "dev is the judged set",
    "validation": "dev is the judged set", "titles": "catalogue has the titles", "verbose": "progress shows progress",
    "path": "out is the folder of the model", "model_dir": "out is the folder of the model",
    "output_dir": "out is the folder of the model", "lr": "learning_rate is the step of the optimizer",
}  # fmt: skip


def check_settings(settings: Iterable[str], parameters: Iterable[str]) -> None:
    """Raise a ClickvecError for a keyword that is no setting: what is meant, by its name or the nearest one."""
    for name in settings:
        if name in _KINDS or name in RENAMED or name in REMOVED:
            continue
        if name in _MEANT:
            raise ClickvecError(f"there is no setting {shorten(name)}; {_MEANT[name]}")
        nearest = difflib.get_close_matches(name[:100], parameters, n=1, cutoff=0.7)
        if nearest:
            raise ClickvecError(f"there is no setting {shorten(name)}; the nearest parameter is {nearest[0]!r}")
        raise _unknown(name)
