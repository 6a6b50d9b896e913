"""Documents as rows in the binary format of COPY: much faster than text, because of the vectors."""

import json
import struct
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Vectors
from clickvec.search.documents.document import Document
from clickvec.search.documents.document_rows import to_rows
from clickvec.search.engines.postgres_connections import Connection
from clickvec.search.lexical.word_segment import MOST
from clickvec.search.lexical.word_tokens import title_words
from clickvec.search.payload.flat_fields import flat_fields

COLUMNS = "seq, key, id, is_integer, title, payload, fields, words, length, vector"
_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_TEXT_OID = 25
_MOST_WORDS = 2_000  # distinct words of a title that are searched; a tsvector holds 1 MB
_NULL = struct.pack(">i", -1)
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class StoredRow(NamedTuple):
    """What the database stores of a document."""

    seq: int
    key: bytes
    id: str
    is_integer: bool
    title: str
    payload: str | None  # JSON
    fields: str
    words: list[str]  # in their indexed form, each as often as the title has it
    length: int  # in words; at most 255


def key_of(id_text: str) -> bytes:
    """Return what stands for an id in the index of ids: a text of any length would not fit there."""
    return blake2b(id_text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def stored_rows(documents: Iterable[Document], seq: int) -> list[StoredRow]:
    """Return the rows of documents, numbered from `seq`. Raise if a value has the wrong type, or cannot be stored."""
    documents = list(documents)
    rows = []
    for document, (number, text, is_integer, title, payload, _) in zip(documents, to_rows(documents, seq), strict=True):
        for what, value in (("id", text), ("title", title), ("payload", payload)):
            if isinstance(value, bytes) or (value and ("\0" in value or (what == "payload" and "\\u0000" in value))):
                check_text(value, f"the {what} of the id {document.id!r:.100}")
        times, length = title_words(str(title))
        words = [word for word, count in list(times.items())[:_MOST_WORDS] for _ in range(min(count, MOST))]
        rows.append(
            StoredRow(
                number, key_of(str(text)), str(text), is_integer, str(title), None if payload is None else str(payload),
                _to_json(flat_fields(document.payload)), words, min(length, MOST),
            )
        )  # fmt: skip
    return rows


def check_text(value: str | bytes, what: str) -> None:
    """Raise if PostgreSQL cannot store a text."""
    if isinstance(value, bytes) or any("\ud800" <= char <= "\udfff" for char in value):
        raise ClickvecError(f"{what} has half of a surrogate pair, which PostgreSQL cannot store; remove it")
    if "\0" in value or "\\u0000" in value.replace("\\\\", ""):
        raise ClickvecError(f"{what} has the character U+0000, which PostgreSQL cannot store; remove it")


def copy_rows(connection: Connection, table: str, rows: Sequence[StoredRow], vectors: Vectors) -> None:
    """Write rows with their vectors. A zero vector is stored as NULL."""
    has_vector: list[bool] = np.any(vectors, axis=1).tolist()
    numbers = np.ascontiguousarray(vectors, ">f4")
    head = struct.pack(">ihh", 4 + 4 * vectors.shape[1], vectors.shape[1], 0)
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(_HEADER)
        for at, row in enumerate(rows):
            copy.write(_packed(row) + (head + numbers[at].tobytes() if has_vector[at] else _NULL))
        copy.write(struct.pack(">h", -1))


def _packed(row: StoredRow) -> bytes:
    """Return a row, without its vector, in the format of COPY."""
    words = [word.encode() for word in row.words]
    array = struct.pack(">iii", 1 if words else 0, 0, _TEXT_OID)
    if words:
        array += struct.pack(">ii", len(words), 1) + b"".join(struct.pack(">i", len(word)) + word for word in words)
    return b"".join(
        (
            struct.pack(">hiq", 10, 8, row.seq),
            _sized(row.key),
            _sized(row.id.encode()),
            struct.pack(">i?", 1, row.is_integer),
            _sized(row.title.encode()),
            _NULL if row.payload is None else _sized(b"\1" + row.payload.encode()),  # 1 is the version of jsonb
            _sized(b"\1" + row.fields.encode()),
            _sized(array),
            struct.pack(">ih", 2, row.length),
        )
    )


def _sized(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content
