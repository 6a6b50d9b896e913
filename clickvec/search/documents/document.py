"""A document of an index."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from clickvec.errors import ClickvecError
from clickvec.text.tokens import canonical


class Document(NamedTuple):
    """What an index stores of a title, beside its vector."""

    id: str | int
    title: str
    payload: Any = None


class Change(NamedTuple):
    """New values of some fields of a document. The other fields keep theirs."""

    id: str | int
    title: str | None = None  # None keeps it
    payload: Mapping[str, Any] = {}  # None removes a field

    def of(self, document: Document) -> Document:
        """Return the document with these values. Raise if its payload has no fields."""
        payload, title = document.payload, document.title if self.title is None else self.title
        if self.payload:
            if payload is not None and not isinstance(payload, dict):
                raise ClickvecError(
                    f"the payload of the id {document.id!r} is no object with fields; add it again whole"
                )
            removed = {name for name, value in self.payload.items() if value is None}
            merged = {**(payload or {}), **self.payload}
            payload = {name: value for name, value in merged.items() if name not in removed} or None
        return Document(document.id, title, payload)


def unknown_ids(ids: Iterable[str | int]) -> ClickvecError:
    """Return the error for changes of documents that are not there."""
    missing = list(ids)
    more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
    return ClickvecError(
        f"the index has no document with the id {', '.join(map(repr, missing[:5]))}{more}, so nothing was changed; add "
        "new documents first"
    )


def distinct_texts(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """Return the distinct texts, as normalised words, and for each text the position of its words among them.

    Texts with the same words are encoded once: in a batch, the last bit of a vector depends on its row, so their scores
    would differ.
    """
    position: dict[str, int] = {}
    rows = [position.setdefault(canonical(text), len(position)) for text in texts]
    return list(position), rows
