"""The documents of an index in PostgreSQL, as a search reads them."""

from collections.abc import Iterator, Sequence
from typing import Any

from clickvec.search.documents.document import Document
from clickvec.search.documents.document_rows import id_text
from clickvec.search.engines.postgres_connections import Connections
from clickvec.search.engines.postgres_copy import key_of
from clickvec.search.engines.postgres_tables import Tables

COLUMNS = "d.seq, d.id, d.is_integer, d.title, d.payload"
_BLOCK = 5_000


def to_document(row: Sequence[Any]) -> Document:
    """Return the document of a row that begins with COLUMNS."""
    _, text, is_integer, title, payload = row[:5]
    return Document(int(text) if is_integer else text, title, payload)


class PostgresDocuments:
    """The documents of one view. Those that a search has read are kept until its end."""

    def __init__(self, connections: Connections, tables: Tables) -> None:
        """Read nothing yet."""
        self._connections, self._tables = connections, tables
        self._known: dict[int, Document] = {}

    def remember(self, rows: Sequence[Sequence[Any]]) -> None:
        """Keep the documents of rows that begin with COLUMNS."""
        self._known |= {row[0]: to_document(row) for row in rows}

    def get(self, seqs: Sequence[int]) -> dict[int, Document]:
        """Return the documents that are still there, by sequence number."""
        fresh = [int(seq) for seq in seqs if seq not in self._known]
        if fresh:
            statement = f"SELECT {COLUMNS} FROM {self._tables.documents} d WHERE d.seq = ANY(%(seqs)s::bigint[])"
            self.remember(self._connections.read(statement, {"seqs": fresh}))
        return {seq: self._known[seq] for seq in seqs if seq in self._known}

    def find(self, doc_id: str | int) -> int | None:
        """Return the sequence number of an id, or None. 7 and "7" are the same id."""
        statement = f"SELECT {COLUMNS} FROM {self._tables.documents} d WHERE d.key = %(key)s"
        rows = self._connections.read(statement, {"key": key_of(id_text(doc_id))})
        self.remember(rows)
        return rows[0][0] if rows else None

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in insertion order."""
        return (document for _, documents in self.blocks() for document in documents)

    def blocks(self, after: int = 0) -> Iterator[tuple[list[int], list[Document]]]:
        """Yield the documents after a sequence number in blocks, with their sequence numbers."""
        statement = (
            f"SELECT {COLUMNS} FROM {self._tables.documents} d WHERE d.seq > %(after)s ORDER BY d.seq LIMIT {_BLOCK}"
        )
        while rows := self._connections.read(statement, {"after": after}):
            after = rows[-1][0]
            yield [row[0] for row in rows], list(map(to_document, rows))
