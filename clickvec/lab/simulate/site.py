"""The simulated site: its titles and queries, the list of titles of each query, and their grades.

Every query has a list of 15 titles: relevant, related, random, and titles that share a word with the query.
The seed determines everything.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clickvec.lab.simulate import vocabulary
from clickvec.lab.simulate.phrasing import FUNCTION_WORDS, NAVIGATE, Author, Names, Text, joined, misspell

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

BAD, FAIR, GOOD, EXCELLENT = 0, 1, 2, 3
TRAIN, DEV, TEST = 0, 1, 2

MISSPELLINGS = 2  # of each query
SPLIT_PERCENT = (4, 12)  # of query groups: below the first number dev, below the second test, the others training
LIST_LENGTH = 15  # judged titles per query, as in the paper
KIND_SHARES = (0.7, 0.2, 0.1)  # of page views: informational, navigational, transactional
ZIPF_OFFSET, ZIPF_POWER = 20, 0.8  # popularity is 1 / (rank + offset) ** power


@dataclass(frozen=True)
class Texts:
    """Texts as columns. The id of a text is its row."""

    text: tuple[str, ...]
    topic: Ints
    family: Ints
    intent: Ints
    attribute: Ints
    site: Ints
    kind: Ints

    @classmethod
    def of(cls, rows: list[Text]) -> Texts:
        """Return the columns of these rows."""
        columns = np.array([row[1:] for row in rows], dtype=np.int64).T
        return cls(tuple(row.text for row in rows), *columns)

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.text)


@dataclass(frozen=True)
class Site:
    """The simulated site: its titles, its queries, and the grades of the titles listed for each query.

    The first `paper` queries are those of the paper. The first `len(lists)` queries are spelled correctly; the others
    are misspellings of them.
    """

    names: Names
    titles: Texts
    queries: Texts
    paper: int
    clean: Ints  # the id of the correctly spelled query, for each query
    misspellings: Ints  # (clean queries, MISSPELLINGS): ids; the query's own id where there is none
    split: Ints  # TRAIN, DEV or TEST, for each query
    share: NDArray[np.float64]  # share of the page views, for each clean query; 0 outside training
    lists: Ints  # (clean queries, LIST_LENGTH): title ids, ascending
    grades: Ints  # of the lists
    engine: NDArray[np.float32]  # of the lists: the scores of the site's search engine, the grade plus noise

    @classmethod
    def build(cls, seed: int = 0) -> Site:
        """Build the site of this seed. Another seed gives other phrasings of the same intents."""
        author = Author(random.Random(seed))
        titles = Texts.of(author.titles())
        paper, others = author.queries()
        rows = paper + others
        misspelled, clean, misspellings = _misspell(rows, random.Random(seed + 1))
        split = _split([row.text for row in rows], len(paper))
        rng = np.random.default_rng((seed, 0))
        queries = Texts.of(rows)
        lists, grades = _lists(queries, titles, rng)
        return cls(
            names=author.names,
            titles=titles,
            queries=Texts.of(rows + misspelled),
            paper=len(paper),
            clean=clean,
            misspellings=misspellings,
            split=split[clean],
            share=_popularity(queries.kind, split == TRAIN),
            lists=lists,
            grades=grades,
            engine=(0.7 * grades + rng.gumbel(size=grades.shape)).astype(np.float32),
        )

    def intent(self, texts: Texts, number: int) -> str:
        """Return the name of a text's intent; for a page of a site, the names of the site and the section."""
        if texts.intent[number] >= 0:
            return self.names.intents[int(texts.intent[number])]
        family = int(texts.family[number])
        section = f" {self.names.families[family][0]}" if family >= 0 else ""
        return joined(self.names.sites[int(texts.site[number])]) + section


def grade(queries: Texts, titles: Texts, query: Ints, title: Ints) -> Ints:
    """Return the grade of each title for each query, given as ids that are broadcast against each other.

    If the query asks for an intent: Excellent has the same intent, attribute and purpose (to read or to buy); Good has
    the same intent; Fair has the same intent with another attribute, or another intent of the family. If the query asks
    for a site: Excellent is the page itself, Good another page that fits, Fair any other page of the site or the same
    section of another site.
    """
    topic, family, intent, attribute, site, kind = (
        getattr(queries, column)[query] == getattr(titles, column)[title]
        for column in ("topic", "family", "intent", "attribute", "site", "kind")
    )
    page = titles.kind[title] == NAVIGATE
    clash = ~attribute & (queries.attribute[query] >= 0) & (titles.attribute[title] >= 0)
    fits = family | (queries.family[query] < 0) | (titles.family[title] < 0)
    better = [EXCELLENT, GOOD, FAIR]
    by_intent = np.select([intent & attribute & kind, intent & ~clash, family], better, BAD)
    by_site = np.select([site & page & family, site & fits, site | (topic & page & family)], better, BAD)
    return np.where(queries.kind[query] == NAVIGATE, by_site, by_intent)


def _misspell(rows: list[Text], rng: random.Random) -> tuple[list[Text], Ints, Ints]:
    """Return misspellings of all queries, the correct query of each text of the table, and the ids by query.

    A misspelling that is the text of another query is dropped: each text has one meaning and is in one split.
    """
    seen = {row.text for row in rows}
    misspelled: list[Text] = []
    clean = list(range(len(rows)))
    ids = np.repeat(np.arange(len(rows))[:, None], MISSPELLINGS, axis=1)
    for query, row in enumerate(rows):
        for i in range(MISSPELLINGS):
            text = misspell(row.text, rng)
            if text not in seen:
                seen.add(text)
                ids[query, i] = len(clean)
                clean.append(query)
                misspelled.append(row._replace(text=text))
    return misspelled, np.array(clean), ids


def _content(text: str) -> list[str]:
    return [word for word in text.split() if word not in FUNCTION_WORDS]


def _split(texts: list[str], paper: int) -> Ints:
    """Assign TRAIN, DEV or TEST by a hash of the content words, so that queries with the same ones stay together.

    The paper's queries, and queries with the same content words, are in TEST.
    """
    groups = [" ".join(sorted(set(_content(text)))) for text in texts]
    percent = np.array([zlib.crc32(group.encode()) % 100 for group in groups])
    papers = frozenset(groups[:paper])
    is_paper = np.array([group in papers for group in groups])
    return np.select([is_paper, percent < SPLIT_PERCENT[0], percent < SPLIT_PERCENT[1]], [TEST, DEV, TEST], TRAIN)


# --- the list of titles of each query ----------------------------------------------------------------------------


def _lists(queries: Texts, titles: Texts, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Return the titles listed for each query, and their grades. Relevant titles are taken first, random ones last."""
    every = np.arange(len(queries))[:, None]

    def drawn(count: int, key: Callable[[Texts], Ints]) -> Ints:
        wanted = np.repeat(key(queries)[:, None], count, axis=1)
        return _draw(key(titles), np.arange(len(titles)), wanted, rng)

    paper = np.full((len(queries), 1), -1)
    for query, (_, (text, *_)) in enumerate(vocabulary.PAPER_PAIRS):
        paper[query] = titles.text.index(text)
    alike = _lookalikes(queries, titles, 6, rng)
    columns = [
        paper,
        drawn(2, lambda t: np.where(t.intent < 0, -1, (t.intent * 1000 + t.attribute + 1) * 3 + t.kind)),
        drawn(3, lambda t: t.intent),
        drawn(2, lambda t: np.where(t.kind == NAVIGATE, t.site * 1000 + t.family + 1, -1)),
        drawn(4, lambda t: t.site),
        drawn(3, lambda t: t.family),
        drawn(3, lambda t: np.where((t.kind == NAVIGATE) & (t.family < 0), t.topic, -1)),
        np.where(grade(queries, titles, every, alike) <= FAIR, alike, -1),
        drawn(3, lambda t: t.topic),
        # Consecutive titles of the catalogue are random and distinct, so that no list is too short.
        (rng.integers(0, len(titles), every.shape) + np.arange(LIST_LENGTH)) % len(titles),
    ]
    lists = _first_distinct(np.hstack(columns), LIST_LENGTH)
    return lists, grade(queries, titles, every, lists)


def _draw(keys: Ints, values: Ints, wanted: Ints, rng: np.random.Generator) -> Ints:
    """Return a random value of each wanted key; -1 if there is none or the key is negative."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    start, stop = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
    chosen = start + (rng.random(wanted.shape) * (stop - start)).astype(np.int64)
    exists = (stop > start) & (wanted >= 0)
    return np.where(exists, values[np.minimum(chosen, len(values) - 1)], -1)


def _lookalikes(queries: Texts, titles: Texts, count: int, rng: np.random.Generator) -> Ints:
    """Return random titles that share a content word with each query."""
    numbers: dict[str, int] = {}
    title_words = [[numbers.setdefault(word, len(numbers)) for word in _content(text)] for text in titles.text]
    query_words = [[numbers[word] for word in _content(text) if word in numbers] or [-1] for text in queries.text]
    keys = np.array([word for row in title_words for word in row])
    values = np.repeat(np.arange(len(titles)), [len(row) for row in title_words])
    size = np.array([len(row) for row in query_words])
    first = np.cumsum(size) - size
    position = first[:, None] + (rng.random((len(size), count)) * size[:, None]).astype(np.int64)
    return _draw(keys, values, np.array([word for row in query_words for word in row])[position], rng)


def _first_distinct(rows: Ints, count: int) -> Ints:
    """Return the first `count` distinct ids of each row, without negative ones, in ascending order."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    repeated = np.zeros(rows.shape, dtype=bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    first = np.argsort(repeated | (rows < 0), axis=1, kind="stable")[:, :count]
    return np.sort(np.take_along_axis(rows, first, axis=1), axis=1)


# --- how often each query is asked -------------------------------------------------------------------------------


def _popularity(kind: Ints, training: Flags) -> NDArray[np.float64]:
    """Return a head and a long tail within each kind, scaled to the shares of the kinds."""
    share = np.zeros(len(kind))
    for number, total in enumerate(KIND_SHARES):
        members = np.flatnonzero((kind == number) & training)
        weights = 1 / (np.arange(len(members)) + ZIPF_OFFSET) ** ZIPF_POWER
        share[members] = total * weights / weights.sum()
    return share
