"""Misspelled words: distances against a textbook version, candidates, and what a query word stands for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.search.lexical.query_terms import MOST_NEAR
from clickvec.search.lexical.spelling import LONGEST, Spelling, distances, is_one_edit
from clickvec.search.lexical.word_search import Words
from clickvec.search.lexical.word_segment import WordDelta, WordSegment

letters = st.text("abc", max_size=7)


def textbook_distance(word: str, other: str) -> int:
    table = [[max(row, column) for column in range(len(other) + 1)] for row in range(len(word) + 1)]
    for row in range(1, len(word) + 1):
        for column in range(1, len(other) + 1):
            table[row][column] = min(
                table[row - 1][column] + 1,
                table[row][column - 1] + 1,
                table[row - 1][column - 1] + (word[row - 1] != other[column - 1]),
            )
            if row > 1 and column > 1 and word[row - 2 : row] == other[column - 2 : column][::-1]:
                table[row][column] = min(table[row][column], table[row - 2][column - 2] + 1)
    return table[-1][-1]


@given(letters, st.lists(letters, max_size=5))
def test_distances(word: str, others: list[str]) -> None:
    assert distances(word, others).tolist() == [textbook_distance(word, other) for other in others]
    for other in others:
        assert is_one_edit(word, other) == (textbook_distance(word, other) <= 1)


@given(st.lists(st.text("abñ上", min_size=3, max_size=6), unique=True, max_size=30), st.data())
def test_every_word_at_distance_one_is_a_candidate(words: list[str], data: st.DataObject) -> None:
    spelling = Spelling(Spelling.build(words, np.arange(len(words), 0, -1)))
    word = data.draw(st.sampled_from([*words, "abab"]))
    near = {words[spelling.rows[number]] for number in spelling.one_deletion(word)}
    assert {other for other in words if textbook_distance(word, other) <= 1} <= near


def stands_for(titles: list[str], query: str) -> list[tuple[str, ...]]:
    """What the words of a query stand for, which must not depend on where the titles are."""
    segment, delta = (Words([part]) for part in (WordSegment.build(titles), WordDelta(titles)))
    assert segment.terms(query) == delta.terms(query)
    return [term.words for term in segment.terms(query)]


TITLES = ["The Terminator", "Movie night", "Move on", "Philadelphia", "sun glasses", "AB1234", "Привет мир"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("terminatr", [("terminator",)]),
        ("etrminator", [("terminator",)]),
        ("terminattor", [("terminator",)]),
        ("moive", [("move", "movie")]),
        ("teh movie", [("the",), ("movie",)]),
        ("превет", [("привет",)]),
        ("sunglasses", [("sun", "glasse")]),
        ("ab1243", [()]),  # another code: letters that many codes have say nothing
        ("1243", [()]),
        ("qqqqqqqq", [()]),
        ("xy", [()]),
        ("x" * 5000, [()]),
    ],
)
def test_a_word_in_no_title_stands_for_the_nearest_words(query: str, expected: list[tuple[str, ...]]) -> None:
    assert stands_for(TITLES, query) == expected


def test_two_and_three_edits_are_found() -> None:
    assert stands_for(TITLES, "philadlpha") == [("philadelphia",)]
    assert stands_for(TITLES, "filadelpia") == [("philadelphia",)]  # three edits: a word of ten letters may have them
    assert stands_for(TITLES, "filadelpya") == [()]


def test_of_many_words_that_share_trigrams_the_same_are_compared_wherever_they_are() -> None:
    titles = [f"terminat{chr(97 + at % 26)}{chr(97 + at // 26)}" for at in range(400)]
    assert len(stands_for(titles, "termimaxyz")[0]) <= MOST_NEAR
    for query in ("terminxxqa", "tarminatqaq", "xxrminatab"):
        halves = Words([WordSegment.build(titles[::2]), WordDelta(titles[1::2])])
        assert [term.words for term in halves.terms(query)] == stands_for(titles, query)


def test_a_corrected_word_weighs_less_and_is_not_known() -> None:
    words = Words([WordSegment.build(TITLES)])
    right, wrong = (words.terms(query)[0] for query in ("terminator", "terminatro"))
    assert right.is_known
    assert not wrong.is_known
    assert wrong.word == "terminatro"
    assert wrong.idf == right.idf
    assert wrong.weights == (0.9,)
    _, scores = words.best([right], 1)
    _, fewer = words.best([wrong], 1)
    np.testing.assert_allclose(fewer, 0.9 * scores, rtol=1e-6)


def test_the_words_that_most_titles_contain_come_first() -> None:
    titles = [f"{letter}ake" for letter in "bcflmrtw"] + ["take", "lake", "lake"]
    words = Words([WordSegment.build(titles)]).terms("xake")[0].words
    assert len(words) == MOST_NEAR
    assert words[:2] == ("lake", "take")


def test_a_word_that_only_later_titles_contain_is_not_suggested() -> None:
    delta = WordDelta(["red"])
    words = Words([delta])
    delta.add(["terminator"])
    assert words.terms("terminatr")[0].words == ()
    assert Words([delta]).terms("terminatr")[0].words == ("terminator",)


def test_long_words_are_not_corrected() -> None:
    word = "a" * LONGEST + "b"
    assert stands_for([word], word[1:] + "cc") == [()]
