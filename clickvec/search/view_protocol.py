"""What a search needs of an index, wherever it is kept: in files (`live/`), or in a database (`engines/`).

A title has a position, by which all parts know it. In files, positions count through a segment and its delta; in a
database they are sequence numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import UnavailableError
from clickvec.model.encoder import Encoder, Vectors
from clickvec.progress import Progress
from clickvec.search.documents.document import Change, Document
from clickvec.search.fusion import Fusion
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


class SearchView(Protocol):
    """What one search uses. It does not change while it is used."""

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
    def fusion(self) -> Fusion:
        """How words and vectors make a score."""

    @property
    def fusion_report(self) -> dict[str, Any] | None:
        """How the fusion was chosen."""

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

    def nearest(self, queries: Vectors, k: int, allowed: Allowed) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the k nearest titles of each query and their cosines, best first, ties by position.

        An approximate search may miss some, and others with another k: see `retrieval.nearest_titles`.
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


@runtime_checkable
class HybridAtOnce(Protocol):
    """A view that finds and fuses the candidates of hybrid search in one step."""

    def hybrid(
        self, terms: tuple[Term, ...], vector: Vectors, depth: int, allowed: Allowed
    ) -> tuple[Positions, Scores, Scores, Vectors]:
        """Return positions, scores, matches and cosines of the candidates, best first."""


class EngineError(UnavailableError):
    """A database does not answer, or refuses. The request may be right."""


class StaleViewError(EngineError):
    """The index was built again while a search used a view of the old one. The next view is right."""


class LiveDocuments(Protocol):
    """The documents of an index, the present view of them, and their changes."""

    def view(self) -> SearchView:
        """Return the present view."""

    def refresh(self) -> None:
        """Let the next view show all changes that were made before this call."""

    def reading(self) -> AbstractContextManager[object]:
        """Let everything that is read inside a `with` block belong to one state of the documents."""

    def add(self, documents: Iterable[Document], progress: Progress | None = None) -> int:
        """Add documents, replacing those with the same id. Return how many were given."""

    def update(self, changes: Iterable[Change], progress: Progress | None = None) -> int:
        """Change fields of documents that are there, all or none. Return how many were given."""

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents. Return how many of the ids existed."""

    def state(self) -> dict[str, Any]:
        """Return the stored settings."""

    def set_state(self, **values: Any) -> None:  # noqa: ANN401
        """Change settings, such as the fusion."""

    def compact(self, progress: Progress | None = None) -> None:
        """Build what is derived from the documents again."""

    def use_model(self, encoder: Encoder, progress: Progress | None = None, **values: Any) -> None:  # noqa: ANN401
        """Encode all titles with another model and use it from then on, together with other settings."""

    def close(self) -> None:
        """Release everything."""

    def copied(self) -> "LiveDocuments":
        """Return an independent copy."""
