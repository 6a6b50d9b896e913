"""Hits: how queries become vectors, and positions become the results that a caller gets."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from clickvec.errors import ClickvecError
from clickvec.model.encoder import Vectors
from clickvec.search.parts import PARTS
from clickvec.search.parts.part import Query
from clickvec.search.parts.vector_part import VECTORS
from clickvec.search.payload.filters import Filter
from clickvec.search.retrieval import Ranked, Ranking, rankings
from clickvec.search.view_protocol import SearchView

_UNIT_LENGTH = 1e-5  # a query vector whose length differs more from 1 is scaled


class Hit(NamedTuple):
    """A search result. The score is fused from the parts; in the modes words and vectors, it is one of them.

    `parts` has the score by each part alone: `cosine`, of the vectors of query and title, is 0 if either has none;
    `bm25` is 0 if the title has no word of the query.
    """

    id: str | int
    title: str
    score: float
    parts: Mapping[str, float]
    payload: Any = None

    def __repr__(self) -> str:
        """Show rounded scores, and the payload if there is one."""
        text = repr(self.payload)
        payload = "" if self.payload is None else f", payload={text if len(text) <= 300 else f'{text[:300]}...'}"
        parts = ", ".join(f"{name} {value:.4f}" for name, value in self.parts.items())
        return f"Hit(id={self.id!r}, title={self.title[:200]!r}, score={self.score:.4f} ({parts}){payload})"


def is_vectors(query: object) -> TypeGuard[NDArray[Any]]:
    """Return whether a query is an array of numbers. An array of texts is not."""
    return isinstance(query, np.ndarray) and query.dtype.kind in "fiu"


def search_texts_or_vectors(
    view: SearchView, query: str | list[str] | NDArray[Any], count: int, condition: Filter | None, mode: str
) -> Iterator[Ranking]:
    """Yield the order of each query, of which `count` titles will be asked for."""
    allowed = view.allowed(condition)
    if not isinstance(query, np.ndarray):
        queries = [Query(text) for text in ([query] if isinstance(query, str) else query)]
        return rankings(view, queries, mode, allowed, count)
    if mode not in ("hybrid", VECTORS.name):
        raise ClickvecError(f"a vector cannot be searched by {mode}; give a text, or the mode hybrid or {VECTORS.name}")
    vectors = _unit_vectors(query, view.encoder.dimensions)
    return rankings(view, [Query(None, vector) for vector in vectors], VECTORS.name, allowed, count)


def _unit_vectors(query: NDArray[Any], dimensions: int) -> Vectors:
    """Return query vectors as (n, dimensions), of length 1."""
    if query.ndim not in (1, 2) or query.shape[-1] != dimensions:
        raise ClickvecError(
            f"the query vectors have shape {query.shape}; expected ({dimensions},) or (n, {dimensions}), "
            "as the model of the index gives them"
        )
    vectors = np.atleast_2d(query).astype(np.float32)
    if not np.isfinite(vectors).all():
        raise ClickvecError("a query vector holds NaN or infinity; give finite numbers")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    scaled = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return np.where(np.abs(lengths - 1) > _UNIT_LENGTH, scaled, vectors)


def read_hits(view: SearchView, ranked: Sequence[Ranked], is_last: bool) -> list[list[Hit]] | None:
    """Return the hits of each query, or None if a document is no longer there; if `is_last`, leave it out."""
    wanted = [view.seqs_at(one.positions) for one in ranked]
    documents = view.documents.get([seq for seqs in wanted for seq in seqs])
    if not is_last and any(seq not in documents for seqs in wanted for seq in seqs):
        return None
    measures = {part.name: part.measure for part in PARTS}
    return [
        [
            Hit(
                documents[seq].id,
                documents[seq].title,
                score,
                {measures[name]: own for name, own in zip(one.own, parts, strict=True)},
                documents[seq].payload,
            )
            for seq, score, *parts in zip(
                seqs, one.scores.tolist(), *(own.tolist() for own in one.own.values()), strict=True
            )
            if seq in documents
        ]
        for seqs, one in zip(wanted, ranked, strict=True)
    ]
