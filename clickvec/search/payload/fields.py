"""The payload fields of documents, as columns that filters and facets read.

A field has a path: "price", or "brand.name" within nested objects. Its values are strings, numbers and bools. A list
gives several values, also a list of objects. null, an empty list and an empty object give none. A path has at most 256
characters. Strings are cut after 257, one more than a filter may have, so no comparison can tell.
"""

import functools
import json
import logging
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.search.payload.field_values import MAX_LENGTH, Field, Numbers, Scalar, Texts, make_field
from clickvec.storage.json_files import parse_json

MAX_FIELDS = 1_000  # further fields, in order of appearance, cannot be filtered
_SMALL = 64  # documents of the last part of `GrowingFields`, which are read again with each addition
_DTYPES = {  # of the stored arrays: codes of fields with at most 255 values, and of others; and what they refer to
    "bytes": np.uint8, "codes": np.int32, "rows": np.int32,
    "numbers": np.float64, "offsets": np.int64, "texts": np.uint8,
}  # fmt: skip

_log = logging.getLogger(__name__)


@functools.cache  # once in each process: every addition to an index reads some payloads again
def _warn_of_fields(most: int) -> None:
    _log.warning("the payloads have more than %d fields; those that come later cannot be filtered", most)


class Fields:
    """The payload fields of `count` documents. It never changes."""

    def __init__(self, count: int, fields: Mapping[str, Field], is_complete: bool = True) -> None:
        """Use `build` or `from_arrays`."""
        self.count, self._fields, self.is_complete = count, dict(fields), is_complete

    @classmethod
    def build(cls, payloads: Iterable[Any]) -> "Fields":
        """Collect the fields of payloads, one for each document; a payload that is not an object has none."""
        columns: dict[str, _Column] = {}
        is_complete, row = True, -1
        for row, payload in enumerate(payloads):
            if not isinstance(payload, dict):
                continue
            for path, value in payload_values(payload):
                column = columns.get(path)
                if column is None:
                    if len(path) > MAX_LENGTH:  # a filter cannot name it
                        continue
                    if len(columns) == MAX_FIELDS:
                        is_complete = False
                        continue
                    column = columns[path] = _Column()
                column.add(row, value)
        if not is_complete:
            _warn_of_fields(MAX_FIELDS)
        return cls(row + 1, {path: column.field(row + 1) for path, column in columns.items()}, is_complete)

    def __len__(self) -> int:
        """Return the number of documents."""
        return self.count

    def __iter__(self) -> Iterator[str]:
        """Yield the paths of the fields."""
        return iter(self._fields)

    def get(self, path: str) -> Field | None:
        """Return a field, or None if no document has it. Raise if that is not known, since there are too many."""
        field = self._fields.get(path)
        if field is None and not self.is_complete:
            raise ClickvecError(
                f"the payloads have more than {MAX_FIELDS:,} fields, and {path!r} is not among those that are kept; "
                "use fewer field names"
            )
        return field

    def within(self, path: str) -> list[Field]:
        """Return a field and those of the objects in it."""
        return [field for name, field in self._fields.items() if name == path or name.startswith(f"{path}.")]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as a few arrays, to be stored."""
        about: dict[str, Any] = {"count": self.count, "complete": self.is_complete, "fields": {}}
        blocks: dict[str, list[NDArray[Any]]] = {name: [np.zeros(0, dtype)] for name, dtype in _DTYPES.items()}
        ends = dict.fromkeys(_DTYPES, 0)

        def put(name: str, values: NDArray[Any]) -> tuple[str, int, int]:
            blocks[name].append(values)
            ends[name] += len(values)
            return name, ends[name] - len(values), ends[name]

        for path, field in self._fields.items():
            about["fields"][path] = {
                "codes": put("bytes" if field.codes.dtype == np.uint8 else "codes", field.codes),
                "rows": None if field.rows is None else put("rows", field.rows),
                "numbers": put("numbers", field.numbers.values),
                "large": (put("offsets", field.numbers.large.offsets), put("texts", field.numbers.large.content)),
                "strings": (put("offsets", field.strings.offsets), put("texts", field.strings.content)),
            }
        encoded = np.frombuffer(json.dumps(about).encode(), np.uint8)
        return {"about": encoded} | {name: np.concatenate(parts) for name, parts in blocks.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Fields":
        """Return the fields of stored arrays, which may be memory-mapped. Use `check` before they are read.

        Raise ValueError if an array is missing or has another type.
        """
        try:
            about = parse_json(arrays["about"].tobytes())
            count = int(about["count"])

            def take(where: tuple[str, int, int], *names: str) -> NDArray[Any]:
                name, first, end = where
                if name not in names or arrays[name].dtype != _DTYPES[name] or arrays[name].ndim != 1:
                    raise ValueError(f"{name} has another type")
                if not 0 <= first <= end <= len(arrays[name]):
                    raise ValueError(f"{name} from {first} to {end}")
                return arrays[name][first:end]

            def texts(where: Sequence[tuple[str, int, int]]) -> Texts:
                return Texts(take(where[1], "texts"), take(where[0], "offsets"))

            fields = {
                path: Field(
                    count,
                    take(entry["codes"], "bytes", "codes"),
                    None if entry["rows"] is None else take(entry["rows"], "rows"),
                    Numbers(take(entry["numbers"], "numbers"), texts(entry["large"])),
                    texts(entry["strings"]),
                )
                for path, entry in about["fields"].items()
            }
            return cls(count, fields, bool(about["complete"]))
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ValueError(f"the payload fields are damaged ({error})") from None

    def check(self, count: int) -> None:
        """Read all arrays. Raise ValueError if they are not of `count` documents or do not fit each other."""
        if self.count != count:
            raise ValueError(f"the fields are those of {self.count} documents instead of {count}")
        for path, field in self._fields.items():
            try:
                field.check()
            except ValueError as error:
                raise ValueError(f"the field {path!r:.100}: {error}") from None


class GrowingFields:
    """The fields of documents that are added while others search. `parts` is replaced, never changed.

    A new part is merged with the last ones that are not larger, so there are few parts, and each document is read
    again only a few times.
    """

    def __init__(self) -> None:
        self._payloads: list[list[Any]] = []
        self.parts: tuple[Fields, ...] = ()

    def __len__(self) -> int:
        """Return the number of documents."""
        return sum(map(len, self.parts))

    def add(self, payloads: Iterable[Any]) -> None:
        """Add the payloads of further documents."""
        block = list(payloads)
        while self._payloads and (len(self._payloads[-1]) <= len(block) or len(self._payloads[-1]) < _SMALL):
            block = self._payloads.pop() + block
        kept = self.parts[: len(self._payloads)]
        if block:
            self._payloads.append(block)
            self.parts = (*kept, Fields.build(block))


class FieldKinds(NamedTuple):
    """What kinds of values a field has."""

    texts: int = 0  # about how many different ones
    numbers: int = 0
    has_bools: bool = False
    minimum: float | None = None  # of the numbers
    maximum: float | None = None

    @property
    def is_number(self) -> bool:
        """Whether all values are numbers."""
        return not self.texts and not self.has_bools


def field_kinds(parts: Sequence[Fields]) -> dict[str, FieldKinds]:
    """Return what kinds of values each field has. Parts share values, so the counts are those of the largest part."""
    found: dict[str, FieldKinds] = {}
    for part in parts:
        for path in part:
            field = part.get(path)
            if field is not None:
                old = found.get(path, FieldKinds())
                ends = [] if not len(field.numbers) else field.numbers.values[[0, -1]].tolist()
                ends += [end for end in old[3:] if end is not None]
                found[path] = FieldKinds(
                    max(old.texts, len(field.strings)),
                    max(old.numbers, len(field.numbers)),
                    old.has_bools or field.has_bools(),
                    min(ends, default=None),
                    max(ends, default=None),
                )
    return found


class _Column:
    """A field while documents are read: its values are numbered in order of appearance."""

    def __init__(self) -> None:
        self.codes, self.rows = array("i"), array("i")
        self.numbers: defaultdict[Any, int] = defaultdict()
        self.numbers.default_factory = self.numbers.__len__

    def add(self, row: int, value: Scalar) -> None:
        if type(value) is str:
            code = self.numbers[value if len(value) <= MAX_LENGTH else value[: MAX_LENGTH + 1]]
        else:
            code = self.numbers[(value,) if value is True or value is False else value]
        self.codes.append(code)
        self.rows.append(row)

    def field(self, count: int) -> Field:
        codes, rows = (np.frombuffer(values, np.int32).astype(np.int64) for values in (self.codes, self.rows))
        return make_field(count, list(self.numbers), codes, rows)


def payload_values(payload: dict[str, Any]) -> list[tuple[str, Scalar]]:
    """Return the values within a payload, and the path of each."""
    values: list[tuple[str, Scalar]] = []
    _values(payload, "", values)
    return values


def _values(value: dict[str, Any] | Sequence[Any], path: str, out: list[tuple[str, Scalar]]) -> None:
    """Append the values within a payload, and the path of each."""
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        items: Iterable[tuple[str, Any]] = ((f"{prefix}{name}", item) for name, item in value.items())
    else:
        items = ((path, item) for item in value)
    for inner, item in items:
        kind = type(item)
        if kind is str or kind is int or kind is bool or (kind is float and item == item):
            out.append((inner, item))
        elif kind is dict or kind is list or kind is tuple:
            _values(item, inner, out)
