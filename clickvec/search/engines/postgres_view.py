"""What a search in PostgreSQL uses. Positions are sequence numbers. Hybrid search is one statement."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickvec.model.encoder import Encoder, Vectors
from clickvec.search.engines.postgres_connections import Connections
from clickvec.search.engines.postgres_documents import COLUMNS, PostgresDocuments
from clickvec.search.engines.postgres_filters import Parameters
from clickvec.search.engines.postgres_scores import hybrid_sql
from clickvec.search.engines.postgres_tables import State, Tables, read_state
from clickvec.search.engines.postgres_words import Allowed, PostgresWords, and_allowed
from clickvec.search.fusion import Candidates, Fusion
from clickvec.search.lexical.query_terms import Scores
from clickvec.search.lexical.word_tokens import title_words
from clickvec.search.parts.part import PartQuery, Sql, Values
from clickvec.search.payload.facets import Facet, sorted_facet
from clickvec.search.payload.fields import FieldKinds, Fields, field_kinds
from clickvec.search.payload.filters import Filter
from clickvec.search.title_view import Positions

_FEW = 5_000  # titles that a filter allows, up to which all of them are compared
_DEEP = 1_000  # nearest titles, above which the search is exact: an HNSW index is made for few
_ALIKE = 1_000  # titles with the same words that are compared
_SAMPLE = 10_000  # of the newest documents, whose fields are listed


class PostgresView:
    """One state of an index, read when it is first needed."""

    def __init__(self, connections: Connections, encoder_of: Callable[[State], Encoder]) -> None:
        """Read nothing yet. `encoder_of` returns the model of a state."""
        self._connections, self._encoder_of = connections, encoder_of

    @cached_property
    def state(self) -> State:
        """The counts and the settings."""
        return read_state(self._connections)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self._connections.address.name, self.state.generation)

    @cached_property
    def documents(self) -> PostgresDocuments:
        """The documents."""
        return PostgresDocuments(self._connections, self._tables)

    @cached_property
    def words(self) -> PostgresWords:
        """The search by words."""
        return PostgresWords(self._connections, self.state)

    @property
    def encoder(self) -> Encoder:
        """The model."""
        return self._encoder_of(self.state)

    @property
    def fusion(self) -> Fusion:
        """How words and vectors make a score."""
        chosen = self.state.settings.get("fusion")
        return Fusion.default() if chosen is None else Fusion.from_json(chosen)

    @property
    def fusion_report(self) -> dict[str, Any] | None:
        """How the fusion was chosen."""
        report: dict[str, Any] | None = self.state.settings.get("fusion_report")
        return report

    @property
    def recall(self) -> float | None:
        """None: the server does not measure it."""
        return None

    @property
    def precision(self) -> str:
        """The number format of the vectors."""
        return "float32"

    @property
    def version(self) -> tuple[str, str]:
        """The fingerprint of the model, and the generation of the tables."""
        return self.state.settings["model"], str(self.state.generation)

    @property
    def size(self) -> int:
        """One more than the largest position."""
        return self.state.last_seq + 1 if self.state.titles else 0

    def __len__(self) -> int:
        """Return the number of titles."""
        return self.state.titles

    def allowed(self, where: Filter | None) -> Allowed | None:
        """Return a filter as a condition; None if all titles may be found."""
        return None if where is None else Allowed(where)

    # --- vectors -------------------------------------------------------------------------------------------------

    @property
    def is_exact(self) -> bool:
        """Whether `nearest` misses no title."""
        return not self.state.settings.get("approximate")

    def nearest(self, queries: Vectors, k: int, allowed: Allowed | None) -> Iterator[tuple[Positions, Vectors]]:
        """Yield the k nearest titles of each query and their cosines, best first, ties by position."""
        for query in queries:
            rows: list[tuple[Any, ...]] = []
            if query.any():
                parameters = Parameters()
                rows = self._connections.read(self.nearest_sql(query, k, allowed, parameters), parameters)
            seqs = np.array([row[0] for row in rows], np.int64)
            cosines = np.array([1 - row[1] for row in rows], np.float32)
            best = np.lexsort((seqs, -cosines))
            yield seqs[best], cosines[best]

    @property
    def compared(self) -> int | None:
        """All titles of an exact search; what an HNSW index compares, only the server knows."""
        return len(self) if self.is_exact else None

    def cosine_sql(self, query: Vectors, parameters: Parameters) -> str:
        """Return an expression for the cosine of the document `d`, 0 if it has no vector."""
        if not query.any():
            return "0::float8"
        return f"coalesce(1 - (d.vector <=> {parameters.add(_text(query))}::vector), 0)"

    def nearest_sql(self, query: Vectors, k: int, allowed: Allowed | None, parameters: Parameters) -> str:
        """Return the statement that finds the nearest titles and their distances.

        Few titles that a filter allows are all compared: an HNSW index might find none of them.
        """
        documents, vector = self._tables.documents, f"{parameters.add(_text(query))}::vector"
        filtered = and_allowed(allowed, parameters)
        if self.is_exact or k > _DEEP:
            return (
                f"SELECT d.seq, d.vector <=> {vector} AS distance FROM {documents} d "
                f"WHERE d.vector IS NOT NULL{filtered} ORDER BY (d.vector <=> {vector}) + 0, d.seq LIMIT {int(k)}"
            )
        search = (
            f"SELECT d.seq, d.vector <=> {vector} AS distance FROM {documents} d "
            f"WHERE d.vector IS NOT NULL{filtered}%s ORDER BY d.vector <=> {vector} LIMIT {int(k)}"
        )
        if allowed is None:
            return search.replace("%s ORDER", " ORDER")
        return (
            f"WITH few AS MATERIALIZED (SELECT d.seq, d.vector FROM {documents} d "
            f"WHERE d.vector IS NOT NULL{filtered} LIMIT {_FEW + 1}), "
            f"counted AS MATERIALIZED (SELECT count(*) AS n FROM few) "
            f"(SELECT f.seq, f.vector <=> {vector} AS distance FROM few f "
            f"WHERE (SELECT n FROM counted) <= {_FEW} ORDER BY 2, 1 LIMIT {int(k)}) UNION ALL "
            f"({search.replace('%s ORDER', f' AND (SELECT n FROM counted) > {_FEW} ORDER')})"
        )

    def cosines(self, query: Vectors, positions: Positions) -> Vectors:
        """Return the cosines of a query and titles."""
        scores = np.zeros(len(positions), np.float32)
        if not query.any() or not len(positions):
            return scores
        statement = (
            f"SELECT d.seq, 1 - (d.vector <=> %(query)s::vector) FROM {self._tables.documents} d "
            "WHERE d.seq = ANY(%(seqs)s::bigint[]) AND d.vector IS NOT NULL"
        )
        found = dict(self._connections.read(statement, {"query": _text(query), "seqs": positions.tolist()}))
        scores[:] = [found.get(position, 0.0) for position in positions.tolist()]
        return scores

    def count_above(self, query: Vectors, score: float, position: int) -> int:
        """Return how many titles have a higher cosine, or the same and a smaller position."""
        cosine = "(1 - (d.vector <=> %(query)s::vector))::real"
        statement = (
            f"SELECT count(*) FROM {self._tables.documents} d WHERE d.vector IS NOT NULL AND "
            f"({cosine} > %(score)s::real OR ({cosine} = %(score)s::real AND d.seq < %(seq)s))"
        )
        params = {"query": _text(query), "score": float(score), "seq": int(position)}
        return int(self._connections.read(statement, params)[0][0])

    def vectors_at(self, positions: Positions) -> NDArray[Any]:
        """Return the stored vectors of titles."""
        statement = f"SELECT d.seq, d.vector::real[] FROM {self._tables.documents} d WHERE d.seq = ANY(%(seqs)s)"
        found = dict(self._connections.read(statement, {"seqs": positions.tolist()}))
        vectors = np.zeros((len(positions), self.encoder.dimensions), np.float32)
        for row, position in enumerate(positions.tolist()):
            if found.get(position) is not None:
                vectors[row] = found[position]
        return vectors

    def unreachable(self) -> int:
        """Return the number of titles without a vector."""
        statement = f"SELECT count(*) FROM {self._tables.documents} d WHERE d.vector IS NULL"
        return int(self._connections.read(statement)[0][0])

    # --- hybrid --------------------------------------------------------------------------------------------------

    def hybrid(self, parts: Sequence[PartQuery], depth: int) -> tuple[Positions, Scores, Candidates] | None:
        """Return the candidates of all parts, best first, by one statement; None if a part has no SQL.

        The statement also reads their documents.
        """
        parameters = Parameters()
        fragments = dict[str, Sql]()
        for one in parts:
            fragment = one.sql(self, depth, parameters)
            if fragment is None:
                return None
            fragments[one.part.name] = fragment
        silent = frozenset(one.part.name for one in parts if one.is_silent)
        statement = hybrid_sql(self._tables.documents, COLUMNS, fragments, self.fusion, silent)
        rows = self._connections.read(statement, parameters)
        self.documents.remember(rows)
        values, start = dict[str, Values](), 6
        for name, fragment in fragments.items():
            end = start + len(fragment.columns)
            columns = np.array([row[start:end] for row in rows], np.float32).reshape(len(rows), len(fragment.columns))
            values[name], start = fragment.values(columns), end
        scores = np.array([row[5] for row in rows], np.float32)
        return np.array([row[0] for row in rows], np.int64), scores, Candidates(values, silent)

    # --- documents -----------------------------------------------------------------------------------------------

    def alike(self, title: str) -> Iterator[int]:
        """Yield the positions of titles that have the same words as a title."""
        times, _ = title_words(title)
        words = [word for word in times if not any("\ud800" <= char <= "\udfff" for char in word)][:64]
        condition = "array_to_tsvector(d.words) @@ %(query)s::tsquery" if words else "d.words = '{}'"
        statement = f"SELECT d.seq FROM {self._tables.documents} d WHERE {condition} ORDER BY d.seq LIMIT {_ALIKE}"
        query = " & ".join(f"'{word}'" for word in words)
        yield from (int(row[0]) for row in self._connections.read(statement, {"query": query} if words else None))

    def seqs_at(self, positions: Positions) -> list[int]:
        """Return the positions: they are sequence numbers."""
        return [int(position) for position in positions]

    def positions_of(self, seqs: Positions) -> Positions:
        """Return the sequence numbers: they are positions."""
        return np.asarray(seqs, np.int64)

    def sample(self, count: int) -> Positions:
        """Return at most so many random positions of titles, rising, the same ones each time."""
        statement = (
            f"SELECT seq FROM (SELECT d.seq FROM {self._tables.documents} d ORDER BY hashint8(d.seq), d.seq "
            f"LIMIT {int(count)}) AS chosen ORDER BY seq"
        )
        return np.array([row[0] for row in self._connections.read(statement)], np.int64)

    # --- payload -------------------------------------------------------------------------------------------------

    def notes(self, where: Filter) -> list[str]:
        """Return a sentence for each condition on a field that no document has."""
        statement = f"SELECT EXISTS (SELECT 1 FROM {self._tables.documents} d WHERE d.fields ? %(field)s)"
        notes = []
        for condition in where.conditions():
            is_text = "\0" not in condition.field
            if condition.exists is None and not (
                is_text and self._connections.read(statement, {"field": condition.field})[0][0]
            ):
                notes.append(f"{condition.path}: no document has the field {condition.field}")
        return list(dict.fromkeys(notes))

    def count_values(self, field: str, positions: Positions | None, allowed: Allowed | None, limit: int) -> Facet:
        """Count the values of a field among the titles at these positions; if None, among all that are allowed."""
        parameters = Parameters()
        chosen = and_allowed(allowed, parameters)
        if positions is not None:
            chosen = f" AND d.seq = ANY({parameters.add(positions.tolist())}::bigint[])"
        statement = (
            f"SELECT e.v, count(*) FROM {self._tables.documents} d, "
            f"jsonb_array_elements(d.fields -> {parameters.add(field)}) AS e(v) WHERE TRUE{chosen} GROUP BY e.v"
        )
        return sorted_facet(self._connections.read(statement, parameters), limit)

    def field_kinds(self) -> dict[str, FieldKinds]:
        """Return the fields of the newest documents, and what kinds of values they have."""
        statement = f"SELECT d.payload FROM {self._tables.documents} d ORDER BY d.seq DESC LIMIT {_SAMPLE}"
        return field_kinds([Fields.build(row[0] for row in self._connections.read(statement))])


def _text(vector: Vectors) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(f'{number:.9g}' for number in vector.tolist())}]"
