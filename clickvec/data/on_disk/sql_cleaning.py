"""The rules of cleaning.py for a log on disk, in SQL.

Lines with a negative number are never dropped: those of a data folder that the log is appended to, and judged ones.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clickvec.data.cleaning import HOUR, NO_CLIENT, Cleaning, CleaningReport, Dropped, hash_clients
from clickvec.data.on_disk.log_store import Store
from clickvec.data.on_disk.numbering import insert

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BOTS = f"""SELECT client FROM
    (SELECT DISTINCT client, query, time FROM lines WHERE line >= 0 AND client <> {NO_CLIENT})
    GROUP BY client, time // {HOUR} HAVING count(*) > {{}}"""
_REPEATED = f"""SELECT line FROM (SELECT line,
    time - lag(time) OVER (PARTITION BY client, query, title ORDER BY time, line) AS gap
    FROM lines WHERE line >= 0 AND clicks > 0 AND client <> {NO_CLIENT}) WHERE gap <= {{}}"""
_KNOWN = "SELECT query FROM lines WHERE line < 0 AND clicks > 0"
_FEW_CLIENTS = f"""SELECT query FROM (SELECT query, client FROM lines WHERE line >= 0 GROUP BY query, client)
    WHERE query NOT IN ({_KNOWN}) GROUP BY query HAVING count(*) FILTER (client <> {NO_CLIENT}) < {{}}"""
_FEW_CLICKS = f"""SELECT query FROM lines WHERE line >= 0 AND query NOT IN ({_KNOWN})
    GROUP BY query HAVING sum(clicks) < {{}}"""


def clean_store(store: Store, rules: Cleaning, report: CleaningReport) -> None:
    """Drop lines from a finished store, and add to the report what each rule dropped."""
    before = _left(store.database)
    for rule, column in _dropped(store, rules):
        where = f"lines.line >= 0 AND lines.{column} = dropped.{column}"
        store.database.execute(f"CREATE TABLE kept AS FROM lines ANTI JOIN dropped ON {where}")
        store.database.execute("DROP TABLE lines; DROP TABLE dropped; ALTER TABLE kept RENAME TO lines")
        after = _left(store.database)
        report.dropped.append(Dropped(rule, before[0] - after[0], before[1] - after[1]))
        before = after
    store.count_clicked()


def _left(database: "DuckDBPyConnection") -> tuple[int, int]:
    """Return the number of lines and of queries."""
    (counts,) = database.execute("SELECT count(*), count(DISTINCT query) FROM lines WHERE line >= 0").fetchall()
    return int(counts[0]), int(counts[1])


def _dropped(store: Store, rules: Cleaning) -> Iterator[tuple[str, str]]:
    """Fill the table `dropped` for one rule after the other, and yield the rule and the column of the table."""

    def select(column: str, sql: str) -> str:
        store.database.execute(f"CREATE TABLE dropped AS SELECT DISTINCT {column} FROM ({sql})")
        return column

    timed = store.has_clients and store.has_times
    if rules.drop_clients and store.has_clients:
        clients = hash_clients(list(rules.drop_clients), len(rules.drop_clients))
        yield "drop_clients", _fill(store.database, "client", "BIGINT", [clients])
    if rules.max_per_hour and timed:
        yield "max_per_hour", select("client", _BOTS.format(rules.max_per_hour))
    if rules.merge_minutes and timed:
        yield "merge_minutes", select("line", _REPEATED.format(60 * rules.merge_minutes))
    if rules.drop_queries:
        yield "drop_queries", _queries(store, rules.drop_queries.__contains__)
    if rules.max_query_words:
        yield "max_query_words", _queries(store, lambda text: text.count(" ") >= rules.max_query_words)
    if rules.k_anonymous and store.has_clients:
        yield "k_anonymous", select("query", _FEW_CLIENTS.format(rules.k_anonymous))
    if rules.min_clicks:
        yield "min_clicks", select("query", _FEW_CLICKS.format(rules.min_clicks))


def _queries(store: Store, is_dropped: Callable[[str], bool]) -> str:
    """Fill `dropped` with the queries that a function chooses by their texts."""

    def blocks() -> Iterator[NDArray[np.int64]]:
        first = 0
        for block in store.queries.lines.blocks():
            yield np.flatnonzero(np.fromiter(map(is_dropped, block), bool, len(block))) + first
            first += len(block)

    return _fill(store.database, "query", "INTEGER", blocks())


def _fill(database: "DuckDBPyConnection", column: str, kind: str, blocks: Iterable[NDArray[np.int64]]) -> str:
    import pyarrow

    database.execute(f"CREATE TABLE dropped ({column} {kind})")
    for block in blocks:
        insert(database, "dropped", pyarrow.table({column: block}))
    return column
