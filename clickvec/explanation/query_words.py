"""The words of many queries: which are keywords, and which hardly matter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from clickvec.config import RECURRENT
from clickvec.explanation.contributions import without_each
from clickvec.explanation.detections import detect
from clickvec.explanation.keywords import ACTIVE, SHARE, verdicts
from clickvec.explanation.reading import Floats
from clickvec.explanation.side import attenuate
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.text.tokens import split_tokens

EXAMPLES = 12  # queries that are shown with their words marked
FREQUENT = 20  # words of each list
LEAST = 3  # times that a word is met, to be in a list: once is chance


class WordUse(NamedTuple):
    """A word, how many queries' places it takes, and how many of those as a keyword, and as an unimportant word."""

    word: str
    times: int
    keyword: int
    unimportant: int


@dataclass(frozen=True)
class ReadQuery:
    """A query with the verdict on each of its words."""

    words: tuple[str, ...]
    keywords: tuple[bool | None, ...]  # None where no direction can tell
    unimportant: tuple[bool, ...]


@dataclass(frozen=True)
class QueryWords:
    """What the model makes of the words of queries."""

    queries: int  # read
    detects: bool  # whether the model reads word by word, and so has keywords
    places: int  # words read
    keyword_places: int
    unimportant_places: int
    keywords: tuple[WordUse, ...]  # the most frequent keywords
    unimportant: tuple[WordUse, ...]  # the most frequent unimportant words
    examples: tuple[ReadQuery, ...]


def query_words(encoder: Encoder, queries: Sequence[str], *, progress: Progress | None = None) -> QueryWords:
    """Read queries, all words of them."""
    read = read_queries(encoder, queries, progress=progress)
    times: Counter[str] = Counter()
    keyword: Counter[str] = Counter()
    unimportant: Counter[str] = Counter()
    for query in read:
        times.update(query.words)
        keyword.update(word for word, found in zip(query.words, query.keywords, strict=True) if found)
        unimportant.update(word for word, damped in zip(query.words, query.unimportant, strict=True) if damped)
    spread = np.linspace(0, len(read) - 1, min(EXAMPLES, len(read))).astype(int).tolist()
    return QueryWords(
        len(read),
        encoder.model.tower.kind in RECURRENT,
        times.total(), keyword.total(), unimportant.total(),
        _frequent(keyword, times, keyword, unimportant),
        _frequent(unimportant, times, keyword, unimportant),
        tuple(read[place] for place in spread),
    )  # fmt: skip


def _frequent(
    ordered: Counter[str], times: Counter[str], keyword: Counter[str], unimportant: Counter[str]
) -> tuple[WordUse, ...]:
    """The words that are most often so, and are so in at least half of their places; equal ones by the alphabet."""
    mostly = [word for word, count in ordered.items() if 2 * count >= times[word] >= LEAST]
    chosen = sorted(mostly, key=lambda word: (-ordered[word], word))[:FREQUENT]
    return tuple(WordUse(word, times[word], keyword[word], unimportant[word]) for word in chosen)


def read_queries(encoder: Encoder, queries: Sequence[str], *, progress: Progress | None = None) -> list[ReadQuery]:
    """The verdicts on the words of each query: those of `keywords` and `attenuation`, many queries at a time."""
    words = [tuple(split_tokens(query, encoder.model.max_words)) for query in queries]
    found = _keywords(encoder, queries, words, progress)
    vectors = np.asarray(encoder.encode_query(list(queries)), np.float64)
    shorter = [text for tokens in words for text in without_each(tokens)]
    left = np.asarray(encoder.encode_query(shorter, progress=progress), np.float64)
    ends = np.cumsum([len(tokens) for tokens in words])
    rows: list[Floats] = np.split(left, ends[:-1]) if len(words) else []
    return [
        ReadQuery(tokens, keywords, attenuate(tokens, vector, without, None).unimportant)
        for tokens, keywords, vector, without in zip(words, found, vectors, rows, strict=True)
    ]


def _keywords(
    encoder: Encoder, queries: Sequence[str], words: Sequence[Sequence[str]], progress: Progress | None
) -> list[tuple[bool | None, ...]]:
    tower = encoder.model.tower
    if tower.kind not in RECURRENT:
        return [(None,) * len(tokens) for tokens in words]
    seen = detect(encoder, queries, active=ACTIVE, progress=progress)
    ways = list(dict.fromkeys(way for _, way in seen.cells))
    cells = len(seen.cells) // len(ways)
    counts: list[dict[str, list[int | None]]] = [{way: [0] * len(tokens) for way in ways} for tokens in words]
    for text, dimension, place in zip(seen.text.tolist(), seen.dimension.tolist(), seen.place.tolist(), strict=True):
        row = counts[text][ways[dimension // cells]]
        row[place] = (row[place] or 0) + 1
    for votes in counts:
        for way, row in votes.items():
            if row:
                row[-1 if way == "right to left" else 0] = None  # read first, it always changes the output
    active = min(ACTIVE, cells)
    return [verdicts(votes, active, SHARE, len(tokens)) for votes, tokens in zip(counts, words, strict=True)]
