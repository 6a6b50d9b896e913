"""Find out which column of a file is which: by our names, by the user's, or by the number of columns."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from clickvec.data.parsing.columns import IGNORED, Columns, check_roles, check_width, missing_columns
from clickvec.data.parsing.nested import is_absent
from clickvec.data.parsing.usual_names import Groups, ambiguous, find_usual
from clickvec.errors import ClickvecError

_MAX_CACHED = 100_000  # keys of JSON objects, to limit memory
LOOK_AHEAD = 100  # lines that decide on the columns of a file without a header: the first one alone may be bad

Row = tuple[int, Sequence[str]]  # line number, fields


class Schema(NamedTuple):
    """The columns of one kind of file."""

    columns: tuple[str, ...]  # what a record holds, in this order
    layouts: tuple[tuple[str, ...], ...]  # possible columns of a file without a header, told apart by their number
    aliases: Mapping[str, str] = {}  # other name -> column
    defaults: Mapping[str, str] = {}  # the value of a column that may be absent
    foreign: Mapping[str, str] = {}  # column that only another kind of file has -> what that file is
    optional: tuple[str, ...] = ()  # columns that may be absent or null; without a default, a block has () for them
    lists: tuple[str, ...] = ()  # columns whose fields may be lists; they become JSON
    usual: Mapping[str, Groups] = {}  # other names that a column is known by, if it has none of our names

    def own_names(self, column: str) -> list[str]:
        """Return our names of a column; the first one that a file has is read."""
        return [column, *(alias for alias, name in self.aliases.items() if name == column)]

    def missing(self, present: Collection[str]) -> list[str]:
        """Return the columns that a file must have and that are not present."""
        needed = (column for column in self.columns if column not in self.defaults and column not in self.optional)
        return [column for column in needed if column not in present]

    def other_kind(self, present: Collection[str], names: Collection[str]) -> str | None:
        """Return what a file is if it only looks like one of this kind because a default fills the gap."""
        if all(column in present for column in self.defaults):
            return None
        return next((kind for column, kind in self.foreign.items() if column in names), None)


class Header(NamedTuple):
    """The columns of a table."""

    names: tuple[str, ...]  # of all columns
    at: Mapping[str, int]  # column of the schema -> its index
    lines: int  # 1 if the first line is a header, else 0


def find_header(name: str, head: Sequence[Row], schema: Schema, columns: Columns) -> Header:
    """Find the columns of a table by its first rows. Raise if the header lacks a column that the reader needs."""
    if head:
        number, fields = head[0]
        check_width(name, len(fields))
        header = _by_names(name, number, [field.strip() for field in fields], schema, columns)
        if header:
            return header
    return _by_number(head, schema)


def _by_names(name: str, number: int, fields: list[str], schema: Schema, columns: Columns) -> Header | None:
    """Read the first line as a header. Return None if it is not one and does not have to be."""
    lower = [field.lower() for field in fields]
    position = f"{name}:{number}" if number else name  # a Parquet file has no line for its header
    known = {*schema.columns, *schema.aliases, *chain.from_iterable(schema.layouts)}
    named = {column: columns.names[column].strip().lower() for column in schema.columns if column in columns.names}
    at: dict[str, int] = {}
    twice: list[str] = []
    for column in schema.columns:
        candidates = [*([named[column]] if column in named else []), *schema.own_names(column)]
        chosen = next((candidate for candidate in candidates if candidate in lower), None)
        if chosen is not None and named.get(column) != IGNORED:
            at[column] = lower.index(chosen)
            twice += [chosen] if lower.count(chosen) > 1 else []
    by_usual_name = _by_usual_names(position, fields, at, schema, columns) if columns.header else {}
    at |= by_usual_name
    missing, hits = schema.missing(at), sum(field in known for field in lower) + len(by_usual_name)
    # If the file has no header, a field may be one of our names by chance: a film called Title.
    if not columns.header and (missing or hits < min(2, len(fields))):
        return None
    if missing:
        free = [field for index, field in enumerate(fields) if index not in at.values()]
        raise missing_columns(position, fields, missing, free, header=number > 0 and not hits)
    other_kind = schema.other_kind(at, lower)
    if other_kind:
        raise ClickvecError(f"{position}: {other_kind}")
    if twice:
        raise ClickvecError(f"{position}: the header names {twice[0]} twice; rename one of the columns")
    if named:
        check_roles(position, {column: fields[index] for column, index in at.items()})
    columns.note(name, fields, [column for column, theirs in named.items() if theirs in lower])
    names = tuple(low if low in known else raw for raw, low in zip(fields, lower, strict=True))
    return Header(names, at, 1)


def _by_usual_names(
    position: str, names: Sequence[str], at: Mapping[str, int], schema: Schema, columns: Columns
) -> dict[str, int]:
    """Return the columns that have none of our names and one usual name. Raise if they have several."""
    found: dict[str, int] = {}
    for column, groups in schema.usual.items():
        if column in at or columns.names.get(column) == IGNORED:
            continue
        indexes = find_usual(groups, names, {*at.values(), *found.values()})
        if len(indexes) > 1:
            optional = column in schema.optional or column in schema.defaults
            candidates = [names[index] for index in indexes]
            raise ambiguous(position, column, candidates, optional, columns.of_table)
        if indexes:
            found[column] = indexes[0]
    return found


def _by_number(head: Sequence[Row], schema: Schema) -> Header:
    """Choose the layout of a file without a header: the one that most of its first lines have."""
    layouts = {len(layout): layout for layout in schema.layouts}
    votes = Counter(len(fields) for _, fields in head if len(fields) in layouts)
    names = layouts[votes.most_common(1)[0][0]] if votes else schema.layouts[0] or schema.columns
    own = [schema.aliases.get(name, name) for name in names]
    return Header(names, {column: own.index(column) for column in schema.columns if column in own}, 0)


class Keys:
    """The keys of a schema's columns in the JSON objects of one file."""

    def __init__(self, name: str, schema: Schema, columns: Columns) -> None:
        self._name, self._schema, self._columns = name, schema, columns
        self._names = [(column, schema.own_names(column), columns.names.get(column)) for column in schema.columns]
        self._mapped: set[str] = set()
        self._usual: dict[str, str] = {}  # column -> the usual name that it was found by
        self._error: ClickvecError | None = None  # about the first object, if it lacks columns
        self._complete = False  # whether an object had all the columns that are needed
        self._last: tuple[str, ...] | None = None  # the keys of the last object; most objects have the same
        self._keys: dict[str, str] = {}
        self._cache: dict[tuple[str, ...], dict[str, str]] = {}
        self._cached_names = 0
        self.is_incomplete = False  # whether the last object lacks a column that is needed
        self.other_kind: str | None = None  # what the last object is, if it belongs to another kind of file

    def find(self, number: int, value: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the key of each column of an object. A column once found by the user's name has no other name."""
        names = tuple(value)
        if names != self._last:
            self._keys = self._cached(number, names)
            self._last = names
            self.other_kind = self._schema.other_kind(self._keys, names)
            missing = [] if self._complete else self._schema.missing(self._keys)
            self.is_incomplete = bool(self._schema.missing(self._keys))
            self._complete = not missing
            if missing and self._error is None:
                used = self._keys.values()
                free = [name for name in names if name not in used]
                of_table = self._columns.of_table
                position = self._name if of_table else f"{self._name}:{number}"
                self._error = missing_columns(position, names, missing, free, header=False, of_table=of_table)
        return self._keys

    def _cached(self, number: int, names: tuple[str, ...]) -> dict[str, str]:
        """Look up the keys of an object, or take those of an earlier one with the same names."""
        known = len(self._mapped), len(self._usual)
        if names not in self._cache:
            self._columns.note(self._name, names, ())
            keys = self._look_up(number, names)
            if known != (len(self._mapped), len(self._usual)) or self._cached_names > _MAX_CACHED:
                self._cache.clear()  # another object may be read in another way now
                self._cached_names = 0
            self._cached_names += len(names)
            self._cache[names] = keys
        return self._cache[names]

    def _look_up(self, number: int, names: tuple[str, ...]) -> dict[str, str]:
        keys: dict[str, str] = {}
        lower = {name.lower(): name for name in names}
        for column, own, theirs in self._names:
            if theirs == IGNORED:
                continue
            if theirs is not None and theirs in names:
                keys[column] = theirs
                self._mapped.add(column)
                self._columns.note(self._name, names, (column,))
            elif column not in self._mapped:
                key = next((key for key in own if key in names), None)
                key = key or next((lower[key] for key in own if key in lower), None)
                if key is not None:
                    keys[column] = key
        self._add_usual(number, names, keys)
        if self._mapped:
            check_roles(f"{self._name}:{number}", keys, self._columns.of_table)
        return keys

    def _add_usual(self, number: int, names: tuple[str, ...], keys: dict[str, str]) -> None:
        """Add the keys of columns that have a usual name. If there are several, the first that was found counts."""
        keys |= {column: key for column, key in self._usual.items() if column not in keys and key in names}
        left = {column: groups for column, groups in self._schema.usual.items() if column not in self._mapped}
        schema = self._schema._replace(usual=left)
        at = {column: names.index(key) for column, key in keys.items()}
        try:
            position = self._name if self._columns.of_table else f"{self._name}:{number}"
            found = _by_usual_names(position, names, at, schema, self._columns)
        except ClickvecError:
            if self._last is None:
                raise
            return  # this line lacks a column
        usual = {column: names[index] for column, index in found.items()}
        self._usual = usual | self._usual
        keys |= usual

    def absent(self, flat: Mapping[str, Any]) -> str | None:
        """Return the user's name of a column that is needed and that an object has no value for, inside a list."""
        for column, _, theirs in self._names:
            is_needed = column not in self._schema.defaults and column not in self._schema.optional
            if is_needed and theirs and column not in self._keys and is_absent(theirs, flat):
                return theirs
        return None

    def check(self) -> None:
        """Raise if there were objects and none of them had all the columns that are needed."""
        if self._error and not self._complete:
            raise self._error
