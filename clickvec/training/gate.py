"""The decision between a model and the one that it was continued from, by clicks that neither was trained on."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.config import Recipe
from clickvec.evaluation.measure import measure
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.significance import randomisation_test
from clickvec.evaluation.test_set import TestSet
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model
from clickvec.progress import Progress

log = logging.getLogger(__name__)
SIGNIFICANT = 0.05


class Start(NamedTuple):
    """Where a run starts: a model, and the clicks, by name, on which the new model may not be worse."""

    model: Model
    tests: Mapping[str, TestSet]


def has_choice(recipe: Recipe) -> bool:
    """Tell whether there is an epoch to choose. Measuring takes as long as an epoch over a few clicks."""
    return recipe.epochs > 1 or recipe.patience > 0


def decide(start: Start, model: Model, out: Path, progress: Progress) -> Model:
    """Return the new model, or the old one if the new one is significantly worse on one of the tests.

    The card of the new model gets the comparison. Which model `out` will hold is logged.
    """
    compared = [_compare(name, test, start.model, model, progress) for name, test in start.tests.items()]
    for row in compared:
        log.info(
            "NDCG@10 on %s (%s queries): %.2f before, %.2f now (p = %.2g).",
            row["on"], f"{row['queries']:,}", row["before"], row["now"], row["p"],
        )  # fmt: skip
    if not compared:
        log.warning("No clicks were held out to compare with the old model, so %s holds the new one unmeasured.", out)
    worse = next((row for row in compared if row["now"] < row["before"] and row["p"] < SIGNIFICANT), None)
    if worse is not None:
        log.warning(
            "The new model is significantly worse on %s (NDCG@10 %.2f, before %.2f), so %s holds the old model.",
            worse["on"], worse["now"], worse["before"], out,
        )  # fmt: skip
        return start.model
    model.training["continued"] = {
        "from": start.model.fingerprint, "first_recipe": first_recipe(start.model), "compared": compared,
    }  # fmt: skip
    return model


def first_recipe(model: Model) -> dict[str, Any]:
    """Return the settings of the training that a model began with, before it was continued."""
    continued = model.training.get("continued") or model.training
    return dict(continued.get("first_recipe") or model.training.get("recipe") or {})


def _compare(name: str, test: TestSet, old: Model, new: Model, progress: Progress) -> dict[str, Any]:
    systems = [Neural(Encoder(old), "before"), Neural(Encoder(new), "now")]
    result = measure(systems, test, progress=progress)
    before, now = (result.per_query(system, "NDCG@10") for system in ("before", "now"))
    return {
        "on": name, "queries": len(now), "before": float(before.mean()), "now": float(now.mean()),
        "p": randomisation_test(before, now),
    }  # fmt: skip
