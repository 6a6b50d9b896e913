"""What POST /click answers: it logs what a user saw and clicked."""

from clickvec.serve.click_log import Impression
from clickvec.serve.endpoint import Call
from clickvec.serve.refusal import RefusalError, check_count, check_lengths
from clickvec.serve.schemas import ClickRequest, ClickResponse, Shown
from clickvec.serve.service import Service


def click(service: Service, call: Call) -> ClickResponse:
    """Log what a user saw and clicked."""
    request: ClickRequest = call.body
    check_lengths("query", [request.query], service.limits.query_characters)
    if not request.query.strip():
        raise RefusalError(422, "The query is blank.")
    if not request.shown and not request.clicked:
        raise RefusalError(422, "Give what was shown, what was clicked, or both.")
    check_count("shown", request.shown, service.limits.hits)
    check_count("clicked", request.clicked, service.limits.hits)
    clicked = {str(doc_id) for doc_id in request.clicked}
    shown = [hit if isinstance(hit, Shown) else Shown(id=hit) for hit in request.shown]
    positions = dict[str, int]()
    for place, hit in enumerate(shown, 1):
        positions.setdefault(str(hit.id), hit.position or place)
    impressions, unknown = [], []
    for doc_id in dict.fromkeys([*positions, *map(str, request.clicked)]):
        document = service.index.get(doc_id)
        if document is None:
            unknown.append(doc_id)
        elif document.title.strip():
            impressions.append(
                Impression(
                    request.query, doc_id, document.title, positions.get(doc_id), int(doc_id in clicked), request.client
                )
            )
    if impressions:
        service.click_log.append(impressions)
    if service.queries is not None and request.clicked:
        service.queries.click(request.query)
    return ClickResponse(len(impressions), list(unknown))
