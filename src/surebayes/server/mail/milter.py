"""Packets of the milter protocol of sendmail and postfix, up to version 6.

A packet consists of its length in four bytes, a letter, and data. Input and output are in `milter_listener`.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field

from surebayes.errors import SurebayesError

MAX_PACKET = 1 << 20
"""Maximum size of a packet in bytes; mail servers send pieces of at most 64 kB."""

# modifications that a filter may request
ADD_HEADERS, CHANGE_HEADERS, QUARANTINE = 0x01, 0x10, 0x20
# steps that a mail server may omit, or need not wait for
NO_CONNECT, NO_HELO, NO_MAIL, NO_RECIPIENT, NO_UNKNOWN, NO_DATA = 0x01, 0x02, 0x04, 0x08, 0x100, 0x200
SKIP, NO_REPLY_TO_HEADER, NO_REPLY_TO_END_OF_HEADER = 0x400, 0x80, 0x40000

NOT_NEEDED = NO_CONNECT | NO_HELO | NO_MAIL | NO_RECIPIENT | NO_UNKNOWN | NO_DATA
WISHES = NOT_NEEDED | SKIP | NO_REPLY_TO_HEADER | NO_REPLY_TO_END_OF_HEADER

CONTINUE, ACCEPT, TEMPFAIL = b"c", b"a", b"t"


class BadPacket(SurebayesError):
    """Invalid data from a mail server."""


def packet(letter: bytes, data: bytes = b"") -> bytes:
    r"""Return a packet.

    Examples
    --------
    >>> packet(b"c")
    b'\x00\x00\x00\x01c'
    """
    return struct.pack("!I", 1 + len(data)) + letter + data


def length_of(start: bytes) -> int:
    """Return the number of bytes that follow the length of a packet."""
    (length,) = struct.unpack("!I", start)
    if not 1 <= length <= MAX_PACKET:
        raise BadPacket(f"A packet must have 1 to {MAX_PACKET:,} bytes. Got {length:,}.")
    return int(length)


@dataclass(frozen=True, slots=True)
class Terms:
    """The result of the negotiation with a mail server.

    Attributes
    ----------
    version : int
        Protocol version.
    actions : int
        Permitted modifications.
    steps : int
        Protocol steps that the mail server omits, and those without a reply.
    """

    version: int
    actions: int
    steps: int

    @property
    def replies_to_header(self) -> bool:
        """Whether the mail server waits after every header field."""
        return not self.steps & NO_REPLY_TO_HEADER

    @property
    def replies_to_end_of_header(self) -> bool:
        """Whether the mail server waits at the end of the header."""
        return not self.steps & NO_REPLY_TO_END_OF_HEADER

    @property
    def may_skip(self) -> bool:
        """Whether the rest of a body need not be sent."""
        return bool(self.steps & SKIP)


def negotiate(data: bytes, actions: int, recipients: bool = False) -> tuple[Terms, bytes]:
    """Return the terms for a mail server's offer and the required actions, and the reply packet.

    With `recipients`, the mail server is asked to send the recipients of each message.
    """
    if len(data) < 12:
        raise BadPacket("The offer of the mail server is truncated.")
    version, offered, steps = struct.unpack("!III", data[:12])
    if version < 2:
        raise BadPacket(f"The protocol version must be 2 to 6. Got {version}.")
    if actions & ~offered:
        raise BadPacket(
            f"The mail server does not allow the actions that this filter needs: {actions:#x} of {offered:#x}."
        )
    wishes = WISHES & ~(NO_MAIL | NO_RECIPIENT) if recipients else WISHES
    terms = Terms(min(version, 6), actions, steps & wishes)
    return terms, packet(b"O", struct.pack("!III", terms.version, terms.actions, terms.steps))


def recipient_of(data: bytes) -> str:
    r"""Return the address of a recipient packet, without its angle brackets.

    Examples
    --------
    >>> recipient_of(b"<Ann@example.org>\x00NOTIFY=NEVER\x00")
    'Ann@example.org'
    """
    return data.partition(b"\0")[0].strip().removeprefix(b"<").removesuffix(b">").decode("utf-8", "replace")


def header_of(data: bytes) -> tuple[bytes, bytes]:
    r"""Return name and value of a header packet.

    Examples
    --------
    >>> header_of(b"Subject\x00lunch?\x00")
    (b'Subject', b'lunch?')
    """
    parts = data.split(b"\0")
    if len(parts) != 3 or parts[2] or not parts[0]:
        raise BadPacket("A header field must have a name and a value.")
    return parts[0], parts[1]


def add_header(name: bytes, value: bytes) -> bytes:
    """Return the packet that adds a header field."""
    return packet(b"h", name + b"\0" + value + b"\0")


def remove_header(name: bytes, index: int) -> bytes:
    """Return the packet that removes the n-th header field with a name; `index` starts at 1."""
    return packet(b"m", struct.pack("!I", index) + name + b"\0\0")


def quarantine(reason: bytes) -> bytes:
    """Return the packet that quarantines a message."""
    return packet(b"q", reason + b"\0")


def reject(reason: bytes) -> bytes:
    """Return the packet that rejects a message."""
    return packet(b"y", b"550 5.7.1 " + reason.replace(b"%", b"%%") + b"\0")


@dataclass(slots=True)
class IncomingMail:
    """An incoming message, stored up to a size limit.

    Attributes
    ----------
    pieces : list of bytes
        Header fields, then pieces of the body.
    forged : list of bytes
        Names of all forged fields in order of appearance, even beyond the limit.
    full : bool
        Whether the limit is reached and later pieces are dropped.
    """

    pieces: list[bytes] = field(default_factory=list)
    forged: list[bytes] = field(default_factory=list)
    size: int = 0
    full: bool = False

    def add(self, piece: bytes, limit: int) -> int:
        """Store a piece as far as the limit allows; return the number of stored bytes."""
        taken = piece[: max(limit - self.size, 0)]
        self.full = self.full or len(taken) < len(piece)
        if taken:
            self.size += len(taken)
            self.pieces.append(taken)
        return len(taken)

    def removals(self) -> bytes:
        """Return the packets that remove forged fields, last first, because removals renumber later fields."""
        packets, counts = [], Counter[bytes]()
        for name in self.forged:
            counts[name.lower()] += 1
            packets.append(remove_header(name, counts[name.lower()]))
        return b"".join(reversed(packets))

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)
