"""A thread that takes over the lessons of other hosts as they are committed."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from surebayes.errors import JournalAway, SurebayesError
from surebayes.filter import hosts
from surebayes.filter.session import Session
from surebayes.filter.shared import database, directory, outbox
from surebayes.filter.shared.address import read_url
from surebayes.filter.shared.presence import Host
from surebayes.filter.shared.verdicts import Exchange
from surebayes.filter.store.journal_file import name_of

if TYPE_CHECKING:
    from surebayes.filter.host_layers import Opened, SharedLayers
    from surebayes.filter.shared.directory import Layer

POLL = 5.0
"""Seconds between queries for new rows without a notification."""
LONGEST = 10.0
"""Maximum seconds between two attempts to reach the database."""
LOOK = 0.5
"""Seconds until this host sends its new verdicts."""
HEARTBEAT = 10.0
"""Seconds between two reports of this host to the other hosts."""
SCAN = 60.0
"""Seconds between two queries for the last rows of all layers."""
PATIENCE = 1.0
"""Maximum seconds that judging waits for a layer's missing rows."""
TOGETHER = 50
"""Maximum number of layers to bring up to date before the site's turn comes again."""
SNAPSHOT = 600.0
"""Seconds between two checks of the snapshot's age."""


class LayersFollower:
    """Follow the personal layers of a site, for a `Follower` and in its thread.

    One query finds the last row of every layer, at the beginning and every `SCAN` seconds; notifications name the
    layers that change in between. A layer that is missing on this host is copied when it is needed.

    Parameters
    ----------
    layers : SharedLayers
        The layers.
    opened : callable
        From a person to a context manager with the session of their layer, or None if it isn't open.
    close : callable
        Closes a person's layer before it is deleted.

    Attributes
    ----------
    problems : dict
        The error of each layer that can't be followed, by person.
    """

    def __init__(self, layers: SharedLayers, opened: Opened, close: Callable[[str], object]) -> None:
        self.layers, self.problems = layers, dict[str, str]()
        self._opened, self._close = opened, close
        self._known: dict[str, Layer] = {}
        self._people: dict[str, str] = {}  # by the name of the journal
        self._here: dict[str, int] = {}
        self._behind: dict[str, None] = {}
        self._asked: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._next_scan = self._next_look = self._next_report = 0.0
        self.number = 0
        self.wake: Callable[[], object] = str
        self.is_away: Callable[[], bool] = bool

    # ---- for threads that judge

    def is_behind(self, person: str) -> bool:
        """Return whether this host has no copy of a layer, or an incomplete one."""
        layer = self._known.get(person)
        return layer is not None and self._here.get(person, -1) < layer.last

    def ask(self, person: str, seconds: float = PATIENCE) -> None:
        """Request an update of a layer's copy, and wait for it, at most `seconds`."""
        if self.is_away():
            return
        with self._lock:
            done = self._asked.setdefault(person, threading.Event())
        self.wake()
        done.wait(seconds)

    @property
    def is_asked(self) -> bool:
        """Return whether a thread waits for a layer."""
        return bool(self._asked)

    def status(self) -> dict[str, int]:
        """Return the numbers of layers in the database, of incomplete or missing copies, and of problems."""
        return {"known": len(self._known), "behind": len(self._behind), "problems": len(self.problems)}

    # ---- for the thread that follows

    def begin(self) -> None:
        """Schedule a query for all layers, because notifications may have been missed."""
        self._next_scan = self._next_look = 0.0

    def take(self) -> bool:
        """Do the due work for some layers; return whether more is due at once."""
        now = time.monotonic()
        self._serve()
        if now >= self._next_scan:
            self._scan()
            self._next_scan = now + SCAN
        if now >= self._next_report:
            self.layers.report(self.layers.follow_removals(self._opened, self._close))
            self._next_report = now + HEARTBEAT
        if now >= self._next_look:
            self.layers.finish_moves()
            for person in self.layers.with_waiting():
                self._follow(person)
            self._next_look = now + LONGEST
        for person in list(self._behind)[:TOGETHER]:
            self._serve()
            self._follow(person)
        return bool(self._behind or self._asked)

    def notified(self, payloads: list[str]) -> bool:
        """Process notifications; return whether there is work to do."""
        if str(self.number) in payloads:
            self._next_scan = self._next_report = 0.0
        for name, _, row in map(_parts, payloads):
            person = self._people.get(name)
            if person is not None and int(row) > self._known[person].last:
                self._known[person] = self._known[person]._replace(last=int(row))
                if person in self._here:
                    self._behind[person] = None
        return bool(self._behind) or not self._next_scan

    def _scan(self) -> None:
        """Query the last row of every layer."""
        if not self.number:
            with self.layers.connected() as (_, self.number):
                pass
        known = self.layers.known()
        self._people = {layer.name: person for person, layer in known.items()}
        self._known = known
        for person in set(self._here).difference(known):
            del self._here[person]
        for person, layer in known.items():
            if person not in self._here and (row := self.layers.last_here(person)) >= 0:
                self._here[person] = row
                self._serve()
            if self._here.get(person, layer.last) < layer.last:
                self._behind[person] = None

    def _serve(self) -> None:
        """Update the layers that threads wait for."""
        while self._asked:
            with self._lock:
                person, done = next(iter(self._asked.items()))
            try:
                self._follow(person)
            finally:
                with self._lock:
                    del self._asked[person]
                done.set()

    def _follow(self, person: str) -> None:
        """Update one layer; an error is recorded and doesn't stop the other layers."""
        self._behind.pop(person, None)
        try:
            self.layers.check_moved(person)
            known = self._known.get(person)
            if self.layers.last_here(person) < 0:
                self.layers.make(person)
            elif (known is None or known.name != self.layers.name_here(person)) and self.layers.repair(person):
                self._close(person)
            self._here[person] = self.layers.catch_up(person, self._opened)
            self.problems.pop(person, None)
        except JournalAway:
            raise
        except (SurebayesError, OSError, ValueError) as error:
            self._here.pop(person, None)  # until the next scan
            self.problems[person] = str(error)


class Follower:
    """Follow the shared journal of an open filter until `stop`.

    The follower queries the database after each of its notifications, and otherwise every few seconds. While the
    database is unreachable, the pauses between its attempts grow.

    Parameters
    ----------
    session : Session
        The filter.
    layers : LayersFollower, optional
        The personal layers to follow with the same connection.

    Attributes
    ----------
    hosts : list of Host
        The hosts, by their latest reports.
    problem : str
        The error that prevents following; "" if there is none.
    """

    def __init__(self, session: Session, layers: LayersFollower | None = None) -> None:
        self.session, self.problem, self.layers = session, "", layers
        self.hosts: list[Host] = []
        self._reported = -HEARTBEAT
        self._reading, self._writing = os.pipe()
        self._stopped = False
        self._name = name_of(session.reading().facts)
        self._snapshot = time.monotonic()
        self._exchange: Exchange | None = None
        if layers is not None:
            layers.wake, layers.is_away = self._wake, lambda: bool(self.problem)
        self._thread = threading.Thread(target=self._run, name="surebayes-follow", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following, and wait for the current fetch."""
        self._stopped = True
        self._wake()
        self._thread.join()
        os.close(self._reading)
        os.close(self._writing)

    def _wake(self) -> None:
        os.write(self._writing, b".")

    def _run(self) -> None:
        pause = 0.5
        while not self._stopped:
            try:
                with self._listening() as connection:
                    if self.layers is not None:
                        self.layers.begin()
                    while not self._stopped:
                        is_more = self._take()
                        self.problem, pause = "", 0.5
                        self._wait(connection, 0.0 if is_more else POLL)
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
                for channel in (database.CHANNEL, database.CHANNEL_OF_VERDICTS, directory.CHANNEL):
                    connection.execute(f"LISTEN {channel}".encode())
                yield connection
        finally:
            connection.close()

    def _take(self) -> bool:
        """Apply new rows and exchange verdicts; return whether more can be done at once."""
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
        return self.layers is not None and self.layers.take()

    def _wait(self, connection: database.BoundedConnection, seconds: float) -> None:
        """Wait, at most `seconds`, for new rows, and send verdicts of this host in the meantime."""
        end = time.monotonic() + seconds
        while not self._stopped and (left := end - time.monotonic()) >= 0:
            ready, _, _ = select.select([connection.fileno(), self._reading], [], [], min(left, LOOK))
            if self._reading in ready:
                os.read(self._reading, 4096)
                if self.layers is not None and self.layers.is_asked:
                    return
            if connection.fileno() in ready and self._is_news(database.notifications(connection)):
                return
            if not ready and self._exchange is not None and self._exchange.is_due():
                self._exchange.run()

    def _is_news(self, payloads: list[str]) -> bool:
        if self.layers is not None and self.layers.notified(payloads):
            return True
        last = _latest(payloads, self._name)
        exchange = self._exchange
        if exchange is not None and _latest(payloads, str(exchange.number)) > exchange.change:
            return True
        if not last:
            return False
        with self.session.mutex:
            return last > self.session.reading().last()

    def _sleep(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._stopped and (left := end - time.monotonic()) > 0:
            if select.select([self._reading], [], [], left)[0]:
                os.read(self._reading, 4096)


def _latest(payloads: list[str], name: str) -> int:
    """Return the highest row number in the notifications about a journal; 0 without one."""
    return max([int(row) for whose, _, row in map(_parts, payloads) if whose == name], default=0)


def _parts(payload: str) -> tuple[str, str, str]:
    name, space, row = payload.partition(" ")
    return name, space, row if row.isdecimal() else "0"
