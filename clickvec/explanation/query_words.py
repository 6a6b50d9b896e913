"""The words of many queries: which are keywords, and which hardly matter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from clickvec.config import RECURRENT
from clickvec.explanation.contributions import without_each
from clickvec.explanation.detections import detect
from clickvec.explanation.keywords import ACTIVE, SHARE, verdicts
from clickvec.explanation.reading import Floats
from clickvec.explanation.side import effects_of, unimportant
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.text.tokens import split_tokens

EXAMPLES = 12  # queries shown with their words marked
FREQUENT = 20  # most words in each list
LEAST = 3  # occurrences of a word in a list: rarer ones may be chance


class WordUse(NamedTuple):
    """How often a word occurs in the queries, and how often as a keyword and as an unimportant word."""

    word: str
    times: int
    keyword: int
    unimportant: int


@dataclass(frozen=True)
class ReadQuery:
    """A query with the verdict on each of its words."""

    words: tuple[str, ...]
    keywords: tuple[bool | None, ...]  # None if no direction can decide
    unimportant: tuple[bool, ...]


@dataclass(frozen=True)
class QueryWords:
    """Keywords and unimportant words over a set of queries."""

    queries: int
    detects: bool  # whether the model reads word by word, and so has keywords
    places: int  # words in all
    keyword_places: int  # how many of them are keywords
    unimportant_places: int
    keywords: tuple[WordUse, ...]  # most frequent first
    unimportant: tuple[WordUse, ...]
    examples: tuple[ReadQuery, ...]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`, without the examples."""
        lists = {name: [use._asdict() for use in getattr(self, name)] for name in ("keywords", "unimportant")}
        return {name: value for name, value in (asdict(self) | lists).items() if name != "examples"}


def query_words(encoder: Encoder, queries: Sequence[str], *, progress: Progress | None = None) -> QueryWords:
    """Count the keywords and the unimportant words of queries."""
    read = read_queries(encoder, queries, progress=progress)
    times: Counter[str] = Counter()
    keyword: Counter[str] = Counter()
    unimportant: Counter[str] = Counter()
    for query in read:
        times.update(query.words)
        keyword.update(word for word, verdict in zip(query.words, query.keywords, strict=True) if verdict)
        unimportant.update(word for word, verdict in zip(query.words, query.unimportant, strict=True) if verdict)

    def most_frequent(counts: Counter[str]) -> tuple[WordUse, ...]:
        """Return the words that are counted most often, and in at least half of their occurrences."""
        mostly = [word for word, count in counts.items() if 2 * count >= times[word] >= LEAST]
        chosen = sorted(mostly, key=lambda word: (-counts[word], word))[:FREQUENT]
        return tuple(WordUse(word, times[word], keyword[word], unimportant[word]) for word in chosen)

    spread = np.linspace(0, len(read) - 1, min(EXAMPLES, len(read))).astype(int).tolist()
    return QueryWords(
        len(read),
        encoder.model.tower.kind in RECURRENT,
        times.total(), keyword.total(), unimportant.total(),
        most_frequent(keyword), most_frequent(unimportant),
        tuple(read[at] for at in spread),
    )  # fmt: skip


def read_queries(encoder: Encoder, queries: Sequence[str], *, progress: Progress | None = None) -> list[ReadQuery]:
    """Return the verdicts of keywords.py and side.py on the words of each query, many queries at a time."""
    words = [tuple(split_tokens(query, encoder.model.max_words)) for query in queries]
    keywords = _keywords(encoder, queries, words, progress)
    vectors = np.asarray(encoder.encode_query(list(queries)), np.float64)
    shorter = [text for tokens in words for text in without_each(tokens)]
    without = np.asarray(encoder.encode_query(shorter, progress=progress), np.float64)
    ends = np.cumsum([len(tokens) for tokens in words])
    rows: list[Floats] = np.split(without, ends[:-1]) if len(words) else []
    return [
        ReadQuery(tokens, verdict, tuple(unimportant(effects_of(vector, without)).tolist()))
        for tokens, verdict, vector, without in zip(words, keywords, vectors, rows, strict=True)
    ]


def _keywords(
    encoder: Encoder, queries: Sequence[str], words: Sequence[Sequence[str]], progress: Progress | None
) -> list[tuple[bool | None, ...]]:
    if encoder.model.tower.kind not in RECURRENT:
        return [(None,) * len(tokens) for tokens in words]
    detections = detect(encoder, queries, active=ACTIVE, progress=progress)
    directions = list(dict.fromkeys(way for _, way in detections.cells))
    cells = len(detections.cells) // len(directions)
    counts: list[dict[str, list[int | None]]] = [{way: [0] * len(tokens) for way in directions} for tokens in words]
    for text, dimension, position in zip(
        detections.text.tolist(), detections.dimension.tolist(), detections.position.tolist(), strict=True
    ):
        row = counts[text][directions[dimension // cells]]
        row[position] = (row[position] or 0) + 1
    for votes in counts:
        for way, row in votes.items():
            if row:
                row[-1 if way == "right to left" else 0] = None  # the word read first always changes the output
    active = min(ACTIVE, cells)
    return [verdicts(votes, active, SHARE, len(tokens)) for votes, tokens in zip(counts, words, strict=True)]
