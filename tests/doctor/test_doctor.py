"""`clickvec doctor` on a log counted by hand, in words, as JSON and as a page, and on logs that cannot be examined."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import check_tells, ok, refused, run
from markup import parse

from clickvec.data import BadLines, read_events
from clickvec.doctor.line_sample import LineSampler
from clickvec.doctor.sample_words import Words, misspelled_words, spelling
from clickvec.lab.simulate import Site, write

HEADER = "time\tclient\tquery\ttitle\tposition\tclicked\n"
# Two days with a day between them, three clients, one bad line, a repeated line, an e-mail address and a phone number.
LINES = """\
2024-01-01 10:00:00\tann\tRed Shoes\tshoes in red\t1\t1
2024-01-01 10:00:00\tann\tRed Shoes\tall shoes\t2\t0
2024-01-01 11:00:00\tbob\tred shoes\tall shoes\t1\t1
2024-01-01 11:00:00\tbob\tred shoes\tall shoes\t1\t1
2024-01-01 12:00:00\tbob\ttv\ttelevision sets\t1\t1
2024-01-03 10:00:00\tcid\tmail for joe@example.com\tcontact us\t1\t1
2024-01-03 10:00:00\tcid\tcall 555-867-5309\tcontact us\t2\t1
2024-01-03 10:00:00\tcid\thats\ta hat\t1\tmany
"""
SMALL = ("--set", "cells=8", "--set", "hidden=8", "--set", "batch_size=4")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("doctor") / "log.tsv"
    path.write_text(HEADER + LINES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def findings(log: Path) -> dict[str, dict[str, Any]]:
    return {finding["name"]: finding for finding in json.loads(ok("doctor", log, "--json", *SMALL))["findings"]}


def test_every_number_of_a_small_log(findings: dict[str, dict[str, Any]]) -> None:
    numbers = {name: finding["numbers"] for name, finding in findings.items()}
    assert {key: numbers["lines"][key] for key in ("lines", "good", "bad", "shown")} == {
        "lines": 8, "good": 7, "bad": 1, "shown": 1,
    }  # fmt: skip
    assert numbers["duplicates"] == {
        "clicked_lines": 6, "pairs": 5, "repeats": 1, "by_the_same_client": 1, "identical": 1,
    }  # fmt: skip
    assert numbers["bots"] == {"bots": 0, "bot_lines": 0, "per_hour": 120, "most_per_hour": 2}
    assert numbers["k_anonymity"] == {"k": 3, "queries": 4, "of_queries": 4, "lines": 7, "clicks": 6}
    assert numbers["clients"] == {"clients": 3, "sessions": False, "median_lines": 2.0, "busiest_lines": 3, "heavy": 0,
                                  "heavy_lines": 1000}  # fmt: skip
    assert numbers["days"] == {"days": 2, "first": "2024-01-01", "last": "2024-01-03", "empty": 1}
    assert numbers["clicks"] == {"clicks": 6.0, "pairs": 5, "queries": 4, "titles": 4, "pairs_with_one_click": 4}
    assert numbers["query_lengths"]["by_words"] == [0, 1, 4, 1]  # tv; red shoes three times, call; mail for joe
    assert numbers["head_and_tail"] == {"top": 100, "top_share": 1.0, "once": 3, "once_share": 0.75}
    assert numbers["popular_titles"]["top_queries"] == [2, 1, 1, 1]  # contact us
    assert numbers["popular_titles"]["ten_share_of_pairs"] == 1.0
    assert numbers["popular_titles"]["top_share_of_clicks"] == 1 / 3  # two of six: all shoes, contact us
    assert numbers["shared_words"] == {"lines": 6, "shared": 3, "every_word": 1}
    assert numbers["position_bias"] == {"clicked": [5, 1], "shown": [5, 2], "unknown": 0, "propensities": None}
    secrets = {"lines": 7, "lines_with_secrets": 2, "email": 1, "card": 0, "ssn": 0, "phone": 1}
    assert numbers["secrets"] == secrets
    # Red shoes has two titles and no other query has them, so one ordered pair of pairs for each: 2 of 20, and contact
    # us is the own title of both its queries.
    assert numbers["false_negatives"]["probability"] == pytest.approx(2 / 20)
    assert numbers["languages"]["scripts"] == {"Latin": 6}
    assert numbers["misspelled"]["misspelled"] == 0


def test_bad_lines_and_secrets_are_shown_and_no_secret_is(findings: dict[str, dict[str, Any]], log: Path) -> None:
    terminal = ok("doctor", log, *SMALL)
    check_tells(terminal, f"{log}:9:", "many")
    assert findings["lines"]["act"]
    check_tells(findings["lines"]["cure"], "--max-bad 0.13")
    assert findings["secrets"]["examples"] == ["<phone> ###-###-####: 1"]
    assert findings["days"]["act"]
    check_tells(findings["days"]["advice"], "2024-01-02")
    everything = json.dumps(findings) + terminal + ok("doctor", log, "--all", *SMALL)
    assert "joe" not in everything
    assert "867-5309" not in everything


def test_every_finding_ends_with_what_to_do(findings: dict[str, dict[str, Any]]) -> None:
    for finding in findings.values():
        assert finding["advice"].endswith(":" if finding["cure"] else ".")
    assert all(finding["text"].endswith(".") for finding in findings.values())


def test_the_terminal_and_the_page_say_the_same(log: Path, findings: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    page = tmp_path / "doctor.html"
    said = " ".join(ok("doctor", log, "--html", page, *SMALL).split())
    root = parse(page.read_text(encoding="utf-8"))
    shown = " ".join(root.text.split())
    for name, finding in findings.items():
        for part in (finding["text"],) if name != "cost" else ():
            assert part in said
            assert part in shown
    assert len(root.all("section")) == len(findings)
    assert root.all("svg", "drawing")
    check_tells(refused("doctor", log, "--html", page), page, "--overwrite")
    check_tells(refused("doctor", log, "--html", log, "--overwrite"), log, "choose another output")


def test_the_cost_is_measured(findings: dict[str, dict[str, Any]]) -> None:
    pytest.importorskip("torch")
    cost = findings["cost"]["numbers"]
    assert cost["update_seconds"] == pytest.approx(5 * cost["epochs"] / cost["pairs_per_second"])
    assert cost["seconds"] == cost["update_seconds"] + cost["mining_seconds"]
    assert cost["minibatches"] > 0


def test_a_title_that_everyone_clicks_needs_attention(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    lines = [f"query {at}\ttitle {at}\n" for at in range(97)] + [f"query {at}\tHome Page\n" for at in range(3)]
    path.write_text("query\ttitle\n" + "".join(lines), encoding="utf-8")
    found = json.loads(ok("doctor", path, "--json", *SMALL))["findings"]
    popular = next(finding for finding in found if finding["name"] == "popular_titles")
    assert popular["act"]
    assert popular["examples"][0] == "3 queries: Home Page"
    check_tells(popular["text"], "3.1% of the queries (3)", "The largest share of clicks is 3.0%")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("", "is empty"),
        ("query\ttitle\n", "no lines below it"),
        ("query\ttitle\n\tx\n\ty\n", "none of its 2 lines is a good pair"),
        ("query\ttitle\tclicks\na\tb\t0\n", "its only line is not a pair with a click"),
        ("foo\tbar\na\tb\n", "--columns"),
        ("query_id\tquery\tdoc_id\ttitle\tgrade\n1\ta\t2\tb\t3\n", "judged set"),
    ],
)
def test_logs_that_cannot_be_examined_get_one_sentence(content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text(content, encoding="utf-8")
    check_tells(refused("doctor", path), path, told)


def test_one_line_other_scripts_and_stdin(tmp_path: Path) -> None:
    for text, said in (
        ("上海酒店\t浦东饭店", "put spaces between words"),
        ("гостиница\tотель в москве", "Cyrillic 100%"),
    ):
        done = run("doctor", "-", *SMALL, stdin=f"query\ttitle\n{text}\n")
        assert done.status == 0, done.err
        check_tells(" ".join(done.out.split()), said, "1 line. None is bad.")


def test_misspelled_queries_of_the_built_in_log_are_found(tmp_path: Path) -> None:
    """The simulator misspells one query in five; the log must tell about as many."""
    write(tmp_path / "site", 100_000, dev_queries=0, test_queries=0)
    site, sampler = Site.build(0), LineSampler()
    for block in read_events(tmp_path / "site" / "impressions.tsv.gz", bad=BadLines()):
        sampler.add(block)
    sample = sampler.finish()
    words = Words.of(sample)
    meant = misspelled_words(words)
    misspelled = set(site.queries.text[len(site.lists) :])
    truth = [query in misspelled for query in sample.queries]
    found = [any(word in meant for word in query) for query in words.queries]
    both = sum(one and two for one, two in zip(truth, found, strict=True))
    assert both / sum(found) > 0.97  # precision
    assert both / sum(truth) > 0.35  # recall: in a short log, many misspelled words are as rare as the right ones
    assert spelling(words).with_misspelling == sum(found)
