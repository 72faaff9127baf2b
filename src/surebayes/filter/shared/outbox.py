"""Lessons of a host that wait on its disk until the database of the shared journal is back.

Each has a random key, which is committed together with its rows: a lesson that is sent twice counts once. A lesson
with an interrupted commit also has the checks of a row that identifies that commit.
"""

from __future__ import annotations

import os
import sqlite3
from collections import namedtuple

from surebayes.errors import BadModel, JournalAway
from surebayes.filter.store.journal_file import WAITING, errors_named
from surebayes.persist.folder import adopt, adopt_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from surebayes.filter.shared.journal import SharedJournal
    from surebayes.filter.state import Transaction
    from surebayes.filter.store.events import Lesson

LEARN, FORGET = "learn", "forget"
EACH = 500
"""Bytes that a lesson counts for besides its content."""
_SIZE = f"coalesce(sum(length(content) + {EACH}), 0)"
_VERSION = 1
_TABLE = (
    "CREATE TABLE waiting (number INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, "
    "fingerprint TEXT NOT NULL, label TEXT NOT NULL, content BLOB NOT NULL, message_id TEXT NOT NULL, who TEXT, "
    "time REAL NOT NULL, row INTEGER, head_check INTEGER, chain INTEGER)"
)


class WaitingLesson(
    namedtuple(
        "WaitingLesson",
        ("number", "key", "kind", "fingerprint", "label", "content", "message_id", "who", "time", "commit"),
    )
):
    """A lesson that waits.

    Attributes
    ----------
    number : int
        Its place in the order of lessons.
    key : bytes
        Its key.
    kind : {"learn", "forget"}
        The lesson.
    fingerprint, label, message_id : str
        The message, its label and its Message-ID; "" where there is none.
    content : bytes
        The part of the message that the views read.
    who : str or None
        The teacher.
    time : float
        The time of the lesson.
    commit : (int, int, int) or None
        The last row of a commit that may have counted it: number, own checksum and running checksum.
    """

    __slots__ = ()

    number: int
    key: bytes
    kind: str
    fingerprint: str
    label: str
    content: bytes
    message_id: str
    who: str | None
    time: float
    commit: tuple[int, int, int] | None


def is_there(folder: str) -> bool:
    """Whether lessons may wait in a folder."""
    return os.path.exists(os.path.join(folder, WAITING))


class Outbox:
    """The lessons that wait in a folder.

    Parameters
    ----------
    folder : str
        The filter's folder.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, WAITING)
        if not os.path.exists(self.path):
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                adopt(handle, folder)
            finally:
                os.close(handle)
        with errors_named(self.path):
            self._db = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
            try:
                self._db.execute("PRAGMA synchronous=FULL")
                self._db.execute("PRAGMA secure_delete=ON")
                version = self._db.execute("PRAGMA user_version").fetchone()[0]
                if version == 0:
                    self._db.execute("BEGIN IMMEDIATE")
                    if self._db.execute("PRAGMA user_version").fetchone()[0] == 0:
                        self._db.execute(_TABLE)
                        self._db.execute(f"PRAGMA user_version={_VERSION}")
                    self._db.execute("COMMIT")
                elif version != _VERSION:
                    raise BadModel(f"{self.path} was written by a later release. Upgrade surebayes.")
            except BaseException:
                self._db.close()
                raise
        adopt_named(folder, f"{WAITING}-journal")

    def add(self, lesson: WaitingLesson, most_bytes: int, cause: JournalAway) -> None:
        """Add a lesson; it is on disk on return.

        Raises
        ------
        JournalAway
            `cause` with an explanation, where the lessons would take more than `most_bytes`.
        """
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                taken = self._db.execute(f"SELECT {_SIZE} FROM waiting").fetchone()[0]
                if taken + len(lesson.content) + EACH > most_bytes:
                    raise JournalAway(
                        f"{cause} Waiting lessons have used up the {most_bytes:,} bytes of waiting_bytes: this one is "
                        "not kept."
                    ) from None
                values = (*lesson[1:9], *(lesson.commit or (None, None, None)))
                self._db.execute(f"INSERT INTO waiting VALUES (NULL{', ?' * len(values)})", values)
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def lessons(self) -> list[WaitingLesson]:
        """Return all lessons in their order."""
        with errors_named(self.path):
            rows = self._db.execute("SELECT * FROM waiting ORDER BY number").fetchall()
        return [WaitingLesson._make((*row[:9], None if row[9] is None else row[9:])) for row in rows]

    def take_over(self, lessons: Iterable[WaitingLesson]) -> None:
        """Add the lessons of another file with their keys, without the known ones; they are on disk on return."""
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for lesson in lessons:
                    values = (*lesson[1:9], *(lesson.commit or (None, None, None)))
                    self._db.execute(f"INSERT OR IGNORE INTO waiting VALUES (NULL{', ?' * len(values)})", values)
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove lessons that have been counted."""
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._db.executemany("DELETE FROM waiting WHERE number = ?", [(number,) for number in numbers])
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def size(self) -> tuple[int, int, float | None]:
        """Return the number of lessons, their bytes, and the time of the first."""
        with errors_named(self.path):
            query = f"SELECT count(*), {_SIZE}, min(time) FROM waiting"
            found: tuple[int, int, float | None] = self._db.execute(query).fetchone()
        return found

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def keep(
    folder: str,
    kind: str,
    fingerprint: str,
    label: str,
    content: bytes,
    message_id: str,
    lesson: Lesson,
    most_bytes: int,
    cause: JournalAway,
) -> None:
    """Keep a lesson until the database is back."""
    columns = lesson.columns()
    commit = getattr(cause, "row", None)
    outbox = Outbox(folder)
    try:
        key, author, when = os.urandom(16), columns["who"], columns["time"]
        waits = WaitingLesson(0, key, kind, fingerprint, label, content, message_id, author, when, commit)
        outbox.add(waits, most_bytes, cause)
    finally:
        outbox.close()


def waiting(folder: str) -> tuple[int, int, float | None]:
    """Return the number of lessons that wait in a folder, their bytes, and the time of the first."""
    if not is_there(folder):
        return 0, 0, None
    outbox = Outbox(folder)
    try:
        return outbox.size()
    finally:
        outbox.close()


# ---------------------------------------------------------------------- sending


def apply_all(folder: str, txn: Transaction) -> list[int]:
    """Apply the waiting lessons in order, except counted ones; return the numbers of all.

    The keys of the applied lessons are committed with the transaction.
    """
    from surebayes.filter.model import Features
    from surebayes.filter.store import contents
    from surebayes.filter.store.events import Lesson

    journal: SharedJournal = txn.journal  # type: ignore[assignment]
    outbox = Outbox(folder)
    try:
        lessons = outbox.lessons()
    finally:
        outbox.close()
    views = txn.state.engine.views
    for waiting in lessons:
        if journal.is_sent(waiting.key) or (waiting.commit is not None and journal.has(waiting.commit)):
            continue
        lesson = Lesson(waiting.who, waiting.time)
        if waiting.kind == FORGET:
            txn.forget(waiting.fingerprint, lesson)
        else:
            rows = contents.rows_of_kept(views, [waiting.content], contents.VERSION)
            features = Features.of_terms(waiting.fingerprint, rows, waiting.content, waiting.message_id)
            txn.learn(features, waiting.label, lesson)
        journal.sent.append(waiting.key)
    return [waiting.number for waiting in lessons]


def remove(folder: str, txn: Transaction, numbers: Sequence[int]) -> None:
    """Remove lessons whose transaction is committed; of lessons that changed nothing the keys are committed first."""
    journal: SharedJournal = txn.journal  # type: ignore[assignment]
    journal.commit_keys()
    outbox = Outbox(folder)
    try:
        outbox.remove(numbers)
    finally:
        outbox.close()
