"""Vectors: the cosine of our model between query and title. It learns from clicks what words mean."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.model.encoder import Vectors
from clickvec.native.products import exact_scores
from clickvec.search.parts.part import Explained, Feature, Part, PartQuery, Query, Single, Sql, SqlView, Values
from clickvec.search.segments.building import encode_titles
from clickvec.search.title_view import DEPTH, Allowed, Positions, TitleView

DEEPER = 10  # an approximate search looks for 100 titles, and for so many times more each time

Scores = NDArray[np.float32]


class Near(NamedTuple):
    """The first titles by vectors, and how many were asked for."""

    positions: Positions
    cosines: Scores
    asked: int


class VectorPart(Part):
    """The part of the vectors."""

    name = "vectors"
    measure = "cosine"
    label = "cosine"
    features: tuple[Feature, ...] = (
        Feature("cosine", "cosine", "the cosine of the vectors of query and title", 0.441),
    )
    proposes = True

    def queries(
        self, view: TitleView, queries: Sequence[Query], allowed: Allowed, count: int
    ) -> Iterator["VectorQuery"]:
        """Encode all queries at once, and search for their titles in blocks."""
        vectors = _vectors(view, queries)
        if not count:
            yield from (VectorQuery(view, vector, allowed) for vector in vectors)
            return
        count = min(count, max(1, view.size))
        for vector, found in zip(vectors, nearest_titles(view, vectors, count, allowed), strict=True):
            yield VectorQuery(view, vector, allowed, Near(*found, count))


VECTORS = VectorPart()


class VectorQuery(PartQuery):
    """The vectors of the titles, for one query."""

    part: Part = VECTORS

    def __init__(self, view: TitleView, vector: Vectors, allowed: Allowed, near: Near | None = None) -> None:
        """Search nothing yet. `near` are the first titles, if they are known."""
        self.view, self.vector, self.allowed = view, vector, allowed
        self._near = near
        self.is_silent = not vector.any()  # the model knows no trigram of the query

    @property
    def cost(self) -> int | None:
        """About how many titles are compared: all of them, or those of the clusters that are read."""
        return 0 if self.is_silent else self.view.compared

    def best(self, count: int) -> tuple[Positions, Scores]:
        """Return the first titles by cosine."""
        count = min(count, max(1, self.view.size))
        near = self._near
        if near is None or len(near.positions) == near.asked < count:
            (found,) = nearest_titles(self.view, self.vector[None], count, self.allowed)
            near = self._near = Near(*found, count)
        return near.positions[:count], near.cosines[:count]

    def values(self, positions: Positions) -> Values:
        """Return the cosines by the vectors that the index stores."""
        return Single("cosine", self.view.cosines(self.vector, positions))

    def values_of_texts(self, texts: Sequence[str], payload: Any = None) -> Values:  # noqa: ANN401
        """Return the cosines by the vectors of the model."""
        return Single("cosine", exact_scores(encode_titles(self.view.encoder, list(texts), "float32"), self.vector))

    def rank(self, title: int | str) -> int | None:
        """Return the rank among all titles with a vector."""
        view, query = self.view, self.vector
        if isinstance(title, int):
            position, score = title, view.cosines(query, np.array([title]))[0]
            has_vector = bool(view.vectors_at(np.array([title])).any())
        else:
            vector = encode_titles(view.encoder, [title], "float32")
            position, score, has_vector = view.size, exact_scores(vector, query)[0], bool(vector.any())
        return 1 + view.count_above(query, score, position) if has_vector and query.any() else None

    def explain(self, values: Values, row: int, title: str) -> Explained:
        """Say how much of the cosine comes from rounded vectors."""
        value = float(values.own[row])
        cosine = float(self.view.encoder.encode_document(title) @ self.vector)
        return Explained(VECTORS.name, VECTORS.label, value, value - cosine)

    def sql(self, view: SqlView, depth: int, parameters: Any) -> Sql:  # noqa: ANN401
        """Return the cosine as SQL, and the nearest titles."""
        return Sql(
            candidates=None if self.is_silent else view.nearest_sql(self.vector, depth, self.allowed, parameters),
            columns={"cosine": view.cosine_sql(self.vector, parameters)},
            own="cosine",
            features={"cosine": "cosine"},
            values=lambda columns: Single("cosine", columns[:, 0]),
        )


def _vectors(view: TitleView, queries: Sequence[Query]) -> Vectors:
    """Return the vectors of queries, which are texts or have one."""
    given = [query.vector for query in queries]
    texts = [query.text or "" for query, vector in zip(queries, given, strict=True) if vector is None]
    encoded = iter(np.atleast_2d(view.encoder.encode_query(texts[0] if len(texts) == 1 else texts)) if texts else ())
    vectors = [next(encoded) if vector is None else vector for vector in given]
    return np.stack(vectors) if vectors else np.zeros((0, view.encoder.dimensions), np.float32)


def nearest_titles(
    view: TitleView, queries: Vectors, count: int, allowed: Allowed
) -> Iterator[tuple[Positions, Scores]]:
    """Yield the first titles by vectors of each query, and their cosines. More titles begin with the same ones.

    An approximate search looks for 100 titles, then for 1,000, and so on. What a deeper search finds follows what was
    found before.
    """
    if view.is_exact:
        yield from view.nearest(queries, count, allowed)
        return
    for query, (positions, cosines) in zip(queries, view.nearest(queries, DEPTH, allowed), strict=True):
        depth = DEPTH
        while len(positions) == depth < count:
            depth *= DEEPER
            ((more, scores),) = view.nearest(query[None], depth, allowed)
            is_new = ~np.isin(more, positions)
            positions = np.concatenate((positions, more[is_new]))[:depth]
            cosines = np.concatenate((cosines, scores[is_new]))[:depth]
        yield positions[:count], cosines[:count]
