"""The paper's table by one command, on a small site: right figures, nothing made twice, stopped and gone on with."""

import dataclasses
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from child import die
from command import PROGRAM, Done, contents, ok, refused, run, sentence, started
from ondisk import read_arrays
from test_skipthought import published

from clickvec.data import Judged, JudgedQuery, read_clicks, read_judged, read_titles
from clickvec.errors import ClickvecError, Interrupted
from clickvec.evaluation.bm25 import BM25
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.test_set import Catalogue
from clickvec.lab.compare import baselines, pool
from clickvec.lab.compare import run as compare_run
from clickvec.lab.compare.bench import Bench, Task
from clickvec.lab.compare.catalogue_search import DEPTH, catalogue_values, fuse_ranks, search_catalogue
from clickvec.lab.compare.findings import Comparison
from clickvec.lab.compare.material import Material
from clickvec.lab.compare.run import compare
from clickvec.lab.compare.systems import choose, systems
from clickvec.lab.compare.trained import Trainer
from clickvec.model.encoder import Encoder
from clickvec.search.rerank import standard
from clickvec.storage.arrays import write_arrays

for library in ("torch", "scipy", "matplotlib"):
    pytest.importorskip(library)

from interrupt import watch_updates  # noqa: E402

from clickvec.lab.other_systems import skipthought_training  # noqa: E402
from clickvec.training import loop  # noqa: E402

TINY = ("cells=8", "hidden=16", "output=8", "epochs=1")
OPTIONS = tuple(part for setting in TINY for part in ("--set", setting))
TINY_PROSE = skipthought_training.Settings(words=50, embedding=8, uni=8, bi=4, epochs=1, sampled_softmax=True)


def small_grids(patched: pytest.MonkeyPatch) -> None:
    """Few trials, and little ones: how they are chosen from is the same."""
    for name in ("BM25_GRID", "ULM_GRID"):
        patched.setattr(baselines, name, getattr(baselines, name)[::10])
    patched.setattr(baselines, "PLSA_GRID", ({"topics": 4, "iterations": 2}, {"topics": 2, "iterations": 2}))
    patched.setattr(skipthought_training, "SMALL", TINY_PROSE)
    patched.setattr(skipthought_training, "TINY", TINY_PROSE)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    small_grids(monkeypatch)


@pytest.fixture(scope="module")
def material(site: Path) -> Material:
    dev, test = (read_judged(site / f"{name}.tsv.gz") for name in ("dev", "test"))
    return Material(read_clicks(site / "clicks.tsv.gz"), dev, test, names={"clicks": "clicks.tsv.gz"})


def table(material: Material, out: Path, *keys: str, settings: Sequence[str] = TINY, **options: Any) -> Comparison:  # noqa: ANN401
    return compare(material, out, keys=keys, settings=settings, **options)


def same_rows(one: Comparison, other: Comparison) -> bool:
    return [row.key for row in one.rows] == [row.key for row in other.rows] and all(
        np.array_equal(a.dev, b.dev) and np.array_equal(a.test, b.test) and a.settings == b.settings
        for a, b in zip(one.rows, other.rows, strict=True)
    )


def recorded_scores(out: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(out / "scores").items() if name.endswith("scores.safetensors")}


def place_of(out: Path, key: str) -> Path:
    (place,) = (out / "scores").glob(f"{key}-1-*")
    return place


def regraded(judged: Judged) -> Judged:
    """The same titles, the worst of each query now the best."""
    return Judged(tuple(query._replace(grades=query.grades.max() - query.grades) for query in judged))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is fitted and scored, as it happens."""
    found, record = list[str](), Bench.record

    def note(self: Bench, task: Task) -> None:
        found.append(str(task))
        record(self, task)

    monkeypatch.setattr(Bench, "record", note)
    return found


# --- over a catalogue --------------------------------------------------------------------------------------------


def test_every_system_searches_the_catalogue(
    arguments: tuple[str | Path, ...], material: Material, site: Path, tmp_path: Path
) -> None:
    options = ("--catalogue", site / "titles.tsv.gz", "--systems", "bm25,lstm,hybrid-rrf", "--out", tmp_path / "out")
    done = run(*arguments, *options, "--json")
    assert done.status == 0, done.err
    facts = json.loads(done.out)
    assert [row["key"] for row in facts["rows"]] == ["bm25", "lstm", "hybrid-rrf"]
    catalogue = Catalogue(title.title for title in read_titles(site / "titles.tsv.gz"))
    catalogue.add([*material.log.titles, *(title for query in material.test for title in query.titles)])
    assert facts["about"]["titles searched"] == len(catalogue.titles)
    encoder = Encoder.load(next((tmp_path / "out" / "models").glob("lstm-*")))
    searched = dataclasses.replace(material, catalogue=catalogue).searched
    found = search_catalogue(Neural(encoder, "lstm"), material.test, searched)
    expected = catalogue_values(found, material.test, searched).mean(axis=1)
    assert list(facts["rows"][1]["test"]["mean"].values()) == pytest.approx(expected.tolist())
    assert "titles (those without a grade" in (tmp_path / "out" / "table.md").read_text()
    again = run(*arguments, *options, "--json")
    assert (
        json.loads(again.out)["rows"][1]["train_seconds"] == facts["rows"][1]["train_seconds"]
    )  # nothing is made twice


def test_searches_are_measured_by_hand() -> None:
    catalogue = Catalogue(["A", "B", "C", "D"])
    query = JudgedQuery("1", "q", ("x", "y", "z"), ("b", "C", "A"), np.array([1, 2, 0]))
    judged = Judged((query, query._replace(grades=np.zeros(3, np.int64))))  # nothing is relevant for the second
    found = np.full((2, DEPTH), -1, np.int32)
    found[0, :3] = [3, 2, 1]
    ideal = 3 + 1 / np.log2(3)
    expected = [0, (3 / np.log2(3) + 1 / 2) / ideal, (3 / np.log2(3) + 1 / 2) / ideal]
    assert catalogue_values(found, judged, catalogue)[:, 0].tolist() == pytest.approx([100 * each for each in expected])
    other = np.full((2, DEPTH), -1, np.int32)
    other[0, :2] = [1, 2]
    assert fuse_ranks(found, other, 1)[0, :4].tolist() == [1, 2, 3, -1]  # 1/4 + 1/2, 1/3 + 1/3, 1/2


def test_what_cannot_search_is_refused_by_name_only(
    arguments: tuple[str | Path, ...], site: Path, tmp_path: Path
) -> None:
    catalogue = ("--catalogue", site / "titles.tsv.gz", "--out", tmp_path / "out")
    assert "hybrid-mix cannot search a catalogue" in refused(*arguments, *catalogue, "--systems", "hybrid-mix")
    assert not any(system.key == "hybrid-mix" for system in compare_run._searchable(choose("default", []), []))


# --- the whole command -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arguments(site: Path) -> tuple[str | Path, ...]:
    files = ("--clicks", site / "clicks.tsv.gz", "--dev", site / "dev.tsv.gz", "--test", site / "test.tsv.gz")
    return ("compare", *files, *OPTIONS)


@pytest.fixture(scope="module")
def whole(arguments: tuple[str | Path, ...], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """Five systems, and BM25 for the hybrids among them, under `paper` with two seeds."""
    out = tmp_path_factory.mktemp("compare") / "out"
    asked = ("--systems", "hybrid-mix, lstm,rnn,ulm,hybrid-rrf,dssm", "--recipe", "paper", "--seeds", "2")
    with pytest.MonkeyPatch.context() as patched:
        small_grids(patched)
        return out, run(*arguments, *asked, "--out", out, "--json")


def test_rows_come_in_the_order_of_the_paper_and_hybrids_bring_their_parts(whole: tuple[Path, Done]) -> None:
    out, done = whole
    assert done.status == 0, done.err
    rows = json.loads(done.out)["rows"]
    assert [row["key"] for row in rows] == ["ulm", "bm25", "dssm", "rnn", "lstm", "hybrid-rrf", "hybrid-mix"]
    assert [len(row["test"]["per_query"]["NDCG@1"]) for row in rows] == [1, 1, 2, 2, 2, 2, 2]
    assert json.loads((out / "comparison.json").read_text()) == json.loads(done.out)


def test_every_file_is_written(whole: tuple[Path, Done]) -> None:
    out, _ = whole
    assert {path.name for path in out.iterdir()} == {
        "comparison.json", "cost.png", "lock", "models", "scores", "table.md", "table.tex", "trec",
    }  # fmt: skip
    assert (out / "cost.png").read_bytes().startswith(b"\x89PNG")
    assert "| 5 | LSTM-RNN (ncell = 8), n = 4 |" in (out / "table.md").read_text()
    assert (out / "table.tex").read_text().startswith(r"\begin{tabular}")
    for split in ("dev", "test"):
        kinds = {path.name.removeprefix(f"{split}.") for path in (out / "trec").glob(f"{split}.*")}
        seeded = {f"{key}.{seed}.run" for key in ("dssm", "rnn", "lstm", "hybrid-rrf", "hybrid-mix") for seed in (1, 2)}
        assert kinds - {"rnn-cost.1.run"} == {"qrels", "gains.qrels", "bm25.1.run", "ulm.1.run"} | seeded


def test_results_go_to_stdout_and_progress_to_stderr(whole: tuple[Path, Done]) -> None:
    _, done = whole
    assert done.out.count("\n") == 1
    assert "bm25: 0 s of training (" in done.err
    assert "lstm, seed 2: 0 s of training (" in done.err


def read_columns(path: Path, name: int, value: int) -> dict[str, dict[str, str]]:
    """Two columns of a TREC file, by query."""
    found: dict[str, dict[str, str]] = {}
    for line in path.read_text().splitlines():
        fields = line.split()
        found.setdefault(fields[0], {})[fields[name]] = fields[value]
    return found


def read_run(path: Path) -> dict[str, dict[str, float]]:
    return {q: {d: float(score) for d, score in docs.items()} for q, docs in read_columns(path, 2, 4).items()}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_the_figures_are_those_of_trec_eval_for_the_files_beside_them(whole: tuple[Path, Done], split: str) -> None:
    out, done = whole
    found, ties = json.loads(done.out), 0
    gains = {
        q: {d: int(gain) for d, gain in docs.items()}
        for q, docs in read_columns(out / "trec" / f"{split}.gains.qrels", 2, 3).items()
    }
    oracle = pytrec_eval.RelevanceEvaluator(gains, {"ndcg_cut.1,3,10"})
    for row in found["rows"]:
        runs = sorted((out / "trec").glob(f"{split}.{row['key']}.[12].run"))
        values = [oracle.evaluate(read_run(path)) for path in runs]
        assert len(values) == len(row[split]["per_query"]["NDCG@1"])
        for measure, name in (("NDCG@1", "ndcg_cut_1"), ("NDCG@3", "ndcg_cut_3"), ("NDCG@10", "ndcg_cut_10")):
            queries = found["splits"][split]["query_ids"]
            expected = np.mean([[100 * value[query][name] for query in queries] for value in values])
            assert row[split]["mean"][measure] == pytest.approx(expected, abs=1e-9)
        scores = [Counter(docs.values()) for path in runs for docs in read_run(path).values()]
        ties += sum(count > 1 for counted in scores for count in counted.values())
    assert ties > 20


def test_hybrids_are_made_of_the_recorded_scores(whole: tuple[Path, Done]) -> None:
    out, done = whole
    (row,) = (row for row in json.loads(done.out)["rows"] if row["key"] == "hybrid-mix")
    names = ("bm25.1", "lstm.1", "hybrid-mix.1")
    words, vectors, mixed = (read_run(out / "trec" / f"test.{name}.run") for name in names)
    for query, docs in mixed.items():
        bm25, lstm = (standard(np.array([run[query][d] for d in docs], np.float32)) for run in (words, vectors))
        weight = row["settings"]["weight"]
        np.testing.assert_allclose(weight * lstm + (1 - weight) * bm25, list(docs.values()), atol=1e-5)


def test_without_json_the_table_is_printed(whole: tuple[Path, Done], arguments: tuple[str | Path, ...]) -> None:
    out, _ = whole
    again = ("--systems", "lstm,bm25", "--recipe", "paper", "--out", out.parent / "copy")
    shutil.copytree(out, out.parent / "copy")
    done = run(*arguments, *again)
    assert "2 of 2 systems and seeds" in done.err
    assert [line.split()[1] for line in done.out.split("\n\n")[0].splitlines()[2:]] == ["BM25", "LSTM-RNN"]


def test_the_folder_holds_the_files_of_its_table_and_no_older_ones(
    whole: tuple[Path, Done], arguments: tuple[str | Path, ...], tmp_path: Path
) -> None:
    shutil.copytree(whole[0], tmp_path / "out")
    ok(*arguments, "--systems", "bm25", "--out", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out" / "trec").glob("*.run")} == {"dev.bm25.1.run", "test.bm25.1.run"}
    assert not (tmp_path / "out" / "cost.png").exists()


def test_nothing_is_chosen_on_test(material: Material, tmp_path: Path) -> None:
    keys = ("bm25", "ulm", "plsa", "hybrid-rrf", "hybrid-mix", "dssm")
    other = dataclasses.replace(material, test=regraded(material.test))
    first, second = (table(given, tmp_path / name, *keys) for given, name in ((material, "a"), (other, "b")))
    for one, changed in zip(first.rows, second.rows, strict=True):
        assert one.settings == changed.settings
        np.testing.assert_array_equal(one.dev, changed.dev)
        assert not np.array_equal(one.test, changed.test)
    runs = [contents(tmp_path / name / "trec") for name in "ab"]
    assert all(runs[0][name] == data for name, data in runs[1].items() if name.endswith(".run"))


def test_settings_of_a_fusion_are_the_best_on_dev(material: Material, tmp_path: Path) -> None:
    tried = []
    for grid in compare_run.MIXTURE_GRID:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(compare_run, "MIXTURE_GRID", (grid,))
            tried.append(table(material, tmp_path / "out", "hybrid-mix").row("hybrid-mix").mean("dev")[2])
    best = table(material, tmp_path / "out", "hybrid-mix").row("hybrid-mix")
    assert best.mean("dev")[2] == max(tried)
    assert best.settings == compare_run.MIXTURE_GRID[int(np.argmax(tried))]


# --- nothing is made twice ---------------------------------------------------------------------------------------


def test_a_second_call_trains_nothing(material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = table(material, tmp_path / "out", "bm25", "dssm", "hybrid-rrf", seeds=2)
    for name in ("clickvec.training.loop.run_training", "clickvec.lab.compare.baselines.fit"):
        monkeypatch.setattr(name, lambda *given, **named: pytest.fail("made again"))
    assert same_rows(table(material, tmp_path / "out", "bm25", "dssm", "hybrid-rrf", seeds=2), first)


def test_only_what_is_new_is_made(material: Material, tmp_path: Path, made: list[str]) -> None:
    def new(given: Material = material, settings: Sequence[str] = TINY, seeds: int = 1) -> list[str]:
        made.clear()
        table(given, tmp_path / "out", "ulm", "dssm", settings=settings, seeds=seeds)
        return list(made)

    assert new() == ["ulm", "dssm, seed 1"]
    assert new(seeds=2) == ["dssm, seed 2"]
    assert new(settings=(*TINY, "gamma=3")) == ["dssm, seed 1"]
    assert new(settings=("gamma=3.0", *TINY)) == []
    queries = [query + "s" for query in material.log.queries]
    for other in (
        dataclasses.replace(material, log=dataclasses.replace(material.log, queries=queries)),
        dataclasses.replace(material, log=dataclasses.replace(material.log, clicks=material.log.clicks + 1)),
        dataclasses.replace(material, dev=regraded(material.dev)),
        dataclasses.replace(material, shown=material.dev),
    ):
        assert new(other) == ["ulm", "dssm, seed 1"]
    assert new(dataclasses.replace(material, names={"clicks": "renamed.tsv"})) == []


def test_a_new_test_set_trains_nothing(material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(material, tmp_path / "out", "dssm")
    monkeypatch.setattr("clickvec.training.loop.run_training", lambda *given, **named: pytest.fail("trained again"))
    table(dataclasses.replace(material, test=regraded(material.test)), tmp_path / "out", "dssm")


def test_scores_can_be_carried_without_models(material: Material, tmp_path: Path, made: list[str]) -> None:
    first = table(material, tmp_path / "there", "ulm", "dssm", "lstm")
    shutil.copytree(tmp_path / "there" / "scores", tmp_path / "here" / "scores")
    made.clear()
    assert same_rows(table(material, tmp_path / "here", "ulm", "dssm", "lstm"), first)
    assert made == []
    assert not (tmp_path / "here" / "models").exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def write_scores(place: Path, change: Callable[[np.ndarray], np.ndarray]) -> None:
    arrays = read_arrays(place / "scores.safetensors")
    changed = {name: change(np.array(array)) for name, array in arrays.items()}
    write_arrays(place / "scores.safetensors", changed)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda place: cut(place / "scores.safetensors"), id="scores cut short"),
        pytest.param(lambda place: cut(place / "about.json"), id="facts cut short"),
        pytest.param(lambda place: (place / "about.json").write_text("[]"), id="no facts"),
        pytest.param(lambda place: (place / "scores.safetensors").unlink(), id="no scores"),
        pytest.param(lambda place: write_scores(place, lambda scores: scores[1:]), id="a score too few"),
        pytest.param(
            lambda place: write_scores(place, lambda scores: scores * np.float32("nan")), id="no numbers",
        ),
        pytest.param(
            lambda place: (place / "about.json").unlink(), id="no file of facts",
        ),
    ],
)  # fmt: skip
def test_damaged_scores_are_made_again(
    damage: Callable[[Path], object], material: Material, tmp_path: Path, made: list[str]
) -> None:
    first = table(material, tmp_path / "out", "ulm", "bm25")
    whole = recorded_scores(tmp_path / "out")
    damage(place_of(tmp_path / "out", "ulm"))
    made.clear()
    assert same_rows(table(material, tmp_path / "out", "ulm", "bm25"), first)
    assert made == ["ulm"]
    assert recorded_scores(tmp_path / "out") == whole


# --- stopped, and gone on with -----------------------------------------------------------------------------------

LONGER = (*TINY, "batch_size=64")


def test_a_run_that_was_stopped_goes_on_where_it_was(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("ulm", "dssm", "rnn")
    first = table(material, tmp_path / "whole", *keys, settings=LONGER)
    with monkeypatch.context() as patched:
        watch_updates(patched, stop_at=7)
        with pytest.raises(loop.Interrupted, match=r"dssm, seed 1: stopped.*same command"):
            table(material, tmp_path / "cut", *keys, settings=LONGER)
    assert [path.name[:4] for path in (tmp_path / "cut" / "scores").iterdir()] == ["ulm-"]
    with monkeypatch.context() as patched:
        updates = watch_updates(patched)
        again = table(material, tmp_path / "cut", *keys, settings=LONGER)
    assert updates[0] == 8  # of DSSM; the RNN begins after it
    assert updates.count(0) == 1
    assert same_rows(again, first)
    assert recorded_scores(tmp_path / "cut") == recorded_scores(tmp_path / "whole")
    assert not list((tmp_path / "cut" / "models").glob("*.run"))


def test_a_checkpoint_that_is_damaged_is_begun_anew(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        watch_updates(patched, stop_at=7)
        with pytest.raises(loop.Interrupted):
            table(material, tmp_path / "out", "dssm", settings=LONGER)
    (checkpoint,) = (tmp_path / "out" / "models").glob("*.run/checkpoint.safetensors")
    cut(checkpoint)
    table(material, tmp_path / "out", "dssm", settings=LONGER)


def test_two_jobs_give_the_scores_of_one(material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.os, "cpu_count", lambda: 2)  # a thread each, as here
    one = table(material, tmp_path / "one", "dssm", "rnn", settings=LONGER)
    two = table(material, tmp_path / "two", "dssm", "rnn", settings=LONGER, jobs=2)
    assert same_rows(one, two)
    assert recorded_scores(tmp_path / "one") == recorded_scores(tmp_path / "two")
    assert multiprocessing.active_children() == []


def children(pid: int) -> set[int]:
    """The processes that a process has started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.add(int(path.parent.name))
    return found


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], object], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


def two_jobs(arguments: tuple[str | Path, ...], out: Path, systems: str, *settings: str) -> tuple[str | Path, ...]:
    chosen = (part for setting in settings for part in ("--set", setting))
    return (*arguments, *chosen, "--systems", systems, "--jobs", "2", "--out", out)


def checkpoints(out: Path) -> list[Path]:
    return list((out / "models").glob("*.run/checkpoint.safetensors"))


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


@pytest.mark.slow
@needs_proc
def test_sigterm_ends_the_workers_and_the_same_command_goes_on(
    arguments: tuple[str | Path, ...], tmp_path: Path
) -> None:
    command = two_jobs(arguments, tmp_path / "out", "dssm,rnn", "epochs=30")
    with started(*command) as running:
        assert wait_until(lambda: checkpoints(tmp_path / "out"))
        workers = children(running.pid)
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (128 + signal.SIGTERM, "")
    assert "same command" in sentence(err)
    assert len(workers) >= 2
    assert wait_until(lambda: not any(map(is_there, workers)), 5)
    assert checkpoints(tmp_path / "out")
    found = json.loads(ok(*command, "--jobs", "1", "--json"))
    assert [row["key"] for row in found["rows"]] == ["dssm", "rnn"]
    assert [len(row["histories"][0]) for row in found["rows"]] == [30, 30]


@pytest.mark.slow
@needs_proc
def test_a_stopped_training_is_saved_though_another_worker_is_idle(
    arguments: tuple[str | Path, ...], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with started(*two_jobs(arguments, out, "ulm,rnn", "epochs=1000")) as running:
        assert wait_until(lambda: list((out / "scores").glob("ulm-*")) and checkpoints(out))
        stopped = time.time()
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
    assert not list((out / "scores").glob("rnn-*"))
    (saved,) = checkpoints(out)
    assert saved.stat().st_mtime >= stopped - 0.1  # file times are coarse


@pytest.mark.slow
@needs_proc
def test_workers_do_not_outlive_a_killed_command(arguments: tuple[str | Path, ...], tmp_path: Path) -> None:
    command = two_jobs(arguments, tmp_path / "out", "dssm,rnn", "epochs=1000")
    with (
        (tmp_path / "said").open("w") as said,
        subprocess.Popen([*PROGRAM, *map(str, command)], stderr=said) as running,
    ):
        assert wait_until(lambda: len(checkpoints(tmp_path / "out")) == 2)
        workers = children(running.pid)
        running.kill()
    gone = wait_until(lambda: not any(map(is_there, workers)), 10)
    for worker in filter(is_there, workers):
        os.kill(worker, signal.SIGKILL)
    assert gone


def no_more_workers() -> bool:
    left = multiprocessing.active_children()
    for worker in left:
        worker.kill()
    return not left


@pytest.mark.slow
def test_workers_end_when_the_command_stops_between_two_tasks(material: Material, tmp_path: Path) -> None:
    pytest.importorskip("gensim")

    def say(text: str) -> None:
        if "s of training" in text:
            raise KeyboardInterrupt

    try:
        table(material, tmp_path / "out", "doc2vec", "rnn", settings=(*LONGER, "epochs=1000"), jobs=2, say=say)
    except Interrupted:  # while it is handled, nothing that it holds is freed
        assert no_more_workers()
    else:
        pytest.fail("it went on")


def test_workers_end_when_the_command_stops_while_they_are_started(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, calls = pool._start, list[Task]()

    def stop(bench: Bench, task: Task) -> pool._Worker:
        calls.append(task)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return start(bench, task)

    monkeypatch.setattr(pool, "_start", stop)
    try:
        table(material, tmp_path / "out", "dssm", "rnn", settings=(*LONGER, "epochs=1000"), jobs=2)
    except Interrupted:
        assert no_more_workers()
    else:
        pytest.fail("it went on")


def test_a_worker_that_is_killed_is_told_in_words(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_work", die)
    with pytest.raises(ClickvecError, match=r"dssm, seed 1: its process ended with status -9; .*fewer --jobs"):
        table(material, tmp_path / "out", "dssm", "rnn", jobs=2)


# --- a system that fails -----------------------------------------------------------------------------------------


def fails(monkeypatch: pytest.MonkeyPatch, failing: str, error: Exception) -> None:
    fit = baselines.fit

    def sometimes(key: str, *given: Any) -> object:  # noqa: ANN401
        if key == failing:
            raise error
        return fit(key, *given)

    monkeypatch.setattr(baselines, "fit", sometimes)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClickvecError("it is full of eels"), "full of eels"),
        (RuntimeError("CUDA out of memory"), "memory"),
    ],
)
def test_one_that_fails_does_not_lose_the_others_and_is_told(
    error: Exception,
    said: str,
    arguments: tuple[str | Path, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: list[str],
) -> None:
    command = (*arguments, "--systems", "ulm,bm25,dssm", "--out", tmp_path / "out")
    with monkeypatch.context() as patched:
        fails(patched, "ulm", error)
        done = run(*command)
    assert (done.status, done.out) == (1, "")
    assert said in sentence(done.err)
    assert "ulm" in sentence(done.err)
    assert made == ["ulm", "bm25", "dssm, seed 1"]
    made.clear()
    assert [line.split()[1] for line in ok(*command).split("\n\n")[0].splitlines()[2:]] == ["ULM", "BM25", "DSSM"]
    assert made == ["ulm"]


def test_a_training_that_diverges_is_told_and_the_rest_is_kept(
    arguments: tuple[str | Path, ...], tmp_path: Path
) -> None:
    command = (*arguments, "--systems", "ulm,rnn,dssm", "--out", tmp_path / "out")
    done = run(*command, "--set", "learning_rate=1e38", "--set", "optimizer=nesterov", "--set", "batch_size=64")
    assert (done.status, done.out) == (1, "")
    assert "NaN" in sentence(done.err)
    assert place_of(tmp_path / "out", "ulm").exists()


# --- the figure of training costs --------------------------------------------------------------------------------


def test_under_paper_the_figure_has_an_rnn_with_the_gamma_of_the_lstm(
    material: Material, tmp_path: Path, made: list[str]
) -> None:
    found = table(material, tmp_path / "out", "rnn", "lstm", recipe="paper", seeds=2)
    assert made == ["rnn, seed 1", "rnn, seed 2", "lstm, seed 1", "lstm, seed 2", "rnn-cost, seed 1"]
    assert [row.key for row in found.rows] == ["rnn", "lstm"]
    assert [row.settings["gamma"] for row in found.rows] == [7.0, 5.0]
    about = json.loads((place_of(tmp_path / "out", "rnn-cost") / "about.json").read_text())
    assert (about["settings"]["tower"], about["settings"]["gamma"]) == ("rnn", 5.0)
    assert found.curves == {"LSTM-RNN": found.row("lstm").histories[0], "RNN": about["history"]}


def test_under_default_the_figure_needs_no_other_run(material: Material, tmp_path: Path, made: list[str]) -> None:
    found = table(material, tmp_path / "out", "rnn", "lstm")
    assert made == ["rnn, seed 1", "lstm, seed 1"]
    assert found.curves == {"LSTM-RNN": found.row("lstm").histories[0], "RNN": found.row("rnn").histories[0]}


def test_one_of_the_two_alone_has_no_figure(material: Material, tmp_path: Path) -> None:
    assert table(material, tmp_path / "out", "rnn", recipe="paper").curves == {}


# --- every row ---------------------------------------------------------------------------------------------------


def test_every_system_of_both_recipes_has_a_name_of_its_own() -> None:
    for recipe in ("paper", "default"):
        trainer = Trainer(recipe)
        named = [
            (system.key, system.label.format(**dataclasses.asdict(trainer.recipe_of(system, 1))))
            for system in systems(recipe)
        ]
        keys, labels = zip(*named, strict=True)
        assert len(set(keys)) == len(set(labels)) == len(keys)
        assert [system.key for system in choose(recipe, ())] == list(keys)
    assert [system.key for system in choose("default", ["hybrid-rrf"])] == ["bm25", "lstm", "hybrid-rrf"]


@pytest.mark.parametrize(
    ("key", "label", "settings"),
    [
        ("ulm", "ULM", {"tokens", "mu"}),
        ("bm25", "BM25", {"tokens", "k1", "b"}),
        ("plsa", "PLSA (T = ", {"topics", "iterations", "own_words"}),
        ("doc2vec", "Doc2Vec, 30 epochs", {"epochs", "nearest to pizza", "nearest to infection"}),
        pytest.param("transformer", "all-MiniLM-L6-v2", set(), marks=pytest.mark.slow),
    ],
)
def test_a_row_that_is_not_trained_here(
    key: str, label: str, settings: set[str], material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, _ in baselines._LIBRARIES.get(key, ()):
        pytest.importorskip(module)
    monkeypatch.setitem(baselines._FITS, "doc2vec", partial(baselines._doc2vec, epochs=2))
    (row,) = table(material, tmp_path / "out", key, seeds=2).rows
    assert row.label.startswith(label)
    assert set(row.settings) == settings
    assert len(row.test) == 1  # another seed is not worth a run
    assert 20 < row.mean("test")[2] < 100
    assert row.queries_per_second > 0


@pytest.mark.parametrize("system", [system for system in systems("default") if system.settings], ids=lambda s: s.key)
def test_a_row_that_is_trained(system: Any, material: Material, tmp_path: Path) -> None:  # noqa: ANN401
    (row,) = table(material, tmp_path / "out", system.key).rows
    assert {name: row.settings[name] for name in system.settings} == system.settings
    assert row.settings["hidden"] == 16
    assert row.parameters
    assert len(row.histories[0]) == 1


def test_a_label_says_what_was_trained(material: Material, tmp_path: Path) -> None:
    assert "96" not in table(material, tmp_path / "out", "lstm").rows[0].label


PROSE = " ".join(f"The hotels in shanghai are number {n}. Paint the bathtub in {n} days." for n in range(20))


@pytest.fixture
def prose(tmp_path: Path) -> Path:
    pytest.importorskip("gensim")
    path = tmp_path / "prose.txt"
    path.write_text(PROSE)
    return path


def test_skip_thought_learns_from_the_prose_that_is_given(
    prose: Path, arguments: tuple[str | Path, ...], tmp_path: Path, made: list[str]
) -> None:
    command = (*arguments, "--systems", "skipthought", "--out", tmp_path / "out", "--prose", prose, "--json")
    (row,) = json.loads(ok(*command))["rows"]
    assert row["label"] == "Skip-Thought (16 dimensions), prose.txt"
    assert row["settings"] == dataclasses.asdict(TINY_PROSE)
    assert "--prose prose.txt" in row["command"]
    assert row["train_seconds"] > 0
    ok(*command)
    assert made == ["skipthought"]
    prose.write_text(PROSE.replace("bathtub", "bath"))
    ok(*command)
    assert made == ["skipthought", "skipthought"]


def test_skip_thought_without_prose_learns_from_the_manual_in_python(
    material: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gensim")
    monkeypatch.setattr(
        "clickvec.lab.other_systems.prose.builtin_prose", lambda: PROSE.replace(". ", ".\n").split("\n")
    )
    (row,) = table(material, tmp_path / "out", "skipthought").rows
    assert row.label == "Skip-Thought (16 dimensions), trained on the manual in Python"


def test_skip_thought_of_trained_files(arguments: tuple[str | Path, ...], tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    folder = published(tmp_path / "files")
    command = (*arguments, "--systems", "skipthought", "--out", tmp_path / "out", "--skip-thoughts", folder, "--json")
    (row,) = json.loads(ok(*command))["rows"]
    assert row["label"] == "Skip-Thought (48 dimensions)"
    assert not (tmp_path / "out" / "models").exists()


def test_other_trained_files_of_the_same_size_are_other_scores(
    material: Material, tmp_path: Path, made: list[str]
) -> None:
    pytest.importorskip("gensim")
    for seed in (0, 1):
        given = dataclasses.replace(material, skip_thoughts=published(tmp_path / str(seed), seed))
        table(given, tmp_path / "out", "skipthought")
    assert made == ["skipthought", "skipthought"]


@pytest.mark.parametrize("key", ["bm25", "ulm", "plsa", "skipthought"])
def test_another_grid_or_other_settings_are_other_scores(
    key: str, material: Material, prose: Path, tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = dataclasses.replace(material, prose=(prose,))
    table(given, tmp_path / "out", key)
    for name in ("BM25_GRID", "ULM_GRID", "PLSA_GRID"):
        monkeypatch.setattr(baselines, name, getattr(baselines, name)[1:])
    monkeypatch.setattr(skipthought_training, "SMALL", dataclasses.replace(TINY_PROSE, learning_rate=0.1))
    table(given, tmp_path / "out", key)
    assert made == [key, key]


@pytest.mark.parametrize(
    ("systems", "setting", "tells"),
    [
        ("bm25", "nosuch=1", ["nosuch", "such as epochs"]),
        ("bm25", "cels=8", ["cels", "cells"]),
        ("bm25", "cells=many", ["cells", "many"]),
        ("bm25", "tower=rnn", ["tower", "--systems"]),
        ("bm25,dssm", "pooling=max", ["pooling", "dssm"]),
    ],
)
def test_settings_are_checked_before_anything_is_read(
    systems: str, setting: str, tells: list[str], tmp_path: Path
) -> None:
    absent = tmp_path / "absent.tsv"
    files = ("--clicks", absent, "--dev", absent, "--test", absent)
    said = refused("compare", *files, "--systems", systems, "--set", setting, "--out", tmp_path / "out")
    assert all(part in said for part in tells), said
    assert "absent.tsv" not in said


def test_every_setting_of_bm25_that_is_tried_ranks_the_matching_title_first() -> None:
    titles = ["red car", "blue bicycle", "green tea"]
    for settings in baselines.BM25_GRID:
        assert BM25(titles, **settings).score("red car", titles).argmax() == 0
