"""Everything that `clickvec report` shows, gathered from a model and a judged set."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from clickvec.config import RECURRENT
from clickvec.data import JudgedQuery
from clickvec.explanation.detections import detect, random_sample
from clickvec.explanation.neighbours import Nearest, Neighbours
from clickvec.explanation.query_words import QueryWords, query_words
from clickvec.explanation.ranking import Ranking, rank
from clickvec.explanation.title_map import TitleMap, can_map, distinct, map_titles
from clickvec.explanation.topics import Topics, topics
from clickvec.model.about import about_model
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.storage.json_files import parse_json
from clickvec.text.lexical_tokens import STOP_WORDS
from clickvec.text.tokens import canonical

FORMAT = 1  # of report.json
QUERIES = 5_000  # most queries whose words are examined
TITLES = 20_000  # most titles searched for neighbours
NEAR = 8  # words whose neighbours are listed


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
            "topics": asdict(self.topics.top(10)) if self.topics else None,
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


def read_history(metrics: str) -> tuple[dict[str, Any], ...]:
    """Return the rows of a model's metrics.jsonl that hold an epoch and a loss."""
    rows = []
    for line in metrics.splitlines():
        try:
            row = parse_json(line)
        except ValueError:
            continue
        if isinstance(row, dict) and all(_is_number(row.get(name)) for name in ("epoch", "loss")):
            rows.append(row)
    return tuple(rows)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _near(neighbours: Neighbours, words: QueryWords, queries: Sequence[str]) -> tuple[WordNeighbours, ...]:
    """Return the neighbours of the most frequent keywords, or of the most frequent words if there are no keywords."""
    candidates = [use.word for use in words.keywords if " " not in use.word]
    if not words.detects:
        ignored = {use.word for use in words.unimportant} | STOP_WORDS
        counts = Counter(word for query in queries for word in canonical(query).split() if word not in ignored)
        candidates = sorted(counts, key=lambda word: (-counts[word], word))
    near: list[WordNeighbours] = []
    for word in candidates:
        nearest = neighbours.nearest(word, k=6)
        if nearest.known:
            near.append(WordNeighbours(nearest, neighbours.nearest(word, k=6, unlike=True)))
        if len(near) == NEAR:
            break
    return tuple(near)
