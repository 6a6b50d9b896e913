"""Does it hold? What the paper observes on a sentence or two, measured over a whole judged set.

- Keywords: are they what the ranking rests on? Leave them out of the queries, and NDCG must fall further than when as
  many other words are left out.
- Attenuation: do function words get less through the gates, and less into the vector, than other words of their texts?
- Contributions: do they mean something? Leave words out in their order, and the score must fall faster than when words
  are left out at random.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from clickvec.data import JudgedQuery
from clickvec.evaluation.metrics import with_relevant
from clickvec.explanation.contributions import METHODS, without_each
from clickvec.explanation.keywords import SHARE, THRESHOLD, Keywords, Rule, keywords_of
from clickvec.explanation.reading import Floats, encode, read
from clickvec.explanation.side import attenuate
from clickvec.explanation.trust import (
    DRAWS,
    deletion_orders,
    keyword_scores,
    mean_fall,
    ndcg_without,
    removable,
    word_positions,
)
from clickvec.model.encoder import Encoder
from clickvec.text.lexical_tokens import STOP_WORDS

SHORT = 4  # letters of a word that is as short as most function words
SHARES = np.linspace(0, 1, 11)  # of the words left out, where deletion curves are read off


# --- keywords ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeywordCheck:
    """NDCG@10 of the queries that have both keywords and other words, whole and with as many words left out."""

    share: float  # of all words that could be judged, those that are keywords
    query_ids: tuple[str, ...]
    words_left_out: int
    whole: Floats  # one value a query, in per cent
    without_keywords: Floats  # the mean over random draws among the keywords
    without_others: Floats  # the mean over random draws among the words that are no keywords
    without_first: dict[str, Floats]  # by rival: as many of the words that it puts first

    @property
    def fall(self) -> Floats:
        """How much further NDCG falls without keywords than without other words, for each query."""
        return self.without_others - self.without_keywords


def keyword_check(
    encoder: Encoder,
    judged: Iterable[JudgedQuery],
    *,
    judge: Encoder | None = None,
    rivals: Mapping[str, Callable[[str], float]] | None = None,
    threshold: float = THRESHOLD,
    share: float = SHARE,
    draws: int = DRAWS,
    seed: int = 0,
) -> KeywordCheck:
    """Leave keywords out of the queries, and as many other words instead: as many as there are of the fewer.

    `judge` finds the keywords, if it is not the model that ranks. A rival is another idea of what matters in a query: a
    number for each word, the highest first.
    """
    queries = with_relevant(judged)
    found = [
        keywords_of(read(judge or encoder, "query", query.query), Rule(threshold=threshold, share=share))
        for query in queries
    ]
    verdicts = [verdict for keywords in found for verdict in keywords.verdicts if verdict is not None]
    picked = [(query, keywords) for query, keywords in zip(queries, found, strict=True) if removable(keywords)]
    return KeywordCheck(
        float(np.mean(verdicts)) if verdicts else 0.0,
        tuple(query.query_id for query, _ in picked),
        sum(removable(keywords) for _, keywords in picked),
        *keyword_scores(encoder, picked, draws, seed),
        {name: ndcg_without(encoder, picked, partial(_first, value=value)) for name, value in (rivals or {}).items()},
    )


def _first(keywords: Keywords, value: Callable[[str], float]) -> list[int]:
    """As many of the words that could be judged, by what a rival makes of them."""
    positions = sorted(word_positions(keywords, True) + word_positions(keywords, False))
    return sorted(positions, key=lambda at: -value(keywords.words[at]))[: removable(keywords)]


# --- attenuation -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordGroup:
    """Means over all words of one sort, in texts that have function words and others."""

    words: int
    gate: float | None  # the mean input gate
    taken_in: float | None  # what comes through it
    effect: float  # on the final vector
    cells: float | None  # of the ten most active ones, how many detect the word, over the directions that can speak


@dataclass(frozen=True)
class AttenuationCheck:
    """Function words against the others of the same texts."""

    texts: int
    function: WordGroup
    content: WordGroup
    short: WordGroup  # those of the others that are as short as function words: at most four letters
    less_gate: float | None  # how often a function word has the smaller value, of the pairs with another of its text
    less_taken_in: float | None
    less_effect: float | None
    less_effect_than_short: float | None


def attenuation_check(
    encoder: Encoder, texts: Iterable[str], side: str = "query", function_words: frozenset[str] = STOP_WORDS
) -> AttenuationCheck:
    """Compare the function words of texts with the other words of the same texts."""
    sorts: list[list[str]] = []
    values: list[Floats] = []  # for each text (words, 4): gate, taken in, effect, cells; NaN where there is none
    for text in dict.fromkeys(texts):
        reading = read(encoder, side, text)
        kinds = [_sort(word, function_words) for word in reading.words]
        if "function" not in kinds or not {"content", "short"} & set(kinds):
            continue
        left = np.asarray(encode(encoder, side, without_each(reading.words)), np.float64)
        damped = attenuate(reading.words, reading.vector, left, reading)
        nothing = (np.nan,) * len(kinds)
        rows = (damped.gates or nothing, damped.taken_in or nothing, damped.effects, _cells(keywords_of(reading)))
        sorts.append(kinds)
        values.append(np.array(rows, np.float64).T)
    return AttenuationCheck(
        texts=len(values),
        function=_group(sorts, values, ("function",)),
        content=_group(sorts, values, ("content", "short")),
        short=_group(sorts, values, ("short",)),
        less_gate=_less_often(sorts, values, 0, ("content", "short")),
        less_taken_in=_less_often(sorts, values, 1, ("content", "short")),
        less_effect=_less_often(sorts, values, 2, ("content", "short")),
        less_effect_than_short=_less_often(sorts, values, 2, ("short",)),
    )


def _sort(word: str, function_words: frozenset[str]) -> str:
    if " " in word:  # the last token of a long text
        return "many"
    return "function" if word in function_words else "short" if len(word) <= SHORT else "content"


def _cells(keywords: Keywords) -> list[float]:
    by_word = zip(*keywords.counts.values(), strict=True)
    spoken = [[count for count in row if count is not None] for row in by_word]
    return [float(np.mean(row)) if row else np.nan for row in spoken]


def _group(sorts: list[list[str]], values: list[Floats], which: tuple[str, ...]) -> WordGroup:
    rows = [
        row
        for kinds, text in zip(sorts, values, strict=True)
        for kind, row in zip(kinds, text, strict=True)
        if kind in which
    ]
    table = np.array(rows).reshape(-1, 4)
    means = [float(column[~np.isnan(column)].mean()) if (~np.isnan(column)).any() else None for column in table.T]
    return WordGroup(len(rows), means[0], means[1], means[2] or 0.0, means[3])


def _less_often(sorts: list[list[str]], values: list[Floats], column: int, which: tuple[str, ...]) -> float | None:
    """Of all pairs of a function word and one of `which` in the same text, the share where the former has less."""
    shares = []
    for kinds, text in zip(sorts, values, strict=True):
        function = text[[kind == "function" for kind in kinds], column]
        other = text[[kind in which for kind in kinds], column]
        if len(other) and not np.isnan(function).any():
            shares.append(float(np.mean(function[:, None] < other)))
    return float(np.mean(shares)) if shares else None


# --- contributions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeletionCheck:
    """What is left of the score when the words of one text are left out one by one.

    Those that gave most first: a good method makes the score fall. Those that gave least first: it makes it hold.
    """

    pairs: int
    words: int
    falls: dict[str, Floats]  # by method, and at random: the mean fall over the deletions, most first, of each pair
    falls_last: dict[str, Floats]  # the same, least first
    curves: dict[str, tuple[float, ...]]  # most first: the mean score when a share of the words is left out (`SHARES`)


def deletion_check(
    encoder: Encoder,
    pairs: Iterable[tuple[str, str]],
    side: str = "title",
    *,
    methods: Sequence[str] = METHODS,
    draws: int = DRAWS,
    seed: int = 0,
) -> DeletionCheck:
    """Leave out words of the title (or of the query) of each pair in the order of their contributions."""
    falls: dict[str, list[float]] = {name: [] for name in (*methods, "random")}
    falls_last: dict[str, list[float]] = {name: [] for name in falls}
    curves: dict[str, list[Floats]] = {name: [] for name in falls}
    words_seen = 0
    for deletions in deletion_orders(encoder, pairs, side, methods=methods, draws=draws, seed=seed):
        words_seen += len(deletions.words)
        for name, orders in deletions.orders.items():
            scores = np.mean([deletions.scores(encoder, order) for order in orders], axis=0)
            last = np.mean([deletions.scores(encoder, order[::-1]) for order in orders], axis=0)
            falls[name].append(mean_fall(scores))
            falls_last[name].append(mean_fall(last))
            curves[name].append(np.interp(SHARES, np.linspace(0, 1, len(scores)), scores))
    return DeletionCheck(
        len(falls["random"]),
        words_seen,
        {name: np.array(values) for name, values in falls.items()},
        {name: np.array(values) for name, values in falls_last.items()},
        {name: tuple(np.mean(values, axis=0).tolist()) if values else () for name, values in curves.items()},
    )
