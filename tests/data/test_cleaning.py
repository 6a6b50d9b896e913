"""Each rule of cleaning on a log worked by hand, and the rules in SQL against those in NumPy."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command import check_tells
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from clickvec.data import BadLines, read_clicks
from clickvec.data.cleaning import Cleaning, Dropped, clean, frequent_queries
from clickvec.data.clicks import ClickLog, collect
from clickvec.data.events import Events
from clickvec.data.on_disk.log_store import LEAST_MEMORY
from clickvec.data.preparation import Preparation, write_data_folder
from clickvec.errors import ClickvecError

Line = tuple[str, str, float, str, int]  # query, title, clicks, client, time


def events_of(lines: Sequence[Line]) -> Events:
    queries, titles, clicks, clients, times = zip(*lines, strict=True)
    return Events(list(queries), list(titles), np.array(clicks, float), list(clients), np.array(times, np.int64))


def log_of(lines: Sequence[Line]) -> ClickLog:
    return collect([events_of(lines)], BadLines())


def left(
    lines: Sequence[Line], rules: Cleaning, known: Sequence[str] = ()
) -> tuple[list[tuple[str, str]], list[Dropped]]:
    log, report = clean(log_of(lines), rules, list(known))
    return list(zip(log.queries, log.titles, strict=True)), report.dropped


def test_a_log_without_clients_stays_as_it_is() -> None:
    log = ClickLog(["Hotel", "hotel"], ["x", "Y"], np.ones(2))
    cleaned, report = clean(log, Cleaning())
    assert (cleaned.queries, cleaned.titles, report.dropped) == (log.queries, log.titles, [])


def test_a_client_that_clicks_again_soon_counts_once() -> None:
    lines = [("q", "t", 1, "u", 0), ("Q", "t", 1, "u", 1800), ("q", "t", 1, "u", 3601), ("q", "t", 1, "v", 0),
             ("q", "t", 1, "", 0), ("q", "t", 1, "", 0)]  # fmt: skip
    kept, dropped = left(lines, Cleaning(k_anonymous=0))
    assert len(kept) == 5
    assert dropped == [Dropped("merge_minutes", 1, 0)]


def test_bots_by_searches_in_an_hour() -> None:
    person = [(f"q{k}", "t", 1.0, "person", 1200 * k) for k in range(9)]  # 3 in each hour
    page = [("shown", f"t{k}", float(k == 0), "reader", 50) for k in range(9)]  # one search that shows 9 titles
    bot = [(f"b{k}", "t", 1.0, "bot", 7200 + k) for k in range(4)]
    kept, dropped = left(person + page + bot, Cleaning(k_anonymous=0, max_per_hour=3))
    assert {query for query, _ in kept} == {*(f"q{k}" for k in range(9)), "shown"}
    assert dropped[0] == Dropped("max_per_hour", 4, 4)


def test_lists_lengths_and_rare_queries() -> None:
    lines = [("Hot  dog", "t", 1, "u", 0), ("one two three", "t", 1, "u", 0), ("rare", "t", 1, "u", 0),
             ("often", "t", 1, "u", 0), ("often", "s", 1, "u", 0), ("spam", "s", 9, "spammer", 0)]  # fmt: skip
    rules = Cleaning.with_lists(
        ["hot dog"], ["spammer "], max_query_words=2, min_clicks=2, merge_minutes=0, k_anonymous=0
    )
    kept, dropped = left(lines, rules)
    assert kept == [("often", "t"), ("often", "s")]
    assert dropped == [
        Dropped("drop_clients", 1, 1), Dropped("drop_queries", 1, 1), Dropped("max_query_words", 1, 1),
        Dropped("min_clicks", 1, 1),
    ]  # fmt: skip


def test_queries_of_few_clients_are_dropped_unless_they_are_known() -> None:
    lines = [("q", "t", 1, client, 0) for client in ("u", "v", "w")]
    lines += [
        ("mine", "t", 1, "u", 9000),
        ("mine", "t", 1, "u", 90000),
        ("ours", "t", 1, "u", 0),
        ("ours", "t", 0, "v", 0),
    ]
    lines += [("nobody's", "t", 1, "", k) for k in range(9)]
    kept, dropped = left(lines, Cleaning())
    assert {query for query, _ in kept} == {"q"}
    assert dropped[-1] == Dropped("k_anonymous", 13, 3)
    assert {query for query, _ in left(lines, Cleaning(), ["ours"])[0]} == {"q", "ours"}
    assert {query for query, _ in left(lines, Cleaning(k_anonymous=2))[0]} == {"q", "ours"}


def test_secrets_are_masked_before_anything_is_counted() -> None:
    lines = [(f"mail {client}@example.com", "t", 1, client, 0) for client in ("u", "v", "w")]
    log, report = clean(log_of(lines), Cleaning())
    assert log.queries == ["mail <email>"] * 3
    titles = ["Call 0617590196", "mail ann@example.com"]  # documents: an index shows them as they are
    cleaned, about_titles = clean(ClickLog(["a", "b"], titles, np.ones(2)), Cleaning())
    assert cleaned.titles == titles
    assert not about_titles.secrets
    assert report.secrets == {"email": 3}
    with pytest.raises(ClickvecError, match=r"no click: --k-anonymous alone drops 3 lines.*0"):
        clean(log_of(lines), Cleaning(keep_secrets=True))


NO_SHRINK = (Phase.explicit, Phase.generate)  # each example takes half a second


def test_sessions_are_not_users_unless_the_option_says_so() -> None:
    log = replace(log_of([("mine", "t", 1, "s1", 0), ("ours", "t", 1, "s1", 0)]), sessions=True)
    cleaned, report = clean(log, Cleaning())
    assert (cleaned.queries, report.dropped) == (["mine", "ours"], [Dropped("merge_minutes", 0, 0)])
    check_tells(str(report), "sessions", "--k-anonymous 3", "--columns client=")
    with pytest.raises(ClickvecError, match="--k-anonymous"):
        clean(log, Cleaning(k_anonymous=3))
    assert "sessions" not in str(clean(log, Cleaning(k_anonymous=0))[1])


def test_a_column_of_sessions_is_recognised(tmp_path: Path) -> None:
    for header, chosen, sessions in (
        ("session_id", {}, True), ("user_id", {}, False), ("ip", {}, False), ("client", {}, False), ("x", {}, False),
        ("session_id\tuser_id", {}, False), ("session_id", {"client": "session_id"}, False),
    ):  # fmt: skip
        path = tmp_path / "log.tsv"
        path.write_text(f"query\ttitle\t{header}\n" + "q\tt" + "\ts1" * len(header.split("\t")) + "\n")
        log = read_clicks(path, columns=chosen)
        assert log.sessions is sessions, header
        assert (log.clients is None) is (header == "x")


def test_a_rule_that_drops_most_of_the_clicks_says_so_with_the_option(caplog: pytest.LogCaptureFixture) -> None:
    lines = [("q", "t", 1, client, 0) for client in "uvw"] + [(f"rare {at}", "t", 2, "u", 99) for at in range(4)]
    assert clean(log_of(lines[:4]), Cleaning())[1].dropped[-1] == Dropped("k_anonymous", 1, 1)
    clean(log_of(lines[:3] * 2), Cleaning())
    clean(log_of(lines), Cleaning(k_anonymous=0))
    assert not caplog.records
    clean(log_of(lines), Cleaning())
    check_tells(caplog.messages[0], "--k-anonymous 3 drops 8 of 11 clicks (73%)", "--k-anonymous 0")
    bots = [(str(at), "t", 1.0, "bot", at) for at in range(11)]
    clean(log_of(bots + lines), Cleaning(max_per_hour=6, k_anonymous=0))  # 11 of 22 clicks
    assert len(caplog.messages) == 1
    clean(log_of([("one more", "t", 1.0, "bot", 0), *bots, *lines]), Cleaning(max_per_hour=6, k_anonymous=0))
    check_tells(caplog.messages[1], "--max-per-hour 6 drops 12 of 23", "more than 6 searches", "--max-per-hour 0")


def test_clients_with_too_many_lines_are_dropped() -> None:
    lines = [(f"q{at}", "t", 1.0, "heavy", 0) for at in range(5)] + [("q", "t", 1.0, "", 0)] * 9
    kept, dropped = left([*lines, ("a", "t", 1, "u", 0)], Cleaning(max_per_client=4, k_anonymous=0))
    assert kept == [("q", "t")] * 9 + [("a", "t")]
    assert dropped[0] == Dropped("max_per_client", 5, 5)


def test_frequent_queries_are_those_of_enough_clients() -> None:
    lines = [("often", "t", 9.0, "u", 0)] + [("shared", "t", 1.0, client, 0) for client in "uvw"]
    assert frequent_queries(log_of(lines), 9) == ["shared"]
    assert frequent_queries(log_of(lines), 9, 4) == []
    assert frequent_queries(log_of(lines), 9, 1) == ["shared"]
    without = replace(log_of([*lines, ("few", "t", 2.0, "", 0)]), clients=None)
    assert frequent_queries(without, 9) == ["often", "shared"]  # nobody knows who typed them: clicks count
    assert frequent_queries(without, 1) == ["often"]


QUERIES = st.sampled_from(["a", "A ", "b c", "b c d", "a@b.com", "c@d.org", "hotel"])
LINES = st.lists(
    st.tuples(
        QUERIES, st.sampled_from(["t", "T", "s", "x@y.de"]), st.sampled_from([0.0, 1.0, 1.0, 2.0]),
        st.sampled_from(["", "u", "v", "w", "x"]), st.integers(0, 9).map(lambda k: 700 * k),
    ),
    min_size=1, max_size=40,
)  # fmt: skip
RULES = st.builds(
    Cleaning, st.booleans(), st.sampled_from([frozenset(), frozenset({"v"})]), st.sampled_from([0, 5]),
    st.sampled_from([0, 2, 3]), st.sampled_from([0, 12, 30]),
    st.sampled_from([frozenset(), frozenset({"hotel", "a"})]), st.sampled_from([0, 2]),
    st.sampled_from([None, 0, 2, 3]), st.sampled_from([0, 2.0, 4.0]),
)  # fmt: skip


@settings(max_examples=12, deadline=None, phases=NO_SHRINK)
@given(LINES, RULES, st.booleans())
def test_the_rules_in_sql(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Line], rules: Cleaning, sessions: bool
) -> None:
    lines += [("last", "one", 1.0, client, 0) for client in "abcd"]  # always left
    folder = tmp_path_factory.mktemp("clean")
    expected, found = (
        write_data_folder(
            [events_of(lines)._replace(sessions=sessions)],
            folder / name,
            Preparation(cleaning=rules, memory=memory, frequent=4),
            check=lambda _: None,
        )
        for name, memory in (("expected", None), ("found", LEAST_MEMORY))
    )
    assert found == expected
    for path in (folder / "expected").iterdir():
        assert path.read_bytes() == (folder / "found" / path.name).read_bytes(), path.name
