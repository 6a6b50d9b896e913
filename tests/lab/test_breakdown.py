"""Breakdowns: every query in one group, the groups by hand, edits against their definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.data import ClickLog, JudgedQuery
from clickvec.lab.compare.breakdown import (
    Breakdown,
    LogCounts,
    breakdowns,
    by_length,
    by_query_clicks,
    by_shared_words,
    by_title_clicks,
    by_words,
    group_means,
    near_misses,
    one_edit,
)


def judged(query: str, *titles: str, irrelevant: tuple[str, ...] = ()) -> JudgedQuery:
    texts = (*titles, *irrelevant)
    grades = np.array([1] * len(titles) + [0] * len(irrelevant))
    return JudgedQuery(query, query, tuple(map(str, range(len(texts)))), texts, grades)


def log_of(*lines: tuple[str, str, float]) -> ClickLog:
    queries, titles, clicks = zip(*lines, strict=True)
    return ClickLog(list(queries), list(titles), np.array(clicks))


def groups(breakdown: Breakdown) -> dict[str, list[int]]:
    return {group.name: group.places.tolist() for group in breakdown.groups}


LOG = log_of(
    ("Cheap  Hotels", "Shanghai Hotel", 4),
    ("cheap hotels", "shanghai hotel", 7),
    ("ＣＨＥＡＰ hotels", "another hotel", 2.5),
    ("flights", "Cheap Flights", 3),
)  # fmt: skip


def test_a_log_is_counted_by_the_words_of_its_texts() -> None:
    counts = LogCounts.of(LOG)
    assert counts.query_clicks == {"cheap hotels": 13.5, "flights": 3.0}
    assert counts.title_clicks == {"shanghai hotel": 11.0, "another hotel": 2.5, "cheap flights": 3.0}
    assert counts.words == {"cheap", "hotels", "shanghai", "hotel", "another", "flights"}


def test_lengths() -> None:
    queries = [judged(" ".join("w" * n), "t") for n in (1, 2, 3, 4, 5, 6, 40)]
    assert groups(by_length(queries)) == {
        "1 word": [0], "2 words": [1], "3 words": [2], "4-5 words": [3, 4], "6 words or more": [5, 6]
    }  # fmt: skip
    assert list(groups(by_length(queries[:1]))) == ["1 word"]


def test_words_seen_unseen_and_perhaps_misspelled() -> None:
    known = LogCounts.of(LOG).words
    queries = [
        judged(text, "t") for text in ("Cheap SHANGHAI", "cheap zebra", "cheap hotles", "zebra shangai", "cheap 2")
    ]
    assert groups(by_words(queries, known)) == {
        "all words seen": [0], "an unseen word": [1, 4], "misspelled, perhaps": [2, 3]
    }  # fmt: skip


def test_clicks_on_the_query_itself() -> None:
    queries = [judged(text, "t") for text in ("CHEAP hotels", "flights", "hotels")]
    found = groups(by_query_clicks(queries, LogCounts.of(LOG).query_clicks))
    assert found == {"never in the log": [2], "under 10 clicks": [1], "10 clicks or more": [0]}


def test_clicks_on_the_relevant_titles() -> None:
    queries = [
        judged("a", "SHANGHAI hotel", "shanghai  hotel"),  # one title, twice: 11 clicks
        judged("b", "another hotel", irrelevant=("shanghai hotel",)),  # 2.5: what is not relevant does not count
        judged("c", "nobody went there"),
        judged("d", "cheap flights", "nobody went there"),  # 3, the median of 11, 2.5 and 3
    ]
    breakdown = by_title_clicks(queries, LogCounts.of(LOG).title_clicks)
    assert groups(breakdown) == {"none": [2], "tail": [1, 3], "head": [0]}
    assert "up to 3, the median" in breakdown.note
    assert groups(by_title_clicks(queries[2:3], {})) == {"none": [0]}


def test_words_that_titles_share_with_the_query() -> None:
    queries = [
        judged("Cheap hotels", "hotel", "lodging", irrelevant=("cheap hotels",)),
        judged("cheap hotels", "CHEAP lodging", "lodging"),
        judged("cheap hotels", "cheap lodging", "all hotels"),
    ]
    found = groups(by_shared_words(queries))
    assert found == {"no relevant title": [0], "some": [1], "all relevant titles": [2]}


WORDS = st.sampled_from(["cheap", "hotels", "hotel", "hotles", "zebra", "上海", "of", "2014", "x"])


@given(st.lists(st.tuples(st.lists(WORDS, min_size=1, max_size=8), st.lists(WORDS, min_size=1)), min_size=1))
def test_every_query_is_in_exactly_one_group_of_each_breakdown(texts: list[tuple[list[str], list[str]]]) -> None:
    queries = [judged(" ".join(query), *titles) for query, titles in texts]
    parts = breakdowns(queries, LOG)
    assert len(parts) == 5
    for part in parts:
        places = [place for group in part.groups for place in group.places.tolist()]
        assert sorted(places) == list(range(len(queries)))
        assert all(len(group.places) for group in part.groups)


@pytest.mark.parametrize("other", ["otels", "hotel", "hotelss", "xhotels", "hotals", "ohtels", "hotesl", "hottels"])
def test_one_edit(other: str) -> None:
    assert one_edit("hotels", other)
    assert one_edit(other, "hotels")
    assert near_misses([other], ["zebra", "hotels"]) == {other}


@pytest.mark.parametrize("other", ["hotels", "hote", "hotelsss", "oethls", "otelsh", "hstelo", "", "xhotelsx"])
def test_none_or_more_than_one_edit(other: str) -> None:
    assert not one_edit("hotels", other)
    assert not one_edit(other, "hotels")
    assert near_misses([other], ["zebra", "hotels"]) == set()


def edits(word: str, letters: str) -> set[str]:
    """All that one edit makes of a word, by the definition."""
    parts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    made = {a + b[1:] for a, b in parts if b} | {a + c + b for a, b in parts for c in letters}
    made |= {a + c + b[1:] for a, b in parts if b for c in letters}
    return (made | {a + b[1] + b[0] + b[2:] for a, b in parts if len(b) > 1}) - {word}


@given(st.text("abc", max_size=6), st.text("abc", max_size=6))
def test_one_edit_is_what_edits_make(one: str, other: str) -> None:
    assert one_edit(one, other) == (other in edits(one, "abc"))


@given(st.sets(st.text("abc1", min_size=1, max_size=6)), st.sets(st.text("abc1", min_size=1, max_size=6)))
def test_near_misses_are_those_of_comparing_all_words(unseen: set[str], known: set[str]) -> None:
    words = [word for word in known if word.isalpha() and len(word) >= 4]
    expected = {word for word in unseen if word.isalpha() and any(one_edit(word, other) for other in words)}
    assert near_misses(unseen, known) == expected


def test_short_words_numbers_and_punctuation_are_no_slips() -> None:
    assert near_misses(["bat", "2014", "anthem?", "cats"], ["cat", "2013", "anthem"]) == set()
    assert near_misses(["cat"], ["cats"]) == {"cat"}


def test_means_and_standard_errors_of_groups() -> None:
    values = np.array([[10.0, 20.0, 60.0], [0.0, 0.0, 30.0]])
    queries = [judged("one", "t"), judged("two", "t"), judged("two words", "t")]
    means, errors = group_means(values, by_length(queries))
    assert means.tolist() == [[15.0, 60.0], [0.0, 30.0]]
    assert errors[:, 0] == pytest.approx([5.0, 0.0])  # the deviation of 10 and 20 is 7.07, over the root of 2
    assert np.isnan(errors[:, 1]).all()
