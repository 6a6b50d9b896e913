"""Everything that `clickvec report` shows, gathered from a model and a judged set."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import compress, islice
from typing import Any, NamedTuple

import numpy as np

from clickvec.config import RECURRENT
from clickvec.data import JudgedQuery
from clickvec.explanation.contributions import without_each
from clickvec.explanation.keywords import keywords_of
from clickvec.explanation.neighbours import Nearest, Neighbours
from clickvec.explanation.ranking import Ranking, rank
from clickvec.explanation.reading import read_many
from clickvec.explanation.side import effects_of, unimportant
from clickvec.explanation.title_map import TitleMap, can_map, distinct, map_titles
from clickvec.explanation.topics import Topics, detect, random_sample, topics
from clickvec.model.about import about_model
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.storage.json_files import parse_json
from clickvec.text.lexical_tokens import STOP_WORDS
from clickvec.text.tokens import canonical, split_tokens

FORMAT = 2  # of report.json
QUERIES = 5_000  # most queries whose words are examined
TITLES = 20_000  # most titles searched for neighbours
NEAR = 8  # words whose neighbours are listed
EXAMPLES = 12  # queries shown with their words marked
FREQUENT = 20  # most words in each list
LEAST = 3  # occurrences of a word in a list: rarer ones may be chance


class WordUse(NamedTuple):
    """A word of the queries, how often it occurs, and how often as a keyword or as an unimportant word."""

    word: str
    times: int
    counted: int


class ReadQuery(NamedTuple):
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


class WordNeighbours(NamedTuple):
    """The neighbours of a word, and its neighbours among words that share no letter trigram with it."""

    near: Nearest
    unlike: Nearest


@dataclass(frozen=True)
class Report:
    """The contents of a report about a model."""

    name: str
    judged: str  # name of the judged set
    about: dict[str, Any]
    history: tuple[dict[str, Any], ...]  # one row per epoch: epoch, loss, and dev if it was measured
    ranking: Ranking
    path: str  # of the model folder, as typed on the command line
    source: str  # where the queries for words and topics come from
    queries: int  # number of distinct queries there
    words: QueryWords
    topics: Topics | None  # None if the model does not read word by word
    catalogue: int  # number of distinct titles
    near_titles: int  # how many of them were searched for neighbours
    near: tuple[WordNeighbours, ...]
    map: TitleMap | None  # None if scikit-learn is not installed

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return {
            "model": self.name,
            "judged": self.judged,
            "about": self.about,
            "history": list(self.history),
            "queries_from": {"source": self.source, "queries": self.queries, "read": self.words.queries},
            "ranking": self.ranking.as_json(),
            "words": self.words.as_json(),
            "topics": asdict(self.topics) if self.topics else None,
            "near": [{"any": asdict(word.near), "unlike": asdict(word.unlike)} for word in self.near],
            "map": self.map.as_json() if self.map else None,
        }


def gather(
    encoder: Encoder,
    judged: Sequence[JudgedQuery],
    *,
    name: str = "model",
    judged_name: str = "judged set",
    path: str = "MODEL",
    titles: Sequence[str] | None = None,
    log: Sequence[str] | None = None,
    worst: int = 10,
    progress: Progress | None = None,
) -> Report:
    """Measure a model and examine what it learned.

    Neighbours and the map use `titles`, or the judged titles if there are none. Words and topics use the queries of a
    `log`, or the judged queries.
    """
    known = distinct(titles if titles is not None else [title for query in judged for title in query.titles])
    ranking = rank(encoder, judged, name, titles or (), worst, progress=progress)
    available = [query.query for query in judged] if log is None else list(dict.fromkeys(log))
    queries = random_sample(available, QUERIES)
    words = query_words(encoder, queries, progress=progress)
    readable = encoder.model.tower.kind in RECURRENT and bool(encoder.encode_query(queries).any())
    near_titles = random_sample(known, TITLES)
    return Report(
        name=name,
        judged=judged_name,
        about=about_model(encoder.model),
        history=read_history(encoder.model.metrics),
        ranking=ranking,
        path=path,
        source="judged queries" if log is None else "queries of the click log",
        queries=len(available),
        words=words,
        topics=topics(detect(encoder, queries, progress=progress)) if readable else None,
        catalogue=len(known),
        near_titles=len(near_titles),
        near=_near(Neighbours(encoder, near_titles, progress=progress), words, queries),
        map=map_titles(encoder, known) if can_map() else None,
    )


def query_words(encoder: Encoder, queries: Sequence[str], *, progress: Progress | None = None) -> QueryWords:
    """Count the keywords and the unimportant words of queries."""
    read = read_queries(encoder, queries, progress=progress)
    times: Counter[str] = Counter()
    keyword: Counter[str] = Counter()
    little: Counter[str] = Counter()
    for query in read:
        times.update(query.words)
        keyword.update(compress(query.words, query.keywords))
        little.update(compress(query.words, query.unimportant))

    def most_frequent(counts: Counter[str]) -> tuple[WordUse, ...]:
        """Return the words that are counted most often, and in at least half of their occurrences."""
        mostly = [word for word, count in counts.items() if 2 * count >= times[word] >= LEAST]
        chosen = sorted(mostly, key=lambda word: (-counts[word], word))[:FREQUENT]
        return tuple(WordUse(word, times[word], counts[word]) for word in chosen)

    spread = np.linspace(0, len(read) - 1, min(EXAMPLES, len(read))).astype(int).tolist()
    return QueryWords(
        len(read),
        encoder.model.tower.kind in RECURRENT,
        times.total(), keyword.total(), little.total(),
        most_frequent(keyword), most_frequent(little),
        tuple(read[at] for at in spread),
    )  # fmt: skip


def read_queries(encoder: Encoder, queries: Sequence[str], *, progress: Progress | None = None) -> list[ReadQuery]:
    """Return the verdicts of keywords.py and side.py on the words of each query, many queries at a time."""
    words = [tuple(split_tokens(query, encoder.model.max_words)) for query in queries]
    keywords: Iterable[tuple[bool | None, ...]] = ((None,) * len(tokens) for tokens in words)
    if encoder.model.tower.kind in RECURRENT:
        keywords = (keywords_of(reading).verdicts for reading in read_many(encoder, "query", queries, progress))
    vectors = np.asarray(encoder.encode_query(list(queries)), np.float64)
    shorter = [text for tokens in words for text in without_each(tokens)]
    without = iter(np.asarray(encoder.encode_query(shorter, progress=progress), np.float64))
    read = []
    for tokens, verdicts, vector in zip(words, keywords, vectors, strict=True):
        rows = np.array(list(islice(without, len(tokens)))).reshape(len(tokens), len(vector))
        read.append(ReadQuery(tokens, verdicts, tuple(unimportant(effects_of(vector, rows)).tolist())))
    return read


def read_history(metrics: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a model's metrics.jsonl that hold an epoch and a loss."""
    rows = []
    for line in metrics.splitlines():
        with suppress(ValueError):
            rows.append(parse_json(line))
    return tuple(
        row for row in rows if isinstance(row, dict) and "epoch" in row and isinstance(row.get("loss"), int | float)
    )


def _near(neighbours: Neighbours, words: QueryWords, queries: Sequence[str]) -> tuple[WordNeighbours, ...]:
    """Return the neighbours of the most frequent keywords, or of the most frequent words if there are no keywords."""
    candidates = [use.word for use in words.keywords if " " not in use.word]
    if not words.detects:
        counts = Counter(word for query in queries for word in canonical(query).split() if word not in STOP_WORDS)
        candidates = sorted(counts, key=lambda word: (-counts[word], word))
    near: list[WordNeighbours] = []
    for word in candidates:
        nearest = neighbours.nearest(word, k=6)
        if nearest.known:
            near.append(WordNeighbours(nearest, neighbours.nearest(word, k=6, unlike=True)))
        if len(near) == NEAR:
            break
    return tuple(near)
