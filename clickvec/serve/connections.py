"""Connections: what arrives must arrive in time and be small, answers must be read, and connections are limited."""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clickvec.serve.limits import Limits

_UNREAD = 256 * 2**20  # bytes of all answers that wait until their clients read them


def protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """Return the protocol of connections with these limits."""
    unread: dict[HttpToolsProtocol, int] = {}  # bytes of answers that wait, those that wait longest first

    class LimitedProtocol(HttpToolsProtocol):
        """One connection."""

        _header_timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None
        _header_bytes = 0  # of the headers that arrive
        _framing_bytes = 0  # around the body that arrives: sizes of chunks, their extensions, trailers
        _in_headers = True
        _asks_upgrade = False
        _farewell = b""  # the last answer, after those to requests that still run

        def connection_made(self, transport: Any) -> None:  # noqa: ANN401
            super().connection_made(transport)
            self._wait_for_headers()
            if len(self.connections) > limits.connections:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            self._stop_write_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._in_headers:
                self._header_bytes += len(data)
                if self._header_timer is None:
                    self._wait_for_headers()
            else:
                self._framing_bytes += len(data)
            self._unset_keepalive_if_required()
            try:
                self._feed(data)
            except httptools.HttpParserError:
                self._refuse(b"400 Bad Request", b"bad_request", b"This is not a valid HTTP request.")
            if self._header_bytes > limits.header_bytes or self._framing_bytes > limits.body_bytes:
                self._refuse(b"431 Request Header Fields Too Large", b"headers_too_large", b"The headers are too long.")

        def _feed(self, data: bytes) -> None:
            """Parse data. Read a request that asks for another protocol, such as h2c, again without that header."""
            while True:
                try:
                    self.parser.feed_data(data)
                except httptools.HttpParserUpgrade as upgrade:
                    if not self._asks_upgrade:
                        raise httptools.HttpParserError("CONNECT") from None
                    self._asks_upgrade = False
                    start = self.parser.get_method(), self.url, self.parser.get_http_version().encode()
                    kept = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
                    data = b"%b %b HTTP/%b\r\n%b\r\n" % (*start, b"".join(kept)) + data[upgrade.args[0] :]
                    self.parser = httptools.HttpRequestParser(self)
                else:
                    return

        def pause_writing(self) -> None:
            """Wait for a client that does not read its answer, but not for ever, and not for too many of them."""
            super().pause_writing()
            self._write_timer = self.loop.call_later(limits.idle_seconds, self.transport.abort)
            unread[self] = self.transport.get_write_buffer_size()
            while len(unread) > 1 and sum(unread.values()) > _UNREAD:
                slowest = next(iter(unread))
                del unread[slowest]
                slowest.transport.abort()

        def resume_writing(self) -> None:
            self._stop_write_timer()
            super().resume_writing()

        def timeout_keep_alive_handler(self) -> None:
            super().timeout_keep_alive_handler()
            self._abort_soon()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            if self._header_timer is None:  # a request that began in the packet of the one before
                self._wait_for_headers()

        def on_header(self, name: bytes, value: bytes) -> None:
            if self._in_headers:  # else it is a trailer, which must not pass as a header
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
                self._asks_upgrade = True
                return
            self._in_headers, self._header_bytes, self._framing_bytes = False, 0, 0
            self._stop_timer()
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._framing_bytes -= len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            if self._asks_upgrade:
                return
            self._in_headers, self._header_bytes, self._framing_bytes = True, 0, 0
            self._stop_timer()
            super().on_message_complete()
            if self.cycle.response_complete:  # before the end of the body; uvicorn now waits for ever
                self._unset_keepalive_if_required()
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self.cycle.response_complete and not self.transport.is_closing():
                if self._farewell:
                    self._close_with(self._farewell)
                elif not self._in_headers:  # a body that nobody reads must not keep the connection open
                    self._wait_for_headers()

        def _wait_for_headers(self) -> None:
            self._header_timer = self.loop.call_later(limits.read_seconds, self._close_slow)

        def _close_slow(self) -> None:
            if not self._in_headers:
                self.transport.abort()
                return
            self._refuse(b"408 Request Timeout", b"request_timeout", b"The headers did not arrive in time.")

        def _stop_timer(self) -> None:
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None

        def _stop_write_timer(self) -> None:
            unread.pop(self, None)
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

        def _abort_soon(self) -> None:
            """Give a closed connection a second to send the rest. A client that reads nothing would keep it open."""
            self.loop.call_later(1.0, self.transport.abort)

        def _refuse(self, status: bytes, code: bytes, message: bytes) -> None:
            """Answer a request that has not become one, after those before it, and close the connection."""
            self._stop_timer()
            if self.transport.is_closing() or self._farewell:
                return
            content = b'{"error":{"code":"%s","message":"%s"}}' % (code, message)
            head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self._farewell = head % (status, len(content)) + content
            if not self._in_headers or self.cycle is None or self.cycle.response_complete:
                self._close_with(self._farewell)

        def _close_with(self, answer: bytes) -> None:
            self.transport.write(answer)
            self.transport.close()
            self._abort_soon()

    return LimitedProtocol
