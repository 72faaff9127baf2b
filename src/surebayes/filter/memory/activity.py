"""What went through a filter, day by day, and whether the truths that were told since agree with its promise."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from surebayes.filter.memory.database import Database

if TYPE_CHECKING:
    from surebayes.promises.certificate import Certificate

FALSE_ALARM = 0.01
"""The chance that a promise which holds is ever called broken by what `drift` sees."""
MOST_TRUTHS = 20_000
"""Truths that `drift` looks at, the latest."""
_POINTS = 200


def by_day(database: Database | None, lessons: Iterable[tuple[float, str]], days: int, now: float) -> dict[str, Any]:
    """Count verdicts by their class, and lessons by what they were, for each of the latest days; see `Filter.activity`.

    Parameters
    ----------
    database : Database or None
        The remembered verdicts.
    lessons : iterable of (float, str)
        When each was, and its class ("forget" for one that was undone).
    days : int
        How many days, up to today.
    now : float
        The time, in seconds since 1970.
    """
    today = datetime.fromtimestamp(now, UTC).date()
    names = [(today - timedelta(days=back)).isoformat() for back in reversed(range(days))]
    counted: dict[str, dict[str, dict[str, int]]] = {"verdicts": {}, "lessons": {}}
    start = datetime.fromisoformat(names[0]).replace(tzinfo=UTC).timestamp()
    if database is not None:
        query = (
            "SELECT date(time, 'unixepoch'), label, count(*) FROM verdicts WHERE time >= ? AND asked = 1 GROUP BY 1, 2"
        )
        for day, label, count in database.rows(query, (start,)):
            counted["verdicts"].setdefault(day, {})[label] = count
    for when, label in lessons:
        if when >= start:
            of_day = counted["lessons"].setdefault(datetime.fromtimestamp(when, UTC).date().isoformat(), {})
            of_day[label] = of_day.get(label, 0) + 1
    return {
        "days": names, **{what: [per_day.get(day, {}) for day in names] for what, per_day in counted.items()}
    }  # fmt: skip


def drift(database: Database, certificate: Certificate, first: str) -> dict[str, Any]:
    """Hold the truths that were told against a promise on false alarms; see `Filter.drift`."""
    from surebayes.promises.drift import DriftMonitor

    query = (
        "SELECT flagged AND label = ? FROM (SELECT flagged, label, told FROM verdicts WHERE truth = ? AND asked = 1 "
        "ORDER BY told DESC LIMIT ?) ORDER BY told"
    )
    positive = certificate.pos_label
    rows = [bool(alarm) for (alarm,) in database.rows(query, (positive, first, MOST_TRUTHS))]
    monitor, curve, step = DriftMonitor(certificate, false_alarm=FALSE_ALARM), [(0, 0)], max(len(rows) // _POINTS, 1)
    above, below = certificate.threshold + 1.0, certificate.threshold - 1.0
    for start in range(0, len(rows), step):
        monitor.update(
            [above if alarm else below for alarm in rows[start : start + step]],
            [False] * len(rows[start : start + step]),
        )
        curve.append((monitor.seen, monitor.errors))
    report = monitor.report()
    return {
        "seen": report.seen, "errors": report.errors, "promised": monitor.promised_rate, "evidence": report.evidence,
        "line": 1 / FALSE_ALARM, "alarm": report.evidence >= 1 / FALSE_ALARM, "curve": curve,
    }  # fmt: skip
