"""SQLite databases: a connection per thread, durable transactions, and errors that name the file.

Transactions are durable when they end (WAL mode, synchronous=FULL). A thread or a forked process never uses the
connection of another one.
"""

import contextlib
import os
import sqlite3
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from clickvec.errors import ClickvecError

APPLICATION_ID = 0x636C6B76  # "clkv", which SQLite stores in the header of the file
BUSY_SECONDS = 10.0  # how long to wait for another process that writes
_CACHE_KIB = 32_768
_KEPT_WAL_BYTES = 64_000_000  # a large transaction leaves no larger write-ahead log behind
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR)

_abandoned: list[sqlite3.Connection] = []  # of the parent process: closing them here could disturb it


class _Handle:
    """A connection that is closed with its thread, if the thread belongs to this process."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection, self.pid, self.depth = connection, os.getpid(), 0

    def close(self) -> None:
        if self.pid == os.getpid():
            with contextlib.suppress(sqlite3.Error):
                self.connection.close()
        elif _abandoned is not None:  # it is None while Python exits
            _abandoned.append(self.connection)

    __del__ = close


class Database:
    """A SQLite database: a file, or one in memory if the path is None. Threads may share it."""

    def __init__(self, path: Path | None, writing: bool) -> None:
        """Open a database. An existing file must be one that `create` has made."""
        self.path, self.writing, self._is_closed = path, writing, False
        self._identity: tuple[int, int] | None = None
        self._start_process()

    @classmethod
    def create(cls, path: Path | None, schema: str, version: int) -> "Database":
        """Create a database with these tables. Raise if the file exists."""
        if path is not None:
            try:
                path.open("xb").close()
            except OSError as error:
                raise ClickvecError(f"cannot create {path}: {error.strerror or error}") from None
        database = cls(path, writing=True)
        with database.connection() as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(
                f"BEGIN; {schema}; PRAGMA application_id={APPLICATION_ID}; PRAGMA user_version={version}; COMMIT"
            )
        return database

    @classmethod
    def load(cls, content: bytes) -> "Database":
        """Return a database in memory with the content that `content` returned."""
        database = cls(None, writing=True)
        with database.connection() as connection:
            connection.deserialize(content)
        return database

    def content(self) -> bytes:
        """Return the whole database as bytes."""
        with self.connection() as connection:
            return bytes(connection.serialize())

    def check(self, version: int, most_bytes: int) -> None:
        """Raise unless this is a database of ours with this version. Check the structure of a file of `most_bytes`."""
        with self.connection() as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise self.damaged("it is not a database of clickvec")
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found > version:
                raise ClickvecError(
                    f"{self.name} has version {found}, but this clickvec reads {version} at most; update clickvec"
                )
            if found != version:
                raise self.damaged(f"its version is {found}")
            if self.path is not None and self.path.stat().st_size <= most_bytes:
                report = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
                if report != b"ok":
                    raise self.damaged(report.decode(errors="replace").splitlines()[0])

    @property
    def name(self) -> str:
        """The path, for messages."""
        return "the database in memory" if self.path is None else str(self.path)

    def damaged(self, reason: str) -> ClickvecError:
        """Return the error for damaged content."""
        return ClickvecError(f"{self.name} is damaged ({reason}); restore a copy of the index or build it again")

    # --- connections ---------------------------------------------------------------------------------------------

    def _start_process(self) -> None:
        """Forget the connections and locks of the parent process."""
        self._pid, self._lock, self._handles = os.getpid(), threading.RLock(), list[_Handle]()
        self._local = threading.local()
        self._watch: sqlite3.Connection | None = None
        self._commits = 0

    def _handle(self) -> _Handle:
        if os.getpid() != self._pid:
            inherited = self._handles
            self._start_process()
            if self.path is None:  # the child has a copy of the memory
                self._handles = inherited
        if self._is_closed:
            raise ClickvecError(f"{self.name} is closed; open it again")
        if self.path is None:
            if not self._handles:
                self._handles.append(_Handle(self._connect()))
            return self._handles[0]
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is None:
            handle = self._local.handle = _Handle(self._connect())
            with self._lock:
                self._handles.append(handle)
        return handle

    def _connect(self) -> sqlite3.Connection:
        if self.path is None:
            uri = ":memory:"
        else:
            uri = f"file:{urllib.parse.quote(os.fsencode(self.path))}?mode={'rw' if self.writing else 'ro'}"
            self._check_identity(self.path)
        connection = sqlite3.connect(
            uri, uri=self.path is not None, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = bytes
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit={_KEPT_WAL_BYTES}")
        return connection

    def _check_identity(self, path: Path) -> None:
        """Raise if the path leads to another file than before: threads must not read different databases."""
        try:
            status = path.stat()
        except OSError as error:
            raise ClickvecError(f"cannot open {path}: {error.strerror or error}") from None
        identity = (status.st_dev, status.st_ino)
        if self._identity not in (None, identity):
            raise ClickvecError(f"{path} was replaced by another file; open it again")
        self._identity = identity

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection of this thread. Turn errors of SQLite into a ClickvecError that names the file."""
        with self._lock if self.path is None else contextlib.nullcontext():
            try:
                yield self._handle().connection
            except sqlite3.Error as error:
                raise self._explain(error) from None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose reads all see the same state of the database."""
        with self.connection() as connection:
            handle = self._handle()
            if handle.depth:
                yield connection
            else:
                with self._inside(handle, "BEGIN", "COMMIT", "ROLLBACK"):
                    yield connection

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose changes are durable together when this ends. On an error, none of them is made.

        Inside another transaction, this one is undone alone, and durable when the outer one ends.
        """
        if not self.writing:
            raise ClickvecError(f"{self.name} was opened for reading only; open it for writing")
        with self._lock, self.connection() as connection:
            handle = self._handle()
            if handle.depth:
                if not connection.in_transaction:
                    raise ClickvecError(f"cannot write {self.name}: an error has undone this transaction")
                name = f"level{handle.depth}"
                undo = f"ROLLBACK TO {name}; RELEASE {name}"
                with self._inside(handle, f"SAVEPOINT {name}", f"RELEASE {name}", undo):
                    yield connection
            else:
                with self._inside(handle, "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"):
                    yield connection
                self._commits += 1

    @contextlib.contextmanager
    def _inside(self, handle: _Handle, begin: str, end: str, undo: str) -> Iterator[None]:
        handle.connection.execute(begin)
        handle.depth += 1
        try:
            yield
            handle.connection.execute(end)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back already
                for statement in undo.split("; "):
                    handle.connection.execute(statement)
            raise
        finally:
            handle.depth -= 1

    def version(self) -> int:
        """Return a number that changes when any process has changed the database since this one opened it."""
        if self.path is None:
            return self._commits
        with self.connection(), self._lock:
            if self._watch is None:  # a connection that never writes notices the changes of all others
                handle = _Handle(self._connect())
                self._handles.append(handle)
                self._watch = handle.connection
            return int(self._watch.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the connections of all threads."""
        self._is_closed = True
        for handle in self._handles:
            handle.close()
        self._handles.clear()
        self._watch = None

    def _explain(self, error: sqlite3.Error) -> ClickvecError:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if isinstance(error, sqlite3.ProgrammingError):
            return ClickvecError(f"{self.name} is closed; open it again")
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return ClickvecError(
                f"{self.name} is locked: another process has been writing to it for {BUSY_SECONDS:.0f} s; try again"
            )
        if primary == sqlite3.SQLITE_FULL:
            return ClickvecError(f"cannot write {self.name}: the disk is full; nothing was changed. Free some space")
        if primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            verb = "write" if self.writing else "read"
            return ClickvecError(f"cannot {verb} {self.name}: {error} (SQLite); nothing was changed. Check the disk")
        if primary in _DAMAGED:
            return self.damaged(str(error))
        return ClickvecError(f"{self.name}: {error} (SQLite)")
