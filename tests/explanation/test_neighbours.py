"""The nearest words and titles: by hand on a model of known weights, and against brute force on every tower."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import TEXTS, TOWERS, tiny

from clickvec.config import Tower
from clickvec.errors import ClickvecError
from clickvec.explanation.neighbours import Nearest, NearTitle, NearWord, Neighbours
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model
from clickvec.render.terminal.model_text import show_nearest
from clickvec.render.terminal.screen import Screen, width
from clickvec.text.tokens import canonical, split_words
from clickvec.text.trigrams import trigrams

TITLES = (*TEXTS, "Hotels IN\tShanghai", "hotel", "", "hotel hotels hostel", "ЖЖЖ", "new york")


def by_meaning(**meaning: str) -> Encoder:
    """A model of two cells, "food" and "health", whose vector of a word is what is said here, by its trigrams."""
    directions = {"food": (1.0, 0.0), "health": (0.0, 1.0), "both": (1.0, 1.0)}
    rows: dict[str, tuple[float, float]] = {}
    for word, topic in meaning.items():
        for trigram in trigrams(word):
            rows.setdefault(trigram, directions[topic])
    weights = {
        "shared.hidden.input": np.array(list(rows.values()), np.float32),
        "shared.hidden.recurrent": np.zeros((2, 2), np.float32),
        "shared.hidden.bias": np.zeros(2, np.float32),
    }
    return Encoder(Model(Tower("rnn", hidden=2), True, 10, tuple(rows), weights, {}))


KITCHEN = by_meaning(pizza="food", pizzeria="food", menu="food", fever="health", diet="both")
CARDS = ["Pizza menu", "pizzeria menu", "fever diet", "pizza  MENU", "fever", "diet", "menu"]


def names(found: Nearest) -> list[str]:
    return [near.word for near in found.words]


# --- by hand -----------------------------------------------------------------------------------------------------


def test_words_of_the_same_topic_are_near_and_others_are_not() -> None:
    found = Neighbours(KITCHEN, CARDS).nearest("pizza")
    assert (found.word, found.count, found.known) == ("pizza", 2, 1.0)
    assert [(near.word, near.count) for near in found.words] == [
        ("menu", 4),
        ("pizzeria", 1),
        ("diet", 2),
        ("fever", 2),
    ]
    np.testing.assert_allclose([near.cosine for near in found.words], [1, 1, 0.5**0.5, 0], atol=1e-6)


def test_titles_are_as_they_were_written_first_and_equal_ones_are_there_once() -> None:
    found = Neighbours(KITCHEN, CARDS).nearest("pizza", k=3)
    assert [near.title for near in found.titles] == ["Pizza menu", "pizzeria menu", "menu"]
    np.testing.assert_allclose([near.cosine for near in found.titles], 1, atol=1e-6)


def test_a_word_that_nobody_typed_is_near_by_the_letters_it_shares() -> None:
    found = Neighbours(KITCHEN, CARDS).nearest("PIZZZA")  # #pi piz izz zzz zza za#: all but zzz
    assert (found.word, found.count, found.known) == ("pizzza", 0, 5 / 6)
    assert names(found)[:2] == ["menu", "pizza"]


def test_a_word_without_a_known_trigram_is_near_to_nothing() -> None:
    found = Neighbours(KITCHEN, [*CARDS, "xqj"]).nearest("xqj")
    assert found == Nearest("xqj", 1, 0.0, (), ())
    assert show_nearest(found, Screen()).startswith("xqj: 1 time in the titles\n")


def test_a_word_of_the_titles_without_a_known_trigram_is_near_to_nothing_either() -> None:
    found = Neighbours(KITCHEN, [*CARDS, "xqj", "xqj xqj", ""]).nearest("fever", k=100)
    assert "xqj" not in names(found)
    assert [near.title for near in found.titles] == [
        "fever",
        "fever diet",
        "diet",
        "Pizza menu",
        "pizzeria menu",
        "menu",
    ]


def test_rare_words_can_be_left_out() -> None:
    learned = Neighbours(KITCHEN, CARDS)
    assert names(learned.nearest("pizza", least=2)) == ["menu", "diet", "fever"]
    assert names(learned.nearest("pizza", least=5)) == []


def test_words_of_a_like_spelling_can_be_left_out() -> None:
    learned = Neighbours(KITCHEN, CARDS)
    assert names(learned.nearest("pizza", unlike=True)) == ["menu", "diet", "fever"]
    assert names(learned.nearest("pizzaiolo", unlike=True)) == ["menu", "diet", "fever"]
    assert learned.nearest("pizza", unlike=True).titles == learned.nearest("pizza").titles


def test_punctuation_at_the_edges_is_no_part_of_a_near_word() -> None:
    learned = Neighbours(KITCHEN, [*CARDS, "pizza, (menu)", "«menu» - fever!", "pizza-menu...", "menu。", "- ... !"])
    found = learned.nearest("pizza", k=100)
    assert {near.word: near.count for near in found.words} == {
        "menu": 7, "pizzeria": 1, "diet": 2, "fever": 3, "pizza-menu": 1,
    }  # fmt: skip
    assert found.count == learned.count("(Pizza,") == 3
    assert learned.count("pizza menu") == 3
    assert learned.count("...") == 0
    assert names(learned.nearest("pizza,", k=100))[:2] == names(found)[:2]  # and no pizza without its comma


def test_a_phrase_is_counted_where_its_words_stand_together() -> None:
    learned = Neighbours(KITCHEN, [*CARDS, "menu pizza", "the pizza menus", "a pizza menu pizza menu"])
    assert learned.nearest("  Pizza\nmenu ").word == "pizza menu"
    assert learned.count("pizza menu") == 4
    assert learned.count("menu") == 7
    assert learned.count("izza men") == 0
    assert {"pizza", "menu"} <= set(names(learned.nearest("pizza menu")))  # each alone is another text


@pytest.mark.parametrize("word", ["", " \t", "\u3000"])
def test_no_word_is_refused(word: str) -> None:
    with pytest.raises(ClickvecError, match="no words"):
        Neighbours(KITCHEN, CARDS).nearest(word)


@pytest.mark.parametrize("titles", [[], [""], ["", " "]])
def test_no_titles_and_no_words_are_near_to_nothing(titles: list[str]) -> None:
    found = Neighbours(KITCHEN, titles).nearest("pizza")
    assert found == Nearest("pizza", 0, 1.0, (), ())
    assert show_nearest(found, Screen()).startswith("pizza: not in the titles, 100% of its")


# --- against brute force -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared_tower", [False, True])
@pytest.mark.parametrize("fields", TOWERS.values(), ids=TOWERS.keys())
def test_the_nearest_are_those_of_the_greatest_cosine(fields: dict[str, Any], shared_tower: bool) -> None:
    encoder = Encoder(tiny(shared_tower=shared_tower, **fields))
    read = encoder.encode_query
    learned = Neighbours(encoder, TITLES)
    words = {word for title in TITLES for word in split_words(title)}
    for asked in ("hotel", "hotl", "new york", "上海"):
        found = learned.nearest(asked, k=1_000)
        cosine = {near.word: near.cosine for near in found.words}
        assert set(cosine) == {word for word in words if word != asked and read(word).any()}
        for word, value in cosine.items():
            assert value == pytest.approx(float(read(word) @ read(asked)), abs=1e-6)
        for near in found.titles:
            assert near.cosine == pytest.approx(float(encoder.encode_document(near.title) @ read(asked)), abs=1e-6)
        assert {canonical(near.title) for near in found.titles} == {canonical(title) for title in TITLES} - {"", "жжж"}
        for near in (found.words, found.titles):
            assert [one.cosine for one in near] == sorted((one.cosine for one in near), reverse=True)


LETTERS = st.text("ab #\t\u3000é上\u0301", max_size=12)


@settings(max_examples=60)
@given(
    titles=st.lists(LETTERS, max_size=8),
    word=LETTERS.filter(lambda word: canonical(word) != ""),
    k=st.integers(1, 5),
    least=st.integers(1, 3),
)
def test_whatever_the_titles_are(titles: list[str], word: str, k: int, least: int) -> None:
    learned = Neighbours(by_meaning(ab="food", ba="health", aba="both"), titles)
    found = learned.nearest(word, k, least=least)
    counts = [word.strip("#") for title in titles for word in split_words(title) if word.strip("#")]
    assert 0 <= found.known <= 1
    assert len(found.words) <= k
    assert len(found.titles) <= k
    assert found.word.strip("#") not in names(found)
    assert all(near.count == counts.count(near.word) >= least for near in found.words)
    assert sum(learned.words.values()) == len(counts)
    assert found.count == counts.count(found.word.strip("#")) or " " in found.word
    assert len({canonical(near.title) for near in found.titles}) == len(found.titles)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["words"] == [vars(near) for near in found.words]
    for room in (80, 40, 1):
        assert show_nearest(found, Screen(room))
    assert found == learned.nearest(word, k, least=least)


# --- on the terminal ---------------------------------------------------------------------------------------------


def test_words_come_with_their_count_and_titles_after_them() -> None:
    found = Nearest(
        "pizza", 1_234, 1.0, (NearWord("pizzeria", 0.62214, 12_345), NearWord("menu", -0.05, 7)),
        (NearTitle("cold pizza", 0.7),),
    )  # fmt: skip
    about, words, titles = show_nearest(found, Screen()).split("\n\n")
    assert about.startswith("pizza: 1,234 times in the titles, 100% of its")
    assert [line.split() for line in words.splitlines()[2:]] == [
        ["0.622", "pizzeria", "12,345"],
        ["-0.050", "menu", "7"],
    ]
    assert titles.splitlines()[2:] == [" 0.700  cold pizza"]


@pytest.mark.parametrize("letter", ["x", "海", "é"])
def test_long_words_and_titles_are_cut_to_the_width(letter: str) -> None:
    long = letter * 500
    found = Nearest("a", 0, 0.5, (NearWord(long, 0.5, 1), NearWord("b", 0.25, 2)), (NearTitle(long, 0.5),) * 3)
    lines = show_nearest(found, Screen(80)).splitlines()
    assert max(map(width, lines)) in (79, 80)
    assert sum("..." in line for line in lines) == 4
    assert max(map(width, show_nearest(found, Screen(120)).splitlines())) in (119, 120)
    assert max(map(width, show_nearest(found, Screen(1)).splitlines())) < 80
