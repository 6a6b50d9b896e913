"""The texts of the simulated site: titles and queries are phrased from the intents of vocabulary.py.

People and publishers prefer different synonyms, so that many clicked titles share no word with their query.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from clickvec.lab.simulate import vocabulary

_T = TypeVar("_T")

INFORM, NAVIGATE, BUY = 0, 1, 2  # the purpose of a query or a title

TITLES_PER_INTENT = 16
QUERIES_PER_INTENT = 100  # about two thirds of them are distinct
ATTRIBUTE_SHARE = 0.45  # of queries and titles
SECOND_FORM_SHARE = 0.3  # of titles: many say the same thing twice, so that more searches find them
SITE_SHARE = 0.5  # of titles
BUY_SHARE = {False: 0.125, True: 0.3}  # of the queries for an intent; of the titles
TASTE = 0.65  # each synonym is used this much less often than the one before it (by publishers: the one after it)

FUNCTION_WORDS = frozenset(vocabulary.FUNCTION_WORDS.split())
_PREPOSITIONS = frozenset(("at", "during", "for", "from", "in", "on", "over", "under", "while", "with", "without"))
_KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_ADJACENT = {key: row[max(i - 1, 0) : i] + row[i + 1 : i + 2] for row in _KEYBOARD for i, key in enumerate(row)}


class Text(NamedTuple):
    """A query or a title and its meaning; -1 where it has no such part."""

    text: str
    topic: int
    family: int = -1
    intent: int = -1
    attribute: int = -1
    site: int = -1
    kind: int = INFORM


class Names(NamedTuple):
    """The names of the numbers in `Text`; families and attributes have several spellings each."""

    topics: tuple[str, ...]
    families: tuple[tuple[str, ...], ...]
    intents: tuple[str, ...]
    attributes: tuple[tuple[str, ...], ...]
    sites: tuple[str, ...]


class _Form(NamedTuple):
    """One way to phrase an intent: its words with their synonyms, and whether it is an action."""

    words: tuple[tuple[str, ...], ...]
    action: bool


class _Theme(NamedTuple):
    """An intent with its forms, attributes and sites."""

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
        forms.append(_Form(words, action=form.startswith("to ")))
    return tuple(forms)


def _read_topics() -> tuple[Names, list[_Theme]]:
    """Number everything in the vocabulary, in its order."""
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


class Author:
    """Phrases every title and query of a site. People prefer the first synonyms and forms, publishers the last."""

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
        """Return the catalogue in random order, so that an id carries no information."""
        rows = [self._paper_title(*title) for _, title in vocabulary.PAPER_PAIRS]
        rows += [self._title(theme) for theme in self.themes for _ in range(TITLES_PER_INTENT)]
        rows = _distinct(rows + self._pages())
        self.rng.shuffle(rows)
        return rows

    def queries(self) -> tuple[list[Text], list[Text]]:
        """Return the paper's queries, and all others in random order. All texts are distinct."""
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
            text = f"{text} {joined(self.names.sites[site])}"
        return Text(text, theme.topic, theme.family, theme.intent, attribute, site, kind)

    def _choose(self, theme: _Theme, publisher: bool) -> tuple[int, int, _Form]:
        kind = BUY if self.rng.random() < BUY_SHARE[publisher] else INFORM
        attribute = self.rng.choice(theme.attributes) if self.rng.random() < ATTRIBUTE_SHARE else -1
        forms = [form for form in theme.forms if kind == INFORM or not form.action]  # one cannot buy an action
        return kind, attribute, self._pick(forms, publisher)

    def _phrase(self, form: _Form, kind: int, attribute: int, publisher: bool) -> str:
        text = self._spell(form, publisher)
        if attribute >= 0:
            text = self._with_attribute(text, self._pick(self.names.attributes[attribute], publisher), form.action)
        style = "buy" if kind == BUY else "do" if form.action else "thing"
        phrases, weights = self._phrases[publisher, style]
        return self.rng.choices(phrases, cum_weights=weights)[0].replace("{x}", text)

    def _spell(self, form: _Form, publisher: bool) -> str:
        return " ".join([self._pick(spellings, publisher) for spellings in form.words])

    def _with_attribute(self, text: str, attribute: str, action: bool) -> str:
        after = action or attribute.split()[0] in _PREPOSITIONS or self.rng.random() < 0.3
        return f"{text} {attribute}" if after else f"{attribute} {text}"

    def _sections(self) -> list[tuple[int, int, int]]:
        """Return (topic, site, family) of all sections of all sites; the family of a home page is -1."""
        sections = {(theme.topic, site, theme.family): None for theme in self.themes for site in theme.sites}
        homes = {(topic, site, -1): None for topic, site, _ in sections}
        return [*homes, *sections]

    def _pages(self) -> list[Text]:
        """Return the titles of the home pages and sections of the sites."""
        rows = []
        for topic, site, family in self._sections():
            phrases = vocabulary.SECTION_TITLES if family >= 0 else vocabulary.HOME_TITLES
            sections = self.names.families[family] if family >= 0 else ("", "")
            for phrase, section in zip(phrases, reversed(sections), strict=True):
                name = joined(self.names.sites[site])
                text = phrase.format(site=name, topic=self.names.topics[topic], x=section)
                rows.append(Text(text, topic, family, site=site, kind=NAVIGATE))
        return rows

    def _site_queries(self) -> list[Text]:
        rows = []
        for topic, site, family in self._sections():
            phrases = vocabulary.SECTION_QUERIES if family >= 0 else vocabulary.SITE_QUERIES
            sections = self.names.families[family] if family >= 0 else ("",)
            for name in (joined(self.names.sites[site]), self.names.sites[site]):
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


def joined(site: str) -> str:
    """Return the name of a site as one word."""
    return site.replace(" ", "")


def _distinct(rows: list[Text]) -> list[Text]:
    """Return the first row of each text."""
    first: dict[str, Text] = {}
    for row in rows:
        first.setdefault(row.text, row)
    return list(first.values())


def misspell(text: str, rng: random.Random) -> str:
    """Misspell one of the longer words of a text; a text without one stays the same."""
    words = text.split()
    long = [i for i, word in enumerate(words) if len(word) > 3 and word not in FUNCTION_WORDS]
    if long:
        i = rng.choice(long)
        words[i] = _misspell_word(words[i], rng)
    return " ".join(words)


def _misspell_word(word: str, rng: random.Random) -> str:
    """Drop a letter, double it, replace it by an adjacent key, or swap it with the next. The first letter stays."""
    i = rng.randrange(1, len(word) - 1)
    before, letter, after = word[:i], word[i], word[i + 1 :]
    beside = rng.choice(_ADJACENT.get(letter, letter))
    swapped = after[0] + letter + after[1:]
    return before + rng.choice((after, letter * 2 + after, beside + after, swapped))
