"""The scores of a system on dev and test, kept on disk: what was scored once is not trained or scored again.

One folder a system and seed, `scores/KEY-SEED-HASH`. It holds scores and facts and no model, so it is small and can
be carried: fit the neural systems where the GPU is, copy `scores/` home, and run the same command there.
"""

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data import Judged
from clickvec.errors import ClickvecError
from clickvec.evaluation import evaluate
from clickvec.evaluation.ranker import BaseRanker, Ranker
from clickvec.storage import files
from clickvec.storage.arrays import write_arrays
from clickvec.storage.json_files import to_dataclass
from clickvec.storage.snapshot import open_folder

_FILES = ("about.json", "scores.safetensors")


@dataclass(frozen=True)
class Facts:
    """What is known of one fitted system beside its scores."""

    parameters: int | None
    train_seconds: float
    queries_per_second: float
    settings: dict[str, Any]
    history: list[float]
    commit: str
    machine: str
    label: str = ""  # where it is known only when the system is there: what Skip-Thought was trained on


class Recorded(BaseRanker):
    """A ranker that knows the scores that another gave, and no others."""

    def __init__(
        self, name: str, facts: Facts, sets: dict[str, Judged], scores: dict[str, NDArray[np.float32]]
    ) -> None:
        """`scores[split]` has those of all judged titles of a set, one query after the other."""
        self.name, self.facts = name, facts
        self._known: dict[tuple[str, str], float] = {}
        for split, judged in sets.items():
            pairs = ((query.query, title) for query in judged for title in query.titles)
            self._known |= zip(pairs, scores[split].tolist(), strict=True)

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """The recorded scores."""
        try:
            return np.array([self._known[query, title] for title in titles], np.float32)
        except KeyError as error:
            raise ClickvecError(f"{self.name} has no recorded score for {error}") from None


def scores_of(ranker: Ranker, judged: Judged) -> NDArray[np.float32]:
    """A ranker's scores of all judged titles, one query after the other."""
    return np.concatenate([ranking.scores for ranking in evaluate.run(ranker, judged)])


def save(place: Path, scores: dict[str, NDArray[np.float32]], facts: Facts) -> None:
    """Keep them, whole or not at all, in the place of what cannot be read."""
    if place.exists() and not (place / "about.json").exists():
        shutil.rmtree(place)
    with files.replacing(place, "about.json", _FILES) as fresh:
        write_arrays(fresh / "scores.safetensors", scores)
        files.write_json(fresh / "about.json", asdict(facts))


def load(place: Path, name: str, sets: dict[str, Judged]) -> Recorded | None:
    """What was kept there; None when nothing was, or it does not fit."""
    try:
        with open_folder(place, _FILES, "folder of scores") as opened:
            facts, found = to_dataclass(Facts, opened.json("about.json")), opened.arrays("scores.safetensors")
            scores = {split: np.array(found[split]) for split in sets}
        if not all(part.dtype == np.float32 and np.isfinite(part).all() for part in scores.values()):
            return None
        return Recorded(name, facts, sets, scores)
    except (OSError, ValueError, TypeError, KeyError, ClickvecError):
        return None
