"""The simulated site behind `simulate`: its titles and queries, the lists of titles, and the grades.

A `Site` is phrased from the intents of `topics.py`. People and publishers prefer different synonyms, so many
clicked titles share no word with their query. Every query has a list of 15 titles: right ones, related ones, ones that
only look alike, and chance ones. Everything follows from the seed.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from clickvec.lab.simulate import vocabulary as vocabulary

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_T = TypeVar("_T")

INFORM, NAVIGATE, BUY = 0, 1, 2  # what a query is after, and what a title offers
BAD, FAIR, GOOD, EXCELLENT = 0, 1, 2, 3
TRAIN, DEV, TEST = 0, 1, 2

TITLES_PER_INTENT = 16
QUERIES_PER_INTENT = 100  # drawn; about two thirds of them are different
MISSPELLINGS = 2  # different ones of each query
ATTRIBUTE_SHARE = 0.45
SECOND_FORM_SHARE = 0.3  # of titles: many say the same thing twice, for more searches to find them
SITE_SHARE = 0.5  # of titles
BUY_SHARE = {False: 0.125, True: 0.3}  # of queries that ask for an intent; of titles
TASTE = 0.65  # each synonym is used this much less than the one before it (by publishers, the one after it)
SPLIT_PERCENT = (4, 12)  # of query groups: below the first dev, below the second test, the others training
LIST_LENGTH = 15  # judged titles a query, as in the paper
KIND_SHARES = (0.7, 0.2, 0.1)  # of page views: informational, navigational, transactional
ZIPF_OFFSET, ZIPF_POWER = 20, 0.8  # popularity is 1 / (rank + offset) ** power

_FUNCTION_WORDS = frozenset(vocabulary.FUNCTION_WORDS.split())
_PREPOSITIONS = frozenset(("at", "during", "for", "from", "in", "on", "over", "under", "while", "with", "without"))
_KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_BESIDE = {key: row[max(i - 1, 0) : i] + row[i + 1 : i + 2] for row in _KEYBOARD for i, key in enumerate(row)}


# --- the site ----------------------------------------------------------------------------------------------------


class Text(NamedTuple):
    """A query or a title with what it is about; -1 where it says nothing of the sort."""

    text: str
    topic: int
    family: int = -1
    intent: int = -1
    attribute: int = -1
    site: int = -1
    kind: int = INFORM


@dataclass(frozen=True)
class Texts:
    """Many `Text`s as columns; the place of a text is its id."""

    text: tuple[str, ...]
    topic: Ints
    family: Ints
    intent: Ints
    attribute: Ints
    site: Ints
    kind: Ints

    @classmethod
    def of(cls, rows: list[Text]) -> Texts:
        """The columns of these rows."""
        columns = np.array([row[1:] for row in rows], dtype=np.int64).T
        return cls(tuple(row.text for row in rows), *columns)

    def __len__(self) -> int:
        """How many texts."""
        return len(self.text)


class Names(NamedTuple):
    """The names behind the numbers; families and attributes have several spellings each."""

    topics: tuple[str, ...]
    families: tuple[tuple[str, ...], ...]
    intents: tuple[str, ...]
    attributes: tuple[tuple[str, ...], ...]
    sites: tuple[str, ...]


@dataclass(frozen=True)
class Site:
    """The simulated site: its titles, its queries, and the grades of the titles listed for each query.

    The first `len(lists)` queries are spelled right, the first `paper` of them are the paper's own; the others are
    misspellings.
    """

    names: Names
    titles: Texts
    queries: Texts
    paper: int
    clean: Ints  # of each query, the id of the query that was meant
    misspellings: Ints  # (clean queries, MISSPELLINGS): ids; the query's own where none was found
    split: Ints  # of each query: TRAIN, DEV or TEST
    share: NDArray[np.float64]  # of each clean query, its share of the page views; 0 outside training
    lists: Ints  # (clean queries, LIST_LENGTH): title ids, rising
    grades: Ints  # of the lists
    engine: NDArray[np.float32]  # of the lists: the site's own score of each title, right more often than not

    @classmethod
    def build(cls, seed: int = 0) -> Site:
        """The site of this seed; another seed gives other phrasings of the same intents."""
        author = _Author(random.Random(seed))
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
        """The name of a text's intent; that of a page of a site is the site's name, with the section's."""
        if texts.intent[number] >= 0:
            return self.names.intents[int(texts.intent[number])]
        family = int(texts.family[number])
        section = f" {self.names.families[family][0]}" if family >= 0 else ""
        return _joined(self.names.sites[int(texts.site[number])]) + section


def grade(queries: Texts, titles: Texts, query: Ints, title: Ints) -> Ints:
    """The grade of each title for each query (ids of the two tables, broadcast against each other).

    Asked for an intent: Good has that intent; Excellent also has the attribute and the purpose (to read or to buy) that
    were asked for, no more; Fair has that intent for another attribute, or another intent of the family. Asked for a
    site: Excellent is the page itself, Good another that fits, Fair the rest of the site, or the like at another site.
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


# --- phrasing ----------------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """One way to phrase an intent: its words, each with its spellings, and whether it is something one does."""

    words: tuple[tuple[str, ...], ...]
    deed: bool


class _Theme(NamedTuple):
    """An intent with what it takes to phrase it."""

    topic: int
    family: int
    intent: int
    forms: tuple[_Form, ...]
    attributes: range
    sites: range


def _read_forms(line: str, synonyms: dict[str, tuple[str, ...]]) -> tuple[_Form, ...]:
    forms = []
    for form in line.split(" | "):
        words = tuple(synonyms.get(word, (word,)) for word in form.removeprefix("to ").split())
        forms.append(_Form(words, deed=form.startswith("to ")))
    return tuple(forms)


def _read_topics() -> tuple[Names, list[_Theme]]:
    """Number everything in the vocabulary, in the order in which it stands there."""
    themes: list[_Theme] = []
    families: list[tuple[str, ...]] = []
    attributes: list[tuple[str, ...]] = []
    sites: list[str] = []
    intents: list[str] = []
    for topic, data in enumerate(vocabulary.TOPICS.values()):
        lines = [line.split() for line in (*vocabulary.COMMON_WORDS, *data["words"])]
        synonyms = {line[0]: tuple(word.replace("_", " ") for word in line) for line in lines}
        own_attributes = range(len(attributes), len(attributes) + len(data["attributes"]))
        own_sites = range(len(sites), len(sites) + len(data["sites"]))
        attributes += [tuple(line.split("/")) for line in data["attributes"]]
        sites += data["sites"]
        for family, family_intents in data["families"].items():
            for intent, line in family_intents.items():
                forms = _read_forms(line, synonyms)
                themes.append(_Theme(topic, len(families), len(intents), forms, own_attributes, own_sites))
                intents.append(intent)
            families.append(tuple(family.split("/")))
    names = Names(tuple(vocabulary.TOPICS), tuple(families), tuple(intents), tuple(attributes), tuple(sites))
    return names, themes


class _Author:
    """Phrases every title and query of a site. People take early synonyms and forms, publishers late ones."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names, self.themes = _read_topics()
        self._phrases = {
            (publisher, style): ([phrase for _, phrase in phrases], list(accumulate(weight for weight, _ in phrases)))
            for publisher, table in ((False, vocabulary.QUERY_PHRASES), (True, vocabulary.TITLE_PHRASES))
            for style, phrases in table.items()
        }
        falling = [[TASTE**i for i in range(n)] for n in range(10)]
        self._weights = {
            False: [list(accumulate(weights)) for weights in falling],
            True: [list(accumulate(reversed(weights))) for weights in falling],
        }

    def titles(self) -> list[Text]:
        """The catalogue, in no order, so that an id tells nothing."""
        rows = [self._paper_title(*title) for _, title in vocabulary.PAPER_PAIRS]
        rows += [self._title(theme) for theme in self.themes for _ in range(TITLES_PER_INTENT)]
        rows = _distinct(rows + self._pages())
        self.rng.shuffle(rows)
        return rows

    def queries(self) -> tuple[list[Text], list[Text]]:
        """The paper's queries, and all others in no order; no text twice."""
        paper = [self._paper_query(*query) for query, _ in vocabulary.PAPER_PAIRS]
        paper += [self._paper_query(text, intent, "") for text, intent in vocabulary.PAPER_QUERIES]
        rows = [self._query(theme) for theme in self.themes for _ in range(QUERIES_PER_INTENT)]
        rows = _distinct(paper + rows + self._site_queries())[len(paper) :]
        self.rng.shuffle(rows)
        return paper, rows

    def _pick(self, options: Sequence[_T], publisher: bool) -> _T:
        return self.rng.choices(options, cum_weights=self._weights[publisher][len(options)])[0]

    def _query(self, theme: _Theme) -> Text:
        kind, attribute, form = self._choose(theme, publisher=False)
        text = self._phrase(form, kind, attribute, publisher=False)
        return Text(text, theme.topic, theme.family, theme.intent, attribute, kind=kind)

    def _title(self, theme: _Theme) -> Text:
        kind, attribute, form = self._choose(theme, publisher=True)
        text = self._phrase(form, kind, attribute, publisher=True)
        if self.rng.random() < SECOND_FORM_SHARE:
            second = self.rng.choice([other for other in theme.forms if other is not form])
            text = f"{text} {self._spell(second, publisher=True)}"
        site = self.rng.choice(theme.sites) if self.rng.random() < SITE_SHARE else -1
        if site >= 0:
            text = f"{text} {_joined(self.names.sites[site])}"
        return Text(text, theme.topic, theme.family, theme.intent, attribute, site, kind)

    def _choose(self, theme: _Theme, publisher: bool) -> tuple[int, int, _Form]:
        kind = BUY if self.rng.random() < BUY_SHARE[publisher] else INFORM
        attribute = self.rng.choice(theme.attributes) if self.rng.random() < ATTRIBUTE_SHARE else -1
        forms = [form for form in theme.forms if kind == INFORM or not form.deed]  # one buys things
        return kind, attribute, self._pick(forms, publisher)

    def _phrase(self, form: _Form, kind: int, attribute: int, publisher: bool) -> str:
        text = self._spell(form, publisher)
        if attribute >= 0:
            text = self._with_attribute(text, self._pick(self.names.attributes[attribute], publisher), form.deed)
        style = "buy" if kind == BUY else "do" if form.deed else "thing"
        phrases, weights = self._phrases[publisher, style]
        return self.rng.choices(phrases, cum_weights=weights)[0].replace("{x}", text)

    def _spell(self, form: _Form, publisher: bool) -> str:
        return " ".join([self._pick(spellings, publisher) for spellings in form.words])

    def _with_attribute(self, text: str, attribute: str, deed: bool) -> str:
        after = deed or attribute.split()[0] in _PREPOSITIONS or self.rng.random() < 0.3
        return f"{text} {attribute}" if after else f"{attribute} {text}"

    def _sections(self) -> list[tuple[int, int, int]]:
        """(topic, site, family) of all sections of all sites, with family -1 for the site itself."""
        sections = {(theme.topic, site, theme.family): None for theme in self.themes for site in theme.sites}
        homes = {(topic, site, -1): None for topic, site, _ in sections}
        return [*homes, *sections]

    def _pages(self) -> list[Text]:
        """The titles of the sites' home pages and sections."""
        rows = []
        for topic, site, family in self._sections():
            phrases = vocabulary.SECTION_TITLES if family >= 0 else vocabulary.HOME_TITLES
            sections = self.names.families[family] if family >= 0 else ("", "")
            for phrase, section in zip(phrases, reversed(sections), strict=True):
                name = _joined(self.names.sites[site])
                text = phrase.format(site=name, topic=self.names.topics[topic], x=section)
                rows.append(Text(text, topic, family, site=site, kind=NAVIGATE))
        return rows

    def _site_queries(self) -> list[Text]:
        rows = []
        for topic, site, family in self._sections():
            phrases = vocabulary.SECTION_QUERIES if family >= 0 else vocabulary.SITE_QUERIES
            sections = self.names.families[family] if family >= 0 else ("",)
            for name in (_joined(self.names.sites[site]), self.names.sites[site]):
                texts = [phrase.format(site=name, x=section) for phrase in phrases for section in sections]
                rows += [Text(text, topic, family, site=site, kind=NAVIGATE) for text in texts]
        return rows

    def _paper_query(self, text: str, intent: str, attribute: str) -> Text:
        theme, number = self._about(intent, attribute)
        return Text(text, theme.topic, theme.family, theme.intent, number)

    def _paper_title(self, text: str, intent: str, attribute: str, sells: bool) -> Text:
        theme, number = self._about(intent, attribute)
        return Text(text, theme.topic, theme.family, theme.intent, number, kind=BUY if sells else INFORM)

    def _about(self, intent: str, attribute: str) -> tuple[_Theme, int]:
        theme = self.themes[self.names.intents.index(intent)]
        numbers = {self.names.attributes[number][0]: number for number in theme.attributes}
        return theme, numbers[attribute] if attribute else -1


def _joined(site: str) -> str:
    return site.replace(" ", "")


def _distinct(rows: list[Text]) -> list[Text]:
    """The rows without those whose text stood there before."""
    first: dict[str, Text] = {}
    for row in rows:
        first.setdefault(row.text, row)
    return list(first.values())


def _misspell(rows: list[Text], rng: random.Random) -> tuple[list[Text], Ints, Ints]:
    """Misspellings of all queries, the query that each text of the table means, and each query's misspellings.

    One that is another query's text is dropped: a text has one meaning, and is on one side of the split.
    """
    seen = {row.text for row in rows}
    misspelled: list[Text] = []
    clean = list(range(len(rows)))
    found = np.repeat(np.arange(len(rows))[:, None], MISSPELLINGS, axis=1)
    for query, row in enumerate(rows):
        for i in range(MISSPELLINGS):
            text = _misspell_text(row.text, rng)
            if text not in seen:
                seen.add(text)
                found[query, i] = len(clean)
                clean.append(query)
                misspelled.append(row._replace(text=text))
    return misspelled, np.array(clean), found


def _misspell_text(text: str, rng: random.Random) -> str:
    words = text.split()
    long = [i for i, word in enumerate(words) if len(word) > 3 and word not in _FUNCTION_WORDS]
    if long:
        i = rng.choice(long)
        words[i] = _misspell_word(words[i], rng)
    return " ".join(words)


def _misspell_word(word: str, rng: random.Random) -> str:
    """A letter lost, doubled, hit beside its key, or swapped with the next; the first letter stays."""
    i = rng.randrange(1, len(word) - 1)
    before, letter, after = word[:i], word[i], word[i + 1 :]
    beside = rng.choice(_BESIDE.get(letter, letter))
    swapped = after[0] + letter + after[1:]
    return before + rng.choice((after, letter * 2 + after, beside + after, swapped))


def _content(text: str) -> list[str]:
    return [word for word in text.split() if word not in _FUNCTION_WORDS]


def _split(texts: list[str], paper: int) -> Ints:
    """TRAIN, DEV or TEST by a hash of the content words, so that rephrasings by function words stay on one side.

    The paper's queries are for the test, and so is what differs from them by function words only.
    """
    groups = [" ".join(sorted(set(_content(text)))) for text in texts]
    percent = np.array([zlib.crc32(group.encode()) % 100 for group in groups])
    papers = frozenset(groups[:paper])
    is_paper = np.array([group in papers for group in groups])
    return np.select([is_paper, percent < SPLIT_PERCENT[0], percent < SPLIT_PERCENT[1]], [TEST, DEV, TEST], TRAIN)


# --- the list of titles of each query ------------------------------------------------------------------------------


def _lists(queries: Texts, titles: Texts, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """The titles listed for each query, and their grades: first what is right, then what is near, then chance."""
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
        # Neighbours in the catalogue are by chance and all different, so no list comes out short.
        (rng.integers(0, len(titles), every.shape) + np.arange(LIST_LENGTH)) % len(titles),
    ]
    lists = _first_distinct(np.hstack(columns), LIST_LENGTH)
    return lists, grade(queries, titles, every, lists)


def _draw(keys: Ints, values: Ints, wanted: Ints, rng: np.random.Generator) -> Ints:
    """For each wanted key one of the values that have it, by chance; -1 where there is none or the key is negative."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    start, stop = np.searchsorted(keys, wanted, "left"), np.searchsorted(keys, wanted, "right")
    chosen = start + (rng.random(wanted.shape) * (stop - start)).astype(np.int64)
    found = (stop > start) & (wanted >= 0)
    return np.where(found, values[np.minimum(chosen, len(values) - 1)], -1)


def _lookalikes(queries: Texts, titles: Texts, count: int, rng: np.random.Generator) -> Ints:
    """Titles that share a content word with the query."""
    numbers: dict[str, int] = {}
    title_words = [[numbers.setdefault(word, len(numbers)) for word in _content(text)] for text in titles.text]
    query_words = [[numbers[word] for word in _content(text) if word in numbers] or [-1] for text in queries.text]
    keys = np.array([word for row in title_words for word in row])
    values = np.repeat(np.arange(len(titles)), [len(row) for row in title_words])
    size = np.array([len(row) for row in query_words])
    first = np.cumsum(size) - size
    place = first[:, None] + (rng.random((len(size), count)) * size[:, None]).astype(np.int64)
    return _draw(keys, values, np.array([word for row in query_words for word in row])[place], rng)


def _first_distinct(rows: Ints, count: int) -> Ints:
    """The first `count` different ids of each row, negative ones left out, in rising order."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    repeated = np.zeros(rows.shape, dtype=bool)
    np.put_along_axis(repeated, order[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    first = np.argsort(repeated | (rows < 0), axis=1, kind="stable")[:, :count]
    return np.sort(np.take_along_axis(rows, first, axis=1), axis=1)


# --- how often each query is asked -------------------------------------------------------------------------------


def _popularity(kind: Ints, training: Flags) -> NDArray[np.float64]:
    """A head and a long tail within each kind, scaled so that the kinds have their shares of the traffic."""
    share = np.zeros(len(kind))
    for number, total in enumerate(KIND_SHARES):
        members = np.flatnonzero((kind == number) & training)
        weights = 1 / (np.arange(len(members)) + ZIPF_OFFSET) ** ZIPF_POWER
        share[members] = total * weights / weights.sum()
    return share
