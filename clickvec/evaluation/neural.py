"""Ranks by the cosine of the query's and the title's vectors: the paper's relevance score, equation 3."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clickvec.evaluation.ranker import BaseRanker, Search
from clickvec.progress import Progress
from clickvec.text.tokens import canonical


class TextEncoder(Protocol):
    """The part of `clickvec.Encoder` that ranking needs: unit vectors of a query, (dim,), and of titles, (n, dim)."""

    def encode_query(self, query: str, /) -> NDArray[np.float32]:
        """The vector of a query."""
        ...

    def encode_document(self, titles: list[str], /) -> NDArray[np.float32]:
        """The vectors of titles."""
        ...


class Neural(BaseRanker):
    """A trained model as a ranker."""

    def __init__(self, encoder: TextEncoder, name: str, progress: Progress | None = None) -> None:
        """Rank with `encoder`, under `name`. `progress` is told how many titles of a catalogue are encoded."""
        self.encoder, self.name, self.progress = encoder, name, progress

    def score(self, query: str, titles: Sequence[str]) -> NDArray[np.float32]:
        """The cosine of the query with each title; 0 where either text is empty."""
        if not titles:
            return np.zeros(0, dtype=np.float32)
        # Titles of the same words are scored once: in a batch the last bit depends on the row, and would undo a tie.
        rows: dict[str, int] = {}
        row = [rows.setdefault(canonical(title), len(rows)) for title in titles]
        scores = self.encoder.encode_document(list(rows)) @ self.encoder.encode_query(query)
        return np.asarray(scores, dtype=np.float32)[row]

    def prepared(self, titles: Sequence[str]) -> "Neural":
        """Encode all the titles at once, and rank with their vectors."""
        if not titles:
            return self
        distinct = list(dict.fromkeys(map(canonical, titles)))
        return Neural(_AtHand(self.encoder, distinct), self.name)

    def search_over(self, ids: Sequence[str], titles: Sequence[str]) -> Search:
        """Return the search of an index of the titles."""
        from clickvec.model.encoder import Encoder
        from clickvec.search.index import Index

        if not isinstance(self.encoder, Encoder):  # only a whole model makes an index
            return super().search_over(ids, titles)
        index = Index.build(self.encoder, titles, ids, progress=self.progress)
        return lambda queries, k: [[hit.id for hit in hits] for hits in index.search(queries, k=k)]


class _AtHand:
    """An encoder that has read some titles before."""

    def __init__(self, encoder: TextEncoder, titles: list[str]) -> None:
        self._row = {title: row for row, title in enumerate(titles)}
        self._vectors = encoder.encode_document(titles)
        self.encode_query = encoder.encode_query

    def encode_document(self, titles: list[str]) -> NDArray[np.float32]:
        """The vectors of some of these titles."""
        return self._vectors[[self._row[title] for title in titles]]
