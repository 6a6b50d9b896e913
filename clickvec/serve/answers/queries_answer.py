"""What GET /queries answers: what people searched since the service started, and which searches are counted."""

from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct

from clickvec.search.hits import Hit
from clickvec.search.parts.word_part import WORDS
from clickvec.serve.endpoint import Call
from clickvec.serve.limits import is_loopback
from clickvec.serve.query_counts import QueryCount, QueryCounts, most_frequent
from clickvec.serve.refusal import RefusalError
from clickvec.serve.schemas import SearchRequest
from clickvec.serve.service import Service

_LISTED = 100  # queries in each list
_FEW_HITS = 10  # fewer hits do not tell whether a title has the words of a query


class QueriesResponse(Struct):
    """What people searched. The counts are at most some seconds old."""

    since: Annotated[str, Meta(description="When the service started.")]
    searches: int
    clicks: Annotated[int, Meta(description="Clicks that were sent to /click. If there are none, none were sent.")]
    different: Annotated[int, Meta(description="Different queries.")]
    dropped: Annotated[int, Meta(description="Rare queries that were dropped because there were too many.")]
    frequent: list[QueryCount]
    without_results: Annotated[
        list[QueryCount], Meta(description="Queries that found nothing, or no title with one of their words.")
    ]
    without_clicks: list[QueryCount]


def queries(service: Service, call: Call) -> QueriesResponse:
    """Return what people searched since the service started."""
    if service.queries is None:
        raise RefusalError(404, _why_not(service))
    service.queries.copy()
    counts, dropped = service.queries.shared.all()
    searched = [count for count in counts if count.searches]
    missed = [count for count in searched if count.nothing or count.no_words]
    missed.sort(key=lambda count: (-count.nothing - count.no_words, -count.nothing))
    started = datetime.fromtimestamp(service.queries.shared.started, UTC)
    return QueriesResponse(
        since=started.isoformat(timespec="seconds"),
        searches=sum(count.searches for count in counts),
        clicks=sum(count.clicks for count in counts),
        different=len(searched),
        dropped=dropped,
        frequent=most_frequent(searched, _LISTED),
        without_results=missed[:_LISTED],
        without_clicks=most_frequent([count for count in searched if not count.clicks], _LISTED),
    )


def _why_not(service: Service) -> str:
    settings = service.settings
    if not settings.log_queries:
        return "This service does not keep queries; start it with --log-queries."
    if not is_loopback(settings.host) and not settings.write_keys:
        return "Other machines can reach this service, so it keeps queries only with --write-key-file."
    return "This service keeps queries only with --write-key-file, because nobody else may read them."


def count_search(counts: QueryCounts, request: SearchRequest, query: str, hits: list[Hit], browser: str) -> None:
    """Count a search, but not its further pages, nor the other modes that the page shows beside the hits."""
    if request.offset or (browser and request.mode != "hybrid"):
        return
    is_filtered = bool(request.where)  # then it is not the query that finds nothing
    is_few = request.k < _FEW_HITS  # of these, the best may all be found by vectors
    has_words = request.mode not in ("hybrid", "words") or is_few or any(hit.parts[WORDS.measure] for hit in hits)
    counts.search(query, bool(hits) or is_filtered, has_words or is_filtered, browser)
