"""The split of a click log into train, dev and test: what is held out, and that nothing of it is in training."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.data import ClickLog
from clickvec.data.held_out import (
    DEV,
    FEWEST,
    MOST,
    TEST,
    TRAIN,
    fewest_queries,
    held_out_size,
    hold_out,
    near_duplicate_key,
    split_queries,
)

WORDS = ["pizza", "shanghai", "hotel", "Hotel", "no", "1984", "café", "ホテル", "c++", "?"]


def many(count: int) -> list[str]:
    return [f"query number {number}" for number in range(count)]


def log_of(queries: list[str]) -> ClickLog:
    return ClickLog(queries, [f"title of {query}" for query in queries], np.ones(len(queries)))


@pytest.mark.parametrize(
    "other",
    ["Shanghai  hotel", "hotel shanghai", "hotel, hotel Shanghai!", "HOTEL\tshanghai?", "ｈｏｔｅｌ shanghai"],
)
def test_near_duplicates_share_their_key(other: str) -> None:
    assert near_duplicate_key(other) == near_duplicate_key("shanghai hotel")


@pytest.mark.parametrize(("one", "other"), [("hotel", "hotels"), ("+", "?"), ("कि", "का"), ("a b", "ab")])
def test_other_queries_have_another_key(one: str, other: str) -> None:
    assert near_duplicate_key(one) != near_duplicate_key(other)


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), max_size=40),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_nothing_leaks(queries: list[str], seed: int, timed: bool) -> None:
    texts = [*queries, *many(600)]
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(texts))
    texts = [texts[row] for row in order]
    parts = split_queries(texts, rng.integers(0, 50, len(texts)) if timed else None)
    keys = [
        {near_duplicate_key(text) for text, at in zip(texts, parts, strict=True) if at == part} for part in range(3)
    ]
    assert all(keys)
    assert not keys[TRAIN] & keys[DEV]
    assert not keys[TRAIN] & keys[TEST]
    assert not keys[DEV] & keys[TEST]


@given(st.permutations(many(520)))
def test_without_times_the_split_depends_on_the_words_alone(queries: list[str]) -> None:
    parts = dict(zip(queries, split_queries(queries), strict=True))
    once = dict(zip(many(520), split_queries(many(520)), strict=True))
    assert parts == once


def test_repeated_queries_change_nothing() -> None:
    once = split_queries(many(1_000))
    np.testing.assert_array_equal(split_queries(many(1_000) * 3), np.tile(once, 3))


def test_the_latest_queries_are_held_out() -> None:
    queries, times = many(10_000), np.arange(10_000)
    parts = split_queries(queries, times)
    assert set(parts[9_500:]) == {TEST}
    assert set(parts[9_000:9_500]) == {DEV}
    assert set(parts[:9_000]) == {TRAIN}


def test_a_group_of_near_duplicates_is_as_old_as_its_first_click() -> None:
    queries, times = [*many(9_998), "a b", "b a"], np.arange(10_000)
    times[-2] = -1
    parts = split_queries(queries, times)
    assert list(parts[-2:]) == [TRAIN, TRAIN]
    assert parts[-3] == TEST


def test_a_head_query_keeps_its_early_clicks_in_training() -> None:
    log = log_of([*many(1_000), "query number 0"])
    held = hold_out(replace(log, times=np.arange(1_001), clients=[f"client {row}" for row in range(1_001)]))
    assert held is not None
    assert held.train.queries.count("query number 0") == 2
    assert held.test.times is not None
    assert held.test.clients == [f"client {row}" for row in range(900, 1_000)]
    assert list(held.test.times) == list(range(900, 1_000))


def test_titles_that_were_shown_follow_their_queries() -> None:
    queries = [*(f"{query}!" for query in many(1_000)), "never clicked"]  # near-duplicates of the clicked queries
    log = replace(log_of(many(1_000)), shown=ClickLog(queries, queries, np.zeros(1_001)))
    held = hold_out(log)
    assert held is not None
    for part in held:
        assert part.shown is not None
        assert {query.rstrip("!") for query in part.shown.queries} - {"never clicked"} == set(part.queries)
    assert held.train.shown is not None
    assert "never clicked" in held.train.shown.queries


@pytest.mark.parametrize(
    ("groups", "size"),
    [(0, 0), (10 * FEWEST - 1, 0), (10 * FEWEST, FEWEST), (1_000, 100), (3_000, 200), (10_000, 500), (10**9, MOST)],
)
def test_how_much_is_held_out(groups: int, size: int) -> None:
    assert held_out_size(groups) == size


def test_the_shares() -> None:
    assert Counter(split_queries(many(10_000)).tolist()) == {TRAIN: 9_000, DEV: 500, TEST: 500}


def test_a_log_keeps_its_lines_and_columns() -> None:
    log = log_of(many(700) + many(700))
    log = ClickLog(log.queries, log.titles, np.arange(1_400.0), log.bad)
    held = hold_out(log)
    assert held is not None
    assert sum(map(len, held)) == len(log)
    lines = [line for part in held for line in zip(part.queries, part.titles, part.clicks.tolist(), strict=True)]
    assert sorted(lines) == sorted(zip(log.queries, log.titles, log.clicks.tolist(), strict=True))
    for part in held:
        assert part.clicks.tolist() == sorted(part.clicks.tolist())  # the order of the log


def test_a_small_log_holds_nothing_out() -> None:
    assert hold_out(log_of(many(fewest_queries() - 1))) is None
    assert hold_out(log_of(many(fewest_queries()))) is not None
    assert hold_out(log_of([])) is None
    assert not split_queries([]).any()
