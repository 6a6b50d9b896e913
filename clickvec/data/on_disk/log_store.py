"""A click log that is larger than memory: DuckDB groups and sorts its lines on disk.

Our own readers parse the lines and our own code normalises the texts, so the data folder is the one that
`dataset.prepare` makes in memory, byte for byte. Lines become numbers at once: DuckDB never sees a text.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data.cleaning import NO_CLIENT, hash_clients
from clickvec.data.dataset import Before
from clickvec.data.events import Events
from clickvec.data.judged import Judged
from clickvec.data.on_disk.numbering import Change, Numbered, Numbering, insert
from clickvec.data.parsing.numbers import NO_TIME
from clickvec.errors import ClickvecError, missing_extra
from clickvec.storage import files
from clickvec.storage.disk_arrays import DiskArray
from clickvec.storage.outputs import resolve
from clickvec.storage.temporary import temporary_folder
from clickvec.text.trigrams import Tokens

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEAST_MEMORY = 500_000_000
_PYTHON_MEMORY = 300_000_000  # what the process needs beside DuckDB and the token tables
_ROWS_AT_ONCE = 2**19  # lines that are moved to DuckDB at a time
_TEXTS_AT_ONCE = 2**15
_COLUMNS = {
    "line": "int64", "query": "int32", "title": "int32", "clicks": "float64", "client": "int64", "time": "int64",
    "position": "int32",
}  # fmt: skip
_SEEDS = {"title": "int32", "line": "int64", "kind": "int8"}
CLICKED, SHOWN, LISTED = range(3)  # kinds of seeds; a listed title is one of the catalogue
# Numbers of lines that are not in the log, in this order. No log has as many lines.
_FIRST_SEED, _FIRST_PAIR, _FIRST_SHOWN, _FIRST_JUDGED = (-rank * 10**15 for rank in (4, 3, 2, 1))


class Store:
    """The lines of a click log on disk. Add all blocks first, then call `finish`; `database` then has a table `lines`.

    Its columns are line, query, title (numbers of the texts in `queries` and `titles`), clicks, client (NO_CLIENT if
    unknown), time (null if unknown) and position (0 if unknown). A line with 0 clicks is a title that was shown and not
    clicked; with fewer, one that was judged relevant. Negative lines are not in the log. The table `seeds` has the
    titles of a data folder that the log is appended to, in their order, and then those of a catalogue.
    """

    queries: Numbered
    titles: Numbered

    def __init__(self, folder: Path, memory: int, database: "DuckDBPyConnection") -> None:
        self.folder, self.memory, self.database = folder, memory, database
        self.lines = self.clicked = 0  # lines of the log, and those with a click
        self.has_clients, self.has_times, self.has_positions = False, True, False
        self.sessions = False  # whether the clients of some lines are sessions
        self.before: Before | None = None  # the data folder that the log is appended to
        self._queries = Numbering(folder / "queries", 0, memory // 8)
        self._titles = Numbering(folder / "titles", 0, memory // 8)
        self._columns = {name: DiskArray(folder / f"lines.{name}", dtype) for name, dtype in _COLUMNS.items()}
        self._seeds = {name: DiskArray(folder / f"seeds.{name}", dtype) for name, dtype in _SEEDS.items()}
        self._pool = ThreadPoolExecutor(2)
        self._pending: list[Future[None]] = []

    # --- reading -------------------------------------------------------------------------------------------------

    def add(self, events: Events) -> None:
        """Add some lines. Their texts are numbered in other threads, while the caller parses the next lines."""
        self._wait()
        size = len(events.queries)
        clients = hash_clients(events.clients, size)
        self._add_numbers(
            np.arange(self.lines, self.lines + size) if events.lines is None else events.lines,
            events.clicks,
            clients,
            np.full(size, NO_TIME) if events.times is None else events.times,
            events.positions,
        )
        self.lines += size
        self.clicked += int(np.count_nonzero(events.clicks))
        self.has_clients |= bool((clients != NO_CLIENT).any())
        self.sessions |= events.sessions
        self.has_times &= events.times is not None
        self.has_positions |= events.positions is not None
        self._pending = [
            self._pool.submit(self._number, self._queries, events.queries, "query"),
            self._pool.submit(self._number, self._titles, events.titles, "title"),
        ]

    def add_judged(self, judged: Judged) -> None:
        """Add the titles of a judged set: those of grade 0 were shown and not clicked."""
        self._wait()
        line = _FIRST_JUDGED
        for query in judged:
            size = len(query.titles)
            clicks = -np.asarray(query.grades, np.float64)
            self._add_numbers(np.arange(line, line + size), clicks, np.zeros(size), np.full(size, NO_TIME))
            self._number(self._queries, [query.query] * size, "query")
            self._number(self._titles, query.titles, "title")
            line += size

    def add_folder(self, before: Before) -> None:
        """Add what a data folder holds."""
        self._wait()
        self.before = before
        data, texts = before
        queries, titles = _numbers(self._queries, texts.queries), _numbers(self._titles, texts.titles)
        self.has_times &= texts.query_times is not None
        times = np.full(len(queries), NO_TIME) if texts.query_times is None else texts.query_times
        sums = data.pair_clicks if texts.pair_sums is None else np.asarray(texts.pair_sums)
        for first in range(0, len(sums), _ROWS_AT_ONCE):
            block = slice(first, first + _ROWS_AT_ONCE)
            query, title = data.pair_query[block], data.pair_title[block]
            lines = _FIRST_PAIR + first + np.arange(len(query))
            self._add_numbers(lines, sums[block], np.zeros(len(query)), times[query])
            self._columns["query"].append(queries[query])
            self._columns["title"].append(titles[title])
        for first, rows in data.shown.blocks(_ROWS_AT_ONCE):
            query = np.repeat(np.arange(first, first + len(rows.lengths)), rows.lengths)
            lines = _FIRST_SHOWN + data.shown.offsets[first] + np.arange(len(query))
            self._add_numbers(lines, np.zeros(len(query)), np.zeros(len(query)), times[query])
            self._columns["query"].append(queries[query])
            self._columns["title"].append(titles[rows.values])
        kinds = np.full(len(titles), SHOWN, np.int8)
        kinds[: data.clicked_titles] = CLICKED
        kinds[len(titles) - data.catalogue_titles :] = LISTED
        self._add_seeds(titles, _FIRST_SEED, kinds)

    def add_catalogue(self, titles: Iterable[str]) -> None:
        """Add the titles of a catalogue."""
        self._wait()
        remaining, line = iter(titles), 0
        while block := list(islice(remaining, _TEXTS_AT_ONCE)):
            self._add_seeds(self._titles.read(block).values, line, np.full(len(block), LISTED, np.int8))
            line += len(block)

    def _add_seeds(self, titles: NDArray[np.int32], first: int, kinds: NDArray[np.int8]) -> None:
        for name, values in (("title", titles), ("line", first + np.arange(len(titles))), ("kind", kinds)):
            self._seeds[name].append(values)

    def _add_numbers(
        self, lines: NDArray[Any], clicks: NDArray[Any], clients: NDArray[Any], times: NDArray[np.int64],
        positions: NDArray[np.int32] | None = None,
    ) -> None:  # fmt: skip
        columns = {"line": lines, "clicks": clicks, "client": clients, "time": times}
        columns["position"] = np.zeros(len(lines), np.int32) if positions is None else positions
        for name, values in columns.items():
            self._columns[name].append(values)

    def _number(self, numbering: Numbering, texts: Sequence[str], column: str) -> None:
        self._columns[column].append(numbering.read(texts).values)

    def _wait(self) -> None:
        for work in self._pending:
            work.result()

    # --- after reading -------------------------------------------------------------------------------------------

    def finish(self, change: Change | None = None) -> None:
        """Number the texts, the queries after `change`, and fill the tables of lines and seeds."""
        self._wait()
        self.queries = self._queries.finish(self.database, change)
        self.titles = self._titles.finish(self.database)
        self.database.execute(
            "CREATE TABLE lines (line BIGINT, query INTEGER, title INTEGER, clicks DOUBLE, client BIGINT, time BIGINT,"
            " position INTEGER);"
            "CREATE TABLE seeds (title INTEGER, line BIGINT, kind TINYINT)"
        )
        self._fill("lines", self._columns)
        self._fill("seeds", self._seeds)

    def count_clicked(self) -> None:
        """Count the lines of the log with a click again, after some were dropped."""
        sql = "SELECT count(*) FROM lines WHERE line >= 0 AND clicks > 0"
        self.clicked = int(self.database.execute(sql).fetchall()[0][0])

    def count(self) -> dict[str, int]:
        """Finish, and return the numbers of lines, lines with a click, distinct queries, titles and pairs."""
        self.finish()
        (pairs,) = self.database.execute("SELECT count(*) FROM (SELECT DISTINCT query, title FROM lines)").fetchall()
        counts = {"queries": len(self.queries.lines), "titles": len(self.titles.lines), "pairs": int(pairs[0])}
        return {"lines": self.lines, "clicked": self.clicked, **counts}

    def _fill(self, table: str, columns: dict[str, DiskArray]) -> None:
        import pyarrow

        for start in range(0, len(columns["line"]), _ROWS_AT_ONCE):
            block: dict[str, Any] = {
                name: column.read(start, start + _ROWS_AT_ONCE) for name, column in columns.items()
            }
            block["title"] = self.titles.of(block["title"])
            if "query" in block:
                block["query"] = self.queries.of(block["query"])
                block["time"] = pyarrow.array(block["time"], mask=block["time"] == NO_TIME)
            insert(self.database, table, pyarrow.table(block))
        for column in columns.values():
            column.path.unlink()

    def close(self) -> None:
        """Wait for the threads."""
        self._pool.shutdown()


def _numbers(numbering: Numbering, texts: Tokens) -> NDArray[np.int32]:
    blocks = (texts[first : first + _TEXTS_AT_ONCE] for first in range(0, len(texts), _TEXTS_AT_ONCE))
    return np.concatenate([np.zeros(0, np.int32), *(numbering.read(block).values for block in blocks)])


@contextmanager
def open_store(out: Path, memory: int) -> Iterator[Store]:
    """Yield an empty store in a temporary folder beside `out`. On exit, remove it."""
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise missing_extra(error.name or "duckdb", "data") from None
    if memory < LEAST_MEMORY:
        raise ClickvecError(f"--memory is {memory / 1e6:,.0f} MB; give at least {LEAST_MEMORY / 1e6:,.0f} MB")
    try:
        with temporary_folder(resolve(out)) as folder:
            settings: dict[str, str | bool | int | float | list[str]] = {
                "memory_limit": f"{(memory - _PYTHON_MEMORY) * 2 // 3}B",
                "temp_directory": str(folder / "spilled"),
                "threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
            }
            with duckdb.connect(str(folder / "lines.duckdb"), config=settings) as database:
                database.execute("SET enable_progress_bar = false; PRAGMA disable_checkpoint_on_shutdown")
                store = Store(folder, memory, database)
                try:
                    yield store
                finally:
                    store.close()
    except OSError as error:
        raise files.cannot_write(out, error) from None
    except duckdb.OutOfMemoryException as error:
        raise ClickvecError(f"--memory is too small for this log: {_first_line(error)}; give more") from None
    except (duckdb.OperationalError, duckdb.FatalException) as error:
        raise ClickvecError(f"cannot write {out}: {_first_line(error)}; what was there before is unchanged") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def read_batches(database: "DuckDBPyConnection", query: str, size: int = 2**17) -> Iterator[list[NDArray[Any]]]:
    """Yield the columns of a query's rows, some rows at a time."""
    reader = database.cursor()  # a connection of its own: the caller may use the other one between two batches
    reader.execute("SET enable_progress_bar = false")
    for batch in reader.sql(query).to_arrow_reader(size):
        yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]
