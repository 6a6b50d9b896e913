"""Search titles by words: Lucene's BM25 over a segment and a delta, with the nearest words for a misspelled one.

    score = sum over the terms of idf * f / (f + k1 * (1 - b + b * length / mean length))
    idf = ln(1 + (N - n + 0.5) / (n + 0.5))

f is how often the word occurs in the title, n the number of titles with the word, N the number of all titles. N, n and
the mean length cover all parts. As in Lucene, deleted titles count in them until the next compaction drops them.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.native.postings import Postings, best_titles
from clickvec.search.lexical.spelling import can_be_corrected, distances, is_one_edit, most_edits, splits
from clickvec.search.lexical.word_segment import MOST, WordDelta, WordSegment
from clickvec.search.lexical.word_tokens import code_pieces, indexed, is_code, plain_words, title_words, word_hash

K1, B = 1.2, 0.75  # Lucene's; `Index.use_fusion` stores others
MOST_TERMS = 64  # distinct words of a query that are used
MOST_NEAR = 5  # words of the index that a misspelled word stands for
_CORRECTED = 8  # words of a query, at most
_KEPT = 10_000  # words whose postings are known

Scores = NDArray[np.float32]


class Term(NamedTuple):
    """A distinct word of a query, and the words of the index that it stands for."""

    word: str
    words: tuple[
        str, ...
    ]  # the word itself, in its indexed form; if no title contains it, the nearest words; none if none is near
    weights: tuple[float, ...]  # of each: how often the query has the word, less for words that are further away
    idf: float  # of all titles with one of the words; of no titles if there are none
    is_known: bool  # whether a title contains the word
    is_code: bool  # whether it contains a digit


class Words:
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
        self.k1, self.b = k1, b
        self._starts = [sum(self._sizes[:number]) for number in range(len(parts))]
        self._size = sum(self._sizes)
        self._known: dict[str, tuple[Postings, ...]] = {}
        self._last: tuple[str, tuple[Term, ...]] = ("", ())
        total = sum(
            part.total_length if isinstance(part, WordSegment) else part.total_lengths[size]
            for part, size in zip(self._parts, self._sizes, strict=True)
        )
        self._table = _frequencies(k1, b, total / self._size if total else 1.0)

    def __len__(self) -> int:
        """The number of titles."""
        return self._size

    def terms(self, query: str) -> tuple[Term, ...]:
        """Return the distinct words of a query, at most 64, in order."""
        last = self._last
        if last[0] != query:  # one search asks several times
            last = self._last = (query, self._make_terms(query))
        return last[1]

    def _make_terms(self, query: str) -> tuple[Term, ...]:
        forms: dict[str, list[str]] = {}  # the words of the query by their indexed form
        for word in plain_words(query):
            form = indexed(word)
            if form in forms or len(forms) < MOST_TERMS:
                forms.setdefault(form, []).append(word)
        counts = dict(zip(forms, self._title_counts(list(forms)), strict=True))
        terms, corrected = [], 0
        for form, spelled in forms.items():
            count, words = counts[form], {form: 1.0} if counts[form] else {}
            if not count and corrected < _CORRECTED:
                words = self._nearest(form)
                count = min(self._size, sum(self._title_counts(list(words))))
                corrected += 1
            weights = tuple(len(spelled) * weight for weight in words.values())
            is_known = counts[form] > 0
            terms.append(Term(spelled[0], tuple(words), weights, self._idf(count), is_known, is_code(form)))
        return (*terms, *self._joined(counts))

    def _joined(self, title_counts: dict[str, int]) -> Iterator[Term]:
        """Yield terms for neighbours that titles also write as one word: spider man, spiderman.

        At least as many titles must have it as the rarer of the two words.
        """
        pairs = [
            (indexed(first + second), min(title_counts[first], title_counts[second]))
            for first, second in pairwise(title_counts)
            if first.isalpha() and second.isalpha()
        ]
        words = {word: least for word, least in pairs if word not in title_counts}
        for (word, least), count in zip(words.items(), self._title_counts(list(words)), strict=True):
            if count and count >= least:
                yield Term(word, (word,), (1.0,), self._idf(count), True, False)

    def _nearest(self, word: str) -> dict[str, float]:
        """Return the words that a word in no title may stand for, with their weights.

        They are the words at distance 1; if there are none, the two words that it consists of; otherwise the nearest.
        A code stands only for its letters and its digits.
        """
        if is_code(word):
            counts = self._title_counts(pieces := code_pieces(word))
            return {piece: len(piece) / len(word) for piece, count in zip(pieces, counts, strict=True) if count}
        if not can_be_corrected(word):
            return {}
        edits = 1
        near = {other for part in self._parts for other in part.near(word, 1) if is_one_edit(word, other)}
        if not near:
            halves = self._halves(word)
            if halves:
                return dict.fromkeys(halves, 1.0)
            most = most_edits(word)
            others = list({other for part in self._parts for other in part.near(word, most)}) if most > 1 else []
            edits_of = distances(word, others)
            edits = int(edits_of.min(initial=most))
            near = {others[row] for row in np.flatnonzero(edits_of == edits).tolist()}
        titles = dict(zip(near, self._title_counts(list(near)), strict=True))
        words = sorted((other for other in near if titles[other]), key=lambda other: (-titles[other], other))
        return {other: 1 - edits / max(len(word), len(other)) for other in words[:MOST_NEAR]}

    def _halves(self, word: str) -> tuple[str, ...]:
        """Return the two words of the index that a word consists of, if it does: the two that more titles contain."""
        pairs = [(first, indexed(second)) for first, second in splits(word)]
        counts = self._title_counts([half for pair in pairs for half in pair])
        titles = [min(counts[at : at + 2]) for at in range(0, len(counts), 2)]
        return pairs[titles.index(max(titles))] if any(titles) else ()

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

    def matches_of_texts(self, terms: Sequence[Term], texts: Sequence[str]) -> tuple[Scores, NDArray[np.uint8]]:
        """Return the `matches` and `lengths` that titles would have. They need not be in the index."""
        scores, lengths = np.zeros((len(texts), len(terms)), np.float32), np.zeros(len(texts), np.uint8)
        for row, text in enumerate(texts):
            times, length = title_words(text)
            lengths[row] = length = min(length, MOST)
            for column, term in enumerate(terms):
                for word, weight in zip(term.words, term.weights, strict=True):
                    code = (MOST + 1) * min(times.get(word, 0), MOST) + length
                    scores[row, column] += np.float32(weight * term.idf) * self._table[code]
        return scores, lengths

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

    def _idf(self, title_count: int) -> float:
        return math.log(1 + (self._size - title_count + 0.5) / (title_count + 0.5))


def _frequencies(k1: float, b: float, mean_length: float) -> Scores:
    """Return f / (f + k1 * (1 - b + b * length / mean length)) for each code of a posting."""
    counts = np.arange(MOST + 1, dtype=np.float32)
    saturation = (k1 * (1 - b + b * counts.astype(np.float64) / mean_length)).astype(np.float32)
    table = np.zeros((MOST + 1, MOST + 1), np.float32)
    np.add(counts[1:, None], saturation, out=table[1:])
    np.divide(counts[1:, None], table[1:], out=table[1:])
    return table.reshape(-1)
