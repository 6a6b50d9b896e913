"""Text to tokens to trigrams to ids: by hand, and for any text."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.model.packing import chunks, pack
from clickvec.text import trigrams as trigrams_module
from clickvec.text.ragged import ragged
from clickvec.text.token_table import TokenTable
from clickvec.text.tokens import normalise, split_tokens, split_words
from clickvec.text.trigrams import Vocabulary, count_units, trigrams

WORDS = st.sampled_from(
    ["a", "Bath", "tub", "上海", "ＨＯＴＥＬ", "naïve", "nai\u0308ve", "\u00a8", "İ", "ΑΣ", "#", "１０"]
)
TEXTS = st.one_of(st.text(), st.lists(WORDS, max_size=15).map(" \t".join))


# --- words and tokens ---------------------------------------------------------------------------------------------


@given(TEXTS)
def test_normalising_twice_changes_nothing(any_text: str) -> None:
    once = normalise(any_text)
    assert normalise(once) == once
    assert normalise(" ".join(split_words(any_text))).split() == split_words(any_text)


def test_every_single_character_is_normalised_once_for_all() -> None:
    changed = []
    for code in range(sys.maxunicode + 1):
        once = normalise(chr(code))
        if normalise(once) != once:
            changed.append(code)
    assert changed == []


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("Hotels in  SHANGHAI\n", ["hotels", "in", "shanghai"]),
        ("route 66, 2nd", ["route", "66,", "2nd"]),  # digits and signs stay
        ("running runs", ["running", "runs"]),  # no stemming
        ("ＦＵＬＬ ｗｉｄｔｈ １２", ["full", "width", "12"]),
        ("nai\u0308ve CAFÉ", ["na\u00efve", "caf\u00e9"]),  # the marks join their letters
        ("上海\u3000酒店", ["上海", "酒店"]),  # an ideographic space
        ("ﬁne", ["fine"]),  # a ligature
        ("فندق في شنغهاي", ["فندق", "في", "شنغهاي"]),
        ("no\u00a0break", ["no", "break"]),
        ("", []),
        (" \t\n", []),
    ],
)
def test_words(raw: str, words: list[str]) -> None:
    assert split_words(raw) == words


def test_words_past_the_limit_are_treated_as_one_word() -> None:
    words = ["how", "to", "fix", "bath", "tub", "wont", "turn", "off", "at", "night", "in", "my", "new", "house"]
    tokens = split_tokens(" ".join(words), 10)
    assert tokens[:9] == words[:9]
    assert tokens[9:] == ["night in my new house"]
    summed = Counter(trigram for word in words[9:] for trigram in trigrams(word))
    assert Counter(trigrams(tokens[9])) == summed
    assert summed["#ni"] == 1
    assert not any(" " in trigram for trigram in summed)


@pytest.mark.parametrize("words", [0, 1, 9, 10, 11, 30])
def test_the_number_of_tokens(words: int) -> None:
    assert len(split_tokens("w " * words, 10)) == min(words, 10)
    assert len(split_tokens("w " * words, 1)) == min(words, 1)


@given(TEXTS, st.integers(1, 12))
def test_tokens_hold_all_the_words_in_order(any_text: str, max_words: int) -> None:
    tokens = split_tokens(any_text, max_words)
    assert " ".join(tokens).split() == split_words(any_text)
    assert all(" " not in token for token in tokens[: max_words - 1])
    assert all(token == " ".join(token.split()) for token in tokens)


# --- trigrams ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("cat", ["#ca", "cat", "at#"]),
        ("a", ["#a#"]),
        ("ab", ["#ab", "ab#"]),
        ("上海", ["#上海", "上海#"]),
        ("酒", ["#酒#"]),
        ("في", ["#في", "في#"]),
        ("banana", ["#ba", "ban", "ana", "nan", "ana", "na#"]),  # as often as it occurs
        ("in my", ["#in", "in#", "#my", "my#"]),  # a token of two words
    ],
)
def test_trigrams_by_hand(token: str, expected: list[str]) -> None:
    assert trigrams(token) == expected


def test_the_vocabulary_is_by_count_and_then_by_text() -> None:
    vocabulary = Vocabulary.count(["b b a", "cat", "CAT a", "z"])
    assert vocabulary.trigrams == ("#a#", "#b#", "#ca", "at#", "cat", "#z#")
    assert Vocabulary.count(["b b a", "cat", "CAT a", "z"], limit=2).trigrams == ("#a#", "#b#")
    assert len(Vocabulary.count([])) == 0


def test_unknown_trigrams_count_nothing() -> None:
    vocabulary = Vocabulary(["cat", "#ca"])
    assert vocabulary.ids("cat") == [1, 0]
    assert vocabulary.ids("cat cat") == [1, 0, 1, 0]
    assert vocabulary.ids("dog") == []
    table = TokenTable(10)
    assert table.read(["dog cat"]).values.tolist() == [0, 1]  # a word without a known trigram is still a token
    found = vocabulary.rows(table)
    assert found.lengths.tolist() == [0, 2]
    assert found.values.tolist() == [1, 0]


@given(st.lists(TEXTS, max_size=6), st.integers(1, 40))
def test_the_vocabulary_is_that_of_a_counter(texts: list[str], limit: int) -> None:
    counts = Counter(trigram for text in texts for word in split_words(text) for trigram in trigrams(word))
    ranked = sorted(counts, key=lambda trigram: (-counts[trigram], trigram))
    assert Vocabulary.count(texts, limit).trigrams == tuple(ranked[:limit])


def test_whole_words_and_trigrams_compete_by_count() -> None:
    tokens, times = ["cat", "at", "a", "cat at", "dog"], np.array([24.0, 20.0, 36.0, 28.0, 16.0])
    vocabulary = Vocabulary.of_tokens(tokens, times, whole_words=True)
    # Of one letter, the trigram is the word. The words of a joined token are not counted, and dog occurs 16 times.
    expected = ("at#", "#ca", "cat", "#at", "#a#", "#cat#", "#at#", "#do", "dog", "og#")
    assert vocabulary.trigrams == expected
    assert Vocabulary.of_tokens(tokens, times, 6, whole_words=True).trigrams == expected[:6]
    assert vocabulary.ids("cat") == [1, 2, 0, 5]
    assert vocabulary.ids("cat dog at") == [1, 2, 0, 7, 8, 9, 3, 0, 5, 6]
    assert vocabulary.known_share("cat") == 1
    assert vocabulary.known_share("cats") == 0.5
    assert count_units(expected) == {"trigrams": 8, "whole words": 2}


@given(st.lists(TEXTS, max_size=6), st.integers(1, 40), st.integers(1, 3), st.integers(1, 4))
def test_the_vocabulary_with_words_is_that_of_a_counter(texts: list[str], limit: int, least: int, at_once: int) -> None:
    words = Counter(word for text in texts for word in split_words(text))
    counts = Counter(trigram for word in words.elements() for trigram in trigrams(word))
    counts.update({f"#{word}#": times for word, times in words.items() if times >= least and len(word) > 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trigrams_module, "LEAST_TIMES", least)
        patch.setattr(trigrams_module, "_TOKENS_AT_ONCE", at_once)
        found = Vocabulary.of_tokens(list(words), np.array(list(words.values()), float), limit, whole_words=True)
    assert found.trigrams == tuple(sorted(counts, key=lambda trigram: (-counts[trigram], trigram))[:limit])


TOKENS = st.lists(TEXTS, max_size=6).map(lambda texts: [token for text in texts for token in split_tokens(text, 3)])


@given(TOKENS, st.integers(1, 40), st.integers(1, 4))
def test_rows_are_the_ids_of_each_token(tokens: list[str], known: int, at_once: int) -> None:
    words = [f"#{word}#" for token in tokens[::3] for word in token.split() if len(word) > 1]
    vocabulary = Vocabulary(list(dict.fromkeys([*words, *Vocabulary.count(tokens[::2], limit=known).trigrams])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trigrams_module, "_TOKENS_AT_ONCE", at_once)
        found = vocabulary.rows(tokens)
    rows = [found.values[a:b].tolist() for a, b in itertools.pairwise(found.offsets.tolist())]
    assert rows == [vocabulary.ids(token) for token in tokens]
    assert found.values.dtype == np.int32


def test_rows_of_tokens_by_hand() -> None:
    vocabulary = Vocabulary(
        ["#c#", "#c+", "c++", "++#", "#a#", "#ba", "bat", "at#", "a#\ud800", "上海#", "#上海", "long!"]
    )
    tokens = ["c++", "bat a", "a", "c", "#", "上海", "tab", "上海 bat"]
    expected = [[1, 2, 3], [5, 6, 7, 4], [4], [0], [], [10, 9], [], [10, 9, 5, 6, 7]]
    assert [vocabulary.ids(token) for token in tokens] == expected
    found = vocabulary.rows(tokens)
    assert found.values.tolist() == [place for row in expected for place in row]
    assert found.lengths.tolist() == [len(row) for row in expected]
    assert vocabulary.rows(["a#\ud800"]).values.tolist() == [4, 8]  # half a pair, as a broken file may hold
    assert Vocabulary([]).rows(tokens).lengths.tolist() == [0] * len(tokens)


def test_rows_of_letters_from_first_to_last() -> None:
    vocabulary = Vocabulary(["#é#", "\U0010ffff" * 3, "é\x7f\x80", "éé", "\0\0é", "#é ", "上海#", "\U0010fffe" * 3])
    tokens = ["é", "\U0010ffff" * 4, "aé\x7f\x80", "\0\0é", "ø", "上海", "\U0010fffe" * 3, "\U0010fffe\U0010ffff" * 2]
    found = vocabulary.rows(tokens)
    assert (
        found.values.tolist() == [place for token in tokens for place in vocabulary.ids(token)] == [0, 1, 1, 2, 4, 6, 7]
    )
    assert found.lengths.tolist() == [1, 2, 1, 1, 0, 1, 1, 0]


def test_the_paper_bounds_the_vocabulary() -> None:
    assert trigrams_module.MAX_TRIGRAMS == 50_000


# --- tables and batches ------------------------------------------------------------------------------------------


@given(st.lists(TEXTS, max_size=6), st.integers(1, 12))
def test_reading_equals_splitting(texts: list[str], max_words: int) -> None:
    table = TokenTable(max_words)
    first, again = table.read(texts), table.read(texts)
    assert first.values.tolist() == again.values.tolist()
    tokens = table[:]
    assert len(set(tokens)) == len(tokens) == len(table)
    for row, one in enumerate(texts):
        ids = first.values[first.offsets[row] : first.offsets[row + 1]]
        assert [tokens[number] for number in ids] == split_tokens(one, max_words)


def test_a_table_of_whole_texts() -> None:
    table, tokens = TokenTable(0), TokenTable(2)
    assert table.read(["B  a b", "", "b A B", " \t"]).values.tolist() == [0, 1, 0, 1]
    assert table[:] == ["b a b", ""]
    rows = tokens.read_table(table, 0)
    assert (rows.values.tolist(), rows.offsets.tolist(), tokens[:]) == ([0, 1], [0, 2, 2], ["b", "a b"])
    assert tokens.read_table(table, 2).offsets.tolist() == [0]


def test_new_tokens_get_the_next_ids() -> None:
    table = TokenTable(10)
    assert table.read(["b a b"]).values.tolist() == [0, 1, 0]
    assert table.read(["c a"]).values.tolist() == [2, 1]
    assert table[2:] == ["c"]


@given(st.lists(st.lists(st.integers(0, 99), max_size=6), max_size=8), st.booleans())
def test_unpacking_gives_the_texts_back(rows: list[list[int]], backwards: bool) -> None:
    packed = pack(ragged(rows), backwards=backwards)
    assert sorted(packed.order.tolist()) == list(range(len(rows)))
    assert len(packed.tokens) == sum(packed.sizes) == sum(map(len, rows))
    assert list(packed.sizes) == sorted(packed.sizes, reverse=True)
    assert all(packed.sizes)
    unpacked: list[list[int]] = [[] for _ in rows]
    start = 0
    for size in packed.sizes:
        for place in range(size):
            unpacked[packed.order[place]].append(int(packed.tokens[start + place]))
        start += size
    assert unpacked == [row[::-1] if backwards else row for row in rows]


@given(st.lists(st.lists(st.integers(0, 99), max_size=6), max_size=8), st.integers(1, 9))
def test_chunks_hold_each_text_once(rows: list[list[int]], size: int) -> None:
    found: dict[int, list[int]] = {}
    for places, columns in chunks(ragged(rows), size):
        assert 1 <= len(places) <= size
        for k, place in enumerate(places.tolist()):
            found[place] = [int(column[k]) for column in columns if k < len(column)]
    assert found == {place: row for place, row in enumerate(rows) if row}


@given(st.lists(st.lists(st.integers(0, 99), max_size=6), min_size=1, max_size=8), st.data())
def test_taking_rows(rows: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=10))
    taken = ragged(rows).take(np.array(chosen, np.int64))
    parts = np.split(taken.values, taken.offsets[1:-1]) if chosen else []
    assert [part.tolist() for part in parts] == [rows[row] for row in chosen]


PROGRAM = """
from clickvec.text.token_table import TokenTable
from clickvec.text.trigrams import Vocabulary
texts = ["hotels in shanghai", "bath tub wont turn off", "上海 酒店", "a b c d e f g h i j k l m"]
table = TokenTable(10)
read = table.read(texts)
vocabulary = Vocabulary.count(texts, limit=40)
print(ascii(vocabulary.trigrams), read.values.tolist(), vocabulary.rows(table).values.tolist())
"""


def test_ids_do_not_depend_on_the_hash_seed() -> None:
    root = str(Path(trigrams_module.__file__).parents[2])
    answers = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
            capture_output=True,
            check=True,
            text=True,
            timeout=300,
        ).stdout
        for seed in ("0", "1", "4321")
    }
    assert len(answers) == 1
