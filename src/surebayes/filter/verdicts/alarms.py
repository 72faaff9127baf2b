"""Alarms that outlive their verdicts: the fingerprints of flagged documents whose truth may still come.

A verdict is forgotten when it is old, when the memory is full, or when it is erased. If it was an alarm, its
fingerprint stays: a truth that comes later counts against the budget, however much mail came in between and whatever
the clock did. Only where fingerprints themselves take more than their share of the memory, some are dropped and
counted: from then on so many documents without a verdict count as alarms when they turn out to be good, because they
may be among them.
"""

from surebayes.filter.verdicts import budgets as _budgets
from surebayes.filter.verdicts.database import Database

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from surebayes.filter.verdicts.budgets import InForce

BYTES_OF_ONE = 64
"""Bytes that a fingerprint takes in the file, with the index that it is found by."""
SHARE = 0.5
"""Of the bytes of a memory, how many fingerprints may take."""
_DROPPED = "dropped alarms: "
_KEY = "fingerprint = ? AND person = ? AND label = ?"
_OPEN = "flagged = 1 AND (truth IS NULL OR label NOT IN (SELECT label FROM budgets WHERE instr(' ' || counted || ' ', "
_OPEN += "' ' || place || ' '))) AND label IN (SELECT label FROM budgets)"
"""Verdicts that were alarms, if their documents are good, and were not counted as such."""


def keep(database: Database, which: str, values: "tuple[Any, ...]" = (), with_person: bool = True) -> None:
    """Keep the fingerprints of verdicts that are about to be deleted; to be called in a transaction.

    Parameters
    ----------
    database : Database
        The memory.
    which : str
        A condition on verdicts.
    values : tuple
        Its values.
    with_person : bool
        Whether for whom the verdict was is kept too.
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
    """Forget for whom alarms were, as far as a condition on them goes; to be called in a transaction."""
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
    """Return about how many bytes the fingerprints take."""
    if not database.has_alarms:
        return 0
    return BYTES_OF_ONE * int(database.rows("SELECT count(*) FROM alarms")[0][0])


def trim(database: Database, most_bytes: float) -> None:
    """Drop fingerprints beyond their share of a memory, and count them; to be called in a transaction."""
    beyond = (bytes_taken(database) - int(SHARE * most_bytes)) // BYTES_OF_ONE
    if beyond <= 0:
        return
    chosen = "FROM alarms WHERE fingerprint <= (SELECT max(fingerprint) FROM (SELECT fingerprint FROM alarms LIMIT ?))"
    by_label = database.rows(f"SELECT label, sum(answers) {chosen} GROUP BY label", (beyond,))
    database.run(f"DELETE {chosen}", (beyond,))
    for label, answers in by_label:
        _set_dropped(database, label, dropped(database, label) + answers)


def dropped(database: Database, label: str) -> int:
    """Return how many alarms of a class have no fingerprint any more."""
    rows = database.rows("SELECT value FROM facts WHERE name = ?", (_DROPPED + label,))
    return int(rows[0][0]) if rows else 0


def _set_dropped(database: Database, label: str, number: int) -> None:
    database.run("INSERT OR REPLACE INTO facts VALUES (?, ?)", (_DROPPED + label, number))


def of(database: Database, fingerprint: str, person: "str | None") -> "list[Any]":
    """Return the alarms on a document, those of a person or of all: person, label, answers, and whether it is known."""
    if not database.has_alarms:
        return []
    also, values = ("", (fingerprint,)) if person is None else (" AND person = ?", (fingerprint, person))
    query = f"SELECT person, label, answers, known FROM alarms WHERE fingerprint = ?{also}"
    return database.rows(query, values)


def take(database: Database, fingerprint: str, person: str, label: "str | None") -> "str | None":
    """Take over an alarm on a document that gets a verdict again: one of this class, or of any; return its class."""
    for _, its_label, answers, _ in of(database, fingerprint, person):
        if label is None or its_label == label:
            key = fingerprint, person, its_label
            if answers > 1:
                database.run(f"UPDATE alarms SET answers = answers - 1 WHERE {_KEY}", key)
            else:
                database.run(f"DELETE FROM alarms WHERE {_KEY}", key)
            return str(its_label)
    return None


def tell(
    database: Database, found: "Iterable[Any]", fingerprint: str, truth: str, force: "Mapping[str, InForce]",
    who: "str | None",
) -> "tuple[bool, int]":  # fmt: skip
    """Count a truth about alarms that `of` found; return whether it was a false alarm, and how many became known."""
    any_alarm, became_known = False, 0
    for person, label, answers, known in found:
        key = fingerprint, person, label
        became_known += 0 if known else answers
        if truth == label or label not in force:  # minds may change: then it is an alarm after all
            database.run(f"UPDATE alarms SET known = 1 WHERE {_KEY}", key)
            continue
        for _ in range(answers):
            _budgets.record(database, label, True, fingerprint, who)
        database.run(f"DELETE FROM alarms WHERE {_KEY}", key)
        any_alarm = True
    return any_alarm, became_known


def suspected(database: Database, truth: str, force: "Mapping[str, InForce]") -> "str | None":
    """Return the class that a document without a verdict may have been an alarm of, where fingerprints were dropped.

    If it is no document of that class, one alarm less has no fingerprint.
    """
    for label in force:
        number = dropped(database, label)
        if number:
            if truth != label:
                _set_dropped(database, label, number - 1)
            return label
    return None


def forget_class(database: Database, label: str) -> None:
    """Forget the alarms of a class whose budget has ended."""
    database.run("DELETE FROM facts WHERE name = ?", (_DROPPED + label,))
    if database.has_alarms:
        database.run("DELETE FROM alarms WHERE label = ?", (label,))


def in_flight(database: Database, label: str) -> int:
    """Return how many alarms of a class have outlived their verdicts, and aren't known to be right."""
    number = dropped(database, label)
    if database.has_alarms:
        query = "SELECT coalesce(sum(answers), 0) FROM alarms WHERE label = ? AND NOT known"
        number += int(database.rows(query, (label,))[0][0])
    return number
