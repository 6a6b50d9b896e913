"""Shared, misspelled and unseen words, scripts and languages, in samples small enough to read."""

from dataclasses import replace

import pytest

from clickvec.doctor.languages import count_languages, language, script
from clickvec.doctor.line_sample import Sample
from clickvec.doctor.sample_words import (
    Misspelling,
    UnseenWords,
    WordOverlap,
    Words,
    _one_edit,
    spelling,
    unseen_words,
    word_overlap,
)


def sample(*lines: tuple[str, str]) -> Sample:
    queries, titles = (list(column) for column in zip(*lines, strict=True))
    return Sample(queries, titles, [1.0] * len(queries), len(queries), shown=frozenset(queries))


def test_shared_words() -> None:
    lines = sample(("red shoes", "shoes, red"), ("red hat", "a hat!"), ("tv", "television"), ("!!", "!!"))
    assert word_overlap(lines, Words.of(lines)) == WordOverlap(4, 2, 1, (("tv", "television"), ("!!", "!!")))


def test_examples_are_only_of_queries_that_may_be_shown() -> None:
    lines = replace(
        sample(("red", "x"), *[("hotel", "hotel")] * 40, ("htoel", "hotel"), ("red zebra", "y")), shown={"hotel"}
    )
    words = Words.of(lines)
    assert spelling(words).misspelled == word_overlap(lines, words).examples.count(0) + 1
    assert (spelling(words).examples, word_overlap(lines, words).examples, unseen_words(words).examples) == ((), (), ())
    assert word_overlap(replace(lines, shown={"red"}), words).examples == (("red", "x"),)


def test_misspelled_words() -> None:
    # hotel occurs 20 times in titles and 10 times in queries. htoel is misspelled; hotels is its plural; hostel is a
    # word of a title; motl is two edits away; hot3l has a digit; motel has another first letter. Nobody who clicks zoo
    # types hotel, so hovel is meant.
    lines = [("hotel", "hotel")] * 10 + [("berlin", "hotel")] * 10
    lines += [
        ("htoel", "berlin"),
        ("htoel cheap", "hotel"),
        ("hotels hostel motl hot3l motel", "hostel"),
        ("hovel", "zoo"),
    ]
    found = spelling(Words.of(sample(*lines)))
    assert (found.words, found.misspelled, found.queries, found.with_misspelling) == (29, 0, 24, 0)  # 31 < 20 * 2
    found = spelling(Words.of(sample(*lines, *[("hotel", "hotel")] * 5)))
    assert found.examples == (Misspelling("htoel", 2, "hotel", 41),)
    assert (found.words, found.misspelled, found.queries, found.with_misspelling) == (34, 2, 29, 2)


@pytest.mark.parametrize(
    ("word", "other", "one"),
    [
        ("hotel", "hotl", True), ("hotl", "hotel", True), ("hotel", "hottel", True), ("hotel", "hatel", True),
        ("hotel", "htoel", True), ("hotel", "hotle", True), ("hotel", "hotel", False), ("hotel", "hotels", False),
        ("hotel", "letoh", False), ("hotel", "hte", False), ("hotel", "ohtle", False), ("lady", "ladies", False),
    ],
)  # fmt: skip
def test_one_edit(word: str, other: str, one: bool) -> None:
    assert _one_edit(word, other) is one


def test_unseen_words() -> None:
    lines = sample(*[("red shoes", "shoes")] * 9, ("red boots", "boots"))
    found = unseen_words(Words.of(lines))
    # boots: #bo boo oot ots ts#; none of them is in red, shoes: #re red ed# #sh sho hoe oes es#
    assert found == UnseenWords(2, 1, 5, 0, ("boots",))
    found = unseen_words(Words.of(sample(*[("red shoes", "shoes")] * 9, ("redshoes", "x"))))
    assert (found.words, found.unseen, found.trigrams, found.known_trigrams) == (1, 1, 8, 6)  # not eds, dsh


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hotel", "Latin"), ("Straße 12", "Latin"), ("гостиница", "Cyrillic"), ("上海 hi", "Han"),
        ("上海酒店", "Han"), ("東京のホテル", "Katakana"), ("فندق", "Arabic"), ("होटल", "Devanagari"),
        ("12 %", "no letters"),
        ("", "no letters"), ("ｈｉ", "Latin"), ("서울", "Hangul"), ("ξενοδοχείο", "Greek"),
    ],
)  # fmt: skip
def test_scripts(text: str, name: str) -> None:
    assert script(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("how to fix the sink", "English"), ("hotel für die familie", "German"),
        ("hôtel pas cher dans le sud", "French"),
        ("cómo hacer pan sin gluten", "Spanish"), ("ricetta della nonna", "Italian"),
        ("pão sem glúten como fazer", "Portuguese"),
        ("hotel voor het gezin", "Dutch"), ("hotel dla rodziny", "Polish"), ("hotell för familj och barn", "Swedish"),
        ("ekmek nasıl yapılır", "Turkish"), ("shoes", None), ("", None),
    ],
)  # fmt: skip
def test_languages(text: str, name: str | None) -> None:
    assert language(text) == name


def test_languages_of_a_sample() -> None:
    found = count_languages(["the sink", "das haus und", "42", "дом в лесу"])
    assert found.scripts == {"Latin": 2, "no letters": 1, "Cyrillic": 1}
    assert found.languages == {"English": 1, "German": 1}
