"""What GET /map and POST /map/place answer: a sample of the titles in two dimensions, and where a text lies there."""

from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta, Struct

from clickvec.explanation.reading import Floats
from clickvec.explanation.title_map import TitleMap, map_vectors, place
from clickvec.model.encoder import Vectors
from clickvec.search.documents.document import Document
from clickvec.search.view_protocol import SearchView
from clickvec.serve.answers.title_sample import sample_titles, unit_vectors
from clickvec.serve.endpoint import Call
from clickvec.serve.refusal import check_lengths
from clickvec.serve.schemas import Id, Request
from clickvec.serve.service import Service

_TITLES = 3_000  # most titles on the map
_CHARACTERS = 200  # of a title; longer ones are cut
_NEAR = 5  # titles of the map that are named beside a place
SIZE = 10_000  # coordinates are whole numbers from 0 to this


class MapGroup(Struct):
    """Titles that are close together."""

    words: Annotated[list[str], Meta(description="The most characteristic words, best first.")]
    titles: int
    x: int
    y: int


class MapResponse(Struct):
    """Titles on a map. The lists ids, titles, x, y and group have one entry for each title."""

    method: Annotated[str, Meta(description="t-SNE, or PCA if scikit-learn is not installed.")]
    catalogue: Annotated[int, Meta(description="Titles in the index. The map has a random sample of a large one.")]
    size: Annotated[int, Meta(description="Coordinates are from 0 to this.")]
    groups: list[MapGroup]
    ids: list[Id]
    titles: list[str]
    x: list[int]
    y: list[int]
    group: Annotated[list[int], Meta(description="The number of the group of each title, from 0.")]


class PlaceRequest(Request):
    """A text to place on the map."""

    text: str
    side: Annotated[Literal["query", "title"], Meta(description="What the text is.")] = "query"


class PlaceResponse(Struct):
    """Where a text lies on the map: between the titles of the map that are most similar to it."""

    x: Annotated[int | None, Meta(description="null if the model knows no trigram of the text, or the map is empty.")]
    y: int | None
    near: Annotated[list[int], Meta(description="The nearest titles: their numbers in the lists of the map.")]
    cosines: list[float]


class _Drawn(NamedTuple):
    """A map with the vectors of its titles."""

    answer: MapResponse
    vectors: Vectors
    points: Floats


def title_map(service: Service, call: Call) -> MapResponse:
    """Return a map of the titles: similar ones are close together."""
    return _drawn(service).answer


def place_on_map(service: Service, call: Call) -> PlaceResponse:
    """Return where a query or a title lies on the map."""
    request: PlaceRequest = call.body
    check_lengths("text", [request.text], service.limits.query_characters)
    encoder = service.index.encoder
    vector = (encoder.encode_query if request.side == "query" else encoder.encode_document)(request.text)
    drawn = _drawn(service)
    if not len(drawn.vectors) or not vector.any() or len(vector) != drawn.vectors.shape[1]:
        return PlaceResponse(None, None, [], [])
    x, y = np.rint(place(vector[None], drawn.vectors, drawn.points)[0]).astype(int).tolist()
    cosines = drawn.vectors @ vector
    near = np.argsort(-cosines, kind="stable")[:_NEAR]
    return PlaceResponse(x, y, near.tolist(), [round(float(cosines[at]), 4) for at in near])


def _drawn(service: Service) -> _Drawn:
    return service.remembered.get("map", service.index.view(), _draw)


def _draw(view: SearchView) -> _Drawn:
    sample = sample_titles(view, _TITLES)
    vectors = unit_vectors(view, sample.positions)
    readable = np.flatnonzero(vectors.any(axis=1))
    documents, vectors = [sample.documents[at] for at in readable.tolist()], vectors[readable]
    drawn = map_vectors([document.title for document in documents], vectors)
    if not drawn.titles:
        documents, vectors = [], vectors[:0]
    points, centres = _scaled(drawn)
    return _Drawn(_response(len(view), documents, drawn, points, centres), vectors, points)


def _scaled(drawn: TitleMap) -> tuple[Floats, Floats]:
    """Return the points and the centres of the groups in coordinates from 0 to SIZE, with both axes to one scale."""
    centres = np.array([group.centre for group in drawn.neighbourhoods]).reshape(-1, 2)
    if not len(drawn.points):
        return drawn.points, centres
    low, high = drawn.points.min(axis=0), drawn.points.max(axis=0)
    span = max(float((high - low).max()), 1e-9)
    middle = (low + high) / 2
    return SIZE * ((drawn.points - middle) / span + 0.5), SIZE * ((centres - middle) / span + 0.5)


def _response(
    catalogue: int, documents: list[Document], drawn: TitleMap, points: Floats, centres: Floats
) -> MapResponse:
    x, y = np.rint(points).astype(int).T.tolist()
    centre_x, centre_y = np.rint(centres).astype(int).T.tolist()
    return MapResponse(
        method=drawn.method, catalogue=catalogue, size=SIZE,
        groups=[
            MapGroup(list(group.words), group.titles, *place)
            for group, *place in zip(drawn.neighbourhoods, centre_x, centre_y, strict=True)
        ],
        ids=[document.id for document in documents], titles=[document.title[:_CHARACTERS] for document in documents],
        x=x, y=y, group=list(drawn.neighbourhood_of),
    )  # fmt: skip
