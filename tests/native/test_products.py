"""products.c against NumPy: the same products, except for the last digits, and the same scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import misaligned

from clickvec.native import products
from clickvec.native.products import exact_scores, exact_scores_by_numpy, multiply, multiply_by_numpy


@given(
    st.integers(0, 40),
    st.sampled_from([1, 7, 8, 15, 16, 17, 32, 33, 96, 100, 288]),
    st.sampled_from(["float32", "int8", "float16"]),
    st.integers(1, 2),
    st.integers(0, 2**32 - 1),
)
def test_products(count: int, width: int, kind: str, queries: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = (40 * rng.normal(size=(count, width))).clip(-127, 127).astype(kind)
    query = rng.normal(size=(queries, width)).astype(np.float32)
    positions = np.flatnonzero(rng.random(count) < 0.5)
    for rows in (slice(None), slice(3, 20), positions):
        mine, expected = multiply(vectors, rows, query), multiply_by_numpy(vectors, rows, query)
        assert mine.dtype == expected.dtype == np.float32
        assert mine.shape == expected.shape
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-3)


@given(
    st.integers(0, 40),
    st.sampled_from([1, 7, 8, 15, 16, 17, 32, 33, 96, 100, 128, 288]),
    st.sampled_from(["float32", "int8", "float16"]),
    st.integers(0, 2**32 - 1),
)
def test_exact_scores(count: int, width: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = (40 * rng.normal(size=(count, width))).clip(-127, 127).astype(kind)
    query = rng.normal(size=width).astype(np.float32)
    for scales in (None, rng.random(count).astype(np.float32)):
        for positions in (None, rng.integers(0, count, count) if count else None):
            mine = exact_scores(vectors, query, scales, positions)
            expected = exact_scores_by_numpy(vectors, query, scales, positions)
            assert mine.dtype == expected.dtype == np.float32
            if width <= 128:  # then NumPy sums in the same order
                assert mine.tobytes() == expected.tobytes()
            np.testing.assert_allclose(mine, expected, rtol=1e-6, atol=1e-5)


def test_the_score_of_a_vector_does_not_depend_on_its_place() -> None:
    rng = np.random.default_rng(0)
    row, query = rng.normal(size=300).astype(np.float32), rng.normal(size=300).astype(np.float32)
    vectors = np.repeat(row[None], 50, axis=0)
    every = exact_scores(vectors, query)
    assert len({*every.tolist(), *exact_scores(vectors, query, None, np.array([3, 7])).tolist()}) == 1
    with pytest.raises(IndexError):
        exact_scores(vectors, query, None, np.array([50]))


def test_arrays_that_c_cannot_read() -> None:
    rng = np.random.default_rng(0)
    vectors, query = rng.normal(size=(10, 24)).astype(np.float32), rng.normal(size=(1, 24)).astype(np.float32)
    expected = vectors @ query.T
    for layout in (np.asfortranarray(vectors), misaligned(vectors), np.repeat(vectors, 2, axis=1)[:, ::2]):
        np.testing.assert_allclose(multiply(layout, slice(None), query), expected.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("position", [-11, 10])
def test_a_position_outside_is_an_error(position: int) -> None:
    with pytest.raises(IndexError):
        multiply(np.ones((10, 4), np.float32), np.array([position]), np.ones((1, 4), np.float32))


def test_nan_stays() -> None:
    vectors = np.ones((3, 40), np.float32)
    vectors[1, 20] = np.nan
    assert np.isnan(multiply(vectors, slice(None), np.ones((1, 40), np.float32))).tolist() == [[False, True, False]]


def test_compiled_paths_load_here() -> None:
    if products.functions() is None:
        pytest.skip("products.c was not compiled, or is turned off")
    assert any(products.load(processor) for processor in ("avx512", "avx2"))
