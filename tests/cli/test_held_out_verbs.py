"""The verbs that take held-out clicks in place of a judged set: evaluate, report, compare."""

import json
from pathlib import Path

import pytest
from command import ok, refused, run, wrong_usage
from tiny import tiny_model

CLICKS = [
    ("hotels in shanghai", "shanghai hotels"),
    ("hotels in shanghai", "cheap hotels"),
    ("pizza near me", "best pizza"),
    ("red wine", "wine shop"),
]
TITLES = ["shanghai hotels", "best pizza", "a car", "blue tea"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "held_out.tsv"
    path.write_text("".join("\t".join(pair) + "\n" for pair in [("query", "title"), *CLICKS]))
    return path


@pytest.fixture
def titles(tmp_path: Path) -> Path:
    path = tmp_path / "titles.tsv"
    path.write_text("".join(f"{title}\n" for title in ["title", *TITLES]))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model")


def test_evaluate_measures_over_the_catalogue(model: Path, log: Path, titles: Path) -> None:
    arguments = ("evaluate", model, "bm25", "--held-out", log, "--catalogue", titles)
    table, notes = ok(*arguments).split("\n\n")
    head, _, *rows = table.splitlines()
    assert head.split() == ["system", "MRR@10", "Recall@100", "NDCG@10", "p"]
    assert notes.startswith("MRR@10, Recall@100, NDCG@10: each query ranks the whole catalogue.\np: ")
    assert all("[" in row for row in rows)
    facts = json.loads(ok(*arguments, "--json"))
    assert (facts["queries"], facts["relevant"]) == (3, 4)
    bm25 = facts["systems"][1]
    assert bm25["MRR@10"] == 100  # each query shares a word with its clicked title
    assert bm25["intervals"]["MRR@10"] == [100, 100]
    assert bm25["Recall@100"] == 100


def test_evaluate_says_what_it_does_not_know(model: Path, log: Path, titles: Path) -> None:
    told = run("evaluate", model, "bm25", "--held-out", log, "--catalogue", titles).err
    assert "is not known" in told
    assert "k1 = 1.2, b = 0.75; not tuned" in told
    assert "--catalogue" not in told
    alone = run("evaluate", model, "--held-out", log).err
    assert "Only the 4 titles of --held-out are searched" in alone
    assert "BM25" not in alone


def test_evaluate_tunes_bm25_on_dev(log: Path, tmp_path: Path) -> None:
    judged = tmp_path / "dev.tsv"
    lines = [
        "query_id\tquery\tdoc_id\ttitle\tgrade",
        "1\tcheep hotel\ta\tcheap hotels\t1",
        "1\tcheep hotel\tb\ta car\t0",
    ]
    judged.write_text("".join(f"{line}\n" for line in lines))
    for measured in (("--held-out", log), ("--judged", judged)):
        assert ", tuned on dev" in run("evaluate", "bm25", *measured, "--dev", judged).err


def test_usage(model: Path, log: Path, tmp_path: Path) -> None:
    for verb in (("evaluate", model), ("report", model, "--out", tmp_path / "r")):
        assert "either --judged" in wrong_usage(*verb)
        assert "either --judged" in wrong_usage(*verb, "--judged", log, "--held-out", log)
    assert "--run" in wrong_usage("evaluate", model, "--held-out", log, "--run", tmp_path / "run")
    compare = ("compare", "--clicks", log, "--out", tmp_path / "c")
    assert "--dev" in wrong_usage(*compare, "--held-out", log, "--dev", log)
    assert "--dev" in wrong_usage(*compare)


def test_bad_held_out_clicks(model: Path, tmp_path: Path) -> None:
    absent, empty = tmp_path / "absent.tsv", tmp_path / "empty.tsv"
    empty.write_text("query\ttitle\n")
    assert str(absent) in refused("evaluate", model, "--held-out", absent)
    assert str(empty) in refused("evaluate", model, "--held-out", empty)


def test_a_report_on_held_out_clicks(model: Path, log: Path, titles: Path, tmp_path: Path) -> None:
    ok("report", model, "--held-out", log, "--catalogue", titles, "--out", tmp_path / "report")
    numbers = json.loads((tmp_path / "report" / "report.json").read_text())["ranking"]["systems"]
    found = json.loads(ok("evaluate", model, "bm25", "--held-out", log, "--catalogue", titles, "--json"))["systems"]
    assert numbers[1]["NDCG@10"] == pytest.approx(found[1]["NDCG@10"])
    assert "k1 = 1.2, b = 0.75; not tuned" in (tmp_path / "report" / "index.html").read_text()


def test_a_report_names_no_rare_query_and_no_secret(model: Path, titles: Path, tmp_path: Path) -> None:
    rows = [("red wine ann@example.com", "wine shop", client) for client in "abc"]
    rows += [("my rare query", "wine shop", "a"), *(("a car", "a car", client) for client in "abc")]
    log = tmp_path / "log.tsv"
    log.write_text("query\ttitle\tclient\n" + "".join("\t".join(row) + "\n" for row in rows))
    options = ("--held-out", log, "--clicks", log, "--catalogue", titles, "--worst", "9", "--out", tmp_path / "report")
    ok("report", model, *options)
    for file in (tmp_path / "report").iterdir():
        assert not any(text in file.read_bytes() for text in (b"ann@example", b"rare query"))
    assert "a car" in (tmp_path / "report/index.html").read_text()


def test_a_comparison_on_held_out_clicks(log: Path, tmp_path: Path) -> None:
    for library in ("torch", "scipy", "matplotlib"):
        pytest.importorskip(library)
    clicks = tmp_path / "clicks.tsv"
    clicks.write_text("query\ttitle\nWine, red\twine shop\na car\ta car\n")  # a near-duplicate of a held-out query
    done = run("compare", "--clicks", clicks, "--held-out", log, "--systems", "bm25", "--out", tmp_path / "c", "--json")
    assert done.status == 0, done.err
    assert "1 queries choose settings, 1 give the figures" in done.err
    assert "Left out 1 queries" in done.err
    assert "--held-out held_out.tsv" in (tmp_path / "c" / "comparison.json").read_text()
    again = refused("compare", "--clicks", log, "--held-out", log, "--systems", "bm25", "--out", tmp_path / "d")
    assert "fewer than two queries" in again
