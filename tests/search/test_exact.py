"""Exact search, compared with brute force in float64: ties, zero vectors, masks, any block size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.errors import ClickvecError
from clickvec.model.shrink import inverse_lengths, to_int8
from clickvec.search.vectors import exact
from clickvec.search.vectors.exact import ExactSearch


def titles(rng: np.random.Generator, count: int, kind: str) -> ExactSearch:
    """Titles of which some are equal and some have no vector."""
    vectors = rng.integers(-1, 2, (count, 5)).astype(np.float32)
    if kind == "int8":
        small = to_int8(vectors)[0]
        return ExactSearch(small, inverse_lengths(small))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return ExactSearch((vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32))


def brute_force(search: ExactSearch, query: np.ndarray, k: int, allowed: np.ndarray) -> tuple[list[int], list[float]]:  # type: ignore[type-arg]
    scales = 1 if search.scales is None else search.scales
    scores = ((search.vectors.astype(np.float64) * query).sum(axis=1) * scales).astype(np.float32)
    found = np.flatnonzero(allowed & search.vectors.any(axis=1)) if query.any() else np.zeros(0, np.int64)
    best = found[np.argsort(-scores[found], kind="stable")][:k]
    return best.tolist(), scores[best].tolist()


@given(st.integers(0, 2**30), st.integers(0, 60), st.integers(1, 70), st.sampled_from(["float32", "int8"]))
def test_search_equals_brute_force_with_and_without_a_mask(seed: int, count: int, k: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    search, queries = titles(rng, count, kind), rng.integers(-1, 2, (3, 5)).astype(np.float32)
    allowed = rng.random(count) < rng.choice([0, 0.1, 0.5, 1])
    positions = np.flatnonzero(allowed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "BLOCK_TITLES", int(rng.integers(1, 20)))
        patch.setattr(exact, "FIRST_TITLES", int(rng.integers(1, 20)))
        for mask, found in (
            (np.ones(count, np.bool_), search.nearest(queries, k)),
            (allowed, search.nearest(queries, k, allowed)),
            (allowed, search.among(queries, positions, k)),
        ):
            for query, (best, scores) in zip(queries, found, strict=True):
                assert (best.tolist(), scores.tolist()) == brute_force(search, query, k, mask)


@given(st.integers(0, 2**30), st.integers(1, 60), st.integers(1, 70), st.sampled_from(["float32", "int8"]))
def test_a_least_score_leaves_out_only_titles_below_it(seed: int, count: int, k: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    search, queries = titles(rng, count, kind), rng.integers(-1, 2, (3, 5)).astype(np.float32)
    allowed = rng.random(count) < rng.choice([0.1, 0.5, 1])
    wanted = [brute_force(search, query, k, allowed) for query in queries]
    # The score of a title, or one that no title reaches, or none.
    least = np.array([rng.choice([-np.inf, 2, *scores]) for _, scores in wanted], np.float32)
    found = search.nearest(queries, k, allowed, least)
    for (positions, scores), low, (best, values) in zip(found, least, wanted, strict=True):
        above = int((np.array(values) >= low).sum())
        assert positions[:above].tolist() == best[:above]
        assert scores.tolist() == values[: len(scores)]


@pytest.mark.parametrize("kind", ["float32", "float16", "int8"])
def test_a_search_of_many_vectors_is_exact_to_the_last_bit(kind: str) -> None:
    """More than one block, and 400 equal vectors."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(40_000, 93))
    vectors[::100] = vectors[39_999]
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    stored = to_int8(vectors)[0] if kind == "int8" else vectors.astype(kind)
    search = ExactSearch(stored, None if kind == "float32" else inverse_lengths(stored))
    query, everything = vectors[39_999:], np.ones(40_000, np.bool_)
    for k in (1, 10, 1000):
        for mask in (everything, rng.random(40_000) < 0.7, rng.random(40_000) < 0.1):
            ((best, scores),) = search.nearest(query, k, mask)
            assert (best.tolist(), scores.tolist()) == brute_force(search, query[0], k, mask)


def test_a_damaged_vector_is_an_error() -> None:
    vectors = np.full((3, 4), 0.5, np.float32)
    vectors[1, 2] = np.nan
    for allowed in (None, np.array([False, True, False]), np.ones(3, np.bool_)):
        with pytest.raises(ClickvecError, match="NaN"):
            list(ExactSearch(vectors).nearest(np.full((1, 4), 0.5, np.float32), 2, allowed))
