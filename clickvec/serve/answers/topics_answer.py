"""What GET /topics and GET /topics/{dimension} answer: what each cell of the model responds to."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from clickvec.config import RECURRENT
from clickvec.errors import ClickvecError
from clickvec.explanation.reading import Floats
from clickvec.explanation.topics import SIGNS, Detections, Topic, Topics, detect, random_sample, topics
from clickvec.search.view_protocol import SearchView
from clickvec.serve.about_folder import read_queries
from clickvec.serve.answers.title_sample import TitleSample, sample_titles
from clickvec.serve.endpoint import Call
from clickvec.serve.refusal import RefusalError
from clickvec.serve.schemas import Id
from clickvec.serve.service import Service

_TITLES, _QUERIES = 2_000, 2_000  # in the samples
_WORDS, _ALL_WORDS = 10, 24  # of a side of a cell: in the list of all cells, and in its own answer
_TEXTS = 8  # titles and queries of a side of a cell


class TopicWordCount(Struct):
    """A word that a cell detects."""

    word: str
    count: int
    lift: float


class CellTopic(Struct):
    """The words that a cell detects in titles that it ends above (+) or below (-) zero."""

    dimension: int
    cell: int
    way: str
    sign: str
    detections: int
    specificity: float
    words: list[TopicWordCount]


class TopicsResponse(Struct):
    """The topics of the cells over a sample of the titles, the most specific first."""

    titles: int
    topics: list[CellTopic]
    cells: Annotated[int, Meta(description="Number of cells: dimensions of a vector.")]
    dead: Annotated[
        list[int], Meta(description="Dimensions of cells that are never among the most active, or hardly vary.")
    ]


class ActiveText(Struct):
    """A title with its id, or a query, that a cell responds to strongly."""

    text: str
    id: Id | None
    activation: float


class CellSide(Struct):
    """What a cell responds to with values above (+) or below (-) zero."""

    sign: str
    detections: int
    specificity: float
    words: list[TopicWordCount]
    titles: Annotated[list[ActiveText], Meta(description="Titles that it ends farthest from zero.")]
    queries: Annotated[list[ActiveText], Meta(description="Queries of the log, if the folder about has queries.txt.")]


class CellResponse(Struct):
    """What one cell of the model responds to."""

    dimension: int
    cell: int
    way: str
    dead: bool
    times_active: Annotated[int, Meta(description="Number of titles in which it is among the most active.")]
    spread: Annotated[float, Meta(description="Standard deviation of its value over the titles.")]
    titles: Annotated[int, Meta(description="Titles in the sample.")]
    queries: Annotated[int, Meta(description="Queries in the sample.")]
    sides: list[CellSide]


class _Cells(NamedTuple):
    """What the cells do in a sample of titles, and in queries of the log."""

    sample: TitleSample
    detections: Detections
    topics: Topics
    queries: list[str]
    of_queries: Floats  # (queries, dimensions): the activations at the end of each query


def _examine(service: Service, view: SearchView) -> _Cells | None:
    """Return what the cells do, or None if the model has no cells or knows no title."""
    sample = sample_titles(view, _TITLES)
    if view.encoder.model.tower.kind not in RECURRENT:
        return None
    detections = detect(view.encoder, sample.titles, side="title")
    try:
        found = topics(detections, _ALL_WORDS)
    except ClickvecError:  # no title has a known trigram
        return None
    queries = random_sample(read_queries(service.settings.about), _QUERIES)
    return _Cells(sample, detections, found, queries, detect(view.encoder, queries, side="query").activations)


def _cells(service: Service) -> _Cells | None:
    return service.remembered.get("topics", service.index.view(), lambda view: _examine(service, view))


def cell_topics(service: Service, call: Call) -> TopicsResponse:
    """Return the words that each cell detects, over a sample of the titles."""
    cells = _cells(service)
    if cells is None:
        return TopicsResponse(0, [], 0, [])
    listed = sorted(cells.topics.topics, key=lambda topic: topic.worth, reverse=True)
    return TopicsResponse(
        len(cells.sample.documents),
        [
            CellTopic(
                topic.dimension, topic.cell, topic.way, topic.sign, topic.detections, round(topic.specificity, 4),
                _words(topic)[:_WORDS],
            )
            for topic in listed if topic.detections
        ],
        len(cells.detections.cells), list(cells.topics.dead),
    )  # fmt: skip


def cell(service: Service, call: Call) -> CellResponse:
    """Return the words, titles and queries that one cell responds to."""
    cells, text = _cells(service), call.parameters["dimension"]
    count = 0 if cells is None else len(cells.detections.cells)
    dimension = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else count
    if cells is None or dimension >= count:
        raise RefusalError(404, f"There is no cell {text!r:.40}; the vector of this model has {count} dimensions.")
    number, way = cells.detections.cells[dimension]
    activations = cells.detections.activations[:, dimension]
    sides = [
        CellSide(
            sign, topic.detections, round(topic.specificity, 4), _words(topic),
            _most_active([(document.title, document.id) for document in cells.sample.documents], factor * activations),
            _most_active([(query, None) for query in cells.queries], factor * cells.of_queries[:, dimension]),
        )
        for sign, factor, topic in zip(SIGNS, (1, -1), cells.topics.topics[2 * dimension :], strict=False)
    ]  # fmt: skip
    return CellResponse(
        dimension, number, way, dimension in cells.topics.dead, int(cells.detections.times_active[dimension]),
        round(float(activations.std()), 4), len(cells.sample.documents), len(cells.queries), sides,
    )  # fmt: skip


def _words(topic: Topic) -> list[TopicWordCount]:
    return [TopicWordCount(word.word, word.count, round(word.lift, 2)) for word in topic.words]


def _most_active(texts: Sequence[tuple[str, str | int | None]], values: NDArray[np.float64]) -> list[ActiveText]:
    """Return the texts with the highest values, if these are above zero."""
    best = np.argsort(-values, kind="stable")[:_TEXTS]
    return [
        ActiveText(texts[at][0], texts[at][1], round(float(values[at]), 4)) for at in best.tolist() if values[at] > 0
    ]
