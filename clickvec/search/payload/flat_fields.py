"""The fields of one payload as a flat object, which databases can filter: {"brand.name": ["acme"], "brand": []}.

Each path of `fields.py` has the list of its distinct values. The objects on the way have an empty list, so that a field
exists if its path is there.
"""

from typing import Any

from clickvec.search.payload.field_values import MAX_LENGTH, Scalar
from clickvec.search.payload.fields import payload_values


def flat_fields(payload: Any) -> dict[str, list[Scalar]]:  # noqa: ANN401
    """Return the distinct values of each path of a payload. A payload that is not an object has none."""
    if not isinstance(payload, dict):
        return {}
    distinct: dict[str, dict[tuple[bool, Scalar], Scalar]] = {}
    for path, value in payload_values(payload):
        if len(path) > MAX_LENGTH:
            continue
        if isinstance(value, str):
            value = value[: MAX_LENGTH + 1]
        distinct.setdefault(path, {}).setdefault((isinstance(value, bool), value), value)
    fields = {path: list(values.values()) for path, values in distinct.items()}
    for path in list(fields):
        while "." in path:
            path = path.rpartition(".")[0]
            fields.setdefault(path, [])
    return fields
