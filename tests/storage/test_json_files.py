"""The reader of JSON that a stranger may have written."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickvec.storage.files import write_json
from clickvec.storage.json_files import MAX_DEPTH, parse_json, to_dataclass

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_json_can_say_is_read_as_json_reads_it(value: object) -> None:
    assert parse_json(json.dumps(value)) == json.loads(json.dumps(value))
    assert parse_json(json.dumps(value).encode()) == json.loads(json.dumps(value))


@pytest.mark.parametrize("brackets", ["[]", "{}"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 900, 100_000])
def test_deep_nesting_is_refused_however_deep(brackets: str, depth: int) -> None:
    inner = '{"a":' if brackets == "{}" else "["
    text = inner * depth + "1" + brackets[1] * depth
    with pytest.raises(ValueError, match=f"more than {MAX_DEPTH} levels"):
        parse_json(text)
    allowed = inner * MAX_DEPTH + "1" + brackets[1] * MAX_DEPTH
    assert parse_json(allowed) == json.loads(allowed)


def test_many_brackets_that_are_not_deep_are_no_reason_to_refuse() -> None:
    wide = [[{}] for _ in range(10 * MAX_DEPTH)]
    assert parse_json(json.dumps(wide)) == wide
    assert parse_json(json.dumps("[" * 1000)) == "[" * 1000


@pytest.mark.parametrize("text", ["1e999", "-1e999", "NaN", "Infinity", "-Infinity", "[1, 1e400]", "9" * 5000, "", "{"])
def test_what_is_no_finite_number_or_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_size_is_bounded() -> None:
    assert parse_json(" " * 90 + "1", max_bytes=91) == 1
    with pytest.raises(ValueError, match="91 bytes, more than 90"):
        parse_json(" " * 90 + "1", max_bytes=90)


@dataclass
class Fields:
    count: int
    share: float
    name: str | None = None
    done: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)


def test_half_of_a_surrogate_pair_is_written_and_read_again(tmp_path: Path) -> None:
    value = {"text": "\ud800 caf\u00e9"}
    write_json(tmp_path / "a.json", value)
    assert parse_json((tmp_path / "a.json").read_bytes()) == value
    write_json(tmp_path / "b.json", "caf\u00e9")
    assert (tmp_path / "b.json").read_text(encoding="utf-8") == '"caf\u00e9"\n'


def test_a_dataclass_is_made_of_fields_of_their_types() -> None:
    assert to_dataclass(Fields, {"count": 1, "share": 2}) == Fields(1, 2)
    assert to_dataclass(Fields, {"count": 1, "share": 0.5, "name": None, "rows": [{"a": 1}]}).rows == [{"a": 1}]


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([], "JSON object"), (None, "JSON object"), ({"count": 1}, "share"), ({"count": "1", "share": 1}, "count"),
        ({"count": 1.0, "share": 1}, "count"), ({"count": True, "share": 1}, "count"),
        ({"count": 1, "share": "x"}, "share"), ({"count": 1, "share": True}, "share"),
        ({"count": 1, "share": 1, "name": 3}, "name"), ({"count": 1, "share": 1, "done": 1}, "done"),
        ({"count": 1, "share": 1, "rows": {}}, "rows"), ({"count": 1, "share": 1, "rows": [1]}, "rows"),
        ({"count": 1, "share": 1, "more": 1}, "more"),
    ],
)  # fmt: skip
def test_a_field_that_is_missing_unknown_or_mistyped_is_named(value: object, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        to_dataclass(Fields, value)
