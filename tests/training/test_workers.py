"""Several workers: the losses of one process, exact resume, and one sentence when a worker dies."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import check_tells, ok, refused

from clickvec.data import data_folder
from clickvec.errors import ClickvecError
from clickvec.model import folder

torch = pytest.importorskip("torch")

from worker_losses import RESUMED, RUNS, STOP_AT, run_alone, run_workers, small_data  # noqa: E402

from clickvec.training.device import pick_device  # noqa: E402
from clickvec.training.workers import ALONE, Workers  # noqa: E402

pytestmark = pytest.mark.slow
SETTINGS = ("--set", "cells=16", "--set", "batch_size=64", "--no-hold-out")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The losses of two workers and of one process."""
    path = tmp_path_factory.mktemp("workers")
    one = run_alone(path / "one", path / "mined")
    return run_workers(2, path / "losses.json", path / "mined"), one


@pytest.mark.parametrize("name", RUNS)
def test_two_workers_have_the_losses_of_one_process(
    name: str, both: tuple[dict[str, list[float]], dict[str, list[float]]]
) -> None:
    two, one = both
    assert two[name] == pytest.approx(one[name], abs=1e-5)
    assert len(set(one[name])) > 4


def test_a_resumed_run_of_two_workers_has_the_losses_of_one_that_was_not_stopped(
    both: tuple[dict[str, list[float]], dict[str, list[float]]],
) -> None:
    assert len(both[0][RESUMED]) > STOP_AT + 2
    assert both[0][RESUMED] == both[0]["not resumed"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_two_workers_on_one_gpu_have_the_losses_of_one_process(tmp_path: Path) -> None:
    one = run_alone(tmp_path / "one", tmp_path / "mined")
    two = run_workers(2, tmp_path / "losses.json", tmp_path / "mined", "cuda")
    for name in RUNS:
        assert two[name] == pytest.approx(one[name], abs=1e-4), name


def test_shares_cover_all_rows_once() -> None:
    for count in (1, 2, 3, 7):
        for rows in (0, 1, 2, 6, 100):
            shares = [Workers(rank, count).share(rows) for rank in range(count)]
            assert [row for share in shares for row in range(rows)[share]] == list(range(rows))


def test_each_worker_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick_device("auto", Workers(1, 2, (1, 2))).type == ("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("auto", "cuda"):
        assert pick_device(name, Workers(3, 4, (1, 2))) == torch.device("cuda:1")
    assert pick_device("cpu", Workers(1, 2, (1, 2))).type == "cpu"
    with pytest.raises(ClickvecError) as refusal:
        pick_device("cuda", Workers(2, 3, (2, 3)))
    check_tells(str(refusal.value), "3 workers", "2 GPUs", "--nproc-per-node", "--device cpu")
    assert pick_device("cuda:1", ALONE) == torch.device("cuda:1")


# --- torchrun -----------------------------------------------------------------------------------------------------


def torchrun(*arguments: str | Path, workers: int = 2) -> list[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"]
    return [*launch, "-m", "clickvec.training", *map(str, arguments)]


def said(err: str) -> list[str]:
    return [line.removeprefix("clickvec: ") for line in err.splitlines() if line.startswith("clickvec: ")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data"
    data_folder.save(small_data(), path)
    return path


def workers_of(parent: int) -> list[int]:
    """Return the processes that torchrun has started, the first worker first."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return sorted(map(int, children), key=lambda pid: Path(f"/proc/{pid}/environ").read_bytes().find(b"\0RANK=0\0") < 0)


@pytest.fixture(scope="module")
def whole(data: Path) -> folder.Model:
    """The model of a run of two workers that nothing interrupts."""
    out = data.with_name("whole")
    subprocess.run(
        torchrun(data, "--out", out, *SETTINGS, "--set", "epochs=40"), check=True, capture_output=True, timeout=300
    )
    return folder.open_model(out)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_worker_stops_the_run_and_the_same_command_resumes_it(
    data: Path, whole: folder.Model, tmp_path: Path, victim: int
) -> None:
    broken = torchrun(data, "--out", tmp_path / "broken", *SETTINGS, "--set", "epochs=40")
    with subprocess.Popen(broken, stderr=subprocess.PIPE, text=True) as running:
        metrics = tmp_path / "broken.run" / "metrics.jsonl"  # written after the checkpoint
        deadline = time.monotonic() + 60
        while not metrics.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(workers_of(running.pid)[victim], signal.SIGKILL)
        begun = time.monotonic()
        err = running.communicate(timeout=60)[1]
        assert time.monotonic() - begun < 45
    assert running.returncode == 1
    (told,) = said(err)
    check_tells(told, "another worker", "same command", "resume")
    assert not (tmp_path / "broken").exists()
    before = json.loads((tmp_path / "broken.run" / "metrics.jsonl").read_text().splitlines()[-1])["epoch"]
    assert before < 40
    done = subprocess.run(broken, capture_output=True, text=True, check=True, timeout=300)
    assert f"epoch {before}/40" not in done.stderr
    assert folder.open_model(tmp_path / "broken").fingerprint == whole.fingerprint
    assert not (tmp_path / "broken.run").exists()


@pytest.mark.slow
def test_ctrl_c_stops_all_workers_and_saves(data: Path, tmp_path: Path) -> None:
    command = torchrun(data, "--out", tmp_path / "model", *SETTINGS, "--set", "epochs=100000")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        while not (tmp_path / "model.run" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGTERM)
        err = running.communicate(timeout=60)[1]
    assert running.returncode != 0
    (told,) = said(err)
    check_tells(told, "Training stopped in epoch", "--resume")


@pytest.mark.slow
def test_errors_are_told_once_and_the_first_worker_alone_prints_the_result(data: Path, tmp_path: Path) -> None:
    def failed(*arguments: str | Path) -> str:
        done = subprocess.run(torchrun(*arguments), capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 1
        (told,) = said(done.stderr)
        return told

    (tmp_path / "log.tsv").write_text("query\ttitle\n")
    check_tells(failed(tmp_path / "log.tsv", "--out", tmp_path / "model"), "log.tsv", "data folder", "prepare")
    command = torchrun(data, "--out", tmp_path / "model", *SETTINGS, "--set", "epochs=1", "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(done.stdout)["epoch"] == 1
    check_tells(failed(data, "--out", tmp_path / "model", *SETTINGS), "already holds a model", "--overwrite")


@pytest.mark.slow
def test_without_torchrun_it_is_clickvec_train(data: Path, tmp_path: Path) -> None:
    settings = (*SETTINGS, "--set", "epochs=2")
    program = [sys.executable, "-m", "clickvec.training", data, "--out", tmp_path / "one", *settings]
    subprocess.run(program, check=True, capture_output=True, timeout=300)
    ok("train", data, "--out", tmp_path / "other", *settings)
    assert folder.open_model(tmp_path / "one").fingerprint == folder.open_model(tmp_path / "other").fingerprint
    again = subprocess.run(program, capture_output=True, text=True, check=False, timeout=300)
    assert again.returncode == 1
    assert said(again.stderr) == [refused("train", data, "--out", tmp_path / "one", *settings)]
