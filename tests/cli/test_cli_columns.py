"""--columns, --no-header and - in every verb that reads files."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command import SMALL, ok, program, refused, run, wrong_usage
from tiny import TEXTS, tiny_model

from clickvec import Index

Arguments = tuple[str | Path, ...]
LOG = [f"{text}\t{TEXTS[-1 - place]}\t2" for place, text in enumerate(TEXTS)]
JUDGED = [f"q{place}\t{text}\td{n}\t{title}\t{n}" for place, text in enumerate(TEXTS)
          for n, title in enumerate(TEXTS[:3])]  # fmt: skip
TITLES = [f"d{place}\t{text}" for place, text in enumerate(TEXTS)]
OURS = {
    "log": "query\ttitle\tclicks",
    "judged": "query_id\tquery\tdoc_id\ttitle\tgrade",
    "titles": "doc_id\ttitle",
}
THEIRS = {
    "log": "first_search\theading_title\ttimes",
    "judged": "qid\tfirst_search\tsku\theading_title\trating",
    "titles": "sku\theading_title",
}
LOG_NAMES, TITLE_NAMES = "query=first_search,title=heading_title,clicks=times", "doc_id=sku,title=heading_title"
JUDGED_NAMES = "query_id=qid,query=first_search,doc_id=sku,title=heading_title,grade=rating"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Write a model, and each kind of file with our column names, with other names, and without a header."""
    tiny_model(tmp_path / "model")
    for kind, lines in {"log": LOG, "judged": JUDGED, "titles": TITLES}.items():
        for name, header in {"ours": [OURS[kind]], "theirs": [THEIRS[kind]], "bare": []}.items():
            (tmp_path / f"{name}-{kind}.tsv").write_text("".join(f"{line}\n" for line in [*header, *lines]))
    return tmp_path


# What a verb is called with, where `path` gives the file of a kind, and the names that its files need.
VERBS: dict[str, tuple[Callable[[Path, Callable[[str], Path]], Arguments], str]] = {
    "prepare": (lambda at, path: ("prepare", path("log"), "--out", at / "out", "--overwrite", "--json"), LOG_NAMES),
    "prepare shown": (
        lambda at, path: ("prepare", path("log"), "--shown", path("judged"), "--out", at / "out", "--overwrite",
                          "--json"),
        f"{JUDGED_NAMES},clicks=times",
    ),
    "train": (lambda at, path: ("train", path("log"), "--out", at / "out", "--overwrite", *SMALL, "--json"), LOG_NAMES),
    "train dev": (
        lambda at, path: ("train", path("log"), "--dev", path("judged"), "--out", at / "out", "--overwrite", *SMALL,
                          "--json"),
        f"{JUDGED_NAMES},clicks=times",
    ),
    "evaluate": (lambda at, path: ("evaluate", at / "model", "--judged", path("judged"), "--json"), JUDGED_NAMES),
    "evaluate catalogue": (
        lambda at, path: ("evaluate", "bm25", "--judged", path("judged"), "--catalogue", path("titles"), "--json"),
        JUDGED_NAMES,
    ),
    "encode": (lambda at, path: ("encode", at / "model", path("titles"), "--out", at / "out.npy", "--overwrite"),
               TITLE_NAMES),
    "index": (lambda at, path: ("index", at / "model", path("titles"), "--out", at / "out", "--overwrite"),
              TITLE_NAMES),
    "topics": (lambda at, path: ("topics", at / "model", path("log")), "query=first_search,title=heading_title"),
    "nearest": (lambda at, path: ("nearest", at / "model", "hotel", "--catalogue", path("titles")), TITLE_NAMES),
    "report": (
        lambda at, path: ("report", at / "model", "--judged", path("judged"), "--catalogue", path("titles"), "--clicks",
                          path("log"), "--out", at / "out", "--overwrite"),
        f"{JUDGED_NAMES},clicks=times",
    ),
}  # fmt: skip


def result(*arguments: str | Path, stdin: str | bytes = "") -> object:
    """Return what a verb prints and writes."""
    out = ok(*arguments, stdin=stdin)
    if arguments[0] == "encode":
        return out, Path(arguments[4]).read_bytes()
    if arguments[0] == "index":
        return out, [(hit.id, hit.title) for hit in Index.open(Path(arguments[4]))]
    return json.loads(out)["fingerprint"] if arguments[0] == "train" else out


def named(files: Path, name: str) -> Callable[[str], Path]:
    return lambda kind: files / f"{name}-{kind}.tsv"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_reads_mapped_columns_and_files_without_header(verb: str, files: Path) -> None:
    if verb.startswith("train"):
        pytest.importorskip("torch")
    call, names = VERBS[verb]
    expected = result(*call(files, named(files, "ours")))
    theirs, bare = call(files, named(files, "theirs")), call(files, named(files, "bare"))
    assert "--columns " in refused(*theirs)
    assert ":1: found the columns " in refused(*theirs)
    assert "--no-header" in refused(*bare)
    assert result(*theirs, "--columns", names) == expected
    assert result(*bare, "--no-header") == expected
    assert result(*call(files, named(files, "ours")), "--no-header") == expected
    unused = refused(*theirs, "--columns", names, "--columns", "kind=tpye")
    assert "--columns kind=tpye applies to no file" in unused
    assert "theirs-" in unused


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_reads_standard_input(verb: str, files: Path) -> None:
    if verb.startswith("train"):
        pytest.importorskip("torch")
    call = VERBS[verb][0]
    expected = result(*call(files, named(files, "ours")))
    kinds = [kind for kind in OURS if any(f"ours-{kind}" in str(part) for part in call(files, named(files, "ours")))]
    for kind in kinds:
        arguments = call(files, lambda other, kind=kind: Path("-") if other == kind else files / f"ours-{other}.tsv")
        content = (files / f"ours-{kind}.tsv").read_bytes()
        for stdin in (content, gzip.compress(content), as_json(content)):
            assert result(*arguments, stdin=stdin) == expected
        assert "standard input is empty" in refused(*arguments)
        assert "standard input:1: found the columns " in refused(*arguments, stdin="a\tb\nc\td\n")


def as_json(table: bytes) -> bytes:
    names, *rows = (line.split("\t") for line in table.decode().splitlines())
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows).encode()


def test_standard_input_is_read_once(files: Path) -> None:
    judged, out = files / "ours-judged.tsv", ("--out", files / "out")
    for arguments in (
        ("prepare", "-", "-", *out),
        ("prepare", "-", "--shown", "-", *out),
        ("train", "-", "--dev", "-", *out),
        ("evaluate", "bm25", "--judged", "-", "--catalogue", "-"),
        ("evaluate", "bm25", "--judged", judged, "--queries", "-", "--titles", "-"),
        ("compare", "--clicks", "-", "--dev", "-", "--test", judged, *out),
        ("report", files / "model", "--judged", "-", "--titles", "-", *out),
    ):
        assert "- is standard input" in wrong_usage(*arguments), arguments


def test_a_comparison_reads_mapped_columns_too(files: Path) -> None:
    pytest.importorskip("scipy")
    judged, log, out = files / "theirs-judged.tsv", files / "theirs-log.tsv", ("--out", files / "out")
    call = ("compare", "--clicks", log, "--dev", judged, "--test", judged, "--systems", "bm25", *out)
    assert "query=first_search" in refused(*call)
    assert "--columns text=x" in refused(*call, "--columns", f"{JUDGED_NAMES},clicks=times,text=x")
    bare = ("compare", "--clicks", "-", "--dev", files / "bare-judged.tsv", "--test", judged, *out)
    assert "standard input:1: found the columns a" in refused(*bare, stdin="a\tb\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--columns", "url=link"), "query, title, clicks"),
        (("--columns", ""), "query=search_term"),
        (("--columns", "query"), "query=search_term"),
        (("--columns", "query="), "blank"),
        (("--columns", "query=a,query=b"), "query is named twice"),
        (("--columns", "query=a", "--columns", "query=b"), "query is named twice"),
        (("--columns", "query=a", "--no-header"), "header"),
    ],
)
def test_wrong_usage_of_the_options(options: tuple[str, ...], said: str, files: Path) -> None:
    for call, _ in VERBS.values():
        assert said in wrong_usage(*call(files, named(files, "ours")), *options)
    assert not (files / "out").exists()


def test_columns_do_not_apply_to_a_data_folder(files: Path) -> None:
    pytest.importorskip("torch")
    ok("prepare", files / "ours-log.tsv", "--out", files / "data")
    said = refused("train", files / "data", "--out", files / "m", *SMALL, "--columns", "query=search_term")
    assert "--columns query=search_term applies to no file" in said
    assert not (files / "m").exists()


def test_a_file_called_minus(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    shutil.copy("ours-titles.tsv", "-")
    ok("index", "model", "./-", "--out", "index", stdin="title\nsomething else\n")
    assert len(Index.open("index")) == len(TEXTS)
    ok("index", "model", "-", "--out", "index", "--overwrite", stdin="title\nsomething else\n")
    assert [hit.title for hit in Index.open("index")] == ["something else"]


def test_bad_lines_of_standard_input_are_named(files: Path) -> None:
    rows = "title\n" + "hotels\n" * 200 + "a\tb\n" + "hotels\n"
    done = run("encode", files / "model", "-", "--out", files / "out.npy", stdin=rows)
    assert done.status == 0
    assert "standard input:202: 2 columns, expected title" in done.err
    assert "standard input:203" in done.err
    assert len(np.load(files / "out.npy")) == 201


def test_a_closed_standard_input(files: Path) -> None:
    done = program("prepare", "-", "--out", files / "out", preexec_fn=lambda: os.close(0))
    assert (done.returncode, done.stderr) == (1, "clickvec: standard input is empty\n")


@pytest.mark.parametrize("count", ["1e-46", "1e39", "-1", "nan", "null"])
@pytest.mark.parametrize("verb", ["prepare", "train"])
def test_impossible_clicks_are_bad_lines(verb: str, count: str, files: Path) -> None:
    if verb == "train":
        pytest.importorskip("torch")
    more = () if verb == "prepare" else (*SMALL, "--set", "click_weight=log")
    value = {"query": "hotels", "title": "new york", "clicks": json.loads(count.replace("nan", "NaN"))}
    table = f"query\ttitle\tclicks\nhotels\tnew york\t{count}\n"
    for name, line in {"log.tsv": table, "log.jsonl": json.dumps(value)}.items():
        (files / name).write_text(line)
        said = refused(verb, files / name, "--out", files / "out", *more)
        assert f"{name}:{1 + (name == 'log.tsv')}: " in said
        assert "clicks is " in said or "NaN is not a finite number" in said
    assert not (files / "out").exists()


def test_the_smallest_and_the_largest_clicks_are_counted(files: Path) -> None:
    pytest.importorskip("torch")
    for count in ("1e-6", "1e12"):
        lines = [line.replace("\t2", f"\t{count}") for line in LOG]
        (files / "log.tsv").write_text("\n".join([OURS["log"], *lines * 50]))
        facts = json.loads(ok("prepare", files / "log.tsv", "--out", files / "data", "--overwrite", "--json"))
        assert all(np.isfinite(value) for value in facts.values() if not isinstance(value, dict))
        for weight in ("count", "log"):
            settings = (*SMALL, "--set", f"click_weight={weight}")
            ok("train", files / "data", "--out", files / "m", "--overwrite", *settings, "--json")
