"""One endpoint: check the key, read and validate the body, do the work in a thread, send the answer."""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.types import Message, Receive, Scope, Send

from clickvec.errors import ClickvecError, UnavailableError, is_disk_full
from clickvec.serve.limits import Settings, is_loopback
from clickvec.serve.refusal import RefusalError
from clickvec.serve.schemas import ErrorBody, ErrorResponse, Pending
from clickvec.serve.service import STUDIES, Service

log = logging.getLogger(__name__)
Access = Literal["open", "read", "write"]
JSON = b"application/json"
_BODIES = 64 * 2**20  # bytes of all bodies that a worker has at once; as Python objects they take ten times as much
_DRAIN_SECONDS, _DRAIN_BYTES = 1.0, 64 * 2**20  # of a body that is too large, so that the client reads the answer
_to_json = msgspec.json.Encoder().encode


class Call(NamedTuple):
    """One request."""

    body: Any  # as its type
    parameters: dict[str, str]  # of the path
    browser: str = ""  # the address of a browser; programs send no Origin header
    may_write: bool = False  # whether the request has a key for writing, or only this machine can send it


class Text(NamedTuple):
    """An answer that is not JSON."""

    content: bytes
    content_type: bytes
    status: int = 200


class Endpoint(NamedTuple):
    """What answers one method of one path."""

    method: str
    path: str
    answer: Callable[[Service, Call], Any]  # runs in a thread; returns what is sent as JSON, or Text
    body: type[Any] | None = None
    access: Access = "read"
    response: type[Any] | None = None  # for OpenAPI
    # What answers: the event loop, a thread that searches or writes, one that is free even if the service is busy, or
    # one for answers that take seconds to compute and are then remembered.
    at: Literal["loop", "search", "write", "always", "study"] = "search"

    @property
    def name(self) -> str:
        """The method and the path."""
        return f"{self.method} {self.path}"


class PathEndpoint:
    """The endpoints of one path, by method, as an ASGI application."""

    def __init__(self, service: Service, endpoints: list[Endpoint]) -> None:
        self._service = service
        self.by_method = {endpoint.method: endpoint for endpoint in endpoints}
        self._decoders = {
            endpoint.method: msgspec.json.Decoder(endpoint.body) for endpoint in endpoints if endpoint.body
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or raise RefusalError."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self.by_method.get(method)
        if endpoint is None:
            allowed = ", ".join(sorted({*self.by_method, *(["HEAD"] if "GET" in self.by_method else [])}))
            message = f"{scope['path']} does not support {method}; use {allowed}."
            raise RefusalError(405, message, ((b"allow", allowed.encode()),))
        scope["clickvec.endpoint"] = endpoint.name
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization")
        check_key(self._service, endpoint.access, authorization)
        parameters = scope["path_params"]
        if parameters and b"%" in scope["raw_path"]:
            check_utf8(scope["raw_path"])
        data = b"" if endpoint.body is None else await read_body(self._service, headers, receive)
        self._service.body_bytes += len(data)
        try:
            body = None if endpoint.body is None else decode(self._decoders[method], data)
            if self._service.settings.log_queries:
                query = getattr(body, "query", None)
                scope["clickvec.queries"] = [query] if query is not None else getattr(body, "queries", None)
            browser = scope["client"][0] if b"origin" in headers and scope["client"] else ""
            call = Call(body, parameters, browser, may_write(self._service.settings, authorization))
            answer = await self._run(endpoint, call)
        finally:
            self._service.body_bytes -= len(data)
        await send_answer(send, answer.status, answer.content, answer.content_type)

    async def _run(self, endpoint: Endpoint, call: Call) -> Text:
        service = self._service
        if endpoint.at == "loop":
            return _work(service, endpoint, call)
        if endpoint.at == "always":
            return await asyncio.get_running_loop().run_in_executor(service.operating, _work, service, endpoint, call)
        if endpoint.at == "study":
            return await self._study(endpoint, call)
        if not service.enter():
            raise too_many(service.limits.concurrent)
        pool: ThreadPoolExecutor = service.writing if endpoint.at == "write" else service.searching
        future: Future[Text] = pool.submit(_work_and_leave, service, endpoint, call)
        try:
            async with asyncio.timeout(service.limits.seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            unknown = " The change may still be carried out." if endpoint.at == "write" else ""
            raise RefusalError(504, f"The request took over {service.limits.seconds:g} s.{unknown}") from None
        finally:
            if future.cancel():  # it had not started, so it will not count itself
                service.leave()

    async def _study(self, endpoint: Endpoint, call: Call) -> Text:
        """Wait for an answer that takes long. If that takes too long, the work goes on for those who ask again."""
        service = self._service
        if not service.studies.acquire(blocking=False):
            raise too_many(STUDIES)
        future = service.studying.submit(_work, service, endpoint, call)
        future.add_done_callback(lambda _: service.studies.release())
        try:
            async with asyncio.timeout(service.limits.seconds):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            return Text(_to_json(Pending()), JSON, 202)


def _work_and_leave(service: Service, endpoint: Endpoint, call: Call) -> Text:
    try:
        return _work(service, endpoint, call)
    finally:
        service.leave()


def _work(service: Service, endpoint: Endpoint, call: Call) -> Text:
    try:
        answer = endpoint.answer(service, call)
    except RefusalError as error:
        error.message = without_paths(error.message, service.settings, call)
        raise
    except (ClickvecError, OSError, sqlite3.Error) as error:
        if not _is_unavailable(error):
            raise RefusalError(422, without_paths(_sentence(str(error)), service.settings, call)) from error
        log.error("%s failed: %s", endpoint.name, error)
        reason = "its disk is full" if is_disk_full(error) else "its log tells why"
        raise RefusalError(503, f"The service cannot do this now; {reason}.") from error
    return answer if isinstance(answer, Text) else Text(to_json(answer), JSON)


def to_json(answer: object) -> bytes:
    """Return an answer as JSON. Half of a surrogate pair, which a title can have and UTF-8 cannot, becomes "?"."""
    try:
        return _to_json(answer)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(answer), ensure_ascii=False).encode("utf-8", "replace")


def _is_unavailable(error: BaseException) -> bool:
    """Return whether an error, or what it comes from, is not the fault of the request."""
    if isinstance(error, UnavailableError | OSError | sqlite3.Error):
        return True
    return error.__context__ is not None and _is_unavailable(error.__context__)


def without_paths(text: str, settings: Settings, call: Call) -> str:
    """Return what is told to a client without the folders of this machine, unless its request has named them."""
    sent = f"{call.body} {call.parameters}"
    for path in _server_paths(settings):
        if path in text and path not in sent:
            text = text.replace(path, path.rpartition("/")[2])
    return text


@cache
def _server_paths(settings: Settings) -> list[str]:
    """Return the paths of the service's files and of the folders that they are in, the longest first."""
    given = [path for path in (settings.index, settings.click_log, settings.about, settings.access_log) if path]
    absolute = [path.resolve() for path in given] + [path.absolute() for path in given]
    folders = {str(path) for path in given} | {str(part) for path in absolute for part in (path, *path.parents)}
    return sorted((path for path in folders if "/" in path and path != "/"), key=len, reverse=True)


def _sentence(text: str) -> str:
    """Return a message as a sentence, unless it begins with a name such as where.price."""
    begins_with_word = text.partition(" ")[0].isalpha()
    return (text[:1].upper() + text[1:] if begins_with_word else text).removesuffix(".") + "."


def too_many(limit: int) -> RefusalError:
    """Return the error for a service that is busy."""
    return RefusalError(429, f"The service is busy with {limit} requests; try again.", ((b"retry-after", b"1"),))


def check_key(service: Service, access: Access, header: bytes | None) -> None:
    """Raise unless the request has a key for this access. A key for writing may read."""
    settings = service.settings
    if access == "open" or (access == "read" and not settings.read_keys):
        return
    if access == "write" and not settings.write_keys:
        if settings.read_keys:
            raise RefusalError(403, "This service has no key for writing; start it with --write-key-file.")
        return
    key = _bearer(header)
    if not key:
        raise RefusalError(
            401,
            "This needs an API key; send the header Authorization: Bearer KEY.",
            ((b"www-authenticate", b"Bearer"),),
        )
    may_write, may_read = key in settings.write_keys, key in settings.read_keys  # both, so that the time is the same
    if not (may_write or may_read):
        raise RefusalError(401, "The API key is not valid.", ((b"www-authenticate", b'Bearer error="invalid_token"'),))
    if access == "write" and not may_write:
        raise RefusalError(403, "This API key may only read; use a key for writing.")


def may_write(settings: Settings, header: bytes | None) -> bool:
    """Tell whether a request has a key for writing. Without any keys, only this machine must be able to send it."""
    if settings.write_keys:
        return _bearer(header) in settings.write_keys
    return is_loopback(settings.host) and not settings.read_keys


def _bearer(header: bytes | None) -> str:
    """Return the key that a request has, or nothing."""
    scheme, _, key = (header or b"").decode("latin-1").partition(" ")
    return key if scheme.lower() == "bearer" else ""


def check_utf8(path: bytes) -> None:
    """Raise if a path has bytes that are no text. They would all stand for the same character."""
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise RefusalError(400, "The path is not UTF-8.") from None


async def read_body(service: Service, headers: dict[bytes, bytes], receive: Receive) -> bytes:
    """Return the body. Raise if it is not JSON by its header, too large, or too slow."""
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != JSON:
        raise RefusalError(415, "The body must be JSON; send the header Content-Type: application/json.")
    limit, declared = service.limits.body_bytes, headers.get(b"content-length", b"0")
    too_large = RefusalError(413, f"The body is over {limit:,} bytes; send less at once.", ((b"connection", b"close"),))
    if declared.isdigit() and int(declared) > limit:
        if b"expect" not in headers:
            await _drain(receive)
        raise too_large
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(service.limits.read_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RefusalError(400, "The connection was closed before the end of the body.")
                chunk = message.get("body", b"")
                size += len(chunk)
                service.body_bytes += len(chunk)
                chunks.append(chunk)
                if size > limit:
                    chunks.clear()
                    await _drain(receive)
                    raise too_large
                if service.body_bytes > _BODIES:
                    raise too_many(service.limits.concurrent)
                if not message.get("more_body"):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    except TimeoutError:
        message_408 = f"The body did not arrive within {service.limits.read_seconds:g} s."
        raise RefusalError(408, message_408, ((b"connection", b"close"),)) from None
    finally:
        service.body_bytes -= size


async def _drain(receive: Receive) -> None:
    """Read and drop what the client sends, within bounds: it may read the answer only after it has sent everything."""
    size = 0
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while size < _DRAIN_BYTES:
                message: Message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return


def decode(decoder: "msgspec.json.Decoder[Any]", data: bytes) -> Any:  # noqa: ANN401
    """Return the body as its type. Raise 400 if it is not JSON, 422 if it is not what the endpoint expects."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise RefusalError(422, f"The body does not fit: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusalError(400, f"The body is not valid JSON: {error}.") from None
    except RecursionError:
        raise RefusalError(400, "The JSON of the body is nested too deeply.") from None


async def send_answer(
    send: Send, status: int, content: bytes, kind: bytes = JSON, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    """Send a response."""
    head = [(b"content-type", kind), (b"content-length", b"%d" % len(content)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": content})


async def send_refusal(send: Send, error: RefusalError) -> None:
    """Send an error as JSON."""
    content = _to_json(ErrorResponse(ErrorBody(error.code, error.message)))
    await send_answer(send, error.status, content, JSON, error.headers)
