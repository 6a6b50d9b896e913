"""What each word of a title contributes to a hit, to be shown in a list of hits: cheap enough for every search.

The contributions to the cosine are the product of a matrix, which depends on the title alone, and the vector of the
query. The matrices of recent titles are kept: while a user types, the same titles are found again and again.

`cosine` is the contribution that `explain` reports. `bm25` is the word's part of BM25; it is 0 for a word that matches
only together with its neighbour, such as "iphone 7" for the query "iphone7".
"""

import threading
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from clickvec.explanation.contributions import METHODS, shapley
from clickvec.explanation.reading import Floats
from clickvec.explanation.side import Side
from clickvec.model.encoder import Encoder
from clickvec.search.lexical.query_terms import Term
from clickvec.search.lexical.word_tokens import extra_words, indexed, plain_words
from clickvec.search.view_protocol import SearchView

_KEPT = 4_000  # titles of each model, some kB each


class TitleWord(NamedTuple):
    """A word of a title as it is written. The last one of a long title holds all remaining words."""

    text: str
    cosine: float
    bm25: float


def highlight(view: SearchView, query: str, titles: Iterable[str], method: str = METHODS[0]) -> list[list[TitleWord]]:
    """Return the words of each title, in order, with what they contribute to the cosine and to BM25."""
    vector, terms = Side(view.encoder, "query", query).vector, view.words.terms(query)
    return [_title_words(view, Side(view.encoder, "title", title), vector, terms, method) for title in titles]


def _title_words(view: SearchView, side: Side, vector: Floats, terms: tuple[Term, ...], method: str) -> list[TitleWord]:
    cosines = (_parts(side) @ vector if method == "shapley" else side.contributions(vector, method)).tolist()
    matches = view.words.matches_of_texts(terms, [side.text])[0][0].tolist()
    texts = _as_written(side)
    forms = [_forms(text) for text in texts]
    bm25 = [0.0] * len(texts)
    for term, match in zip(terms, matches, strict=True):
        rows = [row for row, found in enumerate(forms) if found.intersection(term.words)] if match else []
        for row in rows:
            bm25[row] += match / len(rows)
    return [TitleWord(*word) for word in zip(texts, cosines, bm25, strict=True)]


_lock = threading.Lock()
_kept: "WeakKeyDictionary[Encoder, dict[str, NDArray[np.float32]]]" = WeakKeyDictionary()


def _parts(side: Side) -> NDArray[np.float32]:
    """Return the part of each word in the vector of a title, one row per word."""
    with _lock:
        known = _kept.setdefault(side.encoder, {})
        parts = known.pop(side.text, None)
    if parts is None:
        parts = shapley(side.words, side.encode).astype(np.float32)
    with _lock:
        known[side.text] = parts  # the last one is the latest
        if len(known) > _KEPT:
            del known[next(iter(known))]
    return parts


def _as_written(side: Side) -> list[str]:
    """Return the tokens of a title as it writes them, or as the model reads them if the two cannot be aligned."""
    written, most = side.text.split(), side.encoder.model.max_words
    if len(written) > most:
        written[most - 1 :] = [" ".join(written[most - 1 :])]
    return written if len(written) == len(side.words) else list(side.words)


def _forms(text: str) -> set[str]:
    """Return all words under which a word search finds a text."""
    words = plain_words(text)
    return {*map(indexed, words), *extra_words(text, words)}
