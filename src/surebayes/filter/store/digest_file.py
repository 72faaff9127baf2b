"""The file with the hash of a journal's lessons so far."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from surebayes.filter.store.journal import Journal
from surebayes.filter.store.lesson_digest import RunningHash
from surebayes.persist.folder import put

if TYPE_CHECKING:
    from surebayes.filter.store.lesson_digest import Scope

NAME = "lessons.hash"
"""The file's name."""
MOST = 20_000
"""Rows that a call reads."""


def digest_here(folder: str, scope: Scope, until: int | None = None) -> tuple[int, str]:
    """Return a row of a folder's journal, and the digest of its lessons up to there; "" while it is being computed.

    Only new rows are read, and so many in one call that following isn't held up. The row is the last one, or `until`;
    the digest is also "" for an earlier row than that of the previous call.
    """
    path = os.path.join(folder, NAME)
    try:
        with open(path, "rb") as file:
            before = file.read(2**16)
        running = RunningHash.from_bytes(before)
    except (OSError, ValueError):  # it is computed again
        before, running = b"", RunningHash()
    journal = Journal(folder, write=False)
    try:
        last = journal.last() if until is None else min(until, journal.last())
        if until is not None and running.replayed.row > last:
            return last, ""
        lessons = running.advance(journal, min(running.replayed.row + MOST, last))
    finally:
        journal.close()
    if running.to_bytes() != before:
        put(folder, NAME, running.to_bytes())
    return last, lessons.digest(scope) if lessons.row == last else ""
