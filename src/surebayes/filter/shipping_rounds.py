"""Threads that ship the journal of an open filter, or follow its source, at intervals."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from surebayes.errors import Busy, SurebayesError
from surebayes.filter.store.journal_file import FOLLOWS, SHIPS, kind_of

if TYPE_CHECKING:
    from surebayes.filter.session import Session

EVERY = 1.0
"""Seconds between two looks for rows to ship, or to take."""
TIDY = 10.0
"""Seconds between two looks for files to merge, write again or remove."""
LONGEST = 30.0
"""The longest pause, in seconds, before another try after an error."""


class ShippingRounds:
    """Ships or follows the journal of an open filter until `stop`, as its folder says.

    Parameters
    ----------
    session : Session
        The filter.

    Attributes
    ----------
    problem : str
        The reason why it can't ship or follow; "" while it can.
    """

    def __init__(self, session: Session) -> None:
        self.session, self.problem = session, ""
        self._numbers: dict[str, Any] = {}
        self._stopped = threading.Event()
        self._verify_at = 0.0
        self._threads = [
            threading.Thread(target=self._run, args=(EVERY, self._rows), name="surebayes-ship", daemon=True),
            threading.Thread(target=self._run, args=(TIDY, self._tidy), name="surebayes-tidy", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop, and wait for the current round; remaining rows of a source are shipped."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if kind_of(self.session.path) == SHIPS:
            with contextlib.suppress(SurebayesError, OSError):
                self._rows()

    def _run(self, every: float, work: Callable[[], None]) -> None:
        pause = every
        while not self._stopped.wait(pause):
            try:
                work()
                pause = every
            except (SurebayesError, OSError, ValueError) as error:
                self.problem = "" if self._stopped.is_set() else str(error)
                pause = min(2 * pause, max(LONGEST, every))

    def _rows(self) -> None:
        kind = kind_of(self.session.path)
        if kind not in (SHIPS, FOLLOWS):
            self._numbers, self.problem = {}, ""
            return
        from surebayes.filter import shipping

        if kind == SHIPS:
            there, _ = shipping.ship_rows(self.session)
            self._numbers = {"row": there}
        else:
            now = time.monotonic()
            verify = now >= self._verify_at
            done = shipping.pull(self.session, verify)
            self._numbers = {"row": done["last"], "written": time.time() - done["seconds"]}
            self._verify_at = now + TIDY if verify else self._verify_at
        self.problem = ""

    def _tidy(self) -> None:
        if kind_of(self.session.path) == SHIPS:
            from surebayes.errors import NotShipped
            from surebayes.filter import shipping

            try:
                shipping.ship(self.session)
            except NotShipped:
                raise
            except Busy:  # another process is at it
                pass

    def state(self) -> dict[str, Any]:
        """Return the state as `surebayes.filter.shipping.state_of` does, as it was at the last round."""
        from surebayes.filter.shipped import marks
        from surebayes.filter.shipped.place import ShippedPlace

        ships, follows = marks.read_ships(self.session.path), marks.read_follows(self.session.path)
        row, written = self._numbers.get("row"), self._numbers.get("written")
        if follows is not None:
            seconds = None if written is None else max(time.time() - written, 0.0)
            behind = None if self.problem or row is None else 0
            about = {"source": ShippedPlace(follows.source).name, "epoch": follows.epoch, "row": row, "behind": behind}
            return {"followed": {**about, "seconds": seconds, "problem": self.problem}}
        if ships is None:
            return {}
        with self.session.mutex:
            last = self.session.reading(refresh=True).last()
        behind = None if row is None else max(last - row, 0)
        about = {"to": ships.to, "sync": ships.sync, "epoch": ships.epoch, "row": row, "behind": behind}
        return {"shipped": {**about, "problem": self.problem}}
