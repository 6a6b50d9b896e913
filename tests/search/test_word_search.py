"""BM25 over segment and delta: the same scores for words as for tokens, hand-worked examples, bad input."""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.evaluation.bm25 import BM25
from clickvec.search.lexical import word_search
from clickvec.search.lexical.query_terms import MOST_TERMS
from clickvec.search.lexical.word_search import Words
from clickvec.search.lexical.word_segment import WordDelta, WordSegment

TITLES = ["red car", "blue car car", "the red house", "", "a house for a car", "tree", "red red red tree"]
QUERIES = ["red car", "car", "house tree red", "car car", "unknown", ""]


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.3, 1.0), (0.0, 0.0)])
@pytest.mark.parametrize("cut", [0, 3, 7])
@pytest.mark.parametrize("query", QUERIES)
def test_scores_are_those_of_bm25(query: str, cut: int, k1: float, b: float) -> None:
    words = Words([WordSegment.build(TITLES[:cut]), WordDelta(TITLES[cut:])], k1, b)
    expected = BM25(TITLES, k1, b, tokens="words").score(query, TITLES)
    terms = words.terms(query)
    positions, scores = words.best(terms, len(TITLES))
    np.testing.assert_allclose(scores, expected[positions], rtol=1e-6)
    assert set(positions.tolist()) == set(np.flatnonzero(expected).tolist())
    every = np.arange(len(TITLES))
    np.testing.assert_allclose(words.matches(terms, every).sum(axis=1), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("title", "query"),
    [
        ("Spiderman", "spider-man"),
        ("Spider-Man", "spiderman"),
        ("Schindler's List", "schindlers list"),
        ("Pokémon", "pokemon"),
        ("Ladies' shoes", "lady"),
        ("黒猫物語", "猫"),
        ("上海外滩夜景", "外滩"),
        ("iPhone 7 case", "iphone7"),
        ("XK750", "xk-750"),
        ("XK-750", "xk750b"),
    ],
)
def test_other_spellings_find_a_title(title: str, query: str) -> None:
    words = Words([WordSegment.build(["something else", title, "others"])])
    assert words.best(words.terms(query), 3)[0].tolist() == [1]


ARTICLES = [
    "tape 260 in. wide", "AB260 hinge", "AB-270 hinge", "AB 280 hinge", "Drill ABC123D4", "Saw ABC-123-D5",
    "Plane ABC 123 D6", "Milk 4006381333931", "Cheese 4 006381 999999", "T-shirt 3XL", "e-mail on wi-fi",
    "3 in 1 charger", "iPhone 12 case", "Born 12.05.1984", "Toy Story 3", "Модель АБ-25", "上海 AB-77",
    "fax 030 123456", "500 g coffee",
]  # fmt: skip


@pytest.mark.parametrize(
    ("title", "queries"),
    [
        ("AB260 hinge", "ab260|AB260|ab-260|ab 260|ab.260|ab/260|AB 260 hinge|the ab-260"),
        ("AB-270 hinge", "ab270|AB-270|ab 270|ab.270"),
        ("AB 280 hinge", "ab280|ab-280|AB 280|ab_280"),
        ("Drill ABC123D4", "abc123d4|ABC-123-D4|abc 123 d4|ABC 123-D4|abc.123.d4"),
        ("Saw ABC-123-D5", "abc123d5|ABC-123-D5|abc 123 d5"),
        ("Plane ABC 123 D6", "abc123d6|ABC-123-D6|abc 123 d6"),
        ("Milk 4006381333931", "4006381333931|4 006381 333931|4-006381-333931"),
        ("T-shirt 3XL", "t-shirt|tshirt|t shirt 3xl|3-xl"),
        ("e-mail on wi-fi", "e-mail|email|wifi|wi-fi|wi fi"),
        ("3 in 1 charger", "3in1|3-in-1|3 in 1"),
        ("Born 12.05.1984", "12.05.1984|12/05/1984|12051984|12 05 1984"),
        ("Toy Story 3", "toy story 3|story 3"),
        ("Модель АБ-25", "аб25|АБ 25|аб-25"),
        ("上海 AB-77", "ab77|ab 77|上海 ab.77"),
        ("fax 030 123456", "030123456|030-123456|030/123456"),
        ("500 g coffee", "500g|500 g|coffee 500g"),
        ("tape 260 in. wide", "260in|260 in|260-in"),
    ],
)
def test_codes_are_found_however_they_are_written(title: str, queries: str) -> None:
    words = Words([WordSegment.build(ARTICLES[::2]), WordDelta(ARTICLES[1::2])])
    order = [*ARTICLES[::2], *ARTICLES[1::2]]
    for query in queries.split("|"):
        assert order[words.best(words.terms(query), 1)[0][0]] == title, query


@pytest.mark.parametrize(
    ("query", "codes"),
    [
        ("ab-260", ["ab260"]),
        ("abc 123 d4", ["abc123d4"]),  # and not 123d4 or d4, which are parts of it
        ("hinge AB260", ["ab260"]),
        ("ab-260 ab-270", ["ab260", "ab270"]),
        ("ab-999", []),
        ("abc123d9", []),  # what it stands for is another code
        ("toy story 3", []),
        ("e-mail", []),
        ("2019", []),
    ],
)
def test_codes_of_a_query_are_those_that_titles_have(query: str, codes: list[str]) -> None:
    words = Words([WordSegment.build(ARTICLES)])
    assert [term.word for term in words.terms(query) if term.is_code] == codes


def test_short_numbers_are_not_codes_nor_are_the_parts_of_codes_numbers() -> None:
    words = Words([WordSegment.build(ARTICLES)])
    assert [term.word for term in words.terms("toy story 3") if term.is_number] == ["3"]
    assert not any(term.is_number for term in words.terms("ab-260"))


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("xyz999q7", {"xyz999q7": ()}),
        ("XYZ-999-Q7", {"XYZ-999-Q7": ()}),  # once, and not each part
        ("AB-999 hinge", {"AB-999": ()}),
        ("hinge xyz999", {"xyz999": ()}),
        ("abc123d9", {"abc123d9": ("abc123",)}),
        ("iphone12x", {"iphone12x": ("iphone12",)}),
        ("iphone14", {"iphone14": ("iphone",)}),
        ("qqqqqq zzzzzz", {"qqqqqq": (), "zzzzzz": ()}),  # nothing is known
        ("qqqqqq hinge", {}),
        ("hinje", {"hinje": ("hinge",)}),
        ("toy-story-3", {}),
        ("wi-fi-6", {}),
        ("ab-260", {}),
        ("hinge 1999", {}),
        ("", {}),
    ],
)
def test_unknown_codes_and_queries_are_told(query: str, told: dict[str, tuple[str, ...]]) -> None:
    assert Words([WordSegment.build(ARTICLES)]).corrections(query) == told


def test_neighbours_are_joined_if_titles_write_them_as_one_word() -> None:
    words = Words([WordSegment.build(["Spiderman", "Spiderman 2", "spider web", "a man", "man", "ham let"])])
    assert [term.word for term in words.terms("spider man")] == ["spider", "man", "spiderman"]
    assert [term.word for term in words.terms("man spider")] == ["man", "spider"]


@pytest.mark.parametrize("query", ["", " ", "?!", "\x00\x1b", "\ud800", "\u202e", "👍", "a" * 100_000, "上" * 10_000])
def test_any_query_is_answered(query: str) -> None:
    words = Words([WordSegment.build([*TITLES, query]), WordDelta([query])])
    terms = words.terms(query)
    assert len(terms) <= MOST_TERMS
    positions, scores = words.best(terms, 10)
    assert len(positions) == len(scores)
    assert words.matches(terms, np.arange(len(words))).shape == (len(words), len(terms))


def test_a_long_query_uses_64_distinct_words() -> None:
    titles = [f"w{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(100)]
    words = Words([WordSegment.build(titles)])
    terms = words.terms(" ".join(titles * 100))
    assert [term.word for term in terms] == titles[:64]
    assert terms[0].weights == (100.0,)


def test_an_index_without_titles_or_words() -> None:
    for titles in ([], [""], ["?!", " "]):
        words = Words([WordSegment.build(titles), WordDelta(titles)])
        terms = words.terms("red car")
        assert [term.is_known for term in terms] == [False, False]
        assert len(words.best(terms, 10)[0]) == 0
        assert not words.matches(terms, np.arange(len(words))).any()


@pytest.mark.parametrize("k", [0, 1, 3, 100])
def test_only_allowed_titles_are_found(k: int) -> None:
    words = Words([WordSegment.build(TITLES[:3]), WordDelta(TITLES[3:])])
    allowed = np.array([False, True, True, True, False, True, True])
    positions, scores = words.best(words.terms("red car house"), k, allowed)
    every, values = words.best(words.terms("red car house"), 100)
    expected = [(at, value) for at, value in zip(every.tolist(), values.tolist(), strict=True) if allowed[at]][:k]
    assert list(zip(positions.tolist(), scores.tolist(), strict=True)) == expected


def test_equal_scores_are_in_the_order_of_positions() -> None:
    words = Words([WordSegment.build(["red"] * 5), WordDelta(["red"] * 5)])
    assert words.best(words.terms("red"), 7)[0].tolist() == list(range(7))


def test_a_delta_gives_the_scores_of_a_segment_while_it_grows() -> None:
    delta, segment = WordDelta(TITLES[:2]), WordSegment.build(TITLES[:2])
    before, expected = Words([delta]), Words([segment])
    delta.add(TITLES[2:])
    assert len(before) == 2
    for query in QUERIES:
        terms = before.terms(query)
        assert terms == expected.terms(query)
        for mine, other in zip(before.best(terms, 9), expected.best(terms, 9), strict=True):
            np.testing.assert_array_equal(mine, other)
    for query in QUERIES:
        after, whole = Words([delta]), Words([WordSegment.build(TITLES)])
        assert after.terms(query) == whole.terms(query)


VOCABULARY = ["shanghai", "shanghay", "terminator", "termination", "philadelphia", "red", "rod", "reds", "sunglasses"]
VOCABULARY += ["sun", "glasses", "AB-1234", "iphone", "7", "movie", "spider", "man", "spiderman", "上海酒店", "naïve"]
MISSPELLED = ["philadlpha", "terminatr", "sunglases", "shanghia", "spider man", "rad", "ab123", "moive", "7 iphone"]
title_lists = st.lists(st.lists(st.sampled_from(VOCABULARY), max_size=4).map(" ".join), max_size=25)


@given(title_lists, st.data())
def test_words_depend_on_the_living_titles_alone(titles: list[str], data: st.DataObject) -> None:
    alive = np.array(data.draw(st.lists(st.booleans(), min_size=len(titles), max_size=len(titles))), np.bool_)
    cut, much_less = data.draw(st.integers(0, len(titles))), data.draw(st.sampled_from([0, 16, 1_000]))
    delta = WordDelta(titles[cut:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_search, "_MUCH_LESS", much_less)  # both ways of counting
        words = Words([WordSegment.build(titles[:cut]), delta], alive=alive)
        delta.add(["philadelphia terminator"])  # later titles do not count
        living = [title for title, lives in zip(titles, alive, strict=True) if lives]
        anew = Words([WordSegment.build(living)])
        assert (len(words), words.mean_length) == (len(anew), anew.mean_length)
        for query in (*VOCABULARY, *MISSPELLED):
            assert words.terms(query) == anew.terms(query)
            positions, scores = words.best(words.terms(query), 30)
            expected, values = anew.best(anew.terms(query), 30)
            assert positions.tolist() == np.flatnonzero(alive)[expected].tolist()
            np.testing.assert_array_equal(scores, values)


def test_a_long_title_counts_the_same_wherever_it_is() -> None:
    titles = ["red " * 1_000, "red car"]
    segment, delta = Words([WordSegment.build(titles)]), Words([WordDelta(titles)])
    assert segment.mean_length == delta.mean_length == (255 + 2) / 2


def test_titles_are_added_while_others_are_searched() -> None:
    delta, wrong = WordDelta(["red car"]), list[str]()
    finished = Event()

    def search() -> None:
        while not finished.is_set():
            words = Words([delta])
            positions, _ = words.best(words.terms("red"), 10**6)
            if positions.tolist() != list(range(len(words))):
                wrong.append(f"{len(positions)} of {len(words)}")

    threads = [Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(2000):
        delta.add([f"red car number {number}"])
    finished.set()
    for thread in threads:
        thread.join(60)
    assert not wrong


def test_a_segment_opens_from_its_arrays(tmp_path: Path) -> None:
    segment = WordSegment.build(TITLES)
    for name, values in segment.arrays().items():
        np.save(tmp_path / f"{name}.npy", values)
    arrays = {file.stem: np.load(file, mmap_mode="r") for file in tmp_path.iterdir()}
    words, again = Words([segment]), Words([WordSegment.from_arrays(arrays)])
    for query in (*QUERIES, "huose"):
        assert words.terms(query) == again.terms(query)
        for mine, other in zip(words.best(words.terms(query), 9), again.best(words.terms(query), 9), strict=True):
            np.testing.assert_array_equal(mine, other)


def test_titles_that_are_not_in_the_index_are_scored() -> None:
    words = Words([WordSegment.build(TITLES)])
    terms = words.terms("red car house")
    scores, lengths = words.matches_of_texts(terms, TITLES)
    np.testing.assert_array_equal(scores, words.matches(terms, np.arange(len(TITLES))))
    np.testing.assert_array_equal(lengths, words.lengths(np.arange(len(TITLES))))


def test_lengths() -> None:
    words = Words([WordSegment.build(TITLES[:3]), WordDelta(TITLES[3:])])
    assert words.lengths(np.arange(7)).tolist() == [2, 3, 3, 0, 5, 1, 4]


def test_texts_match_as_they_would_in_the_index() -> None:
    titles = [*TITLES, "AB-1234 iphone 7 上海酒店", "a a a b"]
    words = Words([WordSegment.build(titles)])
    for query in ("new york hotels", "ab1234 iphone7 海", "a b", "zzz"):
        terms = words.terms(query)
        matches, lengths = words.matches_of_texts(terms, titles)
        np.testing.assert_array_equal(matches, words.matches(terms, np.arange(len(titles))))
        np.testing.assert_array_equal(lengths, words.lengths(np.arange(len(titles))))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("positions", lambda array: array + 100),
        ("positions", lambda array: array - 1),
        ("offsets", lambda array: array[::-1].copy()),
        ("offsets", lambda array: array[:-1]),
        ("letter_offsets", lambda array: array + 1),
        ("codes", lambda array: array[:-1]),
        ("lengths", lambda array: array[:-1]),
        ("spelled", lambda array: array + 10_000),
        ("trigram_words", lambda array: array - 10_000),
        ("deletions", lambda array: array | np.uint64(0xFFFFFFFF)),
        ("hashes", lambda array: array.astype(np.int64)),
        ("total_length", lambda array: array[:0]),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(name: str, change: Callable[[Any], Any]) -> None:
    titles = ["hotels in shanghai", "cheap flights", ""]
    arrays = WordSegment.build(titles).arrays()
    WordSegment.from_arrays(arrays).check(len(titles))
    with pytest.raises(ValueError, match=f"the array {name}"):
        WordSegment.from_arrays(arrays | {name: change(arrays[name])}).check(len(titles))
