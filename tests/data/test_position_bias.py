"""Position bias: hand-worked examples, the equations that the estimate solves, and recovery of known propensities."""

from __future__ import annotations

from itertools import compress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickvec.data import data_folder, dataset
from clickvec.data.cleaning import Cleaning
from clickvec.data.events import Events
from clickvec.data.on_disk.log_store import LEAST_MEMORY
from clickvec.data.position_bias import (
    MIN_CLICKS,
    MIN_PROPENSITY,
    UNIT,
    PositionCounts,
    count_positions,
    estimate_propensities,
    look_units,
)
from clickvec.data.preparation import Preparation, write_data_folder
from clickvec.errors import ClickvecError

Rows = list[tuple[int, int, int, int]]  # (pair, position, shown, clicked)


def counts_of(rows: Rows) -> PositionCounts:
    return PositionCounts(*np.array(rows, np.int64).T.reshape(4, -1))


def simulate(
    propensities: list[float], pairs: int, views: int, seed: int = 0
) -> tuple[PositionCounts, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Simulate pairs that are each shown a few times around one position; better titles stand higher."""
    rng = np.random.default_rng(seed)
    relevance = rng.random(pairs)
    pair = np.repeat(np.arange(pairs), views)
    mean = (1 - relevance[pair]) * len(propensities)
    position = np.clip(np.rint(mean + rng.normal(0, 1, len(pair))), 1, len(propensities)).astype(np.int64)
    truth = np.array(propensities)
    clicked = rng.random(len(pair)) < truth[position - 1] * relevance[pair]
    return count_positions(pair, position, clicked), truth


def test_impressions_are_counted_by_pair_and_position() -> None:
    pair = np.array([7, 3, 7, 7, 3, 7])
    position = np.array([2, 1, 2, 1, 0, 2], np.int32)
    clicked = np.array([True, False, False, True, True, True])
    counts = count_positions(pair, position, clicked)
    assert np.array(counts).T.tolist() == [[3, 1, 1, 0], [7, 1, 1, 1], [7, 2, 3, 2]]
    assert np.array(count_positions(pair, np.zeros(6, np.int32), clicked)).shape == (4, 0)


def test_two_positions_by_hand() -> None:
    """One title is clicked in 400 of 1,000 views at position 1 and in 100 of 500 at position 2: half as often."""
    assert estimate_propensities(counts_of([(0, 1, 1_000, 400), (0, 2, 500, 100)])) == pytest.approx([1, 0.5])


def test_relevance_cancels_and_pairs_at_one_position_say_nothing() -> None:
    rows: Rows = [(0, 1, 1_000, 400), (0, 2, 500, 100)]
    rows += [(1, 1, 10_000, 400), (1, 2, 10_000, 200)]  # a title of a tenth of the relevance
    rows += [(2, 2, 1_000, 1_000), (3, 1, 1_000, 1), (4, 1, 10, 0), (4, 2, 10, 0)]
    assert estimate_propensities(counts_of(rows)) == pytest.approx([1, 0.5], abs=1e-5)


def test_positions_are_compared_along_a_chain() -> None:
    """No title is shown at both 1 and 3."""
    rows: Rows = [(0, 1, 1_000, 600), (0, 2, 1_000, 300), (1, 2, 1_000, 500), (1, 3, 1_000, 250)]
    assert estimate_propensities(counts_of(rows)) == pytest.approx([1, 0.5, 0.25], abs=1e-5)


def test_the_first_position_need_not_be_the_best() -> None:
    rows: Rows = [(0, 1, 1_000, 200), (0, 2, 1_000, 400)]
    assert estimate_propensities(counts_of(rows)) == pytest.approx([0.5, 1])


def test_propensities_are_clipped_and_rare_positions_share_one() -> None:
    rows: Rows = [(0, 1, 1_000, 900), (0, 2, 100_000, 200)]
    assert estimate_propensities(counts_of(rows)).tolist() == [1, MIN_PROPENSITY]
    rows = [(0, 1, 1_000, 400), (0, 2, 500, 60), (0, 3, 500, 60), (0, 9, 10, 3)]
    estimate = estimate_propensities(counts_of(rows))
    assert len(estimate) == 9
    assert len(set(estimate[1:].tolist())) == 1
    assert estimate[1] == pytest.approx((123 / 1_010) / 0.4)


def test_known_propensities_are_recovered_where_titles_are_shown_three_times_each() -> None:
    counts, truth = simulate([1, 0.6, 0.4, 0.3, 0.2], pairs=60_000, views=3)
    assert estimate_propensities(counts) == pytest.approx(truth, rel=0.12)


def test_more_impressions_come_closer() -> None:
    counts, truth = simulate([1, 0.6, 0.4, 0.3, 0.2], pairs=30_000, views=30)
    assert estimate_propensities(counts) == pytest.approx(truth, rel=0.03)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_expected_clicks_are_those_counted_and_the_order_of_pairs_has_no_effect(seed: int) -> None:
    # Each position gets far more than MIN_CLICKS, so none is pooled.
    counts, _ = simulate([1, 0.5, 0.3], pairs=5_000, views=4, seed=seed)
    propensities = estimate_propensities(counts)
    index, shares = counts.position - 1, counts.shown * propensities[counts.position - 1]
    clicks, total = np.bincount(counts.pair, counts.clicked), np.bincount(counts.pair, shares)
    expected = np.bincount(index, clicks[counts.pair] * shares / total[counts.pair])
    counted = np.bincount(index, counts.clicked)
    assert expected == pytest.approx(counted, rel=1e-3)
    renumbered = np.random.default_rng(seed).permutation(counts.pair.max() + 1)[counts.pair]
    order = np.lexsort((counts.position, renumbered))
    shuffled = PositionCounts(renumbered[order], *(column[order] for column in counts[1:]))
    assert estimate_propensities(shuffled).tobytes() == propensities.tobytes()


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(0, 1, 1_000, 500)],
        [(0, 1, 1_000, 500), (1, 2, 1_000, 500)],  # each title has its own position
        [(0, 1, 1_000, 500), (0, 2, 1_000, MIN_CLICKS - 1)],
        [(0, 1, 900, 300), (0, 2, 900, 200), (1, 3, 900, 300), (1, 4, 900, 200)],  # 1 and 2 are apart from 3 and 4
        [(0, 1, 9, 0), (0, 2, 9, 0)],
    ],
)
def test_a_log_without_enough_variation_is_refused(rows: Rows) -> None:
    with pytest.raises(ClickvecError, match="cannot tell position bias from relevance") as error:
        estimate_propensities(counts_of(rows))
    assert f"at least {MIN_CLICKS} at each of two positions" in str(error.value)
    assert "the order of the results must vary" in str(error.value)


def test_looks_of_positions() -> None:
    """An unknown position gets the mean over the impressions; one beyond the last is as the last."""
    units = look_units(np.array([1, 0.5, 0.25]), np.array([5, 30, 10, 0, 20]))
    assert units / UNIT == pytest.approx(np.array([(30 + 5 + 5) / 60, 1, 0.5, 0.25, 0.25]), abs=1e-6)
    assert look_units(np.array([1, 0.5]), np.array([5])).tolist() == [0]


# --- data folders ------------------------------------------------------------------------------------------------


def impressions(views: int, seed: int, *, unknown: float = 0.0, queries: int = 40) -> list[Events]:
    """Simulate pages of five titles whose order varies; readers look at position k with probability 1/k."""
    rng = np.random.default_rng(seed)
    query = np.repeat(rng.integers(0, queries, views), 5)
    title = np.concatenate([rng.permutation(8)[:5] for _ in range(views)])
    position = np.tile(np.arange(1, 6, dtype=np.int32), views)
    clicked = rng.random(len(query)) < (title + query) % 7 / 7 / position
    position[rng.random(len(query)) < unknown] = 0
    position[-1] = 2**31 - 1
    columns = zip(*(np.array_split(column, 7) for column in (query, title, position, clicked)), strict=True)
    return [
        Events([f"q {q}" for q in block[0]], [f"t {t}" for t in block[1]], block[3].astype(float), None, None, block[2])
        for block in columns
    ]


def rows_of(block: Events, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Events:
    assert block.positions is not None
    queries, titles = (list(compress(texts, rows.tolist())) for texts in (block.queries, block.titles))
    return Events(queries, titles, block.clicks[rows], None, None, block.positions[rows])


def folder_of(blocks: list[Events], out: Path, *, on_disk: bool, append: bool = False, hold_out: bool = False) -> Path:
    memory = LEAST_MEMORY if on_disk else None
    settings = Preparation(4, 50, Cleaning(), hold_out=hold_out, append=append, memory=memory)
    write_data_folder(blocks, out, settings, check=lambda _: None)
    dataset.check(data_folder.load(out))
    return out


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_looks_are_the_propensities_of_all_impressions_of_a_pair(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "clickvec")
    blocks = impressions(4_000, seed=1)
    data, texts = data_folder.load_with_texts(folder_of(blocks, tmp_path / "data", on_disk=False))
    shown: dict[tuple[str, str], list[int]] = {}
    for block in blocks:
        assert block.positions is not None
        for query, title, position in zip(block.queries, block.titles, block.positions.tolist(), strict=True):
            shown.setdefault((query, title), []).append(position)
    assert data.pair_looks is not None
    assert "in these proportions: 1.00 0.5" in caplog.text
    queries, titles = texts.queries[:], texts.titles[:]
    names = [(queries[q], titles[t]) for q, t in zip(data.pair_query, data.pair_title, strict=True)]
    # The propensities are 1/k to within a few per cent, and so are the looks.
    truth = np.array([sum(1 / position for position in shown[name]) for name in names])
    assert data.pair_looks == pytest.approx(truth, rel=0.1)
    rates = data.pair_clicks / data.pair_looks
    relevance = np.array([(int(title[2:]) + int(query[2:])) % 7 / 7 for query, title in names])
    assert np.corrcoef(rates, relevance)[0, 1] > 0.9


@pytest.mark.parametrize(("views", "unknown"), [(4_000, 0.0), (3_000, 0.3), (20, 0.0)])
def test_a_log_on_disk_gives_the_same_folder(tmp_path: Path, views: int, unknown: float) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    first, second = impressions(views, seed=2, unknown=unknown), impressions(views, seed=3, queries=50)
    folders = {
        on_disk: folder_of(first, tmp_path / str(on_disk), on_disk=on_disk, hold_out=unknown > 0)
        for on_disk in (False, True)
    }
    assert files_of(folders[True]) == files_of(folders[False])
    assert (data_folder.load(folders[True]).pair_looks is None) == (views == 20)
    for on_disk, folder in folders.items():
        folder_of(second, folder, on_disk=on_disk, append=True, hold_out=unknown > 0)
    assert files_of(folders[True]) == files_of(folders[False])


def test_looks_of_an_appended_log_are_added(tmp_path: Path) -> None:
    first, second = impressions(4_000, seed=2), impressions(4_000, seed=3)
    one = data_folder.load(folder_of(first, tmp_path / "data", on_disk=False)).pair_looks
    both = data_folder.load(folder_of(second, tmp_path / "data", on_disk=False, append=True))
    assert one is not None
    assert both.pair_looks is not None
    assert both.pair_looks.sum() == pytest.approx(2 * one.sum(), rel=0.05)


def test_logs_without_impressions_have_no_looks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocks = impressions(4_000, seed=4)
    clicked = [rows_of(block, block.clicks > 0) for block in blocks]
    summed = [block._replace(clicks=block.clicks * 2) for block in blocks]
    nowhere = [block._replace(positions=None) for block in blocks]
    for name, log in (("clicked", clicked), ("summed", summed), ("nowhere", nowhere)):
        assert data_folder.load(folder_of(log, tmp_path / name, on_disk=False)).pair_looks is None, name
    assert not caplog.records
    assert data_folder.load(folder_of(impressions(20, seed=1), tmp_path / "few", on_disk=False)).pair_looks is None
    assert "Clicks are not corrected for position: the log cannot tell" in caplog.text
