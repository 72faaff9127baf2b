"""Daily activity of a filter, and drift of its false alarms away from the promise."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from surebayes.filter.verdicts.database import Database

if TYPE_CHECKING:
    from surebayes.guarantees.certificate import Certificate
    from surebayes.guarantees.drift import DriftMonitor

FALSE_ALARM = 0.01
"""The probability that `drift` ever calls a valid promise broken."""
MOST_TRUTHS = 20_000
"""Maximum number of corrected verdicts, the latest, that `drift` examines."""
_POINTS = 200
_LABELLED = "truth = ? AND asked = 1 AND told >= ? AND time >= ?"


def by_day(database: Database | None, lessons: Iterable[tuple[float, str]], days: int, now: float) -> dict[str, Any]:
    """Count verdicts and lessons by class for each of the latest days; see `Filter.activity`.

    Parameters
    ----------
    database : Database or None
        The remembered verdicts.
    lessons : iterable of (float, str)
        Time and class of each ("forget" for an undone one).
    days : int
        Number of days, up to today.
    now : float
        The time, in seconds since 1970.
    """
    today = datetime.fromtimestamp(now, UTC).date()
    names = [(today - timedelta(days=back)).isoformat() for back in reversed(range(days))]
    counted: dict[str, dict[str, dict[str, int]]] = {"verdicts": {}, "lessons": {}}
    start = datetime.fromisoformat(names[0]).replace(tzinfo=UTC).timestamp()
    if database is not None:
        query = (
            "SELECT CAST((time - ?1) / 86400 AS INTEGER), label, count(*) FROM verdicts WHERE time >= ?1 AND asked = 1 "
            "GROUP BY 1, 2"
        )
        for day, label, count in database.rows(query, (start,)):
            if day < days:  # in case a clock was ahead
                counted["verdicts"].setdefault(names[day], {})[label] = count
    for when, label in lessons:
        if when >= start:
            of_day = counted["lessons"].setdefault(datetime.fromtimestamp(when, UTC).date().isoformat(), {})
            of_day[label] = of_day.get(label, 0) + 1
    return {
        "days": names, **{what: [per_day.get(day, {}) for day in names] for what, per_day in counted.items()}
    }  # fmt: skip


class _Promise(NamedTuple):
    """A promised rate of false alarms for a class, among documents of the first class, since a time."""

    positive: Any
    rate: float
    first: str
    since: float


class DriftWatch:
    """Corrected verdicts counted against a promise on false alarms, each once, however often it is queried.

    A withdrawn label or a new promise restarts the count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._about: _Promise | None = None
        self._monitor: DriftMonitor | None = None
        self._alarms = bytearray()
        self._counted = (0, 0)
        self._last = -inf

    def drift(self, database: Database, certificate: Certificate, first: str, since: float) -> dict[str, Any]:
        """Return the evidence against the promise from verdicts since then; see `Filter.drift`."""
        from surebayes.guarantees.drift import DriftMonitor

        with self._lock:
            monitor = DriftMonitor(certificate, false_alarm=FALSE_ALARM)
            about = _Promise(certificate.pos_label, monitor.promised_rate, first, since)
            if self._monitor is None or self._about != about or self._has_changed(database, about):
                self._about, self._monitor = about, monitor
                self._alarms, self._counted, self._last = bytearray(), (0, 0), -inf
            self._count_new(database, self._monitor, about)
            return self._report(self._monitor)

    def _has_changed(self, database: Database, about: _Promise) -> bool:
        """Whether the counted verdicts differ from the remembered ones, or are more than needed."""
        query = (
            f"SELECT count(*), coalesce(sum(flagged AND label = ?), 0) FROM verdicts WHERE {_LABELLED} AND told <= ?"
        )
        now = database.rows(query, (about.positive, about.first, about.since, about.since, self._last))[0]
        return tuple(now) != self._counted or len(self._alarms) > 2 * MOST_TRUTHS

    def _count_new(self, database: Database, monitor: DriftMonitor, about: _Promise) -> None:
        """Count the labels that are new since the last call."""
        threshold = monitor.certificate.threshold
        query = f"SELECT flagged AND label = ?, told FROM verdicts WHERE {_LABELLED} AND told > ? ORDER BY told DESC"
        rows = database.rows(query, (about.positive, about.first, about.since, about.since, self._last))
        if not rows:
            return
        alarms = bytes(alarm for alarm, _ in rows)
        self._last = rows[0][1]
        self._counted = self._counted[0] + len(alarms), self._counted[1] + alarms.count(1)
        latest = alarms[:MOST_TRUTHS][::-1]
        monitor.update([threshold + 1.0 if alarm else threshold - 1.0 for alarm in latest], [False] * len(latest))
        self._alarms += latest

    def _report(self, monitor: DriftMonitor) -> dict[str, Any]:
        step, errors, curve = max(len(self._alarms) // _POINTS, 1), 0, [(0, 0)]
        for start in range(0, len(self._alarms), step):
            errors += self._alarms.count(1, start, start + step)
            curve.append((min(start + step, len(self._alarms)), errors))
        return {
            "seen": monitor.seen, "errors": monitor.errors, "promised": monitor.promised_rate,
            "evidence": monitor.evidence, "line": 1 / FALSE_ALARM, "alarm": monitor.evidence >= 1 / FALSE_ALARM,
            "curve": curve,
        }  # fmt: skip
