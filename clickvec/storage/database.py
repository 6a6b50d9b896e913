"""SQLite databases: a connection per thread, durable transactions, and errors that name the file.

Transactions are durable when they end (WAL mode, synchronous=FULL). A thread or a forked process never uses the
connection of another one. A fork waits for transactions that write. `close` does not interrupt a connection in use; it
is closed when that use ends.
"""

import contextlib
import functools
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from clickvec.errors import ClickvecError, DiskFullError, UnavailableError
from clickvec.storage.write_ahead_log import check_log

APPLICATION_ID = 0x636C6B76  # "clkv", which SQLite stores in the header of the file
BUSY_SECONDS = 60.0  # how long to wait for another process that writes
_FORK_SECONDS = 5.0  # how long a fork waits for transactions of other threads
_LONGEST_ROW = 2**28  # bytes of a row, or of a value: more than a title and a payload can have
_LONGEST_PATH = 500  # bytes; SQLite allows 512, with the endings of its own files
_KEPT_WAL_BYTES = 64_000_000  # a large transaction leaves no larger write-ahead log behind
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_ERROR)

_Stamp = tuple[int, int, bool]  # time and size of a file that nobody writes, and whether it has a write-ahead log
_abandoned: list[sqlite3.Connection] = []  # of the parent process: closing them here could disturb it
_opened: "set[weakref.ref[Database]]" = set()  # unlike a WeakSet, it can be read while other threads add to it
_forking = threading.local()  # held: the locks that a fork holds


class _Handle:
    """A connection that is closed with its thread, if the thread belongs to this process."""

    def __init__(self, connection: sqlite3.Connection, unchanging: _Stamp | None) -> None:
        self.connection, self.pid, self.unchanging = connection, os.getpid(), unchanging
        self.depth = self.uses = 0  # transactions and uses of the connection that have not ended

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
        if path is not None:
            _check_length(path)
        self.path, self.writing, self._is_closed = path, writing, False
        self._identity: tuple[int, int] | None = None
        self._memory: _Handle | None = None
        self._start_process()
        _opened.add(weakref.ref(self, _opened.discard))

    @classmethod
    def create(cls, path: Path | None, schema: str, version: int) -> "Database":
        """Create a database with these tables. Raise if the file exists."""
        if path is not None:
            _check_length(path)
            try:
                path.open("xb").close()
            except OSError as error:
                raise UnavailableError(f"cannot create {path}: {error.strerror or error}") from None
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

    def check(self, schema: str, version: int, most_bytes: int) -> None:
        """Raise unless the database has these tables and this version. Check every page of up to `most_bytes`."""
        if self.path is not None:
            check_log(Path(f"{self.path}-wal"))
        with self.connection() as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                raise self.damaged("it is not a database of clickvec")
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found > version:
                raise UnavailableError(
                    f"{self.name} has version {found}, but this clickvec reads {version} at most; update clickvec"
                )
            if found != version:
                raise self.damaged(f"its version is {found}")
            if _tables(connection) != _tables_of(schema):
                raise self.damaged("its tables are not those of an index")
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
        return UnavailableError(f"{self.name} is damaged ({reason}); restore a copy of the index or build it again")

    # --- connections ---------------------------------------------------------------------------------------------

    def _start_process(self) -> None:
        """Forget the connections and locks of the parent process."""
        self._local = threading.local()
        self._writing, self._watching, self._connecting = threading.RLock(), threading.Lock(), threading.Lock()
        self._handles: weakref.WeakSet[_Handle] = weakref.WeakSet()  # a thread keeps its own until it ends
        self._watch: _Handle | None = None
        self._commits = 0

    def _closed(self) -> ClickvecError:
        return UnavailableError(f"{self.name} is closed; open it again")

    def _handle(self) -> _Handle:
        if self._is_closed:
            raise self._closed()
        if self.path is None:
            self._memory = self._memory or self._connect()  # a forked child has a copy
            return self._memory
        handle: _Handle | None = getattr(self._local, "handle", None)
        if handle is None or (handle.depth == 0 and self._has_changed(handle, self.path)):
            handle = self._local.handle = self._connect()
        return handle

    def _has_changed(self, handle: _Handle, path: Path) -> bool:
        """Return whether a writer has come to a file that was opened as one that nobody changes."""
        return handle.unchanging is not None and handle.unchanging != _stamp(path)

    def _connect(self) -> _Handle:
        unchanging: _Stamp | None = None
        if self.path is None:
            uri = ":memory:"
        else:
            uri = f"{self.path.absolute().as_uri()}?mode={'rw' if self.writing else 'ro'}"
            self._check_identity(self.path)
            if not self.writing and not os.access(self.path.parent, os.W_OK):
                # SQLite cannot create the files of the write-ahead log, and needs none while nobody writes.
                stamp = _stamp(self.path)
                if not stamp[2]:
                    unchanging, uri = stamp, f"{uri}&immutable=1"
        connection = sqlite3.connect(
            uri, uri=self.path is not None, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = bytes
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_ROW)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA cache_size=-32768")  # KiB
        connection.execute(f"PRAGMA journal_size_limit={_KEPT_WAL_BYTES}")
        handle = _Handle(connection, unchanging)
        if self.path is not None:
            connection.execute("PRAGMA schema_version").fetchone()  # opens the write-ahead log
            self._check_identity(self.path)  # if the folder was replaced meanwhile, it is the log of another database
        with self._connecting:
            if self._is_closed:
                handle.close()
                raise self._closed()
            self._handles.add(handle)
        return handle

    def _check_identity(self, path: Path) -> None:
        """Raise if the path leads to another file than before: threads must not read different databases."""
        try:
            status = path.stat()
        except OSError as error:
            raise UnavailableError(f"cannot open {path}: {error.strerror or error}") from None
        identity = (status.st_dev, status.st_ino)
        if self._identity not in (None, identity):
            raise UnavailableError(f"{path} was replaced by another file; open it again")
        self._identity = identity

    @contextlib.contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection of this thread. Turn errors of SQLite into a ClickvecError that names the file."""
        with self._using() as handle:
            yield handle.connection

    @contextlib.contextmanager
    def _using(self) -> Iterator[_Handle]:
        """Yield the handle of this thread. Until this ends, `close` leaves it open: SQLite would crash."""
        with self._writing if self.path is None else contextlib.nullcontext():
            try:
                handle = self._handle()
                with self._connecting:
                    if self._is_closed:
                        raise self._closed()
                    handle.uses += 1
                try:
                    yield handle
                finally:
                    with self._connecting:
                        handle.uses -= 1
                        if self._is_closed and not handle.uses:
                            handle.close()
            except sqlite3.Error as error:
                raise self._explain(error) from None
            except UnicodeDecodeError as error:  # the message of an error about damaged tables
                raise self.damaged(str(error)) from None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose reads all see the same state of the database."""
        with self._using() as handle:
            if handle.depth:
                yield handle.connection
            else:
                with self._inside(handle, "BEGIN", "COMMIT", "ROLLBACK"):
                    yield handle.connection

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of its own to the state that the database has now, however long it is used.

        Changes go on meanwhile, and the connection does not see them. It may be used by one thread after another.
        Inside `reading`, the state is the one that is read there.
        """
        with self._using() as handle:
            is_reading = handle.depth > 0
        if is_reading:
            with self.reading() as connection:
                yield connection
            return
        copy = Database.load(self.content()) if self.path is None else Database(self.path, writing=False)
        copy._identity = copy._identity or self._identity  # it must not be another file
        try:
            with copy.reading() as connection:
                connection.execute("SELECT 1 FROM sqlite_schema").fetchone()  # the state is that of the first read
                yield connection
        finally:
            copy.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection whose changes are durable together when this ends. On an error, none of them is made.

        Inside another transaction, this one is undone alone, and durable when the outer one ends.
        """
        if not self.writing:
            raise UnavailableError(f"{self.name} was opened for reading only; open it for writing")
        with self._writing, self._using() as handle:
            connection = handle.connection
            if handle.depth:
                if not connection.in_transaction:
                    raise UnavailableError(f"cannot write {self.name}: an error has undone this transaction")
                name = f"level{handle.depth}"
                undo = f"ROLLBACK TO {name}; RELEASE {name}"
                with self._inside(handle, f"SAVEPOINT {name}", f"RELEASE {name}", undo):
                    yield connection
            else:
                with self._inside(handle, "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"):
                    if self.path is not None:  # after the wait for other processes
                        self._check_identity(self.path)  # changes of a file that was deleted would be lost
                    yield connection
                if self.path is None:
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
        with self.connection(), self._watching:
            if self.path is None:
                return self._commits
            watch = self._watch  # a connection that never writes notices the changes of all others
            if watch is None or self._has_changed(watch, self.path):
                watch = self._watch = self._connect()
                self._commits += 1_000_000  # the numbers of another connection start again
            return self._commits + int(watch.connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the connections of all threads. Those in use are closed when their use ends."""
        with self._watching, self._connecting:
            self._is_closed = True
            for handle in list(self._handles):
                if not handle.uses:
                    handle.close()
            self._memory = self._watch = None

    def _explain(self, error: sqlite3.Error) -> ClickvecError:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if isinstance(error, sqlite3.ProgrammingError):
            return self._closed()
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return UnavailableError(
                f"{self.name} is locked: another process has been writing to it for {BUSY_SECONDS:.0f} s; try again"
            )
        if primary == sqlite3.SQLITE_FULL:
            return DiskFullError(f"cannot write {self.name}: the disk is full; nothing was changed. Free some space")
        if primary in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            if self.writing:
                return UnavailableError(
                    f"cannot write {self.name}: {error}; nothing was changed. Check disk and permissions"
                )
            return UnavailableError(
                f"cannot read {self.name}: {error}; while the index is written, its readers need to write to its folder"
            )
        if primary in _DAMAGED:
            return self.damaged(str(error))
        return UnavailableError(f"{self.name}: {error} (SQLite)")


def _check_length(path: Path) -> None:
    """Raise if SQLite cannot open a path, which it would not explain."""
    length = len(os.fsencode(path.absolute()))
    if length > _LONGEST_PATH:
        raise ClickvecError(
            f"the path {str(path)[:60]}... has {length} bytes, and SQLite opens {_LONGEST_PATH} at most; "
            "move it to a shorter path"
        )


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_mtime_ns, status.st_size, Path(f"{path}-wal").exists()


def _tables(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT name, type, CAST(sql AS BLOB) FROM sqlite_master ORDER BY name").fetchall()


@functools.cache
def _tables_of(schema: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.text_factory = bytes
        connection.executescript(schema)
        return _tables(connection)


def _hold_writers() -> None:
    """Wait until no thread writes: the child would inherit the lock of SQLite, and wait for a thread it does not have.

    A thread that forks within its own transaction does not wait for it.
    """
    deadline, _forking.held = time.monotonic() + _FORK_SECONDS, []
    for reference in list(_opened):
        database = reference()
        if database is not None:
            lock = database._writing
            if lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
                _forking.held.append(lock)


def _release_writers() -> None:
    for lock in _forking.held:
        lock.release()
    _forking.held = []


def _start_in_child() -> None:
    for reference in list(_opened):
        database = reference()
        if database is not None:
            database._start_process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold_writers, after_in_parent=_release_writers, after_in_child=_start_in_child)
