"""The documents of an index in one SQLite file. It is the source of truth; everything else is derived from it.

Tables
    documents   seq (insertion order, never used twice), id as text, whether the id is an int, title, payload as JSON
    deletions   number, and the seq of a document that was deleted or replaced
    state       "state": settings of the index as one JSON object; "counters": last seq, last deletion, count
Every row has a checksum, which is verified whenever the row is read.
"""

import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import UnavailableError
from clickvec.search.documents import document_rows
from clickvec.search.documents.document import Change, Document, unknown_ids
from clickvec.storage.database import Database

VERSION = 1  # of the tables
_CHECKED_BYTES = 32_000_000  # opening checks the structure of a file up to this size, which takes 0.2 s
_BLOCK = 10_000  # documents
_BLOCK_BYTES = 1 << 24  # of their titles and payloads
_MOST_PARAMETERS = 500  # in a statement; SQLite allows 999 or more
_ID_INDEX = "CREATE UNIQUE INDEX ids ON documents(id)"
_SCHEMA = f"""
CREATE TABLE documents(
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, is_integer INTEGER NOT NULL, title TEXT NOT NULL, payload TEXT,
    crc INTEGER NOT NULL
);
{_ID_INDEX};
CREATE TABLE deletions(number INTEGER PRIMARY KEY, seq INTEGER NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE state(key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL) WITHOUT ROWID
"""
_SELECT = f"SELECT {document_rows.COLUMNS} FROM documents"

Seqs = NDArray[np.int64]


class DocumentStore(AbstractContextManager["DocumentStore"]):
    """Documents by id, on disk or in memory. Changes are durable when a method returns.

    Threads and processes may share a store, and change it one after the other: a change waits until others are made. A
    store in memory can be pickled with its content. The pickle of a store on disk holds its path.
    """

    def __init__(self, database: Database) -> None:
        """Use `create` or `open`."""
        self._database = database

    @classmethod
    def create(cls, path: Path | None = None) -> "DocumentStore":
        """Create an empty store: a new file, or in memory if there is no path."""
        store = cls(Database.create(path, _SCHEMA, VERSION))
        with store._database.transaction() as connection:
            document_rows.write_value(connection, "state", {})
            document_rows.write_value(connection, "counters", document_rows.Counters()._asdict())
        return store

    @classmethod
    def open(cls, path: Path, writing: bool = False) -> "DocumentStore":
        """Open a store. Raise if it is damaged, not a store, or of a newer version."""
        database = Database(path, writing)
        store = cls(database)
        try:
            database.check(_SCHEMA, VERSION, _CHECKED_BYTES)
            store.state()
            len(store)
        except BaseException:
            database.close()
            raise
        return store

    def close(self) -> None:
        """Close the file for all threads."""
        self._database.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- changes -------------------------------------------------------------------------------------------------

    def add(self, documents: Iterable[Document], first: int | None = None) -> int:
        """Add documents, replacing those with the same id. Return how many were given.

        This is one transaction: either all documents are added or, on an error, none. Memory stays bounded, but the
        file documents.sqlite-wal grows by the size of the documents, and other changes wait. An id that occurs twice in
        one call is an error. `first` is the first of the sequence numbers that were reserved for the documents.
        """
        with self._database.transaction() as connection:
            before = counters = self._counters()
            start = before.last_seq + 1 if first is None else first
            seq, rows = start, document_rows.to_rows(documents, start)
            block = _block(rows, _BLOCK)
            # Sorting all ids at the end is faster than inserting millions of them into the index in any order.
            is_bulk = counters.documents == 0 and len(block) == _BLOCK
            if is_bulk:
                connection.execute("DROP INDEX ids")
            while block:
                counters = self._add_block(connection, block, counters, start)
                seq += len(block)
                block = _block(rows, _BLOCK)
            if is_bulk:
                try:
                    connection.execute(_ID_INDEX)
                except sqlite3.IntegrityError:
                    statement = "SELECT id FROM documents GROUP BY id HAVING count(*) > 1 LIMIT 1"
                    doc_id = connection.execute(statement).fetchone()[0]
                    raise document_rows.duplicate_id(document_rows.stored_text(doc_id)) from None
            counters = counters._replace(last_seq=max(counters.last_seq, seq - 1))
            if counters != before:
                document_rows.write_value(connection, "counters", counters._asdict())
        return seq - start

    def _add_block(
        self,
        connection: sqlite3.Connection,
        block: list[document_rows.Row],
        counters: document_rows.Counters,
        start: int,
    ) -> document_rows.Counters:
        """Add rows. Those from `start` on are of the same call."""
        added = counters._replace(documents=counters.documents + len(block))
        statement = f"INSERT OR IGNORE INTO documents({document_rows.COLUMNS}) VALUES(?, ?, ?, ?, ?, ?)"
        if connection.executemany(statement, block).rowcount == len(block):
            return added
        connection.execute("DELETE FROM documents WHERE seq BETWEEN ? AND ?", (block[0][0], block[-1][0]))
        replaced: list[int] = []
        for row in block:
            old = self._row_of_id(connection, row[1])
            if old is not None:
                if start <= old[0] < row[0]:
                    doc_id = document_rows.stored_text(row[1])
                    raise document_rows.duplicate_id(int(doc_id) if row[2] else doc_id)
                replaced.append(old[0])
                connection.execute("DELETE FROM documents WHERE seq = ?", (old[0],))
            connection.execute(statement, row)
        return document_rows.record_deletions(connection, replaced, added)

    def reserve(self, count: int) -> int:
        """Return the first of so many sequence numbers that no other document will get."""
        with self._database.transaction() as connection:
            counters = self._counters()
            after = counters._replace(last_seq=counters.last_seq + count)
            document_rows.write_value(connection, "counters", after._asdict())
        return counters.last_seq + 1

    def update(self, changes: Iterable[Change]) -> int:
        """Change fields of documents in one transaction. Return how many were given.

        An id that is unknown or given twice is an error. A changed document counts as inserted now.
        """
        with self._database.transaction():
            return self.add(self.merged(changes))

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents. Return how many of the ids existed."""
        with self._database.transaction() as connection:
            deleted = []
            for doc_id in ids:
                row = self._row_of_id(connection, document_rows.storable(document_rows.id_text(doc_id)))
                if row is not None:
                    connection.execute("DELETE FROM documents WHERE seq = ?", (row[0],))
                    deleted.append(row[0])
            if deleted:
                counters = document_rows.record_deletions(connection, deleted, self._counters())
                document_rows.write_value(connection, "counters", counters._asdict())
        return len(deleted)

    def set_state(self, **values: Any) -> None:  # noqa: ANN401
        """Change some settings in one transaction. The others keep their values."""
        with self._database.transaction() as connection:
            document_rows.write_value(connection, "state", self.state() | values)

    def forget_deletions(self, upto: int) -> None:
        """Remove the record of deletions up to a number that no reader will ask for any more."""
        with self._database.transaction() as connection:
            counters = self._counters()
            upto = min(upto, counters.last_deletion)
            if upto > counters.forgotten:
                connection.execute("DELETE FROM deletions WHERE number <= ?", (upto,))
                document_rows.write_value(connection, "counters", counters._replace(forgotten=upto)._asdict())

    def transaction(self) -> AbstractContextManager[object]:
        """Make all changes inside a `with` block durable together, or none of them on an error.

        Transactions can be nested: an inner one is undone alone, and durable when the outer one ends.
        """
        return self._database.transaction()

    # --- reading -------------------------------------------------------------------------------------------------

    def reading(self) -> AbstractContextManager[object]:
        """Let all reads of this thread inside a `with` block see the same state of the store. Keep it short."""
        return self._database.reading()

    def get(self, seqs: Sequence[int] | Seqs) -> dict[int, Document]:
        """Return the documents that are still there, by seq."""
        documents, wanted = {}, list(map(int, seqs))
        with self._database.reading() as connection:
            for first in range(0, len(wanted), _MOST_PARAMETERS):
                some = wanted[first : first + _MOST_PARAMETERS]
                statement = f"{_SELECT} WHERE seq IN ({','.join('?' * len(some))})"
                for row in connection.execute(statement, some).fetchall():
                    documents[row[0]] = self._document(row)
        return documents

    def find(self, doc_id: str | int) -> int | None:
        """Return the seq of an id, or None. 7 and "7" are the same id."""
        with self._database.connection() as connection:
            row = self._row_of_id(connection, document_rows.storable(document_rows.id_text(doc_id)))
        return None if row is None else row[0]

    def merged(self, changes: Iterable[Change]) -> list[Document]:
        """Return documents with changes of some of their fields. Raise if an id is unknown."""
        changed, missing = list[Document](), list[str | int]()
        with self._database.reading() as connection:
            for change in changes:
                row = self._row_of_id(connection, document_rows.storable(document_rows.id_text(change.id)))
                if row is None:
                    missing.append(change.id)
                else:
                    changed.append(change.of(self._document(row)))
        if missing:
            raise unknown_ids(missing)
        return changed

    def seqs_of(self, ids: Iterable[str | int]) -> Seqs:
        """Return the rising sequence numbers of those ids that are there."""
        texts, found = [document_rows.storable(document_rows.id_text(one)) for one in ids], list[int]()
        with self._database.reading() as connection:
            for first in range(0, len(texts), _MOST_PARAMETERS):
                some = texts[first : first + _MOST_PARAMETERS]
                statement = f"SELECT seq FROM documents WHERE id IN ({','.join('?' * len(some))})"
                found.extend(row[0] for row in connection.execute(statement, some))
        return np.array(sorted(found), np.int64)

    def __len__(self) -> int:
        """Return the number of documents."""
        return self._counters().documents

    def count_after(self, seq: int) -> int:
        """Return the number of documents with a larger sequence number."""
        with self._database.connection() as connection:
            return int(connection.execute("SELECT count(*) FROM documents WHERE seq > ?", (seq,)).fetchone()[0])

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in insertion order, as they are when the first one is read.

        A document that was replaced counts as inserted then.
        """
        with self._database.snapshot() as connection:
            rows = connection.execute(f"{_SELECT} ORDER BY seq")
            while block := _block(rows, _BLOCK):
                yield from map(self._document, block)

    def blocks(self, after: int, size: int = _BLOCK, upto: int | None = None) -> Iterator[tuple[Seqs, list[Document]]]:
        """Yield the documents with after < seq <= upto in blocks, in insertion order, with their seqs.

        Changes may happen between two blocks, unless the caller prevents them: a document that is deleted or replaced
        before its block is read is not yielded.
        """
        upto = self.last()[0] if upto is None else upto
        statement = f"{_SELECT} WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
        while after < upto:
            with self._database.connection() as connection:
                rows = _block(connection.execute(statement, (after, upto, size)), size)
            documents = [self._document(row) for row in rows]
            if not rows:
                return
            yield np.array([row[0] for row in rows], np.int64), documents
            after = rows[-1][0]

    def deletions(self, after: int) -> tuple[Seqs, int]:
        """Return the seqs that were deleted after a deletion number, in that order, and the last number."""
        with self._database.reading() as connection:
            counters = self._counters()
            statement = "SELECT number, seq, crc FROM deletions WHERE number > ? ORDER BY number"
            rows = connection.execute(statement, (after,)).fetchall()
        is_right = all(document_rows.deletion_crc(*row[:2]) == row[2] for row in rows)
        if after < counters.forgotten:
            raise UnavailableError(
                f"{self._database.name} keeps deletions after {counters.forgotten}, not {after}; open the index again"
            )
        if not is_right or len(rows) != max(0, counters.last_deletion - after):
            raise self._database.damaged(f"table deletions after number {after}")
        return np.array([row[1] for row in rows], np.int64), counters.last_deletion

    def last(self) -> tuple[int, int]:
        """Return the last seq that was ever given and the last deletion number."""
        return self._counters()[:2]

    def contents(self) -> tuple[int, int, int]:
        """Return numbers of which one changes when documents are added or deleted."""
        return self._counters()[:3]

    @property
    def is_writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._database.writing

    def state(self) -> dict[str, Any]:
        """Return the settings of the index."""
        return self._read("state")

    def version(self) -> int:
        """Return a number that changes when any process changes the store. It takes microseconds.

        Only numbers from the same object can be compared.
        """
        return self._database.version()

    def check_pages(self) -> None:
        """Verify the structure of the file: 1 s for a million documents. Opening does this for a small file only."""
        self._database.check(_SCHEMA, VERSION, most_bytes=2**63)

    def check_count(self, count: int) -> None:
        """Raise if there are not so many documents: then rows are missing that no checksum can miss."""
        if count != len(self):
            raise self._database.damaged(f"{count} documents can be read, but {len(self)} were stored")

    def check(self) -> None:
        """Verify the structure of the file and every row."""
        self.check_pages()
        with self._database.reading():
            count = sum(len(documents) for _, documents in self.blocks(0))
            self.deletions(self._counters().forgotten)
            self.check_count(count)

    # --- rows ----------------------------------------------------------------------------------------------------

    def _row_of_id(self, connection: sqlite3.Connection, stored_id: str | bytes) -> document_rows.Row | None:
        row: document_rows.Row | None = connection.execute(f"{_SELECT} WHERE id = ?", (stored_id,)).fetchone()
        if row is not None:
            self._document(row)  # verifies the checksum
            if row[1] != (stored_id if isinstance(stored_id, bytes) else stored_id.encode()):
                raise self._database.damaged(f"the index of ids, at {stored_id!r}")
        return row

    def _document(self, row: tuple[Any, ...]) -> Document:
        try:
            return document_rows.to_document(row)
        except ValueError:
            doc_id = row[1].decode(errors="replace") if isinstance(row[1], bytes) else row[1]
            raise self._database.damaged(f"document {row[0]}, id {doc_id!r:.100}") from None

    def _read(self, key: str) -> dict[str, Any]:
        with self._database.connection() as connection:
            try:
                return document_rows.read_value(connection, key)
            except ValueError:
                raise self._database.damaged(f"table state, row {key}") from None

    def _counters(self) -> document_rows.Counters:
        try:
            return document_rows.Counters.of(self._read("counters"))
        except ValueError as error:
            raise self._database.damaged(f"table state: {error}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path, or the content of a store in memory."""
        database = self._database
        if database.path is not None:
            return DocumentStore.open, (database.path, database.writing)
        return _load, (database.content(),)


def _block(rows: Iterator[document_rows.Row], most: int) -> list[document_rows.Row]:
    """Return the next rows: at most so many, and of a limited size together, or one."""
    block, size = list[document_rows.Row](), 0
    for row in itertools.islice(rows, most):
        block.append(row)
        size += len(row[3]) + len(row[4] or b"")
        if size >= _BLOCK_BYTES:
            break
    return block


def _load(content: bytes) -> DocumentStore:
    return DocumentStore(Database.load(content))
