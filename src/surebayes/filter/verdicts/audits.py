"""The running audit: numbers of documents by verdict and correct label.

Counts change in the same transaction as correct labels, so that a crash can't separate them. They remain when verdicts
are deleted. Each document counts once, by its first correct label; documents without a complaint are counted separately
until their label becomes known.
"""

import time

from surebayes.filter.verdicts.database import LABELLED_AT, Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from surebayes.guarantees.running_audit import AlarmAudit

KNOWN, PRESUMED = -1, -2
"""Markers for these counts, in the list of budgets that have counted a verdict."""
QUIET = ""
"""The correct label of documents without a complaint."""
_TABLE = """
CREATE TABLE IF NOT EXISTS audits (
    truth TEXT NOT NULL, given TEXT NOT NULL, person TEXT NOT NULL, documents INTEGER NOT NULL, since REAL NOT NULL,
    PRIMARY KEY (truth, given, person)
) WITHOUT ROWID
"""


def is_there(database: Database) -> bool:
    """Return whether the table of counts exists."""
    return bool(database.rows("SELECT 1 FROM sqlite_master WHERE name = 'audits'"))


def count(database: Database, truth: str, given: str, person: str, documents: int = 1) -> None:
    """Count documents by correct label and verdict; call it in a transaction."""
    now = time.time()
    database.note("audit", "", truth, given, person, documents, now)
    add(database, truth, given, person, documents, now)


def add(database: Database, truth: str, given: str, person: str, documents: int, since: float) -> None:
    """Add to a count; call it in a transaction."""
    if not is_there(database):  # created on first use in a filter of an earlier release
        database.run(_TABLE)
    database.run(
        "INSERT INTO audits VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
        "SET documents = documents + excluded.documents, since = min(since, excluded.since)",
        (truth, given, person, documents, since),
    )


def known(database: Database, counted: "set[int]", truth: str, given: str, person: str) -> None:
    """Count a document's first correct label; call it in a transaction."""
    if KNOWN in counted:
        return
    database.about = None if database.about is None else (database.about[0], KNOWN)
    if PRESUMED in counted:
        count(database, QUIET, given, person, -1)
    count(database, truth, given, person)
    counted.add(KNOWN)


def presumed(database: Database, due: str, values: "tuple[Any, ...]") -> None:
    """Count documents without a complaint; call it in a transaction, before they are marked.

    Parameters
    ----------
    database : Database
        The memory.
    due : str
        A condition on verdicts.
    values : tuple
        Its values.
    """
    quiet = database.rows(
        f"SELECT label, person, count(*) FROM verdicts WHERE {due} AND instr(counted, '-') = 0 GROUP BY 1, 2", values
    )
    for given, person, documents in quiet:
        count(database, QUIET, given, person, documents)


def make_anonymous(database: Database, person: str) -> None:
    """Replace a person in the counts by ""; call it in a transaction."""
    if person and is_there(database):
        of_person = "SELECT truth, given, documents, since FROM audits WHERE person = ?"
        for truth, given, documents, since in database.rows(of_person, (person,)):
            database.note("audit", "", truth, given, person, -documents, since)
            database.note("audit", "", truth, given, "", documents, since)
            add(database, truth, given, "", documents, since)
        database.run("DELETE FROM audits WHERE person = ?", (person,))


def _rows(database: Database, person: "str | None") -> "list[Any]":
    if not is_there(database):
        return []
    which, values = ("", ()) if person is None else (" WHERE person = ?", (person,))
    return database.rows(f"SELECT truth, given, sum(documents), min(since) FROM audits{which} GROUP BY 1, 2", values)


def audits(
    database: Database, labels: "Sequence[str]", person: "str | None", confidence: float
) -> "dict[str, dict[str, Any]]":
    """Return the audit by class; see `Filter.audit`."""
    rows = _rows(database, person)
    labelled = [row for row in rows if row[0] != QUIET and row[2] > 0]
    quiet = [row for row in rows if row[0] == QUIET]
    since = min((row[3] for row in rows), default=None)
    return {label: _audit(label, labelled, quiet, since, confidence) for label in labels if rows}


def _audit(
    label: str, labelled: "Iterable[Any]", quiet: "Iterable[Any]", since: "float | None", confidence: float
) -> "dict[str, Any]":
    from surebayes.guarantees.running_audit import AlarmAudit

    def total(rows: "Iterable[Any]") -> int:
        return sum([int(row[2]) for row in rows])

    negatives = total(row for row in labelled if row[0] != label)
    alarms = total(row for row in labelled if row[0] != label and row[1] == label)
    given = total(row for row in labelled if row[1] == label)
    silent = total(row for row in quiet if row[1] != label)
    precision = _stated(AlarmAudit.of_counts(given, alarms, confidence))
    return {
        "confidence": confidence,
        "since": since,
        "known": _stated(AlarmAudit.of_counts(negatives, alarms, confidence)),
        "presumed": silent,
        "with_presumed": _stated(AlarmAudit.of_counts(negatives + silent, alarms, confidence)),
        "precision": {
            "given": given, "right": given - alarms, "lower": 1 - precision["upper"], "upper": 1 - precision["lower"],
        },
    }  # fmt: skip


def by_day(
    database: Database, labels: "Sequence[str]", days: int, now: float, confidence: float
) -> "dict[str, list[dict[str, Any]]]":
    """Return the audit at the end of each of the latest days, by class; see `Filter.audit_history`."""
    from datetime import UTC, datetime

    from surebayes.guarantees.running_audit import AlarmAudit

    start = now // 86_400 * 86_400 - (days - 1) * 86_400.0
    rows = [row for row in _rows(database, None) if row[0] != QUIET and row[2] > 0]
    query = (
        f"SELECT CAST(({LABELLED_AT} - ?) / 86400 AS INTEGER), label, count(*) FROM verdicts "
        f"WHERE truth = ? AND asked = 1 AND {LABELLED_AT} >= ? GROUP BY 1, 2"
    )
    found: list[tuple[int, str, str, int]] = []
    for truth in sorted({row[0] for row in rows}):
        found += [(min(day, days - 1), truth, *rest) for day, *rest in database.rows(query, (start, truth, start))]
    history: dict[str, list[dict[str, Any]]] = {}
    for label in labels:
        n = sum([int(row[2]) for row in rows if row[0] != label])
        alarms = sum([int(row[2]) for row in rows if row[0] != label and row[1] == label])
        if not n:
            continue
        points: list[dict[str, Any]] = []
        for day in reversed(range(days)):  # subtract each day's labels from the current counts
            if not points or (n, alarms) != (points[-1]["n"], points[-1]["alarms"]):
                stated = _stated(AlarmAudit.of_counts(n, alarms, confidence))
            name = datetime.fromtimestamp(start + day * 86_400, UTC).date().isoformat()
            points.append({"day": name, **stated})
            of_day = [(given, number) for place, truth, given, number in found if place == day and truth != label]
            n -= sum([number for _, number in of_day])
            alarms = max(alarms - sum([number for given, number in of_day if given == label]), 0)
            if n <= 0:
                break
            alarms = min(alarms, n)
        history[label] = points[::-1]
    return history


def _stated(audit: "AlarmAudit") -> "dict[str, Any]":
    return {"n": audit.n, "alarms": audit.alarms, "lower": audit.lower, "upper": audit.upper}


# ---------------------------------------------------------------------- in words


def in_words(
    certificates: "Mapping[str, Mapping[str, Any]]",
    audited: "Mapping[str, Mapping[str, Any]]",
    budgets: "Mapping[str, Mapping[str, Any]]",
) -> "dict[str, dict[str, Any]]":
    """Return by class a sentence each on the promise, the audit and the worst case.

    Parameters
    ----------
    certificates, audited, budgets : dict
        By class, as `Certificate.to_dict`, `Filter.audit` and `Filter.budgets` have them.

    Examples
    --------
    >>> words = in_words({}, {}, {"spam": {"rate": 0.001, "burst": 5.0, "in_flight": 2}})
    >>> words["spam"]["worst"].partition(", plus")[0]
    'in any run of n known good documents, at most 5 + 0.1% x n false alarms'
    """
    words = {}
    for label in dict.fromkeys((*certificates, *audited, *budgets)):
        made, delivered, budget = certificates.get(label), audited.get(label), budgets.get(label)
        promises = [] if made is None or made["goal"] == "budget" else made["promises"][:1]
        words[label] = {
            "state": made["state"] if made is not None and promises else None,
            "renewed": made["renewed"] if made is not None and promises else None,
            "promised": promises[0] if promises else None,
            "delivered": None if delivered is None else _delivered(delivered),
            "worst": None if budget is None else _worst(budget),
        }
    return words


def _delivered(audited: "Mapping[str, Any]") -> str:
    """Summarize the audit: by correct labels, then with documents without a complaint, if any."""
    known, presumed, since = audited["known"], audited["presumed"], audited["since"][:10]
    first = _bounds(known, audited["confidence"])
    if not presumed:
        return f"since {since}, while the filter kept learning: {first}"
    second = _bounds(audited["with_presumed"], audited["confidence"])
    return f"since {since}, while the filter kept learning: {first}; including {presumed:,} presumed good: {second}"


def _bounds(reading: "Mapping[str, Any]", confidence: float) -> str:
    from surebayes.guarantees.budget import between

    if not reading["n"]:
        return "no correct label is known"
    of = f"{reading['alarms']:,} of {reading['n']:,}, {100 * confidence:g}% confidence"
    return f"true false-alarm rate {between(reading['lower'], reading['upper'])} ({of})"


def _worst(budget: "Mapping[str, Any]") -> str:
    return (
        f"in any run of n known good documents, at most {budget['burst']:g} + {100 * budget['rate']:g}% x n false "
        f"alarms, plus those not yet reviewed ({budget['in_flight']:,} now), whatever arrives"
    )
