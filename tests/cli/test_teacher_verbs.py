"""`prepare --teacher` and `train --teacher`: the catalogue is taught, and without a teacher nothing changes."""

import json
from pathlib import Path

import numpy as np
import pytest
from command import SMALL, check_tells, contents, ok, refused, run, wrong_usage
from fake_teacher import write_npy

from clickvec.data import data_folder, held_out
from clickvec.teacher import teacher_folder

pytest.importorskip("torch")

WORDS = ["red", "blue", "green", "shoe", "lamp", "bath", "tub", "hotel", "shanghai", "cheap"]
PAIRS = [(f"{a} {b}", f"{b} {a} {c}") for a in WORDS for b in WORDS for c in WORDS[:2]]
CATALOGUE = [f"{a} only here" for a in WORDS] + ["RED shoe  red"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.tsv"
    path.write_text("query\ttitle\tclicks\n" + "".join(f"{q}\t{t}\t1\n" for q, t in PAIRS))
    (tmp_path / "titles.tsv").write_text("title\n" + "".join(f"{title}\n" for title in CATALOGUE))
    texts = dict.fromkeys(text for pair in PAIRS for text in pair)
    write_npy(tmp_path / "v.npy", [*texts, *CATALOGUE])
    return path


def test_prepare_puts_the_catalogue_into_the_data_for_a_teacher_only(log: Path, tmp_path: Path) -> None:
    catalogue = "--catalogue", tmp_path / "titles.tsv"
    ok("prepare", log, "--out", tmp_path / "plain")
    ok("prepare", log, *catalogue, "--out", tmp_path / "same")
    assert contents(tmp_path / "plain") == contents(tmp_path / "same")
    taught = ok("prepare", log, *catalogue, "--teacher", tmp_path / "v.npy", "--out", tmp_path / "data", "--json")
    assert json.loads(taught)["catalogue"] == 10
    data, texts = data_folder.load_with_texts(tmp_path / "data")
    assert data.catalogue_titles == 10
    assert texts.titles[len(texts.titles) - 10 :] == CATALOGUE[:10]
    stored = teacher_folder.load(tmp_path / "data.teacher").teacher
    assert stored.name == "v.npy"
    assert stored.titles.shape == (len(texts.titles), 6)
    assert stored.titles.any(1).all()


def test_prepare_refuses_what_makes_no_sense(log: Path, tmp_path: Path) -> None:
    check_tells(wrong_usage("prepare", log, "--tokens", "--out", tmp_path / "x"), "--tokens", "give the model")
    missing = refused("prepare", log, "--teacher", tmp_path / "none.npy", "--out", tmp_path / "x")
    check_tells(missing, "there is no", "none.npy", "vectors (.npy, .parquet)")
    write_npy(tmp_path / "w.npy", [text for pair in PAIRS for text in pair])
    ok("prepare", log, "--teacher", tmp_path / "w.npy", "--out", tmp_path / "data")
    tokens = refused(
        "prepare", log, "--teacher", "all-MiniLM-L6-v2", "--tokens", "--out", tmp_path / "data", "--overwrite"
    )
    check_tells(tokens, "data.teacher holds the vectors of a teacher already")
    (tmp_path / "v.txt").write_text("a\n")
    check_tells(
        refused("prepare", log, "--teacher", tmp_path / "v.npy", "--out", tmp_path / "x", "--overwrite"),
        "v.txt has 1 lines",
    )


def test_train_from_a_log(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "FEWEST", 1)
    monkeypatch.setattr(held_out, "LARGEST_SHARE", 0.4)
    catalogue, small = ("--catalogue", tmp_path / "titles.tsv"), (*SMALL, "--device", "cpu")
    done = run("train", log, *catalogue, *small, "--teacher", tmp_path / "v.npy", "--out", tmp_path / "m")
    assert done.status == 0, done.err
    about = json.loads((tmp_path / "m" / "config.json").read_text())
    assert about["training"]["teacher"]["name"] == "v.npy"
    facts = about["training"]["data"]
    assert about["training"]["teacher"]["titles"] == facts["titles"] + facts["catalogue"]
    assert "v.npy" in (tmp_path / "m" / "README.md").read_text()
    queries = teacher_folder.load(tmp_path / "m.teacher").teacher.queries
    assert len(queries) == facts["queries"] < 100  # those that are held out are not taught
    # The vectors that are kept are a teacher too.
    (tmp_path / "v.npy").unlink()
    again = run("train", log, *catalogue, *small, "--teacher", tmp_path / "m.teacher", "--out", tmp_path / "n")
    assert again.status == 0, again.err
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("m", "n")]
    assert weights[0] == weights[1]


def test_train_from_a_data_folder(log: Path, tmp_path: Path) -> None:
    ok("prepare", log, "--out", tmp_path / "data")
    small = (*SMALL, "--device", "cpu", "--no-hold-out")
    done = run("train", tmp_path / "data", *small, "--teacher", tmp_path / "v.npy", "--out", tmp_path / "m")
    assert done.status == 0, done.err
    check_tells(done.err, "holds no other titles than those of the log", "give --catalogue and --teacher to prepare")
    assert (tmp_path / "data.teacher" / "teacher.json").exists()
    rows = np.load(tmp_path / "data.teacher" / "titles.npy")
    assert rows.any(1).all()
