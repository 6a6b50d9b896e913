"""The conditions of a filter, and what a database must say about them to have the same filters."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from clickvec.search.payload.field_values import Field, Mask, Scalar
from clickvec.search.payload.fields import Fields

Translated = TypeVar("Translated")


@dataclass(frozen=True)
class Range:
    """Bounds of the same type: number or string."""

    low: Scalar | None = None
    high: Scalar | None = None
    low_open: bool = False
    high_open: bool = False


@dataclass(frozen=True)
class Condition:
    """What one field must satisfy."""

    path: str  # within the filter, for messages
    field: str
    any_of: tuple[Scalar, ...] | None = None
    range: Range | None = None
    none_of: tuple[Scalar, ...] | None = None
    exists: bool | None = None

    def mask(self, fields: Fields) -> Mask:
        """Return the documents that satisfy it."""
        field, checks = fields.get(self.field), []
        if self.any_of is not None:
            checks.append(nothing(fields) if field is None else field.with_codes(_codes(field, self.any_of)))
        if self.range is not None:
            bounds = self.range.low, self.range.high, self.range.low_open, self.range.high_open
            checks.append(nothing(fields) if field is None else field.with_range(*field.between(*bounds)))
        if self.none_of is not None:
            absent = None if field is None else field.with_codes(_codes(field, self.none_of))
            checks.append(nothing(fields) if field is None or absent is None else field.present & ~absent)
        if self.exists is not None:
            present = nothing(fields)
            for inner in fields.within(self.field):
                present |= inner.present
            checks.append(present if self.exists else ~present)
        mask = checks[0]
        for check in checks[1:]:
            mask = mask & check
        return mask

    def conditions(self) -> "list[Condition]":
        """Return this condition."""
        return [self]

    def note(self, parts: tuple[Fields, ...]) -> str | None:
        """Say why no document can match, if so."""
        if self.exists is not None:
            return None
        known = [field for field in (part.get(self.field) for part in parts) if field is not None]
        if not known:
            return f"{self.path}: no document has the field {self.field}"
        if self.range is None:
            return None
        is_text = isinstance(self.range.low if self.range.low is not None else self.range.high, str)
        if any(len(field.strings if is_text else field.numbers) for field in known):
            return None
        if is_text:
            return f"{self.path} compares with text, but {self.field} has no text; compare with numbers, without quotes"
        return (
            f"{self.path} compares with numbers, but all values of {self.field} are text; build the index with "
            f"--numbers {self.field}, or send numbers"
        )


class Language(Protocol[Translated]):
    """How a database writes filters."""

    def condition(self, condition: Condition) -> Translated:
        """Return what one field must satisfy."""

    def all_of(self, parts: list[Translated]) -> Translated:
        """Return what holds if all parts hold; there may be none."""

    def any_of(self, parts: list[Translated]) -> Translated:
        """Return what holds if a part holds; there may be none."""

    def negated(self, part: Translated) -> Translated:
        """Return what holds if a part does not."""


def _codes(field: Field, values: tuple[Scalar, ...]) -> list[int]:
    return [code for code in map(field.code, values) if code is not None]


def nothing(fields: Fields) -> Mask:
    """Return the mask of no document."""
    return np.zeros(len(fields), np.bool_)
