"""Alarms that outlive their verdicts: fingerprints of flagged documents whose correct label may still arrive.

A verdict is forgotten when it is old, when the memory is full, or when it is erased. If it was an alarm, its
fingerprint stays: a later label counts against the budget, however much mail came in between and whatever the clock
did. Only when fingerprints take more than their share of the memory are some dropped and counted. From then on, that
many documents without a verdict count as alarms if they turn out to be good, because they may be among them.
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
"""Bytes of a fingerprint in the file, index included."""
SHARE = 0.5
"""Maximum share of a memory's bytes for fingerprints."""
_DROPPED = "dropped alarms: "
_KEY = "fingerprint = ? AND person = ? AND label = ?"
_OPEN = "flagged = 1 AND (truth IS NULL OR label NOT IN (SELECT label FROM budgets WHERE instr(' ' || counted || ' ', "
_OPEN += "' ' || place || ' '))) AND label IN (SELECT label FROM budgets)"
"""SQL condition: verdicts that would be false alarms if good, and are not counted yet."""


def keep(database: Database, which: str, values: "tuple[Any, ...]" = (), with_person: bool = True) -> None:
    """Keep the fingerprints of verdicts about to be deleted; call it in a transaction.

    Parameters
    ----------
    database : Database
        The memory.
    which : str
        A condition on verdicts.
    values : tuple
        Its values.
    with_person : bool
        Whether to keep the person, too.
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
    """Return the approximate bytes of the fingerprints."""
    if not database.has_alarms:
        return 0
    return BYTES_OF_ONE * int(database.rows("SELECT count(*) FROM alarms")[0][0])


def trim(database: Database, most_bytes: float) -> None:
    """Drop and count fingerprints beyond their share of a memory; call it in a transaction."""
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
    """Return the alarms on a document, of one person or all: person, label, answers, and whether they are known."""
    if not database.has_alarms:
        return []
    also, values = ("", (fingerprint,)) if person is None else (" AND person = ?", (fingerprint, person))
    query = f"SELECT person, label, answers, known FROM alarms WHERE fingerprint = ?{also}"
    return database.rows(query, values)


def take(database: Database, fingerprint: str, person: str, label: "str | None") -> "str | None":
    """Remove and return an alarm on a document that gets a new verdict: its class, `label` if given."""
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
        if truth == label or label not in force:  # the label may change later, which makes it an alarm after all
            database.run(f"UPDATE alarms SET known = 1 WHERE {_KEY}", key)
            continue
        for _ in range(answers):
            _budgets.record(database, label, True, fingerprint, lesson)
        database.run(f"DELETE FROM alarms WHERE {_KEY}", key)
        any_alarm = True
    return any_alarm, became_known


def suspected(database: Database, truth: str, force: "Mapping[str, InForce]") -> "str | None":
    """Return the class whose dropped alarms a document without a verdict may belong to.

    If its label is another class, it uses up one dropped alarm.
    """
    for label in force:
        number = dropped(database, label)
        if number:
            if truth != label:
                _set_dropped(database, label, number - 1)
            return label
    return None


def forget_class(database: Database, label: str) -> None:
    """Delete the alarms of a class whose budget has ended."""
    database.run("DELETE FROM facts WHERE name = ?", (_DROPPED + label,))
    if database.has_alarms:
        database.run("DELETE FROM alarms WHERE label = ?", (label,))


def in_flight(database: Database, label: str) -> int:
    """Return the number of alarms of a class without a verdict and without a correct label."""
    number = dropped(database, label)
    if database.has_alarms:
        query = "SELECT coalesce(sum(answers), 0) FROM alarms WHERE label = ? AND NOT known"
        number += int(database.rows(query, (label,))[0][0])
    return number
