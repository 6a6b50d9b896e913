"""BM25 over other tokens than the words of an index: plain words, stems or letter trigrams.

Postings, formula and search are those of an index. Its codes, corrected words and joined words are left out.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial

from clickvec.search.lexical.query_terms import K1, B, Term
from clickvec.search.lexical.word_search import Words
from clickvec.search.lexical.word_segment import WordSegment
from clickvec.text.lexical_tokens import TokenKind, tokenise


def token_segment(titles: Iterable[str], tokens: TokenKind) -> WordSegment:
    """Return the postings of the tokens of titles."""
    return WordSegment.build(titles, partial(tokenise, tokens=tokens))


class TokenSearch(Words):
    """BM25 over the titles of a `token_segment`. A token that no title has finds nothing."""

    def __init__(self, segment: WordSegment, tokens: TokenKind, k1: float = K1, b: float = B) -> None:
        super().__init__([segment], k1, b)
        self._tokens = tokens

    def _make_terms(self, query: str) -> tuple[Term, ...]:
        times = Counter(tokenise(query, self._tokens))
        counts = zip(times.items(), self._title_counts(list(times)), strict=True)
        return tuple(
            Term(token, (token,), (float(of_query),), self._idf(titles), True, False, False)
            for (token, of_query), titles in counts
            if titles
        )
