"""A thread that takes over the lessons of other hosts as they are committed."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Iterator

from surebayes.errors import SurebayesError
from surebayes.filter import hosts
from surebayes.filter.session import Session
from surebayes.filter.shared import database, outbox
from surebayes.filter.shared.address import read_url
from surebayes.filter.shared.journal import name_of
from surebayes.filter.shared.presence import Host
from surebayes.filter.shared.verdicts import Exchange

POLL = 5.0
"""Seconds after which new rows are asked for without a notification."""
LONGEST = 10.0
"""The longest pause, in seconds, before another try where the database is away."""
LOOK = 0.5
"""Seconds after which verdicts of this host are sent."""
HEARTBEAT = 10.0
"""Seconds between two reports of this host to the other hosts."""
SNAPSHOT = 600.0
"""Seconds between two looks at the age of the snapshot."""


class Follower:
    """Follows the shared journal of an open filter until `stop`.

    Notifications of the database wake it; without one it asks every few seconds. While the database is away it tries
    again, ever less often.

    Parameters
    ----------
    session : Session
        The filter.

    Attributes
    ----------
    hosts : list of Host
        The hosts as they reported themselves last.
    problem : str
        The reason why it can't follow; "" while it does.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.problem = session, ""
        self.hosts: list[Host] = []
        self._reported = -HEARTBEAT
        self._reading, self._writing = os.pipe()
        self._stopped = False
        self._name = name_of(session.reading().facts)
        self._snapshot = time.monotonic()
        self._exchange: Exchange | None = None
        self._thread = threading.Thread(target=self._run, name="surebayes-follow", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following, and wait for the current fetch."""
        self._stopped = True
        os.write(self._writing, b".")
        self._thread.join()
        os.close(self._reading)
        os.close(self._writing)

    def _run(self) -> None:
        pause = 0.5
        while not self._stopped:
            try:
                with self._listening() as connection:
                    while not self._stopped:
                        self._take()
                        self.problem, pause = "", 0.5
                        self._wait(connection)
            except (SurebayesError, OSError, ValueError) as error:
                self.problem = "" if self._stopped else str(error)
            self._sleep(pause)
            pause = min(2 * pause, LONGEST)
        if self._exchange is not None:
            self._exchange.close()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[database.BoundedConnection]:
        url = read_url(self.session.path)
        connection = database.connected(url)
        try:
            with database.named_errors(url):
                for channel in (database.CHANNEL, database.CHANNEL_OF_VERDICTS):
                    connection.execute(f"LISTEN {channel}".encode())
                yield connection
        finally:
            connection.close()

    def _take(self) -> None:
        self.session.sync()
        if outbox.waiting(self.session.path)[0]:
            with self.session.transaction():
                pass  # it sends them first
        if self._exchange is None:
            self._exchange = hosts.exchange_of(self.session)
        self._exchange.run()
        if time.monotonic() - self._reported >= HEARTBEAT:
            self._reported = time.monotonic()
            self.hosts = hosts.report(self.session, self._exchange.change)
        if time.monotonic() - self._snapshot >= SNAPSHOT:
            self._snapshot = time.monotonic()
            hosts.sync(self.session)

    def _wait(self, connection: database.BoundedConnection) -> None:
        """Wait for what isn't here yet, or for verdicts to be sent, at most `POLL` seconds."""
        end = time.monotonic() + POLL
        while not self._stopped and (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([connection.fileno(), self._reading], [], [], min(left, LOOK))
            if connection.fileno() in ready and self._is_news(database.notifications(connection)):
                return
            if not ready and self._exchange is not None and self._exchange.waits():
                return

    def _is_news(self, payloads: list[str]) -> bool:
        last = _latest(payloads, self._name)
        exchange = self._exchange
        if exchange is not None and _latest(payloads, str(exchange.number)) > exchange.change:
            return True
        if not last:
            return False
        with self.session.mutex:
            return last > self.session.reading().last()

    def _sleep(self, seconds: float) -> None:
        if not self._stopped:
            select.select([self._reading], [], [], seconds)


def _latest(payloads: list[str], name: str) -> int:
    """Return the highest row number in notifications for a journal, or 0."""
    return max([int(row) for whose, _, row in map(_parts, payloads) if whose == name], default=0)


def _parts(payload: str) -> tuple[str, str, str]:
    name, space, row = payload.partition(" ")
    return name, space, row if row.isdecimal() else "0"
