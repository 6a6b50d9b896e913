"""Tables that a program gives in place of a file: a DataFrame, a Table of Arrow, lists of dicts or of tuples.

Their rows become objects of JSON values, as the lines of a JSON file do, so that every reader treats them as it treats
files. No library of tables is imported: pandas and polars are known by their methods, and what offers the Arrow stream
protocol is read with pyarrow.
"""

import datetime
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clickvec.data.parsing.columns import check_width
from clickvec.errors import ClickvecError, missing_extra

ROWS_AT_ONCE = 8192
_MISSING = {"NaTType", "NAType"}  # pandas has values of its own for what is missing
_PLAIN = {str, int, bool, type(None)}

Layouts = Sequence[tuple[str, ...]]  # the columns that a tuple may have, told apart by their number
Row = dict[str, Any]


def is_table(given: object) -> bool:
    """Tell whether an argument is a table: not a path, a list of paths or of texts, or a reader's result."""
    if isinstance(given, list | tuple | np.ndarray):
        if hasattr(given, "_fields") or not len(given):
            return False
        is_list_of_tables = isinstance(given[0], list | tuple) and is_table(given[0])
        return _is_row(given[0]) and not is_list_of_tables
    return bool(_frame_kind(given))


def table_name(given: object) -> str:
    """Return the name of a table in messages."""
    kind = _frame_kind(given)
    return f"the {type(given).__name__}" if kind and kind != "dict" else "the list" if not kind else "the dict"


def table_rows(
    given: Any,  # noqa: ANN401
    name: str,
    layouts: Layouts,
    kept: tuple[type, ...] = (),
) -> Iterator[Any]:
    """Yield the rows of a table as objects of JSON values; what is missing is None. `kept` types stay as they are."""
    kind = _frame_kind(given)
    if not kind:
        for number, row in enumerate(given):
            yield row if isinstance(row, kept) else _row(row, f"{name}[{number}]", layouts)
        return
    for block in frame_blocks(given, name):
        yield from block.rows(name)


class Block(NamedTuple):
    """Some rows of a table with columns, as it holds them."""

    names: list[str]
    columns: list[list[Any]]

    def top(self) -> list[list[Any]]:
        """Return the columns of the first row alone."""
        return [values[:1] for values in self.columns]

    def column(self, at: int, name: str) -> list[Any]:
        """Return the JSON values of a column."""
        values = self.columns[at]
        plain = _PLAIN.issuperset(map(type, values))
        return values if plain else [cell(value, f"{name}: the column {self.names[at]}") for value in values]

    def rows(self, name: str) -> list[Row]:
        """Return the rows as objects of JSON values."""
        cells = [self.column(at, name) for at in range(len(self.names))]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*cells, strict=True)]


def has_columns(given: object) -> bool:
    """Tell whether a table has columns of its own, unlike a list of rows."""
    return bool(_frame_kind(given))


def frame_blocks(given: Any, name: str) -> Iterator[Block]:  # noqa: ANN401
    """Yield some thousand rows of a table with columns at a time."""
    return (Block(names, columns) for names, columns in _blocks(given, _frame_kind(given), name))


def _frame_kind(given: object) -> str:
    """Return which kind of table with columns an argument is, "" for none."""
    if isinstance(given, Mapping):
        return "dict" if all(_is_column(values) for values in given.values()) and given else ""
    if hasattr(given, "collect_schema") and hasattr(given, "collect"):
        return "lazy"
    if hasattr(given, "iter_slices") and hasattr(given, "get_columns"):
        return "polars"
    if hasattr(given, "iloc") and hasattr(given, "columns"):
        return "pandas"
    is_arrow = hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    has_columns = any(hasattr(given, name) for name in ("column_names", "columns", "schema"))
    return "arrow" if is_arrow and has_columns else ""


def _is_column(values: object) -> bool:
    return not isinstance(values, str | bytes | Mapping) and hasattr(values, "__len__") and hasattr(values, "__iter__")


def _is_row(row: object) -> bool:
    is_row = isinstance(row, Mapping | tuple | list | np.ndarray) or hasattr(row, "keys")
    is_result = type(row).__module__.startswith("clickvec.")  # a named tuple that a reader returns, such as Title
    return is_row and not is_result and _frame_kind(row) in ("", "dict")


def _row(row: Any, position: str, layouts: Layouts) -> Row:  # noqa: ANN401
    """Return a dict, or a tuple whose columns are told by its number of values, as an object of JSON values."""
    if isinstance(row, Mapping) or hasattr(row, "keys"):
        names, values = list(row.keys()), [row[key] for key in row.keys()]  # noqa: SIM118 - a row of sqlite3
        if any(not isinstance(name, str) for name in names):
            raise ClickvecError(f"{position} has a key that is no str; the keys are names of columns")
    elif isinstance(row, tuple) and hasattr(row, "_fields"):
        names, values = list(row._fields), list(row)
    elif isinstance(row, tuple | list | np.ndarray):
        values = list(row)
        names = list(next((layout for layout in layouts if len(layout) == len(values)), ()))
        if len(names) != len(values):
            known = " or ".join(f"({', '.join(layout)})" for layout in layouts)
            raise ClickvecError(f"{position} has {len(values)} values; a tuple is {known}; for others give dicts")
    else:
        raise ClickvecError(f"{position} is of type {type(row).__name__}; each row is a dict or a tuple")
    return {name: cell(value, f"{position}: the field {name}") for name, value in zip(names, values, strict=True)}


def _blocks(given: Any, kind: str, name: str) -> Iterator[tuple[list[str], list[Any]]]:  # noqa: ANN401
    """Yield the names of the columns, and the values of each column in some thousand rows."""
    if kind == "dict":
        lengths = {key: len(values) for key, values in given.items()}
        if len(set(lengths.values())) > 1:
            raise ClickvecError(f"{name} has columns of different lengths: {_listed(lengths)}")
        names, columns = _names(list(given), name), list(given.values())
        for start in range(0, next(iter(lengths.values())), ROWS_AT_ONCE):
            yield names, [list(values[start : start + ROWS_AT_ONCE]) for values in columns]
    elif kind in ("lazy", "polars"):
        frame = given.collect() if kind == "lazy" else given
        names = _names(frame.columns, name)
        for part in frame.iter_slices(ROWS_AT_ONCE):
            yield names, [column.to_list() for column in part.get_columns()]
    elif kind == "pandas":
        levels = [level for level in given.index.names if level is not None and level not in list(given.columns)]
        names = _names([*levels, *given.columns], name)  # a named index is a column
        for start in range(0, len(given), ROWS_AT_ONCE):
            part = given.iloc[start : start + ROWS_AT_ONCE]
            yield (
                names,
                [
                    *(part.index.get_level_values(level).tolist() for level in levels),
                    *(part.iloc[:, at].tolist() for at in range(part.shape[1])),
                ],
            )
    else:
        for batch in _arrow_batches(given):
            names = _names(batch.schema.names, name)
            for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                part = batch.slice(start, ROWS_AT_ONCE)
                yield names, [column.to_pylist() for column in part.columns]


def _arrow_batches(given: Any) -> Iterator[Any]:  # noqa: ANN401
    try:
        import pyarrow as pa
    except ImportError:
        raise missing_extra("pyarrow", "data") from None
    if hasattr(given, "__arrow_c_stream__"):
        # A stream of a database may block its connection until it is read to the end.
        stays = isinstance(given, pa.Table | pa.RecordBatch | pa.RecordBatchReader)
        yield from pa.RecordBatchReader.from_stream(given if stays else pa.table(given))
    else:
        yield pa.record_batch(given)


def _names(columns: Sequence[Any], name: str) -> list[str]:
    """Return the names of columns as texts. Raise if two are the same."""
    check_width(name, len(columns))
    names = [".".join(map(str, column)) if isinstance(column, tuple) else str(column) for column in columns]
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise ClickvecError(f"{name} has two columns called {twice}; rename one of them")
    return names


def cell(value: Any, position: str) -> Any:  # noqa: ANN401
    """Return a value as JSON has it. NaN, NaT and the like are None, and a time is a text in ISO 8601."""
    if type(value) in _PLAIN or type(value).__name__ in _MISSING:
        return value if type(value) in _PLAIN else None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, np.generic):
        return cell(value.item(), position)
    if isinstance(value, float | Decimal):
        if math.isinf(value):
            raise ClickvecError(f"{position} holds {value}; give a finite number, or None")
        return None if math.isnan(value) else float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {str(name): cell(inner, position) for name, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [cell(inner, position) for inner in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return _decoded(value, position)
    if isinstance(value, datetime.timedelta | uuid.UUID | Path):
        return str(value)
    raise ClickvecError(
        f"{position} holds a value of type {type(value).__name__}; use texts, numbers, truth values and times, or "
        "lists and dicts of them"
    )


def is_missing(value: Any) -> bool:  # noqa: ANN401
    """Tell whether a value is one by which pandas or NumPy say that there is none: NaN, NaT or NA, and not None."""
    if isinstance(value, float | Decimal):
        return math.isnan(value)
    is_no_time = isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))
    return type(value).__name__ in _MISSING or is_no_time or (isinstance(value, np.floating) and bool(np.isnan(value)))


def _decoded(value: bytes, position: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ClickvecError(f"{position} holds bytes that are not UTF-8; decode them") from None


def _listed(lengths: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} has {length:,}" for name, length in list(lengths.items())[:5])
