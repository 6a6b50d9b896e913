"""Filters: what matches, compared with a plain evaluator; and what is told of a filter that is wrong."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.errors import ClickvecError
from clickvec.search.payload.fields import Fields, GrowingFields
from clickvec.search.payload.filters import Filter, parse_filter

BIG = 2**53
NAMES = st.sampled_from(["a", "b", "and", "\\x", "ä"])
SCALARS = st.one_of(
    st.booleans(),
    st.sampled_from([0, 1, -1, 0.5, 1.0, BIG, BIG + 1, float(BIG), -BIG - 1, 10**400, -(10**400), 1e308]),
    st.sampled_from(["", "1", "a", "A", "ab", "ä", "\ud800", "\U0001f600", "x" * 256, "x" * 257, "x" * 300]),
)
VALUES = st.recursive(
    st.one_of(SCALARS, st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=5,
)
PAYLOADS = st.lists(st.one_of(st.dictionaries(NAMES, VALUES, max_size=3), st.none(), st.text(max_size=1)), max_size=12)
GIVEN = SCALARS.filter(lambda value: not isinstance(value, str) or len(value) <= 256)
NUMBERS = GIVEN.filter(lambda value: type(value) in (int, float))
STRINGS = GIVEN.filter(lambda value: isinstance(value, str))
PATHS = st.sampled_from(["a", "b", "\\and", "\\\\x", "ä", "a.a", "a.b", "b.and", "a.a.b", "c"])


def ranges(bounds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    low = st.dictionaries(st.sampled_from(["gt", "gte"]), bounds, max_size=1)
    high = st.dictionaries(st.sampled_from(["lt", "lte"]), bounds, max_size=1)
    return st.tuples(low, high).map(lambda both: both[0] | both[1])


OPERATORS = st.tuples(
    ranges(NUMBERS) | ranges(STRINGS),
    st.fixed_dictionaries({}, optional={"ne": GIVEN | st.lists(GIVEN, max_size=3), "exists": st.booleans()}),
).map(lambda both: both[0] | both[1])
CONDITIONS = st.dictionaries(PATHS, GIVEN | st.lists(GIVEN, max_size=6) | OPERATORS.filter(bool), max_size=2)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.fixed_dictionaries(
        {}, optional={"and": st.lists(inner, max_size=2), "or": st.lists(inner, max_size=2), "not": inner}
    ),
    max_leaves=4,
)


# --- the plain evaluator ------------------------------------------------------------------------------------------


def values_at(value: Any, path: str, at: str = "") -> list[Any]:  # noqa: ANN401
    """The values of a payload at a path."""
    if isinstance(value, dict):
        return [v for name, item in value.items() for v in values_at(item, path, f"{at}.{name}" if at else name)]
    if isinstance(value, list):
        return [v for item in value for v in values_at(item, path, at)]
    return [value] if at == path and value is not None else []


def exists(value: Any, path: str, at: str = "") -> bool:  # noqa: ANN401
    if isinstance(value, dict):
        return any(exists(item, path, f"{at}.{name}" if at else name) for name, item in value.items())
    if isinstance(value, list):
        return any(exists(item, path, at) for item in value)
    return value is not None and (at == path or at.startswith(path + "."))


def same(one: Any, two: Any) -> bool:  # noqa: ANN401
    return isinstance(one, bool) == isinstance(two, bool) and one == two


def comparable(one: Any, two: Any) -> bool:  # noqa: ANN401
    return not isinstance(one, bool) and isinstance(one, str) == isinstance(two, str)


COMPARE = {
    "gt": lambda value, bound: value > bound,
    "gte": lambda value, bound: value >= bound,
    "lt": lambda value, bound: value < bound,
    "lte": lambda value, bound: value <= bound,
}


def matches(where: dict[str, Any], payload: Any) -> bool:  # noqa: ANN401
    return all(matches_one(name, value, payload) for name, value in where.items())


def matches_one(name: str, value: Any, payload: Any) -> bool:  # noqa: ANN401
    if name == "not":
        return not matches(value, payload)
    if name in ("and", "or"):
        return (all if name == "and" else any)(matches(item, payload) for item in value)
    path = name.removeprefix("\\")
    payload = payload if isinstance(payload, dict) else {}
    values = values_at(payload, path)
    if not isinstance(value, dict):
        return any(same(v, wanted) for v in values for wanted in (value if isinstance(value, list) else [value]))
    bounds = {name: bound for name, bound in value.items() if name in COMPARE}
    in_range = any(all(comparable(v, b) and COMPARE[name](v, b) for name, b in bounds.items()) for v in values)
    unwanted = value.get("ne", [])
    unwanted = unwanted if isinstance(unwanted, list) else [unwanted]
    return (
        (not bounds or in_range)
        and ("ne" not in value or (bool(values) and not any(same(v, u) for v in values for u in unwanted)))
        and ("exists" not in value or exists(payload, path) == value["exists"])
    )


def parsed(where: dict[str, Any]) -> Filter:
    result = parse_filter(where)
    assert result is not None
    return result


@given(PAYLOADS, FILTERS)
def test_a_filter_matches_what_the_plain_evaluator_matches(payloads: list[Any], where: dict[str, Any]) -> None:
    expected = [matches(where, payload) for payload in payloads]
    built, result = Fields.build(payloads), parse_filter(where)
    if result is None:
        assert all(expected)
        return
    assert result.mask(built).tolist() == expected
    assert result.mask(Fields.from_arrays(built.arrays())).tolist() == expected
    growing = GrowingFields()
    for payload in payloads:
        growing.add([payload])
    assert result.mask(*growing.parts).tolist() == expected
    half = len(payloads) // 2
    parts = Fields.build(payloads[:half]), Fields.build(payloads[half:])
    assert result.mask(*parts).tolist() == expected


def test_large_columns_match_too() -> None:
    rng = np.random.default_rng(1)
    payloads = [
        {"price": price, "tags": tags} if price % 3 else {"rare": price}
        for price, tags in zip(
            rng.integers(0, 3000, 5000).tolist(), rng.integers(0, 9, (5000, 2)).tolist(), strict=True
        )
    ]
    fields = Fields.build(payloads)
    wanted = list(range(0, 3000, 7))
    for where in (
        {"price": wanted}, {"rare": wanted}, {"tags": [1, 2, 3, 4, 5, 6]}, {"tags": {"ne": [1, 2]}}, {"price": 4},
        {"rare": {"lt": 300}}, {"price": {"gt": 10, "lte": 2000}}, {"not": {"tags": {"gte": 3}}}, {"rare": {"ne": 9}},
    ):  # fmt: skip
        assert parsed(where).mask(fields).tolist() == [matches(where, payload) for payload in payloads], where


def test_no_filter() -> None:
    assert parse_filter(None) is None
    assert parse_filter({}) is None


def test_equal_filters_are_equal_and_hash_alike() -> None:
    one, two = parsed({"a": {"gte": 1}, "b": ["x"]}), parsed(json.loads('{"a": {"gte": 1}, "b": ["x"]}'))
    assert one == two
    assert len({one, two}) == 1
    assert parsed({"a": 1}) != parsed({"a": True})


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ([1], ["where is [1]", "object"]),
        ({"price": {"gte": [1]}}, ["where.price.gte", "[1]"]),
        ({"price": {"gte": True}}, ["where.price.gte", "number"]),
        ({"price": {"gte": 1, "lt": "b"}}, ["where.price.gte", "where.price.lt", "type"]),
        ({"price": {"gte": 1, "gt": 1}}, ["where.price", "gt and gte"]),
        ({"price": {"gte": float("nan")}}, ["where.price.gte", "finite"]),
        ({"brand": {"name": "x"}}, ["where.brand.name", "operator", '"brand.name"']),
        ({"brand": {}}, ["where.brand", "empty"]),
        ({"brand": None}, ["where.brand is null", "exists"]),
        ({"brand": ["a", {"b": 1}]}, ["where.brand[1]", "{'b': 1}"]),
        ({"brand": {"exists": 1}}, ["where.brand.exists", "true or false"]),
        ({"brand": "x" * 257}, ["where.brand", "257", "256"]),
        ({"brand": ["x"] * 10_001}, ["where.brand", "10,001", "10,000"]),
        ({"or": {"a": 1}}, ["where.or", "list"]),
        ({"or": [{"a": 1}, {"not": {"b": {"near": 1}}}]}, ["where.or[1].not.b.near"]),
        ({"not": 3}, ["where.not is 3"]),
        ({"or": [{}] * 101}, ["where.or", "101", "100"]),
        ({str(number): 1 for number in range(101)}, ["100 conditions"]),
        ({"and": [{"or": [{}] * 100}] * 11}, ["1,000 objects"]),
        ({1: 2}, ["where has the name 1"]),
        ({"n" * 257: 2}, ["where.nnn", "257", "256"]),
    ],
)
def test_a_wrong_filter_is_named_by_its_path(where: Any, told: list[str]) -> None:  # noqa: ANN401
    with pytest.raises(ClickvecError) as error:
        parse_filter(where)
    assert [part for part in told if part not in str(error.value)] == []


def test_depth_is_limited() -> None:
    where: dict[str, Any] = {"a": 1}
    for _ in range(16):
        where = {"not": where}
    with pytest.raises(ClickvecError, match="16 levels"):
        parse_filter(where)


def test_notes_name_conditions_that_cannot_match() -> None:
    fields = Fields.build([{"price": "12", "brand": {"name": "x"}}])
    assert parsed({"price": {"gte": 3}}).notes(fields) == [
        "where.price compares with numbers, but all values of price are text; build the index with --numbers price, "
        "or send numbers"
    ]
    assert parsed({"colour": "red"}).notes(fields) == ["where.colour: no document has the field colour"]
    assert parsed({"price": "12", "brand.name": {"ne": "y"}, "colour": {"exists": False}}).notes(fields) == []
