"""Why a title does not rank above another one, word by word and cell by cell, and which edits would change that.

Both scores are sums over the words of the query and over the cells, so the gap between them is the sum of the
differences. The edits are not guessed: each is encoded and scored.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickvec.explanation.explained_pair import Pair, Word, pair_of
from clickvec.explanation.side import Side
from clickvec.text.tokens import split_words

CELLS = 10  # listed
WORDS = 16  # most words tried in the title
EDITS = 6  # most edits on the way past the other title
_TOLERANCE = 1e-6  # the last digits of a float32 score depend on which texts are encoded together


@dataclass(frozen=True)
class Share:
    """A word of the query, and what it contributes to both scores."""

    word: str
    title: float
    first: float
    difference: float  # first - title; these add up to the gap if the contributions add up to the score


@dataclass(frozen=True)
class CellShare:
    """A cell, and what it contributes to both scores."""

    cell: int
    way: str
    title: float
    first: float
    difference: float  # first - title; over all cells these add up to the gap


@dataclass(frozen=True)
class Part:
    """A word of a title, and what it contributes to the score."""

    word: str
    contribution: float


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

    query: str
    method: str
    title: Pair
    first: Pair
    gap: float  # first.score - title.score; 0 or less if the title already ranks above
    words: tuple[Share, ...]  # of the query
    cells: tuple[CellShare, ...]  # with the largest differences
    missing: tuple[Part, ...]  # words that help the first title and are not in this one, most helpful first
    burdens: tuple[Part, ...]  # words of this title that lower its score, worst first
    edits: tuple[Edit, ...]  # single edits, highest score first
    path: tuple[Edit, ...]  # successive edits, while they raise the score
    reached: bool  # whether the title ranks above the first one at the end of the path


def why_not(query: Side, title: Side, first: Side, method: str) -> WhyNot:
    """Compare a title with one that ranks above it for the query, reusing what the sides have already computed."""
    here, there = (pair_of(query, side, method) for side in (title, first))
    gap = there.score - here.score
    candidates = _candidates(here, there)
    draft = _Draft(tuple(word.word for word in here.title_words), tuple(word.contribution for word in here.title_words))
    tried = _try_edits(query, title, draft, candidates, here.score)
    path = _climb(query, title, tried, candidates, there.score) if gap > 0 else ()
    present = set(split_words(title.text))
    cells = [
        CellShare(one.cell, one.way, one.contribution, two.contribution, two.contribution - one.contribution)
        for one, two in zip(here.cells, there.cells, strict=True)
    ]
    return WhyNot(
        query.text, method, here, there, gap,
        words=tuple(
            Share(one.word, one.contribution, two.contribution, two.contribution - one.contribution)
            for one, two in zip(here.query_words, there.query_words, strict=True)
        ),
        cells=tuple(sorted(cells, key=lambda share: -abs(share.difference))[:CELLS]),
        missing=_parts(
            word for word in there.title_words if word.contribution > 0 and not present.issuperset(word.word.split())
        ),
        burdens=_parts(word for word in here.title_words if word.contribution < 0),
        edits=tuple(edit for edit, _ in tried),
        path=path,
        reached=gap <= 0 or bool(path and path[-1].score > there.score + _TOLERANCE),
    )  # fmt: skip


def _parts(words: Iterable[Word]) -> tuple[Part, ...]:
    parts = (Part(word.word, word.contribution) for word in words)
    return tuple(sorted(parts, key=lambda part: -abs(part.contribution)))


# --- edits -------------------------------------------------------------------------------------------------------


class _Draft(NamedTuple):
    """A title that is being edited: its words, and what each contributes. Words added by an edit count as infinite."""

    words: tuple[str, ...]
    worth: tuple[float, ...]

    def replaced(self, start: int, end: int, word: str | None) -> "_Draft":
        """Return the draft with `word`, if any, in place of the words from `start` to before `end`."""
        words, worth = ((), ()) if word is None else ((word,), (np.inf,))
        return _Draft(
            (*self.words[:start], *words, *self.words[end:]), (*self.worth[:start], *worth, *self.worth[end:])
        )


def _candidates(here: Pair, there: Pair) -> list[str]:
    """Return words to try in the title: those of the query, then those of the other title, most helpful first."""
    present = set(split_words(here.title))
    helpful = sorted(there.title_words, key=lambda word: -word.contribution)
    tokens = [word.word for word in (*here.query_words, *helpful)]
    words = dict.fromkeys(word for token in tokens for word in token.split())  # the last token may be several words
    return [word for word in words if word not in present][:WORDS]


def _try_edits(
    query: Side, title: Side, draft: _Draft, candidates: Sequence[str], score: float
) -> list[tuple[Edit, _Draft]]:
    """Score every single edit in one batch. Return one edit for each resulting title, highest score first."""
    possible: dict[str, tuple[str, str | None, str | None, _Draft]] = {}
    for kind, out, put, after in _possible(draft, candidates):
        possible.setdefault(" ".join(after.words), (kind, out, put, after))
    scores = (title.encode(list(possible)) @ query.vector).tolist()
    edits = [
        (Edit(kind, out, put, text, new_score, new_score - score), after)
        for (text, (kind, out, put, after)), new_score in zip(possible.items(), scores, strict=True)
    ]
    return sorted(edits, key=lambda entry: -entry[0].score)


def _possible(draft: _Draft, candidates: Sequence[str]) -> Iterator[tuple[str, str | None, str | None, _Draft]]:
    """Yield every edit: add a candidate, leave out a word, or put a candidate in place of the least useful word."""
    fresh = [word for word in candidates if word not in draft.words]
    end = len(draft.words)
    for word in fresh:
        yield "add", None, word, draft.replaced(end, end, word)
    for at, out in enumerate(draft.words):
        yield "leave out", out, None, draft.replaced(at, at + 1, None)
    worst = int(np.argmin(draft.worth)) if draft.worth else 0
    if draft.worth and draft.worth[worst] < np.inf:
        for word in fresh:
            yield "replace", draft.words[worst], word, draft.replaced(worst, worst + 1, word)


def _climb(
    query: Side, title: Side, edits: list[tuple[Edit, _Draft]], candidates: Sequence[str], goal: float
) -> tuple[Edit, ...]:
    """Return the best edit, then the best edit of its result, until the score passes the goal or rises no more."""
    path: list[Edit] = []
    while edits and edits[0][0].change > _TOLERANCE:
        best, draft = edits[0]
        path.append(best)
        if best.score > goal + _TOLERANCE or len(path) == EDITS:
            break
        edits = _try_edits(query, title, draft, candidates, best.score)
    return tuple(path)
