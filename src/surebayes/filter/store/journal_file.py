"""The journal's SQLite file: made with the folder's permissions, and read without a trace.

A database with a write-ahead log has two more files while it is open, and whoever opens it makes them, even to read.
In a folder that users share they would belong to a reader, and lock the others out. So a reader opens the file as one
that doesn't change where there is no log; where there is one, it joins those who have it open; and where a log was
left behind by a crash, it reads a copy. Many first rows are written right into the main file (`without_log`), beside a
file of what was there before, which a crash leaves behind, too.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3

from surebayes.errors import BadModel, Busy
from surebayes.filter.store.events import COLUMNS
from surebayes.persist.folder import adopt, adopt_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NAME = "journal.sqlite"
PAGE, SMALL_PAGE = 16384, 4096
"""Bytes of a page of a new file: few messages need more than one of the larger ones, so that SQLite takes a third less
of a training; a file of few messages takes a quarter of the room with the smaller ones."""
MANY = 1000
"""First rows of a file from which on they don't go through the log: that writes and reads them once more, half of
SQLite's CPU time of a training."""
LOG = 4 * 2**20
"""Bytes of the write-ahead log from which on it is moved into the main file, as far as readers allow."""

EVENTS = f"CREATE TABLE events ({', '.join(f'{column.name} {column.declared}' for column in COLUMNS)})"
FACTS = "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
OTHERS = "action NOT IN ('learn', 'forget')"
INDEXES = {
    "by_fingerprint": "ON events (fingerprint) WHERE fingerprint IS NOT NULL",
    "by_message_id": "ON events (message_id) WHERE message_id IS NOT NULL",
    "by_action": f"ON events (action) WHERE {OTHERS}",
}
MADE_BY_1 = {("table", "facts"), ("index", "sqlite_autoindex_facts_1"), ("table", "events")}
MADE = MADE_BY_1 | {("index", name) for name in INDEXES}
"""What the file has made in it: tables and indexes, and what those of version 1 are."""


def open_for_writing(folder: str, create: bool = False, page: int = PAGE) -> sqlite3.Connection:
    """Open the journal's file; what is written to it is on disk when a transaction has ended."""
    path = os.path.join(folder, NAME)
    if create:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            adopt(handle, folder)
        finally:
            os.close(handle)
    else:
        adopt_named(folder, NAME)
    with errors_named(path):
        connection = _connect(path, "rw")
        try:
            if create:
                connection.execute(f"PRAGMA page_size={page}")
            pages = LOG // connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA wal_autocheckpoint={pages}")
            connection.execute("PRAGMA secure_delete=ON")  # what is erased is overwritten
            _use_log(connection)
        except BaseException:
            connection.close()
            raise
    adopt_named(folder, f"{NAME}-wal", f"{NAME}-shm")
    return connection


@contextlib.contextmanager
def without_log(connection: sqlite3.Connection, folder: str, wanted: bool = True) -> Iterator[None]:
    """Have a transaction written right into the main file, where no other process or connection has it open.

    Where one has, it goes through the log as ever; where one comes meanwhile, the next who opens the file to write goes
    back to the log. One that has begun, and changed nothing, is given up. The caller holds the folder's lock.
    """
    if not wanted:
        yield
        return
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA synchronous=EXTRA")  # or a transaction that has ended might come undone
    except sqlite3.OperationalError:
        pass
    try:
        yield
    finally:
        with contextlib.suppress(sqlite3.OperationalError):
            _use_log(connection)
        adopt_named(folder, f"{NAME}-wal", f"{NAME}-shm")


def _use_log(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # makes the files of the log, if need be


def open_for_reading(folder: str) -> sqlite3.Connection:
    """Open the journal's file without making any other, also where this process may write to the folder.

    What was written before is seen; what is written later is seen where the log was there already.
    """
    path = os.path.join(folder, NAME)
    with errors_named(path):
        in_place = os.path.exists(path + "-journal")  # rows are being written into the file, or a crash ended that
        if not in_place and not _size(path + "-wal"):
            return _checked(_connect(path, "ro", "immutable=1"))
        if in_place or os.path.exists(path + "-shm"):
            try:
                return _checked(_connect(path, "ro"))
            except sqlite3.OperationalError:
                pass  # not to be read by this process, or gone since
    return _copy(path)


def has_rows(folder: str) -> bool:
    """Whether anything was ever written to the journal of a folder, apart from its own name."""
    connection = open_for_reading(folder)
    try:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'facts'"
        ).fetchall()
        return any(connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone() for (name,) in tables)
    finally:
        connection.close()


def _copy(path: str) -> sqlite3.Connection:
    """Open a copy of the file and its log: the log first, so that what is moved from it meanwhile is in both.

    To close a file releases the locks that SQLite holds on it in this process; none are held where this is called,
    since who has the file open has made the third file, which is missing here.
    """
    import shutil
    import tempfile

    scratch = tempfile.TemporaryDirectory(prefix="surebayes-")
    try:
        copied = os.path.join(scratch.name, NAME)
        for log in ("-journal", "-wal"):
            with contextlib.suppress(FileNotFoundError):  # whoever had it open may close it now: the file has it all
                shutil.copyfile(path + log, copied + log)
        shutil.copyfile(path, copied)
        with errors_named(path):
            return _checked(_connect(copied, "rw"))
    finally:
        scratch.cleanup()  # it stays for as long as it is open, and nothing is left of it when the process is killed


def _connect(path: str, mode: str, more: str = "") -> sqlite3.Connection:
    uri = f"file:{quoted(os.path.abspath(path))}?mode={mode}{'&' if more else ''}{more}"
    return sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None, check_same_thread=False)


def _checked(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Read something: SQLite opens a file no sooner."""
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def quoted(path: str) -> str:
    """Write a path as a URI has it.

    Examples
    --------
    >>> quoted("/a b/50%?")
    '/a%20b/50%25%3F'
    """
    plain = b"/-_.~"
    raw = os.fsencode(path)
    return "".join(chr(c) if c in plain or (chr(c).isascii() and chr(c).isalnum()) else f"%{c:02X}" for c in raw)


class errors_named:
    """Turn what SQLite says of a file into an error of ours; what it says of our own mistakes stays as it is.

    Parameters
    ----------
    path : str
        The file.
    is_known : bool
        Whether it was seen to have the tables and columns that are asked for: if so, one that SQLite doesn't find is a
        mistake in the query.
    """

    def __init__(self, path: str, is_known: bool = True) -> None:
        self.path, self.is_known = path, is_known

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, sqlite3.Error):
            return
        text = str(error)
        if "locked" in text or "busy" in text:
            raise Busy(f"Another process is writing to {self.path}: {text}. Try again when it is done.") from error
        if "unable to open" in text or "readonly" in text or "permission" in text:
            self._permissions(error)
        if "full" in text or "disk I/O" in text or "unable to open" in text or "readonly" in text:
            raise OSError(f"{self.path} could not be used: {text}. Is there room on the disk?") from error
        if self.is_known and _is_a_mistake(error):
            return
        raise BadModel(f"{self.path} is damaged, or no journal of surebayes: {text}.") from error

    def _permissions(self, error: sqlite3.Error) -> None:
        """Raise PermissionError where a file or the folder is not ours to write to."""
        for path in (self.path, f"{self.path}-wal", f"{self.path}-shm", os.path.dirname(self.path) or "."):
            if os.path.exists(path) and not os.access(path, os.W_OK):
                raise PermissionError(13, "Permission denied", path) from error


def _is_a_mistake(error: sqlite3.Error) -> bool:
    """Whether an error is about the query, or what was bound to it, and not about the file."""
    if isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError | sqlite3.NotSupportedError):
        return True
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
