"""The systems of the comparison: the rows of the paper's table, in its order, and a few that are common today."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from clickvec import config
from clickvec.errors import ClickvecError
from clickvec.evaluation.ranker import Ranker


class System(NamedTuple):
    """One row: its name and how it is made."""

    key: str
    label: str  # {cells} and the like are replaced by settings of the recipe
    settings: Mapping[str, Any] | None = None  # over the recipe, for systems that the trainer trains; else None
    parts: tuple[str, ...] = ()  # the systems that it combines
    seeded: bool = True  # whether the result depends on the seed, so that more seeds are worth running


@dataclass(frozen=True)
class Fitted:
    """A system that is ready to score, and the facts of its row."""

    ranker: Ranker
    parameters: int | None = None
    seconds: float = 0.0  # of training, with the settings that were chosen
    settings: dict[str, Any] = field(default_factory=dict)
    history: list[float] = field(default_factory=list)  # the training loss by epoch
    label: str = ""  # replaces the label of the system, if it depends on the fit


def systems(recipe: str) -> tuple[System, ...]:
    """Return every system under a recipe.

    The default recipe takes its negatives from the minibatch, so it has an extra row for the paper's n = 4.
    """
    two, four, six, eight = (_random_negatives(n) for n in (2, 4, 6, 8))
    minibatch = System("lstm", "LSTM-RNN (ncell = {cells}), negatives: the minibatch", {"tower": "lstm"})
    by_negatives = [two, four, six, eight, minibatch]
    if recipe == "paper":
        by_negatives = [two, four._replace(key="lstm"), six, eight]
    clsm = "CLSM (nhid = {hidden}/{output}, win = {window})"
    return (
        System("skipthought", "Skip-Thought", seeded=False),
        System("doc2vec", "Doc2Vec, 30 epochs, as in the paper", seeded=False),
        System("doc2vec-100", "Doc2Vec, 100 epochs", seeded=False),
        System("ulm", "ULM", seeded=False),
        System("bm25", "BM25", seeded=False),
        System("plsa", "PLSA", seeded=False),
        System("dssm", "DSSM (nhid = {hidden}/{output})", {"tower": "dssm"}),
        *(System(f"clsm-{w}", clsm, {"tower": "clsm", "window": w}) for w in (1, 3, 5)),
        System("rnn", "RNN (nhid = {hidden})", {"tower": "rnn"}),
        *(System(f"lstm-{n}", "LSTM-RNN (ncell = {cells})", {"tower": "lstm", "cells": n}) for n in (32, 64)),
        *by_negatives,
        System("bilstm", "Bidirectional LSTM-RNN (ncell = {cells})", {"tower": "bilstm"}),
        System("transformer", "all-MiniLM-L6-v2, as it comes", seeded=False),
        System("hybrid-rrf", "BM25 + LSTM-RNN, reciprocal ranks", parts=("bm25", "lstm")),
        System("hybrid-mix", "BM25 + LSTM-RNN, mixed scores", parts=("bm25", "lstm")),
    )  # fmt: skip


def _random_negatives(n: int) -> System:
    settings = {"tower": "lstm", "batch_negatives": False, "negatives": n}
    return System(f"lstm-n{n}", "LSTM-RNN (ncell = {cells}), n = {negatives}", settings)


def choose(recipe: str, keys: Sequence[str]) -> list[System]:
    """Return the named systems and their parts in the order of the table. No names: all systems."""
    if recipe not in config.RECIPES:
        raise ClickvecError(f"there is no recipe {recipe!r}; the recipes are {', '.join(config.RECIPES)}")
    known = {system.key: system for system in systems(recipe)}
    unknown = [key for key in keys if key not in known]
    if unknown:
        raise ClickvecError(f"there is no system {unknown[0]!r} under {recipe}; the systems are {', '.join(known)}")
    wanted = set(keys or known)
    wanted |= {part for key in wanted for part in known[key].parts}
    return [system for key, system in known.items() if key in wanted]
