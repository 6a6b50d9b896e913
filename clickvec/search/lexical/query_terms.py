"""The words of a query as terms of BM25: how rare each is, and what a misspelled word stands for.

    score = sum over the terms of idf * f / (f + k1 * (1 - b + b * length / mean length))
    idf = ln(1 + (N - n + 0.5) / (n + 0.5))

f is how often the word occurs in the title, n the number of titles with the word, N the number of all titles.
`word_search.py` counts words in a segment and a delta; `engines/` counts them in a database.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickvec.search.lexical.spelling import can_be_corrected, distances, is_one_edit, most_edits, splits
from clickvec.search.lexical.word_segment import MOST
from clickvec.search.lexical.word_tokens import (
    code_beginnings,
    hyphenated_codes,
    indexed,
    is_code,
    is_number,
    joined_codes,
    plain_words,
    title_words,
    words_of_code,
)

K1, B = 1.2, 0.75  # Lucene's; `Index.use_fusion` stores others
MOST_TERMS = 64  # distinct words of a query that are used
MOST_NEAR = 5  # words of the index that a misspelled word stands for
_CORRECTED = 8  # words of a query, at most

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
    is_code: bool  # whether titles have it and it is a code, such as an article number, not the part of one
    is_number: bool  # whether titles have it and it is a short number, not the part of a code


class QueryTerms(ABC):
    """Makes the terms of a query from the number of titles with each word."""

    def __init__(self, size: int, total_length: int, k1: float, b: float) -> None:
        """Count `size` titles that have `total_length` words."""
        self.k1, self.b = k1, b
        self._size = size
        self._last: tuple[str, tuple[Term, ...]] = ("", ())
        self.mean_length = total_length / size if total_length else 1.0
        self._table = _frequencies(k1, b, self.mean_length)

    @abstractmethod
    def _title_counts(self, words: Sequence[str]) -> list[int]:
        """Return the number of titles with each word."""

    @abstractmethod
    def _near(self, word: str, most: int) -> Collection[str]:
        """Return words of titles that may be at most so many edits away from a word."""

    def postings(self, terms: Sequence[Term]) -> int:
        """Return the number of titles with each word, added up."""
        return sum(self._title_counts([word for term in terms for word in term.words]))

    def terms(self, query: str) -> tuple[Term, ...]:
        """Return the distinct words of a query, at most 64, in order."""
        last = self._last
        if last[0] != query:  # one search asks several times
            last = self._last = (query, self._make_terms(query))
        return last[1]

    def corrections(self, query: str) -> dict[str, tuple[str, ...]]:
        """Return the words of a query that no title has, each with the similar words that are searched instead.

        Codes are named also if nothing is searched instead, and so are all words of a query of which nothing is known.
        """
        if not self._size:
            return {}
        terms = self.terms(query)
        written = {code: parts for code, parts in hyphenated_codes(query) if not self._is_known("".join(parts))}
        told = {part for parts in written.values() for part in parts}
        is_any_known = any(term.words for term in terms)
        found: dict[str, tuple[str, ...]] = dict.fromkeys(written, ())
        for term in terms:
            is_told = not is_any_known or (is_code(term.word) and not is_number(term.word))
            if not term.is_known and (term.words or is_told) and term.word not in told:
                found[term.word] = term.words
        return found

    def _is_known(self, word: str) -> bool:
        return self._title_counts([indexed(word)])[0] > 0

    def _make_terms(self, query: str) -> tuple[Term, ...]:
        forms: dict[str, list[str]] = {}  # the words of the query by their indexed form
        for word in plain_words(query):
            form = indexed(word)
            if form in forms or len(forms) < MOST_TERMS:
                forms.setdefault(form, []).append(word)
        joined = [(code, first, parts) for code, first, parts in joined_codes(query) if code not in forms]
        every = [*forms, *dict.fromkeys(code for code, _, _ in joined)] if joined else list(forms)
        counts = dict(zip(every, self._title_counts(every), strict=True))
        codes, parts_of_codes, taken = dict[str, Term](), set[str](), set[int]()
        for code, first, parts in joined:
            places = range(first, first + len(parts))
            if counts[code] and taken.isdisjoint(places):
                codes[code] = Term(code, (code,), (1.0,), self._idf(counts[code]), True, True, False)
                parts_of_codes.update(parts)
                taken.update(places)
                if code.isdecimal():  # the groups of an EAN say nothing, and a title may write it without them
                    for part in parts:
                        forms.pop(part, None)
        if joined:
            counts = {form: counts[form] for form in forms}
        terms, corrected = [], 0
        for form, spelled in forms.items():
            count, words = counts[form], {form: 1.0} if counts[form] else {}
            if not count and corrected < _CORRECTED:
                words = self._nearest(form)
                count = min(self._size, sum(self._title_counts(list(words))))
                corrected += 1
            weights = tuple(len(spelled) * weight for weight in words.values())
            is_known = counts[form] > 0
            may_decide = is_known and is_code(form) and parts_of_codes.isdisjoint(spelled)
            kind = (not is_number(form), is_number(form)) if may_decide else (False, False)
            terms.append(Term(spelled[0], tuple(words), weights, self._idf(count), is_known, *kind))
        return (*terms, *codes.values(), *self._joined(counts))

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
                yield Term(word, (word,), (1.0,), self._idf(count), True, False, False)

    def _nearest(self, word: str) -> dict[str, float]:
        """Return the words that a word in no title may stand for, with their weights.

        They are the words at distance 1; if there are none, the two words that it consists of; otherwise the nearest.
        A code stands for the longest code with which it begins or, if there is none, for the words in it.
        """
        if is_code(word):
            known = list(self._in_titles(code_beginnings(word)))[:1] or self._in_titles(words_of_code(word))
            return {part: len(part) / len(word) for part in known}
        if not can_be_corrected(word):
            return {}
        edits = 1
        near = self._in_titles({other for other in self._near(word, 1) if is_one_edit(word, other)})
        if not near:
            halves = self._halves(word)
            if halves:
                return dict.fromkeys(halves, 1.0)
            most = most_edits(word)
            others = list(self._near(word, most)) if most > 1 else []
            edits_of = distances(word, others)
            edits = int(edits_of.min(initial=most))
            near = self._in_titles({others[row] for row in np.flatnonzero(edits_of == edits).tolist()})
        words = sorted(near, key=lambda other: (-near[other], other))
        return {other: 1 - edits / max(len(word), len(other)) for other in words[:MOST_NEAR]}

    def _in_titles(self, words: Collection[str]) -> dict[str, int]:
        """Return the number of titles with each of these words, without those that no title has."""
        counts = zip(words, self._title_counts(list(words)), strict=True)
        return {word: count for word, count in counts if count}

    def _halves(self, word: str) -> tuple[str, ...]:
        """Return the two words of the index that a word consists of, if it does: the two that more titles contain."""
        pairs = [(first, indexed(second)) for first, second in splits(word)]
        counts = self._title_counts([half for pair in pairs for half in pair])
        titles = [min(counts[at : at + 2]) for at in range(0, len(counts), 2)]
        return pairs[titles.index(max(titles))] if any(titles) else ()

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
