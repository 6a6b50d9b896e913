"""Read JSON that may be hostile: bounded size and depth, finite numbers, fields of the right type.

All JSON of model, index, data and run folders is read here, and so are the headers of safetensors files.
"""

import hashlib
import json
import math
import types
from typing import Any, BinaryIO, TypeVar, Union, get_args, get_origin, get_type_hints

MAX_BYTES = 16_000_000  # our own files stay far below a megabyte
MAX_DEPTH = 64

Fields = TypeVar("Fields")


def parse_json(data: bytes | str, max_bytes: int = MAX_BYTES) -> Any:  # noqa: ANN401
    """Parse JSON. Raise ValueError if it is malformed, too long or too deep, or if a number is not finite."""
    if len(data) > max_bytes:
        raise ValueError(f"the JSON has {len(data):,} bytes, more than {max_bytes:,}")
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
        value = _DECODER.decode(text)
        # Text with few brackets cannot be deep, so most values need no walk.
        brackets = (b"{", b"[") if isinstance(data, bytes) else ("{", "[")
        is_deep = sum(map(data.count, brackets)) > MAX_DEPTH and _depth(value) > MAX_DEPTH  # type: ignore[arg-type]
    except RecursionError:
        is_deep = True
    if is_deep:
        raise ValueError(f"the JSON is nested more than {MAX_DEPTH} levels deep")
    return value


def json_hash(value: object) -> str:
    """Return a hash of plain values: 32 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:32]


def read_json_object(file: BinaryIO, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read a JSON object from the rest of a file. Raise ValueError as `parse_json` does."""
    value = parse_json(file.read(max_bytes + 1), max_bytes)
    if not isinstance(value, dict):
        raise ValueError("it does not hold a JSON object")
    return value


def to_dataclass(cls: type[Fields], value: object) -> Fields:
    """Make a dataclass from a JSON object. Raise ValueError naming a field that is missing, unknown or mistyped."""
    if not isinstance(value, dict):
        raise ValueError("it does not hold a JSON object")
    hints = get_type_hints(cls)
    for name, item in value.items():
        if not _has_type(item, hints.get(name, Any)):
            raise ValueError(f"{name} is {str(item)[:40]!r}, which has the wrong type")
    try:
        return cls(**value)
    except TypeError as error:  # a field is missing or unknown
        raise ValueError(str(error)) from None


def _has_type(value: object, hint: Any) -> bool:  # noqa: ANN401
    """Return whether a JSON value has a type. A whole number is a float too, and a bool is not a number."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_has_type(value, part) for part in parts)
    if origin is list:
        return isinstance(value, list) and all(_has_type(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(_has_type(item, parts[1]) for item in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is hint


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)  # json.loads would make one each time


def _depth(value: object) -> int:
    """Return how deep lists and objects are nested."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)
