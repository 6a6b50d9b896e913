"""W l(t) of a few tokens takes a shorter way than that of many, with the same bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.model import projection
from clickvec.model.projection import project
from clickvec.text.ragged import ragged


@given(
    st.lists(st.lists(st.integers(0, 49), max_size=12), max_size=20),
    st.sampled_from(["float32", "float64", "float16", "int8"]),
    st.integers(0, 2**32 - 1),
)
def test_few_tokens_are_projected_like_many(tokens: list[list[int]], kind: str, seed: int) -> None:
    rng, weights = np.random.default_rng(seed), {}
    for gate in ("input_gate", "output_gate"):
        weights[f"{gate}.input"] = (30 * rng.normal(size=(50, 6))).clip(-127, 127).astype(kind)
        if kind == "int8":
            weights[f"{gate}.input.scale"] = rng.random(50).astype(np.float32)
    rows = ragged([np.array(ids, np.int32) for ids in tokens])
    few = project(weights, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "_FEW", -1)
        many = project(weights, rows)
    assert few.dtype == many.dtype
    assert few.tobytes() == many.tobytes()
