"""Search titles by words: Lucene's BM25 over a segment and a delta, with the nearest words for a misspelled one.

`query_terms.py` has the formula. The number of titles, those with a word, the mean length and the words that a
misspelled one may stand for are those of the living titles of all parts. So the scores do not depend on how the titles
came there, or on those that were there before.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from clickvec.native.postings import Postings, best_titles
from clickvec.search.lexical.query_terms import K1, B, QueryTerms, Scores, Term
from clickvec.search.lexical.spelling import Hashes, Numbers, share_most, trigrams
from clickvec.search.lexical.word_segment import WordDelta, WordSegment
from clickvec.search.lexical.word_tokens import word_hash

_KEPT = 10_000  # words whose postings are known
_MUCH_LESS = 16  # a binary search for each of n titles takes about as long as reading so many times n flags
_NUMBERS = 1 << 28  # words of a part, at most: the words of part n have the numbers from n times this

Mask = NDArray[np.bool_]


class Words(QueryTerms):
    """BM25 over the titles of parts, which are numbered one after the other. The parts' later titles do not count."""

    def __init__(
        self,
        parts: Sequence[WordSegment | WordDelta],
        k1: float = K1,
        b: float = B,
        sizes: Sequence[int] | None = None,
        alive: Mask | None = None,
    ) -> None:
        """Search the first titles of each part: as many as `sizes` says, or those that it has now.

        `alive` says for each position whether the title still counts; None if all of them do.
        """
        self._parts, self._sizes = tuple(parts), [len(part) for part in parts] if sizes is None else list(sizes)
        self._starts = [sum(self._sizes[:number]) for number in range(len(parts))]
        self._known: dict[str, tuple[tuple[Postings, ...], int]] = {}
        total = sum(
            part.total_length if isinstance(part, WordSegment) else part.total_lengths[size]
            for part, size in zip(self._parts, self._sizes, strict=True)
        )
        self._alive, dead = alive, np.zeros(0, np.int64) if alive is None else np.flatnonzero(~alive)
        self._dead = [dead[(dead >= start) & (dead < start + size)] - start for start, size in self._ranges()]
        total -= int(self.lengths(dead).sum(dtype=np.int64))
        super().__init__(sum(self._sizes) - len(dead), total, k1, b)

    def __len__(self) -> int:
        """The number of living titles."""
        return self._size

    def best(
        self, terms: Sequence[Term], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int64], Scores]:
        """Return the positions and BM25 scores of the k best titles with a word of the query, best first.

        Equal scores are in the order of positions. `allowed` says for each position whether it may be found; None if
        all living titles may.
        """
        allowed = self._alive if allowed is None else allowed
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

    def scores(self, terms: Sequence[Term]) -> Scores:
        """Return the BM25 score of every title, dead ones included."""
        scores = np.zeros(sum(self._sizes), np.float32)
        weights = [np.float32(weight * term.idf) for term in terms for weight in term.weights]
        for postings, start, size in self._each_part([word for term in terms for word in term.words]):
            of_part = scores[start : start + size]
            for weight, of_word in zip(weights, postings, strict=True):
                of_part[of_word.positions] += weight * self._table[of_word.codes]
        return scores

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
        for part, (start, size) in zip(self._parts, self._ranges(), strict=True):
            rows = np.flatnonzero((positions >= start) & (positions < start + size))
            of_part = part.lengths if isinstance(part, WordSegment) else part.lengths(size)
            lengths[rows] = of_part[positions[rows] - start]
        return lengths

    def _each_part(self, words: Sequence[str]) -> Iterator[tuple[list[Postings], int, int]]:
        """Yield the postings of words in each part, with its first position and its number of titles."""
        found = self._postings(words)
        for number, (start, size) in enumerate(self._ranges()):
            yield [postings[number] for postings, _ in found], start, size

    def _ranges(self) -> list[tuple[int, int]]:
        """Return the first position of each part and its number of titles."""
        return list(zip(self._starts, self._sizes, strict=True))

    def _title_counts(self, words: Sequence[str]) -> list[int]:
        """Return the number of living titles with each word."""
        return [count for _, count in self._postings(words)]

    def _count(self, postings: tuple[Postings, ...]) -> int:
        """Return the number of living titles in the postings of a word."""
        if self._alive is None:
            return sum(map(len, postings))
        count = 0
        for of_part, dead, (start, _) in zip(postings, self._dead, self._ranges(), strict=True):
            count += len(of_part)
            if len(dead) * _MUCH_LESS < len(of_part):
                at = np.searchsorted(of_part.positions, dead.astype(np.int32))
                count -= int((of_part.positions[np.minimum(at, len(of_part) - 1)] == dead).sum())
            elif len(dead):
                count -= len(of_part) - int(np.count_nonzero(self._alive.take(start + of_part.positions, mode="clip")))
        return count

    def _near(self, word: str, most: int) -> set[str]:
        """Return words of titles that may be at most so many edits away from a word."""
        if most == 1:
            return {other for part in self._parts for other in part.near(word)}
        keys, lists = trigrams(word), list[list[Numbers]]()
        for number, part in enumerate(self._parts):
            living = self._living(number, part.spelling.with_trigrams(keys)) if self._sizes[number] else []
            lists.append([words + np.int32(number * _NUMBERS) for words in living] if number else living)
        # A word has one number here: that of its first part with a living title.
        joined = [np.concatenate(of_key) for of_key in zip(*filter(None, lists), strict=True)]
        chosen = share_most(word, most, joined, self._word_lengths, self._word_hashes).tolist()
        return {self._parts[number // _NUMBERS].word(number % _NUMBERS) for number in chosen}

    def _word_lengths(self, numbers: Numbers) -> NDArray[np.int64]:
        """Return the number of letters of words with these rising numbers."""
        return np.concatenate([part.spelling.lengths(of_part) for part, of_part in self._by_part(numbers)])

    def _word_hashes(self, numbers: Numbers) -> Hashes:
        """Return the hashes of words with these rising numbers."""
        return np.concatenate([part.hashes_of(of_part) for part, of_part in self._by_part(numbers)])

    def _by_part(self, numbers: Numbers) -> Iterator[tuple[WordSegment | WordDelta, Numbers]]:
        """Yield each part and the numbers that its words have in it."""
        ends = np.searchsorted(numbers, np.arange(1, len(self._parts) + 1) * _NUMBERS).tolist()
        for number, (part, first, end) in enumerate(zip(self._parts, [0, *ends], ends, strict=False)):
            yield part, numbers[first:end] - np.int32(number * _NUMBERS)

    def _living(self, number: int, lists: list[Numbers]) -> list[Numbers]:
        """Return those words of a part that living titles in it have, and none in the parts before it."""
        part, (start, size) = self._parts[number], self._ranges()[number]
        if number == 0 and isinstance(part, WordSegment) and not len(self._dead[0]):
            return lists
        alive = np.ones(size, np.bool_) if self._alive is None else self._alive[start : start + size]
        lists = [words[part.are_alive(words, alive)] for words in lists]
        for before, (first, count) in zip(self._parts[:number], self._ranges(), strict=False):
            mask = np.ones(count, np.bool_) if self._alive is None else self._alive[first : first + count]
            lists = [words[~before.has_alive(part.hashes_of(words), mask)] for words in lists]
        return lists

    def _postings(self, words: Sequence[str]) -> list[tuple[tuple[Postings, ...], int]]:
        """Return the postings of each word in each part, and how many of the titles are alive.

        They are kept: a query needs them several times.
        """
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
            for row, word in enumerate(fresh):
                postings = tuple(part[row] for part in parts)
                known[word] = postings, self._count(postings)
        return [known[word] for word in words]
