"""`clickvec.train`: training from Python."""

import inspect
import logging
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import clickvec
from clickvec.data import data_folder, dataset, read_judged
from clickvec.errors import ClickvecError, Interrupted
from clickvec.lab.simulate import write

torch = pytest.importorskip("torch")

from interrupt import watch_updates  # noqa: E402

SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "site"
    write(path, impressions=10_000, dev_queries=20, test_queries=20, log=False)
    return path


@pytest.mark.slow
def test_train_twice_in_one_process_changes_nothing_of_the_process(site: Path, tmp_path: Path) -> None:
    environment, handlers = dict(os.environ), [signal.getsignal(number) for number in SIGNALS]
    log_handlers, threads = list(logging.getLogger("clickvec").handlers), threading.active_count()
    clicks = clickvec.read_clicks(site / "clicks.tsv.gz")
    reports: list[tuple[str, int, int | None]] = []
    first, second = (
        clickvec.train(
            clicks, tmp_path / name, dev=site / "dev.tsv.gz", cells=8, epochs=1,
            progress=lambda label, done, total, note="": reports.append((label, done, total)),
        )
        for name in ("first", "second")
    )  # fmt: skip
    assert first.fingerprint == second.fingerprint
    assert first.dimensions == 8
    assert "dev" in first.model.training["kept"]
    np.testing.assert_array_equal(
        clickvec.Encoder.load(tmp_path / "first").encode_query("pizza"), second.encode_query("pizza")
    )
    assert ("epoch 1/1", 0, reports[0][2]) in reports
    after = dict(os.environ)
    after.pop("TORCHINDUCTOR_CACHE_DIR", None)  # torch sets it
    environment.pop("TORCHINDUCTOR_CACHE_DIR", None)
    assert after == environment
    assert [signal.getsignal(number) for number in SIGNALS] == handlers
    assert logging.getLogger("clickvec").handlers == log_handlers
    assert threading.active_count() == threads


def test_clicks_are_a_path_several_paths_or_a_data_folder(site: Path, tmp_path: Path) -> None:
    log = site / "clicks.tsv.gz"
    data = dataset.prepare(clickvec.read_clicks(log), 7, 50_000, whole_words=True)
    data_folder.save(data, tmp_path / "data")
    settings = {"cells": 8, "epochs": 1}
    folder = clickvec.train(tmp_path / "data", tmp_path / "a", **settings)  # it has max_words 7, as the folder
    loaded = clickvec.train(data, tmp_path / "b", dev=read_judged(site / "dev.tsv.gz"), **settings)
    several = clickvec.train([str(log)], tmp_path / "c", dev=None, max_words=7, **settings)
    prints = {encoder.fingerprint for encoder in (folder, loaded, several)}
    assert len(prints) == 1
    assert several.model.training["data"]["from"] == "clicks.tsv.gz"
    with pytest.raises(ClickvecError, match=r"max_words 7.*has 5"):
        clickvec.train(tmp_path / "data", tmp_path / "d", max_words=5)


def test_a_wrong_call_is_refused_before_the_log_is_read(tmp_path: Path) -> None:
    absent = tmp_path / "absent.tsv"
    with pytest.raises(ClickvecError, match="'learning_rat'; the nearest is 'learning_rate'"):
        clickvec.train(absent, tmp_path / "model", learning_rat=0.1)
    with pytest.raises(ClickvecError, match=r"'best'.*default, paper"):
        clickvec.train(absent, tmp_path / "model", recipe="best")
    with pytest.raises(ClickvecError, match="if_exists is one of error, resume, overwrite, not 'replace'"):
        clickvec.train(absent, tmp_path / "model", if_exists="replace")
    with pytest.raises(ClickvecError, match="'gpu'"):
        clickvec.train(absent, tmp_path / "model", device="gpu")
    with pytest.raises(ClickvecError, match="nothing to resume"):
        clickvec.train(absent, tmp_path / "model", if_exists="resume")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(ClickvecError, match=r"other files.*config\.json"):
        clickvec.train(absent, tmp_path / "mine")
    assert not (tmp_path / "model.run").exists()


@pytest.mark.parametrize("again", [False, True])
def test_ctrl_c_leaves_a_run_that_resumes_to_the_same_weights(
    again: bool, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"cells": 8, "epochs": 3, "batch_size": 32}
    whole = clickvec.train(site / "clicks.tsv.gz", tmp_path / "whole", **settings)
    watch_updates(monkeypatch, stop_at=4, again=again)
    with pytest.raises(Interrupted, match="--resume"):
        clickvec.train(site / "clicks.tsv.gz", tmp_path / "cut", **settings)
    monkeypatch.undo()
    with pytest.raises(ClickvecError, match=r"cut\.run holds an unfinished run"):
        clickvec.train(site / "clicks.tsv.gz", tmp_path / "cut", **settings)
    resumed = clickvec.train(site / "clicks.tsv.gz", tmp_path / "cut", if_exists="resume", **settings)
    assert resumed.fingerprint == whole.fingerprint


@pytest.mark.parametrize(("name", "most"), [("read_clicks", 6), ("train", 8), ("evaluate", 6), ("explain", 6)])
def test_few_parameters_are_named(name: str, most: int) -> None:
    kinds = [parameter.kind for parameter in inspect.signature(getattr(clickvec, name)).parameters.values()]
    assert (
        sum(kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY) for kind in kinds) <= most
    )
