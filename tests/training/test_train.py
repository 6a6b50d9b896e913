"""Training from end to end on a small log: it learns, stops, resumes exactly, and says what is wrong."""

import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command import PROGRAM, contents, ok, refused
from ondisk import read_arrays, read_metadata

from clickvec import Encoder
from clickvec.config import TOWERS, Recipe, recipe
from clickvec.data import Judged, data_folder, dataset, read_clicks, read_judged
from clickvec.errors import ClickvecError
from clickvec.evaluation.evaluate import evaluate
from clickvec.evaluation.neural import Neural
from clickvec.evaluation.test_set import TestSet
from clickvec.lab.simulate import write
from clickvec.model import folder
from clickvec.storage.arrays import write_arrays
from clickvec.storage.temporary import locked

torch = pytest.importorskip("torch")

from interrupt import watch_updates  # noqa: E402

from clickvec.training import alarms, loop, measuring  # noqa: E402
from clickvec.training.click_weights import click_weights  # noqa: E402
from clickvec.training.update import Plain, Seed  # noqa: E402

SURE = {"learning_rate": 0.01, "initial_scale": 0.1, "epochs": 6}
SMALL = {"cells": 16, "hidden": 16, "output": 16, "epochs": 2, "batch_size": 256}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "site"
    write(path, impressions=40_000, dev_queries=60, test_queries=60, log=False)
    return path


@pytest.fixture(scope="module")
def data(site: Path) -> dataset.Dataset:
    return dataset.prepare(read_clicks(site / "clicks.tsv.gz"), 10, 50_000)


@pytest.fixture(scope="module")
def dev(site: Path) -> Judged:
    return read_judged(site / "dev.tsv.gz")


def weights_of(model: folder.Model) -> dict[str, np.ndarray]:
    return {name: np.array(weight) for name, weight in model.weights.items()}


def assert_same(one: folder.Model, other: folder.Model) -> None:
    assert one.fingerprint == other.fingerprint
    for name, weight in one.weights.items():
        np.testing.assert_array_equal(weight, other.weights[name])


def ndcg(encoder: Encoder, judged: Judged) -> float:
    return evaluate([Neural(encoder, "model")], judged).mean("model", "NDCG@10")


@pytest.mark.parametrize("tower", TOWERS)
@pytest.mark.parametrize("name", ["paper", "default"])
def test_every_tower_learns_with_every_recipe(
    tower: str, name: str, data: dataset.Dataset, dev: Judged, tmp_path: Path
) -> None:
    fast = {"learning_rate": 0.02, "clip_norm": 3.0, "initial_scale": 0.1, "epochs": 5} if name == "paper" else SURE
    chosen = recipe(name, tower=tower, **(SMALL | fast))
    untrained = loop.Run(data, chosen, tmp_path, None, torch.device("cpu"))
    before = ndcg(Encoder(untrained.model(untrained.towers.to_arrays())), dev)
    model = loop.run_training(data, chosen, tmp_path / "model", dev=TestSet.of_judged(dev))
    after = ndcg(Encoder.load(tmp_path / "model"), dev)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "model" / "metrics.jsonl").read_text().splitlines()]
    alike = losses[1:] if chosen.hard_negatives else losses  # the first epoch has no mined negatives to lose to
    assert alike[-1] < alike[0]
    assert after > before + 3
    assert after == pytest.approx(model.training["kept"]["dev"]["NDCG@10"], abs=0.05)


@pytest.mark.parametrize(
    "settings",
    [{"pooling": "mean"}, {"pooling": "max"}, {"word_dropout": 0.2}, {"hard_negatives": 4}],
    ids=lambda settings: next(iter(settings)),
)
def test_every_option_learns(settings: dict[str, object], data: dataset.Dataset, dev: Judged, tmp_path: Path) -> None:
    chosen = recipe("default", **(SMALL | SURE | settings))
    untrained = loop.Run(data, chosen, tmp_path, None, torch.device("cpu"))
    before = ndcg(Encoder(untrained.model(untrained.towers.to_arrays())), dev)
    loop.run_training(data, chosen, tmp_path / "model")
    assert ndcg(Encoder.load(tmp_path / "model"), dev) > before + 3


def test_a_run_begun_before_a_setting_was_there_can_be_resumed(
    data: dataset.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = recipe("default", **SMALL)
    train_and_stop(data, chosen, tmp_path / "model", monkeypatch)
    path = tmp_path / "model.run" / "checkpoint.safetensors"
    arrays, about = read_arrays(path), json.loads(read_metadata(path)["run"])
    del about["recipe"]["pooling"]
    about["recipe"] |= {"average": 0.0, "warm_up": 0.0}  # removed since
    write_arrays(tmp_path / "old", arrays, {"run": json.dumps(about)})
    (tmp_path / "old").replace(path)
    with pytest.raises(ClickvecError, match=r"pooling=last, not mean"):
        loop.run_training(data, dataclasses.replace(chosen, pooling="mean"), tmp_path / "model", resume=True)
    loop.run_training(data, chosen, tmp_path / "model", resume=True)


def test_a_misspelled_word_lands_near_the_word(data: dataset.Dataset, tmp_path: Path) -> None:
    chosen = recipe("default", **(SMALL | {"epochs": 3, "learning_rate": 0.01}))
    loop.run_training(data, chosen, tmp_path / "model")
    encoder = Encoder.load(tmp_path / "model")
    known = ["infection", "pizza", "shanghai", "bathroom", "camera", "mortgage"]
    misspelled = ["infecton", "piizza", "shangai", "bathrom", "camra", "morgage"]
    cosines = encoder.similarity(encoder.encode_query(misspelled), encoder.encode_query(known))
    assert (cosines.argmax(axis=1) == np.arange(len(known))).mean() >= 0.8
    assert np.diag(cosines).mean() > cosines.mean() + 0.3


def test_the_same_seed_gives_the_same_model(data: dataset.Dataset, tmp_path: Path) -> None:
    chosen, threads = recipe("paper", **SMALL), torch.get_num_threads()
    torch.set_num_threads(2)  # sums must not depend on which thread is first
    one, other = (loop.run_training(data, chosen, tmp_path / name) for name in "ab")
    torch.set_num_threads(threads)
    assert_same(one, other)
    third = loop.run_training(data, dataclasses.replace(chosen, seed=2), tmp_path / "c")
    assert third.fingerprint != one.fingerprint


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("paper", {}),
        ("default", {}),
        ("default", {"click_weight": "log", "patience": 1}),
        ("paper", {"tower": "bilstm"}),
        ("default", {"word_dropout": 0.2, "pooling": "mean"}),
        ("default", {"hard_negatives": 3}),
        ("paper", {"hard_negatives": 3, "word_dropout": 0.2, "pooling": "max"}),
    ],
)
def test_a_resumed_run_ends_in_the_same_weights(
    name: str,
    settings: dict[str, object],
    data: dataset.Dataset,
    dev: Judged,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = recipe(name, **(SMALL | settings))
    whole = loop.run_training(data, chosen, tmp_path / "whole", dev=TestSet.of_judged(dev))
    for stop_after in (3, math.ceil(len(data.pair_query) / chosen.batch_size) + 2):  # in the first and the second epoch
        with monkeypatch.context() as patched:
            watch_updates(patched, stop_after)
            with pytest.raises(loop.Interrupted, match="--resume"):
                loop.run_training(data, chosen, tmp_path / "cut", dev=TestSet.of_judged(dev), resume=stop_after > 3)
        assert not (tmp_path / "cut").exists()
    resumed = loop.run_training(data, chosen, tmp_path / "cut", dev=TestSet.of_judged(dev), resume=True)
    assert_same(whole, resumed)
    assert not (tmp_path / "cut.run").exists()
    histories = [
        [json.loads(line) for line in (tmp_path / place / "metrics.jsonl").read_text().splitlines()]
        for place in ("whole", "cut")
    ]
    for one, other in zip(*histories, strict=True):
        assert (one["loss"], one["masked"], one["dev"]) == (other["loss"], other["masked"], other["dev"])


def train_and_stop(data: dataset.Dataset, chosen: Recipe, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a run that was stopped after two updates."""
    with monkeypatch.context() as patched:
        watch_updates(patched, 2)
        with pytest.raises(loop.Interrupted):
            loop.run_training(data, chosen, out)


@pytest.mark.slow
def test_a_killed_run_resumes_from_its_last_checkpoint(site: Path, data: dataset.Dataset, tmp_path: Path) -> None:
    data_folder.save(data, tmp_path / "data")
    settings = ["cells=16", "epochs=15", "batch_size=256"]
    train = ("train", tmp_path / "data", "--out", tmp_path / "model")
    train += tuple(part for setting in settings for part in ("--set", setting))
    running = subprocess.Popen([*PROGRAM, *map(str, train)], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (tmp_path / "model.run" / "checkpoint.safetensors").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    running.kill()
    running.communicate(timeout=60)
    assert (tmp_path / "model.run" / "checkpoint.safetensors").exists()
    assert "--resume" in refused(*train)
    ok(*train, "--resume")
    chosen = recipe("default", settings=settings)
    whole = loop.run_training(data, chosen, tmp_path / "whole")
    assert whole.fingerprint == folder.open_model(tmp_path / "model").fingerprint


def test_training_from_a_data_folder_needs_numpy_and_torch_alone(
    site: Path, data: dataset.Dataset, tmp_path: Path
) -> None:
    data_folder.save(data, tmp_path / "data")
    others = ["typer", "rich", "bm25s", "matplotlib", "scipy", "click", "safetensors"]
    blocked = f"import sys; sys.modules.update(dict.fromkeys({others})); "
    code = blocked + "import clickvec; clickvec.train(*sys.argv[1:3], dev=sys.argv[3], cells=8, epochs=1)"
    arguments = [str(tmp_path / "data"), str(tmp_path / "model"), str(site / "dev.tsv.gz")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "NDCG@10" in folder.open_model(tmp_path / "model").training["kept"]["dev"]


def test_a_dev_set_without_a_relevant_title_is_refused_before_training(
    data: dataset.Dataset, dev: Judged, tmp_path: Path
) -> None:
    nothing = Judged(tuple(query._replace(grades=query.grades * 0) for query in dev), dev.bad)
    with pytest.raises(ClickvecError, match="no query with a relevant title"):
        loop.run_training(data, recipe("default", **SMALL), tmp_path / "model", dev=TestSet.of_judged(nothing))
    assert not (tmp_path / "model.run").exists()


def test_a_resume_with_another_recipe_or_other_data_is_refused(
    data: dataset.Dataset, dev: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = recipe("default", **SMALL)
    train_and_stop(data, chosen, tmp_path / "model", monkeypatch)
    with pytest.raises(ClickvecError, match=r"gamma=12\.0, not 3\.0"):
        loop.run_training(data, dataclasses.replace(chosen, gamma=3.0), tmp_path / "model", resume=True)
    other = data._replace(pair_clicks=data.pair_clicks + 1)
    with pytest.raises(ClickvecError, match="other data"):
        loop.run_training(other, chosen, tmp_path / "model", resume=True)
    with pytest.raises(ClickvecError, match="another dev set"):
        loop.run_training(data, chosen, tmp_path / "model", dev=TestSet.of_judged(dev), resume=True)


def test_what_is_there_is_not_replaced_unasked(data: dataset.Dataset, tmp_path: Path) -> None:
    chosen = recipe("default", **(SMALL | {"epochs": 1}))
    first = loop.run_training(data, chosen, tmp_path / "model")
    with pytest.raises(ClickvecError, match="already holds a model"):
        loop.run_training(data, chosen, tmp_path / "model")
    with pytest.raises(ClickvecError, match="nothing to resume"):
        loop.run_training(data, chosen, tmp_path / "model", resume=True)
    assert folder.open_model(tmp_path / "model", verify=True).fingerprint == first.fingerprint
    second = loop.run_training(data, dataclasses.replace(chosen, seed=9), tmp_path / "model", overwrite=True)
    assert folder.open_model(tmp_path / "model", verify=True).fingerprint == second.fingerprint != first.fingerprint
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ClickvecError, match="other files in it"):
        loop.run_training(data, chosen, tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_two_trainings_into_one_folder_are_refused(data: dataset.Dataset, tmp_path: Path) -> None:
    with (
        locked(tmp_path / "model.run", "model"),
        pytest.raises(ClickvecError, match="in use by another process"),
    ):
        loop.run_training(data, recipe("default", **SMALL), tmp_path / "model")


@pytest.mark.parametrize("when", ["in the epoch", "in its last update"])
def test_a_loss_or_weight_that_is_not_a_number_stops_the_run_and_keeps_the_last_good_model(
    when: str, data: dataset.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Plain.one_update
    batches = math.ceil(len(data.pair_query) / 256)

    def poisoned(self: Plain, pairs: np.ndarray, rng: np.random.Generator, update: int) -> object:
        done = original(self, pairs, rng, update)
        if update == (batches + 1 if when == "in the epoch" else 2 * batches - 1):
            with torch.no_grad():
                self.towers.query.weights["input"][0].fill_(math.nan)
        return done

    monkeypatch.setattr(Plain, "one_update", poisoned)
    with pytest.raises(ClickvecError, match=r"in epoch 2 of 2.*NaN.*model\.run/best.*learning_rate=") as stopped:
        loop.run_training(data, recipe("default", **SMALL), tmp_path / "model")
    assert "resume" not in str(stopped.value)  # a resumed run would fail in the same way
    kept = folder.open_model(tmp_path / "model.run" / "best", verify=True)
    assert kept.training["kept_epoch"] == 1
    assert np.isfinite(Encoder(kept).encode_query("pizza")).all()


@pytest.mark.parametrize("step", ["__init__", "all_epochs"])
@pytest.mark.parametrize("error", [ClickvecError, KeyboardInterrupt, MemoryError])
def test_a_run_that_ends_with_nothing_to_keep_leaves_nothing(
    step: str, error: type[BaseException], data: dataset.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    (tmp_path / "mine").mkdir()
    unfinished = tmp_path / "old.run"
    unfinished.mkdir()
    for name in ("lock", "checkpoint.safetensors"):
        (unfinished / name).write_text("an unfinished run")
    before = contents(tmp_path)
    monkeypatch.setattr(loop.Run, step, refuse)
    for out in (tmp_path / "model", tmp_path / "new" / "deep" / "model", tmp_path / "mine" / "model"):
        with pytest.raises(error):
            loop.run_training(data, recipe("default", **SMALL), out)
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "old.run"]
    with pytest.raises(error):
        loop.run_training(data, recipe("default", **SMALL), tmp_path / "old", overwrite=True)
    if step == "__init__":  # an earlier run is forgotten when the new one begins, and not before
        assert contents(tmp_path) == before


@pytest.mark.parametrize(("keep", "kept"), [("best", 2), ("last", 4)])
def test_the_best_or_the_last_model_is_kept_and_patience_ends_the_run(
    keep: str, kept: int, data: dataset.Dataset, dev: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([50.0, 60.0, 55.0, 54.0, 70.0])

    class Fake:
        measures = ("NDCG@1", "NDCG@3", "NDCG@10")

        def __init__(self) -> None:
            self.means = np.array([[1.0, 1.0, next(scores)]])

    monkeypatch.setattr(measuring, "measure", lambda rankers, test: Fake())
    chosen = recipe("default", keep=keep, **(SMALL | {"epochs": 5, "patience": 2}))
    model = loop.run_training(data, chosen, tmp_path / "model", dev=TestSet.of_judged(dev))
    assert model.training["kept_epoch"] == kept
    assert len((tmp_path / "model" / "metrics.jsonl").read_text().splitlines()) == 4
    with pytest.raises(ClickvecError, match="patience needs a dev set"):
        loop.run_training(data, chosen, tmp_path / "other")


def test_training_names_the_data_and_the_recipe_in_the_model_card(
    data: dataset.Dataset, dev: Judged, tmp_path: Path
) -> None:
    loop.run_training(
        data, recipe("default", **SMALL), tmp_path / "model", dev=TestSet.of_judged(dev), source="clicks.tsv"
    )
    card = (tmp_path / "model" / "README.md").read_text()
    for part in ("clicks.tsv", f"| pairs | {len(data.pair_query):,} |", "dev NDCG@10", "gamma = 12.0"):
        assert part in card
    recipe_in_card = card.split("```toml\n")[1].split("```")[0]
    (tmp_path / "recipe.toml").write_text(recipe_in_card)
    trained = recipe("default", **SMALL, whole_words=False)  # the data was prepared without
    assert recipe("paper", file=tmp_path / "recipe.toml") == trained


@pytest.mark.slow
def test_the_same_log_gives_the_same_bytes_whatever_the_order_of_hashes(site: Path, tmp_path: Path) -> None:
    code = "import sys; from clickvec.cli.app import app; [app(verb.split(), standalone_mode=False) for verb in sys.argv[1:]]"  # noqa: E501
    prints = []
    for hash_seed in ("1", "2"):
        out = tmp_path / hash_seed
        verbs = (
            f"prepare {site}/clicks.tsv.gz --shown {site}/train_judged.tsv.gz --out {out}/data",
            f"train {out}/data --out {out}/model --set cells=8 --set epochs=1",
        )
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        subprocess.run(
            [sys.executable, "-c", code, *verbs], check=True, capture_output=True, env=environment, timeout=300
        )
        prints.append(folder.open_model(out / "model", verify=True).fingerprint)
    assert prints[0] == prints[1]
    for name in ("data.safetensors", "trigrams.txt", "data.json"):
        assert (tmp_path / "1" / "data" / name).read_bytes() == (tmp_path / "2" / "data" / name).read_bytes()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("paper", {}),
        ("paper", {"pooling": "max", "word_dropout": 0.2, "hard_negatives": 3}),
        ("default", {}),
        ("default", {"pooling": "mean", "word_dropout": 0.2, "hard_negatives": 3}),
    ],
)
def test_cpu_and_cuda_take_the_same_way(
    name: str, settings: dict[str, object], data: dataset.Dataset, tmp_path: Path
) -> None:
    """Max pooling under Adam is left out: a rounding decides which of two nearly equal outputs gets the gradient."""
    chosen = recipe(name, **settings)
    runs = [loop.Run(data, chosen, tmp_path, None, torch.device(device)) for device in ("cpu", "cuda")]
    for run in runs:
        run.state.epoch = 1  # the first that mines
        run._mine()
    same = runs[0].sampler.mined == runs[1].sampler.mined
    assert same.sum() >= 0.8 * same.size  # titles with nearly the same score may change places
    runs[1].sampler.mined[:] = runs[0].sampler.mined
    order, seed = np.arange(len(data.pair_query)), Seed(1, 1, runs[0].batches)
    for on_cpu, on_gpu in itertools.islice(zip(*(run.updater.epoch(order, seed, 0) for run in runs), strict=True), 20):
        assert float(on_gpu.loss) / on_cpu.weight == pytest.approx(float(on_cpu.loss) / on_cpu.weight, abs=1e-4)
        assert int(on_gpu.masked) == int(on_cpu.masked)


def test_data_and_recipe_must_agree(data: dataset.Dataset, tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="prepared with max_words 10, and the recipe has 5"):
        loop.run_training(data, recipe("default", max_words=5), tmp_path / "model")
    with pytest.raises(ClickvecError, match="max_trigrams 7"):
        loop.run_training(data, recipe("default", max_trigrams=7), str(tmp_path / "model"))
    with_words = data._replace(trigrams=(*data.trigrams[:-1], "#shower#"))
    with pytest.raises(ClickvecError, match="--trigrams-only"):
        loop.run_training(with_words, recipe("paper"), tmp_path / "model")


def test_the_name_of_the_data_changes_with_where_a_text_ends() -> None:
    from test_learning import log_of

    from clickvec.training.checkpoint import name_data

    one, other = (
        dataset.prepare(log_of(pairs), 10, 50) for pairs in ([("a b", "x"), ("c", "y")], [("a", "x"), ("b c", "y")])
    )
    assert name_data(one, None) != name_data(other, None)


def test_one_pair_one_title_and_one_query_train_without_a_crash(tmp_path: Path) -> None:
    from test_learning import log_of

    options = {"hard_negatives": 2, "word_dropout": 0.5}
    for pairs in ([("a", "b")], [("a", "b"), ("c", "b")], [("a", "b"), ("a", "c")]):
        for name, more in itertools.product(("paper", "default"), ({}, options)):
            place = tmp_path / f"{name}{len(pairs)}{pairs[-1]}{len(more)}"
            model = loop.run_training(dataset.prepare(log_of(pairs), 10, 50), recipe(name, **SMALL, **more), place)
            assert np.isfinite(Encoder(model).encode_query(["a", "", "zzz"])).all()


def test_alarms_speak_when_they_should() -> None:
    alike = np.tile([[1.0, 0.0]], (10, 1))
    assert alarms.collapsed(alike)[0] == pytest.approx(1.0)
    assert "collapsed" in (alarms.collapsed(alike)[1] or "")
    assert alarms.collapsed(np.eye(5)) == (0.0, None)
    assert "log(1+n) = 1.609" in (alarms.learns_nothing(math.log(5), 4) or "")
    assert alarms.learns_nothing(1.0, 4) is None


def test_alarms_are_logged_in_a_run(data: dataset.Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # A learning rate of 0: the loss stays at log(1+n). Equal weights make equal vectors.
    still = recipe("paper", **(SMALL | {"learning_rate": 0.0, "epochs": 1, "initial_scale": 0.0}))
    loop.run_training(data, still, tmp_path / "still")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any("guessing" in warning for warning in warnings)
    run = loop.Run(data, dataclasses.replace(still, initial_scale=0.01), tmp_path, None, torch.device("cpu"))
    with torch.no_grad():
        for weight in run.towers.tensors().values():
            weight.fill_(0.1)
    assert "collapsed" in (run._mean_cosine()[1] or "")


def test_a_click_weight_is_as_good_as_repeating_the_pair(tmp_path: Path) -> None:
    from test_learning import log_of

    data = dataset.prepare(log_of([("a", "x"), ("a", "x"), ("a", "x"), ("b", "y")]), 10, 50)
    for kind, weights in {"none": [1, 1], "count": [3, 1], "log": [2, 1]}.items():
        assert click_weights(data, Recipe(click_weight=kind), tmp_path).tolist() == weights
    rate = Recipe(click_weight="rate")
    assert click_weights(data, rate, tmp_path).tolist() == [1, 1]  # nobody knows how often readers looked
    seen = data._replace(pair_looks=np.array([4, 0.5], np.float32))
    assert click_weights(seen, rate, tmp_path).tolist() == pytest.approx([3 / 6, 1 / 2.5])
