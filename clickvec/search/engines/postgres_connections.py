"""Connections to a PostgreSQL server that threads share, and its errors as sentences without a password."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clickvec.errors import ClickvecError, missing_extra
from clickvec.search.engines.address import Address
from clickvec.search.view_protocol import EngineError, StaleViewError

if TYPE_CHECKING:
    import psycopg

_IDLE = 16  # connections that are kept open
_CONNECT_SECONDS = 10
# strict_order and a larger list: a filter, or a hundred candidates, need more than the 40 titles that pgvector finds.
_SETTINGS = {
    "hnsw.ef_search": "400",
    "hnsw.iterative_scan": "strict_order",
    "hnsw.max_scan_tuples": "100000",
    "jit": "off",  # compiling takes longer than these statements
}

Connection = Any  # psycopg.Connection; psycopg is optional
Params = dict[str, Any]


class Connections:
    """Connections to one server. A thread has one for itself while it uses it."""

    def __init__(self, address: Address) -> None:
        """Open no connection yet."""
        self.address = address
        self._lock, self._idle, self._process = threading.Lock(), list[Connection](), os.getpid()
        self._is_closed = False

    def read(self, statement: str, params: Params | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of one statement. If a kept connection has died, try once more with a new one."""
        import psycopg

        for is_last in (False, True):
            try:
                with self.connection(fresh=is_last) as connection:
                    return list(connection.execute(statement, params).fetchall())
            except psycopg.OperationalError as error:
                if is_last or not connection.closed:
                    raise self.error(error) from error
            except psycopg.Error as error:
                raise self.error(error) from error
        raise AssertionError

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Yield a connection. All changes inside a `with` block are committed together, or none of them."""
        import psycopg

        try:
            with self.connection(check=True) as connection, connection.transaction():
                yield connection
        except psycopg.Error as error:
            raise self.error(error, changing=True) from error

    @contextlib.contextmanager
    def connection(self, fresh: bool = False, check: bool = False) -> Iterator[Connection]:
        """Yield a connection that commits each statement. With `check`, it answers."""
        connection = None if fresh else self._kept()
        if connection is not None and check:
            with contextlib.suppress(Exception):
                connection.execute("SELECT 1")
            connection = None if connection.closed else connection
        connection = connection or connect(self.address)
        try:
            yield connection
        except BaseException:
            # A statement that was interrupted, or a cursor that was not read to its end, must not be seen by others.
            connection.close()
            raise
        with self._lock:
            if not connection.closed and len(self._idle) < _IDLE and not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _kept(self) -> "psycopg.Connection[tuple[Any, ...]] | None":
        with self._lock:
            if self._is_closed:
                raise ClickvecError(f"the index at {self.address.shown} is closed; open it again")
            if self._process != os.getpid():  # connections of the parent process are not ours
                self._process, self._idle = os.getpid(), []
            return self._idle.pop() if self._idle else None

    def close(self) -> None:
        """Close all connections that are not in use."""
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        """Close the connections of an index that was not closed."""
        for connection in getattr(self, "_idle", ()):
            with contextlib.suppress(Exception):
                connection.close()

    def error(self, error: "psycopg.Error", changing: bool = False) -> ClickvecError:
        """Return the sentence for an error of the server."""
        return sentence(self.address, error, changing)


def connect(address: Address) -> "psycopg.Connection[tuple[Any, ...]]":
    """Open a connection that commits each statement."""
    try:
        import psycopg
    except ImportError:
        raise missing_extra("psycopg", "postgres") from None
    try:
        connection = psycopg.connect(
            address.url, autocommit=True, connect_timeout=_CONNECT_SECONDS, prepare_threshold=None,
            options=" ".join(f"-c {name}={value}" for name, value in _SETTINGS.items()),
        )  # fmt: skip
    except psycopg.Error as error:
        raise sentence(address, error) from None  # the cause may hold the address with its password
    if connection.info.encoding != "utf-8":
        connection.execute("SET client_encoding TO 'UTF8'")
    return connection


def sentence(address: Address, error: "psycopg.Error", changing: bool = False) -> ClickvecError:
    """Return an error that says what happened at which address and what to do."""
    from psycopg import errors

    where, reason = address.shown, _reason(error)
    match error:
        case errors.UndefinedTable() | errors.InFailedSqlTransaction():
            return StaleViewError(f"the index at {where} was built again meanwhile; repeat the request")
        case errors.InvalidPassword() | errors.InvalidAuthorizationSpecification():
            return EngineError(f"{where} refuses the user or the password; correct the address")
        case errors.InvalidCatalogName():
            return EngineError(f"{where} is not there ({reason}); create the database, or correct the address")
        case errors.InsufficientPrivilege() | errors.ReadOnlySqlTransaction():
            return EngineError(
                f"{where} does not allow this to the user of the address ({reason}); nothing was changed. Grant the "
                "right, or use the address of another user"
            )
        case errors.DiskFull() | errors.OutOfMemory() | errors.ConfigurationLimitExceeded():
            return EngineError(f"{where} has no room ({reason}); nothing was changed")
        case errors.LockNotAvailable() | errors.QueryCanceled() | errors.DeadlockDetected():
            return EngineError(f"{where} has stopped this request ({reason}); nothing was changed. Try again")
        case errors.OperationalError() if "password" in reason or "authentication" in reason:
            return EngineError(f"{where} refuses the user or the password; correct the address")
        case errors.OperationalError() if "does not exist" in reason:
            return EngineError(f"{where} is not there ({reason}); create the database, or correct the address")
        case errors.OperationalError() | errors.InterfaceError():
            kept = " The change may have been made or not; repeating it is safe" if changing else ""
            return EngineError(f"{where} does not answer ({reason}); start the server or correct the address.{kept}")
    return EngineError(f"{where} cannot do this: {reason}")


def _reason(error: "psycopg.Error") -> str:
    """Return the first line of a message of the server."""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if len(lines) > 1 and "failed:" in lines[-1] else lines[0])[-300:].rstrip(".")
