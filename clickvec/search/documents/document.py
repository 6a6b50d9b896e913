"""A document of an index."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from clickvec.text.tokens import canonical


class Document(NamedTuple):
    """What an index stores of a title, beside its vector."""

    id: str | int
    title: str
    payload: Any = None


def distinct_texts(texts: Iterable[str]) -> tuple[list[str], list[int]]:
    """Return the distinct texts, as normalised words, and for each text the position of its words among them.

    Texts with the same words are encoded once: in a batch, the last bit of a vector depends on its row, so their scores
    would differ.
    """
    position: dict[str, int] = {}
    rows = [position.setdefault(canonical(text), len(position)) for text in texts]
    return list(position), rows
