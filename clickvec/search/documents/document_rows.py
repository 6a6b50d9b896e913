"""The rows of the tables of an index, with a checksum each. Values are validated on writing and on reading."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from clickvec.errors import ClickvecError
from clickvec.search.documents.document import Document
from clickvec.storage.json_files import MAX_BYTES, MAX_DEPTH, parse_json

COLUMNS = "seq, id, is_integer, title, payload, crc"
Row = tuple[int, str | bytes, bool, str | bytes, str | bytes | None, int]  # text is read as bytes
_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def to_rows(documents: Iterable[Document], seq: int) -> Iterator[Row]:
    """Yield the rows of documents, numbered from `seq`. Raise if a value has the wrong type or is too large."""
    for doc_id, title, payload in documents:
        text, is_integer = (doc_id, False) if type(doc_id) is str else (id_text(doc_id), not isinstance(doc_id, str))
        if type(title) is not str or len(title) > MAX_BYTES:
            title = _title(doc_id, title)
        json_text = None if payload is None else _payload(doc_id, payload)
        checked = f"{seq} {is_integer:d}\0{text}\0{title}\0{json_text or ''}"
        try:
            crc = crc32(checked.encode())
        except UnicodeEncodeError:
            crc = crc32(checked.encode("utf-8", "surrogatepass"))
            stored = None if json_text is None else storable(json_text)
            yield seq, storable(text), is_integer, storable(title), stored, crc
        else:
            yield seq, text, is_integer, title, json_text, crc
        seq += 1


def check_documents(documents: Iterable[Document]) -> None:
    """Raise if a document cannot be stored, or if two have the same id."""
    ids = set[str | bytes]()
    for row in to_rows(documents, 1):
        if row[1] in ids:
            raise duplicate_id(int(row[1]) if row[2] else stored_text(row[1]))
        ids.add(row[1])


def to_document(row: tuple[Any, ...]) -> Document:
    """Return the document of a row. Raise ValueError if its checksum is wrong."""
    seq, id_bytes, is_integer, title, payload, crc = row
    try:
        if crc32(b"%d %d\0%b\0%b\0%b" % (seq, is_integer, id_bytes, title, payload or b"")) != crc:
            raise ValueError("wrong checksum")
        text = id_bytes.decode("utf-8", "surrogatepass")
        return Document(
            int(text) if is_integer else text,
            title.decode("utf-8", "surrogatepass"),
            None if payload is None else parse_json(payload.decode("utf-8", "surrogatepass")),
        )
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def storable(text: str) -> str | bytes:
    """Return bytes if the text has half of a surrogate pair, which SQLite's text cannot have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def stored_text(stored: str | bytes) -> str:
    """Return the text that `storable` has made storable."""
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def id_text(doc_id: object) -> str:
    """Return an id as text. Raise if it is neither a str nor an int."""
    if isinstance(doc_id, str):
        return str(doc_id)
    if isinstance(doc_id, int | np.integer) and not isinstance(doc_id, bool):
        try:
            return str(int(doc_id))
        except ValueError:  # Python refuses to print more than 4,300 digits
            raise ClickvecError("an id has more than 4,300 digits; give it as a str") from None
    raise ClickvecError(f"the id {doc_id!r} is of type {type(doc_id).__name__}; give a str or an int")


def duplicate_id(doc_id: str | int) -> ClickvecError:
    """Return the error for an id that occurs twice in one call."""
    return ClickvecError(f"the id {doc_id!r} is given to more than one title; all ids must differ, even as text")


def _title(doc_id: object, title: object) -> str:
    if not isinstance(title, str):
        shown = f"{title!r}"[:100]
        raise ClickvecError(f"the title {shown} of the id {doc_id!r} is of type {type(title).__name__}; give a str")
    if len(title) > MAX_BYTES:
        raise ClickvecError(f"the title of the id {doc_id!r} has {len(title):,} characters, more than {MAX_BYTES:,}")
    return str(title)


def _payload(doc_id: object, payload: object) -> str:
    """Return a payload as JSON that can be read again."""
    try:
        text = _to_json(payload)
        if len(text) > MAX_BYTES // 4 or text.count("[") + text.count("{") > MAX_DEPTH:
            parse_json(text.encode("utf-8", "surrogatepass"))  # raises if it is too long or too deep
    except (TypeError, ValueError, RecursionError) as error:
        raise ClickvecError(f"the payload of the id {doc_id!r} is not JSON: {error}") from None
    return text


# --- deletions, settings and counters --------------------------------------------------------------------------------


class Counters(NamedTuple):
    """What a store counts. It is written with every change."""

    last_seq: int = 0
    last_deletion: int = 0
    documents: int = 0
    forgotten: int = 0  # deletions up to this number are no longer stored

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Counters":
        """Return the counters that a store holds. Raise ValueError if they cannot be right."""
        if set(values) != set(cls._fields) or not all(
            type(value) is int and 0 <= value < 2**62 for value in values.values()
        ):
            raise ValueError(f"the counters are {values!r:.100}")
        counters = cls(**values)
        if counters.documents > counters.last_seq or counters.forgotten > counters.last_deletion:
            raise ValueError(f"the counters {values} contradict each other")
        return counters


def record_deletions(connection: sqlite3.Connection, seqs: list[int], counters: Counters) -> Counters:
    """Write the rows of deletions. Return the counters after them."""
    rows = [(number, seq, deletion_crc(number, seq)) for number, seq in enumerate(seqs, counters.last_deletion + 1)]
    connection.executemany("INSERT INTO deletions VALUES(?, ?, ?)", rows)
    return counters._replace(last_deletion=counters.last_deletion + len(rows), documents=counters.documents - len(rows))


def deletion_crc(number: int, seq: int) -> int:
    """Return the checksum of a deletion."""
    return crc32(b"%d %d" % (number, seq))


def write_value(connection: sqlite3.Connection, key: str, value: dict[str, Any]) -> None:
    """Write a row of the table state."""
    text = json.dumps(value, allow_nan=False)
    crc = crc32(text.encode(), crc32(key.encode()))
    connection.execute("INSERT OR REPLACE INTO state VALUES(?, ?, ?)", (key, text, crc))


def read_value(connection: sqlite3.Connection, key: str) -> dict[str, Any]:
    """Read a row of the table state. Raise ValueError if it is missing or its checksum is wrong."""
    row = connection.execute("SELECT value, crc FROM state WHERE key = ?", (key,)).fetchone()
    try:
        if row is None or crc32(row[0], crc32(key.encode())) != row[1]:
            raise ValueError("wrong checksum")
        return dict(parse_json(row[0]))
    except TypeError as error:
        raise ValueError(str(error)) from None
