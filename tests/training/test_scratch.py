"""Arrays of a run on disk: they hold what is written, leave nothing behind, and memory does not grow with the log."""

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.config import recipe
from clickvec.data import data_folder, dataset
from clickvec.errors import ClickvecError
from clickvec.text.ragged import Ragged, ragged

torch = pytest.importorskip("torch")


from clickvec.training import loop, scratch  # noqa: E402
from clickvec.training.negatives import Sampler, positions  # noqa: E402


def test_an_array_is_written_and_read_and_its_file_has_no_name(tmp_path: Path) -> None:
    found = scratch.array(tmp_path, (1000, 20), np.int32)
    assert not found.any()
    found[7] = np.arange(20)
    assert found.sum() == 190
    assert list(tmp_path.iterdir()) == []
    assert type(found) is np.ndarray  # and no subclass, which NumPy would shuffle more slowly, and otherwise
    assert scratch.array(tmp_path, (0, 20), np.int32).shape == (0, 20)
    assert scratch.array(None, (3,), np.float64).tolist() == [0, 0, 0]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve a file's room")
def test_a_full_disk_is_one_sentence_and_not_a_crash(tmp_path: Path) -> None:
    with pytest.raises(ClickvecError, match="cannot write"):
        scratch.array(tmp_path, (2**58,), np.int8)


@given(st.integers(0, 100), st.integers(1, 40))
def test_blocks_are_all_rows_once(rows: int, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(scratch, "AT_ONCE", at_once)
        assert [row for some in scratch.blocks(rows) for row in range(rows)[some]] == list(range(rows))


@given(st.data())
def test_a_click_is_found_in_the_rows_of_its_query(data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.sets(st.integers(0, 30), max_size=12), min_size=1, max_size=8))
    rows[data.draw(st.integers(0, len(rows) - 1))].add(3)  # a log has one click at least
    sampler = Sampler.__new__(Sampler)
    nothing = np.zeros(0, np.int32)
    clicked = ragged([sorted(row) for row in rows])
    none = Ragged(nothing, np.zeros(1, np.int64))
    sampler.data = dataset.Dataset(
        (), 10, none, none, none, 31, nothing, nothing, nothing.astype(np.float32), clicked, none
    )
    query, title = np.indices((len(rows), 32), np.int32)
    expected = [[title in row for title in range(32)] for row in rows]
    assert sampler.was_clicked(query, title).tolist() == expected


@given(st.lists(st.integers(0, 50), max_size=30), st.sets(st.integers(0, 50), min_size=1))
def test_positions_among_sorted_titles(titles: list[int], among: set[int]) -> None:
    ordered = sorted(among)
    expected = [ordered.index(title) if title in among else -1 for title in titles]
    assert positions(np.array(titles, np.int32), np.array(ordered)).tolist() == expected


def large(pairs: int, folder: Path) -> dataset.Dataset:
    """A data folder of one-word queries and titles, a pair each, made without the text."""
    ids, offsets = np.arange(pairs, dtype=np.int32), np.arange(pairs + 1)
    rows, words = Ragged(ids, offsets), Ragged(ids % 100, offsets)
    tokens = ragged([[place % 7, place % 5] for place in range(100)])
    none = Ragged(np.zeros(0, np.int32), np.zeros(pairs + 1, np.int64))
    clicks = np.ones(pairs, np.float32)
    trigrams = tuple("abcdefg")
    data_folder.save(dataset.Dataset(trigrams, 10, tokens, words, words, pairs, ids, ids, clicks, rows, none), folder)
    return data_folder.load(folder)


@pytest.mark.parametrize("name", ["default", "paper"])
def test_what_a_run_holds_in_memory_does_not_grow_with_the_log(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "AT_ONCE", 1000)
    monkeypatch.setattr(dataset, "_ROWS_AT_ONCE", 1000)
    peaks = []
    for pairs in (2_000, 200_000):
        data = large(pairs, tmp_path / f"data{pairs}")
        chosen = recipe(name, cells=4, batch_size=100_000, hard_negatives=2, click_weight="log")
        tracemalloc.start()
        run = loop.Run(data, chosen, tmp_path, None, torch.device("cpu"))
        run._shuffle()
        for update in range(3):
            run.updater.one_update(run._order[:50], np.random.default_rng(update), update)
        run._check_finite(weights=True)
        run._save_checkpoint()
        run.restore()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000  # a byte for each pair would be twice as much


def test_an_epoch_is_in_the_order_that_it_always_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "AT_ONCE", 1000)
    run = loop.Run(large(3_456, tmp_path / "data"), recipe("paper", cells=4), tmp_path, None, torch.device("cpu"))
    for epoch in range(2):
        run.state.epoch = epoch
        run._shuffle()
        expected = np.random.default_rng([loop.SHUFFLE, run.recipe.seed, epoch]).permutation(3_456)
        np.testing.assert_array_equal(run._order, expected)
