"""Why not first: a title beside the one that ranked first, word by word and cell by cell, and what would change it.

Both scores are sums over the words of the query and over cells, so the gap between them is the sum of the differences.
What would change it is tried, not guessed: every edit is encoded and scored.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clickvec.explanation.contributions import METHODS
from clickvec.explanation.explained_pair import Pair, Word, pair_of
from clickvec.explanation.keywords import RULE, Rule
from clickvec.explanation.side import Side
from clickvec.model.encoder import Encoder
from clickvec.text.tokens import split_words

CELLS = 10  # that are named
WORDS = 16  # words that are tried in the title
EDITS = 6  # on the way past the first, at most
_SLACK = 1e-6  # the last digits of a float32 score depend on the company in which a text is encoded


@dataclass(frozen=True)
class Share:
    """A word of the query, and what it gives to the two scores."""

    word: str
    title: float
    first: float
    difference: float  # first - title; these add up to the gap, where contributions add up to the score


@dataclass(frozen=True)
class CellShare:
    """A cell, and what it gives to the two scores."""

    cell: int
    way: str
    title: float
    first: float
    difference: float  # first - title; over all cells these add up to the gap


@dataclass(frozen=True)
class Part:
    """A word of a title, and what it gives to its score."""

    word: str
    contribution: float


@dataclass(frozen=True)
class Edit:
    """One change of a title."""

    kind: str  # "leave out", "add" or "replace"
    out: str | None  # the word that goes
    put: str | None  # the word that comes, at the end or in place of the other
    title: str  # after it
    score: float
    change: float  # of the score


@dataclass(frozen=True)
class WhyNot:
    """What stands between a title and the one that ranked first."""

    query: str
    method: str
    title: Pair
    first: Pair
    gap: float  # first.score - title.score; not above 0 where there is nothing to explain
    words: tuple[Share, ...]  # of the query
    cells: tuple[CellShare, ...]  # those whose difference is largest
    missing: tuple[Part, ...]  # words that help the first title, and that this one lacks; the most helpful first
    burdens: tuple[Part, ...]  # words of this title that cost score; the costliest first
    edits: tuple[Edit, ...]  # each by itself; the highest score first
    path: tuple[Edit, ...]  # one after another, as far as they raise the score
    reached: bool  # whether the title stands above the first one at the end of the path

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return dataclasses.asdict(self)


def why_not(
    encoder: Encoder, query: str, title: str, first: str, *, method: str = METHODS[0], rule: Rule = RULE
) -> WhyNot:
    """Compare a title with the one that ranked first for the query."""
    one, best = (Side(encoder, "title", text, rule) for text in (title, first))
    return why_not_of(Side(encoder, "query", query, rule), one, best, method)


def why_not_of(query: Side, title: Side, first: Side, method: str = METHODS[0]) -> WhyNot:
    """The same of halves, which keep what was computed."""
    one, best = (pair_of(query, half, method) for half in (title, first))
    gap = best.score - one.score
    bench = _Bench(query, title, _candidates(one, best))
    edits = bench.edits(_Draft.of(one.title_words), one.score)
    path = bench.climb(edits, best.score) if gap > 0 else ()
    has = set(split_words(title.text))
    return WhyNot(
        query.text, method, one, best, gap,
        words=tuple(
            Share(here.word, here.contribution, there.contribution, there.contribution - here.contribution)
            for here, there in zip(one.query_words, best.query_words, strict=True)
        ),
        cells=_cells(one, best),
        missing=_parts(
            word for word in best.title_words if word.contribution > 0 and not has.issuperset(word.word.split())
        ),
        burdens=_parts(word for word in one.title_words if word.contribution < 0),
        edits=tuple(edit for edit, _ in edits),
        path=path,
        reached=gap <= 0 or bool(path and path[-1].score > best.score + _SLACK),
    )  # fmt: skip


def _cells(one: Pair, best: Pair) -> tuple[CellShare, ...]:
    shares = [
        CellShare(here.cell, here.way, here.contribution, there.contribution, there.contribution - here.contribution)
        for here, there in zip(one.cells, best.cells, strict=True)
    ]
    return tuple(sorted(shares, key=lambda share: -abs(share.difference))[:CELLS])


def _parts(words: Iterable[Word]) -> tuple[Part, ...]:
    return tuple(
        sorted((Part(word.word, word.contribution) for word in words), key=lambda part: -abs(part.contribution))
    )


def _candidates(one: Pair, best: Pair) -> list[str]:
    """Words to try in the title: the query's, then the first title's, the most helpful first; none that it has."""
    has = set(split_words(one.title))
    helpful = sorted(best.title_words, key=lambda word: -word.contribution)
    tokens = [word.word for word in (*one.query_words, *helpful)]
    found = dict.fromkeys(word for token in tokens for word in token.split())  # a token may be many words
    return [word for word in found if word not in has][:WORDS]


@dataclass(frozen=True)
class _Draft:
    """A title that is being edited: its words, and what each was worth; one that was put in is here to stay."""

    words: tuple[str, ...]
    worth: tuple[float, ...]

    @classmethod
    def of(cls, words: Sequence[Word]) -> "_Draft":
        return cls(tuple(word.word for word in words), tuple(word.contribution for word in words))

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def worst(self) -> int | None:
        """The place of the word that is worth least."""
        place = int(np.argmin(self.worth)) if self.worth else None
        return place if place is not None and self.worth[place] < np.inf else None

    def changed(self, first: int, last: int, word: str | None) -> "_Draft":
        """With the words from `first` to before `last` out, and `word` in their place."""
        put = () if word is None else (word,)
        return _Draft(
            (*self.words[:first], *put, *self.words[last:]),
            (*self.worth[:first], *(np.inf for _ in put), *self.worth[last:]),
        )


class _Bench:
    """Tries edits of a title against one query: all that are possible at once, in one batch."""

    def __init__(self, query: Side, title: Side, candidates: Sequence[str]) -> None:
        self._query, self._encode, self._candidates = query.vector, title.encode, candidates

    def edits(self, draft: _Draft, score: float) -> list[tuple[Edit, _Draft]]:
        """Every single edit with its outcome, the highest score first; of those with the same outcome, one."""
        tried: dict[str, tuple[str, str | None, str | None, _Draft]] = {}
        for kind, out, put, after in self._possible(draft):
            tried.setdefault(after.text, (kind, out, put, after))
        scores = (self._encode(list(tried)) @ self._query).tolist()
        found = [
            (Edit(kind, out, put, text, reached, reached - score), after)
            for (text, (kind, out, put, after)), reached in zip(tried.items(), scores, strict=True)
        ]
        return sorted(found, key=lambda one: -one[0].score)

    def _possible(self, draft: _Draft) -> Iterable[tuple[str, str | None, str | None, _Draft]]:
        end, worst = len(draft.words), draft.worst
        fresh = [word for word in self._candidates if word not in draft.words]
        for word in fresh:
            yield "add", None, word, draft.changed(end, end, word)
        for place, out in enumerate(draft.words):
            yield "leave out", out, None, draft.changed(place, place + 1, None)
        if worst is not None:
            for word in fresh:
                yield "replace", draft.words[worst], word, draft.changed(worst, worst + 1, word)

    def climb(self, edits: list[tuple[Edit, _Draft]], goal: float) -> tuple[Edit, ...]:
        """The best edit, then the best edit of the outcome, until the score is above the goal or rises no more."""
        path: list[Edit] = []
        while edits and edits[0][0].change > _SLACK:
            best, draft = edits[0]
            path.append(best)
            if best.score > goal + _SLACK or len(path) == EDITS:
                break
            edits = self.edits(draft, best.score)
        return tuple(path)
