"""Rows of the journal: events, each with its checksum and a running one."""

from __future__ import annotations

import time
from binascii import crc32
from collections import namedtuple
from itertools import repeat

from surebayes.filter.plain_values import plain_real, plain_text, text_or_none
from surebayes.kernels import kernel
from surebayes.record import Record

TYPE_CHECKING = False  # typing and dataclasses cost more than half of a lesson by command
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any


Row = tuple["Any", ...]
"""A row of the journal's table: values in the order of its columns, source 0 for none."""


class Column(namedtuple("Column", ("name", "declared", "since", "in_checksum"))):
    """A journal column.

    Attributes
    ----------
    name, declared : str
        Its name and type in SQL.
    since : int
        The version of the journal that added it.
    in_checksum : bool
        Whether it is part of the row's own checksum.
    """

    __slots__ = ()

    name: str
    declared: str
    since: int
    in_checksum: bool


COLUMNS = (
    Column("seq", "INTEGER PRIMARY KEY", 1, True),
    Column("action", "TEXT NOT NULL", 1, True),
    Column("fingerprint", "TEXT", 1, True),
    Column("label", "TEXT", 1, True),
    Column("source", "INTEGER", 1, True),
    Column("time", "REAL NOT NULL", 1, True),
    Column("who", "TEXT", 1, True),
    Column("head_check", "INTEGER NOT NULL", 1, False),
    Column("body_check", "INTEGER NOT NULL", 1, True),
    Column("reader", "INTEGER", 2, True),
    Column("message_id", "BLOB", 2, True),
    Column("chain", "INTEGER", 2, False),
    Column("body", "BLOB NOT NULL", 1, False),  # last, so that reading the rest of a row doesn't read its pages
)
"""The columns of the journal's table, the source of its SQL, its rows and the scope of its checksums."""
NAMES = tuple(column.name for column in COLUMNS)
_CHECKED = tuple(column.name for column in COLUMNS if column.in_checksum)

REPR, ENCODED, NUMPY_LABEL, NUMPY_WHO, NUMPY_BOTH = range(5)
"""The form of the checksummed text of a row: Python's repr of the values (earlier releases), the encoding in
docs/format.md, and Python's repr with a numpy string as label, as teacher, or as both, which earlier releases let
through. The form is in the bits of `head_check` above the checksum's 32."""
_BITS = 32
_CRC = (1 << _BITS) - 1
_NUMPY_FORMS = (NUMPY_LABEL, NUMPY_WHO, NUMPY_BOTH)


class Lesson(Record):
    """The author and the time of a lesson or of another change: columns of all rows that it adds to the journal.

    Attributes
    ----------
    who : str or None
        The teacher, or the command.
    time : float or None
        Seconds since 1970; None for the current time.

    Examples
    --------
    >>> Lesson("ann", 5.0).columns()
    {'who': 'ann', 'time': 5.0}
    >>> Lesson(7)
    Traceback (most recent call last):
    TypeError: who must be a str. Got 7.
    """

    who: str | None = None
    time: float | None = None

    def _prepare(self) -> None:
        object.__setattr__(self, "who", text_or_none(self.who, "who"))
        if self.time is not None:
            object.__setattr__(self, "time", plain_real(self.time, "time"))

    def columns(self) -> dict[str, Any]:
        """Return the values of its columns by name."""
        return {**self.as_dict(), "time": time.time() if self.time is None else self.time}


NO_AUTHOR = Lesson()
"""A change without an author, such as a mark."""


class Event:
    """One row of the journal.

    Attributes
    ----------
    action : {"learn", "forget", "reserve", "release", "judged", "unjudged", "settings", "stage", "bulk", "mark", ...}
        The kind of event.
    fingerprint, label : str or None
        The message, and its label.
    source : int or None
        The row with the message, if not this one.
    time : float
        Seconds since 1970.
    who : str or None
        The teacher, or the command.
    body : bytes
        A message or second stages, packed by `surebayes.filter.store.contents`, or settings as JSON.
    seq : int
        The row's number: 1, 2, 3, ...
    body_check, head_check : int
        The checksum of the body; and the checksum of the rest, with its form above the 32 bits.
    reader : int or None
        The version of the reader of the message's content; None for columns, or without a message.
    message_id : bytes or None
        A keyed hash of the Message-ID.
    chain : int
        The running checksum up to this row; -1 in rows of the first release, which have none.
    """

    __slots__ = NAMES

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
        head_check: int = 0,
        reader: int | None = None,
        message_id: bytes | None = None,
        chain: int = 0,
    ) -> None:
        self.action, self.fingerprint, self.source, self.seq = action, fingerprint, source, seq
        self.label = label if label is None or type(label) is str else plain_text(label, "label")
        self.who = who if who is None or type(who) is str else plain_text(who, "who")
        self.time = plain_real(time, "time")
        self.body, self.body_check, self.head_check, self.chain = body, body_check, head_check, chain
        self.reader, self.message_id = reader, message_id

    @classmethod
    def of(
        cls,
        lesson: Lesson,
        action: str,
        fingerprint: str | None = None,
        label: str | None = None,
        source: int | None = None,
        body: bytes = b"",
        **more: Any,
    ) -> Event:
        """Return a row of a lesson."""
        return cls(action, fingerprint, label, source, body=body, **lesson.columns(), **more)

    @property
    def lesson(self) -> Lesson:
        """The lesson whose row it is."""
        return Lesson(*[getattr(self, name) for name in Lesson.FIELDS])

    def numbered(self, seq: int, chain: int = 0) -> Event:
        """Set the row's number and checksums; `chain` is the running one up to the previous row."""
        number_rows([self], seq - 1, chain)
        return self

    @property
    def check(self) -> int:
        """The checksum of all but the body."""
        return self.head_check & _CRC

    @property
    def form(self) -> int:
        """The form of the checksum."""
        return self.head_check >> _BITS

    @property
    def head(self) -> Row:
        """The values under the checksum."""
        return tuple([getattr(self, name) for name in _CHECKED])

    def true_form(self) -> int | None:
        """Return the form for which the checksum matches; None for a damaged row.

        Rows of earlier releases don't record that their label was a numpy string; only the checksum shows it.
        """
        if self.form == ENCODED:
            checks, _ = kernel("pool").row_checks([self.head], 0)
            return ENCODED if checks[0] == self.check else None
        forms = (REPR, *_NUMPY_FORMS) if self.form == REPR else [form for form in _NUMPY_FORMS if form == self.form]
        return next((form for form in forms if self._check_of_repr(form) == self.check), None)

    def _check_of_repr(self, form: int) -> int:
        """Return the checksum of earlier releases."""
        label = _repr_of_numpy(self.label) if form in (NUMPY_LABEL, NUMPY_BOTH) else repr(self.label)
        who = _repr_of_numpy(self.who) if form in (NUMPY_WHO, NUMPY_BOTH) else repr(self.who)
        more = "" if self.reader is None and self.message_id is None else f", {self.reader!r}, {self.message_id!r}"
        text = (
            f"({self.seq}, {self.action!r}, {self.fingerprint!r}, {label}, {self.source!r}, {self.time!r}, {who}, "
            f"{self.body_check}{more})"
        )
        return crc32(text.encode("utf-8", "surrogatepass"))

    def _fields(self) -> Row:
        return tuple([getattr(self, name) for name in self.__slots__])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Event) and self._fields() == other._fields()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Event({self.action!r}, {self.fingerprint!r}, {self.label!r}, seq={self.seq})"


def _repr_of_numpy(text: str | None) -> str:
    return f"np.str_({text!r})"


def in_form(check: int, form: int) -> int:
    """Return `head_check` for a checksum and its form."""
    return check & _CRC | form << _BITS


def chained(event: Event, chain: int) -> int:
    """Return the running checksum after one more row, whose own checksum is valid."""
    return crc32(event.check.to_bytes(4, "little"), chain)


def number_rows(events: Sequence[Event], seq: int, chain: int, form: int = ENCODED) -> int:
    """Set the numbers (from `seq` + 1) and checksums of rows; return the running checksum after the last.

    Older forms are for rows that an earlier release has counted in a manifest.
    """
    checksum = kernel("pool").checksum  # of long bodies in a tenth of the time
    for event in events:
        seq += 1
        event.seq, event.body_check = seq, checksum(event.body)
    if form != ENCODED:
        for event in events:
            event.head_check = in_form(event._check_of_repr(form), form)
            event.chain = chain = chained(event, chain)
        return chain
    checks, chains = kernel("pool").row_checks([event.head for event in events], chain)
    for event, check, running in zip(events, checks, chains):
        event.head_check, event.chain = in_form(check, ENCODED), running
    return chains[-1] if chains else chain


def row_of(event: Event) -> Row:
    """Return the values for a row of the journal's table.

    sqlite3 binds a bytearray directly; for bytes and None it first looks for an adapter, which is slower.
    """
    return tuple([_to_bind(name, getattr(event, name)) for name in NAMES])


def _to_bind(name: str, value: Any) -> Any:
    if name == "source":
        return value or 0
    return bytearray(value) if type(value) is bytes else value


def event_of(row: Row) -> Event:
    """Return the event for a row of the journal's table or of a query.

    Examples
    --------
    >>> event = Event("mark", label="here", time=5.0).numbered(7)
    >>> event_of(row_of(event)) == event
    True
    """
    fields = dict(zip(NAMES, row))
    name, body, chain = fields["message_id"], fields.get("body", b""), fields["chain"]
    fields.update(source=fields["source"] or None, body=bytes(body), chain=-1 if chain is None else chain)
    if isinstance(name, bytearray):
        fields["message_id"] = bytes(name)
    return Event(**fields)


class MessageRows:
    """Learnt and reserved messages, turned into journal rows without an object for each.

    Parameters
    ----------
    lesson : Lesson
        Their author and time.
    reader : int or None
        The version of the reader of their content; None for columns.
    actions, fingerprints, labels : list of str
        "learn" or "reserve", fingerprint and class of each.
    bodies : list of bytes-like
        The bodies of their rows.
    checks : list of int
        Their checksums.
    names : list of bytes or None
        The hashed Message-IDs.
    """

    __slots__ = ("actions", "bodies", "checks", "fingerprints", "labels", "lesson", "names", "reader")

    def __init__(
        self,
        lesson: Lesson,
        reader: int | None,
        actions: list[str],
        fingerprints: list[str],
        labels: list[str],
        bodies: list[Any],
        checks: list[int],
        names: list[bytes | None],
    ) -> None:
        self.lesson, self.reader = lesson, reader
        self.actions, self.fingerprints, self.labels = actions, fingerprints, labels
        self.bodies, self.checks, self.names = bodies, checks, names

    def numbered(self, seq: int, chain: int) -> tuple[list[Row], int]:
        """Return their rows, from `seq` + 1 on, and the running checksum with all: as `number_rows` and `row_of` do.

        Examples
        --------
        >>> body = bytearray(b"...")
        >>> messages = MessageRows(Lesson("ann", 5.0), 1, ["learn"], ["0a"], ["ham"], [body], [crc32(body)], [None])
        >>> event = Event("learn", "0a", "ham", None, 5.0, "ann", b"...", reader=1).numbered(7)
        >>> messages.numbered(6, 0) == ([row_of(event)], event.chain)
        True
        """
        values: dict[str, Iterable[Any]] = {
            "seq": range(seq + 1, seq + 1 + len(self.fingerprints)), "action": self.actions,
            "fingerprint": self.fingerprints, "label": self.labels, "source": repeat(None), "body_check": self.checks,
            "reader": repeat(self.reader), "message_id": self.names,
            **{name: repeat(value) for name, value in self.lesson.columns().items()},
        }  # fmt: skip
        checks, chains = kernel("pool").row_checks(list(zip(*[values[name] for name in _CHECKED], strict=False)), chain)
        values["source"] = repeat(0)
        values["head_check"] = [in_form(check, ENCODED) for check in checks]
        values["message_id"] = [name if name is None else bytearray(name) for name in self.names]
        values["chain"], values["body"] = chains, self.bodies
        return list(zip(*[values[name] for name in NAMES])), chains[-1] if chains else chain
