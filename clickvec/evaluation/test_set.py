"""Test sets: queries with the gains of relevant titles, and what is ranked for each: a list of titles or a catalogue.

Judged sets and held-out clicks are both test sets. A clicked title has grade 1, however often it was clicked.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np

from clickvec.data import ClickLog, JudgedQuery
from clickvec.errors import ClickvecError
from clickvec.evaluation.metrics import gains_of
from clickvec.text.tokens import canonical

MOST_DEV = 2_000  # queries that are searched after each epoch; of more, a random sample


class Catalogue:
    """The titles that are searched, by their keys: ids or, without ids, words. Then titles with the same words are one.

    They are in order of first appearance.
    """

    def __init__(self, titles: Iterable[str] = (), ids: Iterable[object] | None = None) -> None:
        self.has_ids = ids is not None
        self._entries: dict[str, str] = {}
        if ids is None:
            self.add(titles)
        else:
            self._entries |= zip(map(str, ids), titles, strict=True)

    def add(self, titles: Iterable[str]) -> None:
        """Add the titles whose words are not there yet."""
        for title in dict.fromkeys(titles):
            self._entries.setdefault(canonical(title), title)

    @property
    def entries(self) -> dict[str, str]:
        """The titles by their keys."""
        return self._entries

    @property
    def titles(self) -> list[str]:
        """The titles."""
        return list(self.entries.values())

    def key(self, doc_id: object, title: str) -> str:
        """Return the key of a title."""
        return str(doc_id) if self.has_ids else canonical(title)

    def present(self, keys: Collection[str]) -> set[str]:
        """Return those of these keys that the catalogue has."""
        return self.entries.keys() & set(keys)


@dataclass(frozen=True)
class TestSet:
    """Queries with a relevant title. The doc_ids of a query are keys of the catalogue, if there is one."""

    __test__ = False  # no test of pytest

    queries: tuple[JudgedQuery, ...]
    catalogue: Catalogue | None = None  # None: each query ranks its own titles
    left_out: int = 0  # queries without a relevant title, which are not measured

    @classmethod
    def of_judged(cls, judged: Iterable[JudgedQuery], catalogue: Catalogue | None = None) -> "TestSet":
        """Return a judged set, whose titles of grade 1 or more are relevant.

        The queries rank their judged titles or, with a catalogue, search it. A catalogue without ids gets the relevant
        titles that it does not have.
        """
        everything = list(judged)
        queries = [query for query in everything if gains_of(query)]
        if catalogue is not None and not catalogue.has_ids:
            queries = [by_words(query) for query in queries]
            for query in queries:
                catalogue.add(title for title, grade in zip(query.titles, query.grades, strict=True) if grade >= 1)
        return cls(tuple(queries), catalogue, len(everything) - len(queries))

    @classmethod
    def of_clicks(cls, log: ClickLog, catalogue: Catalogue) -> "TestSet":
        """Return the queries of a click log with their clicked titles, which are added to the catalogue."""
        catalogue.add(log.titles)
        return cls(tuple(clicked_queries(log)), catalogue)

    def check(self) -> None:
        """Raise ClickvecError if there is nothing to measure."""
        if not self.queries:
            raise ClickvecError(f"none of the {self.left_out:,} queries has a relevant title (grade 1 or more)")

    def sample(self, most: int, seed: int = 0) -> "TestSet":
        """Return the test set or, if it has more than `most` queries, a random sample of that size."""
        if len(self.queries) <= most:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(len(self.queries), most, replace=False)).tolist()
        return replace(self, queries=tuple(self.queries[at] for at in chosen))

    def present(self) -> "TestSet":
        """Return the queries of which the catalogue has a relevant title."""
        known = self._known()
        return replace(self, queries=tuple(one for one in self.queries if not known.isdisjoint(gains_of(one))))

    @property
    def titles(self) -> list[str]:
        """The titles that are ranked: those of the catalogue or, without one, the distinct ones of all lists."""
        if self.catalogue is not None:
            return self.catalogue.titles
        return list(dict.fromkeys(title for query in self.queries for title in query.titles))

    @property
    def relevant(self) -> int:
        """The number of relevant titles of all queries."""
        return sum(len(gains_of(query)) for query in self.queries)

    @property
    def absent(self) -> int:
        """The number of relevant titles that are not in the catalogue. They count as not found."""
        known = self._known()
        return sum(key not in known for query in self.queries for key in gains_of(query))

    def _known(self) -> set[str]:
        wanted = {key for query in self.queries for key in gains_of(query)}
        return self.catalogue.present(wanted) if self.catalogue else wanted


def by_words(query: JudgedQuery) -> JudgedQuery:
    """Return a judged query whose titles have their words as ids."""
    return query._replace(doc_ids=tuple(map(canonical, query.titles)))


def clicked_query(query: str, titles: Iterable[str]) -> JudgedQuery:
    """Return a query with the titles that were clicked for it. Titles with the same words are one."""
    clicked = {canonical(title): title for title in titles}
    return JudgedQuery(query, query, tuple(clicked), tuple(clicked.values()), np.ones(len(clicked), np.int64))


def clicked_queries(log: ClickLog) -> list[JudgedQuery]:
    """Return the queries of a click log, each with its clicked titles. Queries with the same words are one."""
    clicked: dict[str, tuple[str, list[str]]] = {}
    for query, title in zip(log.queries, log.titles, strict=True):
        clicked.setdefault(canonical(query), (query, []))[1].append(title)
    return [clicked_query(query, titles) for query, titles in clicked.values()]
