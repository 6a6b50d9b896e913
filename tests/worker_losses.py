"""Train small models by two workers, or by one, and return the loss of each minibatch.

`run_workers` starts this file as a program twice, with the variables that torchrun sets.

    python tests/worker_losses.py

on a machine with a GPU lets two workers share it, and prints how far their losses are from those of one process on the
CPU. The two exchange tensors by gloo, since nccl needs a GPU for each worker. A single worker makes the nccl calls.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed

from clickvec.config import recipe
from clickvec.data import BadLines, ClickLog, Judged, JudgedQuery, dataset
from clickvec.teacher.teacher_vectors import Teacher
from clickvec.training import loop, mining
from clickvec.training.update import Outcome
from clickvec.training.workers import ALONE, Workers, joined

SMALL = {"cells": 16, "hidden": 16, "epochs": 2, "batch_size": 57}
RESUMED, STOP_AT = "resumed in the middle of the second epoch", 10  # minibatches; an epoch has 7
WHOLE = "lstm to the end of training"  # with the titles that one process mines: see `same_mined`
RUNS: dict[str, dict[str, Any]] = {
    "lstm": {},
    WHOLE: {"epochs": 8, "word_dropout": 0.2},
    "bilstm": {"tower": "bilstm", "word_dropout": 0.2},
    "rnn": {"tower": "rnn", "shown_negatives": 2},
    "shared lstm with random negatives": {"recipe": "paper", "shared_tower": True, "word_dropout": 0.2},
    "rnn of the paper": {"recipe": "paper", "tower": "rnn", "hard_negatives": 2, "click_weight": "log"},
    "dssm": {"tower": "dssm", "cells": 16},
    "teacher": {"teacher_titles": 5, "has_teacher": True},
    "a minibatch of one pair": {},
    "cells that the compiled code does not take": {"cells": 7},
    RESUMED: {"word_dropout": 0.2},
    "not resumed": {"word_dropout": 0.2},
}


def small_data() -> dataset.Dataset:
    """Return 400 clicks: some queries have many, few have titles that were shown."""
    rng = np.random.default_rng(0)
    words = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in "prst"]
    titles = [" ".join(rng.choice(words, rng.integers(1, 7))) for _ in range(250)]
    queries = [" ".join(rng.choice(words, rng.integers(1, 4))) for _ in range(60)]
    asked = [queries[k] for k in (60 * rng.random(400) ** 2).astype(int)]
    log = ClickLog(asked, [titles[k] for k in rng.integers(0, 200, 400)], rng.integers(1, 9, 400) * 1.0, BadLines())
    judged = [
        JudgedQuery(str(k), queries[k], ("x", "y", "z"), tuple(titles[190 + 3 * k :][:3]), np.zeros(3, np.int64))
        for k in (3, 7, 8)
    ]
    return dataset.prepare(log, 10, 1000, Judged(tuple(judged), BadLines()), catalogue=titles[200:])


def losses(name: str, workers: Workers, folder: Path, mined: Path, device: str = "cpu") -> list[float]:
    """Train and return the loss of each minibatch, per pair. In `mined`, one process leaves the titles it has mined."""
    settings = SMALL | RUNS[name]
    data, has_teacher = small_data(), settings.pop("has_teacher", False)
    if name == "a minibatch of one pair":
        settings["batch_size"] = len(data.pair_query) - 1
    chosen = recipe(settings.pop("recipe", "default"), has_teacher=has_teacher, **settings)
    folder.mkdir(parents=True, exist_ok=True)
    teacher, found = random_teacher(data) if has_teacher else None, list[float]()
    if name == RESUMED:
        run = loop.Run(data, chosen, folder, device=torch.device(device), workers=workers)
        loop.CHECKPOINT_SECONDS = -1.0
        with contextlib.suppress(StoppedError):
            watch(run, found, STOP_AT).all_epochs()
        loop.CHECKPOINT_SECONDS = 300.0
    run = loop.Run(data, chosen, folder, device=torch.device(device), workers=workers, teacher=teacher)
    if name == RESUMED:
        run.restore()
    if name == WHOLE:
        same_mined(run, mined)
    watch(run, found).all_epochs()
    return [*found, *(row["masked"] for row in run.state.history)]


def same_mined(run: loop.Run, folder: Path) -> None:
    """Let several workers use the titles that one process has mined, if their own differ in almost equal cosines only.

    Rounding may exchange such titles. A minibatch with another title drops other words, so its loss differs by more.
    """
    mine = run._mine

    def mine_and_compare() -> None:
        mine()
        own, path = run.sampler.mined, folder / f"{run.state.epoch}.npy"
        if run.workers.count == 1:
            np.save(path, own)
            return
        one = np.load(path)
        y_q, y_d = (
            mining._encode(tower, texts, run.data.tokens, run.device).detach().cpu().numpy()
            for tower, texts in ((run.towers.query, run.data.queries), (run.towers.title, run.data.titles))
        )
        cosines = [np.einsum("rd,rkd->rk", y_q, y_d[titles]) for titles in (own, one)]
        np.testing.assert_allclose(*cosines, atol=1e-5)
        assert (own < 0).tolist() == (one < 0).tolist()
        own[:] = one

    run._mine = mine_and_compare  # type: ignore[method-assign]


class StoppedError(Exception):
    """A run is stopped."""


def watch(run: loop.Run, found: list[float], stop_at: int | None = None) -> loop.Run:
    """Note the loss of each minibatch, and stop all workers before one of them."""
    epoch = run.updater.epoch

    def watched(*arguments: Any) -> Iterator[Outcome]:  # noqa: ANN401
        for outcome in epoch(*arguments):
            if len(found) == stop_at:
                raise StoppedError
            found.append(float(outcome.loss) / outcome.weight)
            yield outcome

    run.updater.epoch = watched  # type: ignore[method-assign]
    return run


def random_teacher(data: dataset.Dataset) -> Teacher:
    """Return random vectors for all texts. The clicked title is often the nearest, so that they get some weight."""
    rng = np.random.default_rng(0)
    counts = (len(texts.offsets) - 1 for texts in (data.queries, data.titles))
    rows = [rng.integers(-100, 100, (count, 8)).astype(np.int8) for count in counts]
    rows[0][data.pair_query] = rows[1][data.pair_title]
    return Teacher("random", *rows, np.full(8, 0.004, np.float32))


def run_workers(count: int, out: Path, mined: Path, device: str = "cpu") -> dict[str, list[float]]:
    """Return the losses of all runs by several workers, after those of one process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(count)}
    shared["LOCAL_WORLD_SIZE"] = str(count)
    running = [
        subprocess.Popen(
            [sys.executable, __file__, out, mined, device], env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(count)
    ]
    try:
        assert [process.wait(120) for process in running] == [0] * count
    finally:
        for process in running:
            process.kill()
    found: dict[str, list[float]] = json.loads(out.read_text())
    return found


def run_alone(folder: Path, mined: Path) -> dict[str, list[float]]:
    """Return the losses of all runs by one process."""
    mined.mkdir(parents=True)
    return {name: losses(name, ALONE, folder / name, mined) for name in RUNS}


def work(out: Path, mined: Path, device: str) -> None:
    """Train all runs as one of several workers, and let the first write the losses."""
    if device == "cuda":  # one GPU for all workers
        distributed.is_nccl_available = lambda: False
    with joined() as workers, tempfile.TemporaryDirectory() as place:
        every = {name: losses(name, workers, Path(place, name), mined, device) for name in RUNS}
        if workers.is_first:
            out.write_text(json.dumps(every))


def compare_on_one_gpu() -> None:
    """Print how far the losses of two workers on one GPU are from those of one process on the CPU."""
    with tempfile.TemporaryDirectory() as place:
        one = run_alone(Path(place, "one"), Path(place, "mined"))
        two = run_workers(2, Path(place, "losses.json"), Path(place, "mined"), "cuda")
    for name in RUNS:
        assert len(one[name]) == len(two[name]) > 4, name
        gap = np.abs(np.subtract(one[name], two[name])).max()
        print(f"{name:45} {len(one[name]):3} losses, largest difference {gap:.1e}")


def call_nccl() -> None:
    """Exchange tensors by nccl as one worker, with the calls of training/workers.py."""
    distributed.init_process_group("cpu:gloo,cuda:nccl", store=distributed.HashStore(), rank=0, world_size=1)
    own = torch.arange(6.0, device="cuda").view(3, 2)
    summed, parts = own.clone(), own.new_empty(3, 2)
    work = distributed.all_reduce(summed, async_op=True)
    assert work is not None
    work.wait(60)
    distributed.all_gather(list(torch.split(parts, 3)), own)
    distributed.broadcast(own, 0)
    told = ["told"]
    distributed.broadcast_object_list(told, 0)
    assert torch.equal(summed, own)
    assert torch.equal(parts, own)
    distributed.destroy_process_group()
    print("nccl: sums, gathers and copies of one worker are right")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
    else:
        compare_on_one_gpu()
        call_nccl()
