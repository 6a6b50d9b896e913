"""A model and a judged set -> Report: all the numbers, before any of them is drawn."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple

from clickvec.config import RECURRENT
from clickvec.data import JudgedQuery
from clickvec.explanation.detections import some_of
from clickvec.explanation.neighbours import Nearest, Neighbours
from clickvec.explanation.query_words import QueryWords, query_words
from clickvec.explanation.ranking import Ranking, rank
from clickvec.explanation.title_map import TitleMap, can_map, distinct, map_titles
from clickvec.explanation.topics import Topics, topics
from clickvec.explanation.trust import Trust, trust
from clickvec.model.about import about_model
from clickvec.model.encoder import Encoder
from clickvec.progress import Progress
from clickvec.storage.json_files import parse_json
from clickvec.text.lexical_tokens import STOP_WORDS
from clickvec.text.tokens import canonical

FORMAT = 1  # of report.json
QUERIES = 5_000  # read word by word, at most
TITLES = 20_000  # looked among for near ones, at most
NEAR = 8  # words whose neighbours are given


class WordNeighbours(NamedTuple):
    """What is near to a word, and what is near among the words that share no letter trigram with it."""

    near: Nearest
    unlike: Nearest


@dataclass(frozen=True)
class Report:
    """What there is to say of a model."""

    name: str
    judged: str  # the name of the judged set
    about: dict[str, Any]
    history: tuple[dict[str, Any], ...]  # a row for each epoch: epoch, loss, perhaps dev
    ranking: Ranking
    path: str  # of the model folder, as one writes it on the command line
    source: str  # of the queries whose words and topics are shown: the judged ones, or those of a log
    queries: int  # so many there; of a log, different ones
    words: QueryWords
    trust: Trust
    topics: Topics | None  # None where the model does not read word by word
    catalogue: int  # different titles known here
    near_titles: int  # of those, looked among for near ones
    near: tuple[WordNeighbours, ...]
    map: TitleMap | None  # None if scikit-learn is not installed

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return {
            "model": self.name,
            "judged": self.judged,
            "about": self.about,
            "history": list(self.history),
            "queries_from": {"source": self.source, "queries": self.queries, "read": self.words.queries},
            "ranking": self.ranking.as_json(),
            "words": {
                name: [word._asdict() for word in value] if name in ("keywords", "unimportant") else value
                for name, value in asdict(self.words).items()
                if name != "examples"
            },
            "trust": asdict(self.trust),
            "topics": self.topics.top(10).as_json() if self.topics else None,
            "near": [{"any": one.near.as_json(), "unlike": one.unlike.as_json()} for one in self.near],
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
    """Measure a model and look inside it; `titles` is a catalogue, else the judged titles are one.

    Words and topics are those of the queries of a `log`, else of the judged ones.
    """
    known = distinct(titles if titles is not None else [title for query in judged for title in query.titles])
    ranking = rank(encoder, judged, name, titles or (), worst, progress=progress)
    asked = [query.query for query in judged] if log is None else list(dict.fromkeys(log))
    queries = some_of(asked, QUERIES)
    words = query_words(encoder, queries, progress=progress)
    reads = encoder.model.tower.kind in RECURRENT and bool(encoder.encode_query(queries).any())
    found = topics(encoder, queries, progress=progress) if reads else None
    near_titles = some_of(known, TITLES)
    return Report(
        name, judged_name, about_model(encoder.model), read_history(encoder.model.metrics), ranking, path,
        "judged queries" if log is None else "queries of the click log", len(asked), words,
        trust(encoder, judged), found, len(known), len(near_titles),
        _near(encoder, near_titles, words, queries, progress),
        map_titles(encoder, known) if can_map() else None,
    )  # fmt: skip


def read_history(metrics: str) -> tuple[dict[str, Any], ...]:
    """The rows of a model's metrics.jsonl that have an epoch and a loss."""
    rows = (_row(line) for line in metrics.splitlines())
    return tuple(row for row in rows if row is not None)


def _row(line: str) -> dict[str, Any] | None:
    try:
        row = parse_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and _is_number(row.get("epoch")) and _is_number(row.get("loss")) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _near(
    encoder: Encoder, titles: list[str], words: QueryWords, queries: Sequence[str], progress: Progress | None
) -> tuple[WordNeighbours, ...]:
    """The neighbours of the most frequent keywords, or of the most frequent words where there are no keywords."""
    asked = [use.word for use in words.keywords if " " not in use.word]
    if not words.detects:
        damped = {use.word for use in words.unimportant} | STOP_WORDS
        counted = Counter(word for query in queries for word in canonical(query).split() if word not in damped)
        asked = sorted(counted, key=lambda word: (-counted[word], word))
    learned = Neighbours(encoder, titles, progress=progress)
    found = (WordNeighbours(*(learned.nearest(word, k=6, unlike=unlike) for unlike in (False, True))) for word in asked)
    return tuple(islice((one for one in found if one.near.known), NEAR))
