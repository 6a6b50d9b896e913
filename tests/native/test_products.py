"""products.c against NumPy: the same products, except for the last digits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels import misaligned

from clickvec.native import products
from clickvec.native.products import multiply, multiply_by_numpy


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
