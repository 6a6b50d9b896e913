"""The tables of an index in PostgreSQL.

    NAME                one row: the generation of the tables in use, the settings, and counts
    NAME_documents_N    one row for each document: id, title, payload, its fields for filters, its words, its vector
    NAME_words_N        how many titles have each word
    NAME_model_N        the files of the model

N is the generation. A build fills tables of the next generation and puts its number into NAME in one transaction, so
that a build that was killed leaves the old index in use.
"""

import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from clickvec.errors import ClickvecError
from clickvec.model import folder
from clickvec.model.encoder import Encoder
from clickvec.search.engines.postgres_connections import Connection, Connections, connect
from clickvec.search.view_protocol import EngineError

FORMAT = 1
EXACT_UP_TO = 20_000  # titles; with more of them, search is approximate (HNSW)
MOST_DIMENSIONS = 2_000  # that an HNSW index takes


class Tables(NamedTuple):
    """The names of the tables of one generation. They come from a checked address and a number."""

    name: str
    generation: int

    @property
    def documents(self) -> str:
        """The table of the documents."""
        return f"{self.name}_documents_{self.generation}"

    @property
    def words(self) -> str:
        """The table of the words."""
        return f"{self.name}_words_{self.generation}"

    @property
    def model(self) -> str:
        """The table of the files of the model."""
        return f"{self.name}_model_{self.generation}"


class State(NamedTuple):
    """The row of the table NAME."""

    generation: int
    last_seq: int
    titles: int
    total_length: int  # words of all titles
    settings: dict[str, Any]


COUNTS = "generation, last_seq, titles, total_length, settings"


def read_state(connections: Connections) -> State:
    """Return the state of an index. Raise if there is none at the address."""
    from psycopg import errors

    name = connections.address.name
    try:
        rows = connections.read(f"SELECT {COUNTS} FROM {name}")
    except EngineError as error:
        if isinstance(error.__cause__, errors.UndefinedTable):
            raise no_index(connections) from None
        if isinstance(error.__cause__, errors.UndefinedColumn):
            raise not_ours(connections) from None
        raise
    if not rows:
        raise no_index(connections)
    return check_format(connections, State(*rows[0]))


def no_index(connections: Connections) -> ClickvecError:
    """Return the error for an address without an index."""
    return ClickvecError(
        f"there is no index at {connections.address.shown}; build one with: clickvec index MODEL CATALOGUE --to ADDRESS"
    )


def not_ours(connections: Connections) -> ClickvecError:
    """Return the error for a table that is something else."""
    return ClickvecError(
        f"{connections.address.shown} is a table of something else; choose another one with ?table=NAME in the address"
    )


def check_format(connections: Connections, state: State) -> State:
    """Return the state. Raise if a newer version has written it."""
    number = state.settings.get("format")
    if not isinstance(number, int) or number > FORMAT:
        raise ClickvecError(f"{connections.address.shown} has the format {number}; this version knows {FORMAT}: update")
    return state


def create_tables(connection: Connection, tables: Tables, dimensions: int) -> None:
    """Create the tables of a generation, without indexes."""
    connection.execute(
        f"CREATE TABLE {tables.documents} ("
        'seq bigint NOT NULL, key bytea NOT NULL, id text COLLATE "C" NOT NULL, is_integer boolean NOT NULL, '
        "title text NOT NULL, payload jsonb, fields jsonb NOT NULL, "
        f'words text[] COLLATE "C" NOT NULL, length smallint NOT NULL, vector vector({int(dimensions)}))'
    )
    connection.execute(
        f'CREATE TABLE {tables.words} (word text COLLATE "C" PRIMARY KEY, titles bigint NOT NULL) WITH (fillfactor=80)'
    )
    connection.execute(f"CREATE TABLE {tables.model} (name text PRIMARY KEY, content bytea NOT NULL)")


def create_indexes(connection: Connection, tables: Tables) -> None:
    """Create the indexes of the documents but that of the vectors. Raise UniqueViolation if an id occurs twice."""
    documents = tables.documents
    connection.execute(f"ALTER TABLE {documents} ADD PRIMARY KEY (seq)")
    connection.execute(f"CREATE UNIQUE INDEX ON {documents} (key)")
    connection.execute(f"CREATE INDEX ON {documents} USING gin (array_to_tsvector(words))")
    connection.execute(f"CREATE INDEX ON {documents} USING gin (fields)")


def create_vector_index(connection: Connection, tables: Tables, concurrently: bool = False) -> None:
    """Create the HNSW index of the vectors."""
    from psycopg import errors

    how, name = "CONCURRENTLY IF NOT EXISTS" if concurrently else "", f"{tables.documents}_hnsw"
    statement = f"CREATE INDEX {how} {name} ON {tables.documents} USING hnsw (vector vector_cosine_ops)"
    try:
        connection.execute(statement)
    except (errors.DiskFull, errors.OutOfMemory):  # a container may have little shared memory
        connection.execute("SET max_parallel_maintenance_workers = 0")
        connection.execute(f"DROP INDEX IF EXISTS {name}")
        connection.execute(statement)


def wants_vector_index(search: str, titles: int, dimensions: int) -> bool:
    """Return whether vectors are searched by an index: if there are many, or if that is asked for."""
    if dimensions > MOST_DIMENSIONS or search == "exact":
        return False
    return search == "approximate" or titles > EXACT_UP_TO


def leftover_tables(connection: Connection, name: str, used: int | None) -> list[str]:
    """Return the tables of other generations than the one in use. Killed builds have left them."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND pg_table_is_visible(c.oid) "
        "AND c.relname LIKE %(like)s",
        {"like": name.replace("_", r"\_") + r"\_%"},
    ).fetchall()
    ours = re.compile(rf"{name}_(?:documents|words|model)_(\d+)")
    found = ((row[0], ours.fullmatch(row[0])) for row in rows)
    return [table for table, match in found if match and int(match[1]) != used]


# --- the model -----------------------------------------------------------------------------------------------------


def write_model(connection: Connection, tables: Tables, encoder: Encoder) -> str:
    """Copy the files of a model into a table and return its fingerprint."""
    with tempfile.TemporaryDirectory() as path:
        fingerprint = folder.write_model(encoder.model, Path(path))
        for file in sorted(Path(path).iterdir()):
            connection.execute(
                f"INSERT INTO {tables.model} VALUES (%(name)s, %(content)s)",
                {"name": file.name, "content": file.read_bytes()},
            )
    return fingerprint


def read_model(connections: Connections, tables: Tables, fingerprint: str) -> Encoder:
    """Return the model in a table. Raise if it is another one, or damaged."""
    rows = connections.read(f"SELECT name, content FROM {tables.model}")
    with tempfile.TemporaryDirectory() as path:
        for name, content in rows:
            if name in folder.MODEL_FILES:  # and never outside of the folder
                (Path(path) / name).write_bytes(content)
        try:
            encoder = Encoder(folder.open_model(Path(path), verify=True))
        except ClickvecError as error:
            reason = str(error).replace(f"{path}/", "")
            raise EngineError(
                f"the model in {connections.address.shown} is damaged ({reason}); build the index again"
            ) from None
    return check_model(connections, encoder, fingerprint, "the model in it")


def check_model(connections: Connections, encoder: Encoder, fingerprint: str, whose: str) -> Encoder:
    """Return the encoder. Raise if it is not the one that the index was built with."""
    if encoder.fingerprint != fingerprint:
        raise EngineError(
            f"{connections.address.shown} is an index of another model: it was built with {fingerprint}, but {whose} "
            f"is {encoder.fingerprint or 'one that was never saved'}; build the index again with that model"
        )
    return encoder


def prepare_database(connections: Connections) -> Connection:
    """Return a connection of its own for a build. Create the extension pgvector if it is missing."""
    from psycopg import errors

    connection = connect(connections.address)
    where = connections.address.shown
    try:
        if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
            return connection
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.FeatureNotSupported, errors.UndefinedFile):
        connection.close()
        raise EngineError(f"the server of {where} has no pgvector; install the extension pgvector there") from None
    except errors.InsufficientPrivilege:
        connection.close()
        raise EngineError(
            f"{where} lacks the extension pgvector, and the user may not create it; let an administrator run: "
            "CREATE EXTENSION vector"
        ) from None
    except errors.Error as error:
        connection.close()
        raise connections.error(error) from None
    return connection
