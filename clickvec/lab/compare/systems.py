"""The rows of the paper's table, in its order, and what one would compare with today."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clickvec import config
from clickvec.errors import ClickvecError


class System(NamedTuple):
    """One row: what it is called, and how it is made."""

    key: str
    label: str  # {cells} and the like stand for settings of the recipe
    settings: Mapping[str, Any] | None = None  # over the recipe, for what the trainer trains; None for all others
    parts: tuple[str, ...] = ()  # the systems that it fuses
    seeded: bool = True  # whether another seed gives another result, and so is worth a run of its own


def systems(recipe: str) -> tuple[System, ...]:
    """Every system under a recipe. Only `default` has a row for n = 4 beside the one whose negatives are its own."""
    two, four, six, eight = (_drawn(n) for n in (2, 4, 6, 8))
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


def _drawn(n: int) -> System:
    settings = {"tower": "lstm", "batch_negatives": False, "negatives": n}
    return System(f"lstm-n{n}", "LSTM-RNN (ncell = {cells}), n = {negatives}", settings)


def choose(recipe: str, keys: Sequence[str]) -> list[System]:
    """The systems of these names, in the order of the table, with those that they are made of; no names: all."""
    if recipe not in config.RECIPES:
        raise ClickvecError(f"there is no recipe {recipe!r}; the recipes are {', '.join(config.RECIPES)}")
    known = {system.key: system for system in systems(recipe)}
    unknown = [key for key in keys if key not in known]
    if unknown:
        raise ClickvecError(f"there is no system {unknown[0]!r} under {recipe}; the systems are {', '.join(known)}")
    wanted = set(keys or known)
    wanted |= {part for key in wanted for part in known[key].parts}
    return [system for key, system in known.items() if key in wanted]
