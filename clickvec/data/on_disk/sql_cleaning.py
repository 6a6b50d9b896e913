"""The rules of cleaning.py for a log on disk, in SQL.

Lines with a negative number are never dropped: those of a data folder that the log is appended to, and judged ones.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clickvec.data.cleaning import HOUR, NO_CLIENT, Cleaning, CleaningReport, Left, hash_clients
from clickvec.data.on_disk.log_store import Store, read_batches
from clickvec.data.on_disk.numbering import insert
from clickvec.data.privacy import may_show

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_HEAVY = f"""SELECT client FROM lines WHERE line >= 0 AND client <> {NO_CLIENT}
    GROUP BY client HAVING count(*) > {{}}"""
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
_FREQUENT = """SELECT query, {} AS typed FROM lines WHERE line >= 0 GROUP BY query HAVING sum(clicks) > 0
    ORDER BY sum(clicks) DESC, min(line) FILTER (clicks > 0)"""
_CLIENTS = f"count(DISTINCT client) FILTER (client <> {NO_CLIENT})"


def clean_store(store: Store, rules: Cleaning, report: CleaningReport) -> None:
    """Drop lines from a finished store, and add to the report what each rule dropped."""
    before = _left(store.database)
    report.only_sessions = store.has_clients and store.sessions and rules.k_anonymous is None
    for rule, column in _dropped(store, rules):
        where = f"lines.line >= 0 AND lines.{column} = dropped.{column}"
        store.database.execute(f"CREATE TABLE kept AS FROM lines ANTI JOIN dropped ON {where}")
        after = _left(store.database, "kept")
        report.add(rule, before, after)
        report.warn(rule, rules)
        store.database.execute("DROP TABLE lines; DROP TABLE dropped; ALTER TABLE kept RENAME TO lines")
        before = after
    store.count_clicked()


def frequent_in_store(store: Store, most: int, k_anonymous: int | None) -> list[str]:
    """Return what `cleaning.frequent_queries` returns."""
    chosen = list[NDArray[np.int64]]()
    sql = _FREQUENT.format(_CLIENTS if store.has_clients else "sum(clicks)")
    for query, typed in read_batches(store.database, sql):
        chosen.append(query[may_show(typed, k_anonymous)])
        if sum(map(len, chosen)) >= most:
            break
    numbers = np.concatenate([np.zeros(0, np.int64), *chosen])[:most]
    return list(store.queries.lines.take(numbers))


def _left(database: "DuckDBPyConnection", table: str = "lines") -> Left:
    sql = f"SELECT count(*), count(DISTINCT query), coalesce(sum(clicks), 0) FROM {table} WHERE line >= 0"
    ((lines, queries, clicks),) = database.execute(sql).fetchall()
    return Left(int(lines), int(queries), float(clicks))


def _dropped(store: Store, rules: Cleaning) -> Iterator[tuple[str, str]]:
    """Fill the table `dropped` for one rule after the other, and yield the rule and the column of the table."""

    def select(column: str, sql: str) -> str:
        store.database.execute(f"CREATE TABLE dropped AS SELECT DISTINCT {column} FROM ({sql})")
        return column

    timed = store.has_clients and store.has_times
    if rules.drop_clients and store.has_clients:
        clients = hash_clients(list(rules.drop_clients), len(rules.drop_clients))
        yield "drop_clients", _fill(store.database, "client", "BIGINT", [clients])
    if rules.max_per_client and store.has_clients:
        yield "max_per_client", select("client", _HEAVY.format(rules.max_per_client))
    if rules.max_per_hour and timed:
        yield "max_per_hour", select("client", _BOTS.format(rules.max_per_hour))
    if rules.merge_minutes and timed:
        yield "merge_minutes", select("line", _REPEATED.format(60 * rules.merge_minutes))
    if rules.drop_queries:
        yield "drop_queries", _queries(store, rules.drop_queries.__contains__)
    if rules.max_query_words:
        yield "max_query_words", _queries(store, lambda text: text.count(" ") >= rules.max_query_words)
    least = rules.least_clients(store.sessions)
    if least and store.has_clients:
        yield "k_anonymous", select("query", _FEW_CLIENTS.format(least))
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
