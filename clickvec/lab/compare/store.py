"""The stored scores of each system on dev and test, so that nothing is trained or scored twice.

There is one folder for each system and seed, `scores/KEY-SEED-HASH`. It contains scores and facts but no model, so it
is small: train the neural systems on a machine with a GPU, copy `scores/` to another machine, and run the same command
there.
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
from clickvec.evaluation.metrics import DEPTH
from clickvec.evaluation.ranker import Ranker
from clickvec.lab.compare.catalogue_search import Rows
from clickvec.storage import files
from clickvec.storage.arrays import write_arrays
from clickvec.storage.json_files import to_dataclass
from clickvec.storage.snapshot import open_folder

_FILES = ("about.json", "scores.safetensors")


@dataclass(frozen=True)
class Facts:
    """The facts of one fitted system besides its scores."""

    parameters: int | None
    train_seconds: float
    queries_per_second: float
    settings: dict[str, Any]
    history: list[float]
    commit: str
    machine: str
    label: str = ""  # if it depends on the fit: Skip-Thought names its training text


class Recorded(Ranker):
    """A ranker that returns stored scores."""

    def __init__(
        self,
        name: str,
        facts: Facts,
        sets: dict[str, Judged],
        scores: dict[str, NDArray[np.float32]],
        found: dict[str, Rows],
    ) -> None:
        """`scores[split]` are the scores of all judged titles of a set, query after query.

        `found[split]` is what a search of the catalogue has returned, if there is a catalogue.
        """
        self.name, self.facts, self.found = name, facts, found
        self._known: dict[tuple[str, str], float] = {}
        for split, judged in sets.items():
            pairs = ((query.query, title) for query in judged for title in query.titles)
            self._known |= zip(pairs, scores[split].tolist(), strict=True)

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """Return the stored scores."""
        try:
            return np.array([self._known[query, title] for title in titles], np.float32)
        except KeyError as error:
            raise ClickvecError(f"{self.name} has no stored score for {error}") from None


def scores_of(ranker: Ranker, judged: Judged) -> NDArray[np.float32]:
    """Return the scores of all judged titles, query after query."""
    return np.concatenate([ranking.scores for ranking in ranker.rank(judged)])


def save(folder: Path, scores: dict[str, NDArray[np.float32]], facts: Facts, found: dict[str, Rows]) -> None:
    """Write the scores and facts atomically, also over an unreadable folder."""
    if folder.exists() and not (folder / "about.json").exists():
        shutil.rmtree(folder)
    with files.replacing(folder, "about.json", _FILES) as fresh:
        write_arrays(fresh / "scores.safetensors", scores | {f"{split}.found": rows for split, rows in found.items()})
        files.write_json(fresh / "about.json", asdict(facts))


def load(folder: Path, name: str, sets: dict[str, Judged], with_search: bool) -> Recorded | None:
    """Return the stored scores, or None if there are none or they do not fit the judged sets."""
    try:
        with open_folder(folder, _FILES, "folder of scores") as opened:
            facts, arrays = to_dataclass(Facts, opened.json("about.json")), opened.arrays("scores.safetensors")
            scores = {split: np.array(arrays[split]) for split in sets}
            found = {split: np.array(arrays[f"{split}.found"]) for split in sets} if with_search else {}
        if not all(part.dtype == np.float32 and np.isfinite(part).all() for part in scores.values()):
            return None
        if any(rows.shape != (len(sets[split]), DEPTH) or rows.dtype != np.int32 for split, rows in found.items()):
            return None
        return Recorded(name, facts, sets, scores, found)
    except (OSError, ValueError, TypeError, KeyError, ClickvecError):
        return None
