"""What POST /try answers, and the activations of the cells as plain values."""

import dataclasses
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from clickvec.explanation import Reading, try_out
from clickvec.serve.endpoint import Call
from clickvec.serve.refusal import check_lengths
from clickvec.serve.schemas import Activations, Id, Request, Traces
from clickvec.serve.service import Service

_DIGITS = 4


class TryRequest(Request):
    """Score a query and a title, whether the title is in the index or not."""

    query: str
    title: str
    id: Annotated[Id | None, Meta(description="The document whose title is being edited. It is not ranked.")] = None
    trace: Annotated[bool, Meta(description="Return the activations of the cells too.")] = False


class TriedWord(Struct):
    """A word, when the model has read the text up to it."""

    word: str
    known: Annotated[float, Meta(description="Share of its letter trigrams that the model knows.")]
    cosine: Annotated[float, Meta(description="Of the text up to this word, and the whole other text.")]
    contribution: Annotated[float, Meta(description="To the cosine of both texts. These add up to it.")]
    keyword: bool | None


class TryResponse(Struct):
    """The score and the rank that the title would have, and how they come about."""

    cosine: float
    score: float
    fused: dict[str, Any]
    rank: dict[str, Any]
    query: list[TriedWord]
    title: list[TriedWord]
    trace: Traces | UnsetType = UNSET


def try_title(service: Service, call: Call) -> TryResponse:
    """Score and rank any title for a query, and tell what the model makes of each word."""
    request: TryRequest = call.body
    check_lengths("query", [request.query], service.limits.query_characters)
    check_lengths("title", [request.title], service.limits.title_characters)
    trial = try_out(service.index, request.query, request.title, request.id)
    return TryResponse(
        trial.cosine,
        trial.fused.score,
        dataclasses.asdict(trial.fused),
        trial.rank.as_json(),
        [TriedWord(**dataclasses.asdict(word)) for word in trial.query_words],
        [TriedWord(**dataclasses.asdict(word)) for word in trial.title_words],
        traces(trial.query_reading, trial.title_reading) if request.trace else UNSET,
    )


def traces(query: Reading | None, title: Reading | None) -> Traces | UnsetType:
    """Return the activations of both texts, or nothing if the model does not read word by word."""
    return Traces(_activations(query), _activations(title)) if query and title else UNSET


def _activations(reading: Reading) -> list[Activations]:
    return [
        Activations(
            way.name,
            list(reading.words),
            {name: values.round(_DIGITS).tolist() for name, values in way.values.items()},
        )
        for way in reading.directions
    ]
