"""The routes of the service, and what surrounds every request: host check, headers, errors, access log, counters."""

import json
import logging
import re
import time
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from itertools import groupby
from operator import attrgetter

from starlette.convertors import Convertor, register_url_convertor
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import clickvec
from clickvec.serve import schemas
from clickvec.serve.access_log import AccessLog
from clickvec.serve.answers import (
    about_answer,
    click_answer,
    index_answers,
    map_answer,
    model_answer,
    openai_shape,
    queries_answer,
    topics_answer,
    trial_answer,
)
from clickvec.serve.counters import OTHER
from clickvec.serve.endpoint import JSON, Call, Endpoint, PathEndpoint, Text, send_refusal
from clickvec.serve.limits import Limits, is_loopback
from clickvec.serve.openapi import describe
from clickvec.serve.page_files import FILE, PAGE_NAMES, Page
from clickvec.serve.refusal import RefusalError
from clickvec.serve.service import Service

log = logging.getLogger(__name__)
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/]+)(:\d*)?")
_CLIENT_CHARACTERS = 64  # of the client in the access log, which may be a header of a local program
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]


def _openapi(service: Service, call: Call) -> Text:
    """Return this description."""
    return Text(_description(service.limits), JSON)


@cache
def _description(limits: Limits) -> bytes:
    return json.dumps(describe(ENDPOINTS, limits, clickvec.__version__)).encode()


ENDPOINTS = (
    Endpoint("POST", "/search", index_answers.search, schemas.SearchRequest, response=schemas.SearchResponse),
    Endpoint("POST", "/rerank", index_answers.rerank, schemas.RerankRequest, response=schemas.RerankResponse),
    Endpoint("POST", "/explain", index_answers.explain, schemas.ExplainRequest, response=schemas.ExplainResponse),
    Endpoint("POST", "/try", trial_answer.try_title, trial_answer.TryRequest, response=trial_answer.TryResponse),
    Endpoint(
        "POST", "/documents", index_answers.add_documents, schemas.DocumentsRequest, "write", schemas.DocumentsResponse,
        "write",
    ),
    Endpoint(
        "PATCH", "/documents", index_answers.update_documents, schemas.ChangesRequest, "write", schemas.ChangesResponse,
        "write",
    ),
    Endpoint("GET", "/documents/{id}", index_answers.get_document, response=schemas.FoundDocument),
    Endpoint(
        "DELETE", "/documents/{id}", index_answers.delete_document, None, "write", schemas.DeleteResponse, "write"
    ),
    Endpoint("GET", "/about", about_answer.about, response=about_answer.AboutResponse, at="always"),
    Endpoint("GET", "/topics", topics_answer.cell_topics, response=topics_answer.TopicsResponse, at="study"),
    Endpoint("GET", "/topics/{dimension}", topics_answer.cell, response=topics_answer.CellResponse, at="study"),
    Endpoint("GET", "/model", model_answer.model, response=model_answer.ModelResponse),
    Endpoint("GET", "/queries", queries_answer.queries, None, "write", queries_answer.QueriesResponse),
    Endpoint("GET", "/map", map_answer.title_map, response=map_answer.MapResponse, at="study"),
    Endpoint(
        "POST", "/map/place", map_answer.place_on_map, map_answer.PlaceRequest, response=map_answer.PlaceResponse,
        at="study",
    ),
    Endpoint(
        "POST", "/v1/embeddings", openai_shape.embeddings, openai_shape.EmbeddingRequest,
        response=openai_shape.EmbeddingResponse,
    ),
    Endpoint("GET", "/v1/models", openai_shape.models, response=openai_shape.ModelsResponse, at="loop"),
    Endpoint("POST", "/click", click_answer.click, schemas.ClickRequest, response=schemas.ClickResponse, at="write"),
    Endpoint("GET", "/healthz", index_answers.healthz, None, "open", schemas.Health, "loop"),
    Endpoint("GET", "/readyz", index_answers.readyz, None, "open", schemas.Ready, "always"),
    Endpoint("GET", "/metrics", index_answers.metrics, at="always"),
    Endpoint("GET", "/openapi.json", _openapi, None, "open", dict, "loop"),
)  # fmt: skip
NAMES = (*PAGE_NAMES, *(endpoint.name for endpoint in ENDPOINTS))


class _TextConvertor(Convertor[str]):
    """Takes the rest of a path as it is, with slashes and line breaks."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("text", _TextConvertor())


class Application:
    """The ASGI application of one worker."""

    def __init__(self, service: Service, access_log: AccessLog) -> None:
        self._service, self._access_log = service, access_log
        by_path = {path: list(group) for path, group in groupby(ENDPOINTS, attrgetter("path"))}
        routes = [
            Route(path.replace("{id}", "{id:text}"), PathEndpoint(service, endpoints))
            for path, endpoints in by_path.items()
        ]
        page = Page()
        routes += [Route("/", page), Route(FILE, page)]
        app = _answer_refusals(Router(routes, redirect_slashes=False, default=_not_found))
        if service.settings.cors:
            app = CORSMiddleware(
                app, service.settings.cors, allow_methods=("GET", "POST", "PATCH", "DELETE"),
                allow_headers=("Authorization", "Content-Type"),
            )  # fmt: skip
        self._app = app
        self._host_names = {*LOOPBACK_NAMES, service.settings.host, *service.settings.host_names}
        self._checks_host = is_loopback(service.settings.host) or service.settings.host_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started, status, size = time.perf_counter(), 0, 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                known = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(head for head in _HEADERS if head[0] not in known)]
            else:
                size += len(message["body"])
            try:
                await send(message)
            except RuntimeError as error:
                if "closed" not in str(error):
                    raise
                raise ConnectionAbortedError from None  # the client has gone

        try:
            if self._checks_host:
                self._check_host(scope)
            await self._app(scope, receive, send_with_headers)
        except RefusalError as error:
            with suppress(ConnectionAbortedError):
                await send_refusal(send_with_headers, error)
        except ConnectionAbortedError:
            pass
        except MemoryError:
            log.error("%s failed: out of memory", scope.get("clickvec.endpoint", OTHER))
            if not status:
                await send_refusal(send_with_headers, RefusalError(503, "The service has no memory left for this."))
        except Exception:
            log.error("%s failed: %s", scope.get("clickvec.endpoint", OTHER), traceback.format_exc())
            if not status:
                await send_refusal(send_with_headers, RefusalError(500, "The service has a bug; its log tells where."))
        finally:
            seconds = time.perf_counter() - started
            name = scope.get("clickvec.endpoint", OTHER)
            self._service.counters.count(self._service.worker, name, status, seconds)
            queries = scope.get("clickvec.queries")
            self._access_log.write(
                time=datetime.now(UTC).isoformat(timespec="milliseconds"), method=scope["method"], endpoint=name,
                status=status, ms=round(1000 * seconds, 3), bytes=size, worker=self._service.worker,
                client=scope["client"][0][:_CLIENT_CHARACTERS] if scope["client"] else None,
                **({"queries": queries} if queries else {}),
            )  # fmt: skip

    def _check_host(self, scope: Scope) -> None:
        """Refuse other names than our own: a web page may make its name point to this machine (DNS rebinding)."""
        hosts = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
        found = _HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
        if found is None or found[1] not in self._host_names:
            raise RefusalError(
                421, "The Host header is not a name of this service; use localhost, or start it with --host-name NAME."
            )


def _answer_refusals(app: ASGIApp) -> ASGIApp:
    """Answer refusals inside of CORS, so that web pages that are let in can read them."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except RefusalError as error:
            await send_refusal(send, error)

    return answer


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    raise RefusalError(404, "There is no such path; /openapi.json lists all.")
