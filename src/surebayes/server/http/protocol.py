"""uvicorn's protocol with limits on the size and the duration of a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from surebayes.server.address import is_unix
from surebayes.server.http.problems import problem_response
from surebayes.server.tls import names_in

MAX_HEAD = 65536
"""Maximum size in bytes of request line and header fields; of a chunk's size and extensions; and of trailers."""
MAX_WAITING = 64
"""Maximum number of pipelined requests before the first answer."""
CERTIFICATE = "certificate"
"""Key of the names in the client's certificate, in the state of a request."""
GRACE = 1.0
"""Delay of the protocol's timeout after that of the body's reader, in seconds."""


class _JoinedWrites:
    """A transport that joins the writes of one iteration of the event loop, such as head and body of an answer."""

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
    """A connection with limits on the size and the duration of each part of a request.

    Without them, uvicorn waits for the rest of a head without a timeout, keeps every header field and trailer,
    continues to read after it has answered a head, and queues any number of pipelined requests.
    """

    seconds = 60.0
    """Timeout for a head, and for a body that the application doesn't read."""
    most_body = 2**26
    """Largest body, in bytes; above the application's limit, so that the application can refuse it first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the first request."""
        self._in_head = True
        self._body = self._beside = self._since_body = 0
        self._refused = False
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._names = names_in(transport.get_extra_info("peercert"))
        if self.client is None and not is_unix(transport):  # without an address it would pass for a Unix socket
            transport.abort()
        self.transport = _JoinedWrites(transport, self.loop)  # type: ignore[assignment]
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_timer()
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of head, body and chunk framing."""
        if self._refused or self.parser is None:
            return
        self._beside += len(data)
        self._since_body += len(data)
        if self._in_head:
            self._start_timer()
        super().data_received(data)
        if self._refused:
            return
        if self._in_head:
            if self._beside > MAX_HEAD:
                self._refuse(431, f"The head of a request can have at most {MAX_HEAD:,} bytes.")
        elif self._body > self.most_body:
            self._refuse(413, f"The body is larger than {self.most_body:,} bytes.")
        elif self._since_body > MAX_HEAD or self._beside > 2 * MAX_HEAD + 8 * self._body:
            self._refuse(431, "The chunk headers and extensions of the body take too many bytes.")

    def on_message_begin(self) -> None:
        """Start the timer of a request, which may begin in the same bytes as the end of the previous one."""
        super().on_message_begin()
        if self._names:
            self.scope["state"][CERTIFICATE] = self._names
        self._start_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head; drop trailers."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Prepare for the body; if too many requests are pipelined, close the connection after the pending answers."""
        self._in_head = False
        self._body = self._beside = self._since_body = 0
        self._stop_timer()
        if self._refused:
            return
        if len(self.pipeline) >= MAX_WAITING:
            self._refused = True
            self.cycle.keep_alive = False
            return
        super().on_headers_complete()
        self._start_timer()

    def on_body(self, body: bytes) -> None:
        """Count a piece of the body."""
        if not self._refused:
            self._body += len(body)
            self._beside -= len(body)
            self._since_body = 0
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Expect the next head."""
        if not self._refused:
            self._stop_timer()
            super().on_message_complete()
            self._in_head = True
            self._body = self._beside = self._since_body = 0

    def pause_writing(self) -> None:
        """Start a timer, because the client isn't reading the answer."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop that timer."""
        self._stop_waiting()
        super().resume_writing()

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _start_timer(self) -> None:
        if self._timer is None and not self._refused:
            # a body that is read is timed by its reader, with a better answer: this timer is for an unread rest
            self._timer = self.loop.call_later(self.seconds + (0 if self._in_head else GRACE), self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        answering = self.cycle is not None and not self.cycle.response_complete
        if self.pipeline or (answering and self._in_head):
            self._start_timer()  # the server is slow, not the client
        else:
            self._refuse(408, f"No complete request arrived within {self.seconds:g} s.")

    def _refuse(self, status: int, detail: str) -> None:
        """Send an error and close a second later, because closing with unread bytes would discard the answer.

        If an answer has begun, or another one is pending, close without an error.
        """
        if self._refused:
            return
        self._refused = True
        self._stop_timer()
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or (self._in_head and cycle.response_complete):
            can_answer = True
        else:
            can_answer = not self._in_head and not self.pipeline and not cycle.response_started
            cycle.disconnected = True
            cycle.message_event.set()
        if not can_answer:
            self.transport.close()
        else:
            self.transport.write(_raw(problem_response(status, detail, "Refused")))
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self._timer = self.loop.call_later(1.0, self.transport.close)
        self._unread = self._unread or self.loop.call_later(2.0, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request, in the form of every other problem."""
        self._refuse(400, "This is not an HTTP request.")


def _raw(answer: Any) -> bytes:
    """Return a response as bytes, for a request that never reached the application."""
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE

    fields = b"".join(b"%s: %s\r\n" % (name, value) for name, value in answer.raw_headers)
    return bytes(STATUS_LINE[answer.status_code] + fields + b"connection: close\r\n\r\n" + answer.body)
