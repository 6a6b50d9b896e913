"""The columns of payload fields: parts that grow, stored arrays, counts of values."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.errors import ClickvecError
from clickvec.search.payload import fields as fields_module
from clickvec.search.payload.facets import Facet, count_values
from clickvec.search.payload.fields import Fields, GrowingFields
from clickvec.search.payload.filters import parse_filter

ITEMS = st.sampled_from(["a", "b", "c", True, False, 1, 2.5, 2**60 + 1])
ROWS = st.lists(
    st.dictionaries(st.sampled_from(["x", "y"]), ITEMS | st.lists(ITEMS, max_size=3), max_size=2), max_size=40
)


def key(value: Any) -> tuple[int, Any]:  # noqa: ANN401
    return (0 if isinstance(value, bool) else 2 if isinstance(value, str) else 1, value)


def counted(payloads: list[dict[str, Any]], path: str, positions: list[int], limit: int) -> Facet:
    counts: Counter[tuple[int, Any]] = Counter()
    for position in positions:
        value = payloads[position].get(path, [])
        counts.update({key(item) for item in (value if isinstance(value, list) else [value])})
    order = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    numbers = [value for kind, value in counts if kind == 1]
    return Facet(
        [(value, count) for (_, value), count in order[:limit]], len(counts),
        min(numbers, default=None), max(numbers, default=None),
    )  # fmt: skip


@given(ROWS, st.integers(0, 5), st.integers(0, 2**40))
def test_facets_count_what_a_counter_counts(payloads: list[dict[str, Any]], limit: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    positions = np.flatnonzero(rng.random(len(payloads)) < rng.random())
    cut = int(rng.integers(0, len(payloads) + 1))
    parts = [Fields.build(payloads[:cut]), Fields.build(payloads[cut:])]
    result = count_values(parts, "x", positions, limit)
    expected = counted(payloads, "x", positions.tolist(), limit)
    assert result == expected
    assert [type(value) for value, _ in result.counts] == [type(value) for value, _ in expected.counts]


def test_facets_of_few_among_many_documents() -> None:
    payloads = [{"x": [number % 7, -(number % 3)]} if number % 2 else {} for number in range(5000)]
    positions = np.array([3, 5, 4000, 4001, 4999])
    assert count_values([Fields.build(payloads)], "x", positions, 4) == counted(payloads, "x", positions.tolist(), 4)


def test_fields_of_nested_objects_and_lists() -> None:
    fields = Fields.build([{"a": {"b": {"c": 1}}, "d": [{"e": 2}, {"e": 3}]}, "text", None, [1], {"f": None, "g": []}])
    assert list(fields) == ["a.b.c", "d.e"]
    assert len(fields) == 5


def test_growing_fields_stay_few_parts_and_old_parts_stay_as_they_were() -> None:
    growing, where = GrowingFields(), parse_filter({"n": {"gte": 1000}})
    assert where is not None
    first = None
    for number in range(2000):
        growing.add([{"n": number}])
        if number == 999:
            first = growing.parts
    assert first is not None
    assert len(growing.parts) < 8
    assert len(growing) == 2000
    assert not where.mask(*first).any()
    assert where.mask(*growing.parts).tolist() == [number >= 1000 for number in range(2000)]
    growing.add([])
    assert len(growing) == 2000


def test_no_documents() -> None:
    where = parse_filter({"n": 1})
    assert where is not None
    for parts in ((), GrowingFields().parts, (Fields.build([]),), (Fields.from_arrays(Fields.build([]).arrays()),)):
        assert where.mask(*parts).tolist() == []
        assert count_values(parts, "n", np.zeros(0, np.int64)) == Facet([], 0, None, None)


def test_too_many_fields_are_told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields_module, "MAX_FIELDS", 3)
    fields = Fields.build([{"a": 1, "b": 1}, {"c": 1, "d": 1, "e": 1}])
    assert "more than 3 fields" in caplog.text
    assert list(fields) == ["a", "b", "c"]
    fields = Fields.from_arrays(fields.arrays())
    with pytest.raises(ClickvecError, match=r"'d'.*fewer field names"):
        parse_filter({"d": 1}).mask(fields)  # type: ignore[union-attr]


def test_long_names_are_left_out() -> None:
    assert list(Fields.build([{"n" * 256: 1, "m" * 257: 1, "a": {"b" * 255: 1}}])) == ["n" * 256]


def test_damaged_arrays_are_an_error() -> None:
    arrays = Fields.build([{"a": "text"}]).arrays()
    for name in ("about", "texts", "offsets"):
        with pytest.raises(ValueError, match="damaged"):
            Fields.from_arrays(arrays | {name: arrays[name][:1]})
