"""The input of a comparison: the log, the two judged sets, and the extra data of single systems."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from clickvec.config import Recipe
from clickvec.data import ClickLog, Judged, JudgedQuery, dataset
from clickvec.data.dataset import Dataset
from clickvec.evaluation.test_set import Catalogue


@dataclass(frozen=True)
class Material:
    """The input, the same for every system. A system that uses more than clicks, dev and test says so in its label."""

    log: ClickLog
    dev: Judged  # settings and epochs are chosen on it
    test: Judged  # scored, never used to choose anything
    shown: Judged | None = None  # its titles of grade 0 were shown and not clicked
    prose: tuple[Path, ...] = ()  # contiguous text for Skip-Thought; without any, the manual of Python is used
    skip_thoughts: Path | None = None  # a folder of trained Skip-Thought files, instead of training one
    catalogue: Catalogue | None = None  # every system searches these titles, and what the log and the sets have
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the file names, by option of the command

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash of all texts, clicks and grades. Stored scores are reused only if it is the same."""
        digest = self._digest(self.dev, self.test, self.shown or ())
        return short_hash(digest, self.catalogue.titles) if self.catalogue else digest

    @cached_property
    def training_fingerprint(self) -> str:
        """Return a hash of the data that a trained model depends on, which excludes the test set."""
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
        """Return the two judged sets by name."""
        return {"dev": self.dev, "test": self.test}

    @cached_property
    def titles(self) -> list[str]:
        """Return the distinct titles of log, judged sets and catalogue: the corpus of the lexical systems."""
        searched = self.catalogue.titles if self.catalogue else ()
        return list(dict.fromkeys([*self.log.titles, *self._judged_titles(), *searched]))

    @cached_property
    def texts(self) -> list[str]:
        """Return every distinct query and title: the training texts of the paper's Doc2Vec."""
        queries = [query.query for judged in (self.dev, self.test) for query in judged]
        return list(dict.fromkeys([*self.log.queries, *queries, *self.titles]))

    @cached_property
    def searched(self) -> Catalogue:
        """Return the catalogue with the titles of the log and of the judged sets."""
        everything = Catalogue(self.catalogue.titles if self.catalogue else ())
        everything.add(self.titles)
        return everything

    def _judged_titles(self) -> Iterator[str]:
        return (title for judged in (self.dev, self.test) for query in judged for title in query.titles)

    def prepared(self, recipe: Recipe) -> Dataset:
        """Return the log as arrays, prepared once for all recipes with the same text settings."""
        key = recipe.max_words, recipe.max_trigrams, recipe.whole_words
        if key not in self._prepared:
            self._prepared[key] = dataset.prepare(self.log, *key[:2], self.shown, whole_words=recipe.whole_words)
        return self._prepared[key]

    @cached_property
    def _prepared(self) -> dict[tuple[int, int, bool], Dataset]:
        return {}


def short_hash(*parts: object) -> str:
    """Return eight hexadecimal digits that change with any of the parts."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:8]
