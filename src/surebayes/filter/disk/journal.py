"""The journal: every message that was learnt, forgotten or set aside, in the order in which it happened.

SQLite with a write-ahead log and ``synchronous=FULL``: what `append` has returned from is on disk. Rows are only ever
added. Each carries a checksum of itself, and a running checksum over all of them is kept in the model's manifest, so
that a damaged, lost or foreign row is noticed when the journal is opened for writing.
"""

from __future__ import annotations

import os
from binascii import crc32
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from surebayes.errors import BadModel, Busy, NewerModel
from surebayes.filter.disk.journal_file import NAME, errors_named, open_for_reading, open_for_writing
from surebayes.kernels import kernel

_kernel = kernel("pool")

VERSION = 1

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY, action TEXT NOT NULL, fingerprint TEXT, label TEXT, source INTEGER,
    time REAL NOT NULL, who TEXT, head_check INTEGER NOT NULL, body_check INTEGER NOT NULL, body BLOB NOT NULL
);
"""  # the body comes last, so that reading the rest of a row doesn't read its pages
_MADE = {("table", "facts"), ("index", "sqlite_autoindex_facts_1"), ("table", "events")}
_HEAD = "seq, action, fingerprint, label, source, time, who, head_check, body_check"
_ROW = attrgetter("seq", "action", "fingerprint", "label", "source", "time", "who", "check", "body_check", "body")


@dataclass(slots=True)
class Event:
    """One row of the journal.

    Attributes
    ----------
    action : {"learn", "forget", "reserve", "release", "judged", "unjudged", "settings", "stage", "bulk", "mark"}
        What happened.
    fingerprint, label : str or None
        The message, and its label for "learn", "reserve" and "judged".
    source : int or None
        The row that holds the message's terms, if not this one.
    time : float
        When, in seconds since 1970.
    who : str or None
        Who said so.
    body : bytes
        The message's terms, settings as JSON, or second stages.
    seq : int
        The row's number: 1, 2, 3, ...
    """

    action: str
    fingerprint: str | None = None
    label: str | None = None
    source: int | None = None
    time: float = 0.0
    who: str | None = None
    body: bytes = b""
    seq: int = 0
    body_check: int = 0
    check: int = 0

    def numbered(self, seq: int) -> Event:
        """Give the row its number and its checksums."""
        self.seq, self.body_check = seq, crc32(self.body)
        self.check = self.head_check()
        return self

    def head_check(self) -> int:
        """Return the checksum of all but the body."""
        parts = (
            self.seq, self.action, self.fingerprint, self.label, self.source, float(self.time), self.who,
            self.body_check,
        )  # fmt: skip
        return crc32(repr(parts).encode("utf-8", "surrogatepass"))


def chained(event: Event, chain: int) -> int:
    """Return the running checksum with one more row, whose own is right."""
    return crc32(event.check.to_bytes(4, "little"), chain)


def number_rows(events: Sequence[Event], seq: int, chain: int) -> int:
    """Give rows their numbers, from `seq` + 1 on, and checksums; return the running checksum with all of them.

    What `Event.numbered` and `chained` do for each, in a third of the time where many rows share their time and author.
    """
    time_and_person: tuple[Any, ...] = ()
    end = ""
    for event in events:
        seq += 1
        if time_and_person != (event.time, event.who):
            time_and_person = event.time, event.who
            end = f"{float(event.time)!r}, {event.who!r}"
        event.seq, event.body_check = seq, crc32(event.body)
        parts = (
            f"({seq}, {event.action!r}, {event.fingerprint!r}, {event.label!r}, {event.source!r}, {end}, "
            f"{event.body_check})"
        )
        event.check = crc32(parts.encode("utf-8", "surrogatepass"))
        chain = crc32(event.check.to_bytes(4, "little"), chain)
    return chain


class Journal:
    """The journal of one filter.

    Parameters
    ----------
    folder : str
        The filter's folder.
    create : bool
        Start a new one.
    write : bool
        Whether rows are to be added; False leaves no trace in the folder, and needs no more than to read it.
    """

    def __init__(self, folder: str, create: bool = False, write: bool = True) -> None:
        self.path = os.path.join(folder, NAME)
        self.folder, self.writes = folder, write
        if not create:
            try:
                os.stat(self.path)
            except FileNotFoundError:
                raise BadModel(f"{self.path} is missing. Restore it from a copy.") from None
        self._db = open_for_writing(folder, create) if write else open_for_reading(folder)
        status = os.stat(self.path)
        self._place = status.st_dev, status.st_ino
        try:
            self.id = self._check(create)
        except BaseException:
            self._db.close()
            raise
        self._begun_at = 0  # the last row when the transaction began

    def _check(self, create: bool) -> str:
        """Return the journal's name for itself; an error if it is not one of ours, or a later release's."""
        with errors_named(self.path):
            if create:
                self._create()
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise NewerModel(
                    f"{self.path} has format version {version}; this release reads up to {VERSION}. Upgrade surebayes."
                )
            facts = dict(self._db.execute("SELECT name, value FROM facts"))
            made = {tuple(row) for row in self._db.execute("SELECT type, name FROM sqlite_master")}
        if made != _MADE:  # a view or a trigger would run when rows are read or added
            raise BadModel(f"{self.path} has tables, views or triggers that no journal of surebayes has.")
        if version < 1 or not isinstance(facts.get("id"), str):
            raise BadModel(f"{self.path} is no journal of surebayes.")
        return str(facts["id"])

    def _create(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";\n"):
            if statement.strip():
                self._db.execute(statement)
        self._db.execute("INSERT INTO facts VALUES ('id', ?)", (os.urandom(4).hex(),))
        self._db.execute(f"PRAGMA user_version={VERSION}")
        self._db.execute("COMMIT")

    def begin(self) -> int:
        """Begin the transaction that `append` ends, and give the number of the last row; `cancel` ends it without."""
        self._check_place()
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            self._begun_at = self.last()
            return self._begun_at

    def _check_place(self) -> None:
        """Refuse to write to a file that was removed or replaced since it was opened: nobody would find it there."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._place:
            raise BadModel(
                f"{self.path} was removed or replaced while this process had it open: open the filter again."
            )

    def cancel(self) -> None:
        """End a transaction that nothing was added in, if there is one."""
        if self._db.in_transaction:
            with errors_named(self.path):
                self._db.execute("ROLLBACK")

    def append(self, events: Sequence[Event]) -> None:
        """Add rows that are numbered already, in one transaction. They are on disk when this returns."""
        with errors_named(self.path):
            try:
                if not self._db.in_transaction:
                    self.begin()
                if self._begun_at + 1 != events[0].seq:
                    raise Busy(f"{self.path} was changed by a process that doesn't hold its lock.")
                self._db.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", map(_ROW, events))
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def last(self) -> int:
        """Return the number of the last row; 0 if there is none."""
        with errors_named(self.path):
            return self._db.execute("SELECT max(seq) FROM events").fetchone()[0] or 0

    def heads(self, after: int = 0, chain: int = 0) -> Iterator[tuple[Event, int]]:
        """Yield rows without their bodies, each checked, with the running checksum up to it."""
        expected = after + 1
        with errors_named(self.path):
            for row in self._db.execute(f"SELECT {_HEAD} FROM events WHERE seq > ? ORDER BY seq", (after,)):
                seq, action, fingerprint, label, source, time, who, check, body_check = row
                event = Event(action, fingerprint, label, source, time, who, b"", seq, body_check, check)
                if seq != expected or not isinstance(time, float) or event.head_check() != check:
                    raise BadModel(f"Row {expected} of {self.path} is damaged or missing. Restore it from a copy.")
                expected += 1
                chain = chained(event, chain)
                yield event, chain

    def body(self, seq: int) -> bytes:
        """Return the body of a row, checked."""
        with errors_named(self.path):
            row = self._db.execute("SELECT body_check, body FROM events WHERE seq = ?", (seq,)).fetchone()
        if row is None or not isinstance(row[1], bytes) or crc32(row[1]) != row[0]:
            raise BadModel(f"The content of row {seq} of {self.path} is damaged or missing. Restore it from a copy.")
        return row[1]

    def bodies(self, rows: Sequence[int]) -> Iterator[bytes]:
        """Yield the bodies of rows, whose numbers ascend, each checked: one pass where they are near to each other."""
        if not rows:
            return
        if rows[-1] - rows[0] > 20 * len(rows):
            yield from map(self.body, rows)
            return
        wanted, rows_read = set(rows), 0
        span = "SELECT seq, body_check, body FROM events WHERE seq BETWEEN ? AND ? AND action = 'reserve' ORDER BY seq"
        with errors_named(self.path):
            for seq, check, body in self._db.execute(span, (rows[0], rows[-1])):
                if seq in wanted:
                    if not isinstance(body, bytes) or crc32(body) != check:
                        raise BadModel(f"The content of row {seq} of {self.path} is damaged. Restore it from a copy.")
                    rows_read += 1
                    yield body
        if rows_read < len(rows):
            raise BadModel(
                f"{rows_read} of {len(rows)} rows that {self.path} set aside are there. Restore it from a copy."
            )

    def times(self, action: str) -> dict[int, float]:
        """Return when the rows of an action were written, by their numbers."""
        with errors_named(self.path):
            return dict(self._db.execute("SELECT seq, time FROM events WHERE action = ?", (action,)))

    def settle(self) -> None:
        """Move the write-ahead log into the main file, as far as readers allow."""
        with errors_named(self.path):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def problems(self, progress: Callable[[str, int, int | None], None] | None = None) -> list[str]:
        """Return what SQLite itself finds wrong with the file, and rows whose content isn't what was written."""
        total, done = self.last(), 0
        with errors_named(self.path):
            faults = [row[0] for row in self._db.execute("PRAGMA quick_check") if row[0] != "ok"]
            for seq, check, body in self._db.execute("SELECT seq, body_check, body FROM events"):
                done += 1
                if not isinstance(body, bytes) or crc32(body) != check:
                    faults.append(f"The content of row {seq} of {self.path} is damaged. Restore it from a copy.")
                if progress is not None and done % 256 == 0:
                    progress("checking rows", done, total)
        return faults

    def copy_to(self, path: str) -> None:
        """Write a consistent copy, while others read and write."""
        with errors_named(self.path):
            self._db.execute("VACUUM INTO ?", (path,))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


# ---------------------------------------------------------------------- a message's terms as bytes


def pack_rows(views: Sequence[Any], moved: Sequence[int] = ()) -> bytes:
    """Write the columns of a message in each view, and what the message moved the pool weights by.

    Columns are buffers of uint32, ascending; the gaps between them take two bytes each (65535 stands for "so many more,
    and go on").

    Examples
    --------
    >>> from array import array
    >>> packed = pack_rows([array("I", [3, 70000]), b""], [-5])
    >>> len(packed)
    30
    >>> rows, moved = unpack_rows(packed)
    >>> [list(memoryview(row).cast("I")) for row in rows], moved
    ([[3, 70000], []], [-5])
    """
    counts = (len(views) | len(moved) << 32).to_bytes(8, "little")
    return counts + b"".join([value.to_bytes(8, "little", signed=True) for value in moved]) + _packed(views)


def _packed(views: Sequence[Any]) -> bytes:
    packed: bytes = _kernel.pack_views(list(views))
    return packed


def unpack_rows(body: bytes) -> tuple[list[bytes], list[int]]:
    """Read what `pack_rows` wrote: the columns of each view as uint32, and what was moved."""
    n, m = int.from_bytes(body[:4], "little"), int.from_bytes(body[4:8], "little")
    at = 8 + 8 * m
    if len(body) < at:
        raise BadModel("A row of the journal is cut short.")
    moved = [int.from_bytes(body[i : i + 8], "little", signed=True) for i in range(8, at, 8)]
    views = []
    try:
        for _ in range(n):
            if at + 4 > len(body):
                raise ValueError("no room for a size")
            size = int.from_bytes(body[at : at + 4], "little")
            views.append(_kernel.unpack_columns(body, at + 4, size))
            at += 4 + 2 * size
    except ValueError:
        raise BadModel("A row of the journal is cut short.") from None
    return views, moved
