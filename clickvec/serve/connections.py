"""Connections: headers must arrive in time and be small, and the number of connections is limited."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from clickvec.serve.limits import Limits


def protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """Return the protocol of connections with these limits."""

    class LimitedProtocol(HttpToolsProtocol):
        """One connection."""

        _header_timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None
        _header_bytes = 0
        _in_headers = True

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
            super().data_received(data)
            if self._in_headers and self._header_bytes > limits.header_bytes:
                self._refuse(b"431 Request Header Fields Too Large", b"headers_too_large", b"The headers are too long.")

        def pause_writing(self) -> None:
            """Wait for a client that does not read its answer, but not for ever."""
            super().pause_writing()
            self._write_timer = self.loop.call_later(limits.idle_seconds, self.transport.abort)

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

        def on_headers_complete(self) -> None:
            self._in_headers, self._header_bytes = False, 0
            self._stop_timer()
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._in_headers, self._header_bytes = True, 0
            super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
            self._refuse(b"400 Bad Request", b"bad_request", b"This is not a valid HTTP request.")

        def _wait_for_headers(self) -> None:
            self._header_timer = self.loop.call_later(limits.read_seconds, self._close_slow)

        def _close_slow(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._wait_for_headers()  # the answer to the request before must not be mixed with this one
                return
            self._refuse(b"408 Request Timeout", b"request_timeout", b"The headers did not arrive in time.")

        def _stop_timer(self) -> None:
            if self._header_timer is not None:
                self._header_timer.cancel()
                self._header_timer = None

        def _stop_write_timer(self) -> None:
            if self._write_timer is not None:
                self._write_timer.cancel()
                self._write_timer = None

        def _abort_soon(self) -> None:
            """Give a closed connection a second to send the rest. A client that reads nothing would keep it open."""
            self.loop.call_later(1.0, self.transport.abort)

        def _refuse(self, status: bytes, code: bytes, message: bytes) -> None:
            """Answer a request that has not become one, and close the connection."""
            self._stop_timer()
            if self.transport.is_closing():
                return
            content = b'{"error":{"code":"%s","message":"%s"}}' % (code, message)
            head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (status, len(content)) + content)
            self.transport.close()
            self._abort_soon()

    return LimitedProtocol
