"""postings.c against NumPy: the same postings, the same titles and the same bits of their scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from kernels import misaligned

from clickvec.native import postings
from clickvec.native.postings import Postings, best_by_numpy, best_titles, sort_by_numpy, sort_postings

needs_c = pytest.mark.skipif(postings.functions() is None, reason="postings.c was not compiled, or is turned off")
TABLE = np.linspace(0.1, 1, 2**16, dtype=np.float32)
NOTHING = Postings(np.zeros(0, np.int32), np.zeros(0, np.uint16))


@needs_c
@given(st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=20), st.integers(0, 2**32 - 1))
def test_sorted_postings(titles: list[list[int]], seed: int) -> None:
    words = np.array([word for title in titles for word in title], np.int32)
    counts = np.array([len(title) for title in titles], np.int32)
    lengths = np.random.default_rng(seed).integers(0, 256, len(titles)).astype(np.uint8)
    compiled, expected = (sort(words, counts, lengths, 10) for sort in (sort_postings, sort_by_numpy))
    for mine, other in zip(compiled, expected, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)


def test_frequencies_stop_at_255() -> None:
    for sort in (sort_postings, sort_by_numpy):
        _, positions, codes = sort(np.zeros(300, np.int32), np.array([300], np.int32), np.array([7], np.uint8), 1)
        assert positions.tolist() == [0]
        assert codes.tolist() == [255 << 8 | 7]


def random_postings(rng: np.random.Generator, size: int, share: float) -> Postings:
    positions = np.flatnonzero(rng.random(size) < share).astype(np.int32)
    return Postings(positions, rng.integers(256, 2**16, len(positions)).astype(np.uint16))


@needs_c
@given(
    st.lists(st.sampled_from([0.0, 0.0001, 0.01, 0.3, 1.0]), max_size=5),
    st.sampled_from([0, 1, 100, 8_192, 30_000]),
    st.sampled_from([0, 1, 2, 100, 10**6]),
    st.sampled_from([None, 0.0, 0.01, 0.9]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_best_titles(
    shares: list[float], size: int, k: int, allowed_share: float | None, has_ties: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    lists = [random_postings(rng, size, share) for share in shares]
    weights = rng.random(len(lists)).astype(np.float32) + np.float32(0.1)
    table = np.ones(2**16, np.float32) if has_ties else TABLE
    allowed = None if allowed_share is None else rng.random(size) < allowed_share
    compiled, expected = (best(lists, weights, table, size, k, allowed) for best in (best_titles, best_by_numpy))
    np.testing.assert_array_equal(compiled[0], expected[0])
    np.testing.assert_array_equal(compiled[1], expected[1])


@needs_c
@given(arrays(np.int32, 5, elements=st.integers(0, 2**31 - 1), unique=True))
def test_positions_up_to_the_largest(positions: np.ndarray) -> None:
    lists = [Postings(np.sort(positions), np.full(5, 256, np.uint16))]
    found, _ = best_titles(lists, np.ones(1, np.float32), TABLE, 2**31, 3, None)
    assert found.tolist() == np.sort(positions)[:3].tolist()


@needs_c
@given(st.lists(arrays(np.int32, st.integers(0, 50), elements=st.integers(-(2**31), 2**31 - 1)), max_size=3))
def test_damaged_positions_are_read_within_their_bounds(lists: list[np.ndarray]) -> None:
    damaged = [Postings(positions, np.full(len(positions), 256, np.uint16)) for positions in lists]
    allowed = np.ones(10_000, np.bool_)
    found, _ = best_titles(damaged, np.ones(len(lists), np.float32), TABLE, len(allowed), 20, allowed)
    assert ((found >= 0) & (found < len(allowed))).all()


def test_arrays_need_not_be_aligned() -> None:
    rng = np.random.default_rng(0)
    lists = [random_postings(rng, 1000, 0.3)]
    moved = [Postings(misaligned(lists[0].positions), misaligned(lists[0].codes))]
    weights = np.ones(1, np.float32)
    for mine, other in zip(
        best_titles(moved, weights, TABLE, 1000, 10, None), best_by_numpy(lists, weights, TABLE, 1000, 10, None),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(mine, other)
    assert len(best_titles([NOTHING], weights, TABLE, 0, 10, None)[0]) == 0
