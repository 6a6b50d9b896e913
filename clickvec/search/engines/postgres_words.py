"""The search by words in PostgreSQL: BM25 in SQL over the words that a text search index (GIN) finds."""

import string
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from clickvec.search.engines.postgres_connections import Connections
from clickvec.search.engines.postgres_filters import Parameters, SqlFilter
from clickvec.search.engines.postgres_tables import State, Tables
from clickvec.search.lexical.query_terms import K1, B, QueryTerms, Scores, Term
from clickvec.search.lexical.word_segment import MOST
from clickvec.search.payload.filters import Filter
from clickvec.search.title_view import Positions

_LEAST = 1e-30  # instead of 0, so that nothing is divided by 0
_READ = 20_000  # titles whose BM25 is computed, at most about so many


class Allowed(NamedTuple):
    """A filter, as a condition on the documents `d`."""

    where: Filter

    def sql(self, parameters: Parameters) -> str:
        """Return the condition."""
        return self.where.translate(SqlFilter(parameters))


def and_allowed(allowed: Allowed | None, parameters: Parameters) -> str:
    """Return the condition of a filter with AND before it, or nothing."""
    return "" if allowed is None else f" AND {allowed.sql(parameters)}"


class PostgresWords(QueryTerms):
    """BM25 over the titles in a table.

    Frequent words are not looked up if rarer ones of the query find enough titles: a title with frequent words alone is
    hardly among the best. Misspelled words are corrected if one letter is wrong.
    """

    def __init__(self, connections: Connections, state: State) -> None:
        """Count the words of one state."""
        settings = state.settings
        super().__init__(state.titles, state.total_length, settings.get("k1", K1), settings.get("b", B))
        self._connections, self._tables = connections, Tables(connections.address.name, state.generation)
        self._counts: dict[str, int] = {}

    def _title_counts(self, words: Sequence[str]) -> list[int]:
        fresh = [word for word in dict.fromkeys(words) if word not in self._counts]
        if fresh:
            storable = [word for word in fresh if not any("\ud800" <= char <= "\udfff" for char in word)]
            statement = f"SELECT word, titles FROM {self._tables.words} WHERE word = ANY(%(words)s)"
            rows = self._connections.read(statement, {"words": storable})
            self._counts |= dict.fromkeys(fresh, 0) | {word: int(count) for word, count in rows}
        return [self._counts[word] for word in words]

    def _near(self, word: str, most: int) -> set[str]:
        """Return words at distance 1: every edit with a letter of the alphabet or of the word is looked up."""
        if most > 1:
            return set()
        letters = sorted({*string.ascii_lowercase, *word})
        splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        edited = {first + second[1:] for first, second in splits if second}
        edited |= {first + second[1] + second[0] + second[2:] for first, second in splits if len(second) > 1}
        edited |= {first + letter + second[1:] for first, second in splits if second for letter in letters}
        edited |= {first + letter + second for first, second in splits for letter in letters}
        candidates = sorted(edited - {word, ""})
        return {other for other, count in zip(candidates, self._title_counts(candidates), strict=True) if count}

    def best(self, terms: Sequence[Term], k: int, allowed: Allowed | None = None) -> tuple[Positions, Scores]:
        """Return the k best titles with a word of the query and their BM25, best first, ties by position."""
        parameters = Parameters()
        statement = self.best_sql(terms, k, allowed, parameters)
        rows = self._connections.read(statement, parameters) if statement else []
        return np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.float32)

    def best_sql(self, terms: Sequence[Term], k: int, allowed: Allowed | None, parameters: Parameters) -> str:
        """Return the statement of `best`, or nothing if no title has a word of the query."""
        searched = self._searched(terms, k)
        if not searched:
            return ""
        bm25 = " + ".join(self.match_sql(term, parameters) for term in terms if term.words)
        # Words have letters, digits and marks, so that quoting them is enough.
        query = parameters.add(" | ".join(f"'{word}'" for word in searched))
        return (
            f"SELECT d.seq, {bm25} AS bm25 FROM {self._tables.documents} d "
            f"WHERE array_to_tsvector(d.words) @@ {query}::tsquery{and_allowed(allowed, parameters)} "
            f"ORDER BY 2 DESC, 1 LIMIT {int(k)}"
        )

    def match_sql(self, term: Term, parameters: Parameters) -> str:
        """Return what a term adds to the BM25 of the document `d`: 0 if the title does not have it."""
        add = parameters.add
        constant = add(max(_LEAST, self.k1 * (1 - self.b)))
        slope = add(self.k1 * self.b / self.mean_length)
        saturation = f"({constant}::float8 + {slope}::float8 * d.length)"
        parts = []
        for word, weight in zip(term.words, term.weights, strict=True):
            times = f"least({MOST}, cardinality(array_positions(d.words, {add(word)}::text)))"
            # f / (f + s) is 1 - s / (f + s), which counts the word once.
            parts.append(f"{add(weight * term.idf)}::float8 * (1 - {saturation} / ({times} + {saturation}))")
        return f"({' + '.join(parts)})" if parts else "0::float8"

    def _searched(self, terms: Sequence[Term], k: int) -> list[str]:
        """Return the words to look up: the rarest ones, until they are in enough titles."""
        words = list(dict.fromkeys(word for term in terms for word in term.words))
        counts = dict(zip(words, self._title_counts(words), strict=True))
        searched, total = list[str](), 0
        for word in sorted((word for word in words if counts[word]), key=lambda word: (counts[word], word)):
            if searched and total + counts[word] > max(_READ, 10 * k):
                break
            searched.append(word)
            total += counts[word]
        return searched

    def matches(self, terms: Sequence[Term], positions: Positions) -> Scores:
        """Return what each term adds to the BM25 of each title: (positions, terms)."""
        scores = np.zeros((len(positions), len(terms)), np.float32)
        if not len(positions) or not terms:
            return scores
        parameters = Parameters()
        each = ", ".join(self.match_sql(term, parameters) for term in terms)
        seqs = parameters.add([int(position) for position in positions])
        statement = f"SELECT d.seq, {each} FROM {self._tables.documents} d WHERE d.seq = ANY({seqs}::bigint[])"
        found: dict[int, Any] = {row[0]: row[1:] for row in self._connections.read(statement, parameters)}
        for row, position in enumerate(positions.tolist()):
            if position in found:
                scores[row] = found[position]
        return scores
