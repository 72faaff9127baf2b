"""uvicorn's protocol with bounds on the head of a request: its bytes, and the time that it may take."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from surebayes.server.http.problems import problem_response

MAX_HEAD = 65536
"""Bytes of request line and header fields."""


class _Gathered:
    """A transport that sends what is written in one turn of the event loop at once: head and body of an answer."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def write_eof(self) -> None:
        self._flush()
        self._transport.write_eof()

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose client must send each request's head in time and in bounds.

    uvicorn leaves a client that sends half a head alone for ever, and keeps every header field that comes.
    """

    head_seconds = 60.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time that the client has for its first request."""
        self._head_bytes = 0
        self._in_head = True
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self.transport = _Gathered(transport, self.loop)  # type: ignore[assignment]
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the timer go."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the head is whole."""
        if self._refused or self.parser is None:
            return
        if self._in_head:
            self._head_bytes += len(data)
            self._start_timer()
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD:
            self._refuse(431, f"The head of a request has at most {MAX_HEAD:,} bytes.")

    def on_headers_complete(self) -> None:
        """Stop the clock: from here on the body has limits of its own."""
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect the next head."""
        super().on_message_complete()
        self._in_head, self._head_bytes = True, 0

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if self._in_head and (self.cycle is None or self.cycle.response_complete):
            self._refuse(408, f"No whole request came within {self.head_seconds:g} s.")

    def _refuse(self, status: int, detail: str) -> None:
        """Answer why, and end a moment later: closing with bytes unread would take the answer away from the client."""
        self._refused = True
        self._stop_timer()
        if not self.transport.is_closing():
            self.transport.write(_raw(problem_response(status, detail, "Refused")))
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self._timer = self.loop.call_later(1.0, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        """Answer that it isn't HTTP, in the form of every other problem."""
        self._refuse(400, "This is no HTTP request.")


def _raw(answer: Any) -> bytes:
    """Return a response as bytes, for a request that no application has seen."""
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE

    fields = b"".join(b"%s: %s\r\n" % (name, value) for name, value in answer.raw_headers)
    return bytes(STATUS_LINE[answer.status_code] + fields + b"connection: close\r\n\r\n" + answer.body)
