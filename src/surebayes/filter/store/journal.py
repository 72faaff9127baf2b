"""The journal: every message learnt, forgotten or reserved, in order.

SQLite with a write-ahead log and ``synchronous=FULL``: rows are on disk when `append` returns. Rows are only ever
added. Each carries a checksum, checked on every read, and the running checksum over all rows up to it, which is also in
the model's manifest. An index finds messages by fingerprint: learning one message reads its own rows and the last one,
however many there are.
"""

from __future__ import annotations

import contextlib
import functools
import os
from binascii import crc32

from surebayes.errors import BadModel, Busy, NewerModel
from surebayes.filter.store import journal_file
from surebayes.filter.store.contents import pack_rows, unpack_rows
from surebayes.filter.store.events import (
    COLUMNS,
    NAMES,
    REPR,
    Event,
    chained,
    event_of,
    in_form,
    number_rows,
    row_of,
)
from surebayes.filter.store.journal_file import (
    NAME,
    NOT_LESSONS,
    FileStamps,
    errors_named,
    open_for_reading,
    open_for_writing,
)
from surebayes.kernels import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from surebayes.filter.store.events import Row

__all__ = ["NAME", "Event", "Journal", "chained", "number_rows", "pack_rows", "unpack_rows"]

VERSION = 3
"""The version of the journal's format: 2 added columns and indexes, 3 the form of a row's checksum."""

_INSERT = "INSERT INTO events ({}) VALUES ({})".format(
    ", ".join(NAMES), ", ".join(["nullif(?, 0)" if name == "source" else "?" for name in NAMES])
)
_OF_MESSAGE = "('learn', 'forget', 'reserve', 'release')"

Known = tuple[str, str, int]
"""State of a message: "learn" or "reserve", its label, and its row."""


def _hasher(key: str) -> Any:
    """Return a keyed hasher for Message-IDs, copied for each."""
    from surebayes.mail.message import blake2b

    return blake2b(digest_size=16, key=bytes.fromhex(key))


def _hash_of(message_id: str, hasher: Any) -> bytes:
    hashed = hasher.copy()
    hashed.update("".join(message_id.split()).encode("utf-8", "surrogatepass"))
    return bytes(hashed.digest())


@functools.cache
def _columns(version: int) -> str:
    """Return the columns of a row without its body for a query; NULL for the columns of later versions."""
    return ", ".join([column.name if column.since <= version else "NULL" for column in COLUMNS[:-1]])


_NO_SCORES = ("settings", "mark", "reserve", "release", "judged", "unjudged")
"""Actions that don't change scores, except settings of weights."""


class Journal:
    """The journal of one filter, in its folder.

    `surebayes.filter.shared.journal.SharedJournal` has the same methods for a journal that several hosts share.

    Parameters
    ----------
    folder : str
        The filter's folder.
    create : bool
        Create a new journal.
    write : bool
        Whether to open for writing; False leaves no trace in the folder and needs only read permission.
    page : int
        Bytes of a page of a new journal.
    facts : dict, optional
        Facts of the original, with its ID and its key, if the new journal is a copy.

    Attributes
    ----------
    id : str
        The journal's unique ID.
    keeps_content : bool
        Whether rows keep the content of messages; otherwise their columns.
    is_shared : bool
        Whether rows come from elsewhere, too: from other hosts, or a shipped journal.
    kind : str
        The name of the file in the folder that makes the journal more than its own; "" without one.
    """

    is_shared = False
    kind = ""

    def __init__(
        self,
        folder: str,
        create: bool = False,
        write: bool = True,
        page: int = journal_file.PAGE,
        facts: dict[str, str] | None = None,
    ) -> None:
        self.path = os.path.join(folder, NAME)
        self.folder, self.writes = folder, write
        if not create:
            try:
                os.stat(self.path)
            except FileNotFoundError:
                raise BadModel(f"{self.path} is missing. Restore it from a copy.") from None
        self._stamps = None if write else FileStamps(folder)
        self._db = open_for_writing(folder, create, page) if write else open_for_reading(folder)
        stat = os.stat(self.path)
        self._place = stat.st_dev, stat.st_ino
        self.version = VERSION
        try:
            self._check(create, facts)
        except BaseException:
            self._db.close()
            raise
        self._begun_at = 0  # the last row when the transaction began
        self._hasher: Any = None

    @property
    def is_current(self) -> bool:
        """Whether it has all rows: it is open for writing, or nothing was written since it was opened for reading."""
        return self._stamps is None or self._stamps.are_current()

    # ---- the file

    def _check(self, create: bool, given: dict[str, str] | None) -> None:
        """Read the journal's facts; refuse a file from elsewhere, or one of a later release."""
        with errors_named(self.path, is_known=False):
            if create:
                self._create(given)
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version > VERSION:
                raise NewerModel(
                    f"{self.path} has format version {version}; this release reads up to {VERSION}. Upgrade surebayes."
                )
            made = {tuple(row) for row in self._db.execute("SELECT type, name FROM sqlite_master")}
            if version < 1:
                raise BadModel(f"{self.path} is not a journal of surebayes.")
            known = journal_file.MADE_BY_1 if version == 1 else journal_file.MADE
            if made != known:  # a view or a trigger would run when rows are read
                raise BadModel(
                    f"{self.path} has tables, views or triggers that don't belong to a journal of surebayes."
                )
            columns = [name for _, name, *_ in self._db.execute("PRAGMA table_info(events)")]
            if sorted(columns) != sorted(column.name for column in COLUMNS if column.since <= version):
                raise BadModel(f"{self.path} does not have the columns of a journal of surebayes.")
            if version < VERSION and self.writes:
                self._upgrade()
            else:
                self.version = version
            facts = dict(self._db.execute("SELECT name, value FROM facts"))
        if not isinstance(facts.get("id"), str):
            raise BadModel(f"{self.path} is not a journal of surebayes.")
        self.id = str(facts["id"])
        self.facts = facts

    def _create(self, facts: dict[str, str] | None) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute(journal_file.FACTS)
        self._db.execute(journal_file.EVENTS)
        self._db.execute("INSERT INTO facts VALUES ('id', ?)", (os.urandom(4).hex(),))
        self._make_indexes()
        self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", (facts or {}).items())
        self._db.execute(f"PRAGMA user_version={VERSION}")
        self._db.execute("COMMIT")

    def _upgrade(self) -> None:
        """Upgrade a journal of an earlier release; rows and their checksums remain unchanged."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version < VERSION:  # no other process was faster
                for column in COLUMNS:
                    if column.since > version:
                        self._db.execute(f"ALTER TABLE events ADD COLUMN {column.name} {column.declared}")
                if version == 1:
                    self._make_indexes()
                self._db.execute(f"PRAGMA user_version={VERSION}")
                self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _make_indexes(self) -> None:
        for name, about in journal_file.INDEXES.items():
            self._db.execute(f"CREATE INDEX {name} {about}")
        self._db.execute("INSERT INTO facts VALUES ('key', ?)", (os.urandom(16).hex(),))

    def _column(self, name: str) -> str:
        """Return a column's name for a query; NULL if this version of the journal doesn't have it."""
        (column,) = (column for column in COLUMNS if column.name == name)
        return name if column.since <= self.version else "NULL"

    @property
    def keeps_content(self) -> bool:
        """Whether rows keep the content of messages; otherwise their columns."""
        return self.facts.get("content") != "no"

    def set_fact(self, name: str, value: str) -> None:
        """Store a fact about the journal as a whole."""
        if self.facts.get(name) != value:
            with errors_named(self.path):
                self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
            self.facts[name] = value

    def hashed(self, message_id: str) -> bytes | None:
        """Return the keyed hash of a Message-ID, which finds its rows; None for an empty one."""
        if not message_id:
            return None
        if self._hasher is None:
            self._hasher = _hasher(self.facts["key"])
        return _hash_of(message_id, self._hasher)

    def hashed_many(self, plain_ids: list[str]) -> list[bytes | None]:
        """Like `hashed` for many Message-IDs without white space."""
        hashed: list[bytes | None] = kernel("mail").hash_names(bytes.fromhex(self.facts["key"]), plain_ids)
        return hashed

    @property
    def keys(self) -> list[str]:
        """The hash keys for Message-IDs: this journal's, then those of journals that rows were copied from."""
        return [self.facts["key"], *self.facts.get("other keys", "").split()]

    def know_keys(self, keys: Iterable[str]) -> None:
        """Store the keys of another journal, so that rows copied from it are found by Message-ID."""
        foreign = {*self.keys[1:], *keys} - {self.facts["key"]}
        self.set_fact("other keys", " ".join(sorted(foreign)))

    # ---- adding rows

    @contextlib.contextmanager
    def locked(self, wait: float, guard: contextlib.AbstractContextManager[object]) -> Iterator[None]:
        """Hold the right to add rows; the caller holds the folder's lock, which is all that a journal in it needs.

        `guard` is held while rows of other hosts are added to the folder.
        """
        yield

    def fetch(self, guard: contextlib.AbstractContextManager[object]) -> list[Row]:
        """Return rows of other hosts that are new here."""
        return []

    def store(self, rows: Sequence[Row]) -> int:
        """Add fetched rows; return their number: 0 if another process was faster. The locks are held."""
        if not rows or self.last() != rows[0][0] - 1:
            return 0
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(_INSERT, rows)
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        return len(rows)

    def committing(self) -> contextlib.AbstractContextManager[None]:
        """Surround the commit of new rows, which the journal's own connection sees already."""
        return contextlib.nullcontext()

    def begin(self) -> int:
        """Begin the transaction that `append` commits or `cancel` ends; return the last row number."""
        self.check_place()
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            self._begun_at = self.last()
            return self._begun_at

    def check_place(self) -> None:
        """Refuse to write to a file that was removed or replaced since it was opened."""
        try:
            stat = os.stat(self.path)
        except FileNotFoundError:
            stat = None
        if stat is None or (stat.st_dev, stat.st_ino) != self._place:
            raise BadModel(f"{self.path} was removed or replaced while open. Open the filter again.")

    @property
    def place(self) -> tuple[int, int]:
        """The identity of the open file: device and inode."""
        return self._place

    def cancel(self) -> None:
        """End an empty transaction, if there is one."""
        if self._db.in_transaction:
            with errors_named(self.path):
                self._db.execute("ROLLBACK")

    def append(self, events: Sequence[Event]) -> None:
        """Add numbered rows in one transaction; they are on disk when this returns."""
        self.append_rows([row_of(event) for event in events])

    def append_rows(self, rows: Sequence[Row], blank: Sequence[int] = ()) -> None:
        """Add rows of the table in one transaction, which also erases the content of the rows `blank` with zeros."""
        many = rows[0][0] == 1 and len(rows) >= journal_file.MANY
        with errors_named(self.path), journal_file.without_log(self._db, self.folder, many):
            try:
                if not self._db.in_transaction:
                    self.begin()
                if self._begun_at + 1 != rows[0][0]:
                    raise Busy(f"{self.path} was changed by a process without its lock. Try again.")
                self._db.executemany(_INSERT, rows)
                if blank:
                    self._db.executemany("UPDATE events SET body = x'' WHERE seq = ?", [(seq,) for seq in blank])
                with self.committing():
                    self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    # ---- rows

    def last(self) -> int:
        """Return the last row number, or 0."""
        with errors_named(self.path):
            return self._db.execute("SELECT max(seq) FROM events").fetchone()[0] or 0

    def _events(self, condition: str, values: Sequence[Any] = ()) -> Iterator[Event]:
        """Yield rows without their bodies, each checked."""
        columns = _columns(self.version)
        with errors_named(self.path):
            for row in self._db.execute(f"SELECT {columns} FROM events WHERE {condition}", values):
                try:
                    event = event_of(row)
                    is_right = event.true_form() is not None and (event.chain >= 0 or event.form == REPR)
                except (TypeError, ValueError, OverflowError):  # a value of the wrong type
                    is_right = False
                if not is_right:
                    raise BadModel(f"Row {row[0]} of {self.path} is damaged. Restore it from a copy.")
                yield event

    def heads(self, after: int = 0, chain: int | None = None) -> Iterator[tuple[Event, int]]:
        """Yield rows without their bodies, each checked, with the running checksum up to it.

        `chain` is the running checksum at the row `after`, if known.
        """
        expected = after + 1
        chain = (self.chain_at(after) or 0) if chain is None else chain
        for event in self._events("seq > ? ORDER BY seq", (after,)):
            chain = chained(event, chain)
            if event.seq != expected or event.chain not in (-1, chain):
                raise BadModel(f"Row {expected} of {self.path} is damaged or missing. Restore it from a copy.")
            expected += 1
            yield event, chain

    def is_undone(self, after: int, until: int) -> bool:
        """Whether scores have the bits that they had at a row: each lesson since was forgotten again.

        A message that was forgotten and learnt again has moved the weights by different steps.
        """
        learnt: set[str | None] = set()
        for event in self._events("seq > ? AND seq <= ? ORDER BY seq", (after, until)):
            if event.action == "learn":
                learnt.add(event.fingerprint)
            elif event.action == "forget" and event.fingerprint in learnt:
                learnt.remove(event.fingerprint)
            elif event.action not in _NO_SCORES or (event.action == "settings" and event.label == "weights"):
                return False
        return not learnt

    def chain_at(self, seq: int) -> int | None:
        """Return the running checksum up to a row; None if there is no such row."""
        if not seq:
            return 0
        events = list(self._events("seq = ?", (seq,)))
        if not events or events[0].chain >= 0:
            return events[0].chain if events else None
        chain = 0  # rows of an earlier release don't have it
        for event, running in self.heads():
            chain = running
            if event.seq == seq:
                break
        return chain

    def known(self, fingerprint: str) -> Known | None:
        """Return the state of a message; None if it is unknown or forgotten."""
        condition = f"fingerprint = ? AND action IN {_OF_MESSAGE} ORDER BY seq DESC LIMIT 1"
        for event in self._events(condition, (fingerprint,)):
            if event.action in ("learn", "reserve"):
                return event.action, event.label or "", event.source or event.seq
        return None

    def judged(self, fingerprint: str) -> tuple[str, int] | None:
        """Return label and row of the scores of a message that was reserved, misjudged and learnt."""
        condition = "fingerprint = ? AND action IN ('judged', 'unjudged') ORDER BY seq DESC LIMIT 1"
        for event in self._events(condition, (fingerprint,)):
            if event.action == "judged":
                return event.label or "", event.source or event.seq
        return None

    def messages(self, *actions: str) -> dict[str, Known]:
        """Return the states of all learnt and reserved messages by fingerprint, in order.

        With `actions` (an action and its reverse, such as "reserve" and "release") only those.
        """
        result: dict[str, Known] = {}
        wanted = actions or ("learn", "forget", "reserve", "release")
        some = ", ".join(f"'{action}'" for action in wanted)
        indexed = "" if {"learn", "forget"} & set(wanted) else f"{NOT_LESSONS} AND "
        for event in self._events(f"{indexed}action IN ({some}) ORDER BY seq"):
            if event.action in ("forget", "release", "unjudged"):
                result.pop(event.fingerprint or "", None)
            else:
                result[event.fingerprint or ""] = event.action, event.label or "", event.source or event.seq
        return result

    def learnt_together(self) -> set[int]:
        """Return the rows of lessons without a step, after the weights were last set."""
        weighed = max([event.seq for event in self.of_actions("settings") if event.label == "weights"], default=0)
        begins = f"CASE WHEN {self._column('reader')} IS NULL THEN 5 ELSE 1 END"
        steps = f"substr(body, {begins}, 4)"  # their number
        rows = f"seq > ? AND action = 'learn' AND source IS NULL AND {steps} = x'00000000'"
        with errors_named(self.path):
            return {seq for (seq,) in self._db.execute(f"SELECT seq FROM events WHERE {rows}", (weighed,))}

    def latest(
        self, fingerprint: str | None = None, limit: int | None = None, before: int | None = None
    ) -> list[Event]:
        """Return rows of one message or all, latest first; with `before` only rows of a lower number."""
        values: list[Any] = []
        condition = "1"
        if fingerprint is not None:
            condition, values = "fingerprint = ?", [fingerprint]
        if before is not None:
            condition, values = f"{condition} AND seq < ?", [*values, before]
        return list(self._events(f"{condition} ORDER BY seq DESC LIMIT ?", [*values, -1 if limit is None else limit]))

    def latest_lessons(self, limit: int) -> list[tuple[float, str]]:
        """Return time and class ("forget" for a forgotten message) of recent lessons, latest first.

        Searches the last `limit` rows, without trainings.
        """
        rows = "SELECT * FROM (SELECT seq, time, action, label, who FROM events ORDER BY seq DESC LIMIT ?)"
        query = f"{rows} WHERE action IN ('learn', 'forget') AND who IS NOT 'train' ORDER BY seq DESC"
        with errors_named(self.path):
            lessons = self._db.execute(query, (limit,)).fetchall()
        return [(time, label if action == "learn" else action) for _, time, action, label, _ in lessons]

    def of_actions(self, *actions: str) -> list[Event]:
        """Return the rows of actions other than learning and forgetting."""
        some = ", ".join(f"'{action}'" for action in actions)
        return list(self._events(f"{NOT_LESSONS} AND action IN ({some}) ORDER BY seq"))

    def fingerprints_of(self, message_ids: Iterable[str]) -> set[str]:
        """Return the fingerprints of learnt and reserved messages by their Message-IDs."""
        from surebayes.mail.message import written_forms

        fingerprints: set[str] = set()
        if self.version == 1:
            return fingerprints
        hashers = [_hasher(key) for key in self.keys]
        for name in (form for message_id in message_ids for form in written_forms(message_id)):
            for hasher in hashers:
                events = self._events(f"{self._column('message_id')} = ?", (_hash_of(name, hasher),))
                fingerprints.update(event.fingerprint for event in events if event.fingerprint is not None)
        return fingerprints

    def message_ids(self) -> dict[int, bytes]:
        """Return the hashed Message-IDs of rows that have one."""
        return {
            event.seq: event.message_id
            for event in self._events(f"{self._column('message_id')} IS NOT NULL")
            if event.message_id
        }

    def rows_of(self, fingerprint: str) -> list[Event]:
        """Return the rows with a message's content, without erased ones."""
        erased = self.erased()
        holding = "fingerprint = ? AND action IN ('learn', 'reserve') AND source IS NULL ORDER BY seq"
        return [event for event in self._events(holding, (fingerprint,)) if event.seq not in erased]

    def erased(self) -> set[int]:
        """Return the rows whose content was erased."""
        return {event.source or 0 for event in self.of_actions("erase")}

    def rows_after(self, seq: int, most: int) -> Iterator[list[Row]]:
        """Yield the rows after a number as they are in the table, up to `most` at a time."""
        columns = ", ".join(map(self._column, NAMES))
        while True:
            with errors_named(self.path):
                query = f"SELECT {columns} FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
                rows = self._db.execute(query, (seq, most)).fetchall()
            if not rows:
                return
            yield rows
            seq = rows[-1][0]

    def checks_at(self, seq: int) -> tuple[int, int | None] | None:
        """Return the own and the running checksum of a row; None if there is no such row."""
        with errors_named(self.path):
            query = f"SELECT head_check, {self._column('chain')} FROM events WHERE seq = ?"
            found: tuple[int, int | None] | None = self._db.execute(query, (seq,)).fetchone()
        return found

    def blanked(self, rows: Iterable[int | None]) -> set[int]:
        """Return the rows whose content was erased, among the given ones."""
        query = "SELECT 1 FROM events WHERE seq = ? AND length(body) = 0 AND body_check != 0"
        with errors_named(self.path):
            return {seq for seq in rows if seq is not None and self._db.execute(query, (seq,)).fetchone()}

    def blanked_after(self, seq: int) -> set[int]:
        """Return the rows after a number whose content was erased."""
        query = "SELECT seq FROM events WHERE seq > ? AND length(body) = 0 AND body_check != 0"
        with errors_named(self.path):
            return {row for (row,) in self._db.execute(query, (seq,))}

    def to_blank(self) -> list[int]:
        """Return the rows that were erased, by another host, and still have their content."""
        query = "SELECT 1 FROM events WHERE seq = ? AND length(body) > 0"
        with errors_named(self.path):
            return [seq for seq in sorted(self.erased()) if self._db.execute(query, (seq,)).fetchone()]

    def first_not_erased(self) -> int | None:
        """Return the first row of an erasure, by another host, whose content is still here."""
        query = (
            "SELECT min(erasure.seq) FROM events erasure JOIN events erased ON erased.seq = erasure.source "
            "WHERE erasure.action = 'erase' AND length(erased.body) > 0"
        )
        with errors_named(self.path):
            found: int | None = self._db.execute(query).fetchone()[0]
        return found

    def last_erasure(self) -> int:
        """Return the row of the last erasure, or 0."""
        with errors_named(self.path):
            query = "SELECT coalesce(max(seq), 0) FROM events WHERE action = 'erase'"
            return int(self._db.execute(query).fetchone()[0])

    def blank(self, rows: Sequence[int]) -> None:
        """Erase the content of rows with zeros."""
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("UPDATE events SET body = x'' WHERE seq = ?", [(seq,) for seq in rows])
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        self.settle()

    def body(self, seq: int) -> bytes:
        """Return the body of a row, checked."""
        return self.content(seq)[0]

    def reader_of(self, seq: int) -> int | None:
        """Return the version of the reader of a row's message; None where it was stored as columns."""
        with errors_named(self.path):
            query = f"SELECT {self._column('reader')} FROM events WHERE seq = ?"
            found: tuple[int | None] | None = self._db.execute(query, (seq,)).fetchone()
        return None if found is None else found[0]

    def content(self, seq: int) -> tuple[bytes, int | None]:
        """Return the body of a row, checked, and the version of its reader."""
        return next(self.bodies([seq]))

    def bodies(self, rows: Iterable[int]) -> Iterator[tuple[bytes, int | None]]:
        """Like `content` for many rows."""
        query = f"SELECT body_check, body, {self._column('reader')} FROM events WHERE seq = ?"
        with errors_named(self.path):
            cursor = self._db.cursor()
            for seq in rows:
                row = cursor.execute(query, (seq,)).fetchone()
                if row is not None and row[1] == b"" and row[0] and seq in self.erased():
                    raise BadModel(f"The content of row {seq} of {self.path} was erased and can't be restored.")
                if row is None or not isinstance(row[1], bytes) or crc32(row[1]) != row[0]:
                    raise BadModel(
                        f"The content of row {seq} of {self.path} is damaged or missing. Restore it from a copy."
                    )
                yield row[1], row[2]

    def times(self, action: str) -> dict[int, float]:
        """Return the times of the rows of an action other than learning and forgetting, by row."""
        with errors_named(self.path):
            return dict(self._db.execute(f"SELECT seq, time FROM events WHERE {NOT_LESSONS} AND action = ?", (action,)))

    def lessons(self) -> tuple[int, float | None]:
        """Return the number of learnt messages, and the time of the latest lesson."""
        with errors_named(self.path):
            lessons = "events WHERE action IN ('learn', 'forget')"
            query = f"SELECT 2 * sum(action = 'learn') - count(*), max(seq), time FROM {lessons}"  # that row's time
            learnt, _, last = self._db.execute(query).fetchone()
        return learnt or 0, last

    # ---- the whole

    def settle(self) -> None:
        """Checkpoint the write-ahead log, as far as readers allow."""
        with errors_named(self.path):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def problems(self, progress: Callable[[str, int, int | None], None] | None = None) -> list[str]:
        """Return the problems that SQLite finds in the file, and rows with damaged content."""
        total, done = self.last(), 0
        with errors_named(self.path):
            problems = [
                f"{self.path} is damaged: {row[0]}."
                for row in self._db.execute("PRAGMA integrity_check(10)") if row[0] != "ok"
            ]  # fmt: skip
            erased = self.erased()
            for seq, check, body in self._db.execute("SELECT seq, body_check, body FROM events"):
                done += 1
                if seq in erased and body == b"":
                    continue
                if not isinstance(body, bytes) or crc32(body) != check:
                    problems.append(f"The content of row {seq} of {self.path} is damaged. Restore it from a copy.")
                if progress is not None and done % 256 == 0:
                    progress("checking rows", done, total)
        return problems

    def unmarked_rows(self) -> dict[int, int]:
        """Return the rows with an unrecorded checksum of numpy strings, each with its form."""
        forms = {event.seq: event.true_form() or REPR for event in self._events("head_check >> 32 = 0 ORDER BY seq")}
        return {seq: form for seq, form in forms.items() if form != REPR}

    def mark_rows(self) -> int:
        """Record the form of the checksum in the rows of `unmarked_rows`; return their number. The lock is held.

        The checksums stay, and with them the running one in the model's manifest.
        """
        forms = self.unmarked_rows()
        if not forms:
            return 0
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany(
                    "UPDATE events SET head_check = head_check + ? WHERE seq = ? AND head_check >> 32 = 0",
                    [(in_form(0, form), seq) for seq, form in forms.items()],
                )
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        return len(forms)

    def vacuum(self) -> None:
        """Rewrite the file without free space."""
        with errors_named(self.path):
            self._db.execute("VACUUM")
        self.settle()

    def copy_to(self, path: str) -> None:
        """Write a consistent copy while other processes read and write."""
        with errors_named(self.path):
            self._db.execute("VACUUM INTO ?", (path,))  # an existing empty file keeps its permissions

    def close(self) -> None:
        """Close the file."""
        self._db.close()
