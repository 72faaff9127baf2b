"""A journal in PostgreSQL: every host adds rows there, and reads them from a copy in its own folder.

The copy is the SQLite file of any other folder, and always holds the first rows of the journal in the database. So all
reading, and judging above all, needs no database. A host adds rows while it holds the journal's lock in the database
and its copy has every row: rows are numbered in the order of their commits, without gaps, and a host that asks for the
rows after its last one never misses a late commit.
"""

from __future__ import annotations

import contextlib

from surebayes.errors import BadModel, Busy, JournalAway
from surebayes.filter.shared import database, directory
from surebayes.filter.shared.address import read_url, without_password
from surebayes.filter.store.copied_rows import first_damaged
from surebayes.filter.store.events import NAMES
from surebayes.filter.store.journal import _INSERT, Journal
from surebayes.filter.store.journal_file import SHARED, errors_named, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from surebayes.filter.shared.database import BoundedConnection
    from surebayes.filter.store.events import Row

_AT = {name: place for place, name in enumerate(NAMES)}
_OWN_FACTS = ("id", "key")
"""Facts that a copy is made with; they never change."""


class CommitUnknown(JournalAway):
    """The connection broke during a commit: the database may have the rows or not.

    Attributes
    ----------
    row : (int, int, int)
        Number, own checksum and running checksum of the last row, by which `SharedJournal.has` finds it.
    """

    def __init__(self, message: str, row: tuple[int, int, int]) -> None:
        super().__init__(message)
        self.row = row


class SharedJournal(Journal):
    """The journal of a filter that several hosts share.

    Attributes
    ----------
    url : str
        The database.
    name : str
        The journal's name there.
    sent : list of bytes
        Keys of spooled lessons in the next commit; a lesson whose key is in the database has been counted.
    """

    is_shared = True
    kind = SHARED

    def __init__(self, folder: str, url: str | None = None) -> None:
        super().__init__(folder)
        self.url = read_url(folder) if url is None else url
        self.name = name_of(self.facts)
        self.sent: list[bytes] = []
        self.number = 0
        self._connection: BoundedConnection | None = None
        self._lease: contextlib.ExitStack | None = None

    # ---- the lock

    @contextlib.contextmanager
    def locked(self, wait: float, guard: contextlib.AbstractContextManager[object]) -> Iterator[None]:
        """Hold the journal's lock in the database, with every row in the copy.

        Raises
        ------
        JournalAway
            Where the database can't be reached.
        Busy
            Where another host holds the lock for `wait` seconds.
        """
        with contextlib.ExitStack() as held:
            self._take(held, wait)
            try:
                self._pull_all(guard)
                yield
            finally:
                self._connection, self._lease = None, None
                self.sent = []

    def _take(self, held: contextlib.ExitStack, wait: float) -> None:
        """Connect and take the lock; once more where an idle connection turns out to be dead."""
        for fresh in (False, True):
            with contextlib.ExitStack() as lease:
                try:
                    connection = lease.enter_context(database.lent(self.url, fresh))
                    with database.named_errors(self.url):
                        self._find(connection)
                        database.lock(connection, self.number, wait)
                except JournalAway:
                    if fresh:
                        raise
                    continue
                lease.callback(database.unlock, connection, self.number)
                self._connection = connection
                self._lease = held.enter_context(lease.pop_all())
                return

    def _find(self, connection: BoundedConnection) -> None:
        if not self.number:
            database.check(connection, self.url)
            number = database.journal_number(connection, self.name)
            if number is None and self.is_layer and not self.last():
                number = directory.register(connection, self.name, self.facts)
            if number is None:
                self._check_not_removed(connection)
                raise BadModel(
                    f"{without_password(self.url)} has no journal {self.name}. Name its database, or add the journal "
                    "with `surebayes migrate --journal URL`."
                )
            self.number = number

    @property
    def is_layer(self) -> bool:
        """Whether it is the journal of a personal layer."""
        return directory.FACT in self.facts

    def _check_not_removed(self, connection: BoundedConnection) -> None:
        """Raise LayerReplaced for the journal of a person whose layer was deleted."""
        if self.is_layer:
            site, person, _ = directory.described(self.facts)
            number = database.journal_number(connection, site)
            if number is not None and directory.is_removed(connection, number, self.name):
                raise directory.LayerReplaced(
                    f"The layer of {person!r} was deleted on another host. `surebayes sync -m SITE --users DIR` "
                    "deletes the copy of this host."
                )

    @property
    def _locked_connection(self) -> BoundedConnection:
        if self._connection is None:
            raise Busy(f"The journal of {self.folder!r} is changed without its lock in the database. Try again.")
        return self._connection

    # ---- rows of other hosts

    def pull(
        self, guard: contextlib.AbstractContextManager[object], progress: Callable[[int], None] | None = None
    ) -> int:
        """Copy all new rows from the database; return their number. The folder's lock is held."""
        added = 0
        while rows := self.fetch(guard):
            with guard:
                added += self.store(rows)
            if progress is not None:
                progress(rows[-1][0])
        return added

    def fetch(self, guard: contextlib.AbstractContextManager[object]) -> list[Row]:
        """Return the next rows of the database, checked; it needs no lock but `guard`, for a look at the copy."""
        for fresh in (False, True):
            try:
                with database.lent(self.url, fresh) as connection, database.named_errors(self.url):
                    self._find(connection)
                    return self._next(connection, guard)
            except JournalAway:
                if fresh:
                    raise
        return []

    def _pull_all(self, guard: contextlib.AbstractContextManager[object]) -> None:
        """Copy all new rows on the connection that holds the lock."""
        connection, added = self._locked_connection, 0
        with database.named_errors(self.url):
            while rows := self._next(connection, guard):
                with guard:
                    added += self.store(rows)
            if added:
                self._take_facts(connection, guard)

    def _next(self, connection: BoundedConnection, guard: contextlib.AbstractContextManager[object]) -> list[Row]:
        """Return the rows after the last one of the copy, which must be the same in the database."""
        with guard:
            last = self.last()
            anchor, chain = self.checks_at(last), self.chain_at(last) or 0
        rows = database.rows_from(connection, self.number, max(last, 1))
        if anchor is not None:
            if not rows or (rows[0][0], rows[0][_AT["head_check"]], rows[0][_AT["chain"]]) != (last, *anchor):
                raise self._unlike(connection, last)
            del rows[0]
        self._check_rows(rows, last, chain)
        return rows

    def _unlike(self, connection: BoundedConnection, last: int) -> BadModel:
        self._check_not_removed(connection)
        return BadModel(
            f"The journal in {without_password(self.url)} is not the one that {self.folder!r} was copied from: row "
            f"{last:,} is missing or different. If the database was restored from an older copy, restore a newer one; "
            "otherwise join the database again with a new folder."
        )

    def _check_rows(self, rows: Sequence[Row], last: int, chain: int) -> None:
        """Check the numbers and checksums of rows of the database after the last one here."""
        damaged = first_damaged(rows, last, chain)
        if damaged:
            raise BadModel(
                f"Row {damaged:,} of the journal in {without_password(self.url)} is damaged or missing. "
                "Restore the database from a copy."
            )

    def _take_facts(self, connection: BoundedConnection, guard: contextlib.AbstractContextManager[object]) -> None:
        found = database.facts(connection, self.number)
        with guard:
            for name, value in found.items():
                if name not in _OWN_FACTS and not (self.is_layer and name == "about"):
                    super().set_fact(name, value)

    # ---- adding rows

    def set_fact(self, name: str, value: str) -> None:
        """Store a fact about the journal as a whole, here and in the database.

        A layer's description names its base by the path on this host, so it stays here.
        """
        is_own = self.is_layer and name == "about"
        if self.facts.get(name) != value and self._connection is not None and not is_own:
            with database.named_errors(self.url):
                database.add_facts(self._connection, self.number, {name: value})
        super().set_fact(name, value)

    def append_rows(self, rows: Sequence[Row], blank: Sequence[int] = ()) -> None:
        """Add rows in the database, then in the copy; on return both have them."""
        connection = self._locked_connection
        with errors_named(self.path):
            try:
                if not self._db.in_transaction:
                    self.begin()
                if self._begun_at + 1 != rows[0][0]:
                    raise Busy(f"{self.path} was changed by a process without its lock. Try again.")
                self._db.executemany(_INSERT, rows)
                self._db.executemany("UPDATE events SET body = x'' WHERE seq = ?", [(seq,) for seq in blank])
                self._commit_there(connection, rows, blank)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _commit_there(self, connection: BoundedConnection, rows: Sequence[Row], blank: Sequence[int]) -> None:
        """Add rows to the database; where the connection breaks, find out whether they are there."""
        try:
            with database.named_errors(self.url):
                database.append(connection, self.number, self.name, rows, blank, self.sent)
        except JournalAway as error:
            last = rows[-1][0], rows[-1][_AT["head_check"]], rows[-1][_AT["chain"]]
            if not connection.closed and connection.info.transaction_status.name == "IDLE":
                raise  # the server refused, and the connection stands: nothing was added
            if not self._was_committed(last, error):
                raise
        self.sent = []

    def _was_committed(self, row: tuple[int, int, int], cause: JournalAway) -> bool:
        """Whether a commit on a broken connection has arrived; CommitUnknown if no one answers.

        Whoever gets the lock knows that the broken connection has ended, and with it the commit.
        """
        lease = self._lease
        try:
            database.forget_failures()
            assert lease is not None
            connection = lease.enter_context(database.lent(self.url, True))
            with database.named_errors(self.url):
                database.lock(connection, self.number, database.PATIENCE)
                lease.callback(database.unlock, connection, self.number)
                self._connection = connection
                return self._has(connection, row)
        except (Busy, PermissionError):
            raise CommitUnknown(
                f"{cause} The connection broke during a commit: the lesson may be counted already. Teach it again; "
                "a known message counts once.", row,
            ) from None  # fmt: skip

    def has(self, row: tuple[int, int, int]) -> bool:
        """Whether the database has a row of an unknown commit; the lock is held."""
        with database.named_errors(self.url):
            return self._has(self._locked_connection, row)

    def _has(self, connection: BoundedConnection, row: tuple[int, int, int]) -> bool:
        query = "SELECT head_check, chain FROM surebayes.events WHERE journal = %s AND seq = %s"
        found = connection.execute(query, (self.number, row[0])).fetchone()
        return found is not None and tuple(found) == row[1:]

    def commit_keys(self) -> None:
        """Commit the keys of lessons that came to no rows; the lock is held."""
        if self.sent:
            with database.named_errors(self.url):
                database.add_keys(self._locked_connection, self.number, self.sent)
            self.sent = []

    def is_sent(self, key: bytes) -> bool:
        """Whether a lesson with this key has been counted; the lock is held."""
        with database.named_errors(self.url):
            return database.is_sent(self._locked_connection, self.number, key)
