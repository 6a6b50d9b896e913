"""Measure over a whole judged set what the paper observes on a few sentences.

- Keywords: does the ranking depend on them? Without them, NDCG must fall further than without as many other words.
- Attenuation: do the gates suppress function words? They must contribute less to the vector than other words.
- Contributions: are they faithful? If words are removed in the order of their contributions, the score must fall faster
  than if they are removed in random order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from clickvec.data import JudgedQuery
from clickvec.evaluation.metrics import with_relevant
from clickvec.explanation.keywords import SHARE, THRESHOLD, Keywords, Rule, keywords_of
from clickvec.explanation.reading import Floats, read
from clickvec.explanation.side import Side
from clickvec.lab.claims.word_removal import (
    DRAWS,
    METHODS,
    deletion_orders,
    keyword_scores,
    mean_fall,
    ndcg_without,
    removable,
    word_positions,
)
from clickvec.model.encoder import Encoder
from clickvec.text.lexical_tokens import STOP_WORDS

SHORT = 4  # a word of at most this many letters is as short as most function words
SHARES = np.linspace(0, 1, 11)  # the points of a deletion curve: shares of the words removed


# --- keywords ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeywordCheck:
    """NDCG@10 of the queries that have keywords and other words, complete and with the same number of words removed."""

    share: float  # of keywords among all classified words
    query_ids: tuple[str, ...]
    words_left_out: int
    whole: Floats  # one value per query, in per cent
    without_keywords: Floats  # random keywords removed; the mean over several samples
    without_others: Floats  # random other words removed; the mean over several samples
    without_first: dict[str, Floats]  # for each baseline, the words that it ranks first removed

    @property
    def fall(self) -> Floats:
        """How much further NDCG falls without keywords than without other words, per query."""
        return self.without_others - self.without_keywords


def keyword_check(
    encoder: Encoder,
    judged: Iterable[JudgedQuery],
    *,
    judge: Encoder | None = None,
    baselines: Mapping[str, Callable[[str], float]] | None = None,
    threshold: float = THRESHOLD,
    share: float = SHARE,
    draws: int = DRAWS,
    seed: int = 0,
) -> KeywordCheck:
    """Remove keywords from the queries and, for comparison, the same number of other words.

    `judge` finds the keywords if it is not the model that ranks. A baseline is another way to find important words: a
    function that returns a number for each word, the most important highest.
    """
    queries = with_relevant(judged)
    classified = [
        keywords_of(read(judge or encoder, "query", query.query), Rule(threshold=threshold, share=share))
        for query in queries
    ]
    verdicts = [verdict for keywords in classified for verdict in keywords.verdicts if verdict is not None]
    picked = [(query, keywords) for query, keywords in zip(queries, classified, strict=True) if removable(keywords)]
    return KeywordCheck(
        float(np.mean(verdicts)) if verdicts else 0.0,
        tuple(query.query_id for query, _ in picked),
        sum(removable(keywords) for _, keywords in picked),
        *keyword_scores(encoder, picked, draws, seed),
        {
            name: ndcg_without(encoder, picked, partial(_first, value=value))
            for name, value in (baselines or {}).items()
        },
    )


def _first(keywords: Keywords, value: Callable[[str], float]) -> list[int]:
    """Return the positions of the words that a baseline ranks first, as many as `removable` allows."""
    positions = sorted(word_positions(keywords, True) + word_positions(keywords, False))
    return sorted(positions, key=lambda at: -value(keywords.words[at]))[: removable(keywords)]


# --- attenuation -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordGroup:
    """Means over all words of one kind, in texts that have function words and others."""

    words: int
    gate: float | None  # the mean input gate
    taken_in: float | None  # the mean input that passes it
    effect: float  # on the final vector
    cells: float | None  # how many of the ten most active cells detect the word, the mean over the directions


@dataclass(frozen=True)
class AttenuationCheck:
    """Function words compared with the other words of the same texts."""

    texts: int
    function: WordGroup
    content: WordGroup
    short: WordGroup  # the other words of at most four letters
    less_gate: float | None  # share of pairs with another word of the text in which the function word has less
    less_taken_in: float | None
    less_effect: float | None
    less_effect_than_short: float | None


def attenuation_check(
    encoder: Encoder, texts: Iterable[str], side: str = "query", function_words: frozenset[str] = STOP_WORDS
) -> AttenuationCheck:
    """Compare the function words of texts with the other words of the same texts."""
    all_kinds: list[list[str]] = []
    values: list[Floats] = []  # per text (words, 4): gate, taken in, effect, cells; NaN if unknown
    for text in dict.fromkeys(texts):
        explained = Side(encoder, side, text)
        reading = explained.reading or read(encoder, side, text)  # without a reading, `read` says why
        kinds = [_kind(word, function_words) for word in reading.words]
        if "function" not in kinds or not {"content", "short"} & set(kinds):
            continue
        means = [reading.mean("input_gate"), reading.mean("input_gate", "cell_input")]
        gates, taken_in = (np.full(len(kinds), np.nan) if mean is None else mean for mean in means)
        all_kinds.append(kinds)
        values.append(np.array([gates, taken_in, explained.effects, _cells(keywords_of(reading))]).T)
    return AttenuationCheck(
        texts=len(values),
        function=_group(all_kinds, values, ("function",)),
        content=_group(all_kinds, values, ("content", "short")),
        short=_group(all_kinds, values, ("short",)),
        less_gate=_less_often(all_kinds, values, 0, ("content", "short")),
        less_taken_in=_less_often(all_kinds, values, 1, ("content", "short")),
        less_effect=_less_often(all_kinds, values, 2, ("content", "short")),
        less_effect_than_short=_less_often(all_kinds, values, 2, ("short",)),
    )


def _kind(word: str, function_words: frozenset[str]) -> str:
    if " " in word:  # the last token of a long text
        return "many"
    return "function" if word in function_words else "short" if len(word) <= SHORT else "content"


def _cells(keywords: Keywords) -> list[float]:
    by_word = zip(*keywords.counts.values(), strict=True)
    counts = [[count for count in row if count is not None] for row in by_word]
    return [float(np.mean(row)) if row else np.nan for row in counts]


def _group(all_kinds: list[list[str]], values: list[Floats], which: tuple[str, ...]) -> WordGroup:
    rows = [
        row
        for kinds, text in zip(all_kinds, values, strict=True)
        for kind, row in zip(kinds, text, strict=True)
        if kind in which
    ]
    table = np.array(rows).reshape(-1, 4)
    means = [float(column[~np.isnan(column)].mean()) if (~np.isnan(column)).any() else None for column in table.T]
    return WordGroup(len(rows), means[0], means[1], means[2] or 0.0, means[3])


def _less_often(all_kinds: list[list[str]], values: list[Floats], column: int, which: tuple[str, ...]) -> float | None:
    """Return the share of pairs of a function word and a word of `which` in a text where the function word has less."""
    shares = []
    for kinds, text in zip(all_kinds, values, strict=True):
        function = text[[kind == "function" for kind in kinds], column]
        other = text[[kind in which for kind in kinds], column]
        if len(other) and not np.isnan(function).any():
            shares.append(float(np.mean(function[:, None] < other)))
    return float(np.mean(shares)) if shares else None


# --- contributions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeletionCheck:
    """The score while the words of one text are removed one by one.

    If the words with the largest contributions go first, a good method makes the score fall fast. If those with the
    smallest go first, it keeps the score high.
    """

    pairs: int
    words: int
    falls: dict[str, Floats]  # by method and "random": the mean fall of each pair, largest contributions first
    falls_last: dict[str, Floats]  # the same, smallest contributions first
    curves: dict[str, tuple[float, ...]]  # largest first: the mean score at each of `SHARES`


def deletion_check(
    encoder: Encoder,
    pairs: Iterable[tuple[str, str]],
    side: str = "title",
    *,
    methods: Sequence[str] = METHODS,
    draws: int = DRAWS,
    seed: int = 0,
) -> DeletionCheck:
    """Remove words of the title (or the query) of each pair in the order of their contributions."""
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
