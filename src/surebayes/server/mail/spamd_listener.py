"""SPAMD listener, with one request per connection like spamd."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from surebayes.errors import exit_code
from surebayes.server.access import Grant, allows
from surebayes.server.limits import Refused, TooLarge, TooSlow
from surebayes.server.mail.connections import MailListener
from surebayes.server.mail.spamd import (
    MAX_HEAD,
    PONG,
    BadRequest,
    Request,
    answer,
    check_length,
    parse_head,
    refusal,
    split_head,
    tell_reply,
    unpacked,
)  # fmt: skip

LISTENER = "spamd"
PIECE = 1 << 16


class SpamdListener(MailListener):
    """Listener for SPAMD clients such as spamc."""

    async def _serve(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        service, failed = self.service, False
        with service.memory.hold() as take:
            try:
                grant = self.grant_of(writer)
                try:
                    async with asyncio.timeout(service.options.timeout):
                        request, message = await self._receive(task, reader, take)
                except TimeoutError:
                    raise TooSlow(f"No complete request within {service.options.timeout:g} s.") from None
                reply = await self._answer(request, message, grant, take)
            except asyncio.IncompleteReadError:
                return  # the client has disconnected, or sent nothing
            except Exception as error:
                service.failed(LISTENER, error)
                reply = refusal(error, error.code if isinstance(error, Refused) else exit_code(error))
                failed = True
            writer.write(reply)
            if writer.transport.get_write_buffer_size():  # the kernel didn't accept everything
                try:
                    async with asyncio.timeout(service.options.timeout):
                        await writer.drain()
                except TimeoutError:  # close() would wait until the client reads the rest
                    writer.transport.abort()
            if failed:
                await _rest(reader, writer)

    async def _receive(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, take: Callable[[int], None]
    ) -> tuple[Request, bytes]:
        request, data = await _read_head(reader)
        self.busy.add(task)
        if request.method in ("PING", "SKIP"):
            return request, b""
        return request, await _read_message(reader, request, data, take, self.service.options.max_size)

    async def _answer(self, request: Request, message: bytes, grant: Grant, take: Callable[[int], None]) -> bytes:
        if request.method == "PING":
            return PONG
        if request.method == "SKIP":
            return b""
        _check(grant, "teach" if request.method == "TELL" else "read")
        person = self._person(request, grant)
        if request.compressed:
            message = await self.service.gathered(unpacked(message, self.service.options.max_size), take)
        if request.method == "TELL":
            return await self._tell(request, message, grant.name or person, person)
        return answer(request, message, await self.service.judge_mail(message, LISTENER, person))

    def _person(self, request: Request, grant: Grant) -> str | None:
        """Return the person of a request; raise PermissionError if the grant is for another person."""
        named = self.service.recipient(request.user)
        if grant.person is not None and named not in (None, grant.person):
            raise PermissionError("This certificate is for another person.")
        return named or grant.person

    async def _tell(self, request: Request, message: bytes, who: str | None, person: str | None) -> bytes:
        if "local" in request.set and "local" in request.remove:
            raise BadRequest("Unable to set local and remove local in the same operation.")
        if "local" in request.set:
            if not request.message_class:
                raise BadRequest("(TELL with Set needs Message-class: spam or ham)")
            label = self.service.class_named(request.message_class)
            (outcome,) = await self.service.teach([message], label, LISTENER, who, person)
            return tell_reply(outcome != "already", False)
        if "local" in request.remove:
            (outcome,) = await self.service.forget([message], LISTENER, who, person)
            return tell_reply(False, outcome == "forgotten")
        return tell_reply(False, False)  # reports to other services are not supported


def _check(grant: Grant, role: str) -> None:
    if not allows(grant.role, role):
        raise PermissionError(f"This request needs the role {role}; the certificate has {grant.role}.")


async def _read_head(reader: asyncio.StreamReader) -> tuple[Request, bytearray]:
    """Read the head of a request; return it and the bytes after it."""
    data = bytearray()
    while (parts := split_head(bytes(data))) is None:
        if len(data) > MAX_HEAD:
            raise BadRequest("(the header is too long)")
        piece = await reader.read(PIECE)
        if not piece:
            if data.strip():
                raise BadRequest("(the header is truncated)")
            raise asyncio.IncompleteReadError(bytes(data), None)
        data += piece
    head, start = parts
    del data[:start]
    return parse_head(head), data


async def _read_message(
    reader: asyncio.StreamReader, request: Request, data: bytearray, take: Callable[[int], None], max_size: int
) -> bytes:
    """Read a message up to its declared length, or up to the end of the connection."""
    take(len(data))
    if request.length is not None and request.length > max_size:
        await _swallow(reader, request.length - len(data))
        raise TooLarge(f"The message of {request.length:,} bytes is larger than {max_size:,} bytes.")
    while request.length is None or len(data) < request.length:
        piece = await reader.read(PIECE)
        if not piece:
            break
        take(len(piece))
        data += piece
        if len(data) > max_size:
            await _swallow(reader, None)
            raise TooLarge(f"The message is larger than {max_size:,} bytes.")
    check_length(request, len(data))
    return bytes(data)


async def _swallow(reader: asyncio.StreamReader, size: int | None) -> None:
    """Read and discard the rest, because spamc doesn't read the reply before it has sent everything."""
    while size is None or size > 0:
        piece = await reader.read(PIECE)
        if not piece:
            return
        size = None if size is None else size - len(piece)


async def _rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait briefly for the client to close, because closing with unread bytes would discard the reply."""
    with contextlib.suppress(TimeoutError, OSError):
        if writer.can_write_eof():
            writer.write_eof()
        async with asyncio.timeout(0.5):
            await _swallow(reader, None)
