"""A click log that is larger than memory: DuckDB groups and sorts its lines on disk.

Our own readers parse the lines and our own code normalises the texts, so the data folder is the one that
`dataset.prepare` makes in memory, byte for byte. Lines become numbers at once: DuckDB never sees a text.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clickvec.data.cleaning import hash_clients
from clickvec.data.events import Events
from clickvec.data.numbering import Change, Numbered, Numbering, insert
from clickvec.data.numbers import NO_TIME
from clickvec.errors import ClickvecError, missing_extra
from clickvec.storage import files
from clickvec.storage.disk_arrays import DiskArray
from clickvec.storage.outputs import resolve
from clickvec.storage.temporary import temporary_folder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LEAST_MEMORY = 500_000_000
_PYTHON_MEMORY = 300_000_000  # what the process needs beside DuckDB and the token tables
_ROWS_AT_ONCE = 2**19  # lines that are moved to DuckDB at a time
_COLUMNS = {"query": "int32", "title": "int32", "clicks": "float64", "client": "int64", "time": "int64"}


class Store:
    """The lines of a click log on disk. Add all blocks first, then call `finish`; `database` then has a table `lines`.

    Its columns are line, query, title (numbers of the texts in `queries` and `titles`), clicks, client (NO_CLIENT if
    unknown) and time (null if unknown).
    """

    queries: Numbered
    titles: Numbered

    def __init__(self, folder: Path, memory: int, database: "DuckDBPyConnection") -> None:
        self.folder, self.memory, self.database = folder, memory, database
        self.clicked = 0  # lines with a click
        self.has_clients, self.has_times = False, True
        self._queries = Numbering(folder / "queries", 0, memory // 8)
        self._titles = Numbering(folder / "titles", 0, memory // 8)
        self._columns = {name: DiskArray(folder / f"lines.{name}", dtype) for name, dtype in _COLUMNS.items()}
        self._pool = ThreadPoolExecutor(2)
        self._pending: list[Future[None]] = []

    def add(self, events: Events) -> None:
        """Add some lines. Their texts are numbered in other threads, while the caller parses the next lines."""
        self._wait()
        size = len(events.queries)
        self.clicked += int(np.count_nonzero(events.clicks))
        self.has_clients |= events.clients is not None
        self.has_times &= events.times is not None
        self._columns["clicks"].append(events.clicks)
        self._columns["client"].append(hash_clients(events.clients, size))
        self._columns["time"].append(np.full(size, NO_TIME) if events.times is None else events.times)
        self._pending = [
            self._pool.submit(self._number, self._queries, events.queries, "query"),
            self._pool.submit(self._number, self._titles, events.titles, "title"),
        ]

    def _number(self, numbering: Numbering, texts: Sequence[str], column: str) -> None:
        self._columns[column].append(numbering.read(texts).values)

    def _wait(self) -> None:
        for work in self._pending:
            work.result()

    def finish(self, change: Change | None = None) -> None:
        """Number the texts, after `change`, and fill the table of lines."""
        import pyarrow

        self._wait()
        self.queries = self._queries.finish(self.database, change)
        self.titles = self._titles.finish(self.database, change)
        self.database.execute(
            "CREATE TABLE lines (line BIGINT, query INTEGER, title INTEGER, clicks DOUBLE, client BIGINT, time BIGINT)"
        )
        self.database.execute("CREATE TABLE seeds (title INTEGER, line BIGINT, clicked BOOLEAN)")
        for start in range(0, len(self._columns["query"]), _ROWS_AT_ONCE):
            block = {name: column.read(start, start + _ROWS_AT_ONCE) for name, column in self._columns.items()}
            block["query"], block["title"] = self.queries.of(block["query"]), self.titles.of(block["title"])
            unknown = block["time"] == NO_TIME
            time = pyarrow.array(block.pop("time"), mask=unknown)
            lines = np.arange(start, start + len(unknown))
            insert(self.database, "lines", pyarrow.table({"line": lines, **block, "time": time}))
        for column in self._columns.values():
            column.path.unlink()

    def close(self) -> None:
        """Wait for the threads."""
        self._pool.shutdown()


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
                store = Store(folder, memory, database)
                try:
                    yield store
                finally:
                    store.close()
    except OSError as error:
        raise files.cannot_write(out, error) from None
    except duckdb.IOException as error:
        raise ClickvecError(f"cannot write {out}: {_first_line(error)}; what was there before is unchanged") from None
    except duckdb.OutOfMemoryException as error:
        raise ClickvecError(f"--memory is too small for this log: {_first_line(error)}; give more") from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def read_batches(database: "DuckDBPyConnection", query: str, size: int = 2**17) -> Iterator[list[NDArray[Any]]]:
    """Yield the columns of a query's rows, some rows at a time."""
    # By a connection of its own: the caller may use the other one between two batches.
    for batch in database.cursor().sql(query).to_arrow_reader(size):
        yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]
