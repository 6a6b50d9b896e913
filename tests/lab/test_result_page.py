"""The pages of a comparison: Markdown, LaTeX, JSON and the table of the terminal, from a tiny one."""

import dataclasses
import json
import re

import numpy as np
import pytest
from test_breakdown import LOG, judged
from test_pair_tests import row_of

from clickvec.lab.compare.findings import MEASURES, Comparison, Findings, as_json, examine
from clickvec.lab.compare.result_page import (
    duration,
    for_terminal,
    latex,
    latex_escape,
    markdown,
    number_ranges,
    pipe_table,
    rate,
    size,
)
from clickvec.render.terminal.screen import Screen, width

pytest.importorskip("scipy")
QUERIES = 40


@pytest.fixture(scope="module")
def findings() -> Findings:
    rng = np.random.default_rng(0)
    base = rng.uniform(10, 60, (1, 3, QUERIES))
    lstm = base + 30 + rng.normal(0, 2, (3, 3, QUERIES))
    rows = (
        row_of(base, "bm25", label="BM25 & friends_1 | 100%", settings={"k1": 1.2, "b": 0.75}),
        row_of(base, "ulm", label="ULM #2", settings={"smoothing": np.float64("nan")}, commit="def"),
        row_of(
            lstm, "lstm", label="LSTM-RNN (ncell = 96)", parameters=14_412_345, train_seconds=252.0,
            queries_per_second=1234.5, settings={"tower": "lstm", "sizes": (96, 288)}, histories=[[2.0, 1.0]] * 3,
        ),
    )  # fmt: skip
    queries = [judged("cheap hotels" if i else "zebra", "shanghai hotel") for i in range(QUERIES)]
    queries = [query._replace(query_id=f"q{i}") for i, query in enumerate(queries)]
    about = {"recipe": "paper", "seeds": np.int64(3), "log": "clicks.tsv.gz"}
    comparison = Comparison(rows, {"dev": queries, "test": queries}, {"dev": 1, "test": 2}, about, {"RNN": [3.0, 2.0]})
    return examine(comparison, LOG, rounds=20_000)


def test_the_numbers_of_the_rows_that_a_row_beats(findings: Findings) -> None:
    assert findings.beaten() == [[], [], [1, 2]]


def test_the_table_of_the_terminal(findings: Findings) -> None:
    head, rule, *lines = for_terminal(findings, Screen(200)).splitlines()
    assert " ".join(head.split()) == (
        "# system NDCG@1 NDCG@3 NDCG@10 95% CI of NDCG@10 ahead of parameters training queries/s"
    )
    assert set(rule) == {"-"}
    assert len(lines) == 3
    mean, spread = findings.comparison.rows[2].mean("test"), findings.comparison.rows[2].spread("test")
    assert f"{mean[0]:.1f} ± {spread[0]:.1f}" in lines[2]
    assert re.search(r" to \d+\.\d +1-2 +14\.4M +4\.2 min +1,230$", lines[2])
    assert "±" not in lines[0] + lines[1]
    assert "*" not in "".join(lines)


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
@pytest.mark.parametrize("letter", ["x", "海"])
def test_the_table_fits_the_terminal_and_says_what_it_leaves_out(findings: Findings, columns: int, letter: str) -> None:
    rows = [dataclasses.replace(row, label=f"{row.label} {letter * 80}") for row in findings.comparison.rows]
    comparison = dataclasses.replace(findings.comparison, rows=tuple(rows))
    text = for_terminal(dataclasses.replace(findings, comparison=comparison), Screen(columns))
    assert max(map(width, text.splitlines())) <= columns
    head, *_ = text.splitlines()
    assert all(measure in head for measure in MEASURES)
    for column in ("95% CI of NDCG@10", "ahead of", "parameters", "training", "queries/s"):
        assert " ".join(text.split()).count(column) == 1  # in the head, or in the line that says where it is
    assert ("table.md" in text) == ("queries/s" not in head)


def test_the_table_has_every_column_where_there_is_room(findings: Findings) -> None:
    text = for_terminal(findings, Screen(130))
    assert "LSTM-RNN (ncell = 96) " in text
    assert "table.md" not in text


def test_markdown_has_every_section_and_tables_of_one_width(findings: Findings) -> None:
    text = markdown(findings, "The table")
    assert re.findall(r"^#+ .*", text, re.M) == [
        "# The table",
        "## Significance",
        "## NDCG by kind of query",
        "### Length of the query",
        "### Words of the query in the log",
        "### Clicks on the query in the log",
        "### Clicks on the relevant titles in the log",
        "### Relevant titles that share a word with the query",
        "## Settings",
        "## How each row was made",
    ]
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1
    assert "nan" not in text.lower()


def test_markdown_says_what_it_was_measured_on_and_how(findings: Findings) -> None:
    text = markdown(findings)
    assert "40 dev queries (1 more have no relevant title), 40 test queries (2 more have no relevant title)" in text
    assert "- recipe: paper\n- seeds: 3\n- log: clicks.tsv.gz\n" in text
    assert "| 1 | BM25 & friends_1 \\| 100% | k1 1.2, b 0.75 |" in text
    assert "tower lstm, sizes [96, 288]" in text
    assert "clickvec compare --systems lstm  # 3\n" in text
    assert "- row 1, 3: clickvec abc, on a machine\n- row 2: clickvec def, on a machine\n" in text


def test_markdown_marks_the_best_the_luck_and_the_small(findings: Findings) -> None:
    text = markdown(findings)
    best = f"**{findings.comparison.rows[2].mean('test')[2]:.1f}** ± "
    assert best in text
    assert "Holm's correction for 3 pairs" in text
    assert re.search(r"\b2 pairs .* first test, 2 .* second, 2 by both", text)
    assert "| 1 | BM25 & friends_1 \\| 100% | · | 1 | **<.001** |" in text
    assert "| 3 | LSTM-RNN (ncell = 96) | **<.001** | **<.001** | · |" in text
    assert "| # | system | 1 word (1)\\* | 2 words (39) |" in text
    assert "All 40 queries are in one group: head" not in text
    assert "All 40 queries are in one group: tail." in text


def test_latex_is_a_table_that_compiles(findings: Findings) -> None:
    text = latex(findings)
    lines = text.splitlines()
    assert lines[0] == r"\begin{tabular}{rllllllrrr}"
    assert lines[-1] == r"\end{tabular}"
    assert r"BM25 \& friends\_1 $|$ 100\%" in text
    assert r"ULM \#2" in text
    assert r"95\% CI of NDCG@10" in text
    assert re.search(r"\\textbf\{\d+\.\d\} \$\\pm\$ \d\.\d", text)
    assert set(text) - set(map(chr, range(32, 127))) == {"\n"}
    body = [line for line in lines if line.endswith(r"\\")]
    assert len(body) == 4
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {9}
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_latex_prints_special_characters_as_they_stand() -> None:
    assert latex_escape(r"a&b%c_d#e$f{g}h\i^j~k<l>m") == (
        r"a\&b\%c\_d\#e\$f\{g\}h\textbackslash{}i\textasciicircum{}j\textasciitilde{}k$<$l$>$m"
    )


def test_json_holds_everything_and_comes_back(findings: Findings) -> None:
    plain = as_json(findings)
    again = json.loads(json.dumps(plain, allow_nan=False))
    assert again == plain
    assert again["about"] == {"recipe": "paper", "seeds": 3, "log": "clicks.tsv.gz"}
    assert again["splits"]["test"]["query_ids"] == [f"q{i}" for i in range(QUERIES)]
    assert again["splits"]["dev"]["left_out"] == 1
    lstm, pairs = again["rows"][2], again["significance"]["pairs"]
    assert lstm["parameters"] == 14_412_345
    assert lstm["settings"] == {"tower": "lstm", "sizes": [96, 288]}
    assert again["rows"][1]["settings"] == {"smoothing": None}
    values = np.array(lstm["test"]["per_query"]["NDCG@10"])
    assert values.shape == (3, QUERIES)
    assert values == pytest.approx(findings.comparison.rows[2].test[:, 2], abs=1e-4)
    assert lstm["test"]["mean"]["NDCG@10"] == pytest.approx(values.mean(), abs=1e-4)
    low, high = lstm["test"]["95% of NDCG@10"]
    assert low < values.mean() < high
    assert [(pair["first"], pair["second"]) for pair in pairs] == [("bm25", "ulm"), ("bm25", "lstm"), ("ulm", "lstm")]
    one_word = again["breakdowns"][0]["groups"][0]
    assert (one_word["name"], one_word["queries"], one_word["query_ids"]) == ("1 word", 1, ["q0"])
    assert one_word["standard_error"] == {"bm25": None, "ulm": None, "lstm": None}
    assert again["curves"] == {"RNN": [3.0, 2.0]}


def test_figures_that_look_the_same_are_all_bold() -> None:
    values = np.full((1, 3, 4), 50.01)
    rows = tuple(row_of(values + shift, key) for key, shift in (("a", 0.0), ("b", 0.02), ("c", -1.0)))
    queries = [judged(f"query {i}", "t") for i in range(4)]
    text = markdown(examine(Comparison(rows, {"dev": queries, "test": queries}, {}, {}), LOG, rounds=100))
    assert text.count("| **50.0** | **50.0** | **50.0** |") == 2
    assert "| 49.0 | 49.0 | 49.0 |" in text


def test_one_row_and_one_query_are_enough(findings: Findings) -> None:
    row = row_of(np.full((1, 3, 1), 50.0), "only")
    queries = [judged("cheap hotels", "t")]
    alone = examine(Comparison((row,), {"dev": queries, "test": queries}, {}, {}), LOG)
    assert "## Significance" not in markdown(alone)
    assert latex(alone).count(r"\textbf{50.0}") == 3
    assert for_terminal(alone, Screen(200)).splitlines()[2].split()[:6] == ["1", "ONLY", "50.0", "50.0", "50.0", "50.0"]
    json.dumps(as_json(alone), allow_nan=False)


def test_the_same_findings_give_the_same_pages(findings: Findings) -> None:
    again = examine(dataclasses.replace(findings.comparison), LOG, rounds=20_000)
    assert markdown(again) == markdown(findings)
    assert as_json(again) == as_json(findings)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (size(None), ""), (size(0), "0"), (size(512), "512"), (size(960_000), "960K"), (size(14_412_345), "14.4M"),
        (size(999_999), "1M"), (size(1_100_000_000), "1.1B"), (duration(0.0), ""), (duration(0.24), "0.2 s"),
        (duration(42.4), "42 s"), (duration(252), "4.2 min"), (duration(7560), "2.1 h"), (duration(float("nan")), ""),
        (rate(0.0), ""), (rate(float("inf")), ""), (rate(3.14159), "3.14"), (rate(1234.5), "1,230"),
        (number_ranges([]), ""), (number_ranges([1, 2, 3, 5, 8, 9]), "1-3, 5, 8-9"),
        (pipe_table([["a"], ["x|y\nz"]]), "| a |\n|---|\n| x\\|y z |"),
    ],
)  # fmt: skip
def test_how_figures_are_written(shown: str, expected: str) -> None:
    assert shown == expected
