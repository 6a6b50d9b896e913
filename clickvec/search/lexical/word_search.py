"""Search titles by words: Lucene's BM25 over a segment and a delta, with the nearest words for a misspelled one.

`query_terms.py` has the formula. The number of titles, those with a word and the mean length cover all parts. As in
Lucene, deleted titles count in them until the next compaction drops them.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from clickvec.native.postings import Postings, best_titles
from clickvec.search.lexical.query_terms import K1, B, QueryTerms, Scores, Term
from clickvec.search.lexical.word_segment import WordDelta, WordSegment
from clickvec.search.lexical.word_tokens import word_hash

_KEPT = 10_000  # words whose postings are known


class Words(QueryTerms):
    """BM25 over the titles of parts, which are numbered one after the other. The parts' later titles do not count."""

    def __init__(
        self,
        parts: Sequence[WordSegment | WordDelta],
        k1: float = K1,
        b: float = B,
        sizes: Sequence[int] | None = None,
    ) -> None:
        """Search the first titles of each part: as many as `sizes` says, or those that it has now."""
        self._parts, self._sizes = tuple(parts), [len(part) for part in parts] if sizes is None else list(sizes)
        self._starts = [sum(self._sizes[:number]) for number in range(len(parts))]
        self._known: dict[str, tuple[Postings, ...]] = {}
        total = sum(
            part.total_length if isinstance(part, WordSegment) else part.total_lengths[size]
            for part, size in zip(self._parts, self._sizes, strict=True)
        )
        super().__init__(sum(self._sizes), total, k1, b)

    def __len__(self) -> int:
        """The number of titles."""
        return self._size

    def best(
        self, terms: Sequence[Term], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], Scores]:
        """Return the positions and BM25 scores of the k best titles with a word of the query, best first.

        Equal scores are in the order of positions. `allowed` says for each position whether it may be found.
        """
        weights = np.array([weight * term.idf for term in terms for weight in term.weights], np.float32)
        positions, scores = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for postings, start, size in self._each_part([word for term in terms for word in term.words]):
            if not any(map(len, postings)):
                continue
            mask = None if allowed is None else allowed[start : start + size]
            found, values = best_titles(postings, weights, self._table, size, k, mask)
            positions.append(found + start)
            scores.append(values)
        if len(positions) == 2:
            return positions[1], scores[1]
        every, values = np.concatenate(positions), np.concatenate(scores)
        order = np.argsort(-values, kind="stable")[:k]
        return every[order], values[order]

    def matches(self, terms: Sequence[Term], positions: NDArray[np.int64]) -> Scores:
        """Return what each term adds to the score of each title, (positions, terms). A row adds up to its score."""
        scores = np.zeros((len(positions), len(terms)), np.float32)
        columns = [(column, weight * term.idf) for column, term in enumerate(terms) for weight in term.weights]
        for postings, start, size in self._each_part([word for term in terms for word in term.words]):
            rows = np.flatnonzero((positions >= start) & (positions < start + size))
            wanted = (positions[rows] - start).astype(np.int32)
            for (column, weight), of_word in zip(columns, postings, strict=True):
                if not len(of_word) or not len(rows):
                    continue
                at = np.minimum(np.searchsorted(of_word.positions, wanted), len(of_word) - 1)
                has_word = of_word.positions[at] == wanted
                scores[rows[has_word], column] += np.float32(weight) * self._table[of_word.codes[at[has_word]]]
        return scores

    def lengths(self, positions: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the number of words of these titles, at most 255."""
        lengths = np.zeros(len(positions), np.uint8)
        for part, start, size in zip(self._parts, self._starts, self._sizes, strict=True):
            rows = np.flatnonzero((positions >= start) & (positions < start + size))
            of_part = part.lengths if isinstance(part, WordSegment) else part.lengths(size)
            lengths[rows] = of_part[positions[rows] - start]
        return lengths

    def _each_part(self, words: Sequence[str]) -> Iterator[tuple[list[Postings], int, int]]:
        """Yield the postings of words in each part, with its first position and its number of titles."""
        found = self._postings(words)
        for number, (start, size) in enumerate(zip(self._starts, self._sizes, strict=True)):
            yield [postings[number] for postings in found], start, size

    def _title_counts(self, words: Sequence[str]) -> list[int]:
        """Return the number of titles with each word."""
        return [sum(map(len, postings)) for postings in self._postings(words)]

    def _near(self, word: str, most: int) -> set[str]:
        """Return words of titles that may be at most so many edits away from a word."""
        return {other for part in self._parts for other in part.near(word, most)}

    def _postings(self, words: Sequence[str]) -> list[tuple[Postings, ...]]:
        """Return the postings of each word in each part. They are kept: a query needs them several times."""
        known = self._known
        if len(known) > _KEPT:
            known = self._known = {}
        fresh = [word for word in dict.fromkeys(words) if word not in known]
        if fresh:
            hashes = [word_hash(word) for word in fresh]
            parts = [
                part.postings(hashes) if isinstance(part, WordSegment) else part.postings(hashes, size)
                for part, size in zip(self._parts, self._sizes, strict=True)
            ]
            known.update((word, tuple(part[row] for part in parts)) for row, word in enumerate(fresh))
        return [known[word] for word in words]
