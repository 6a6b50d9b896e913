"""Approximate search: compared with exact search, also with masks, and after it was stored."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from clickvec.errors import ClickvecError
from clickvec.model.shrink import inverse_lengths, to_int8
from clickvec.search.vectors import approximate
from clickvec.search.vectors.approximate import ApproximateSearch

pytest.importorskip("faiss")


def clustered(count: int, dimensions: int, seed: int = 1) -> np.ndarray:  # type: ignore[type-arg]
    """Vectors around 50 centres. The last one is zero, and the last but one equals the first."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(50, dimensions))
    vectors = centres[rng.integers(0, 50, count)] + 0.7 * rng.normal(size=(count, dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[-1], vectors[-2] = 0, vectors[0]
    return vectors.astype(np.float32)


@pytest.fixture(scope="module", params=["float32", "int8"])
def search(request: pytest.FixtureRequest) -> ApproximateSearch:
    vectors = clustered(6_000, 16)
    if request.param == "int8":
        vectors = to_int8(vectors)[0]  # type: ignore[assignment]
        return ApproximateSearch.build(vectors, inverse_lengths(vectors))
    return ApproximateSearch.build(vectors)


def reopened(search: ApproximateSearch) -> ApproximateSearch:
    return ApproximateSearch.from_arrays(search.arrays(), search.exact.vectors, search.exact.scales, search.settings)


def recall(
    search: ApproximateSearch,
    queries: np.ndarray,  # type: ignore[type-arg]
    k: int,
    allowed: np.ndarray | None = None,  # type: ignore[type-arg]
) -> float:
    pairs = zip(search.nearest(queries, k, allowed), search.exact.nearest(queries, k, allowed), strict=True)
    return float(np.mean([len(np.intersect1d(found[0], best[0])) / max(1, len(best[0])) for found, best in pairs]))


def test_most_of_the_nearest_are_found_with_exact_scores(search: ApproximateSearch) -> None:
    queries = clustered(200, 16, seed=1)[:-1]
    assert search.recall >= 0.97
    assert recall(search, queries, 10) > 0.9
    for positions, scores in search.nearest(queries, 10):
        assert len(positions) == 10
        assert (np.diff(scores) <= 0).all()
    for query, (positions, scores) in zip(queries, search.nearest(queries, 10), strict=True):
        assert scores.tolist() == search.exact.scores(query, positions).tolist()


def test_up_to_100_titles_are_the_first_ones_of_100(search: ApproximateSearch) -> None:
    queries = clustered(200, 16, seed=1)[:-1]
    hundred = [positions.tolist() for positions, _ in search.nearest(queries, 100)]
    for k in (1, 10, 99):
        assert [one.tolist() for one, _ in search.nearest(queries, k)] == [one[:k] for one in hundred]
    assert recall(search, queries, 100) > 0.9


def test_a_deeper_search_misses_few_titles(search: ApproximateSearch) -> None:
    assert recall(search, clustered(200, 16, seed=1)[:-1], 110) > 0.97


def test_equal_scores_are_in_the_order_of_positions_and_a_zero_vector_is_never_found(search: ApproximateSearch) -> None:
    query = clustered(6_000, 16)[:1]
    ((positions, scores),) = search.nearest(query, 3)
    assert positions[:2].tolist() == [0, 5_998]
    assert scores[0] == scores[1]
    ((everything, _),) = search.nearest(query, 6_000)
    assert sorted(everything.tolist()) == list(range(5_999))
    ((nothing, _),) = search.nearest(np.zeros((1, 16), np.float32), 3)
    assert len(nothing) == 0


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0])
def test_a_mask_costs_no_recall(search: ApproximateSearch, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "_FEW_ALLOWED", 300)
    allowed = np.random.default_rng(2).random(6_000) < share
    queries = clustered(100, 16, seed=1)[:-1]
    for positions, _ in search.nearest(queries, 10, allowed):
        assert allowed[positions].all()
        assert len(positions) == min(10, np.count_nonzero(allowed))
    assert recall(search, queries, 10, allowed) > (0.9 if share else -1)


def test_what_is_stored_opens_and_finds_the_same(search: ApproximateSearch) -> None:
    opened = reopened(search)
    assert opened.recall == search.recall
    queries = clustered(50, 16, seed=1)[:-1]
    allowed = np.arange(6_000) % 2 == 0
    for mask in (None, allowed):
        for one, two in zip(search.nearest(queries, 5, mask), opened.nearest(queries, 5, mask), strict=True):
            assert [values.tolist() for values in one] == [values.tolist() for values in two]


@pytest.mark.parametrize(
    "hostile",
    [
        lambda arrays: arrays.pop("codes"),
        lambda arrays: arrays.update(centroids=arrays["centroids"].astype(np.float64)),
        lambda arrays: arrays.update(centroids=arrays["centroids"][1:]),
        lambda arrays: arrays.update(centroids=arrays["centroids"] * np.float32(np.nan)),
        lambda arrays: arrays.update(codebook=arrays["codebook"][:-1]),
        lambda arrays: arrays.update(codebook=np.full_like(arrays["codebook"], np.inf)),
        lambda arrays: arrays.update(sizes=arrays["sizes"][:-1]),
        lambda arrays: arrays.update(sizes=-arrays["sizes"]),
        lambda arrays: arrays.update(sizes=np.full_like(arrays["sizes"], 2**62)),
        lambda arrays: arrays.update(sizes=np.roll(arrays["sizes"] + np.arange(len(arrays["sizes"])), 1)),
        lambda arrays: arrays.update(positions=arrays["positions"] + 2),
        lambda arrays: arrays.update(positions=-arrays["positions"]),
        lambda arrays: arrays.update(codes=arrays["codes"][:-1]),
        lambda arrays: arrays.update(codes=arrays["codes"][:0]),
    ],
)
def test_arrays_of_another_shape_or_range_never_reach_faiss(
    search: ApproximateSearch, hostile: Callable[[dict[str, Any]], object]
) -> None:
    arrays = search.arrays()
    hostile(arrays)
    with pytest.raises(ValueError, match=r"list|array|NaN"):
        ApproximateSearch.from_arrays(arrays, search.exact.vectors, search.exact.scales, search.settings)


@pytest.mark.parametrize("name", ["lists", "recall"])
@pytest.mark.parametrize("value", [None, "x", True, -1, 1e9, 10**30, []])
def test_settings_of_another_type_or_range_are_refused(search: ApproximateSearch, name: str, value: object) -> None:
    settings = search.settings | {name: value}
    with pytest.raises(ValueError, match="settings"):
        ApproximateSearch.from_arrays(search.arrays(), search.exact.vectors, search.exact.scales, settings)


def test_the_same_seed_gives_the_same_arrays() -> None:
    vectors = clustered(2_000, 7)
    one, two = (ApproximateSearch.build(vectors, seed=3).arrays() for _ in range(2))
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in two.items()
    }


def test_threads_may_share_a_search(search: ApproximateSearch) -> None:
    queries, odd = clustered(100, 16, seed=1), np.arange(6_000) % 2 == 1

    def find(number: int) -> list[list[int]]:
        return [best.tolist() for best, _ in search.nearest(queries[number:][:20], 5, odd if number % 2 else None)]

    expected = [find(number) for number in range(60)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(find, range(60))) == expected


@pytest.mark.parametrize("distinct", [0, 1, 3])
def test_titles_that_are_equal_or_have_no_vector(distinct: int) -> None:
    vectors = np.zeros((3_000, 16), np.float32)
    if distinct:
        vectors[:2_000] = clustered(50, 16)[np.arange(2_000) % distinct]
    search = ApproximateSearch.build(vectors)
    assert search.recall == 1
    opened = reopened(search)
    for query in (vectors[:1], clustered(60, 16)[50:51]):
        ((_, scores),) = opened.nearest(query, 10)
        ((_, best),) = opened.exact.nearest(query, 10)
        assert scores.tolist() == best.tolist()


def test_few_titles_are_refused() -> None:
    with pytest.raises(ClickvecError, match=r"1,000 titles.*exact"):
        ApproximateSearch.build(clustered(100, 8))


def test_what_is_not_allowed_may_be_all_that_is_near(
    search: ApproximateSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nearly all titles allowed, the others are dropped after the search, and there may be too many of them."""
    monkeypatch.setattr(approximate, "_FEW_ALLOWED", 300)
    query = clustered(6_000, 16)[:1]
    ((near, _),) = search.exact.nearest(query, 500)
    allowed = np.ones(6_000, np.bool_)
    allowed[near] = False
    ((_, scores),) = search.nearest(query, 10, allowed)
    ((_, best),) = search.exact.nearest(query, 10, allowed)
    assert scores.min() > best.min() - 0.02


def test_a_search_of_many_queries_finds_what_single_ones_find(search: ApproximateSearch) -> None:
    queries = clustered(300, 16, seed=1)
    together = [positions.tolist() for positions, _ in search.nearest(queries, 5)]
    assert together == [positions.tolist() for query in queries for positions, _ in search.nearest(query[None], 5)]
