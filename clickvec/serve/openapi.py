"""The description of the API (OpenAPI 3.1), made from the endpoints and their types."""

from collections.abc import Sequence
from typing import Any

import msgspec

from clickvec.serve.endpoint import Endpoint
from clickvec.serve.limits import Limits
from clickvec.serve.schemas import ErrorResponse, Pending

_REFUSALS = {
    400: "The body is not JSON, or the path is not UTF-8.",
    401: "There is no valid API key.",
    403: "The key, or the service, may only read.",
    404: "There is no such document or path.",
    405: "The path does not support the method.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    421: "The Host header is not a name of this service.",
    422: "The request does not fit, or exceeds a limit.",
    429: "The service is busy.",
    503: "The service cannot do this now.",
    504: "The request took too long.",
}

_PARAMETERS = {"id": {"type": "string", "minLength": 1}, "dimension": {"type": "integer", "minimum": 0}}


def describe(endpoints: Sequence[Endpoint], limits: Limits, version: str) -> dict[str, Any]:
    """Return the description, with the limits of this service."""
    types: list[Any] = [ErrorResponse, Pending]
    types += [kind for endpoint in endpoints for kind in (endpoint.body, endpoint.response) if kind is not None]
    refs, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    names = dict(zip(types, refs, strict=True))
    _add_limits(components, limits)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, names)
    return {
        "openapi": "3.1.0",
        "info": {"title": "clickvec", "version": version, "description": "Search by words and vectors, explained."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, names: dict[Any, Any]) -> dict[str, Any]:
    summary = (endpoint.answer.__doc__ or "").partition("\n")[0]
    kind = "application/json" if endpoint.response is not None else "text/plain"
    schema = names.get(endpoint.response, {"type": "string"})
    refused = {401, 403, 404, 405, 421, 422, 429, 503, 504} | (
        {400, 408, 413, 415} if endpoint.body is not None else set()
    )
    error = {"application/json": {"schema": names[ErrorResponse]}}
    operation: dict[str, Any] = {
        "summary": summary,
        "operationId": endpoint.answer.__name__,
        "responses": {
            "200": {"description": "Done.", "content": {kind: {"schema": schema}}},
            **{str(status): {"description": _REFUSALS[status], "content": error} for status in sorted(refused)},
        },
        "security": [] if endpoint.access == "open" else [{"key": []}, {}],
    }
    if endpoint.at == "study":
        about = "The answer is still being computed; ask again."
        operation["responses"]["202"] = {"description": about, "content": {kind: {"schema": names[Pending]}}}
    if endpoint.body is not None:
        content = {"application/json": {"schema": names[endpoint.body]}}
        operation["requestBody"] = {"required": True, "content": content}
    if "{" in endpoint.path:
        name = endpoint.path.partition("{")[2].removesuffix("}")
        operation["responses"]["400"] = {"description": _REFUSALS[400], "content": error}
        operation["parameters"] = [{"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]}]
    return operation


def _add_limits(components: dict[str, Any], limits: Limits) -> None:
    """Add the limits of this service to the schemas."""
    for schema, field, rule, limit in (
        ("SearchRequest", "k", "maximum", limits.hits),
        ("SearchRequest", "offset", "maximum", limits.hits - 1),
        ("SearchRequest", "queries", "maxItems", limits.queries),
        ("SearchRequest", "query", "maxLength", limits.query_characters),
        ("RerankRequest", "query", "maxLength", limits.query_characters),
        ("RerankRequest", "documents", "maxItems", limits.documents),
        ("ExplainRequest", "query", "maxLength", limits.query_characters),
        ("TryRequest", "query", "maxLength", limits.query_characters),
        ("TryRequest", "title", "maxLength", limits.title_characters),
        ("PlaceRequest", "text", "maxLength", limits.query_characters),
        ("ClickRequest", "query", "maxLength", limits.query_characters),
        ("DocumentsRequest", "documents", "maxItems", limits.documents),
        ("NewDocument", "title", "maxLength", limits.title_characters),
        ("ChangesRequest", "documents", "maxItems", limits.documents),
    ):
        components[schema]["properties"][field][rule] = limit
