"""What a comparison is made from: the log, the two judged sets, and what single systems need beside them."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from clickvec.config import Recipe
from clickvec.data import ClickLog, Judged, JudgedQuery, dataset
from clickvec.data.dataset import Dataset


@dataclass(frozen=True)
class Material:
    """The same for every system: a system that needs more than clicks, dev and test says so in its label."""

    log: ClickLog
    dev: Judged  # settings and epochs are chosen on it
    test: Judged  # only scored
    shown: Judged | None = None  # its titles of grade 0 were shown and not clicked
    prose: tuple[Path, ...] = ()  # contiguous text, for Skip-Thought; the built-in one where there is none
    skip_thoughts: Path | None = None  # a folder of trained Skip-Thought files, in place of training one
    names: Mapping[str, Sequence[str]] = field(
        default_factory=dict
    )  # what the user calls the files, by the options of the command

    @cached_property
    def fingerprint(self) -> str:
        """Changes with any text, click or grade: what was made from other material is not used again."""
        return self._digest(self.dev, self.test, self.shown or ())

    @cached_property
    def training_fingerprint(self) -> str:
        """The same for what a trained model depends on: the test set is none of it."""
        return self._digest(self.dev, self.shown or ())

    def _digest(self, *sets: Iterable[JudgedQuery]) -> str:
        digest = hashlib.sha256()
        for pair in zip(self.log.queries, self.log.titles, self.log.clicks.tolist(), strict=True):
            digest.update(repr(pair).encode())
        for judged in sets:
            digest.update(b"judged set")
            for query in judged:
                digest.update(repr((query[:-1], query.grades.tolist())).encode())
        return digest.hexdigest()

    @property
    def sets(self) -> dict[str, Judged]:
        """The two judged sets, by name."""
        return {"dev": self.dev, "test": self.test}

    @cached_property
    def titles(self) -> list[str]:
        """The distinct titles, those of the log and the judged ones: the collection of the lexical systems."""
        return list(dict.fromkeys([*self.log.titles, *self._judged_titles()]))

    @cached_property
    def texts(self) -> list[str]:
        """Every distinct query and title: what the paper's Doc2Vec is trained on."""
        queries = [query.query for judged in (self.dev, self.test) for query in judged]
        return list(dict.fromkeys([*self.log.queries, *queries, *self.titles]))

    def _judged_titles(self) -> Iterator[str]:
        return (title for judged in (self.dev, self.test) for query in judged for title in query.titles)

    def prepared(self, recipe: Recipe) -> Dataset:
        """The log as arrays, prepared once for all recipes that read text alike."""
        key = recipe.max_words, recipe.max_trigrams
        if key not in self._prepared:
            self._prepared[key] = dataset.prepare(self.log, *key, self.shown)
        return self._prepared[key]

    @cached_property
    def _prepared(self) -> dict[tuple[int, int], Dataset]:
        return {}


def short_hash(*parts: object) -> str:
    """Eight characters that change with any of the parts: the end of the name of what is kept."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:8]
