"""A tiny dataset and tiny teachers for it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickvec.data import ClickLog, dataset
from clickvec.data.dataset import Dataset, Texts
from clickvec.teacher.reduction import Floats, Reduction, unit
from clickvec.teacher.taught_texts import keys_of

QUERIES = ["red shoe", "Blue  SHOE", "bath tub", "hotel in 上海"]
TITLES = ["Red shoe", "a blue shoe", "tub for a bath", "上海 hotel"]
CATALOGUE = ["green shoe", "a lamp", "bath tub", "RED shoe"]


def tiny_data(more: Sequence[str] = ()) -> tuple[Dataset, Texts]:
    """Return a dataset: "red shoe" and "bath tub" are queries and titles."""
    log = ClickLog(list(QUERIES), list(TITLES), np.ones(len(QUERIES)))
    return dataset.prepare_with_texts(log, 5, 1000, catalogue=[*CATALOGUE, *more])


def vector_of(text: str, dimensions: int = 6) -> Floats:
    """Return a vector that depends on the text alone."""
    return np.random.default_rng(int(keys_of([text])[0])).normal(size=dimensions).astype(np.float32)


class FakeSource:
    """A teacher that counts what it is asked, and stops after some texts."""

    name, texts_at_once = "fake", 2
    reduction: Reduction | None = Reduction(np.eye(6, dtype=np.float32), np.full(6, 1 / 127, np.float32))

    def __init__(self, identity: str = "fake 1", stop_after: int | None = None) -> None:
        self.identity, self.asked, self._stop_after = identity, list[str](), stop_after

    def vectors(self, numbers: NDArray[np.int64], texts: Sequence[str]) -> Floats:
        assert len(numbers) == len(texts)
        if self._stop_after is not None and len(self.asked) >= self._stop_after:
            raise KeyboardInterrupt
        self.asked += texts
        return unit(np.stack([vector_of(text) for text in texts]))


def write_npy(path: Path, texts: Sequence[str], dimensions: int = 6) -> Path:
    """Write a teacher's vectors with their texts beside them."""
    np.save(path, np.stack([vector_of(text, dimensions) for text in texts]))
    path.with_suffix(".txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path
