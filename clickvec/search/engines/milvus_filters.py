"""Filters on the payload as expressions of Milvus, which may allow a few documents too many.

Expressions have no parameters, so that names and values of users never become part of one: fields and strings are
hashed, and the bounds of strings are hexadecimal. A document has a JSON object:

    {"e": {field: 1}, "v": {field: [values]}, "n": {field: [least, largest number]}, "s": {field: [first, last string]}}

A field with several values may satisfy a range by its least and largest value and still have none within it. So a
filter becomes two expressions: one that all documents of the filter satisfy, and one that only such documents satisfy.
`not` swaps them. What the first one finds is checked again.
"""

import json
from hashlib import blake2b
from typing import Any, NamedTuple

from clickvec.search.payload.field_values import Scalar
from clickvec.search.payload.filter_language import Condition, Range
from clickvec.search.payload.filters import Filter
from clickvec.search.payload.flat_fields import flat_fields

_EVERYTHING, _NOTHING = "(seq >= 0)", "(seq < 0)"
_MOST_BYTES = 60_000  # of a JSON value; the server takes 65,536
_LARGE = 'exists fields["large"]'  # documents whose fields do not fit; a filter always finds them, and they are checked
_LARGEST = 1.7e308
_COMPARED = 64  # bytes of a string that ranges compare


class Bounds(NamedTuple):
    """Two expressions: what all documents of a filter satisfy, and what only documents of the filter satisfy."""

    all_of_it: str
    only_it: str


def stored_fields(payload: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return what a collection stores of a payload."""
    stored: dict[str, dict[str, Any]] = {"e": {}, "v": {}, "n": {}, "s": {}}
    for path, values in flat_fields(payload).items():
        key = _hashed(path)
        stored["e"][key] = 1
        if values:
            stored["v"][key] = sorted(map(_token, values))
        for name, kind in (("n", _numbers(values)), ("s", [_hex(value) for value in values if isinstance(value, str)])):
            if kind:
                stored[name][key] = [min(kind), max(kind)]
    return stored if len(json.dumps(stored)) <= _MOST_BYTES else {"large": 1}


def expression(where: Filter) -> str:
    """Return an expression that all documents of a filter satisfy."""
    return f"({where.translate(MilvusFilter()).all_of_it}) or {_LARGE}"


class MilvusFilter:
    """Writes a filter as `Filter.translate` asks for it."""

    def condition(self, condition: Condition) -> Bounds:
        """Return what one field must satisfy."""
        key, checks = _hashed(condition.field), list[Bounds]()
        if condition.any_of is not None:
            checks.append(_exact(_has_one(key, condition.any_of)))
        if condition.range is not None:
            checks.append(_within(key, condition.range))
        if condition.none_of is not None:
            # Without parentheses, Milvus takes what follows as a part of what must exist.
            checks.append(_exact(f'((exists fields["v"]["{key}"]) and (not {_has_one(key, condition.none_of)}))'))
        if condition.exists is not None:
            checks.append(_exact(f'({"" if condition.exists else "not "}exists fields["e"]["{key}"])'))
        return self.all_of(checks)

    def all_of(self, parts: list[Bounds]) -> Bounds:
        """Return what holds if all parts hold."""
        return _joined(" and ", parts) if parts else _exact(_EVERYTHING)

    def any_of(self, parts: list[Bounds]) -> Bounds:
        """Return what holds if a part holds."""
        return _joined(" or ", parts) if parts else _exact(_NOTHING)

    def negated(self, part: Bounds) -> Bounds:
        """Return what holds if a part does not."""
        return Bounds(f"(not {part.only_it})", f"(not {part.all_of_it})")


def _joined(word: str, parts: list[Bounds]) -> Bounds:
    return Bounds(*(f"({word.join(each)})" for each in zip(*parts, strict=True)))


def _exact(text: str) -> Bounds:
    return Bounds(text, text)


def _has_one(key: str, values: tuple[Scalar, ...]) -> str:
    if not values:
        return _NOTHING
    return f'json_contains_any(fields["v"]["{key}"], {json.dumps(sorted(set(map(_token, values))))})'


def _within(key: str, bounds: Range) -> Bounds:
    is_text = isinstance(bounds.low if bounds.low is not None else bounds.high, str)
    least, largest = (f'fields["{"s" if is_text else "n"}"]["{key}"][{at}]' for at in (0, 1))
    wide, narrow = [], []
    for bound, above, below in ((bounds.low, ">", True), (bounds.high, "<", False)):
        if bound is not None:
            literal = f'"{_hex(bound)}"' if isinstance(bound, str) else repr(_number(bound))
            wide.append(f"{largest if below else least} {above}= {literal}")
            narrow.append(f"{least if below else largest} {above} {literal}")
    return Bounds(f"({' and '.join(wide)})", f"({' and '.join(narrow)})")


def _hashed(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _token(value: Scalar) -> str:
    """Return a text that equal values share; 1, "1" and true differ, 1 and 1.0 do not."""
    if isinstance(value, bool):
        return f"b{value:d}"
    if isinstance(value, str):
        return f"s{_hashed(value)}"
    return f"n{int(value) if value == int(value) else value!r}"


def _numbers(values: list[Scalar]) -> list[float]:
    return [_number(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _number(value: Scalar) -> float:
    """Return a number as float64, rounded."""
    try:
        return max(-_LARGEST, min(_LARGEST, float(value)))
    except OverflowError:
        return _LARGEST if float(str(value)[:1] + "1") > 0 else -_LARGEST


def _hex(text: str) -> str:
    """Return the beginning of a string so that it sorts as its characters do."""
    return text.encode("utf-8", "surrogatepass")[:_COMPARED].hex()
