"""A filter's daily activity, and the drift of its false-alarm rate from the promised one."""

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
"""Maximum probability that `drift` ever reports a valid promise as broken."""
MOST_TRUTHS = 20_000
"""Maximum number of corrected verdicts that `drift` examines, the latest first."""
_POINTS = 200
_LABELLED = "truth = ? AND asked = 1 AND told >= ? AND time >= ?"


def by_day(database: Database | None, lessons: Iterable[tuple[float, str]], days: int, now: float) -> dict[str, Any]:
    """Count verdicts and lessons by class for each of the latest days; see `Filter.activity`.

    Parameters
    ----------
    database : Database or None
        The remembered verdicts.
    lessons : iterable of (float, str)
        The time and class of each lesson; "forget" for an undone one.
    days : int
        Number of days, ending today.
    now : float
        The time, in seconds since 1970.
    """
    today = datetime.fromtimestamp(now, UTC).date()
    names = [(today - timedelta(days=back)).isoformat() for back in reversed(range(days))]
    counted: dict[str, dict[str, dict[str, int]]] = {"verdicts": {}, "lessons": {}}
    start = datetime.fromisoformat(names[0]).replace(tzinfo=UTC).timestamp()
    if database is not None:
        for day, label, count in _counts(database, start, 86_400.0, days):
            counted["verdicts"].setdefault(names[day], {})[label] = count
    for when, label in lessons:
        if when >= start:
            of_day = counted["lessons"].setdefault(datetime.fromtimestamp(when, UTC).date().isoformat(), {})
            of_day[label] = of_day.get(label, 0) + 1
    return {
        "days": names, **{what: [per_day.get(day, {}) for day in names] for what, per_day in counted.items()}
    }  # fmt: skip


def by_hour(database: Database | None, hours: int, now: float) -> dict[str, Any]:
    """Count verdicts by class for each of the latest hours; see `Filter.hours`."""
    start = now // 3600 * 3600 - (hours - 1) * 3600.0
    verdicts: list[dict[str, int]] = [{} for _ in range(hours)]
    if database is not None:
        for hour, label, count in _counts(database, start, 3600.0, hours):
            verdicts[hour][label] = count
    names = [datetime.fromtimestamp(start + 3600 * k, UTC).isoformat(timespec="seconds") for k in range(hours)]
    return {"hours": names, "verdicts": verdicts}


def _counts(database: Database, start: float, step: float, most: int) -> list[tuple[int, str, int]]:
    """Count verdicts by interval and label, reading only the (label, time) index.

    Then subtract the few documents that were judged only because a label arrived for them.
    """
    counted: dict[tuple[int, str], int] = {}
    end, label = start + step * most, ""
    columns = f"CAST((time - ?) / {step} AS INTEGER), count(*) FROM verdicts"
    while (found := database.rows("SELECT min(label) FROM verdicts WHERE label > ?", (label,))[0][0]) is not None:
        label = found
        query = f"SELECT {columns} WHERE label = ? AND time >= ? AND time < ? GROUP BY 1"
        for place, number in database.rows(query, (start, label, start, end)):
            counted[place, label] = number
    query = f"SELECT label, {columns} WHERE asked = 0 AND time >= ? AND time < ? GROUP BY 1, 2"
    for label, place, number in database.rows(query, (start, start, end)):
        counted[place, label] -= number
    return [(place, label, number) for (place, label), number in sorted(counted.items()) if number]


class _Promise(NamedTuple):
    """A promised false-alarm rate among documents of the first class, and when it took effect."""

    positive: Any
    rate: float
    first: str
    since: float


class DriftWatch:
    """A running check of labelled verdicts against a false-alarm promise, kept between queries.

    Each verdict counts once. Clearing a label or making a new promise restarts the count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._about: _Promise | None = None
        self._monitor: DriftMonitor | None = None
        self._alarms = bytearray()
        self._counted = (0, 0)
        self._last = -inf

    def drift(self, database: Database, certificate: Certificate, first: str, since: float) -> dict[str, Any]:
        """Return the evidence against the promise from verdicts since a time; see `Filter.drift`."""
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
        """Return whether the remembered verdicts no longer agree with the count, or the count has too many."""
        query = (
            f"SELECT count(*), coalesce(sum(flagged AND label = ?), 0) FROM verdicts WHERE {_LABELLED} AND told <= ?"
        )
        now = database.rows(query, (about.positive, about.first, about.since, about.since, self._last))[0]
        return tuple(now) != self._counted or len(self._alarms) > 2 * MOST_TRUTHS

    def _count_new(self, database: Database, monitor: DriftMonitor, about: _Promise) -> None:
        """Count the labels recorded since the last call."""
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
