"""What GET /about answers: what this service is, and which of its features are on. The page asks for it first."""

from collections.abc import Mapping
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

import clickvec
from clickvec.config import RECURRENT
from clickvec.search.payload.fields import FieldKinds
from clickvec.search.view_protocol import SearchView
from clickvec.serve.endpoint import Call
from clickvec.serve.limits import keeps_queries
from clickvec.serve.service import Service

_FIELDS = 100  # most payload fields listed
_EXAMPLES, _EXAMPLE_WORDS, _EXAMPLE_CHARACTERS = 5, 3, 60


class PayloadField(Struct):
    """A payload field that filters and facets can use."""

    name: str
    kind: Literal["text", "number", "bool", "mixed"]
    values: Annotated[int, Meta(description="About how many different values it has.")]
    minimum: Annotated[float | None, Meta(description="Of its numbers.")] = None
    maximum: float | None = None


class PageLimits(Struct):
    """Limits that a page needs to know."""

    query_characters: int
    title_characters: int
    hits: int


class NeededKeys(Struct):
    """Which requests need an API key."""

    read: bool
    write: bool


class AboutResponse(Struct):
    """What this service is, and which features are on."""

    name: Annotated[str, Meta(description="The name of the index.")]
    version: Annotated[str, Meta(description="The version of clickvec.")]
    titles: int
    model: Annotated[str, Meta(description="The fingerprint of the model.")]
    tower: Annotated[str, Meta(description="Such as lstm.")]
    has_cells: Annotated[bool, Meta(description="Whether the model reads word by word, and so has gates and topics.")]
    fusion: Annotated[str, Meta(description="How words and vectors make the score: ranks, mixture or clicks.")]
    is_writable: bool
    logs_clicks: Annotated[bool, Meta(description="Whether the page should send clicks to /click.")]
    keeps_queries: Annotated[bool, Meta(description="Whether /queries exists.")]
    keys: NeededKeys
    fields: list[PayloadField]
    limits: PageLimits
    examples: Annotated[list[str], Meta(description="The first words of some titles, as queries to try.")]


def about(service: Service, call: Call) -> AboutResponse:
    """Return what this service is, and which features are on."""
    settings, limits, view = service.settings, service.limits, service.index.view()
    tower = view.encoder.model.tower.kind
    return AboutResponse(
        name=settings.index.resolve().name, version=clickvec.__version__, titles=len(view),
        model=view.encoder.fingerprint, tower=tower, has_cells=tower in RECURRENT, fusion=view.fusion.method,
        is_writable=service.is_writable, logs_clicks=settings.log_clicks, keeps_queries=keeps_queries(settings),
        keys=NeededKeys(bool(settings.read_keys), bool(settings.read_keys or settings.write_keys)),
        fields=payload_fields(view.field_kinds()),
        limits=PageLimits(limits.query_characters, limits.title_characters, limits.hits), examples=_examples(view),
    )  # fmt: skip


def _examples(view: SearchView) -> list[str]:
    """Return the first words of titles from all over the index."""
    if not view.size:
        return []
    positions = np.unique(np.linspace(0, view.size - 1, _EXAMPLES + 2, dtype=np.int64)[1:-1])
    titles = [document.title for document in view.documents.get(view.seqs_at(positions)).values()]
    texts = (" ".join(title.split()[:_EXAMPLE_WORDS]) for title in titles)
    return list(dict.fromkeys(text for text in texts if 0 < len(text) <= _EXAMPLE_CHARACTERS))


def payload_fields(kinds: Mapping[str, FieldKinds]) -> list[PayloadField]:
    """Return the fields of all documents, those with the most different values last."""
    found = [
        PayloadField(name, _kind(kind.texts, kind.numbers), kind.texts + kind.numbers or 2, kind.minimum, kind.maximum)
        for name, kind in kinds.items()
    ]
    return sorted(found, key=lambda field: (field.values, field.name))[:_FIELDS]


def _kind(texts: int, numbers: int) -> Literal["text", "number", "bool", "mixed"]:
    if texts and numbers:
        return "mixed"
    return "text" if texts else "number" if numbers else "bool"
