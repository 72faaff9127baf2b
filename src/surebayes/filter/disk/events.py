"""Rows of the journal: what happened, with a checksum of each and a running one over all of them."""

from __future__ import annotations

from binascii import crc32

from surebayes.kernels import kernel

TYPE_CHECKING = False  # typing and dataclasses cost more than half of a lesson by command
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


Row = tuple["Any", ...]
"""A row as the journal's table has it: columns in its order, a source of 0 for none."""


class Event:
    """One row of the journal.

    Attributes
    ----------
    action : {"learn", "forget", "reserve", "release", "judged", "unjudged", "settings", "stage", "bulk", "mark", ...}
        What happened.
    fingerprint, label : str or None
        The message, and its label.
    source : int or None
        The row that holds the message, if not this one.
    time : float
        When, in seconds since 1970.
    who : str or None
        Who said so.
    body : bytes
        The message as `surebayes.filter.disk.bodies` writes it, settings as JSON, or second stages.
    seq : int
        The row's number: 1, 2, 3, ...
    reader : int or None
        The version of the reader of the message's content; None where the body holds columns, or no message.
    message_id : bytes or None
        A keyed hash of the mail's Message-ID.
    chain : int
        The running checksum of all rows up to this one.
    """

    __slots__ = (
        "action", "body", "body_check", "chain", "check", "fingerprint", "label", "message_id", "reader", "seq",
        "source", "time", "who",
    )  # fmt: skip

    def __init__(
        self,
        action: str,
        fingerprint: str | None = None,
        label: str | None = None,
        source: int | None = None,
        time: float = 0.0,
        who: str | None = None,
        body: bytes = b"",
        seq: int = 0,
        body_check: int = 0,
        check: int = 0,
        reader: int | None = None,
        message_id: bytes | None = None,
        chain: int = 0,
    ) -> None:
        self.action, self.fingerprint, self.label, self.source = action, fingerprint, label, source
        self.time, self.who, self.body, self.seq = time, who, body, seq
        self.body_check, self.check, self.chain = body_check, check, chain
        self.reader, self.message_id = reader, message_id

    def numbered(self, seq: int, chain: int = 0) -> Event:
        """Give the row its number and its checksums; `chain` is the running one up to the row before."""
        number_rows([self], seq - 1, chain)
        return self

    def head_check(self) -> int:
        """Return the checksum of all but the body."""
        return crc32(self._head(f"{float(self.time)!r}, {self.who!r}").encode("utf-8", "surrogatepass"))

    def _head(self, end: str) -> str:
        more = "" if self.reader is None and self.message_id is None else f", {self.reader!r}, {self.message_id!r}"
        return (
            f"({self.seq}, {self.action!r}, {self.fingerprint!r}, {self.label!r}, {self.source!r}, {end}, "
            f"{self.body_check}{more})"
        )

    def _fields(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.__slots__])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Event({self.action!r}, {self.fingerprint!r}, {self.label!r}, seq={self.seq})"


def chained(event: Event, chain: int) -> int:
    """Return the running checksum with one more row, whose own is right."""
    return crc32(event.check.to_bytes(4, "little"), chain)


def number_rows(events: Sequence[Event], seq: int, chain: int) -> int:
    """Give rows their numbers, from `seq` + 1 on, and checksums; return the running checksum with all of them."""
    shared: tuple[Any, ...] = ()
    end, checksum = "", kernel("pool").checksum  # of long bodies in a tenth of the time
    for event in events:
        seq += 1
        if shared != (event.time, event.who):  # many rows share both, and to write a time takes a third of it all
            shared = event.time, event.who
            end = f"{float(event.time)!r}, {event.who!r}"
        event.seq, event.body_check = seq, checksum(event.body)
        event.check = check = crc32(event._head(end).encode("utf-8", "surrogatepass"))
        event.chain = chain = crc32(check.to_bytes(4, "little"), chain)
    return chain


def row_of(event: Event) -> Row:
    """Return what the journal's table has of a row, in its order.

    sqlite3 binds a bytearray at once; for bytes, and for None, it looks for an adapter first, which takes longer.
    """
    message_id = event.message_id if event.message_id is None else bytearray(event.message_id)
    return (
        event.seq, event.action, event.fingerprint, event.label, event.source or 0, event.time, event.who, event.check,
        event.body_check, event.reader, message_id, event.chain, bytearray(event.body),
    )  # fmt: skip


def event_of(row: Row) -> Event:
    """Return the row that the journal's table has so.

    Examples
    --------
    >>> event = Event("mark", label="here", time=5.0).numbered(7)
    >>> event_of(row_of(event)) == event
    True
    """
    seq, action, fingerprint, label, source, time, who, check, body_check, reader, message_id, chain, body = row
    name = None if message_id is None else bytes(message_id)
    return Event(
        action, fingerprint, label, source or None, time, who, bytes(body), seq, body_check, check, reader, name, chain
    )


class MessageRows:
    """Messages that are learnt or set aside, to become rows of the journal without an object for each.

    Parameters
    ----------
    time : float
        When, in seconds since 1970.
    who : str or None
        Who says so.
    reader : int or None
        The version of the reader of their content; None where bodies hold columns.
    actions, fingerprints, labels : list of str
        Of each what becomes of it, what it is, and its class.
    bodies : list of bytes-like
        Of each the body of its row.
    checks : list of int
        Their checksums.
    names : list of bytes or None
        The hashed Message-IDs.
    """

    __slots__ = ("actions", "bodies", "checks", "fingerprints", "labels", "names", "reader", "time", "who")

    def __init__(
        self,
        time: float,
        who: str | None,
        reader: int | None,
        actions: list[str],
        fingerprints: list[str],
        labels: list[str],
        bodies: list[Any],
        checks: list[int],
        names: list[bytes | None],
    ) -> None:
        self.time, self.who, self.reader = time, who, reader
        self.actions, self.fingerprints, self.labels = actions, fingerprints, labels
        self.bodies, self.checks, self.names = bodies, checks, names

    def numbered(self, seq: int, chain: int) -> tuple[list[Row], int]:
        """Return their rows, from `seq` + 1 on, and the running checksum with all: as `number_rows` and `row_of` do.

        Examples
        --------
        >>> body = bytearray(b"...")
        >>> messages = MessageRows(5.0, "ann", 1, ["learn"], ["0a"], ["ham"], [body], [crc32(body)], [None])
        >>> event = Event("learn", "0a", "ham", None, 5.0, "ann", b"...", reader=1).numbered(7)
        >>> messages.numbered(6, 0) == ([row_of(event)], event.chain)
        True
        """
        from array import array

        pairs = list(zip(self.actions, self.labels))
        kinds = {kind: number for number, kind in enumerate(dict.fromkeys(pairs))}
        described = [
            (action, label, f", {action!r}, ".encode("utf-8", "surrogatepass"),
             f", {label!r}, None, {float(self.time)!r}, {self.who!r}, ".encode("utf-8", "surrogatepass"))
            for action, label in kinds
        ]  # fmt: skip
        which = array("H", map(kinds.__getitem__, pairs)).tobytes()
        rows: tuple[list[Row], int] = kernel("pool").number_messages(self, described, which, seq + 1, chain)
        return rows
