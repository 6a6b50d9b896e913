"""Every count of a log small enough to count by hand, and of random logs by a plain Python count."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clickvec.data import BadLines
from clickvec.data.cleaning import Cleaning, clean
from clickvec.data.clicks import collect
from clickvec.data.events import Events
from clickvec.doctor.client_counts import MANY_PER_HOUR
from clickvec.doctor.line_counts import DAY, Counted, LineCounter
from clickvec.doctor.line_sample import LineSampler
from clickvec.doctor.text_hashes import hash_texts
from clickvec.text.tokens import canonical

# Six lines on two days. The second line has the pair of the first in other letters, the fourth repeats the third.
LINES = [
    ("Red Shoes", "shoes in red", 1, "ann", 10, 1),
    ("red  shoes", "Shoes in Red", 2, "bob", 20, 2),
    ("red shoes", "all shoes", 1, "bob", 30, 1),
    ("red shoes", "all shoes", 1, "bob", 30, 1),
    ("hat", "all shoes", 1, "ann", 2 * DAY, 3),
    ("hat", "a hat", 0, "ann", 2 * DAY, 1),
]


def events(lines: list[tuple[str, str, float, str, int, int]]) -> Events:
    queries, titles, clicks, clients, times, positions = zip(*lines, strict=True)
    return Events(
        list(queries), list(titles), np.array(clicks, float), list(clients), np.array(times, np.int64),
        np.array(positions, np.int32),
    )  # fmt: skip


def count(*blocks: Events) -> Counted:
    counter = LineCounter()
    for block in blocks:
        counter.add(block)
    counted = counter.finish()
    counter.close()
    return counted


def test_a_log_counted_by_hand() -> None:
    counted = count(events(LINES[:4]), events(LINES[4:]))
    assert (counted.lines, counted.shown, counted.clicks) == (6, 1, 6.0)
    assert counted.pairs == 3  # red shoes: shoes in red (3 clicks), all shoes (2); hat: all shoes (1)
    assert counted.pairs_by_clicks == {3.0: 1, 2.0: 1, 1.0: 1}
    assert counted.queries == 2
    assert counted.queries_by_clicks == {5.0: 1, 1.0: 1}
    assert sorted(counted.titles.queries.tolist()) == [1, 2]  # shoes in red, all shoes
    assert counted.titles.clicks.tolist() == [3, 3]
    assert counted.lines_by_day == {0: 4, 2: 2}
    assert counted.lines_by_length[:4].tolist() == [0, 1, 4, 0]
    assert counted.shown_by_position is not None
    assert counted.shown_by_position[:5].tolist() == [0, 4, 1, 1, 0]
    assert counted.clicks_by_position is not None
    assert counted.clicks_by_position[:5].tolist() == [0, 3, 1, 1, 0]
    clients = counted.clients
    assert clients is not None
    assert clients.lines_by_client.tolist() == [3, 3]
    assert clients.queries_by_clients == {2: 1, 1: 1}  # red shoes by ann and bob, hat by ann
    assert clients.lines_by_clients == {2: 4, 1: 2}
    assert clients.clicks_by_clients == {2: 5, 1: 1}
    assert clients.identical == clients.repeats == 1
    assert clients.clients_by_most_per_hour == {1: 1, 2: 1}  # the lines of the same second are one search
    assert (clients.bots, clients.bot_lines) == (0, 0)


def test_what_the_log_does_not_have_is_not_known() -> None:
    counted = count(Events(["a"], ["b"], np.ones(1)))
    unknown = (counted.clients, counted.lines_by_day, counted.shown_by_position, counted.clicks_by_position)
    assert unknown == (None,) * 4


def test_an_empty_log() -> None:
    counted = count()
    assert (counted.lines, counted.pairs, counted.queries, len(counted.titles.keys)) == (0, 0, 0, 0)


LINE = st.tuples(
    st.sampled_from(["a", "A ", "b c", "ж", "上 海"]), st.sampled_from(["x", "X", "y  z", "ζ"]), st.integers(0, 3),
    st.sampled_from("mn"), st.sampled_from([0, DAY, 9 * DAY]), st.integers(0, 3),
)  # fmt: skip


@given(st.lists(LINE, min_size=1, max_size=40), st.integers(1, 40))
def test_random_logs(lines: list[tuple[str, str, float, str, int, int]], size: int) -> None:
    counted = count(*(events(lines[first : first + size]) for first in range(0, len(lines), size)))
    pairs, queries = Counter[tuple[str, str]](), Counter[str]()
    for query, title, clicks, *_ in lines:
        if clicks:
            pairs[canonical(query), canonical(title)] += int(clicks)
            queries[canonical(query)] += int(clicks)
    assert counted.pairs == len(pairs)
    assert counted.pairs_by_clicks == Counter(map(float, pairs.values()))
    assert counted.queries_by_clicks == Counter(map(float, queries.values()))
    assert counted.clients is not None
    assert counted.clients.identical == len(lines) - len(set(lines))
    assert sorted(counted.titles.queries) == sorted(Counter(title for _, title in pairs).values())


@given(st.lists(LINE, min_size=1, max_size=40), st.integers(1, 3))
def test_rare_queries_are_those_that_cleaning_drops(lines: list[tuple[str, str, float, str, int, int]], k: int) -> None:
    lines.append(("kept", "kept", 1, "x", 0, 0))
    for client in "yz":
        lines.append(("kept", "kept", 1, client, 0, 0))
    counted = count(events(lines))
    log = collect([events(lines)], BadLines())
    _, report = clean(log, Cleaning(merge_minutes=0, k_anonymous=k))
    assert counted.clients is not None
    rare = (counted.clients.lines_by_clients, counted.clients.queries_by_clients)
    sums = [sum(count for number, count in counter.items() if number < k) for counter in rare]
    assert report.dropped == [("k_anonymous", *sums)]


def test_bots_are_those_that_cleaning_drops() -> None:
    rng = np.random.default_rng(0)
    lines = [(f"q{at % 7}", "t", 1.0, "fast", 1000 + 20 * at, 1) for at in range(150)]  # 180 searches an hour
    lines += [(f"q{at % 7}", "t", 1.0, "slow", 1000 + 40 * at, 1) for at in range(150)]
    lines += [("q", "t", 0.0, "page", 1000 + 100 * (at // 10), 1 + at % 10) for at in range(300)]  # 36 pages an hour
    lines += [("q", "t", 1.0, "", 1000 + at, 1) for at in range(500)]  # nobody
    lines = [lines[at] for at in rng.permutation(len(lines)).tolist()]
    found = count(*(events(lines[first : first + 99]) for first in range(0, len(lines), 99))).clients
    assert found is not None
    _, report = clean(
        collect([events(lines)], BadLines()), Cleaning(merge_minutes=0, k_anonymous=0, max_per_hour=MANY_PER_HOUR)
    )
    assert [(one.rule, one.lines) for one in report.dropped] == [("max_per_hour", found.bot_lines)]
    ((name, searches),) = found.busiest
    assert (found.bots, searches, found.bot_lines) == (1, 130, 150)
    assert "fast" not in name
    assert name in [client for client, lines in found.heaviest if lines == 150]
    assert len(found.lines_by_client) == 3


def test_queries_may_be_shown_if_enough_clients_typed_them() -> None:
    lines = [("Ours", "t", 0.0, client, 1, 1) for client in "abc"] + [("mine", "t", 9.0, "a", at, 1) for at in range(9)]
    assert hash_texts(["ours"]).tolist() == count(events(lines)).may_be_shown.tolist()
    without = events([*lines, ("few", "t", 2.0, "", 0, 0)])._replace(clients=None)
    assert hash_texts(["mine"]).tolist() == count(without).may_be_shown.tolist()  # by clicks
    assert not len(count(events(lines), without).may_be_shown)  # who typed some is not known


def test_a_sample_does_not_depend_on_the_blocks() -> None:
    lines = [(f"q{at}", f"t{at}", at % 3, "c", 100 - at, 0) for at in range(100)]
    samples = []
    for size in (1, 7, 100):
        sampler = LineSampler(20)
        for first in range(0, 100, size):
            sampler.add(events(lines[first : first + size]))
        samples.append(sampler.finish())
    assert samples[0] == samples[1] == samples[2]
    assert (len(samples[0]), samples[0].lines) == (20, 66)  # a third of the lines has no click
    assert samples[0].queries == sorted(samples[0].queries, key=lambda query: -int(query[1:]))  # by time
    assert set(samples[0].clicks) == {1.0, 2.0}


def test_every_line_is_equally_likely_in_a_sample() -> None:
    drawn = Counter[str]()
    for seed in range(400):
        sampler = LineSampler(3, seed)
        for first in range(0, 12, 4):
            sampler.add(Events([f"{at}" for at in range(first, first + 4)], ["t"] * 4, np.ones(4)))
        drawn.update(sampler.finish().queries)
    assert len(drawn) == 12
    assert all(65 < times < 135 for times in drawn.values())  # 100 on average, standard deviation 9
