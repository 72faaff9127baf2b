"""Alarms without verdicts: fingerprints of flagged documents, for correct labels that arrive late.

A verdict is deleted when it is old, when the memory is full, or when it is erased. If it was an alarm, its fingerprint
is kept, so that a later label still counts against the budget, regardless of the amount of mail and of clock changes.
If fingerprints exceed their share of the memory, some are dropped, and their number is recorded. Then as many good
documents without a verdict count as false alarms, because they may be among the dropped ones.
"""

from surebayes.filter.verdicts import budgets as _budgets
from surebayes.filter.verdicts.database import Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from surebayes.filter.store.events import Lesson
    from surebayes.filter.verdicts.budgets import InForce

BYTES_OF_ONE = 64
"""Approximate size of a fingerprint in the file, including the index, in bytes."""
SHARE = 0.5
"""Maximum share of a memory's bytes for fingerprints."""
_DROPPED = "dropped alarms: "
_KEY = "fingerprint = ? AND person = ? AND label = ?"
_OPEN = "flagged = 1 AND (truth IS NULL OR label NOT IN (SELECT label FROM budgets WHERE instr(' ' || counted || ' ', "
_OPEN += "' ' || place || ' '))) AND label IN (SELECT label FROM budgets)"
"""SQL condition for verdicts that are false alarms if their document is good, and that are not counted yet."""


def keep(database: Database, which: str, values: "tuple[Any, ...]" = (), with_person: bool = True) -> None:
    """Keep the fingerprints of verdicts that are about to be deleted; call it in a transaction.

    Parameters
    ----------
    database : Database
        The memory.
    which : str
        An SQL condition on verdicts.
    values : tuple
        The parameters of the condition.
    with_person : bool
        Whether to keep the person.
    """
    if not database.rows(f"SELECT 1 FROM verdicts WHERE ({which}) AND {_OPEN} LIMIT 1", values):
        return
    database.make_alarms()
    person = "person" if with_person else "''"
    database.run(
        f"INSERT INTO alarms SELECT fingerprint, {person}, label, count(*), min(truth IS NOT NULL) FROM verdicts "
        f"WHERE ({which}) AND {_OPEN} GROUP BY 1, 2, 3 ON CONFLICT DO UPDATE "
        "SET answers = answers + excluded.answers, known = min(known, excluded.known)",
        values,
    )


def make_anonymous(database: Database, which: str, values: "tuple[Any, ...]") -> None:
    """Remove the person from alarms that match a condition; call it in a transaction."""
    if not database.has_alarms:
        return
    rows = database.rows(
        f"SELECT fingerprint, label, answers, known FROM alarms WHERE ({which}) AND person != ''", values
    )
    database.run(f"DELETE FROM alarms WHERE ({which}) AND person != ''", values)
    for row in rows:
        database.run(
            "INSERT INTO alarms VALUES (?, '', ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET answers = answers + excluded.answers, known = min(known, excluded.known)",
            row,
        )


def bytes_taken(database: Database) -> int:
    """Return the approximate size of all fingerprints, in bytes."""
    if not database.has_alarms:
        return 0
    return BYTES_OF_ONE * int(database.rows("SELECT count(*) FROM alarms")[0][0])


def trim(database: Database, most_bytes: float) -> None:
    """Drop fingerprints that exceed their share of a memory, and record their number; call it in a transaction."""
    beyond = (bytes_taken(database) - int(SHARE * most_bytes)) // BYTES_OF_ONE
    if beyond <= 0:
        return
    chosen = "FROM alarms WHERE fingerprint <= (SELECT max(fingerprint) FROM (SELECT fingerprint FROM alarms LIMIT ?))"
    by_label = database.rows(f"SELECT label, sum(answers) {chosen} GROUP BY label", (beyond,))
    database.run(f"DELETE {chosen}", (beyond,))
    for label, answers in by_label:
        _set_dropped(database, label, dropped(database, label) + answers)


def dropped(database: Database, label: str) -> int:
    """Return the number of alarms of a class whose fingerprints were dropped."""
    rows = database.rows("SELECT value FROM facts WHERE name = ?", (_DROPPED + label,))
    return int(rows[0][0]) if rows else 0


def _set_dropped(database: Database, label: str, number: int) -> None:
    database.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (_DROPPED + label, number))


def of(database: Database, fingerprint: str, person: "str | None") -> "list[Any]":
    """Return the alarms on a document, for one person or all: person, label, number of verdicts, and known or not."""
    if not database.has_alarms:
        return []
    also, values = ("", (fingerprint,)) if person is None else (" AND person = ?", (fingerprint, person))
    query = f"SELECT person, label, answers, known FROM alarms WHERE fingerprint = ?{also}"
    return database.rows(query, values)


def take(database: Database, fingerprint: str, person: str, label: "str | None") -> "str | None":
    """Remove an alarm on a document that gets a new verdict; return its class, which must be `label` if given."""
    for _, its_label, answers, _ in of(database, fingerprint, person):
        if label is None or its_label == label:
            key = fingerprint, person, its_label
            if answers > 1:
                database.run(f"UPDATE alarms SET answers = answers - 1 WHERE {_KEY}", key)
            else:
                database.run(f"DELETE FROM alarms WHERE {_KEY}", key)
            return str(its_label)
    return None


def record_label(
    database: Database, found: "Iterable[Any]", fingerprint: str, truth: str, force: "Mapping[str, InForce]",
    lesson: "Lesson | None",
) -> "tuple[bool, int]":  # fmt: skip
    """Count a correct label for alarms found by `of`; return whether any was false, and how many became known."""
    any_alarm, became_known = False, 0
    for person, label, answers, known in found:
        key = fingerprint, person, label
        became_known += 0 if known else answers
        if truth == label or label not in force:  # keep it, because the label may change later
            database.run(f"UPDATE alarms SET known = 1 WHERE {_KEY}", key)
            continue
        for _ in range(answers):
            _budgets.record(database, label, True, fingerprint, lesson)
        database.run(f"DELETE FROM alarms WHERE {_KEY}", key)
        any_alarm = True
    return any_alarm, became_known


def suspected(database: Database, truth: str, force: "Mapping[str, InForce]") -> "str | None":
    """Return a class with dropped alarms, to which a document without a verdict may belong; None if there is none.

    If the correct label is another class, the number of dropped alarms decreases by one.
    """
    for label in force:
        number = dropped(database, label)
        if number:
            if truth != label:
                _set_dropped(database, label, number - 1)
            return label
    return None


def forget_class(database: Database, label: str) -> None:
    """Delete the alarms of a class after the end of its budget."""
    database.run("DELETE FROM facts WHERE name = ?", (_DROPPED + label,))
    if database.has_alarms:
        database.run("DELETE FROM alarms WHERE label = ?", (label,))


def in_flight(database: Database, label: str) -> int:
    """Return the number of alarms of a class without a correct label among those without a verdict."""
    number = dropped(database, label)
    if database.has_alarms:
        query = "SELECT coalesce(sum(answers), 0) FROM alarms WHERE label = ? AND NOT known"
        number += int(database.rows(query, (label,))[0][0])
    return number
