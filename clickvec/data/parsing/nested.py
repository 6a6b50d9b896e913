"""Nested values under dotted names: an object inside an object, lists of objects, and lists of keys with values.

The field `item_id` of the objects in a list `items` is `items.item_id`, and each object of the list makes one row. In a
list of keys and values, as analytics exports have it, each key names a field: `event_params.search_term`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from clickvec.errors import ClickvecError

_PAIR = {"key", "value"}


class Elements(list[Any]):
    """One field of all objects in a list: `of` is the name of the list, and None is in place of an absent field."""

    def __init__(self, of: str, values: Sequence[Any]) -> None:
        super().__init__(values)
        self.of = of


def flatten(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with its inner fields under dotted names. A hit of OpenSearch is its source."""
    if {dict, list}.isdisjoint(map(type, value.values())):
        return value
    source = value.get("_source")
    if isinstance(source, dict) and "_index" in value:
        return flatten(source)
    flat: dict[str, Any] = {}
    for name, item in value.items():
        inner = _fields(item)
        if inner:
            for key, cell in inner.items():
                is_list = isinstance(cell, Elements)
                flat[f"{name}.{key}"] = Elements(f"{name}.{cell.of}".rstrip("."), cell) if is_list else cell
        else:
            flat[name] = item
    return flat


def _fields(item: Any) -> Mapping[str, Any]:  # noqa: ANN401
    """Return the fields inside a value, none if it is no object and no list of objects."""
    if isinstance(item, dict):
        return flatten(item)
    if not (isinstance(item, list) and item and all(type(element) is dict for element in item)):
        return {}
    if all(element.keys() >= _PAIR and type(element["key"]) is str for element in item):
        return {element["key"]: _value_of(element["value"]) for element in item}
    elements = list(map(flatten, item))
    names = dict.fromkeys(name for element in elements for name in element)
    return {name: Elements("", [element.get(name) for element in elements]) for name in names}


def _value_of(value: Any) -> Any:  # noqa: ANN401
    """Return the value of a key: of {string_value, int_value, ...}, the one that is there."""
    if isinstance(value, dict):
        return next((inner for inner in value.values() if inner is not None), None)
    return value


def list_of(position: str, flat: Mapping[str, Any], keys: Mapping[str, str]) -> str | None:
    """Return the list that some of the wanted fields are in, None if they are in none. Raise if they are in several."""
    lists = {cell.of for key in keys.values() if isinstance(cell := flat[key], Elements)}
    if len(lists) > 1:
        raise ClickvecError(
            f"{position}: {' and '.join(sorted(lists))} are two lists, whose elements do not belong together; name "
            "columns of one of them"
        )
    return next(iter(lists), None)


def rows_of(position: str, flat: Mapping[str, Any], keys: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Yield the wanted fields of an object: one row, or one for each element if some of them are in a list."""
    if list_of(position, flat, keys) is None:
        yield flat
        return
    wanted = {key: flat[key] for key in keys.values()}
    length = next(len(cell) for cell in wanted.values() if isinstance(cell, Elements))
    for at in range(length):
        yield {key: cell[at] if isinstance(cell, Elements) else cell for key, cell in wanted.items()}


def payloads_of(value: Mapping[str, Any], used: Collection[str], within: str | None) -> Iterator[dict[str, Any]]:
    """Yield an object without the fields that are used, once for each element of the list `within`, if there is one."""
    if within is None:
        yield _without(value, used, "")
        return
    name, _, rest = within.partition(".")
    others = {key: inner for key, inner in value.items() if key != name}
    inner = value[name]
    parts = inner if not rest else [{rest: part} for part in _at(inner, rest)]
    for element in parts:
        yield _without({**others, name: element}, used, "")


def _at(value: Mapping[str, Any], name: str) -> list[Any]:
    for part in name.split("."):
        value = value[part]
    return list(value)


def _without(value: Mapping[str, Any], used: Collection[str], prefix: str) -> dict[str, Any]:
    left: dict[str, Any] = {}
    for name, inner in value.items():
        path = f"{prefix}{name}"
        if path in used:
            continue
        if isinstance(inner, dict) and any(other.startswith(f"{path}.") for other in used):
            inner = _without(inner, used, f"{path}.")
            if not inner:
                continue
        left[name] = inner
    return left


def is_absent(name: str, flat: Mapping[str, Any]) -> bool:
    """Tell whether a field with a dotted name is missing because what holds it is there, and is empty or lacks it."""
    parts = name.split(".")
    for length in range(1, len(parts)):
        prefix = ".".join(parts[:length])
        if prefix in flat:
            return flat[prefix] is None or flat[prefix] == []
        if any(other.startswith(f"{prefix}.") for other in flat):
            return True
    return False
