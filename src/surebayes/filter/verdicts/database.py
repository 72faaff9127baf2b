"""The SQLite file of remembered verdicts in the filter's folder, which its processes share.

It has a write-ahead log and two kinds of commit: a potential alarm is flushed to disk before the answer (``FULL``); the
system flushes verdicts that can only pay back (``NORMAL``). Every write transaction locks the file at its start, so no
two processes spend the same alarm. The module doesn't import numpy.
"""

import os
import sqlite3

from surebayes.filter.plain_values import plain_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NAME = "verdicts.sqlite"
VERSION = 1
LABELLED_AT = "told"
"""The column with the arrival time of a correct label."""
LOG_PAGES = 200
"""Pages of the log at which it is checkpointed into the main file; every opening process reads the whole log."""
_TIMEOUT, _MOMENT = 20.0, 0.5

_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value);
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, fingerprint TEXT NOT NULL, person TEXT NOT NULL, time REAL NOT NULL,
    model TEXT NOT NULL, label TEXT NOT NULL, flagged INTEGER NOT NULL, score REAL NOT NULL, threshold REAL NOT NULL,
    scores TEXT NOT NULL, asked INTEGER NOT NULL, truth TEXT, told REAL, who TEXT, counted TEXT NOT NULL DEFAULT '',
    taught TEXT, sender TEXT, subject TEXT, message_id TEXT, UNIQUE (fingerprint, person)
);
CREATE INDEX unknown ON verdicts (flagged, time) WHERE truth IS NULL;
CREATE INDEX truths ON verdicts (truth, told, flagged, label) WHERE truth IS NOT NULL AND asked = 1;
CREATE INDEX in_time ON verdicts (time);
CREATE INDEX by_person ON verdicts (person, time);
CREATE INDEX by_label ON verdicts (label, time);
CREATE INDEX by_message_id ON verdicts (message_id) WHERE message_id IS NOT NULL;
CREATE TABLE contents (
    id INTEGER PRIMARY KEY REFERENCES verdicts ON DELETE CASCADE, content BLOB NOT NULL
);
CREATE TABLE theirs (
    id INTEGER NOT NULL REFERENCES verdicts ON DELETE CASCADE, field TEXT NOT NULL, score REAL NOT NULL, threshold REAL,
    verdict INTEGER, PRIMARY KEY (id, field)
) WITHOUT ROWID;
CREATE TABLE budgets (
    label TEXT PRIMARY KEY, place INTEGER NOT NULL, rate REAL NOT NULL, burst REAL NOT NULL, debt INTEGER NOT NULL,
    alarms INTEGER NOT NULL, negatives INTEGER NOT NULL, threshold REAL, mute INTEGER NOT NULL, lift REAL NOT NULL,
    spare INTEGER NOT NULL, scored INTEGER NOT NULL, allowed INTEGER NOT NULL, next_at INTEGER NOT NULL, dropped REAL,
    told INTEGER NOT NULL, presumed INTEGER NOT NULL
);
CREATE TABLE scores (id INTEGER PRIMARY KEY, label TEXT NOT NULL, positive INTEGER NOT NULL, score REAL NOT NULL);
CREATE INDEX ranks ON scores (label, positive, score);
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, label TEXT NOT NULL, kind TEXT NOT NULL,
    documents INTEGER NOT NULL, debt REAL NOT NULL, lift REAL NOT NULL, spare INTEGER NOT NULL, fingerprint TEXT,
    who TEXT
);
"""
_ALARMS = """
CREATE TABLE IF NOT EXISTS alarms (
    fingerprint TEXT NOT NULL, person TEXT NOT NULL, label TEXT NOT NULL, answers INTEGER NOT NULL,
    known INTEGER NOT NULL, PRIMARY KEY (fingerprint, person, label)
) WITHOUT ROWID
"""
"""The table of alarms whose verdicts were deleted; created at its first use."""
EXCHANGE = """
CREATE TABLE changed (id INTEGER PRIMARY KEY, counted TEXT NOT NULL, sending INTEGER NOT NULL DEFAULT 0);
CREATE TABLE changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, label TEXT NOT NULL, value TEXT NOT NULL,
    row INTEGER, place INTEGER
);
CREATE TABLE common (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
"""The tables of a memory that several hosts share: unsent verdicts, with the budgets that had counted them before;
unsent changes of budgets and counts; and the budgets and counts of all hosts without these changes."""
HOSTS = 1024
"""Maximum number of hosts: verdict numbers of different hosts differ modulo this number."""
_STRANGE = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')"


class Database:
    """A connection to the file of a folder.

    Parameters
    ----------
    folder : str
        The filter's folder.
    create : bool
        Whether to create a missing file.
    """

    def __init__(self, folder: str, create: bool = False) -> None:
        self.path = os.path.join(folder, NAME)
        self._flushes: bool | None = None
        self._has_alarms = self._is_exchanged = False
        self._folder = folder
        self.about: tuple[int, int] | None = None
        self.is_prepared = False  # whether searches have made their indexes and functions
        if create and not os.path.exists(self.path):
            _make(folder, self.path)
        try:
            self.connection = _connected(self.path)
            self._check()
        except FileNotFoundError:
            from surebayes.errors import BadModel

            raise BadModel(
                f"{self.path} is missing. It held the debt of the filter's alarm budget. Restore it from a copy, "
                "or start a new budget with `surebayes calibrate --budget`."
            ) from None
        except sqlite3.Error as error:
            self.failed(error)

    def _check(self) -> None:
        """Refuse a file of another format, or with views or triggers, which would run on access."""
        version = self.connection.execute("PRAGMA user_version").fetchone()[0]
        if version == VERSION and not self.connection.execute(_STRANGE).fetchone()[0]:
            return
        self.connection.close()
        from surebayes.errors import BadModel, NewerModel

        if version > VERSION:
            raise NewerModel(f"{self.path} has format version {version}; this release reads up to {VERSION}.")
        raise BadModel(
            f"{self.path} is not a file of remembered verdicts, or has views or triggers. Restore it from a copy."
        )

    @property
    def has_alarms(self) -> bool:
        """Whether the table of alarms exists."""
        if not self._has_alarms:
            self._has_alarms = bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = 'alarms'"))
        return self._has_alarms

    def make_alarms(self) -> None:
        """Create the table of alarms; call it in a transaction."""
        if not self.has_alarms:
            self.run(_ALARMS)

    # ---- for the other hosts

    @property
    def is_exchanged(self) -> bool:
        """Whether several hosts share these verdicts."""
        if not os.path.exists(os.path.join(self._folder, "journal.url")):
            return False
        if not self._is_exchanged:
            self._is_exchanged = bool(self.rows("SELECT 1 FROM sqlite_master WHERE name = 'changes'"))
        return self._is_exchanged

    def number(self) -> "int | None":
        """Return the number of the next verdict, higher than all numbers in the file; None if SQLite chooses it."""
        if not self.is_exchanged:
            return None
        slot, last = self.rows(
            "SELECT (SELECT value FROM facts WHERE name = 'slot'), "
            "(SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'verdicts')"
        )[0]
        return (int(last) // HOSTS + 1) * HOSTS + int(slot)

    def mark(self, which: str, values: "tuple[Any, ...]") -> None:
        """Mark verdicts that match a condition for the other hosts, before they change; call it in a transaction."""
        if self.is_exchanged:
            self.run(
                f"INSERT INTO changed (id, counted) SELECT id, counted FROM verdicts WHERE {which} "
                "ON CONFLICT DO UPDATE SET counted = iif(sending, excluded.counted, counted), sending = 0",
                values,
            )

    def note(self, kind: str, label: str, *value: "Any") -> None:
        """Record a change of a budget or of counts for the other hosts; call it in a transaction.

        If `about` is set, it is the verdict and the place for which the change counts.
        """
        if self.is_exchanged:
            import json

            plain = [each if isinstance(each, list | dict) else plain_value(each, "a value") for each in value]
            self.run(
                "INSERT INTO changes (kind, label, value, row, place) VALUES (?, ?, ?, ?, ?)",
                (kind, plain_value(label, "a label"), json.dumps(plain), *(self.about or (None, None))),
            )

    def use(self, flush: bool) -> None:
        """Set whether a transaction is flushed, and its lock timeout: short for optional writes."""
        if flush is not self._flushes:
            self.run(f"PRAGMA synchronous={'FULL' if flush else 'NORMAL'}")
            self.run(f"PRAGMA busy_timeout={int(1000 * (_TIMEOUT if flush else _MOMENT))}")
            self._flushes = flush

    def rows(self, query: str, values: "tuple[Any, ...] | dict[str, Any]" = ()) -> "list[Any]":
        """Return the rows of a query."""
        try:
            return self.connection.execute(query, _plain(values)).fetchall()
        except sqlite3.Error as error:
            self.failed(error)

    def run(self, statement: str, values: "tuple[Any, ...]" = ()) -> int:
        """Run a statement; return the number of changed rows."""
        try:
            return self.connection.execute(statement, _plain(values)).rowcount
        except sqlite3.Error as error:
            self.failed(error)

    def writing(self, flush: bool = True) -> "_WriteScope":
        """Return a context manager for an atomic transaction, on disk at its end if `flush`."""
        return _WriteScope(self, flush)

    def failed(self, error: "sqlite3.Error") -> "NoReturn":
        """Raise our error for one of SQLite's."""
        from surebayes.filter.store.journal_file import errors_named

        with errors_named(self.path):
            raise error
        raise AssertionError  # never reached: leaving the context raises

    def copy_to(self, path: str) -> None:
        """Write a consistent copy while other processes read and write."""
        self.run("VACUUM INTO ?", (path,))
        copy = _connected(path)
        copy.execute("PRAGMA journal_mode=WAL")
        copy.close()

    def bytes_taken(self) -> int:
        """Return the bytes in use, without free pages."""
        pages, free, size = [
            self.rows(f"PRAGMA {name}")[0][0] for name in ("page_count", "freelist_count", "page_size")
        ]
        return int((pages - free) * size)

    def settle(self) -> None:
        """Checkpoint the log, as far as readers allow, to remove deleted content from both files."""
        self.run("PRAGMA wal_checkpoint(TRUNCATE)")

    def problems(self) -> "list[str]":
        """Return the problems that SQLite finds in the file."""
        return [f"{self.path}: {text}" for (text,) in self.rows("PRAGMA quick_check") if text != "ok"]

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


class _WriteScope:
    """A transaction that takes the write lock at its start."""

    def __init__(self, database: Database, flush: bool) -> None:
        self.database, self.flush = database, flush

    def __enter__(self) -> None:
        self.database.use(self.flush)
        self.database.run("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.database.about = None
        if kind is None:
            try:
                self.database.connection.execute("COMMIT")
                return
            except sqlite3.Error as failure:
                self._undo()
                self.database.failed(failure)
        self._undo()

    def _undo(self) -> None:
        if self.database.connection.in_transaction:
            self.database.connection.execute("ROLLBACK")


def _plain(values: "tuple[Any, ...] | dict[str, Any]") -> "tuple[Any, ...] | dict[str, Any]":
    """Return values as plain types for SQLite: labels and numbers may come from arrays."""
    if isinstance(values, dict):
        return {name: plain_value(value, name) for name, value in values.items()}
    return tuple([plain_value(value, "a value") for value in values])


def _connected(path: str) -> "sqlite3.Connection":
    os.stat(path)  # SQLite would create a missing file
    connection = sqlite3.connect(path, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
    connection.execute("PRAGMA foreign_keys=ON")  # deleting a verdict deletes its content
    connection.execute("PRAGMA secure_delete=ON")
    return connection


def _make(folder: str, path: str) -> None:
    """Create the file under a temporary name and rename it, unless another process has created it."""
    from contextlib import suppress

    from surebayes.persist.folder import adopt_named, flush_folder, locked

    name = f".tmp-{os.getpid()}-{os.urandom(4).hex()}-{NAME}"
    beside = os.path.join(folder, name)
    with locked(folder):  # the holder may remove leftovers of other processes
        if os.path.exists(path):
            return
        try:
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            adopt_named(folder, name)
            connection = _connected(beside)
            try:
                connection.executescript(_SCHEMA)
                connection.execute(f"PRAGMA user_version={VERSION}")
                connection.execute("PRAGMA journal_mode=WAL")
            finally:
                connection.close()
            os.rename(beside, path)
            flush_folder(folder)
        finally:
            for each in (beside, f"{beside}-wal", f"{beside}-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(each)
