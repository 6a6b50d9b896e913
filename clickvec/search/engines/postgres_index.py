"""An index in PostgreSQL: its views, and changes in transactions. Several processes may read and write it."""

import json
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Encoder, Vectors
from clickvec.progress import Progress, ignore
from clickvec.search.documents.document import Change, Document, unknown_ids
from clickvec.search.documents.document_rows import duplicate_id, id_text
from clickvec.search.engines import postgres_tables
from clickvec.search.engines.address import Address
from clickvec.search.engines.postgres_connections import Connection, Connections
from clickvec.search.engines.postgres_copy import StoredRow, copy_rows, key_of, stored_rows
from clickvec.search.engines.postgres_documents import COLUMNS, to_document
from clickvec.search.engines.postgres_tables import COUNTS, State, Tables
from clickvec.search.engines.postgres_view import PostgresView
from clickvec.search.segments.building import encode_titles

_BLOCK = 10_000


class PostgresIndex:
    """The documents in a database, as `Index` uses them."""

    def __init__(self, address: Address, encoder: Encoder | None = None) -> None:
        """Connect. Raise if there is no index, or if it was built with another model than that of the encoder."""
        self.connections = Connections(address)
        self._encoders: dict[str, Encoder] = {}
        self._loading = threading.Lock()
        try:
            state = self.read_state()
            if encoder is not None:
                postgres_tables.check_model(self.connections, encoder, state.settings["model"], "the given encoder")
                self._encoders[encoder.fingerprint] = encoder
            self.encoder_of(state)
        except BaseException:
            self.connections.close()
            raise

    def read_state(self) -> State:
        """Return the present counts and settings."""
        return postgres_tables.read_state(self.connections)

    def encoder_of(self, state: State) -> Encoder:
        """Return the model of a state. It changes if the index is built again."""
        fingerprint = state.settings["model"]
        with self._loading:
            if fingerprint not in self._encoders:
                tables = Tables(self.connections.address.name, state.generation)
                self._encoders = {fingerprint: postgres_tables.read_model(self.connections, tables, fingerprint)}
            return self._encoders[fingerprint]

    def view(self) -> PostgresView:
        """Return a view of the present state."""
        return PostgresView(self.connections, self.encoder_of)

    def refresh(self) -> None:
        """Do nothing: each view shows all changes that were made before it."""

    def reading(self) -> AbstractContextManager[object]:
        """Do nothing: each statement sees one state."""
        return nullcontext()

    # --- changes -------------------------------------------------------------------------------------------------

    def add(self, documents: Iterable[Document], progress: Progress | None = None) -> int:
        """Add documents, replacing those with the same id, in one transaction. Return how many were given."""
        documents = list(documents)
        if not documents:
            return 0
        keys = _distinct_keys([document.id for document in documents])
        rows = stored_rows(documents, 1)  # checks all of them before anything is changed
        before = self.read_state()
        vectors = encode_titles(self.encoder_of(before), [row.title for row in rows], "float32")
        with self.connections.transaction() as connection:
            state = self._locked(connection, before)
            titles = self._replace(connection, state, keys, rows, vectors, progress or ignore)
        self._index_vectors_if_many(self._tables(state), titles, state, vectors.shape[1])
        return len(rows)

    def update(self, changes: Iterable[Change], progress: Progress | None = None) -> int:
        """Change fields of documents that are there, in one transaction. Return how many were given."""
        changes = list(changes)
        if not changes:
            return 0
        keys = _distinct_keys([change.id for change in changes])
        before = self.read_state()
        encoder = self.encoder_of(before)
        with self.connections.transaction() as connection:
            state = self._locked(connection, before)
            statement = (
                f"SELECT {COLUMNS}, d.key FROM {self._tables(state).documents} d WHERE d.key = ANY(%(keys)s::bytea[])"
            )
            known = {
                bytes(row[-1]): to_document(row) for row in connection.execute(statement, {"keys": keys}).fetchall()
            }
            missing = [change.id for key, change in zip(keys, changes, strict=True) if key not in known]
            if missing:
                raise unknown_ids(missing)
            rows = stored_rows([change.of(known[key]) for key, change in zip(keys, changes, strict=True)], 1)
            vectors = encode_titles(encoder, [row.title for row in rows], "float32")
            self._replace(connection, state, keys, rows, vectors, progress or ignore)
        return len(rows)

    def _replace(
        self, connection: Connection, state: State, keys: list[bytes], rows: list[StoredRow], vectors: Vectors,
        report: Progress,
    ) -> int:  # fmt: skip
        """Write documents in place of those with the same ids. Return how many titles there are then."""
        tables = self._tables(state)
        counts, removed, length = self._remove(connection, tables, keys)
        for first in range(0, len(rows), _BLOCK):
            block = [
                row._replace(seq=state.last_seq + first + at) for at, row in enumerate(rows[first : first + _BLOCK], 1)
            ]
            copy_rows(connection, tables.documents, block, vectors[first : first + _BLOCK])
            counts.update(_title_counts(block))
            report("adding", first + len(block), len(rows))
        self._count_words(connection, tables, counts)
        self._update(connection, len(rows), len(rows) - removed, sum(row.length for row in rows) - length)
        return state.titles + len(rows) - removed

    def _tables(self, state: State) -> Tables:
        return Tables(self.connections.address.name, state.generation)

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents in one transaction. Return how many of the ids existed."""
        keys = sorted({key_of(id_text(doc_id)) for doc_id in ids})
        if not keys:
            return 0
        with self.connections.transaction() as connection:
            tables = self._tables(self._locked(connection))
            counts, removed, length = self._remove(connection, tables, keys)
            if removed:
                self._count_words(connection, tables, counts)
                self._update(connection, 0, -removed, -length)
        return removed

    def state(self) -> dict[str, Any]:
        """Return the stored settings."""
        return self.read_state().settings

    def set_state(self, **values: Any) -> None:  # noqa: ANN401
        """Change settings, such as the fusion."""
        with self.connections.transaction() as connection:
            settings = self._locked(connection).settings | values
            name = self.connections.address.name
            connection.execute(f"UPDATE {name} SET settings = %(s)s::jsonb", {"s": json.dumps(settings)})

    def _locked(self, connection: Connection, before: State | None = None) -> State:
        """Return the state. Other changes wait until the end of this transaction. Raise if the model has changed."""
        row = connection.execute(f"SELECT {COUNTS} FROM {self.connections.address.name} FOR UPDATE").fetchone()
        if row is None:
            raise postgres_tables.no_index(self.connections)
        state = State(*row)
        if before is not None and state.settings["model"] != before.settings["model"]:
            raise ClickvecError(
                f"{self.connections.address.shown} got another model meanwhile; nothing was changed. Try again"
            )
        return state

    def _remove(self, connection: Connection, tables: Tables, keys: list[bytes]) -> tuple[Counter[str], int, int]:
        """Delete documents. Return what this takes from the counts of words, how many they were, and their length."""
        rows = connection.execute(
            f"DELETE FROM {tables.documents} WHERE key = ANY(%(keys)s::bytea[]) RETURNING words, length", {"keys": keys}
        ).fetchall()
        counts: Counter[str] = Counter()
        for words, _ in rows:
            counts.subtract(set(words))
        return counts, len(rows), sum(length for _, length in rows)

    def _count_words(self, connection: Connection, tables: Tables, counts: Counter[str]) -> None:
        changed = {word: count for word, count in counts.items() if count}
        connection.execute(
            f"INSERT INTO {tables.words} AS w SELECT * FROM unnest(%(words)s::text[], %(counts)s::bigint[]) "
            "ON CONFLICT (word) DO UPDATE SET titles = w.titles + excluded.titles",
            {"words": list(changed), "counts": list(changed.values())},
        )
        gone = [word for word, count in changed.items() if count < 0]
        connection.execute(
            f"DELETE FROM {tables.words} WHERE word = ANY(%(words)s::text[]) AND titles <= 0", {"words": gone}
        )

    def _update(self, connection: Connection, seqs: int, titles: int, length: int) -> None:
        connection.execute(
            f"UPDATE {self.connections.address.name} SET last_seq = last_seq + %(seqs)s, titles = titles + %(titles)s, "
            "total_length = total_length + %(length)s",
            {"seqs": seqs, "titles": titles, "length": length},
        )

    def _index_vectors_if_many(self, tables: Tables, titles: int, state: State, dimensions: int) -> None:
        """Create the index of vectors when there are many titles for the first time."""
        settings = state.settings
        if settings.get("approximate") or not postgres_tables.wants_vector_index(
            settings.get("search", "auto"), titles, dimensions
        ):
            return
        with self.connections.connection() as connection:
            postgres_tables.create_vector_index(connection, tables, concurrently=True)
        self.set_state(approximate=True)

    def compact(self, progress: Progress | None = None) -> None:
        """Do nothing: the server does this by itself (autovacuum)."""

    def use_model(self, encoder: Encoder, progress: Progress | None = None, **values: Any) -> NoReturn:  # noqa: ANN401
        """Refuse: a database gets another model when the index is built again."""
        raise ClickvecError(
            f"the index at {self.connections.address.shown} cannot change its model; build it again: "
            "clickvec index MODEL CATALOGUE --to ADDRESS --overwrite"
        )

    def close(self) -> None:
        """Close the connections."""
        self.connections.close()

    def copied(self) -> "PostgresIndex":
        """Return another index at the same address."""
        return PostgresIndex(self.connections.address)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the address, without its password: the process that reads it needs PGPASSWORD or ~/.pgpass."""
        return PostgresIndex, (self.connections.address,)


def _distinct_keys(ids: list[str | int]) -> list[bytes]:
    """Return the keys of ids. Raise if two ids are the same."""
    keys = [key_of(id_text(doc_id)) for doc_id in ids]
    if len(set(keys)) < len(keys):
        raise duplicate_id(next(doc_id for at, doc_id in enumerate(ids) if keys[at] in keys[:at]))
    return keys


def _title_counts(rows: list[StoredRow]) -> Counter[str]:
    """Return how many of the titles have each word."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(set(row.words))
    return counts
