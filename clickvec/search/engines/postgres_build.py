"""Build an index in PostgreSQL: load a catalogue into new tables, and use them from one moment on."""

import contextlib
import itertools
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document import Document
from clickvec.search.documents.document_rows import duplicate_id
from clickvec.search.engines import postgres_tables
from clickvec.search.engines.postgres_connections import Connection, Connections
from clickvec.search.engines.postgres_copy import copy_rows, stored_rows
from clickvec.search.engines.postgres_tables import FORMAT, Tables, not_ours
from clickvec.search.fusion import fusion_settings
from clickvec.search.segments.building import encode_titles

_BLOCK = 10_000  # documents that are encoded and copied at once
_MEMORY = "1GB"  # for building an index of vectors; a server that allows less uses less
_log = logging.getLogger(__name__)


def build_postgres(
    connections: Connections,
    encoder: Encoder,
    documents: Iterable[Document],
    overwrite: bool,
    search: str,
    progress: Progress | None = None,
) -> None:
    """Make an index of documents at an address. Replace an existing one only with `overwrite`.

    Until the last moment, an existing index stays in use, and it stays so after an error.
    """
    from psycopg import Error

    report = progress or ignore
    with contextlib.closing(postgres_tables.prepare_database(connections)) as connection:
        try:
            with _only_builder(connection, connections):
                used = _generation_in_use(connection, connections)
                if used is not None and not overwrite:
                    raise ClickvecError(
                        f"there is already an index at {connections.address.shown}; replace it with --overwrite, or "
                        "choose another one with ?table=NAME in the address"
                    )
                _drop(connection, postgres_tables.leftover_tables(connection, connections.address.name, used))
                tables = Tables(connections.address.name, (used or 0) + 1)
                try:
                    _fill(connection, connections, tables, encoder, documents, search, report)
                except BaseException:
                    with contextlib.suppress(Error):  # the server may be gone; the next build drops them
                        unused = postgres_tables.leftover_tables(connection, tables.name, used)
                        _drop(connection, unused)
                    raise
        except Error as error:
            raise connections.error(error) from error


@contextlib.contextmanager
def _only_builder(connection: Connection, connections: Connections) -> Iterator[None]:
    """Hold a lock of the server, so that two builds of one index do not disturb each other."""
    key = {"key": f"clickvec build {connections.address.name}"}
    row = connection.execute("SELECT pg_try_advisory_lock(hashtext(%(key)s))", key).fetchone()
    if not row[0]:
        raise ClickvecError(f"another process is building {connections.address.shown}; wait for its end")
    yield  # closing the connection releases the lock


def _generation_in_use(connection: Connection, connections: Connections) -> int | None:
    """Return the generation of the tables in use, or None if there is no index. Refuse a table that is not ours."""
    from psycopg import errors

    name = connections.address.name
    if not connection.execute("SELECT to_regclass(%(name)s)", {"name": name}).fetchone()[0]:
        return None
    try:
        row = connection.execute(f"SELECT {postgres_tables.COUNTS} FROM {name}").fetchone()
    except errors.UndefinedColumn:
        raise not_ours(connections) from None
    return None if row is None else int(row[0])


def _fill(
    connection: Connection,
    connections: Connections,
    tables: Tables,
    encoder: Encoder,
    documents: Iterable[Document],
    search: str,
    report: Progress,
) -> None:
    from psycopg import errors

    postgres_tables.create_tables(connection, tables, encoder.dimensions)
    fingerprint = postgres_tables.write_model(connection, tables, encoder)
    total_length, seq, remaining = 0, 0, iter(documents)
    report("loading", 0, None)
    while block := list(itertools.islice(remaining, _BLOCK)):
        rows = stored_rows(block, seq + 1)
        copy_rows(connection, tables.documents, rows, encode_titles(encoder, [row.title for row in rows], "float32"))
        seq += len(rows)
        total_length += sum(row.length for row in rows)
        report("loading", seq, None)
    with contextlib.suppress(errors.Error):
        connection.execute(f"SET maintenance_work_mem = '{_MEMORY}'")
    report("indexing words", 0, None)
    try:
        postgres_tables.create_indexes(connection, tables)
    except errors.UniqueViolation:
        raise duplicate_id(_first_duplicate(connection, tables)) from None
    connection.execute(
        f"INSERT INTO {tables.words} SELECT w.word, count(*) FROM {tables.documents} d, "
        "LATERAL (SELECT DISTINCT unnest(d.words) AS word) w GROUP BY w.word"
    )
    is_approximate = postgres_tables.wants_vector_index(search, seq, encoder.dimensions)
    if is_approximate:
        report("indexing vectors", 0, None)
        postgres_tables.create_vector_index(connection, tables)
    connection.execute(f"ANALYZE {tables.documents}")
    connection.execute(f"ANALYZE {tables.words}")
    settings = {"format": FORMAT, "model": fingerprint, "search": search, "approximate": is_approximate}
    settings |= fusion_settings(encoder.model)
    _use(connection, connections, tables, (seq, seq, total_length), settings)


def _use(
    connection: Connection,
    connections: Connections,
    tables: Tables,
    counts: tuple[int, int, int],
    settings: dict[str, Any],
) -> None:
    """Use the tables of a generation from now on, and drop the others."""
    name = connections.address.name
    with connection.transaction():
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {name} (one boolean PRIMARY KEY DEFAULT TRUE CHECK (one), "
            "generation integer NOT NULL, last_seq bigint NOT NULL, titles bigint NOT NULL, "
            "total_length bigint NOT NULL, settings jsonb NOT NULL)"
        )
        values = dict(zip(("last_seq", "titles", "total_length"), counts, strict=True))
        connection.execute(
            f"INSERT INTO {name} (generation, last_seq, titles, total_length, settings) VALUES "
            "(%(generation)s, %(last_seq)s, %(titles)s, %(total_length)s, %(settings)s::jsonb) "
            "ON CONFLICT (one) DO UPDATE SET generation = excluded.generation, last_seq = excluded.last_seq, "
            "titles = excluded.titles, total_length = excluded.total_length, settings = excluded.settings",
            values | {"generation": tables.generation, "settings": json.dumps(settings)},
        )
    _drop(connection, postgres_tables.leftover_tables(connection, name, tables.generation))


def _drop(connection: Connection, tables: list[str]) -> None:
    for table in tables:
        _log.info("dropping the table %s, which is not in use", table)
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def _first_duplicate(connection: Connection, tables: Tables) -> str:
    statement = f"SELECT min(id) FROM {tables.documents} GROUP BY key HAVING count(*) > 1 ORDER BY 1 LIMIT 1"
    return str(connection.execute(statement).fetchone()[0])
