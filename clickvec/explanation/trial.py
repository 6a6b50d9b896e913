"""Try a title out for a query: how the cosine grows as the model reads word by word, and the rank it would have.

Texts need not be in the index. Everything is cheap enough to be computed again with each change of a word.
"""

from dataclasses import dataclass

import numpy as np

from clickvec.explanation.contributions import METHODS
from clickvec.explanation.explainer import Rank, rank_of_text
from clickvec.explanation.fused_score import Fused, FusedQuery
from clickvec.explanation.reading import Floats, Reading
from clickvec.explanation.side import Side
from clickvec.search.documents.document import Document
from clickvec.search.index import Index
from clickvec.text.tokens import canonical


@dataclass(frozen=True)
class TriedWord:
    """One word, when the model has read the text up to it."""

    word: str
    known: float  # share of its letter trigrams that the model knows
    cosine: float  # of the text up to this word and the whole other text
    contribution: float  # to the cosine of both texts
    keyword: bool | None  # None if no direction of reading can decide


@dataclass(frozen=True)
class Trial:
    """What a model makes of a query and a title that may be changed at any moment."""

    cosine: float
    fused: Fused
    rank: Rank
    query_words: tuple[TriedWord, ...]
    title_words: tuple[TriedWord, ...]
    query_reading: Reading | None  # None if the tower does not read word by word
    title_reading: Reading | None


def try_out(index: Index, query: str, title: str, replaced: str | int | None = None) -> Trial:
    """Score and rank a title for a query, as if it were in the index, in place of the document `replaced` if given.

    Without `replaced`, a title that is in the index has the rank that it has there.
    """
    view = index.view()
    query_side, title_side = Side(view.encoder, "query", query), Side(view.encoder, "title", title)
    fused_query = FusedQuery(view, query)
    cosine = float(query_side.vector @ title_side.vector)
    document = _with_title(index, title) if replaced is None else index.get(replaced)
    fused = fused_query.of_text(title, document.payload if document else None)
    rank = rank_of_text(index, fused_query, title, document)
    is_unchanged = document is not None and canonical(document.title) == canonical(title)
    return Trial(
        cosine,
        fused,
        rank._replace(id=str(document.id) if document and is_unchanged else None),
        _words(query_side, title_side.vector),
        _words(title_side, query_side.vector),
        query_side.reading,
        title_side.reading,
    )


def _with_title(index: Index, title: str) -> Document | None:
    """Return the document that has this title, if there is one."""
    document = index.find(title)  # by its id or its title
    return document if document and canonical(document.title) == canonical(title) else None


def _words(side: Side, other: Floats) -> tuple[TriedWord, ...]:
    if not side.words:
        return ()
    prefixes = side.encode([" ".join(side.words[:end]) for end in range(1, len(side.words) + 1)])
    cosines, contributions = np.asarray(prefixes @ other).tolist(), side.contributions(other, METHODS[0]).tolist()
    keywords = side.keywords.verdicts if side.keywords else [None] * len(side.words)
    return tuple(
        TriedWord(*word) for word in zip(side.words, side.known, cosines, contributions, keywords, strict=True)
    )
