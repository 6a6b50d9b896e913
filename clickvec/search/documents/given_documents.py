"""The documents that a program gives to an index: as `Document`, as dicts, as plain titles, or by keyword."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np

from clickvec.data import Title
from clickvec.data.layouts.joins import CATALOGUE
from clickvec.data.parsing.columns import OWN_NAMES
from clickvec.data.parsing.given_table import is_missing, is_table, table_name, table_rows
from clickvec.data.parsing.header import Keys
from clickvec.data.parsing.source import Table
from clickvec.data.parsing.usual_names import likely_ids
from clickvec.data.titles import MAX_TITLE
from clickvec.errors import ClickvecError
from clickvec.search.documents.document import Change, Document

Row = TypeVar("Row", Document, Change)
Given = Iterable[Document | Title | Mapping[str, Any] | tuple[Any, ...] | str] | Table

_LOOKED_AT = 1_000  # dicts, to see whether a column without a usual name holds the ids


def documents_of(
    documents: Given | None,
    ids: Iterable[str | int] | None = None,
    titles: Iterable[str] | None = None,
    payloads: Iterable[Any] | None = None,
    *,
    numbered: bool,
) -> Iterator[Document]:
    """Return the documents that a caller gives, either as documents or by keyword.

    A dict has the columns of a catalogue: an id, a title, and further ones, which become the payload. If `numbered`,
    documents without any id are numbered from 0, and a str is a title; otherwise each needs an id.
    """
    if documents is None:
        return iter(_of_lists(ids, titles, payloads, numbered))
    if ids is not None or titles is not None or payloads is not None:
        raise ClickvecError("give either documents, or ids, titles and payloads by keyword, not both")
    return _of_rows(_listed(documents, "documents", (Document, Title, str)), numbered)


def changes_of(changes: Iterable[Change | Mapping[str, Any]]) -> list[Change]:
    """Return the changes that a caller gives. A dict has an id, and a title or fields of the payload."""
    keys = Keys("changes", CATALOGUE, OWN_NAMES)
    return [_change(row, number, keys) for number, row in enumerate(_listed(changes, "changes", (Change,)))]


def _listed(given: Any, name: str, kept: tuple[type, ...]) -> Iterator[Any]:  # noqa: ANN401
    """Return the rows of an argument: dicts, and objects of the types that are kept. What is missing is no field."""
    if is_table(given) and not isinstance(given, list | tuple | np.ndarray):
        rows = table_rows(given, table_name(given), CATALOGUE.layouts[:1])
        return ({key: value for key, value in row.items() if value is not None} for row in rows)
    if isinstance(given, str | Mapping | Document | Change):
        raise ClickvecError(f"{name} must be a list, not the single {type(given).__name__} {given!r:.100}")
    if not isinstance(given, Iterable):
        raise ClickvecError(
            f"{name} must be a list of documents or a DataFrame, and {given!r:.60} is of type {type(given).__name__}"
        )
    given = _not_exchanged(given, name) if isinstance(given, list | tuple) else given
    return table_rows(map(_without_missing, given), name, CATALOGUE.layouts[:1], kept)


def _without_missing(row: object) -> object:
    """Return a dict without values such as NaN: as in a DataFrame, they are no fields. None removes a field."""
    if isinstance(row, Mapping) and any(map(is_missing, row.values())):
        return {name: value for name, value in row.items() if not is_missing(value)}
    return row


def _not_exchanged(given: Sequence[Any], name: str) -> Sequence[Any]:
    """Raise if tuples have titles in the place of ids."""
    pairs = [row for row in given[:_LOOKED_AT] if type(row) is tuple and len(row) == 2]
    texts = [row for row in pairs if all(isinstance(value, str) for value in row)]
    if texts and len(texts) == len(pairs) and all(" " in doc_id and " " not in title for doc_id, title in texts):
        raise ClickvecError(f"{name}[0] is {given[0]!r:.100}; a tuple is (id, title), and this seems to be (title, id)")
    return given


def _change(row: object, number: int, keys: Keys) -> Change:
    if isinstance(row, Change):
        return _checked(row._replace(id=_plain(row.id)))
    if not isinstance(row, Mapping):
        raise ClickvecError(f"changes[{number}] is of type {type(row).__name__}; give a dict with id and new values")
    doc_id, title, payload = _split(row, f"changes[{number}]", number, keys)
    if doc_id is None:
        raise ClickvecError(f"changes[{number}] has no id; its keys are {', '.join(row) or 'none'}")
    if title is None and "title" in keys.find(number, row):
        raise ClickvecError(f"changes[{number}] removes the title, which every document has; leave it out to keep it")
    return _checked(Change(doc_id, title, payload))


def _checked(given: Row) -> Row:
    """Return a document or a change. Raise if its id is blank, if its title is too long, or if it blanks a title."""
    if isinstance(given.id, str) and not given.id.strip():
        raise ClickvecError(f"the id {given.id!r} of the title {given.title!r:.100} is blank; give a text or a number")
    if isinstance(given.title, str):
        if len(given.title) > MAX_TITLE:
            raise ClickvecError(
                f"the title of the id {given.id!r} has {len(given.title):,} characters, more than {MAX_TITLE:,}"
            )
        if isinstance(given, Change) and not given.title.strip():
            raise ClickvecError(f"the new title of the id {given.id!r} is blank; leave it out to keep the old one")
    return given


def _of_lists(
    ids: Iterable[str | int] | None, titles: Iterable[str] | None, payloads: Iterable[Any] | None, numbered: bool
) -> list[Document]:
    """Return one document per title. Raise if there is not one id and one payload for each."""
    if isinstance(titles, str):
        raise ClickvecError(f"titles must be a list of str, not the single str {titles!r}")
    if ids is None and not numbered:
        raise ClickvecError("there are no ids; give documents with their ids, or ids=[...] and titles=[...]")
    texts = [] if titles is None else list(titles)
    keys = map(str, range(len(texts))) if ids is None else map(_plain, ids)
    values_of = [None] * len(texts) if payloads is None else payloads
    columns: dict[str, list[Any]] = {"ids": list(keys), "payloads": list(values_of)}
    for name, values in columns.items():
        if len(values) != len(texts):
            raise ClickvecError(f"there are {len(texts)} titles and {len(values)} {name}; give one per title")
    return [_checked(Document(*row)) for row in zip(columns["ids"], texts, columns["payloads"], strict=True)]


def _of_rows(rows: Given, numbered: bool) -> Iterator[Document]:
    source = iter(rows)
    head = list(islice(source, _LOOKED_AT))
    keys, has_ids, unnamed = Keys("documents", CATALOGUE, OWN_NAMES.in_memory()), False, _likely_ids(head)
    for number, row in enumerate(chain(head, source)):
        document = _document(row, number, keys)
        is_missing = document.id is None
        if is_missing and unnamed:
            raise ClickvecError(f"documents have no id, but {unnamed[0]} may be it; name it id, or drop it")
        if is_missing and (has_ids or not numbered):
            raise ClickvecError(f"documents[{number}] has no id; give each document one, as id or doc_id")
        if not is_missing and number and not has_ids:
            raise ClickvecError(f"documents[{number}] has an id, but those before have none; give each document one")
        has_ids = not is_missing
        yield _checked(document._replace(id=str(number)) if is_missing else document)


def _document(row: object, number: int, keys: Keys) -> Document:
    """Return a document; its id is None if it has none."""
    match row:
        case Document():
            return row._replace(id=_plain(row.id))
        case Title(doc_id, title, payload):
            return Document(doc_id, title, payload or None)
        case str():
            return Document(None, row)  # type: ignore[arg-type]
        case Mapping():
            return _of_mapping(row, number, keys)
    raise ClickvecError(
        f"documents[{number}] is of type {type(row).__name__}; give a Document, or a dict with id, title and payload "
        "fields"
    )


def _of_mapping(row: Mapping[str, Any], number: int, keys: Keys) -> Document:
    doc_id, title, payload = _split(row, f"documents[{number}]", number, keys)
    if "title" not in keys.find(number, row):
        raise ClickvecError(f"documents[{number}] has no title; its keys are {', '.join(row) or 'none'}")
    return Document(doc_id, title, payload or None)


def _split(row: Mapping[str, Any], name: str, number: int, keys: Keys) -> tuple[Any, Any, dict[str, Any]]:
    """Return the id and the title of a dict, None if they are absent, and its other fields."""
    if any(not isinstance(field, str) for field in row):
        raise ClickvecError(f"{name} has a key that is no str; the keys are names of columns")
    key_of = keys.find(number, row)
    payload = {field: value for field, value in row.items() if field not in key_of.values()}
    if isinstance(payload.get("payload"), Mapping):
        raise ClickvecError(
            f"{name} has its fields in payload; write them beside the title, or give a Document or a Change"
        )
    doc_id, title = (row[key_of[column]] if column in key_of else None for column in ("doc_id", "title"))
    if isinstance(doc_id, float) and doc_id.is_integer():  # the type of a column in which some are missing
        doc_id = int(doc_id)
    return doc_id, title, payload


def _likely_ids(head: list[Any]) -> list[str]:
    """Return the keys of dicts without a usual id whose values may be the ids."""
    dicts = [row for row in head if isinstance(row, Mapping)]
    names = list(dict.fromkeys(name for row in dicts for name in row if isinstance(name, str)))
    return likely_ids(names, [[row.get(name) for row in dicts] for name in names])


def _plain(doc_id: Any) -> Any:  # noqa: ANN401
    """Return an integer of NumPy as an int of Python."""
    return int(doc_id) if isinstance(doc_id, np.integer) else doc_id
