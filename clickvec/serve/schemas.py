"""The requests and responses of the service. msgspec validates requests against these types, and OpenAPI shows them."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from clickvec.search.rerank import WEIGHT

Id = str | int
Mode = Literal["hybrid", "words", "vectors"]


def _about(text: str, **more: Any) -> Meta:  # noqa: ANN401
    return Meta(description=text, **more)


# --- requests ----------------------------------------------------------------------------------------------------


class Request(Struct, forbid_unknown_fields=True, kw_only=True):
    """A body. A field that is not known is an error, so that a typing error is not ignored."""


class SearchRequest(Request):
    """Search with one query or with many."""

    query: Annotated[str | None, _about("One query. Give this or queries.")] = None
    queries: Annotated[list[str] | None, _about("Many queries. The response then has results in place of hits.")] = None
    k: Annotated[int, _about("Number of hits for each query.", ge=1)] = 10
    offset: Annotated[int, _about("Number of best hits to leave out.", ge=0)] = 0
    where: Annotated[dict[str, Any] | None, _about("A filter on the payload.")] = None
    mode: Annotated[Mode, _about("Search words and vectors, or one of them alone.")] = "hybrid"
    min_score: Annotated[float | None, _about("Leave out hits with a lower score.")] = None
    facets: Annotated[list[str], _about("Payload fields whose values are counted.")] = []
    highlight: Annotated[bool, _about("Return the words of each hit with what they contribute.")] = False
    explain: Annotated[bool, _about("Explain the score of each hit.")] = False


class Candidate(Request):
    """A result of another search engine."""

    title: str
    id: Id | None = None
    score: Annotated[float | None, _about("The score of the other engine. Give it to all documents, or to none.")] = (
        None
    )


class RerankRequest(Request):
    """Re-order the results of another search engine."""

    query: str
    documents: list[Candidate | str]
    k: Annotated[int, _about("Return only the k best. Default: all.", ge=1)] | None = None
    weight: Annotated[float, _about("Weight of the scores of the other engine, if given.", ge=0, le=1)] = WEIGHT


class ExplainRequest(Request):
    """Explain the score of a title for a query."""

    query: str
    id: Annotated[Id | None, _about("The id of a document. Give this or title. Default: the top hit.")] = None
    title: Annotated[str | None, _about("Any title.")] = None
    compare_with: Annotated[
        Id | None, _about("Compare with the document of this id, or with this title, instead of the top hit.")
    ] = None
    trace: Annotated[bool, _about("Return the activations of the cells at each word too.")] = False


class NewDocument(Request):
    """A document to index."""

    id: Id
    title: Annotated[str, _about("Not blank.", pattern=r"\S")]
    payload: Annotated[Any, _about("Any JSON value. Filters and facets use the fields of an object.")] = None


class DocumentsRequest(Request):
    """Documents to add. A document with a known id replaces the old one."""

    documents: list[NewDocument]


class ChangedDocument(Request):
    """New values of some fields of a document. The other fields stay."""

    id: Id
    title: Annotated[str, _about("Not blank. Default: the title stays.", pattern=r"\S")] | UnsetType = UNSET
    payload: Annotated[dict[str, Any], _about("New values of fields. null removes a field.")] = {}


class ChangesRequest(Request):
    """Changes of documents. If an id is unknown, nothing is changed."""

    documents: list[ChangedDocument]


class Shown(Request):
    """A hit that the user saw."""

    id: Id
    position: Annotated[int, _about("From 1. Default: the place in the list.", ge=1, le=1_000_000)] | None = None


class ClickRequest(Request):
    """What a user saw and clicked. Send what was shown once for each search."""

    query: str
    clicked: Annotated[list[Id], _about("Ids that the user clicked. May be empty.")] = []
    shown: Annotated[list[Shown | str | int], _about("Hits that the user saw, best first, or their ids.")] = []
    client: Annotated[str, _about("A pseudonym of the user, for k-anonymity and bots.", max_length=200)] | None = None


# --- responses ---------------------------------------------------------------------------------------------------


class FoundDocument(Struct, kw_only=True):
    """A document of the index."""

    id: Id
    title: str
    payload: Any | UnsetType = UNSET


class Activations(Struct):
    """What one direction of reading did."""

    way: Annotated[str, _about("left to right, or right to left.")]
    words: list[str]
    values: Annotated[
        dict[str, list[list[float]]],
        _about("By name (input_gate, forget_gate, output_gate, cell, output, ...), for each word, of each cell."),
    ]


class Traces(Struct):
    """The activations of query and title, in each direction of reading."""

    query: list[Activations]
    title: list[Activations]


class ExplainResponse(Struct):
    """How a score comes about. The terms of `fused` add up to the score, the words of `explanation` to the cosine."""

    tower: str
    query: str
    title: str
    score: float
    fused: dict[str, Any] | None
    rank: dict[str, Any] | None
    explanation: dict[str, Any]
    why_not: Annotated[dict[str, Any] | None, _about("Why the title is not the top hit.")]
    trace: Annotated[Traces | UnsetType, _about("If asked for, and if the model reads word by word.")] = UNSET


class HitWord(Struct):
    """A word of a title as it is written. The last one of a long title holds all remaining words."""

    text: str
    cosine: Annotated[float, _about("What it contributes to the cosine. These add up to it.")]
    bm25: Annotated[float, _about("What it contributes to BM25.")]


class FoundHit(Struct, kw_only=True):
    """A document that a search found."""

    id: Id
    title: str
    score: float
    parts: Annotated[dict[str, float], _about("What each part of the score says: cosine, bm25.")]
    payload: Any | UnsetType = UNSET
    words: list[HitWord] | UnsetType = UNSET
    explanation: ExplainResponse | UnsetType = UNSET


class FacetCount(Struct):
    """How many matching documents have a value."""

    value: Any
    count: int


Corrected = Annotated[
    dict[str, list[str]] | UnsetType,
    _about(
        "Words of the query that no title has, each with the similar words that were searched instead. There are none "
        "for a code of which nothing is known, and for the words of a query of which nothing is known."
    ),
]


class Found(Struct):
    """The hits of one query, best first."""

    hits: list[FoundHit]
    facets: dict[str, list[FacetCount]] | UnsetType = UNSET
    corrected: Corrected = UNSET


class SearchResponse(Struct):
    """`hits` for one query, `results` for many."""

    hits: list[FoundHit] | UnsetType = UNSET
    facets: dict[str, list[FacetCount]] | UnsetType = UNSET
    corrected: Corrected = UNSET
    results: list[Found] | UnsetType = UNSET
    notes: Annotated[list[str] | UnsetType, _about("Why the filter matches no document.")] = UNSET


class Reranked(Struct):
    """A result of another search engine with its new score."""

    index: Annotated[int, _about("Its place in the request, from 0.")]
    title: str
    score: float
    id: Id | UnsetType = UNSET


class RerankResponse(Struct):
    """The results, best first."""

    results: list[Reranked]


class DocumentsResponse(Struct):
    """What was written. It is on disk, and searches find it."""

    added: int
    titles: Annotated[int, _about("Documents in the index now.")]


class ChangesResponse(Struct):
    """What was changed. It is on disk, and searches find it."""

    updated: int
    titles: Annotated[int, _about("Documents in the index.")]


class DeleteResponse(Struct):
    """What was deleted."""

    deleted: int
    titles: int


class ClickResponse(Struct):
    """The lines that were written to the click log, and ids that the index does not have."""

    logged: int
    unknown: list[Id]


class Pending(Struct):
    """The answer is still being computed. Ask again."""

    pending: bool = True


class Health(Struct):
    """The state of the service."""

    status: str


class Ready(Struct):
    """The state of the index."""

    status: str
    titles: int
    model: str
    writable: bool


class ErrorBody(Struct):
    """What went wrong."""

    code: str
    message: str


class ErrorResponse(Struct):
    """The response to a request that was not carried out."""

    error: ErrorBody
