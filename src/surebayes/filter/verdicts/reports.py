"""Recent reports with their labels and the replaced labels, so that a report can be undone exactly.

A report can be undone for ten minutes, by any process of a server; then its row is deleted.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surebayes.filter.verdicts.database import Database
    from surebayes.filter.verdicts.memory import Memory

SECONDS = 600.0
"""Number of seconds during which a report can be undone."""
_TABLE = (
    "CREATE TABLE IF NOT EXISTS reports (name TEXT PRIMARY KEY, time REAL NOT NULL, who TEXT NOT NULL, "
    "person TEXT NOT NULL, label TEXT NOT NULL, rows TEXT NOT NULL) WITHOUT ROWID"
)


@dataclass(frozen=True)
class Before:
    """The state of a verdict before a report.

    Attributes
    ----------
    number : int
        The number of the verdict.
    label : str or None
        Its correct label; "" if it was presumed without a complaint, None if it was unknown.
    """

    number: int
    label: str | None


@dataclass(frozen=True)
class Report:
    """A report that can be undone.

    Attributes
    ----------
    name : str
        Its random name.
    time : float
        Its time, in seconds since 1970.
    label : str
        The label that the report set.
    before : list of Before
        The replaced labels.
    """

    name: str
    time: float
    label: str
    before: list[Before]


def _is_there(database: Database) -> bool:
    return bool(database.rows("SELECT 1 FROM sqlite_master WHERE name = 'reports'"))


def keep(memory: Memory, author: str, person: str | None, label: str, before: Sequence[Before]) -> str:
    """Store a report and return its name; expired reports are deleted."""
    name, now = os.urandom(12).hex(), time.time()
    rows = json.dumps([[each.number, each.label] for each in before])
    with memory.lock, memory.database.writing():
        memory.database.run(_TABLE)  # created on first use in a file of an earlier release
        memory.database.run("DELETE FROM reports WHERE abs(? - time) > ?", (now, SECONDS))
        memory.database.run(
            "INSERT INTO reports VALUES (?, ?, ?, ?, ?, ?)", (name, now, author, person or "", label, rows)
        )
    return name


def latest(memory: Memory, author: str, person: str | None, name: str | None = None) -> Report | None:
    """Return the latest report of an author, or the report with a name; None if there is none or it has expired."""

    def look(database: Database) -> Report | None:
        if not _is_there(database):
            return None
        query = "SELECT name, time, label, rows FROM reports WHERE who = ? AND person = ? AND abs(? - time) <= ?"
        values = [author, person or "", time.time(), SECONDS]
        if name is not None:
            query, values = f"{query} AND name = ?", [*values, name]
        rows = database.rows(f"{query} ORDER BY time DESC LIMIT 1", tuple(values))
        if not rows:
            return None
        found, when, label, before = rows[0]
        return Report(found, when, label, [Before(*each) for each in json.loads(before)])

    return memory.search(look)


def drop(memory: Memory, name: str) -> None:
    """Delete a report."""
    with memory.lock, memory.database.writing():
        memory.database.run("DELETE FROM reports WHERE name = ?", (name,))


def erase(database: Database, person: str) -> None:
    """Delete the reports of a person; call it in a transaction."""
    if _is_there(database):
        database.run("DELETE FROM reports WHERE person = ? OR who = ?", (person, person))
