"""Filters on the payload as SQL, on the flat fields of a document. Values are parameters, never part of the text."""

import json
from typing import Any

from clickvec.search.engines.postgres_copy import check_text
from clickvec.search.payload.field_values import Scalar
from clickvec.search.payload.filter_language import Condition, Range

_FEW = 8  # values that the index on the fields looks up one by one


class Parameters(dict[str, Any]):
    """The values of a statement, by name."""

    def add(self, value: Any) -> str:  # noqa: ANN401
        """Keep a value and return its placeholder."""
        name = f"p{len(self)}"
        self[name] = value
        return f"%({name})s"


class SqlFilter:
    """Writes a filter as a condition on the column `fields` of the documents, as `Filter.translate` asks for it."""

    def __init__(self, parameters: Parameters) -> None:
        """Keep the values of the filter in these parameters."""
        self._add = parameters.add

    def condition(self, condition: Condition) -> str:
        """Return what one field must satisfy."""
        field = condition.field
        if not _storable(field):  # no document can have such a field
            return "TRUE" if condition.exists is False and _is_alone(condition) else "FALSE"
        checks = []
        if condition.any_of is not None:
            checks.append(self._has_one(field, condition.any_of))
        if condition.range is not None:
            checks.append(self._within(field, condition.range, condition.path))
        if condition.none_of is not None:
            present = f"coalesce(jsonb_array_length(d.fields -> {self._add(field)}), 0) > 0"
            checks.append(f"({present} AND NOT {self._has_one(field, condition.none_of)})")
        if condition.exists is not None:
            checks.append(f"({'' if condition.exists else 'NOT '}d.fields ? {self._add(field)})")
        return self.all_of(checks)

    def all_of(self, parts: list[str]) -> str:
        """Return what holds if all parts hold."""
        return f"({' AND '.join(parts)})" if parts else "TRUE"

    def any_of(self, parts: list[str]) -> str:
        """Return what holds if a part holds."""
        return f"({' OR '.join(parts)})" if parts else "FALSE"

    def negated(self, part: str) -> str:
        """Return what holds if a part does not."""
        return f"(NOT {part})"

    def _has_one(self, field: str, values: tuple[Scalar, ...]) -> str:
        values = tuple(value for value in values if not isinstance(value, str) or _storable(value))
        if len(values) <= _FEW:
            each = [f"d.fields @> {self._add(json.dumps({field: [value]}))}::jsonb" for value in values]
            return self.any_of(each)
        listed = self._add([json.dumps(value) for value in values])
        elements = f"jsonb_array_elements(d.fields -> {self._add(field)})"
        return f"EXISTS (SELECT 1 FROM {elements} AS e(v) WHERE e.v = ANY({listed}::jsonb[]))"

    def _within(self, field: str, bounds: Range, path: str) -> str:
        conditions, values = [], {}
        for name, bound, is_open, sign in (
            ("low", bounds.low, bounds.low_open, ">"),
            ("high", bounds.high, bounds.high_open, "<"),
        ):
            if bound is not None:
                if isinstance(bound, str):
                    check_text(bound, f"the bound of {path}")
                conditions.append(f"@ {sign}{'' if is_open else '='} ${name}")
                values[name] = bound
        variables = self._add(json.dumps(values))
        jsonpath = f"$[*] ? ({' && '.join(conditions)})"
        return (
            f"coalesce(jsonb_path_exists(d.fields -> {self._add(field)}, {self._add(jsonpath)}::jsonpath, "
            f"{variables}::jsonb), FALSE)"
        )


def _storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def _is_alone(condition: Condition) -> bool:
    return condition.any_of is None and condition.range is None and condition.none_of is None
