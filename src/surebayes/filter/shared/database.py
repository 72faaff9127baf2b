"""Connections to a database of shared journals, with bounded waits and errors in our words.

A frozen server still has an open connection, so waits are bounded on this side, too. A connection is lent to one
transaction at a time and is kept for the next; a process has few, however many journals it has open.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

from surebayes.errors import (
    BadConfig,
    BadModel,
    Busy,
    JournalAway,
    JournalFull,
    NewerModel,
    SurebayesError,
)
from surebayes.filter.shared import schema
from surebayes.filter.shared.address import checked_url, without_password
from surebayes.filter.store.events import COLUMNS, NAMES, Row

try:
    import psycopg
    from psycopg import pq, sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:  # pragma: no cover - an installation without the extra
    raise ImportError("A journal in PostgreSQL needs psycopg. Install it: pip install 'surebayes[postgres]'") from error

PATIENCE = 10.0
"""Seconds without a word from the server after which it counts as away."""
CONNECT = 3.0
"""Seconds for a connection."""
PAUSE = 2.0
"""Seconds between a failed connection and the next attempt."""
CHANNEL = "surebayes"
"""The channel of notifications: a journal's name and its last row, at each commit."""
CHANNEL_OF_VERDICTS = "surebayes_verdicts"
"""The channel of notifications of exchanged verdicts: a journal's number and that of the exchange."""
CHUNK = 2000
"""Rows that are read at a time."""
_PART = 2**20
_COPY_FROM = 20  # rows from which COPY is quicker than INSERT
MOST = 12
"""Connections of a process to one database, besides the one that listens."""
_KEPT = 4  # idle connections of a process
_DENIED = ("password authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist",
           "permission denied", "certificate", "is not permitted to log in", "authentication failed")  # fmt: skip
_MISTAKEN = (
    "invalid sslmode",
    "invalid port",
    "invalid integer",
    "Servname not supported",
    "invalid connection option",
)
_OURS = ("42601", "42883", "42P02", "42P18", "42804")
"""Codes of mistakes in a query: its syntax, functions, parameters and types."""

Result = TypeVar("Result")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection whose waits end after `patience` seconds without an answer."""

    patience = PATIENCE

    def wait(self, gen: Generator[Any, Any, Result], *_: Any, **__: Any) -> Result:
        """Run a generator of psycopg; OperationalError where the server is silent for too long."""
        try:
            return _bounded(gen, self.pgconn.socket, self.patience)
        except BaseException:
            if self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                self.pgconn.finish()  # it is in an unknown state
            raise


def _bounded(gen: Generator[Any, Any, Result], handle: int, patience: float) -> Result:
    """Run a generator of psycopg, which yields the events to wait for."""
    poll = select.poll()
    try:
        wanted = next(gen)
        while True:
            poll.register(handle, (select.POLLIN if wanted & 1 else 0) | (select.POLLOUT if wanted & 2 else 0))
            events = poll.poll(patience * 1000)
            if not events:
                gen.close()
                raise psycopg.OperationalError(f"no answer for {patience:g} s")
            ready = (1 if events[0][1] & ~select.POLLOUT else 0) | (2 if events[0][1] & select.POLLOUT else 0)
            wanted = gen.send(ready)
    except StopIteration as done:
        result: Result = done.value
        return result


class _Pool:
    """The idle connections of a process to one database."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.idle: list[BoundedConnection] = []
        self.process = os.getpid()
        self.free = threading.BoundedSemaphore(MOST)
        self.failed: tuple[float, SurebayesError] | None = None


_pools: dict[str, _Pool] = {}
_inherited: list[_Pool] = []  # of the process that this one was forked from: their connections are its own
_pools_lock = threading.Lock()


def _pool(url: str) -> _Pool:
    with _pools_lock:
        pool = _pools.get(url)
        if pool is not None and pool.process != os.getpid():
            _inherited.append(pool)
            pool = None
        if pool is None:
            pool = _pools[url] = _Pool()
        return pool


@atexit.register
def close_idle() -> None:
    """Close the idle connections of this process."""
    with _pools_lock:
        for pool in _pools.values():
            while pool.idle and pool.process == os.getpid():
                pool.idle.pop().close()


def forget_failures() -> None:
    """Try connections again at once."""
    with _pools_lock:
        for pool in _pools.values():
            pool.failed = None


@contextlib.contextmanager
def named_errors(url: str) -> Iterator[None]:
    """Translate errors of the database into ours, without the password; mistakes in our queries remain unchanged."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, url) from None


def _translated(error: psycopg.Error, url: str) -> Exception:
    where, code, text = without_password(url), error.sqlstate or "", _server_message(error, url)
    if code == "42501":
        return PermissionError(
            f"{where} refuses: {text}. Use a role with the rights that `surebayes migrate --print-roles` shows."
        )
    if code in ("42P01", "3F000"):
        return BadModel(f"{where} has no journals of surebayes. Make its tables with `surebayes migrate`.")
    if code == "55P03":
        return Busy(f"Another host has been writing to {where} for too long. Try again when it is done.")
    if code == "25006":
        return JournalAway(
            f"{where} only reads: it is a replica. Name the primary, or add target_session_attrs=read-write."
        )
    if code.startswith("53") or code == "58030":
        return JournalFull(f"{where} can't write: {text}. Make room there, then try again.")
    if code in ("28000", "28P01", "3D000") or (not code and any(mark in text for mark in _DENIED)):
        return PermissionError(f"{where} refuses: {text}. Check user, password and database of the URL.")
    if not code and any(mark in text for mark in _MISTAKEN):
        return BadConfig(f"{where} is not a URL that PostgreSQL understands: {text}.")
    if code in _OURS or (not code and isinstance(error, (psycopg.ProgrammingError, psycopg.DataError))):
        return error
    if not code or code.startswith(("08", "57")) or isinstance(error, psycopg.OperationalError):
        return JournalAway(f"{where} can't be reached: {text}. Try again when it is back.")
    if code == "23505":
        return Busy(f"{where} was changed by a host without its lock. Try again.")
    return BadModel(f"{where} is damaged, or holds no journals of surebayes: {text}.")


def _server_message(error: psycopg.Error, url: str) -> str:
    """Return the first sentence of an error, without any secret of the URL."""
    text = " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return text.removeprefix("connection failed: ").rstrip(".")


def _secrets(url: str) -> list[str]:
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        return []
    return [str(parts[name]) for name in ("password", "sslpassword") if parts.get(name)]


def connected(url: str) -> BoundedConnection:
    """Return a new connection."""
    checked_url(url)
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        raise BadConfig(
            f"{without_password(url)!r} is not a URL of PostgreSQL. Write postgresql://user@host/database."
        ) from None
    settings: dict[str, Any] = {
        "connect_timeout": max(int(CONNECT), 2), "application_name": "surebayes", "keepalives_idle": 10,
        "keepalives_interval": 5, "keepalives_count": 3,
    }  # fmt: skip
    settings = {name: value for name, value in settings.items() if name not in given}
    with named_errors(url):
        connection = BoundedConnection.connect(url, autocommit=True, **settings)
        try:
            connection.execute("SET tcp_keepalives_idle = 10")
            connection.execute("SET tcp_keepalives_interval = 5")
            connection.execute("SET tcp_keepalives_count = 3")
            if connection.execute("SHOW synchronous_commit").fetchone() == ("off",):
                connection.execute("SET synchronous_commit = on")  # acknowledged lessons must be on disk
        except BaseException:
            connection.close()
            raise
        return connection


@contextlib.contextmanager
def lent(url: str, fresh: bool = False) -> Iterator[BoundedConnection]:
    """Lend a connection, one of at most `MOST` at a time.

    Raises
    ------
    JournalAway
        Where the database can't be reached.
    Busy
        Where no connection is returned for `PATIENCE` seconds.
    """
    pool = _pool(url)
    if not pool.free.acquire(timeout=PATIENCE):
        raise Busy(f"All {MOST} connections of this process to {without_password(url)} are in use. Try again.")
    try:
        with _lent(url, pool, fresh) as connection:
            yield connection
    finally:
        pool.free.release()


@contextlib.contextmanager
def _lent(url: str, pool: _Pool, fresh: bool) -> Iterator[BoundedConnection]:
    connection = None
    with pool.lock:
        if pool.failed is not None and time.monotonic() < pool.failed[0]:
            raise type(pool.failed[1])(*pool.failed[1].args)
        if pool.idle and not fresh:
            connection = pool.idle.pop()
    if connection is None:
        try:
            connection = connected(url)
        except JournalAway as error:
            with pool.lock:
                pool.failed = time.monotonic() + PAUSE, error
            raise
    try:
        yield connection
    finally:
        usable = not connection.closed and connection.pgconn.transaction_status == pq.TransactionStatus.IDLE
        with pool.lock:
            if usable and len(pool.idle) < _KEPT:
                pool.idle.append(connection)
                connection = None
        if connection is not None:
            connection.close()


def notifications(connection: BoundedConnection) -> list[str]:
    """Return the notifications that have arrived on a listening connection."""
    connection.pgconn.consume_input()
    found = []
    while (notification := connection.pgconn.notifies()) is not None:
        found.append(bytes(notification.extra).decode("utf-8", "replace"))
    return found


# ---------------------------------------------------------------------- tables


def check(connection: BoundedConnection, url: str) -> None:
    """Refuse a database without our tables, or with those of a later release."""
    version = tables_version(connection)
    if 0 < version <= schema.VERSION:
        return
    if version == 0:
        raise BadModel(
            f"{without_password(url)} has no journals of surebayes. Make its tables with `surebayes migrate`."
        )
    raise NewerModel(
        f"The tables in {without_password(url)} have version {version}; this release knows up to {schema.VERSION}. "
        "Upgrade surebayes on this host."
    )


def tables_version(connection: BoundedConnection) -> int:
    """Return the version of the tables; 0 without tables."""
    if connection.execute("SELECT to_regclass('surebayes.version')").fetchone() == (None,):
        return 0
    found = connection.execute("SELECT max(version) FROM surebayes.version").fetchone()
    return int(found[0]) if found and found[0] is not None else 0


def make_tables(url: str) -> None:
    """Make the tables, or upgrade them; nothing where they are there."""
    with lent(url) as connection, named_errors(url):
        if tables_version(connection) >= schema.VERSION:
            check(connection, url)
            return
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('surebayes tables', 0))")
            for version in range(tables_version(connection), schema.VERSION):
                connection.execute(schema.STEPS[version].encode())
                connection.execute("INSERT INTO surebayes.version VALUES (%s)", (version + 1,))


# ---------------------------------------------------------------------- journals


_PLACES = sql.SQL(", ").join([sql.Placeholder()] * (1 + len(NAMES)))
_COLUMNS = sql.SQL(", ").join([sql.Identifier(name) for name in ("journal", *NAMES)])
_INSERT = sql.SQL("INSERT INTO surebayes.events ({}) VALUES ({})").format(_COLUMNS, _PLACES)
_COPY = sql.SQL("COPY surebayes.events ({}) FROM STDIN (FORMAT BINARY)").format(_COLUMNS)
_SELECT = sql.SQL("SELECT {} FROM surebayes.events WHERE journal = %s AND seq >= %s ORDER BY seq LIMIT %s").format(
    sql.SQL(", ").join([sql.Identifier(name) for name in NAMES])
)
_BINARY = {"INTEGER": "int8", "TEXT": "text", "REAL": "float8", "BLOB": "bytea"}
_SQL_TYPES = ["int4", *[_BINARY[column.declared.split()[0]] for column in COLUMNS]]


def journal_number(connection: BoundedConnection, name: str, make: bool = False) -> int | None:
    """Return a journal's number; None if it is missing and must not be created."""
    query = "SELECT journal FROM surebayes.journals WHERE name = %s"
    found = connection.execute(query, (name,)).fetchone()
    if found is None and make:
        connection.execute("INSERT INTO surebayes.journals (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,))
        found = connection.execute(query, (name,)).fetchone()
    return None if found is None else int(found[0])


def journals(connection: BoundedConnection) -> list[tuple[int, str]]:
    """Return number and name of each journal, except those of personal layers."""
    has_layers = connection.execute("SELECT to_regclass('surebayes.layers')").fetchone() != (None,)
    which = "WHERE journal NOT IN (SELECT journal FROM surebayes.layers)" if has_layers else ""
    rows = connection.execute(f"SELECT journal, name FROM surebayes.journals {which} ORDER BY 1".encode())
    return [(int(number), str(name)) for number, name in rows]


def lock(connection: BoundedConnection, journal: int, wait: float, what: str = "journal") -> None:
    """Take the lock of a journal, or of its verdicts, until `unlock` or the end of the connection.

    Raises
    ------
    Busy
        After `wait` seconds, from `named_errors`.
    """
    try:
        connection.patience = CONNECT  # a frozen server doesn't answer this
        connection.execute(f"SET lock_timeout = {max(int(wait * 1000), 1)}".encode())
        connection.patience = wait + PATIENCE
        connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (f"surebayes {what} {journal}",))
    finally:
        connection.patience = PATIENCE


def unlock(connection: BoundedConnection, journal: int, what: str = "journal") -> None:
    """Release the lock of a journal; a connection that fails has released it."""
    with contextlib.suppress(psycopg.Error):
        connection.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (f"surebayes {what} {journal}",))
        return
    connection.close()


def rows_from(connection: BoundedConnection, journal: int, first: int) -> list[Row]:
    """Return rows from a number on, up to `CHUNK` and one."""
    rows: list[Row] = connection.cursor(binary=True).execute(_SELECT, (journal, first, CHUNK + 1)).fetchall()
    return rows


def last_row(connection: BoundedConnection, journal: int) -> int:
    """Return the last row number, or 0."""
    query = "SELECT seq FROM surebayes.events WHERE journal = %s ORDER BY seq DESC LIMIT 1"
    found = connection.execute(query, (journal,)).fetchone()
    return 0 if found is None else int(found[0])


def facts(connection: BoundedConnection, journal: int) -> dict[str, str]:
    """Return the facts about a journal; of several values of a name the last one holds."""
    query = "SELECT name, value FROM surebayes.facts WHERE journal = %s ORDER BY number"
    return {str(name): str(value) for name, value in connection.execute(query, (journal,))}


def add_facts(connection: BoundedConnection, journal: int, new: dict[str, str]) -> None:
    """Add facts about a journal."""
    for name, value in new.items():
        connection.execute(
            "INSERT INTO surebayes.facts (journal, name, value) VALUES (%s, %s, %s)", (journal, name, value)
        )


def append(
    connection: BoundedConnection,
    journal: int,
    name: str,
    rows: Sequence[Row],
    blank: Sequence[int] = (),
    keys: Sequence[bytes] = (),
) -> None:
    """Add rows in one transaction, erase the content of earlier ones, and notify the other hosts."""
    with connection.transaction():
        if len(rows) < _COPY_FROM:
            connection.cursor().executemany(_INSERT, [(journal, *_plain(row)) for row in rows])
        else:
            with connection.cursor().copy(_COPY) as copy:
                copy.set_types(_SQL_TYPES)
                for row in rows:
                    copy.write_row((journal, *_plain(row)))
        add_keys(connection, journal, keys)
        if blank:
            connection.execute(
                "UPDATE surebayes.events SET body = '' WHERE journal = %s AND seq = ANY(%s)", (journal, list(blank))
            )
            connection.execute("DELETE FROM surebayes.snapshots WHERE journal = %s", (journal,))
        connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{name} {rows[-1][0]}"))


_SOURCE = NAMES.index("source")


def _plain(row: Row) -> list[Any]:
    """Return the values of a row as the database takes them; ValueError for a character that it can't store."""
    values = [bytes(value) if isinstance(value, bytearray | memoryview) else value for value in row]
    values[_SOURCE] = values[_SOURCE] or None
    for value in values:
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"PostgreSQL can't store a NUL character. Got {value!r}.")
    return values


def add_keys(connection: BoundedConnection, journal: int, keys: Sequence[bytes]) -> None:
    """Add the keys of lessons that have been counted."""
    if keys:
        with connection.transaction():
            connection.cursor().executemany(
                "INSERT INTO surebayes.sent VALUES (%s, %s)", [(journal, key) for key in keys]
            )


def is_sent(connection: BoundedConnection, journal: int, key: bytes) -> bool:
    """Whether a lesson with this key has been counted."""
    query = "SELECT 1 FROM surebayes.sent WHERE journal = %s AND key = %s"
    return connection.execute(query, (journal, key)).fetchone() is not None


# ---------------------------------------------------------------------- snapshots


def put_snapshot(connection: BoundedConnection, journal: int, seq: int, files: Sequence[tuple[str, str]]) -> None:
    """Store the files of a model, (name, path) of each, unless that row has a snapshot."""
    with connection.transaction():
        if snapshot_row(connection, journal) >= seq:
            return
        part = 0
        for name, path in files:
            with open(path, "rb") as file:
                while piece := file.read(_PART):
                    connection.execute(
                        "INSERT INTO surebayes.snapshots VALUES (%b, %b, %b, %b, %b)", (journal, seq, part, name, piece)
                    )
                    part += 1


def snapshot_row(connection: BoundedConnection, journal: int) -> int:
    """Return the row of the latest snapshot; -1 without one."""
    found = connection.execute("SELECT max(seq) FROM surebayes.snapshots WHERE journal = %s", (journal,)).fetchone()
    return -1 if found is None or found[0] is None else int(found[0])


def read_snapshot(
    connection: BoundedConnection, journal: int, seq: int, put: Callable[[str, Iterator[bytes]], None]
) -> None:
    """Call `put` with the name and the pieces of each file of a snapshot."""
    where = "WHERE journal = %s AND seq = %s"
    names = connection.execute(
        f"SELECT file, min(part), max(part) FROM surebayes.snapshots {where} GROUP BY file ORDER BY 2", (journal, seq)
    ).fetchall()

    def pieces(first: int, last: int) -> Iterator[bytes]:
        for part in range(first, last + 1):
            query = f"SELECT content FROM surebayes.snapshots {where} AND part = %s"
            found = connection.cursor(binary=True).execute(query, (journal, seq, part)).fetchone()
            if found is None:
                raise BadModel("The snapshot in the database was replaced while it was read. Try again.")
            yield bytes(found[0])

    for name, first, last in names:
        put(str(name), pieces(int(first), int(last)))
