"""The journal's SQLite file: made with the folder's permissions, and read without a trace.

A database with a write-ahead log has two more files while it is open, and every process that opens it creates them,
even to read. In a shared folder they would belong to a reader and lock other users out. So a reader opens the file as
immutable if there is no log, joins the processes that have it open if there is one, and reads a copy if a crash left
the log behind. Large first trainings are written directly into the main file (`without_log`), with a rollback journal,
which a crash leaves behind, too.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time

from surebayes.errors import BadModel, Busy, is_mistake_in_query
from surebayes.filter.store.events import COLUMNS
from surebayes.persist.folder import adopt, adopt_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NAME = "journal.sqlite"
SHARED = "journal.url"
"""The file in a folder whose journal is a copy of one in a database that other hosts use, too."""
WAITING = "waiting.sqlite"
"""The file with lessons that wait for that database."""
FOLLOWS = "follows.json"
"""The file in a folder whose journal is a copy of a shipped one."""
SHIPS = "ships.json"
"""The file in a folder whose journal is shipped to followers."""
PAGE, SMALL_PAGE = 16384, 4096
"""Bytes of a page of a new file: most messages fit into a large page, which cuts SQLite's share of a training by a
third; with small pages a file of few messages takes a quarter of the room."""
MANY = 1000
"""Minimum number of first rows that bypass the log. The log would write and read them again, half of SQLite's CPU time
in a training."""
LOG = 4 * 2**20
"""Bytes of the write-ahead log that trigger a checkpoint, as far as readers allow."""

EVENTS = f"CREATE TABLE events ({', '.join(f'{column.name} {column.declared}' for column in COLUMNS)})"
FACTS = "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
NOT_LESSONS = "action NOT IN ('learn', 'forget')"
INDEXES = {
    "by_fingerprint": "ON events (fingerprint) WHERE fingerprint IS NOT NULL",
    "by_message_id": "ON events (message_id) WHERE message_id IS NOT NULL",
    "by_action": f"ON events (action) WHERE {NOT_LESSONS}",
}
MADE_BY_1 = {("table", "facts"), ("index", "sqlite_autoindex_facts_1"), ("table", "events")}
MADE = MADE_BY_1 | {("index", name) for name in INDEXES}
"""Tables and indexes of the file, and those of version 1."""


def open_for_writing(folder: str, create: bool = False, page: int = PAGE) -> sqlite3.Connection:
    """Open the journal's file for writing; a transaction is on disk when it has ended."""
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
            connection.execute("PRAGMA secure_delete=ON")  # erased content is overwritten
            _use_log(connection)
        except BaseException:
            connection.close()
            raise
    adopt_named(folder, f"{NAME}-wal", f"{NAME}-shm")
    return connection


@contextlib.contextmanager
def without_log(connection: sqlite3.Connection, folder: str, wanted: bool = True) -> Iterator[None]:
    """Write a transaction directly into the main file, if no other process or connection has it open.

    Otherwise it passes through the log as usual. If another process opens the file, the next writer switches
    back to the log. An open transaction without changes is rolled back. The caller holds the folder's lock.
    """
    if not wanted:
        yield
        return
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA synchronous=EXTRA")  # otherwise a committed transaction might be lost
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
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # creates the files of the log


def open_for_reading(folder: str) -> sqlite3.Connection:
    """Open the journal's file for reading, without creating any other file, even with write permission.

    Earlier writes are visible; later ones are visible if the log existed.
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


_RECENT = 50_000_000
"""Nanoseconds. A second write within one tick of the file system's clock would leave the time of a file as it is."""


class FileStamps:
    """The state of the journal's files at one moment.

    Parameters
    ----------
    folder : str
        The folder.
    """

    __slots__ = ("_folder", "_is_certain", "_stamps")

    def __init__(self, folder: str) -> None:
        now, self._folder, self._stamps = time.time_ns(), folder, _stamps_of(folder)
        self._is_certain = all(stamp is None or stamp[2] < now - _RECENT for stamp in self._stamps)

    def are_current(self) -> bool:
        """Whether no file has certainly been written since; False where it was written shortly before."""
        return self._is_certain and self._stamps == _stamps_of(self._folder)


def _stamps_of(folder: str) -> list[tuple[int, int, int] | None]:
    stamps: list[tuple[int, int, int] | None] = []
    for name in (NAME, f"{NAME}-wal", f"{NAME}-journal"):
        try:
            status = os.stat(os.path.join(folder, name))
        except FileNotFoundError:
            stamps.append(None)
        else:
            stamps.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return stamps


def is_shared(folder: str) -> bool:
    """Whether the journal of a folder is a copy of one in a database."""
    return os.path.exists(os.path.join(folder, SHARED))


def is_copy(folder: str) -> bool:
    """Whether rows come from elsewhere: from a database, or from a shipped journal."""
    return is_shared(folder) or os.path.exists(os.path.join(folder, FOLLOWS))


def kind_of(folder: str) -> str:
    """Return the name of the file that makes a folder's journal more than its own; "" without one."""
    return next((name for name in (SHARED, FOLLOWS, SHIPS) if os.path.exists(os.path.join(folder, name))), "")


def name_of(facts: dict[str, str]) -> str:
    """Return a journal's name outside its folder: its ID and a digest of its key, since IDs are short.

    Examples
    --------
    >>> name_of({"id": "0a1b2c3d", "key": "00"})
    '0a1b2c3d-6aa0c21d1d6b684f'
    """
    from hashlib import blake2b

    return f"{facts['id']}-{blake2b(facts['key'].encode(), digest_size=8).hexdigest()}"


def has_rows(folder: str) -> bool:
    """Whether the journal of a folder has any row."""
    connection = open_for_reading(folder)
    try:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name != 'facts'"
        ).fetchall()
        return any(connection.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone() for (name,) in tables)
    finally:
        connection.close()


def _copy(path: str) -> sqlite3.Connection:
    """Open a copy of the file and its log: the log is copied first, so that a concurrent checkpoint loses nothing.

    Closing a file releases the locks that SQLite holds on it in this process. None are held here: every process with
    the file open has created the third file, which is missing.
    """
    import shutil
    import tempfile

    scratch = tempfile.TemporaryDirectory(prefix="surebayes-")
    try:
        copied = os.path.join(scratch.name, NAME)
        for log in ("-journal", "-wal"):
            with contextlib.suppress(FileNotFoundError):  # closed in the meantime: the file has everything
                shutil.copyfile(path + log, copied + log)
        shutil.copyfile(path, copied)
        with errors_named(path):
            return _checked(_connect(copied, "rw"))
    finally:
        scratch.cleanup()  # the open file stays readable, and a kill leaves nothing behind


def _connect(path: str, mode: str, more: str = "") -> sqlite3.Connection:
    uri = f"file:{quoted(os.path.abspath(path))}?mode={mode}{'&' if more else ''}{more}"
    return sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None, check_same_thread=False)


def _checked(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Read once: SQLite opens a file only then."""
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


_PLAIN = frozenset("/-_.~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def quoted(path: str) -> str:
    """Quote a path for a URI.

    Examples
    --------
    >>> quoted("/a b/50%?")
    '/a%20b/50%25%3F'
    """
    if _PLAIN.issuperset(path):
        return path
    return "".join([chr(c) if chr(c) in _PLAIN else f"%{c:02X}" for c in os.fsencode(path)])


class errors_named:
    """Translate SQLite's errors about a file into ours; errors in our queries remain unchanged.

    Parameters
    ----------
    path : str
        The file.
    is_known : bool
        Whether its tables and columns were checked: then one that SQLite doesn't find is an error in the query.
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
            raise OSError(f"{self.path} can't be used: {text}. Check the free space of the disk.") from error
        if self.is_known and is_mistake_in_query(error):
            return
        raise BadModel(f"{self.path} is damaged, or not a journal of surebayes: {text}.") from error

    def _permissions(self, error: sqlite3.Error) -> None:
        """Raise PermissionError if a file or the folder isn't writable."""
        for path in (self.path, f"{self.path}-wal", f"{self.path}-shm", os.path.dirname(self.path) or "."):
            if os.path.exists(path) and not os.access(path, os.W_OK):
                raise PermissionError(13, "Permission denied", path) from error
