"""`clickvec encode`: what it writes, and what it leaves if it is stopped."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import contents, ok, refused, run, small_disk
from tiny import TEXTS, tiny_model

from clickvec.model.encoder import Encoder
from clickvec.model.shrink import VECTOR_TYPES, shrink_vectors
from clickvec.search.vectors import vector_file
from clickvec.search.vectors.vector_file import write_vectors

ROWS = 24_000
ReadTable = Callable[[Path], Any]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and more titles than fit into many batches; a bad line among them."""
    path = tmp_path_factory.mktemp("many")
    tiny_model(path / "model", cells=32)
    lines = [f"id{number}\t{TEXTS[number % len(TEXTS)]} {number % 977}" for number in range(ROWS)]
    lines[10] = "id10\tжжж"  # no trigram of it is known
    (path / "titles.tsv").write_text("doc_id\ttitle\n" + "\n".join([*lines[:7000], "id\t", *lines[7000:]]) + "\n")
    return path


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model and a dozen titles, in batches of three."""
    monkeypatch.setattr(vector_file, "BATCH_SIZE", 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # so that a test knows which batch comes when
    tiny_model(tmp_path / "model")
    (tmp_path / "titles.txt").write_text("".join(f"{text}\n" for text in ["title", *TEXTS, *TEXTS[:4]]))
    return tmp_path


class Stop:
    """An encoder that is stopped in the batch after `batches`."""

    def __init__(self, encoder: Encoder, batches: int, how: type[BaseException] = KeyboardInterrupt) -> None:
        self.encoder, self.batches, self.how = encoder, batches, how

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self.encoder, name)

    def encode_document(self, texts: list[str]) -> Any:  # noqa: ANN401
        self.batches -= 1
        if self.batches < 0:
            raise self.how
        return self.encoder.encode_document(texts)


# --- stopped and refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", range(4))
@pytest.mark.parametrize("how", [KeyboardInterrupt, MemoryError])
def test_stopped_after_any_batch_it_leaves_what_was_there(few: Path, batches: int, how: type[BaseException]) -> None:
    before = contents(few)
    for out in (few / "out.npy", few / "new" / "deep" / "out.npy"):
        encoder: Any = Stop(Encoder.load(few / "model"), batches, how)
        with pytest.raises(how):
            write_vectors(encoder, few / "titles.txt", out)
    assert contents(few) == before


def test_a_killed_run_leaves_nothing_behind_the_next(many: Path, tmp_path: Path) -> None:
    call = ("encode", many / "model", many / "titles.tsv", "--out", tmp_path / "out.npy")
    slow = "import time; from clickvec.cli import app, use; use.Bar = lambda: lambda *_: time.sleep(0.1); app.main()"
    with subprocess.Popen([sys.executable, "-c", slow, *map(str, call)], stderr=subprocess.PIPE) as running:
        while not any(file.stat().st_size > 1000 for file in tmp_path.glob(".*/out.npy")):
            assert running.poll() is None
            time.sleep(0.002)
        running.kill()
    assert not (tmp_path / "out.npy").exists()
    done = run(*call)
    assert done.out == f"{tmp_path / 'out.npy'}: {ROWS:,} vectors of 32 dimensions\n"
    assert "1 of 24,001 lines" in done.err
    assert "1 of 24,000 texts have no" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]


def test_what_is_there_is_not_lost(few: Path) -> None:
    call = ("encode", few / "model", few / "titles.txt", "--out", few / "out.npy")
    (few / "out.npy").write_text("mine")
    assert "out.npy already exists" in refused(*call)
    with small_disk(400):
        assert refused(*call, "--overwrite").startswith(f"cannot write {few / 'out.npy'}: File too large")
    assert (few / "out.npy").read_text() == "mine"
    ok(*call, "--overwrite")
    assert len(np.load(few / "out.npy")) == 12
    assert "written as .npy or .parquet" in refused(*call[:-1], few / "x.csv")


# --- what is written ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", VECTOR_TYPES)
def test_the_rows_are_those_of_the_encoder(precision: str, tmp_path: Path) -> None:
    model, titles = tiny_model(tmp_path / "model"), tmp_path / "titles.txt"
    titles.write_text("".join(f"{text}\n" for text in ["title", *TEXTS]))
    encoder = Encoder.load(model)
    for way, expected in (((), encoder.encode_document(TEXTS)), (("--queries",), encoder.encode_query(TEXTS))):
        ok("encode", model, titles, "--vectors", precision, "--out", tmp_path / "v.npy", "--overwrite", *way)
        found = np.load(tmp_path / "v.npy")
        assert found.dtype == precision
        np.testing.assert_array_equal(found, shrink_vectors(expected, precision))
    for wrong in ("int4", "float16"):
        said = refused("encode", model, titles, "--vectors", wrong, "--out", tmp_path / "x.npy")
        assert wrong in said
        assert "int8" in said
        assert not (tmp_path / "x.npy").exists()


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_it_says_which_rows_are_zeros_and_where_rows_and_lines_part(few: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    titles, out = few / "titles.txt", few / f"out.{ending}"
    lines = ["title", *TEXTS[:4], "ж ж", "a\tb\tc\td", *TEXTS[:2], "", "жж", TEXTS[3]]  # 7 is bad, 10 is blank
    titles.write_text("\n".join(lines) + "\n")
    in_step = few / "in_step.txt"
    in_step.write_text("\n".join(["title", *TEXTS, "", "a\tb\tc\td"]) + "\n")
    done = run("encode", few / "model", titles, "--max-bad", "0.5", "--out", out)
    assert done.out == f"{out}: 9 vectors of 7 dimensions\n"
    said = done.err.splitlines()
    assert any(line.startswith("2 of 9 texts have no") for line in said)
    assert sum(f"{titles}:8" in line and "row numbers" in line for line in said) == (ending == "npy")
    quiet = run("encode", few / "model", in_step, "--max-bad", "0.5", "--out", few / f"in_step.{ending}")
    assert quiet.status == 0
    assert ("row numbers are the ids" in quiet.err) == (ending == "parquet")  # only there they are written
    assert ":8" not in quiet.err
    assert "no letter trigram" not in quiet.err


def test_a_link_is_followed(few: Path) -> None:
    (few / "there").mkdir()
    (few / "link.npy").symlink_to("there/out.npy")
    ok("encode", few / "model", few / "titles.txt", "--out", few / "link.npy")
    assert (few / "link.npy").is_symlink()
    assert [path.name for path in (few / "there").iterdir()] == ["out.npy"]


def feed(pipe: Path, text: str) -> threading.Thread:
    """Write a text into a pipe when somebody reads it."""
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: pipe.write_text(text), daemon=True)
    thread.start()
    return thread


def test_titles_from_a_pipe_are_read_once(few: Path) -> None:
    text, pipe = (few / "titles.txt").read_text(), few / "pipe"
    thread = feed(pipe, text)
    ok("encode", few / "model", pipe, "--out", few / "piped.npy")
    thread.join(60)
    ok("encode", few / "model", few / "titles.txt", "--out", few / "whole.npy")
    assert (few / "piped.npy").read_bytes() == (few / "whole.npy").read_bytes()


# --- Parquet -----------------------------------------------------------------------------------------------------


def test_without_pyarrow_there_is_one_sentence(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    before = contents(few)
    said = refused("encode", few / "model", few / "titles.txt", "--out", few / "out.parquet")
    assert "pip install 'clickvec[data]'" in said
    assert contents(few) == before


@pytest.fixture
def read_parquet() -> ReadTable:
    read: ReadTable = pytest.importorskip("pyarrow.parquet").read_table
    return read


@pytest.mark.parametrize("precision", VECTOR_TYPES)
def test_parquet_has_ids_titles_and_the_same_vectors(
    few: Path,
    precision: str,
    read_parquet: ReadTable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vector_file, "GROUP_BATCHES", 2)
    titles = few / "titles.tsv"
    titles.write_text("id\ttitle\n" + "".join(f"x{number}\t{text}\n" for number, text in enumerate(TEXTS)) + "bad\n")
    call = ("encode", few / "model", titles, "--vectors", precision, "--max-bad", "0.5", "--out")
    ok(*call, few / "out.parquet")
    ok(*call, few / "out.npy")
    table = read_parquet(few / "out.parquet")
    assert table.column_names == ["id", "title", "vector"]
    assert table["id"].to_pylist() == [f"x{number}" for number in range(len(TEXTS))]
    assert table["title"].to_pylist() == list(TEXTS)
    found = np.stack(table["vector"].to_numpy())
    assert found.dtype == precision
    np.testing.assert_array_equal(found, np.load(few / "out.npy"))
    assert sorted(path.name for path in few.iterdir()) == [
        "model",
        "out.npy",
        "out.parquet",
        "titles.tsv",
        "titles.txt",
    ]
