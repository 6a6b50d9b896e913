"""Closed, full and broken standard streams, exit statuses, signals, and messages."""

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from command import PROGRAM, SMALL, ok, run, sentence
from tiny import TEXTS, tiny_model

from clickvec import Encoder, Index
from clickvec.cli import streams, verbs
from clickvec.cli.bar import Bar
from clickvec.evaluation.ranker import Ranker
from clickvec.model.folder import open_model
from clickvec.text.printable import is_terminal

LOST = "standard output"


def shell(
    arguments: Sequence[str | Path], redirect: str, program: Sequence[str] = PROGRAM, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a command with redirected streams. The status is that of the command, also in a pipe."""
    command = f"{shlex.join([*program, *map(str, arguments)])} {redirect}; exit ${{PIPESTATUS[0]}}"
    return subprocess.run(["bash", "-c", command], **{"capture_output": True, "text": True, "timeout": 300} | options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "model")


@pytest.fixture
def titles(tmp_path: Path) -> Path:
    path = tmp_path / "titles.tsv"
    path.write_text("doc_id\ttitle\n" + "".join(f"{key}\t{title}\n" for key, title in enumerate(TEXTS)))
    return path


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    path = tmp_path / "judged.tsv"
    rows = [f"1\t{TEXTS[0]}\t{key}\t{title}\t{int(key < 2)}\n" for key, title in enumerate(TEXTS)]
    path.write_text("query_id\tquery\tdoc_id\ttitle\tgrade\n" + "".join(rows))
    return path


@pytest.fixture
def index(model: Path, tmp_path: Path) -> Path:
    Index.build(Encoder.load(model), TEXTS).save(tmp_path / "index")
    return tmp_path / "index"


@pytest.fixture
def clicks(tmp_path: Path) -> Path:
    path = tmp_path / "clicks.tsv"
    path.write_text("query\ttitle\tclicks\n" + "".join(f"{text}\t{text}\t1\n" for text in TEXTS))
    return path


# --- stderr is broken --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_training_continues_if_stderr_is_broken(clicks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    train = ("train", clicks, *SMALL, "--set", "epochs=20")
    for name, redirect in {"broken": "2>&1 | head -c 1", "full": "2> /dev/full"}.items():  # the next test has it closed
        done = shell([*train, "--out", tmp_path / name], redirect)
        assert done.returncode == 0, (redirect, done)
        open_model(tmp_path / name)


@pytest.mark.slow
def test_a_closed_stderr_changes_nothing(model: Path, titles: Path, judged: Path, clicks: Path, tmp_path: Path) -> None:
    commands = {
        "index": ("index", model, titles, "--out", tmp_path / "out-index"),
        "encode": ("encode", model, titles, "--out", tmp_path / "out.npy"),
        "report": ("report", model, "--judged", judged, "--worst", "1", "--out", tmp_path / "out-report"),
        "prepare": ("prepare", clicks, "--out", tmp_path / "data"),
    }
    for name, command in commands.items():
        done = shell(command, "2>&-")
        assert (done.returncode, str(tmp_path) in done.stdout) == (0, True), (name, done)
    pytest.importorskip("torch")
    done = shell(["train", tmp_path / "data", "--out", tmp_path / "m", *SMALL], "0<&- 2>&-")
    assert (done.returncode, done.stdout.startswith(f"{tmp_path / 'm'}: epoch 1 of 1")) == (0, True), done


def test_no_file_gets_the_descriptor_of_a_closed_stream() -> None:
    code = (
        "import os, sys, tempfile\nfrom clickvec.cli import streams\nstreams.open_streams()\n"
        "with tempfile.TemporaryFile() as file:\n    number = file.fileno()\n"
        "inherited = [os.get_inheritable(number) for number in range(3)]\n"
        "sys.exit(number < 3 or inherited != [True] * 3 or sys.stdout is not None or sys.stderr is None)"
    )
    for redirect in ("0<&- 1>&- 2>&-", "1>&- 2>&-"):
        assert shell(["-c", code], redirect, [sys.executable]).returncode == 0, redirect


def test_messages_never_raise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    closed = (tmp_path / "closed").open("w")
    closed.close()
    with Path("/dev/full").open("w") as full:
        for stream in (None, closed, full):
            monkeypatch.setattr(sys, "stderr", stream)
            for say in (streams.redraw_line, streams.print_message):
                say("something")
            assert not is_terminal(stream)
        streams._discard(full)  # otherwise closing it fails


# --- stdout is broken --------------------------------------------------------------------------------------------


def test_a_result_that_cannot_be_printed_is_an_error(model: Path, index: Path, judged: Path) -> None:
    for command in (
        ("search", index, "hotels"),
        ("evaluate", model, "--judged", judged),
        ("info", model, "--json"),
        ("--help",),
        ("search", "--help"),
    ):
        for redirect in ("> /dev/full", ">&-"):
            done = shell(command, redirect)
            assert (done.returncode, done.stdout) == (1, ""), (command, done)
            assert LOST in sentence(done.stderr)
            assert done.stderr.count("\n") == 1
    for command in (("evaluate", model, "--judged", judged), ("search", "--help")):
        done = shell(command, "| true")
        assert (done.returncode, done.stderr) == (0, ""), (command, done)


def test_a_summary_that_cannot_be_printed_is_a_warning(model: Path, titles: Path, tmp_path: Path) -> None:
    for number, redirect in enumerate(("> /dev/full", ">&-", "| true")):
        done = shell(["index", model, titles, "--out", tmp_path / str(number)], redirect)
        assert done.returncode == 0, done
        assert LOST in done.stderr
        assert done.stderr.count("\n") == 1
        assert len(Index.open(tmp_path / str(number))) == len(TEXTS)
    for redirect, status in {"> /dev/full": 1, ">&-": 1, "| true": 0}.items():
        done = shell(["shrink", model, "--out", tmp_path / "small", "--overwrite", "--json"], redirect)
        assert done.returncode == status, done
        open_model(tmp_path / "small")


def test_wrong_usage_keeps_its_status_if_stderr_is_broken() -> None:
    for redirect in ("2> /dev/full", "2>&-", "2>&1 | true"):
        assert shell(["serach"], redirect).returncode == 2
        assert shell([], redirect).returncode == 2


def test_files_are_written_before_the_result_is_printed(model: Path, judged: Path, tmp_path: Path) -> None:
    arguments = ("evaluate", model, "--judged", judged, "--run")
    ok(*arguments, tmp_path / "run")
    for number, redirect in enumerate(("| true", "> /dev/full")):
        shell([*arguments, tmp_path / str(number)], redirect)
        assert (tmp_path / str(number)).read_bytes() == (tmp_path / "run").read_bytes()


def test_a_pipe_that_is_not_stdout_is_an_error(
    model: Path, judged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(Ranker, "rank", broken)
    done = run("evaluate", model, "--judged", judged, "--run", tmp_path / "run")
    assert (done.status, done.out) == (1, "")
    assert sentence(done.err) == "Broken pipe"


@pytest.mark.slow
def test_the_demo_continues_if_stdout_is_closed(tmp_path: Path) -> None:
    for module in ("torch", "matplotlib"):
        pytest.importorskip(module)
    # The two verbs that take longest are left out; test_cli.py runs all of them.
    code = (
        "from clickvec import config\nfrom clickvec.cli import app as cli, demo\ndemo.IMPRESSIONS = 3000\n"
        "config.DEFAULT |= {'cells': 4, 'epochs': 1}\nrun = demo.run\n"
        "demo.run = lambda verb, out: run(lambda words: words[0] in ('evaluate', 'report') or verb(words), out)\n"
        "cli.main()"
    )
    done = shell(["-c", code, "demo", "--out", tmp_path / "demo"], "| head -c 1", [sys.executable])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(LOST) == 1
    assert (tmp_path / "demo" / "gates.png").exists()


# --- errors ------------------------------------------------------------------------------------------------------


class OutOfMemoryError(RuntimeError):
    """Has the name of torch's exception."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(), OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)  # fmt: skip
def test_what_is_out_of_memory(error: Exception) -> None:
    message = verbs.describe(error)
    assert message is not None
    assert "out of memory" in message
    assert "in training" in message


def test_what_is_not_out_of_memory() -> None:
    gpu = RuntimeError(
        "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be reported late"
    )
    said = verbs.describe(gpu)
    assert said is not None
    assert "CUDA error: an illegal memory access was encountered" in said
    assert "--device cpu" in said
    assert "out of memory" not in said
    assert "\n" not in said
    for bug in (RuntimeError("the memory format is wrong"), ValueError("memory"), TypeError()):
        assert verbs.describe(bug) is None


def test_an_os_error_names_the_file_if_there_is_one() -> None:
    assert verbs.describe(FileNotFoundError(2, "No such file or directory", "x.tsv")) == (
        "x.tsv: No such file or directory"
    )
    assert verbs.describe(OSError(5, "Input/output error", b"\xff")) == "\udcff: Input/output error"
    assert verbs.describe(OSError(5, "Input/output error")) == "Input/output error"
    assert verbs.describe(TimeoutError()) == "TimeoutError"


def test_out_of_memory_is_an_error(model: Path, titles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Index, "create", full)
    done = run("index", model, titles, "--out", tmp_path / "index")
    assert done.status == 1
    assert "out of memory" in sentence(done.err)


def test_an_unknown_error_keeps_its_traceback(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("clickvec.model.about.about_model", wrong)
    with pytest.raises(RuntimeError, match="a bug"):
        run("info", model)


# --- signals -----------------------------------------------------------------------------------------------------

WAITING = """
import sys, tempfile, time
from pathlib import Path
from clickvec.cli import app as cli, verbs as cli_verbs

@cli.app.command(cls=cli_verbs.Verb)
def wait(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder):
        (folder / "ready").touch()
        time.sleep(60)

cli.main()
"""


def stopped(folder: Path, number: int, *before: str) -> tuple[int, str]:
    """Return the status and the message of a verb that a signal stops while it has a temporary folder."""
    folder.mkdir()
    command = [*before, sys.executable, "-c", WAITING, "wait", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        while not (folder / "ready").exists() and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(number)
        if before:
            time.sleep(0.2)
            assert running.poll() is None
            running.terminate()
        _, err = running.communicate(timeout=30)
    return running.returncode, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_no_temporary_folder(number: signal.Signals, tmp_path: Path) -> None:
    status, err = stopped(tmp_path / "here", number)
    assert status == 128 + number, err
    assert sentence(err).startswith("stopped")
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["ready"]


def test_nohup_is_respected(tmp_path: Path) -> None:
    status, _ = stopped(tmp_path / "here", signal.SIGHUP, "nohup")
    assert status == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_training_saves_its_state_at_a_signal(number: signal.Signals, clicks: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    train = ("train", clicks, "--out", tmp_path / "m", *SMALL, "--set", "epochs=100000")
    with subprocess.Popen(
        [*PROGRAM, *map(str, train)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        checkpoint = tmp_path / "m.run" / "checkpoint.safetensors"
        while not checkpoint.exists() and running.poll() is None:
            time.sleep(0.01)
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 128 + number, err
    assert "--resume" in sentence(err)


# --- messages ----------------------------------------------------------------------------------------------------


def test_a_search_that_finds_nothing_says_why(model: Path, index: Path, tmp_path: Path) -> None:
    Index.build(Encoder.load(model), []).save(tmp_path / "empty")
    Index.build(Encoder.load(model), ["ЖЖЖ"]).save(tmp_path / "unknown")
    for folder, query, why in (
        (index, "", "no words"),
        (index, "ЖЖЖ", "no letter trigram of the query"),
        (tmp_path / "empty", "hotels", "the index is empty"),
        (tmp_path / "unknown", "hotels", "any title"),
    ):
        done = run("search", folder, query)
        assert (done.status, done.out) == (0, "")
        assert repr(query) in done.err
        assert why in done.err
        assert done.err.count("\n") == 1
    assert run("search", index, stdin="\n\nhotels\n").err == ""
    assert run("search", index, "ЖЖЖ", "--json").err == ""


def test_messages_use_the_singular(model: Path, judged: Path, tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("doc_id\ttitle\n1\thotels\n")
    (tmp_path / "unknown.tsv").write_text("doc_id\ttitle\n1\tЖЖЖ\n")
    assert ok("index", model, tmp_path / "one.tsv", "--out", tmp_path / "index").endswith(": 1 title, fusion mixture\n")
    assert "1 title has no" in run("index", model, tmp_path / "unknown.tsv", "--out", tmp_path / "other").err
    assert ": 1 vector of " in ok("encode", model, tmp_path / "one.tsv", "--out", tmp_path / "one.npy")
    assert run("evaluate", model, "--judged", judged).err == "1 query\n"


# --- progress ----------------------------------------------------------------------------------------------------


def test_progress_counts_from_where_it_started(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 100, 10))
    monkeypatch.setattr("clickvec.cli.bar.time.monotonic", lambda: float(next(clock)))
    bar = Bar()
    bar("epoch 2/3", 400, 1000)
    bar("epoch 2/3", 500, 1000, "loss 0.5")
    assert capsys.readouterr().err == "epoch 2/3 50% of 1,000, 0:00:50 left, 10/s, loss 0.5\n"
