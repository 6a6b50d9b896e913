"""Windows: the weights are the same, byte for byte, with windows of any size and without."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickvec.config import recipe
from clickvec.data import BadLines, ClickLog, Judged, JudgedQuery, data_folder, dataset
from clickvec.errors import Interrupted
from clickvec.model.folder import Model
from clickvec.text.ragged import Ragged

torch = pytest.importorskip("torch")

from interrupt import watch_updates  # noqa: E402

from clickvec.training import loop, memory, windows  # noqa: E402
from clickvec.training.negatives import Sampler  # noqa: E402

SMALL = {"cells": 16, "epochs": 2, "batch_size": 32}
RECIPES = [
    ("paper", {}),
    ("paper", {"click_weight": "log", "hard_negatives": 2, "word_dropout": 0.2}),
    ("default", {}),
    ("default", {"click_weight": "count", "word_dropout": 0.2, "shown_negatives": 2}),
]


@pytest.fixture(scope="module", params=["clicks", "shown"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dataset.Dataset:
    """A mapped dataset of 400 lines. Some queries have many clicks, and few have titles that were shown."""
    rng = np.random.default_rng(0)
    words = [f"{a}{b}{c}" for a in "bdfgklmn" for b in "aeiou" for c in "prst"]
    titles = [" ".join(rng.choice(words, rng.integers(1, 7))) for _ in range(250)]
    queries = [" ".join(rng.choice(words, rng.integers(1, 4))) for _ in range(60)]
    asked = (60 * rng.random(400) ** 2).astype(int)
    lines = [queries[k] for k in asked], [titles[k] for k in rng.integers(0, 200, 400)]
    log = ClickLog(*map(list, lines), rng.integers(1, 9, 400).astype(float), BadLines())
    judged = [
        JudgedQuery(str(k), queries[k], ("x", "y", "z"), tuple(titles[190 + 3 * k :][:3]), np.zeros(3, np.int64))
        for k in (3, 7, 8)
    ]
    shown = Judged(tuple(judged), BadLines()) if request.param == "shown" else None
    path = tmp_path_factory.mktemp("windows") / "data"
    data_folder.save(dataset.prepare(log, 10, 1000, shown), path)
    return data_folder.load(path)


def use_windows(patched: pytest.MonkeyPatch, size: int | None) -> list[int]:
    """Give windows this many bytes. Return a list that gets the number of pairs of each."""
    pairs, original = list[int](), windows.copy_window

    def counted(whole: windows.Window, *args: Any) -> windows.Window:  # noqa: ANN401
        pairs.append(len(args[0]))
        return original(whole, *args)

    patched.setattr(windows, "window_bytes", lambda whole: size)
    patched.setattr(windows, "copy_window", counted)
    return pairs


def assert_same(one: Model, other: Model) -> None:
    assert one.fingerprint == other.fingerprint
    for name, weight in one.weights.items():
        assert np.asarray(weight).tobytes() == np.asarray(other.weights[name]).tobytes()
    for figure in ("loss", "masked", "mean_cosine"):
        assert one.training["kept"][figure] == other.training["kept"][figure]


@pytest.mark.parametrize(("name", "settings"), RECIPES)
def test_weights_do_not_depend_on_windows(
    name: str, settings: dict[str, Any], data: dataset.Dataset, tmp_path: Path
) -> None:
    chosen, models, copied = recipe(name, **(SMALL | settings)), {}, {}
    for size in (None, 1, 20_000, 10**9):
        with pytest.MonkeyPatch.context() as patched:
            copied[size] = use_windows(patched, size)
            models[size] = loop.run_training(data, chosen, tmp_path / f"model-{size}", device="cpu")
    per_epoch = len(data.pair_query) / 32
    assert copied[None] == []
    assert len(copied[1]) == 2 * np.ceil(per_epoch)
    assert len(copied[10**9]) == 2
    assert 2 < len(copied[20_000]) < len(copied[1])
    for size in (1, 20_000, 10**9):
        assert_same(models[None], models[size])


@pytest.mark.parametrize("name", ["paper", "default"])
def test_a_run_is_resumed_in_the_middle_of_a_window(name: str, data: dataset.Dataset, tmp_path: Path) -> None:
    chosen, out = recipe(name, hard_negatives=2, word_dropout=0.1, **SMALL), tmp_path / "resumed"
    whole = loop.run_training(data, chosen, tmp_path / "whole", device="cpu")
    batches = -(-len(data.pair_query) // 32)
    for stop_at, size in ((batches + 3, 10**9), (-1, 30_000)):
        with pytest.MonkeyPatch.context() as patched:
            pairs = use_windows(patched, size)
            numbers = watch_updates(patched, stop_at)
            if stop_at > 0:
                with pytest.raises(Interrupted):
                    loop.run_training(data, chosen, out, device="cpu")
                assert pairs == [len(data.pair_query)] * 2  # it stopped in the second epoch, inside its one window
            else:
                resumed = loop.run_training(data, chosen, out, device="cpu", resume=True)
                assert numbers[0] == batches + 4
    assert_same(whole, resumed)


def test_a_window_holds_only_what_its_minibatches_read(data: dataset.Dataset) -> None:
    for name in ("paper", "default"):
        sampler, weights = Sampler(data, recipe(name)), data.pair_clicks
        whole, pairs = windows.Window(data, sampler, weights), np.array([90, 3, 51, 7])
        randoms = [np.random.default_rng(k) for k in range(2)]
        window = windows.copy_window(whole, pairs, 2, randoms)
        assert not any(array.size and windows._is_mapped(array) for array in window.arrays())
        assert sum(array.nbytes for array in window.arrays()) < windows._mapped_bytes(whole) / 5
        np.testing.assert_array_equal(window.weights, weights[pairs])
        for k in range(2):
            there, here = np.random.default_rng(k), randoms[k]
            expected = whole.draw(pairs[2 * k : 2 * k + 2], there)
            drawn = window.draw(np.arange(2 * k, 2 * k + 2), here)
            for left, right in zip(expected, drawn, strict=True):
                np.testing.assert_array_equal(left, right)
            assert there.random() == here.random()  # word dropout draws next
            tokens = [w.data.tokens.take(w.titles(expected.titles).values) for w in (whole, window)]
            np.testing.assert_array_equal(tokens[0].values, tokens[1].values)


def test_windows_keep_to_their_size(data: dataset.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "window_bytes", lambda whole: 15_000)
    whole = windows.Window(data, Sampler(data, recipe("default")), data.pair_clicks)
    order = np.random.default_rng(0).permutation(len(data.pair_query))
    sizes, seen = {}, []
    for batch, pairs, _, window in windows.minibatches(whole, order, 4, range(80), np.random.default_rng):
        seen.append(batch)
        sizes[id(window.weights)] = sum(array.nbytes for array in window.arrays())
        np.testing.assert_array_equal(window.weights[pairs], data.pair_clicks[order[4 * batch : 4 * batch + 4]])
    assert seen == list(range(80))
    assert max(sizes.values()) < 1.2 * 15_000


def test_an_error_in_copying_ends_training(
    data: dataset.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise MemoryError("no room for a window")

    monkeypatch.setattr(windows, "window_bytes", lambda whole: 10**4)
    monkeypatch.setattr(windows, "copy_window", fail)
    with pytest.raises(MemoryError, match="no room"):
        loop.run_training(data, recipe("default", **SMALL), tmp_path / "model", device="cpu")


def test_there_are_windows_only_if_mapped_data_needs_half_the_memory(
    data: dataset.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = windows.Window(data, Sampler(data, recipe("paper")), np.broadcast_to(np.float32(1), len(data.pair_query)))
    size = windows._mapped_bytes(whole)
    assert size > 10_000
    for available, expected in ((2 * size + 2, None), (2 * size - 2, (2 * size - 2) // windows.SHARE), (None, None)):
        monkeypatch.setattr(windows, "available_memory", lambda available=available: available)
        assert windows.window_bytes(whole) == expected
    monkeypatch.setattr(windows, "available_memory", lambda: 1)
    rows = {name: Ragged(*map(np.array, getattr(data, name))) for name in windows._RAGGED}
    plain = {name: np.array(getattr(data, name)) for name in windows._PLAIN}
    assert windows.window_bytes(whole._replace(data=data._replace(**rows, **plain))) is None  # it is in memory anyway


MEMORY = {"/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    4000 kB\n", "/proc/self/status": "RssAnon:\t 100 kB\n"}
V1 = {"/proc/self/cgroup": "4:memory:/a\n2:cpu:/\n0::/\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63}\n"}
V2 = {"/proc/self/cgroup": "0::/b/c\n", "/sys/fs/cgroup/b/c/memory.max": "max\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),  # not Linux
        (MEMORY, 4000),
        (MEMORY | V1, 4000),
        (MEMORY | V1 | {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": f"{3000 * 1024}\n"}, 2900),
        (MEMORY | V2, 4000),
        (MEMORY | V2 | {"/sys/fs/cgroup/b/memory.max": f"{1000 * 1024}\n"}, 900),  # the limit of a group above
        (MEMORY | V2 | {"/sys/fs/cgroup/memory.max": "1024\n"}, 0),
    ],
)
def test_available_memory(files: dict[str, str], expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_read", lambda path: files.get(str(path), ""))
    assert memory.available_memory() == (None if expected is None else expected * 1024)
