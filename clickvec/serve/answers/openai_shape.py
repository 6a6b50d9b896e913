"""Embeddings and models in the shape of OpenAI's API, so that its clients can use the model of an index."""

import base64
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta, Struct

from clickvec.serve.endpoint import Call
from clickvec.serve.refusal import RefusalError, check_count, check_lengths
from clickvec.serve.service import Service

QUERY_MODEL, TITLE_MODEL = "clickvec-query", "clickvec-title"


class EmbeddingRequest(Struct, kw_only=True):
    """Texts to encode. Fields that OpenAI has and clickvec does not are ignored."""

    input: Annotated[
        str | list[Any], Meta(description="A text, or a list of texts. Lists of token numbers are refused.")
    ]
    model: Annotated[str, Meta(description=f"{QUERY_MODEL} or {TITLE_MODEL}: the tower that encodes.")] = QUERY_MODEL
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


class Embedding(Struct):
    """The vector of one text. As base64, it is float32 in little-endian order."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(Struct):
    """How many words were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingResponse(Struct):
    """The vectors in the order of the texts."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: Usage


class ModelCard(Struct):
    """One tower of the model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsResponse(Struct):
    """The towers that can encode."""

    object: Literal["list"]
    data: list[ModelCard]


def embeddings(service: Service, call: Call) -> EmbeddingResponse:
    """Encode texts by the query tower or the title tower."""
    request: EmbeddingRequest = call.body
    texts = [request.input] if isinstance(request.input, str) else request.input
    if not texts:
        raise RefusalError(422, "The input is empty; give at least one text.")
    if not all(isinstance(text, str) for text in texts):
        raise RefusalError(
            422, "The input must be a text or a list of texts; lists of token numbers are not supported, because the "
            "model has no tokens of OpenAI.",
        )  # fmt: skip
    check_count("texts", texts, service.limits.documents)
    check_lengths("text", texts, service.limits.title_characters)
    encoder = service.index.encoder
    if request.model not in (QUERY_MODEL, TITLE_MODEL):
        raise RefusalError(404, f"There is no model {request.model!r}; use {QUERY_MODEL} or {TITLE_MODEL}.")
    if request.dimensions not in (None, encoder.dimensions):
        raise RefusalError(422, f"The model has {encoder.dimensions} dimensions; leave dimensions out.")
    encode = encoder.encode_query if request.model == QUERY_MODEL else encoder.encode_document
    vectors = encode(texts)
    rows: list[Any]
    if request.encoding_format == "base64":
        rows = [base64.b64encode(row.tobytes()).decode() for row in vectors.astype("<f4", copy=False)]
    else:
        rows = np.asarray(vectors, np.float64).tolist()
    words = sum(len(text.split()) for text in texts)
    data = [Embedding("embedding", place, row) for place, row in enumerate(rows)]
    return EmbeddingResponse("list", data, request.model, Usage(words, words))


def models(service: Service, call: Call) -> ModelsResponse:
    """List the towers that can encode."""
    return ModelsResponse("list", [ModelCard(name, "model", 0, "clickvec") for name in (QUERY_MODEL, TITLE_MODEL)])
