"""Why a title does not rank above another one, word by word, and which edits would change that.

Both cosines are sums over the words of the query, so the gap between them is the sum of the differences. In an index,
so are BM25 and the terms of the fused score. The edits are not guessed: each is encoded and scored.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clickvec.explanation.explained_pair import Pair, Word, pair_of
from clickvec.explanation.fused_score import Fused, FusedQuery
from clickvec.explanation.side import Side
from clickvec.search.parts.part import WordMatch
from clickvec.text.tokens import split_words

WORDS = 16  # most words tried in the title
EDITS = 6  # most edits on the way past the other title
_TOLERANCE = 1e-6  # the last digits of a float32 score depend on which texts are encoded together


@dataclass(frozen=True)
class Share:
    """A word of the query or a term of the score, and what it contributes to both titles."""

    word: str
    title: float
    first: float
    difference: float  # first - title; these add up to the gap if the contributions add up


@dataclass(frozen=True)
class Edit:
    """One change of a title."""

    kind: str  # "leave out", "add" or "replace"
    out: str | None  # word removed
    put: str | None  # word added, at the end or in place of the other
    title: str  # after the change
    score: float
    change: float  # of the score


@dataclass(frozen=True)
class WhyNot:
    """What keeps a title from ranking above another one, the `first`."""

    title: Pair
    first: Pair
    score: float  # of this title: the cosine, or the fused score in an index
    first_score: float
    gap: float  # first_score - score; 0 or less if the title already ranks above
    words: tuple[Share, ...]  # of the query: what each contributes to the cosine
    part_words: dict[str, tuple[Share, ...]]  # of the query: what each adds to BM25; none without an index
    terms: tuple[Share, ...]  # of the fused score: their differences add up to the gap; none without an index
    missing: tuple[Word, ...]  # words that help the first title and are not in this one, most helpful first
    burdens: tuple[Word, ...]  # words of this title that lower its score, worst first
    edits: tuple[Edit, ...]  # single edits, highest score first
    path: tuple[Edit, ...]  # successive edits, while they raise the score
    reached: bool  # whether the title ranks above the first one at the end of the path


class FusedTitles(NamedTuple):
    """The fused scores of both titles."""

    query: FusedQuery
    title: Fused
    first: Fused
    payload: Any = None  # of the title: an edited title keeps it


def why_not(query: Side, title: Side, first: Side, method: str, fused: FusedTitles | None = None) -> WhyNot:
    """Compare a title with one that ranks above it for the query: by the fused scores, or else by the cosines."""
    here, there = (pair_of(query, side, method) for side in (title, first))
    score, goal = (fused.title.score, fused.first.score) if fused else (here.score, there.score)
    gap = goal - score

    def scores_of(texts: list[str]) -> list[float]:
        scores = fused.query.scores(texts, fused.payload) if fused else title.encode(texts) @ query.vector
        return [float(score) for score in scores]

    candidates = _candidates(here, there)
    draft = tuple((word.word, word.contribution) for word in here.title_words)
    tried = _try_edits(scores_of, draft, candidates, score)
    path = _climb(scores_of, tried, candidates, goal) if gap > 0 else ()
    present = set(split_words(title.text))
    return WhyNot(
        here,
        there,
        score,
        goal,
        gap,
        words=_shares(here.query_words, there.query_words),
        part_words=_word_shares(fused.title, fused.first) if fused else {},
        terms=_term_shares(fused.title, fused.first) if fused else (),
        missing=_strongest(
            word for word in there.title_words if word.contribution > 0 and not present.issuperset(word.word.split())
        ),
        burdens=_strongest(word for word in here.title_words if word.contribution < 0),
        edits=tuple(edit for edit, _ in tried),
        path=path,
        reached=gap <= 0 or bool(path and path[-1].score > goal + _TOLERANCE),
    )


def _shares(title: Sequence[Word | WordMatch], first: Sequence[Word | WordMatch]) -> tuple[Share, ...]:
    return tuple(
        Share(mine.word, mine.contribution, other.contribution, other.contribution - mine.contribution)
        for mine, other in zip(title, first, strict=True)
    )


def _word_shares(title: Fused, first: Fused) -> dict[str, tuple[Share, ...]]:
    """Return what each word of the query adds to the parts that know it, by the labels of the parts."""
    return {
        mine.label: _shares(mine.words, other.words)
        for mine, other in zip(title.parts, first.parts, strict=True)
        if mine.words is not None and other.words is not None
    }


def _term_shares(title: Fused, first: Fused) -> tuple[Share, ...]:
    return tuple(
        Share(mine.label, mine.contribution, other.contribution, other.contribution - mine.contribution)
        for mine, other in zip(title.terms, first.terms, strict=True)
    )


def _strongest(words: Iterable[Word]) -> tuple[Word, ...]:
    return tuple(sorted(words, key=lambda word: -abs(word.contribution)))


# --- edits -------------------------------------------------------------------------------------------------------


# A title that is being edited: its words, and what each contributes. A word added by an edit is worth infinitely much.
Draft = tuple[tuple[str, float], ...]
ScoresOf = Callable[[list[str]], list[float]]


def _candidates(here: Pair, there: Pair) -> list[str]:
    """Return words to try in the title: those of the query, then those of the other title, most helpful first."""
    present = set(split_words(here.title))
    helpful = sorted(there.title_words, key=lambda word: -word.contribution)
    tokens = [word.word for word in (*here.query_words, *helpful)]
    words = dict.fromkeys(word for token in tokens for word in token.split())  # the last token may be several words
    return [word for word in words if word not in present][:WORDS]


def _try_edits(scores_of: ScoresOf, draft: Draft, candidates: Sequence[str], score: float) -> list[tuple[Edit, Draft]]:
    """Score every single edit in one batch. Return one edit for each resulting title, highest score first."""
    possible: dict[str, tuple[str, str | None, str | None, Draft]] = {}
    for kind, out, put, after in _possible(draft, candidates):
        possible.setdefault(" ".join(word for word, _ in after), (kind, out, put, after))
    scores = scores_of(list(possible))
    edits = [
        (Edit(kind, out, put, text, new_score, new_score - score), after)
        for (text, (kind, out, put, after)), new_score in zip(possible.items(), scores, strict=True)
    ]
    return sorted(edits, key=lambda entry: -entry[0].score)


def _possible(draft: Draft, candidates: Sequence[str]) -> Iterator[tuple[str, str | None, str | None, Draft]]:
    """Yield every edit: add a candidate, leave out a word, or put a candidate in place of the least useful word."""
    words, worth = [word for word, _ in draft], [value for _, value in draft]
    fresh = [word for word in candidates if word not in words]
    for word in fresh:
        yield "add", None, word, (*draft, (word, math.inf))
    for at, out in enumerate(words):
        yield "leave out", out, None, (*draft[:at], *draft[at + 1 :])
    if min(worth, default=math.inf) < math.inf:
        worst = worth.index(min(worth))
        for word in fresh:
            yield "replace", words[worst], word, (*draft[:worst], (word, math.inf), *draft[worst + 1 :])


def _climb(
    scores_of: ScoresOf, edits: list[tuple[Edit, Draft]], candidates: Sequence[str], goal: float
) -> tuple[Edit, ...]:
    """Return the best edit, then the best edit of its result, until the score passes the goal or rises no more."""
    path: list[Edit] = []
    while edits and edits[0][0].change > _TOLERANCE:
        best, draft = edits[0]
        path.append(best)
        if best.score > goal + _TOLERANCE or len(path) == EDITS:
            break
        edits = _try_edits(scores_of, draft, candidates, best.score)
    return tuple(path)
