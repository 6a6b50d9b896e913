"""`clickvec encode`: what it writes, and that a run which was killed gives the same bytes when it goes on."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import contents, ok, refused, run, sentence, small_disk
from tiny import TEXTS, tiny_model

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.model.shrink import VECTOR_TYPES, shrink_vectors
from clickvec.search import vectors
from clickvec.search.vectors import VectorFile, write_vectors

ROWS = 24_000
ReadTable = Callable[[Path], Any]
# The program, saving its state after every batch; and then it takes its time, so that it can be killed before it ends.
SAVING = (
    sys.executable, "-c",
    "import time; from clickvec.cli import app as cli, use; from clickvec.search import vectors; "
    "vectors.SAVE_SECONDS = 0; use.Bar = lambda: lambda *_: time.sleep(0.1); cli.main()",
)  # fmt: skip


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
    """A model and a dozen titles, in batches of three, of which every one is made safe."""
    monkeypatch.setattr(vectors, "BATCH_SIZE", 3)
    monkeypatch.setattr(vectors, "SAVE_SECONDS", 0)
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


def begin(
    few: Path,
    out: Path,
    batches: int,
    how: type[BaseException] = KeyboardInterrupt,
    max_bad: float = 0.01,
    **options: Any,  # noqa: ANN401
) -> None:
    """A run into `out` that ends after some batches."""
    encoder: Any = Stop(Encoder.load(few / "model"), batches, how)
    with pytest.raises((how, ClickvecError)):
        write_vectors(VectorFile(out, few / "titles.txt", **options), encoder, max_bad=max_bad)


# --- killed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_killed_again_and_again_it_gives_the_same_bytes(many: Path, tmp_path: Path, ending: str) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    whole, out = tmp_path / f"whole.{ending}", tmp_path / f"out.{ending}"
    call = ("encode", many / "model", many / "titles.tsv", "--vectors", "int8", "--out")
    ok(*call, whole)
    done, kills = 0, 0
    for least in (1, 5_000, 9_000):
        command = [*SAVING, *map(str, (*call, out, *(["--resume"] if kills else [])))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            done = wait_for_rows(tmp_path / f"out.{ending}.run" / "state.json", least, running)
            running.kill()
        kills += running.returncode == -signal.SIGKILL
        assert not out.exists()
    assert kills == 3
    assert 9_000 <= done < ROWS
    ended = run(*call, out, "--resume")
    assert ended.out == f"{out}: {ROWS:,} vectors of 32 dimensions\n"
    assert "1 of 24,001 lines" in ended.err
    assert "1 of 24,000 texts have no" in ended.err
    assert out.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [out.name, whole.name]


def wait_for_rows(state: Path, least: int, running: subprocess.Popen[str]) -> int:
    """The rows that are safe, as soon as there are enough."""
    deadline = time.monotonic() + 60
    while running.poll() is None and time.monotonic() < deadline:
        if state.exists() and (rows := int(json.loads(state.read_text())["rows"])) >= least:
            return rows
        time.sleep(0.002)
    raise AssertionError(running.communicate())


def test_ctrl_c_says_how_to_go_on_and_two_runs_do_not_meet(many: Path, tmp_path: Path) -> None:
    call = ("encode", many / "model", many / "titles.tsv", "--out", tmp_path / "out.npy")
    with subprocess.Popen(
        [*SAVING, *map(str, call)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        wait_for_rows(tmp_path / "out.npy.run" / "state.json", 1, running)
        running.send_signal(signal.SIGSTOP)  # it holds still while others try
        for way in ("--resume", "--overwrite"):
            assert "out.npy is in use by another process" in refused(*call, way)
        assert "out.npy.run holds an interrupted run" in refused(*call)
        running.send_signal(signal.SIGINT)
        running.send_signal(signal.SIGCONT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert sentence(err).startswith("stopped after ")
    assert sentence(err).endswith("--resume")
    ok(*call, "--resume")
    ok(*call[:-1], tmp_path / "whole.npy")
    assert (tmp_path / "out.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


@pytest.mark.parametrize("precision", VECTOR_TYPES)
@pytest.mark.parametrize("batches", range(1, 5))
@pytest.mark.parametrize("how", [KeyboardInterrupt, MemoryError])
def test_stopped_after_any_batch(few: Path, batches: int, precision: str, how: type[BaseException]) -> None:
    call = ("encode", few / "model", few / "titles.txt", "--vectors", precision, "--out")
    ok(*call, few / "whole.npy")
    if batches < 4:
        begin(few, few / "out.npy", batches, how, vectors=precision)
        rows = few / "out.npy.run" / "vectors.npy"
        rows.write_bytes(rows.read_bytes() + b"unsafe")
        ok(*call, few / "out.npy", "--resume")
    else:
        ok(*call, few / "out.npy")
    assert (few / "out.npy").read_bytes() == (few / "whole.npy").read_bytes()
    assert not (few / "out.npy.run").exists()


def test_stopped_before_anything_is_safe_it_leaves_nothing(few: Path) -> None:
    before = contents(few)
    for how in (KeyboardInterrupt, MemoryError):
        for out in (few / "out.npy", few / "new" / "deep" / "out.npy"):
            begin(few, out, 0, how)
        assert contents(few) == before
        assert not (few / "new").exists()
    assert "written as .npy or .parquet" in refused("encode", few / "model", few / "titles.txt", "--out", few / "x.csv")
    assert "nothing to resume" in refused("encode", few / "model", few / "titles.txt", "--out", few / "x", "--resume")
    assert contents(few) == before


# --- refused -----------------------------------------------------------------------------------------------------


def test_only_the_same_run_goes_on(few: Path) -> None:
    begin(few, few / "out.npy", 2)
    tiny_model(few / "other", seed=1)
    (few / "more.txt").write_text((few / "titles.txt").read_text() + "one more\n")
    before = contents(few)
    model, titles, out = few / "model", few / "titles.txt", ("--out", few / "out.npy", "--resume")
    for arguments, what in (
        ((few / "other", titles, *out), "another model"),
        ((model, few / "more.txt", *out), "other titles or columns"),
        ((model, titles, *out, "--no-header"), "other titles or columns"),
        ((model, titles, *out, "--queries"), "the other tower"),
        ((model, titles, *out, "--vectors", "int8"), "--vectors float32"),
    ):
        said = refused("encode", *arguments)
        for part in ("out.npy.run", what, "--overwrite"):
            assert part in said
    assert contents(few) == before
    ok("encode", few / "other", few / "more.txt", "--out", few / "out.npy", "--overwrite")
    assert len(np.load(few / "out.npy")) == 13
    assert not (few / "out.npy.run").exists()


def test_what_is_there_is_not_lost(few: Path) -> None:
    call = ("encode", few / "model", few / "titles.txt", "--out", few / "out.npy")
    begin(few, few / "out.npy", 2)
    (few / "out.npy").write_text("mine")  # it came while the run was stopped
    assert "out.npy already exists" in refused(*call, "--resume")
    assert (few / "out.npy").read_text() == "mine"
    begin(few, few / "out.npy", 2, overwrite=True)
    assert (few / "out.npy").read_text() == "mine"
    ok(*call, "--resume")  # that it may be replaced was said at the beginning
    assert len(np.load(few / "out.npy")) == 12
    assert "nothing to resume" in refused(*call, "--resume")
    assert "out.npy is finished" in refused(*call, "--resume", "--overwrite")


def test_a_folder_of_somebody_else(few: Path) -> None:
    call = ("encode", few / "model", few / "titles.txt", "--out", few / "out.npy", "--overwrite")
    (few / "out.npy.run").mkdir()
    (few / "out.npy.run" / "checkpoint.safetensors").write_text("mine")
    assert "out.npy.run holds checkpoint.safetensors, but" in refused(*call)
    assert (few / "out.npy.run" / "checkpoint.safetensors").read_text() == "mine"
    (few / "out.npy.run" / "checkpoint.safetensors").unlink()
    (few / "out.npy.run").rmdir()
    (few / "out.npy.run").write_text("mine")
    assert "out.npy.run is a file" in refused(*call)
    assert (few / "out.npy.run").read_text() == "mine"


def test_a_damaged_state(few: Path) -> None:
    call = ("encode", few / "model", few / "titles.txt", "--out", few / "out.npy")
    state, rows = few / "out.npy.run" / "state.json", few / "out.npy.run" / "vectors.npy"
    begin(few, few / "out.npy", 2)
    whole = state.read_text()
    rows.write_bytes(rows.read_bytes()[:150])
    assert "is damaged: rows are missing" in refused(*call, "--resume")
    for damage in ({}, {"rows": "1"}, {"vectors": "int4"}):
        state.write_text(json.dumps({"rows": 1} if not damage else json.loads(whole) | damage))
        said = refused(*call, "--resume")
        assert "state.json is damaged" in said
        assert "start again with --overwrite" in said
    state.write_text("{")
    assert "state.json cannot be read" in refused(*call, "--resume")
    rows.unlink()
    assert "holds no rows that are safe; start without --resume" in refused(*call, "--resume")
    ok(*call)
    assert sorted(path.name for path in few.iterdir()) == ["model", "out.npy", "titles.txt"]


def test_a_full_disk_after_some_rows_says_how_to_go_on(few: Path) -> None:
    (few / "titles.txt").write_text("".join(f"{text}\n" for text in ["title", *TEXTS * 20]))
    call = ("encode", few / "model", few / "titles.txt", "--out", few / "out.npy")
    with small_disk(2000):
        said = refused(*call)
    assert said.startswith(f"cannot write {few / 'out.npy'}: File too large")
    assert said.endswith("--resume")
    ok(*call, "--resume")
    found = np.load(few / "out.npy")
    ok(*call[:-1], few / "whole.npy")
    np.testing.assert_array_equal(found, np.load(few / "whole.npy"))


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
@pytest.mark.parametrize("stopped", [False, True])
def test_it_says_which_rows_are_zeros_and_where_rows_and_lines_part(few: Path, ending: str, stopped: bool) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    titles, out = few / "titles.txt", few / f"out.{ending}"
    lines = ["title", *TEXTS[:4], "ж ж", "a\tb\tc\td", *TEXTS[:2], "", "жж", TEXTS[3]]  # 7 is bad, 10 is blank
    titles.write_text("\n".join(lines) + "\n")
    in_step = few / "in_step.txt"
    in_step.write_text("\n".join(["title", *TEXTS, "", "a\tb\tc\td"]) + "\n")
    if stopped:
        begin(few, out, 2, max_bad=0.5)
    done = run("encode", few / "model", titles, "--max-bad", "0.5", "--out", out, *(["--resume"] if stopped else []))
    assert done.out == f"{out}: 9 vectors of 7 dimensions\n"
    said = done.err.splitlines()
    assert any(line.startswith("2 of 9 texts have no") for line in said)
    assert sum(f"{titles}:8" in line and "row numbers" in line for line in said) == (ending == "npy")
    quiet = run("encode", few / "model", in_step, "--max-bad", "0.5", "--out", few / f"in_step.{ending}")
    assert quiet.status == 0
    assert "row numbers" not in quiet.err
    assert "no letter trigram" not in quiet.err


def test_a_link_is_followed(few: Path) -> None:
    (few / "there").mkdir()
    (few / "link.npy").symlink_to("there/out.npy")
    begin(few, few / "link.npy", 2)
    assert (few / "there" / "out.npy.run" / "state.json").exists()
    ok("encode", few / "model", few / "titles.txt", "--out", few / "link.npy", "--resume")
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
    thread.join()
    ok("encode", few / "model", few / "titles.txt", "--out", few / "whole.npy")
    assert (few / "piped.npy").read_bytes() == (few / "whole.npy").read_bytes()
    said = refused("encode", few / "model", pipe, "--out", few / "out.npy", "--resume")
    assert "pipe is not a regular file" in said


def test_a_run_from_a_pipe_that_is_stopped_leaves_nothing(few: Path) -> None:
    thread = feed(few / "pipe", (few / "titles.txt").read_text())
    encoder: Any = Stop(Encoder.load(few / "model"), 2)
    with pytest.raises(KeyboardInterrupt):
        write_vectors(VectorFile(few / "out.npy", few / "pipe"), encoder)
    thread.join()
    assert sorted(path.name for path in few.iterdir()) == ["model", "pipe", "titles.txt"]


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
    monkeypatch.setattr("clickvec.search.parquet.GROUP_ROWS", 5)
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


def test_stopped_while_parquet_is_made(few: Path, read_parquet: ReadTable, monkeypatch: pytest.MonkeyPatch) -> None:
    call = ("encode", few / "model", few / "titles.txt", "--out", few / "out.parquet")

    def stop(*_: object) -> None:
        (few / "out.parquet.run" / "vectors.parquet").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("clickvec.search.parquet.write", stop)
        said = refused(*call, status=130)
        assert "12 titles" in said
        assert "--resume" in said
    assert not (few / "out.parquet").exists()
    ok(*call, "--resume")
    assert read_parquet(few / "out.parquet").num_rows == 12
    ok(*call[:-1], few / "whole.parquet")
    assert (few / "out.parquet").read_bytes() == (few / "whole.parquet").read_bytes()
