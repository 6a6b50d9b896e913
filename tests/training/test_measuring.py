"""Training on clicks alone: what is held out, what chooses the epoch, and the figures in the model card."""

import json
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from command import check_tells, ok, run

from clickvec.data import ClickLog, dataset, read_judged
from clickvec.data.held_out import hold_out, near_duplicate_key
from clickvec.evaluation.metrics import MEASURES
from clickvec.evaluation.ranker import Ranker
from clickvec.evaluation.result import Evaluation
from clickvec.evaluation.test_set import TestSet
from clickvec.lab.simulate import write
from clickvec.progress import Progress

pytest.importorskip("torch")

import clickvec
from clickvec.errors import Interrupted
from clickvec.model.encoder import Encoder
from clickvec.model.folder import Model
from clickvec.search.fusion import Fusion
from clickvec.text.tokens import canonical
from clickvec.training import fusing, loop, measuring
from clickvec.training.checkpoint import RUN_FILES
from clickvec.training.measuring import hold_out_clicks

SMALL = {"cells": 8, "epochs": 2, "hard_negatives": 0}
OPTIONS = ("--set", "cells=8", "--set", "epochs=2", "--set", "hard_negatives=0")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write(folder, 12_000, 0, 20, 20, log=False)
    return folder


@pytest.fixture(scope="module")
def log(site: Path) -> ClickLog:
    return clickvec.read_clicks(site / "clicks.tsv.gz")


def test_what_is_held_out_is_not_trained_on(log: ClickLog, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    (_, texts), dev, test = hold_out_clicks(
        log, lambda part: dataset.prepare_with_texts(part, 10, 50_000), ["a title that nobody clicked"]
    )
    assert dev is not None
    assert test is not None
    trained = set(map(near_duplicate_key, texts.queries[:]))
    for held in (dev, test):
        assert not trained & set(map(near_duplicate_key, (query.query for query in held.queries)))
        assert "a title that nobody clicked" in held.titles
        assert set(map(canonical, log.titles)) <= set(map(canonical, held.titles))
        assert len(held.titles) == len({*log.titles, "a title that nobody clicked"})
    assert f"{len(test.queries):,} to measure, by a hash" in caplog.text


def test_titles_that_were_only_shown_are_searched_by_every_door(tmp_path: Path) -> None:
    lines = [f"q{row} w{row % 50}\tt{row % 100} w{row % 50} clicked\t1\n" for row in range(600)]
    lines += [f"q{row} w{row % 50}\tt{row * 3 + more} only shown\t0\n" for row in range(600) for more in range(3)]
    (tmp_path / "log.tsv").write_text("query\ttitle\tclicked\n" + "".join(lines))
    ok("prepare", tmp_path / "log.tsv", "--hold-out", "--out", tmp_path / "data")
    ok("train", tmp_path / "log.tsv", "--out", tmp_path / "a", *OPTIONS)
    ok("train", tmp_path / "data", "--out", tmp_path / "b", *OPTIONS)
    clickvec.train(tmp_path / "log.tsv", tmp_path / "c", **SMALL)
    models = [Encoder.load(tmp_path / name).model for name in "abc"]
    figures = [model.training["held_out"] for model in models]
    assert figures[0]["titles"] > 1_500
    assert figures[0] == figures[1] == figures[2]
    assert models[0].fusion == models[1].fusion == models[2].fusion
    told = run("evaluate", tmp_path / "a", "--held-out", tmp_path / "log.tsv").err
    assert "Only the 1,900 titles of --held-out are searched" in told
    told = run("train", tmp_path / "data", "--no-hold-out", "--out", tmp_path / "d", *OPTIONS).err
    check_tells(told, "holds out", "clicked pairs, which are not trained on", "prepare it without --hold-out")


@pytest.mark.parametrize("memory", [(), ("--memory", "500MB")], ids=["in memory", "on disk"])
@pytest.mark.parametrize("has_times", [False, True], ids=["by hash", "by time"])
def test_figures_of_a_log_and_of_its_data_folder_are_the_same(
    log: ClickLog, tmp_path: Path, memory: tuple[str, ...], has_times: bool
) -> None:
    rng, spellings = np.random.default_rng(0), (str, str.upper, str.title, "{}!".format, " {} ".format)
    lines = ["query\ttitle" + "\ttime" * has_times]
    for query, title in zip(log.queries, log.titles, strict=True):
        for _ in range(rng.integers(1, 3)):  # the same texts in other spellings
            first, second = (
                spellings[at](text) for at, text in zip(rng.integers(0, 5, 2), (query, title), strict=True)
            )
            lines.append(f"{first}\t{second}" + f"\t2026-01-{rng.integers(1, 29):02}T00:00:00" * has_times)
    (tmp_path / "log.tsv").write_text("\n".join(lines) + "\n")
    ok("prepare", tmp_path / "log.tsv", "--hold-out", "--out", tmp_path / "data", *memory)
    models = []
    for source in ("log.tsv", "data"):
        ok("train", tmp_path / source, "--out", tmp_path / f"m-{source}", *OPTIONS)
        models.append(Encoder.load(tmp_path / f"m-{source}").model)
    assert models[0].training["held_out"]["queries"] > 0
    assert models[0].training["held_out"] == models[1].training["held_out"]
    assert models[0].fusion_report == models[1].fusion_report
    assert models[0].training["kept"]["dev"] == models[1].training["kept"]["dev"]


def test_the_verb_prints_the_figures(site: Path, log: ClickLog, tmp_path: Path) -> None:
    printed = ok("train", site / "clicks.tsv.gz", "--out", tmp_path / "m", *OPTIONS)
    summary, head, _, model, hybrid, words, bm25 = printed.splitlines()
    assert "dev MRR@10" in summary
    assert head.split() == ["held-out", "clicks", *MEASURES, "p"]
    assert model.startswith("model ")
    assert hybrid.startswith("hybrid ")
    assert words.startswith("words ")
    assert bm25.startswith("BM25 (tuned) ")
    figures = Encoder.load(tmp_path / "m").model.training["held_out"]
    held = hold_out(log)
    assert held is not None
    assert figures["queries"] == len(set(held.test.queries))
    low, high = figures["systems"][0]["intervals"]["NDCG@10"]
    assert 0 <= low <= figures["systems"][0]["NDCG@10"] <= high <= 100
    for system in figures["systems"]:
        cell = f"{system['NDCG@10']:.1f} [{system['intervals']['NDCG@10'][0]:.1f}, "
        assert cell in (tmp_path / "m" / "README.md").read_text()
        assert cell in printed
    assert "held-out clicks: queries" in ok("info", tmp_path / "m")
    facts = json.loads(ok("train", site / "clicks.tsv.gz", "--out", tmp_path / "m", "--overwrite", *OPTIONS, "--json"))
    assert facts["held_out"] == figures  # the same clicks are held out again


def test_an_index_uses_the_fusion_that_was_fitted_in_training(log: ClickLog, tmp_path: Path) -> None:
    encoder = clickvec.train(log, tmp_path / "m", **SMALL)
    model = encoder.model
    assert model.fusion_report["queries"] >= 50
    index = clickvec.Index.build(encoder, ["a red car", "blue tea"])
    assert index.fusion.as_json() == model.fusion
    assert index.fusion_report == model.fusion_report
    index.use_fusion(Fusion.default())  # what the index itself was told comes first
    assert index.fusion == Fusion.default()
    assert index.fusion_report is None


def test_python_holds_out_what_the_verb_does(log: ClickLog, tmp_path: Path) -> None:
    one = clickvec.train(log, tmp_path / "one", **SMALL)
    held = hold_out(log)
    assert held is not None
    rest = clickvec.train(held.train, tmp_path / "rest", dev=None, **SMALL)
    np.testing.assert_array_equal(one.encode_query(["bath tub"]), rest.encode_query(["bath tub"]))
    assert "folds" not in one.model.training["held_out"]
    assert rest.model.training["held_out"]["folds"] == 5  # it holds nothing out, so models of its parts are measured


def test_a_judged_set_with_a_catalogue_is_searched_in_all_its_titles(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fusing, "MOST_PAIRS", 0)  # no models of folds
    call = ("train", site / "clicks.tsv.gz", "--dev", site / "dev.tsv.gz", *OPTIONS)
    assert "dev NDCG@1 " in ok(*call, "--out", tmp_path / "lists")
    searched = ok(*call, "--catalogue", site / "titles.tsv.gz", "--out", tmp_path / "searches")
    assert "dev MRR@10 " in searched
    assert "dev Recall@100 " in searched
    same = (Encoder.load(tmp_path / name).model.training["data"]["pairs"] for name in ("lists", "searches"))
    assert len(set(same)) == 1  # nothing is held out


@pytest.mark.slow
def test_no_hold_out_trains_on_everything(site: Path, log: ClickLog, tmp_path: Path) -> None:
    printed = ok("train", site / "clicks.tsv.gz", "--out", tmp_path / "all", "--no-hold-out", *OPTIONS)
    assert "cross-validated clicks" in printed
    everything = clickvec.train(log, tmp_path / "same", dev=None, **SMALL)
    assert Encoder.load(tmp_path / "all").fingerprint == everything.fingerprint
    assert everything.model.training["data"]["pairs"] == len(set(zip(log.queries, log.titles, strict=True)))


def test_held_out_clicks_choose_the_epoch(log: ClickLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([50.0, 30.0, 40.0])
    monkeypatch.setattr(loop, "dev_scores", lambda model, dev: {"NDCG@10": next(scores)})
    encoder = clickvec.train(log, tmp_path / "m", **(SMALL | {"epochs": 3}))
    assert encoder.model.training["kept_epoch"] == 1


def test_dev_is_a_sample_of_many_queries(log: ClickLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, measure = list[int](), measuring.measure

    def noted(rankers: Sequence[Ranker], test: TestSet, progress: Progress | None = None) -> Evaluation:
        asked.append(len(test.queries))
        return measure(rankers, test, progress)

    monkeypatch.setattr(measuring, "MOST_DEV", 7)
    monkeypatch.setattr(measuring, "measure", noted)
    clickvec.train(log, tmp_path / "m", **SMALL)
    assert asked == [7, 7]


def test_a_small_log_says_that_nothing_is_held_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = ClickLog([f"query {row}" for row in range(40)], [f"title {row}" for row in range(40)], np.ones(40))
    encoder = clickvec.train(log, tmp_path / "m", **SMALL)
    assert encoder.model.training["kept_epoch"] == 2
    assert "held_out" not in encoder.model.training
    assert "fewer than 500 different queries" in caplog.text
    assert "Hybrid search ranks by words alone: the model was trained on 40 different queries" in caplog.text
    assert "--dev" in caplog.text


def test_a_model_of_a_handful_of_clicks_is_searched_by_words(
    site: Path, log: ClickLog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever door trains it: Python, with and without held-out clicks or texts, and the verbs."""
    caplog.set_level(logging.INFO)
    titles = list(dict.fromkeys(log.titles))
    queries = list(dict.fromkeys(log.queries))[:60]
    few = log_of(log, set(queries))
    data = dataset.prepare(few, 10, 50_000)
    for name, clicks, dev in (("a", few, "held-out"), ("b", few, None), ("c", data, None)):
        encoder = clickvec.train(clicks, tmp_path / name, dev=dev, catalogue=titles, **SMALL)
        assert encoder.model.fusion == Fusion.alone("words").as_json()
        index = clickvec.Index.build(encoder, titles)
        for query in queries[:20]:
            best, hybrid = (index.search(query, k=1, mode=mode)[0].parts["bm25"] for mode in ("words", "hybrid"))
            assert hybrid == pytest.approx(best, rel=0.01)
    lines = "".join(f"{query}\t{title}\n" for query, title in zip(few.queries, few.titles, strict=True))
    (tmp_path / "few.tsv").write_text(f"query\ttitle\n{lines}")
    for number, option in enumerate(((), ("--no-hold-out",))):
        done = run("train", tmp_path / "few.tsv", "--out", tmp_path / str(number), *option, *OPTIONS)
        assert "Hybrid search ranks by words alone" in done.err
        assert Encoder.load(tmp_path / str(number)).model.fusion == Fusion.alone("words").as_json()
    done = run("index", tmp_path / "0", site / "titles.tsv.gz", "--out", tmp_path / "index")
    check_tells(done.err, "ranks by words alone", "Collect more clicks", "--dev")
    check_tells(ok("info", tmp_path / "index"), "ranks by words alone", "Collect more clicks")


def test_a_model_that_holds_nothing_out_is_cross_fitted(log: ClickLog, tmp_path: Path) -> None:
    few = log_of(log, set(list(dict.fromkeys(log.queries))[:250]))
    for name, dev in (("a", "held-out"), ("b", None)):
        model = clickvec.train(few, tmp_path / name, dev=dev, **SMALL).model
        assert model.fusion_report["folds"] == 5
        assert model.fusion is not None
        chosen = model.fusion_report["chosen"]
        figures = model.fusion_report["figures"]
        assert figures[chosen]["NDCG@10"] >= figures["words"]["NDCG@10"]


def test_a_catalogue_without_the_clicked_titles_is_cross_fitted_too(
    site: Path, log: ClickLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = log_of(log, set(list(dict.fromkeys(log.queries))[:250]))
    judged = read_judged(site / "dev.tsv.gz")
    titles = sorted({title for query in judged for title in query.titles})
    assert not set(few.titles) <= set(titles)
    model = clickvec.train(few, tmp_path / "m", dev=judged, catalogue=titles, **SMALL).model
    assert model.fusion_report is not None
    assert model.fusion_report["folds"] == 5


def test_a_run_that_is_stopped_while_the_fusion_is_fitted_resumes(
    log: ClickLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = log_of(log, set(list(dict.fromkeys(log.queries))[:250]))
    whole = clickvec.train(few, tmp_path / "whole", dev=None, **SMALL)
    train_fold = loop.Run._train_fold

    def interrupted(self: loop.Run, data: dataset.Dataset, number: int) -> Model:
        if number == 1:
            os.kill(os.getpid(), signal.SIGINT)
            assert self.stop.wait(60)  # the main thread handles the signal
        return train_fold(self, data, number)

    with monkeypatch.context() as patched:
        patched.setattr(loop.Run, "_train_fold", interrupted)
        with pytest.raises(Interrupted, match=r"stopped while the fusion was fitted\. Resume it with --resume"):
            clickvec.train(few, tmp_path / "cut", dev=None, **SMALL)
    names = {path.name for path in (tmp_path / "cut.run").iterdir()}
    assert "checkpoint.safetensors" in names
    assert names <= set(RUN_FILES)  # also after kill -9, so that the next run takes the folder
    resumed = clickvec.train(few, tmp_path / "cut", dev=None, if_exists="resume", **SMALL)
    assert resumed.model.fusion_report == whole.model.fusion_report


def log_of(log: ClickLog, queries: set[str]) -> ClickLog:
    rows = [row for row, query in enumerate(log.queries) if query in queries]
    return ClickLog([log.queries[row] for row in rows], [log.titles[row] for row in rows], log.clicks[rows])


def test_a_warning_is_told_once_in_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = ClickLog(["one query", "another"], ["the same title"] * 2, np.ones(2))
    clickvec.train(log, tmp_path / "m", **(SMALL | {"epochs": 5}))
    assert caplog.text.count("Nothing was learned") == 1


def test_a_catalogue_is_searched_too(site: Path, tmp_path: Path) -> None:
    more, arguments = tmp_path / "titles.tsv", ("train", site / "clicks.tsv.gz", "--out", tmp_path / "m", *OPTIONS)
    more.write_text("".join(f"{text}\n" for text in ["title", *(f"unheard of {row}" for row in range(100))]))
    alone = json.loads(ok(*arguments, "--json"))["held_out"]
    both = json.loads(ok(*arguments, "--json", "--overwrite", "--catalogue", more))["held_out"]
    assert both["titles"] == alone["titles"] + 100
    assert both["queries"] == alone["queries"]


def test_a_data_folder_brings_what_it_holds_out(site: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ok("prepare", site / "clicks.tsv.gz", "--out", tmp_path / "data", "--hold-out")
    figures = json.loads(ok("train", tmp_path / "data", "--out", tmp_path / "m", *OPTIONS, "--json"))["held_out"]
    alone = json.loads(ok("train", site / "clicks.tsv.gz", "--out", tmp_path / "n", *OPTIONS, "--json"))["held_out"]
    assert figures["queries"] == alone["queries"]
    assert figures["titles"] == alone["titles"]
    for one, other in zip(figures["systems"], alone["systems"], strict=True):
        assert one["NDCG@10"] == pytest.approx(other["NDCG@10"], abs=1)  # equal scores are in another order
    encoder = clickvec.train(tmp_path / "data", tmp_path / "o", **SMALL)
    assert encoder.model.training["held_out"] == figures
    ok("prepare", site / "clicks.tsv.gz", "--out", tmp_path / "all")
    everything = clickvec.train(tmp_path / "all", tmp_path / "p", **SMALL)
    assert everything.model.training["held_out"]["folds"] == 5  # nothing is held out, so models of folds are measured
    assert "--hold-out" in caplog.text


def test_an_interrupted_run_resumes_with_the_same_figures(
    log: ClickLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = clickvec.train(log, tmp_path / "whole", **SMALL)

    def fail(*_: object) -> None:
        raise OSError("killed while it was measured")

    with monkeypatch.context() as patched:
        patched.setattr(loop, "fit_and_measure", fail)
        with pytest.raises(OSError, match="killed"):
            clickvec.train(log, tmp_path / "cut", **SMALL)
    assert not (tmp_path / "cut").exists()
    resumed = clickvec.train(log, tmp_path / "cut", if_exists="resume", **SMALL)
    assert resumed.fingerprint == whole.fingerprint
    assert resumed.model.training["held_out"] == whole.model.training["held_out"]
