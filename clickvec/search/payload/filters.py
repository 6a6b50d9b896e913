r"""Filters: which documents a search may return, by the fields of their payloads.

    {"country": "cn"}                      equal to a string, a number or a bool
    {"brand": ["a", "b"]}                  equal to any value of a list
    {"price": {"gte": 10, "lt": 20}}       gt, gte, lt, lte: a range of numbers or of strings
    {"brand": {"ne": "a"}}                 has the field, but not this value, or none of a list
    {"brand": {"exists": false}}           has the field, or does not have it
    {"and": [{...}, {...}]}, {"or": [{...}, {...}]}, {"not": {...}}

All conditions of an object must hold. "brand.name" is the field `name` of the object `brand`. A field with several
values matches if one value satisfies the list or the range. A document without the field matches none of these, except
exists: false; `not` matches what its filter does not match. Strings are compared exactly. true, 1 and "1" differ; 1 and
1.0 do not. A field that is called and, or, not, or begins with a backslash, is written with a backslash before it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.search.payload.field_values import MAX_LENGTH, Mask, Scalar
from clickvec.search.payload.fields import Fields
from clickvec.search.payload.filter_language import Condition, Language, Range, Translated, nothing

MAX_DEPTH = 16
MAX_CONDITIONS = 100
MAX_OBJECTS = 1_000  # also of those without conditions
MAX_VALUES = 10_000
_RANGES = ("gt", "gte", "lt", "lte")
_OPERATORS = (*_RANGES, "ne", "exists")


class Filter:
    """Which documents a search may return. Equal filters are equal and hash alike. Make one with `parse_filter`."""

    def __init__(self, root: "_Node") -> None:
        self._root = root

    def mask(self, *parts: Fields) -> Mask:
        """Return for each document of these parts, one after the other, whether it matches."""
        masks = [self._root.mask(part) for part in parts]
        return masks[0] if len(masks) == 1 else np.concatenate([np.zeros(0, np.bool_), *masks])

    def notes(self, *parts: Fields) -> list[str]:
        """Return a sentence for each condition on a field, or on a type of values, that no document has."""
        return list(dict.fromkeys(note for note in (check.note(parts) for check in self._root.conditions()) if note))

    def conditions(self) -> "list[Condition]":
        """Return the conditions on fields, wherever they are in the filter."""
        return self._root.conditions()

    def translate(self, language: Language[Translated]) -> Translated:
        """Return the filter in the language of a database."""
        return _translate(self._root, language)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and repr(self._root) == repr(other._root)  # 1 and True are equal, but differ

    def __hash__(self) -> int:
        return hash(self._root)

    def __repr__(self) -> str:
        return f"Filter({self._root!r})"


def parse_filter(where: Mapping[str, Any] | None) -> Filter | None:
    """Check a filter and return it, or None if it matches everything. Errors name the path, such as where.price.gte."""
    if where is None:
        return None
    parser = _Parser()
    root = parser.filter(where, "where", 1)
    return None if root == _All(()) else Filter(root)


@dataclass(frozen=True)
class _All:
    nodes: "tuple[_Node, ...]"

    def mask(self, fields: Fields) -> Mask:
        mask = np.ones(len(fields), np.bool_)
        for node in self.nodes:
            mask &= node.mask(fields)
        return mask

    def conditions(self) -> list[Condition]:
        return [condition for node in self.nodes for condition in node.conditions()]


@dataclass(frozen=True)
class _Any(_All):
    def mask(self, fields: Fields) -> Mask:
        mask = nothing(fields)
        for node in self.nodes:
            mask |= node.mask(fields)
        return mask


@dataclass(frozen=True)
class _Not:
    node: "_Node"

    def mask(self, fields: Fields) -> Mask:
        return ~self.node.mask(fields)

    def conditions(self) -> list[Condition]:
        return self.node.conditions()


_Node = Condition | _All | _Not


def _translate(node: _Node, language: Language[Translated]) -> Translated:
    if isinstance(node, Condition):
        return language.condition(node)
    if isinstance(node, _Not):
        return language.negated(_translate(node.node, language))
    parts = [_translate(inner, language) for inner in node.nodes]
    return language.any_of(parts) if isinstance(node, _Any) else language.all_of(parts)


class _Parser:
    """Reads a filter and counts what is in it."""

    def __init__(self) -> None:
        self.condition_count = self.value_count = self.object_count = 0

    def filter(self, where: object, path: str, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise ClickvecError(f"the filter is nested more than {MAX_DEPTH} levels deep; write it more simply")
        self.object_count += 1
        if self.object_count > MAX_OBJECTS:
            raise ClickvecError(f"the filter has more than {MAX_OBJECTS:,} objects; write it more simply")
        if not isinstance(where, Mapping):
            raise ClickvecError(f'{path} is {_show(where)}; give an object, such as {{"brand": "acme"}}')
        nodes = [self._node(name, value, path, depth) for name, value in where.items()]
        return nodes[0] if len(nodes) == 1 else _All(tuple(nodes))

    def _node(self, name: object, value: object, path: str, depth: int) -> _Node:
        if not isinstance(name, str):
            raise ClickvecError(f"{path} has the name {_show(name)}; names of fields are strings")
        inner = f"{path}.{name[:80]}"
        if name == "not":
            return _Not(self.filter(value, inner, depth + 1))
        if name in ("and", "or"):
            if not isinstance(value, list | tuple):
                raise ClickvecError(f"{inner} is {_show(value)}; give a list of filters")
            if len(value) > MAX_CONDITIONS:
                raise ClickvecError(f"{inner} has {len(value):,} filters; at most {MAX_CONDITIONS} are allowed")
            nodes = tuple(self.filter(item, f"{inner}[{at}]", depth + 1) for at, item in enumerate(value))
            return _All(nodes) if name == "and" else _Any(nodes)
        self.condition_count += 1
        if self.condition_count > MAX_CONDITIONS:
            raise ClickvecError(f"the filter has more than {MAX_CONDITIONS} conditions; write it more simply")
        field = name[1:] if name.startswith("\\") else name
        if len(field) > MAX_LENGTH:
            raise ClickvecError(f"{inner}... has {len(field):,} characters; names of fields have at most {MAX_LENGTH}")
        if isinstance(value, Mapping):
            return self._operators(field, value, inner)
        return Condition(inner, field, any_of=self._values(value, inner))

    def _operators(self, field: str, value: Mapping[Any, Any], path: str) -> Condition:
        unknown = next((name for name in value if name not in _OPERATORS), None)
        if unknown is not None:
            raise ClickvecError(
                f"{path}.{str(unknown)[:80]} is not an operator; known are {', '.join(_OPERATORS)}. "
                f'For a field of an object, write "{field[:80]}.{str(unknown)[:80]}"'
            )
        if not value:
            raise ClickvecError(f'{path} is empty; give a value or an operator, such as {{"gte": 10}}')
        exists = value.get("exists")
        if "exists" in value and not isinstance(exists, bool):
            raise ClickvecError(f"{path}.exists is {_show(exists)}; give true or false")
        none_of = self._values(value["ne"], f"{path}.ne") if "ne" in value else None
        return Condition(path, field, range=self._range(value, path), none_of=none_of, exists=exists)

    def _range(self, value: Mapping[str, Any], path: str) -> Range | None:
        bounds: dict[str, Scalar] = {}
        for name in (name for name in _RANGES if name in value):
            bound = self._scalar(value[name], f"{path}.{name}")
            if isinstance(bound, bool):
                raise ClickvecError(f"{path}.{name} is {_show(bound)}; a range needs a number or a string")
            other = next(iter(bounds), None)
            if other is not None and isinstance(bounds[other], str) != isinstance(bound, str):
                raise ClickvecError(f"{path}.{other} and {path}.{name} differ in type; give two numbers or two strings")
            bounds[name] = bound
        for one, two in (("gt", "gte"), ("lt", "lte")):
            if one in bounds and two in bounds:
                raise ClickvecError(f"{path} has both {one} and {two}; give one of them")
        if not bounds:
            return None
        low, high = bounds.get("gt", bounds.get("gte")), bounds.get("lt", bounds.get("lte"))
        return Range(low, high, "gt" in bounds, "lt" in bounds)

    def _values(self, value: object, path: str) -> tuple[Scalar, ...]:
        if not isinstance(value, list | tuple):
            return (self._scalar(value, path),)
        if len(value) > MAX_VALUES:
            raise ClickvecError(f"{path} has {len(value):,} values; at most {MAX_VALUES:,} are allowed")
        return tuple(self._scalar(item, f"{path}[{at}]") for at, item in enumerate(value))

    def _scalar(self, value: object, path: str) -> Scalar:
        self.value_count += 1
        if self.value_count > MAX_VALUES:
            raise ClickvecError(f"the filter has more than {MAX_VALUES:,} values; write it more simply")
        if value is None:
            raise ClickvecError(f'{path} is null; for documents without the field, write {{"exists": false}}')
        if isinstance(value, np.generic):
            value = value.item()
        if not isinstance(value, str | bool | int | float):
            raise ClickvecError(f"{path} is {_show(value)}; give a string, a number, true or false")
        if isinstance(value, float) and not math.isfinite(value):
            raise ClickvecError(f"{path} is {value}; give a finite number")
        if isinstance(value, str) and len(value) > MAX_LENGTH:
            raise ClickvecError(f"{path} has {len(value):,} characters; at most {MAX_LENGTH} are allowed")
        return value


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "..."
