"""What the parts of a score need of an index, wherever it is kept: in files (`live/`), or in a database (`engines/`).

A title has a position, by which all parts know it. In files, positions count through a segment and its delta; in a
database they are sequence numbers.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clickvec.model.encoder import Encoder, Vectors
from clickvec.search.documents.document import Document
from clickvec.search.lexical.query_terms import Scores, Term
from clickvec.search.payload.facets import Facet
from clickvec.search.payload.fields import FieldKinds
from clickvec.search.payload.filters import Filter

DEPTH = 100  # titles that words and vectors each propose to the fusion

Positions = NDArray[np.int64]
Allowed = Any  # which titles a search may return, as the view has made it; None if all of them


class WordSearch(Protocol):
    """BM25 over the titles."""

    @property
    def k1(self) -> float:
        """How soon repeated words stop counting."""

    @property
    def b(self) -> float:
        """How much the length of a title counts."""

    def terms(self, query: str) -> tuple[Term, ...]:
        """Return the distinct words of a query."""

    def corrections(self, query: str) -> dict[str, tuple[str, ...]]:
        """Return the words of a query that no title has, each with the words that are searched instead."""

    def best(self, terms: Sequence[Term], k: int, allowed: Allowed = None) -> tuple[Positions, Scores]:
        """Return the k best titles with a word of the query and their BM25, best first, ties by position."""

    def matches(self, terms: Sequence[Term], positions: Positions) -> Scores:
        """Return what each term adds to the BM25 of each title: (positions, terms)."""

    def postings(self, terms: Sequence[Term]) -> int:
        """Return the number of titles with each word, added up."""

    def matches_of_texts(self, terms: Sequence[Term], texts: Sequence[str]) -> tuple[Scores, NDArray[np.uint8]]:
        """Return the matches and the lengths that titles would have. They need not be in the index."""


class Documents(Protocol):
    """What a search needs of the documents."""

    def get(self, seqs: Sequence[int]) -> dict[int, Document]:
        """Return the documents that are still there, by sequence number."""

    def find(self, doc_id: str | int) -> int | None:
        """Return the sequence number of an id, or None."""

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents in insertion order."""


class TitleView(Protocol):
    """The titles, words and vectors of an index at one moment. It does not change while it is used."""

    @property
    def documents(self) -> Documents:
        """The documents."""

    @property
    def encoder(self) -> Encoder:
        """The model."""

    @property
    def words(self) -> WordSearch:
        """The search by words."""

    @property
    def recall(self) -> float | None:
        """The recall of an approximate search, if it was measured."""

    @property
    def precision(self) -> str:
        """The number format of the vectors."""

    @property
    def version(self) -> tuple[str, str]:
        """The fingerprint of the model, and a name that changes when the index is built again."""

    @property
    def size(self) -> int:
        """One more than the largest position."""

    def __len__(self) -> int:
        """Return the number of titles."""

    def allowed(self, where: Filter | None) -> Allowed:
        """Return which titles a search may return, in the form that this view understands."""

    @property
    def is_exact(self) -> bool:
        """Whether `nearest` misses no title."""

    @property
    def compared(self) -> int | None:
        """About how many titles `nearest` compares with a query; None if only the database knows."""

    def nearest(self, queries: Vectors, k: int, allowed: Allowed) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the k nearest titles of each query and their cosines, best first, ties by position.

        An approximate search may miss some, and others with another k: see `vector_part.nearest_titles`.
        """

    def cosines(self, query: Vectors, positions: Positions) -> Vectors:
        """Return the cosines of a query and titles."""

    def count_above(self, query: Vectors, score: float, position: int) -> int:
        """Return how many titles have a higher cosine, or the same and a smaller position."""

    def vectors_at(self, positions: Positions) -> NDArray[Any]:
        """Return the stored vectors of titles."""

    def alike(self, title: str) -> Iterator[int]:
        """Yield the positions of titles that may have the same words as a title."""

    def unreachable(self) -> int:
        """Return the number of titles without a vector."""

    def seqs_at(self, positions: Positions) -> list[int]:
        """Return the sequence numbers of the documents at these positions."""

    def positions_of(self, seqs: Positions) -> Positions:
        """Return the positions of those documents that the view has."""

    def notes(self, where: Filter) -> list[str]:
        """Return a sentence for each condition that no document can satisfy."""

    def count_values(self, field: str, positions: Positions | None, allowed: Allowed, limit: int) -> Facet:
        """Count the values of a field among the titles at these positions; if None, among all that are allowed."""

    def field_kinds(self) -> dict[str, FieldKinds]:
        """Return the fields of the payloads, and what kinds of values they have."""

    def sample(self, count: int) -> Positions:
        """Return at most so many random positions of titles, rising, the same ones each time."""
