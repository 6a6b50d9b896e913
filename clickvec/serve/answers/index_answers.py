"""What each endpoint answers, from a validated request. These functions run in threads."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import UNSET, json

from clickvec.errors import ClickvecError
from clickvec.explanation import Explanation, explain_hits, highlight
from clickvec.explanation import explain as explain_pair
from clickvec.search.index import Change, Document, Hit
from clickvec.search.live.view import View
from clickvec.search.payload.filters import parse_filter
from clickvec.search.rerank import rerank_scores
from clickvec.serve.answers.queries_answer import count_search
from clickvec.serve.answers.trial_answer import traces
from clickvec.serve.endpoint import Call, Text
from clickvec.serve.refusal import RefusalError, check_count, check_lengths
from clickvec.serve.schemas import (
    ChangedDocument,
    ChangesRequest,
    ChangesResponse,
    DeleteResponse,
    DocumentsRequest,
    DocumentsResponse,
    ExplainRequest,
    ExplainResponse,
    FacetCount,
    Found,
    FoundDocument,
    FoundHit,
    Health,
    HitWord,
    Id,
    NewDocument,
    Ready,
    Reranked,
    RerankRequest,
    RerankResponse,
    SearchRequest,
    SearchResponse,
)  # fmt: skip
from clickvec.serve.service import Service

_DIGITS = 6  # of a score: all that a float32 has


def search(service: Service, call: Call) -> SearchResponse:
    """Search with one query or with many."""
    request: SearchRequest = call.body
    if (request.query is None) == (request.queries is None):
        raise RefusalError(422, "Give either query or queries.")
    limits = service.limits
    queries = [request.query] if request.query is not None else request.queries or []
    check_count("queries", queries, limits.queries)
    check_lengths("query", queries, limits.query_characters)
    check_count("facets", request.facets, limits.queries)
    check_count("facets in all queries", range(len(queries) * len(request.facets)), limits.hits)
    if request.explain:
        check_count("hits to explain", range(len(queries) * request.k), limits.queries)
    if request.highlight:
        check_count("hits to highlight", range(len(queries) * request.k), limits.queries)
    if request.explain and request.mode != "hybrid":
        raise RefusalError(422, f"explain needs the mode hybrid, and the mode is {request.mode}.")
    if request.offset + request.k > limits.hits:
        raise RefusalError(422, f"offset + k is {request.offset + request.k:,}; the limit is {limits.hits:,}.")
    check_count("hits in all queries", range(len(queries) * (request.offset + request.k)), limits.documents)
    deadline = time.monotonic() + limits.seconds
    options = (request.k, request.where, request.mode, request.offset, request.min_score)
    if request.query is not None:  # one query alone takes a faster path
        found = [service.index.search(request.query, *options)]
    else:
        found = service.index.search(queries, *options)
    if service.queries is not None:
        for query, hits in zip(queries, found, strict=True):
            count_search(service.queries, request, query, hits, call.browser)
    results = []
    for query, hits in zip(queries, found, strict=True):
        explanations = _explanations(service, query, hits, deadline) if request.explain else [UNSET] * len(hits)
        shown = [_hit(hit, explanation) for hit, explanation in zip(hits, explanations, strict=True)]
        if request.highlight:
            _highlight(service, query, shown, deadline)
        facets = _facets(service, query, request) if request.facets else UNSET
        results.append(Found(shown, facets, _corrected(service, query, request)))
    notes = _notes(service, request) if not any(found) else UNSET
    if request.query is None:
        return SearchResponse(results=results, notes=notes)
    return SearchResponse(results[0].hits, results[0].facets, results[0].corrected, notes=notes)


def _corrected(service: Service, query: str, request: SearchRequest) -> Any:  # noqa: ANN401
    if request.mode not in ("hybrid", "words"):
        return UNSET
    return {word: list(words) for word, words in service.index.corrections(query).items()} or UNSET


def _notes(service: Service, request: SearchRequest) -> Any:  # noqa: ANN401
    """Return why a filter matches no document at all."""
    condition = parse_filter(request.where)
    return (service.index.view().notes(condition) if condition else []) or UNSET


def _explanations(service: Service, query: str, hits: list[Hit], deadline: float) -> list[Any]:
    """Return the explanations of the hits. A hit that was deleted since the search has none."""

    def ids() -> Iterator[str | int]:
        for hit in hits:
            if time.monotonic() > deadline:
                raise RefusalError(504, "The explanations took too long; ask for fewer.")
            yield hit.id

    try:
        return [_explanation(explanation) for explanation in explain_hits(service.index, query, ids())]
    except ClickvecError:
        if all(service.index.get(hit.id) is not None for hit in hits):
            raise
        return [UNSET] * len(hits)


def _explanation(explanation: Explanation) -> ExplainResponse:
    return ExplainResponse(**explanation.as_json())


def _hit(hit: Hit, explanation: Any) -> FoundHit:  # noqa: ANN401
    return FoundHit(
        id=hit.id,
        title=hit.title,
        score=round(hit.score, _DIGITS),
        parts={name: round(value, _DIGITS) for name, value in hit.parts.items()},
        payload=UNSET if hit.payload is None else hit.payload,
        explanation=explanation,
    )


def _highlight(service: Service, query: str, hits: list[FoundHit], deadline: float) -> None:
    """Add the words of each hit, and what they contribute."""

    def titles() -> Iterator[str]:
        for hit in hits:
            if time.monotonic() > deadline:
                raise RefusalError(504, "Highlighting the hits took too long; ask for fewer.")
            yield hit.title

    for hit, words in zip(hits, highlight(service.index.view(), query, titles()), strict=True):
        hit.words = [HitWord(word.text, round(word.cosine, _DIGITS), round(word.bm25, _DIGITS)) for word in words]


def _facets(service: Service, query: str, request: SearchRequest) -> dict[str, list[FacetCount]]:
    counted = service.index.facets(
        query, request.facets, where=request.where, mode=request.mode, min_score=request.min_score
    )
    return {field: [FacetCount(*pair) for pair in facet.counts] for field, facet in counted.items()}


def rerank(service: Service, call: Call) -> RerankResponse:
    """Re-order the results of another search engine."""
    request: RerankRequest = call.body
    check_lengths("query", [request.query], service.limits.query_characters)
    check_count("documents", request.documents, service.limits.documents)
    titles = [document if isinstance(document, str) else document.title for document in request.documents]
    check_lengths("title", titles, service.limits.title_characters)
    scored = [None if isinstance(document, str) else document.score for document in request.documents]
    engine = [score for score in scored if score is not None]
    if engine and len(engine) < len(titles):
        raise RefusalError(422, f"{len(engine)} of {len(titles)} documents have a score; give one to all or to none.")
    scores = rerank_scores(service.index.encoder, request.query, titles, engine or None, request.weight).tolist()
    order = sorted(range(len(titles)), key=lambda place: -scores[place])[: request.k]
    rows = [(place, titles[place], round(scores[place], _DIGITS), _id(request.documents[place])) for place in order]
    return RerankResponse([Reranked(*row) for row in rows])


def _id(document: object) -> Any:  # noqa: ANN401
    value = getattr(document, "id", None)
    return UNSET if value is None else value


def explain(service: Service, call: Call) -> ExplainResponse:
    """Explain the score of a title for a query."""
    request: ExplainRequest = call.body
    if request.id is not None and request.title is not None:
        raise RefusalError(422, "Give either id or title.")
    check_lengths("query", [request.query], service.limits.query_characters)
    title: Id | None = request.title
    if title is not None:
        check_lengths("title", [str(title)], service.limits.title_characters)
    if request.id is not None:
        title = find(service, request.id).id
    if request.compare_with is not None:
        check_lengths("compare_with", [str(request.compare_with)], service.limits.title_characters)
    explanation = explain_pair(service.index, request.query, title, request.compare_with)
    answer = _explanation(explanation)
    if request.trace:
        answer.trace = traces(explanation.query_side.reading, explanation.title_side.reading)
    return answer


# --- documents ---------------------------------------------------------------------------------------------------


def find(service: Service, doc_id: Id) -> FoundDocument:
    """Return a document. Raise 404 if there is none with this id."""
    document = service.index.get(doc_id)
    if document is None:
        raise RefusalError(404, f"There is no document with the id {doc_id!r}.")
    return FoundDocument(
        id=document.id, title=document.title, payload=UNSET if document.payload is None else document.payload
    )


def get_document(service: Service, call: Call) -> FoundDocument:
    """Return a document by its id."""
    return find(service, call.parameters["id"])


def add_documents(service: Service, call: Call) -> DocumentsResponse:
    """Add documents, and replace those whose id is known."""
    request: DocumentsRequest = call.body
    _check_documents(service, request.documents)
    if request.documents:
        service.index.add(Document(document.id, document.title, document.payload) for document in request.documents)
    return DocumentsResponse(len(request.documents), len(service.index))


def update_documents(service: Service, call: Call) -> ChangesResponse:
    """Change fields of documents, and keep the others. Raise 404 and change nothing if an id is unknown."""
    request: ChangesRequest = call.body
    _check_documents(service, request.documents)
    try:
        if request.documents:
            service.index.update(Change(one.id, one.title or None, one.payload) for one in request.documents)
    except ClickvecError:
        for document in request.documents:
            find(service, document.id)
        raise
    return ChangesResponse(len(request.documents), len(service.index))


def _check_documents(service: Service, documents: Sequence[NewDocument | ChangedDocument]) -> None:
    """Raise unless the service may write documents, and these are within the limits."""
    check_writable(service)
    limits = service.limits
    check_count("documents", documents, limits.documents)
    check_lengths("title", [one.title for one in documents if one.title is not UNSET], limits.title_characters)
    check_lengths("id", [str(one.id) for one in documents], limits.query_characters)
    sizes = [0 if document.payload is None else len(json.encode(document.payload)) for document in documents]
    if sizes and (largest := max(sizes)) > limits.payload_bytes:
        raise RefusalError(422, f"A payload has {largest:,} bytes; the limit is {limits.payload_bytes:,}.")


def delete_document(service: Service, call: Call) -> DeleteResponse:
    """Delete a document by its id."""
    check_writable(service)
    found = find(service, call.parameters["id"])
    service.index.delete([found.id])
    return DeleteResponse(1, len(service.index))


def check_writable(service: Service) -> None:
    """Raise 403 if this service may not change the index."""
    if service.settings.read_only:
        raise RefusalError(403, service.settings.read_only)


# --- operations --------------------------------------------------------------------------------------------------


def healthz(service: Service, call: Call) -> Health:
    """Tell that the process answers."""
    return Health("ok")


def readyz(service: Service, call: Call) -> Ready:
    """Tell that the index can be searched. Raise 503 while the service stops."""
    if service.is_stopping:
        raise RefusalError(503, "The service is stopping.")
    return Ready("ready", len(service.index), service.index.encoder.fingerprint, service.is_writable)


def metrics(service: Service, call: Call) -> Text:
    """Return counts and latencies of all workers as Prometheus text."""
    view = service.index.view()
    gauges = {
        "clickvec_titles": ("Documents in the index.", float(len(service.index))),
        "clickvec_writable": ("1 if this service may change the index.", float(service.is_writable)),
    }
    if isinstance(view, View):  # an index in files
        gauges |= {
            "clickvec_segment_titles": ("Documents in the segment, deleted ones included.", float(len(view.segment))),
            "clickvec_delta_titles": ("Documents added since the segment was built.", float(len(view.delta))),
        }
    return Text(service.counters.text(gauges).encode(), b"text/plain; version=0.0.4; charset=utf-8")
