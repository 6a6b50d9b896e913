"""How often readers looked at each pair of a log on disk, in SQL. position_bias.py does the same in memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data.on_disk.log_store import Store, read_batches
from clickvec.data.on_disk.numbering import insert
from clickvec.data.position_bias import (
    LAST_POSITION,
    MAX_ROWS,
    Ints,
    Looks,
    PositionCounts,
    look_units,
    looks_of_units,
    try_propensities,
    units_of_looks,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Keys = Callable[[NDArray[np.int32], NDArray[np.int32]], Ints]

_IS_IMPRESSIONS = "SELECT bool_and(clicks IN (0, 1)) AND bool_or(clicks = 0) FROM lines WHERE line >= 0"
_PLACE = f"least(position, {LAST_POSITION})"
_SHOWN_AT = f"SELECT {_PLACE}, count(*) FROM lines WHERE line >= 0 GROUP BY {_PLACE}"
_SEEN = f"""SELECT query, title, {_PLACE}, count(*), count(*) FILTER (clicks > 0)
    FROM lines SEMI JOIN (SELECT query, title FROM lines WHERE clicks > 0) USING (query, title)
    WHERE line >= 0 GROUP BY query, title, {_PLACE}"""
_MOVED = f"""SELECT key, position, shown, clicked FROM seen WHERE position > 0 AND key IN
    (SELECT key FROM seen WHERE position > 0 GROUP BY key HAVING count(*) > 1 AND sum(clicked) > 0)
    ORDER BY key, position LIMIT {MAX_ROWS + 1}"""
_SUMS = """SELECT CAST(sum(units) AS DOUBLE) FROM
    (SELECT key, shown * units AS units FROM seen JOIN units USING (position) UNION ALL FROM looks_before
    UNION ALL SELECT key, 0 FROM pairs) GROUP BY key ORDER BY key"""


def looks_of_store(store: Store, keys: Keys, before: Ints, looks_before: Looks | None) -> Looks | None:
    """Return the looks at each pair of the table `pairs`, in the order of the keys; None if they are not known.

    `keys` gives the keys of queries and titles. `before` has the keys of the pairs that the log is appended to.
    """
    database = store.database
    if not store.has_positions or (len(before) and looks_before is None):
        return None
    if not database.execute(_IS_IMPRESSIONS).fetchall()[0][0]:
        return None
    _fill_seen(database, keys)
    columns = [np.concatenate(parts) for parts in zip(*read_batches(database, _MOVED), strict=True)]
    propensities = (
        try_propensities(PositionCounts(*(column.astype(np.int64) for column in columns))) if columns else None
    )
    if propensities is None:
        return None
    shown_at = np.array(sorted(database.execute(_SHOWN_AT).fetchall()), np.int64).reshape(-1, 2)
    units = look_units(propensities, np.bincount(shown_at[:, 0], shown_at[:, 1]).astype(np.int64))
    _insert(database, "units", position=np.arange(len(units), dtype=np.int32), units=units)
    old = np.zeros(0, np.int64) if looks_before is None else units_of_looks(looks_before).astype(np.int64)
    _insert(database, "looks_before", key=before, units=old)
    (total,) = (np.concatenate(parts) for parts in zip(*read_batches(database, _SUMS), strict=True))
    return looks_of_units(total)


def _fill_seen(database: "DuckDBPyConnection", keys: Keys) -> None:
    database.execute(
        "CREATE TABLE seen (key BIGINT, position INTEGER, shown BIGINT, clicked BIGINT);"
        "CREATE TABLE units (position INTEGER, units BIGINT); CREATE TABLE looks_before (key BIGINT, units BIGINT)"
    )
    for query, title, position, shown, clicked in read_batches(database, _SEEN):
        _insert(database, "seen", key=keys(query, title), position=position, shown=shown, clicked=clicked)


def _insert(database: "DuckDBPyConnection", table: str, **columns: NDArray[Any]) -> None:
    import pyarrow

    insert(database, table, pyarrow.table(columns))
