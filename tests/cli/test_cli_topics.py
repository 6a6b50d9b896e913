"""`clickvec topics`: what it reads, what it prints, what it scores, and what it refuses."""

import gzip
import json
from pathlib import Path

import pytest
from command import ok, refused, run, wrong_usage
from tiny import TEXTS, tiny_model

from clickvec import Encoder, Index
from clickvec.data import Columns, read_texts
from clickvec.lab.claims.topic_labels import read_labels

LABELS = "text\ttopic\n" + "".join(f"{text}\t{'repair' if 'bath' in text else 'travel'}\n" for text in TEXTS[:6])


@pytest.fixture(autouse=True)
def wide_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """However wide the terminal is in which the tests run."""
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.txt"
    path.write_text("".join(f"{text}\n" for text in ["query", *TEXTS]), encoding="utf-8")
    return path


# --- the map -----------------------------------------------------------------------------------------------------


def test_the_map_has_a_line_for_each_sign_of_each_cell(model_folder: Path, queries: Path) -> None:
    done = run("topics", model_folder, queries)
    assert done.status == 0, done.err
    head, rule, *lines = done.out.splitlines()
    assert head.split() == ["cell", "sign", "detections", "specificity", "group", "words", "(lift)"]
    assert set(rule) == {"-"}
    assert [line.split()[:2] for line in lines[:14]] == [[str(cell), sign] for cell in range(7) for sign in "+-"]
    assert lines[-1].startswith("dead cells: ")
    assert "8 texts, " in done.err
    assert "detections" in done.err


def test_of_a_large_model_the_most_specific_cells_unless_all_are_asked_for(tmp_path: Path, queries: Path) -> None:
    model = tiny_model(tmp_path / "large", cells=30)
    Index.build(Encoder.load(model), TEXTS).save(tmp_path / "index")
    short, whole = ok("topics", model, queries), ok("topics", model, queries, "--all")
    assert ok("topics", tmp_path / "index", queries) == short
    assert "40 more rows with --all" in short
    assert "--all" not in whole + ok("topics", model, queries, "--cells", "1")
    assert [line.split()[0] for line in whole.splitlines()[2:62:2]] == [str(cell) for cell in range(30)]
    assert set(short.splitlines()[:22]) - set(whole.splitlines()) <= {short.splitlines()[1]}


def test_some_cells_and_some_words(model_folder: Path, queries: Path) -> None:
    lines = ok("topics", model_folder, queries, "--cells", "3, 1", "--words", "2").splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["1", "1", "3", "3"]
    assert max(line.count("(") for line in lines[2:6]) == 2


def test_a_model_of_two_directions_names_them(tmp_path: Path, queries: Path) -> None:
    model = tiny_model(tmp_path / "two", "bilstm")
    lines = ok("topics", model, queries, "--cells", "4").splitlines()
    assert [line.split()[:2] for line in lines[2:6]] == [["4", "+"], ["4", "-"]] + [["4", "←"]] * 2


# --- JSON --------------------------------------------------------------------------------------------------------


def test_all_of_it_as_one_object(model_folder: Path, queries: Path) -> None:
    out = ok("topics", model_folder, queries, "--cells", "2", "--json", "--words", "3")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert [(topic["cell"], topic["way"], topic["sign"]) for topic in found["topics"]] == [
        (2, "left to right", "+"),
        (2, "left to right", "-"),
    ]
    words = [word for topic in found["topics"] for word in topic["words"]]
    assert 0 < len(words) <= 6
    assert {"word", "count", "lift"} == words[0].keys()
    assert found["texts"] == 8
    assert isinstance(found["dead"], list)


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dssm", "clsm"])
def test_a_tower_that_does_not_read_word_by_word(tmp_path: Path, queries: Path, kind: str) -> None:
    assert "does not read word by word" in refused("topics", tiny_model(tmp_path / kind, kind), queries)


def test_wrong_usage(model_folder: Path, queries: Path) -> None:
    said = wrong_usage("topics", model_folder, queries, "--cells", "7")
    assert "'7'" in said
    assert "0 to 6" in said
    assert "there is no cell 'x'" in wrong_usage("topics", model_folder, queries, "--cells", "0,x")


def test_bad_files_are_named(model_folder: Path, queries: Path, tmp_path: Path) -> None:
    strange, empty = tmp_path / "strange.txt", tmp_path / "empty.txt"
    strange.write_text("query\nzzz qqq\nxxx\n")
    empty.write_text("")
    assert refused("topics", model_folder, tmp_path / "none.txt") == f"{tmp_path / 'none.txt'} does not exist"
    assert refused("topics", model_folder, empty) == f"{empty} is empty"
    assert "none of the 2 texts has a letter trigram" in refused("topics", model_folder, strange)
    assert "is not a complete model folder" in refused("topics", tmp_path, queries)


# --- the readers behind it ---------------------------------------------------------------------------------------


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_queries_come_from_whatever_has_them(tmp_path: Path) -> None:
    files = {
        "plain.txt": ["new york", "hotels, cheap", "new york"],
        "headed.txt": ["query", "new york", "hotels, cheap"],
        "clicks.tsv": ["query\ttitle\tclicks", "new york\ta guide\t3", "hotels, cheap\tb\t1"],
        "bare-clicks.tsv": ["new york\ta guide\t3", "new york\tmore\t1", "hotels, cheap\tb\t1"],
        "pairs.tsv": ["query\ttitle", "new york\ta", "hotels, cheap\tb"],
        "judged.tsv": ["1\tnew york\td1\ta\t0", "1\tnew york\td2\tb\t1", "2\thotels, cheap\td1\ta\t1"],
        "queries.tsv": ["query_id\tquery", "q1\tnew york", "q2\thotels, cheap"],
        "quoted.csv": ["query,title", 'new york,"a, b"', '"hotels, cheap",c'],
        "lines.jsonl": ['{"query": "new york"}', '{"query": "hotels, cheap", "title": "x"}'],
    }
    for name, lines in files.items():
        read = read_texts(written(tmp_path / name, *lines), columns=Columns(header=False))
        assert read.rows == ("new york", "hotels, cheap"), name


def test_titles_too(tmp_path: Path) -> None:
    for name, lines in {
        "plain.txt": ["a guide", "b"],
        "catalogue.tsv": ["doc_id\ttitle\turl", "d1\ta guide\tx", "d2\tb\ty"],
        "bare.tsv": ["d1\ta guide", "d2\tb"],
        "clicks.tsv": ["query\ttitle\tclicks", "q\ta guide\t3", "r\tb\t1"],
        "judged.tsv": ["1\tq\td1\ta guide\t0", "1\tq\td2\tb\t1"],
    }.items():
        read = read_texts(written(tmp_path / name, *lines), "title", columns=Columns(header=False))
        assert read.rows == ("a guide", "b"), name


def test_blank_lines_of_a_table_are_bad(tmp_path: Path) -> None:
    read = read_texts(written(tmp_path / "q.tsv", "query\ttitle", *["a\tb"] * 200, " \tb"))
    assert read.rows == ("a",)
    assert read.bad.examples == [f"{tmp_path / 'q.tsv'}:202: blank query"]


def test_labels_of_a_kind(tmp_path: Path, site: Path) -> None:
    path = written(
        tmp_path / "l.tsv", "text\tkind\ttopic\tintent", "A  Pizza\tquery\tfood\tx", "knee\ttitle\thealth\ty",
        "pizza\t\tfood\t", *["a pizza\tquery\tfood\tx"] * 200, "a pizza\tquery\tcars\tx", "\tquery\tfood\t",
    )  # fmt: skip
    read = read_labels(path)
    assert read.topics == {"a pizza": "food", "pizza": "food"}
    assert read.texts == ("a pizza", "knee", "pizza")
    assert dict(read.bad.reasons) == {"a text with two topics": 1, "blank text": 1}
    assert read_labels(path, "title").topics == {"knee": "health", "pizza": "food"}
    built_in = read_labels(site / "topics.tsv.gz")
    assert len(set(built_in.topics.values())) == 16
    with gzip.open(site / "test.tsv.gz", "rt", encoding="utf-8") as file:
        asked = {line.split("\t")[1] for line in list(file)[1:]}
    assert asked <= built_in.topics.keys()
