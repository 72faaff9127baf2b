"""Milter listener, which tags, quarantines, rejects or passes messages in transit through postfix or sendmail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from surebayes.filter.persons import person_named
from surebayes.filter.verdict import ascii_line
from surebayes.server.limits import Refused
from surebayes.server.mail import milter
from surebayes.server.mail.connections import MailListener
from surebayes.server.mail.milter import ACCEPT, CONTINUE, TEMPFAIL, BadPacket, IncomingMail, Terms, packet
from surebayes.server.marks import FORGED, fields_of
from surebayes.server.service import Judgement

LISTENER = "milter"
IDLE = 7210.0
"""Idle timeout in seconds, the same as in sendmail's library, since a connection lasts as long as an SMTP session."""

PIECE_COSTS = 128
"""Memory overhead in bytes of a header field or a piece of the body."""
MOST_BEFORE = 2**24
"""Maximum total size in bytes of the packets before a message, enough for about 100,000 recipients."""
NAME_BYTES = 1000
"""Maximum length in bytes of a recipient address that may name a person."""

_ACTIONS = {
    "tag": milter.ADD_HEADERS | milter.CHANGE_HEADERS,
    "quarantine": milter.ADD_HEADERS | milter.CHANGE_HEADERS | milter.QUARANTINE,
    "reject": milter.ADD_HEADERS | milter.CHANGE_HEADERS,
    "pass": 0,
}


class MilterListener(MailListener):
    """Listener for mail servers."""

    async def _serve(
        self, task: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            self.grant_of(writer)
            await _Connection(self, task, reader, writer).run()
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            return  # the mail server has disconnected
        except Exception as error:
            self.service.failed(LISTENER, error)


class _Connection:
    """A connection of a mail server, which may send several messages."""

    def __init__(
        self,
        listener: MilterListener,
        task: asyncio.Task[None],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.listener, self.task, self.reader, self.writer = listener, task, reader, writer
        self.service, self.options = listener.service, listener.service.options
        self.terms: Terms | None = None
        self.recipients: set[str] = set()
        self.refused: Refused | None = None

    async def run(self) -> None:
        is_open = True
        while is_open:
            with self.service.memory.hold() as take:
                is_open = await self._one_message(take)
            self.listener.busy.discard(self.task)

    async def _one_message(self, take: Callable[[int], None]) -> bool:
        """Process packets up to the end of a message; return whether the connection continues."""
        mail, self.refused = IncomingMail(), None
        started: float | None = None
        before = 0
        while True:
            letter, data = await self._receive(started)
            if started is None and letter in b"LNB":
                started = asyncio.get_running_loop().time()
            if started is None:
                before += len(data) + 5
                if before > MOST_BEFORE:
                    raise BadPacket(f"More than {MOST_BEFORE:,} bytes arrived before the message.")
            if letter == b"O":
                if self.terms is not None:
                    raise BadPacket("The mail server sent its offer twice.")
                self.terms, answer = milter.negotiate(
                    data, _ACTIONS[self.options.milter_action], self.service.layers is not None
                )
                await self._send(answer)
            elif self.terms is None:
                raise BadPacket("The mail server must send its offer first.")
            elif letter == b"Q":
                return False
            elif letter in (b"A", b"K"):
                self.recipients.clear()
                return True
            elif letter == b"E":
                self._keep(mail, data, take)
                await self._send(await self._verdict(mail))
                return True
            else:
                await self._step(mail, letter, data, take)

    async def _step(self, mail: IncomingMail, letter: bytes, data: bytes, take: Callable[[int], None]) -> None:
        assert self.terms is not None
        if letter == b"D":  # macros: no reply is expected
            return
        if letter == b"L":
            self.listener.busy.add(self.task)
            name, value = milter.header_of(data)
            self._keep(mail, b"%s: %s\r\n" % (name, value), take, name)
            if self.terms.replies_to_header:
                await self._send(packet(CONTINUE))
        elif letter == b"N":
            self._keep(mail, b"\r\n", take)
            if self.terms.replies_to_end_of_header:
                await self._send(packet(CONTINUE))
        elif letter == b"B":
            self._keep(mail, data, take)
            await self._send(packet(b"s" if mail.full and self.terms.may_skip else CONTINUE))
        elif letter in b"CHMRTU":
            if letter == b"M":
                self.recipients.clear()
            elif letter == b"R" and len(self.recipients) < 2:  # with more than one, all share a verdict
                self.recipients.add(milter.recipient_of(data[:NAME_BYTES]).lower())
            await self._send(packet(CONTINUE))
        else:
            raise BadPacket(f"Unknown command {letter!r}.")

    def _keep(self, mail: IncomingMail, piece: bytes, take: Callable[[int], None], name: bytes = b"") -> None:
        """Store a piece of a message, and the name of a forged field.

        If the memory limit is exceeded, the end of the message gets an error reply.
        """
        if self.refused is not None:
            return
        try:
            kept, is_forged = mail.add(piece, self.options.max_size), name.lower().startswith(FORGED)
            if kept or is_forged:
                take(PIECE_COSTS + kept + len(name))
            if is_forged:
                mail.forged.append(name)
        except Refused as error:
            self.refused = error
            mail.pieces.clear()
            mail.forged.clear()

    async def _verdict(self, mail: IncomingMail) -> bytes:
        """Return the reply packets for a message; after an error, the message is accepted or deferred."""
        try:
            if self.refused is not None:
                raise self.refused
            judgement = await self.service.judge_mail(bytes(mail), LISTENER, self._person())
        except Exception as error:
            self.service.failed(LISTENER, error)
            return packet(ACCEPT if self.options.milter_error == "accept" else TEMPFAIL)
        return self._done(mail, judgement)

    def _person(self) -> str | None:
        """Return the person of the only recipient; None, for the site's filter, if there are several."""
        recipients = list(self.recipients)
        self.recipients.clear()
        return person_named(recipients[0]) if len(recipients) == 1 and self.service.layers is not None else None

    def _done(self, mail: IncomingMail, judgement: Judgement) -> bytes:
        action = self.options.milter_action
        if action == "pass" or not judgement.cleans:
            return packet(ACCEPT)
        if action == "reject" and judgement.is_marked:
            return milter.reject(b"This message was classified as " + ascii_line(judgement.verdict.label))
        packets = mail.removals() + b"".join(milter.add_header(name, value) for name, value in fields_of(judgement))
        if action == "quarantine" and judgement.is_marked:
            packets += milter.quarantine(b"surebayes: " + ascii_line(judgement.verdict.label))
        return packets + packet(ACCEPT)

    async def _receive(self, started: float | None) -> tuple[bytes, bytes]:
        """Return the next packet; a message must be complete within the timeout of a request."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout_at(loop.time() + IDLE if started is None else started + self.options.timeout):
            length = milter.length_of(await self.reader.readexactly(4))
            body = await self.reader.readexactly(length)
        return body[:1], body[1:]

    async def _send(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(self.options.timeout):
            await self.writer.drain()
