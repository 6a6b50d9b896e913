"""benchmarks/compare_with.py finds what differs, and nothing else."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import compare_child
import compare_with
from compare_child import Answers
from compare_quality import measures
from compare_with import difference, report, with_fields


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.5, 0.5 + 4e-7),
        (1, 1.0),
        (float("nan"), float("nan")),
        (2_000_000.0, 2_000_001.0),
        ({"a": [1, {"b": None}], "c": "x"}, {"c": "x", "a": [1, {"b": None}]}),
    ],
)
def test_equal_values(one: object, other: object) -> None:
    assert difference(one, other) is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (0.5, 0.50001, ("", "0.5", "0.50001")),
        (1, True, ("", "1", "true")),
        (1.0, float("nan"), ("", "1.0", "NaN")),
        (None, 0, ("", "null", "0")),
        ("7", 7, ("", '"7"', "7")),
        ({"hits": [["a", 1.0], ["b", 2.0]]}, {"hits": [["a", 1.0], ["c", 2.0]]}, (".hits[1][0]", '"b"', '"c"')),
        ([1, 2], [1], ("", "[1, 2]", "[1]")),
        ({"a": 1}, {}, (".a", "1", '"(nothing)"')),
        ({}, {"a": 1}, (".a", '"(nothing)"', "1")),
    ],
)
def test_the_first_difference_is_shown(one: object, other: object, expected: tuple[str, str, str]) -> None:
    assert difference(one, other) == expected


def test_long_texts_are_shown_where_they_differ() -> None:
    found = difference("a" * 500 + "b", "a" * 500 + "c")
    assert found
    assert found[1:] == (f'"{"a" * 40}b"', f'"{"a" * 40}c"')


def test_the_report_counts_cases_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    before = {"same": {"q": 1}, "changed": {"a": 1, "b": 2, "c": 3}, "gone": {"q": 1}, "failed": {"q": {"error": "x"}}}
    now = {"same": {"q": 1}, "changed": {"a": 1, "b": 7, "c": 8}, "failed": {"q": {"error": "x"}}}
    assert report("hits", before, now, 1) == 2
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert ["same", "equal", "1"] in rows
    assert ["changed", "DIFFERENT", "2", "of", "3"] in rows
    assert ["gone", "DIFFERENT", "1", "of", "1"] in rows
    assert ["failed", "equal", "1,", "1", "are", "errors", "in", "both"] in rows
    assert ["before", "2"] in rows
    assert ["before", "3"] not in rows  # one example was asked for


def test_times_ports_and_paths_are_not_compared() -> None:
    answers = Answers({"names": {"/data/results": "<results>"}, "folder": "."})

    def fail() -> None:
        raise AttributeError("no such name in /data/results/x")

    assert answers.cleaned("indexed in 1.25 s, 3,120 titles/s at 127.0.0.1:8080, 17 titles") == (
        "indexed in <time>, <time> at 127.0.0.1:<port>, 17 titles"
    )
    assert answers.cleaned_text("one\nfitting the fusion 100% of 3, 0:00:00 left, 0/s\ntwo: 5% of 10\n") == (
        "one\ntwo: 5% of 10\n"
    )
    assert answers.cleaned({"seconds": 0.25, "titles": 3, "path": "/data/results/i"}) == {
        "seconds": "<changing>",
        "titles": 3,
        "path": "<results>/i",
    }
    answers.record("check", "case", fail)
    assert answers.checks == {"check": {"case": {"error": "AttributeError: no such name in <results>/x"}}}


def test_measures() -> None:
    judged = {"q": {"a": 3.0, "b": 1.0, "c": 0.0}, "r": {"d": 1.0}}
    assert measures([["a", "b"], ["d"]], judged) == {"MRR@10": 100, "Recall@100": 100, "NDCG@10": 100}
    assert measures([["c", "c", "b"], []], judged)["MRR@10"] == 25  # equal titles count once
    assert measures([["c"], ["x"]], judged) == {"MRR@10": 0, "Recall@100": 0, "NDCG@10": 0}


def test_the_fields_of_a_title_depend_on_it_alone() -> None:
    row = with_fields("t1\tcheap flights")
    assert row.split("\t")[2:] == with_fields("t2\tcheap flights").split("\t")[2:]
    assert row.count("\t") == 4
    assert {with_fields(f"t\ttitle {number}").split("\t")[4] == "" for number in range(30)} == {True, False}


def test_both_programs_know_the_same_sections() -> None:
    assert tuple(compare_child.SECTIONS) == compare_with.SECTIONS
