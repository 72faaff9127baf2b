"""The place "Learning": lessons, messages needed for promises, versions, and rollback."""

from __future__ import annotations

from typing import Any

from surebayes.errors import BadInput
from surebayes.guarantees.order_statistics import negatives_needed
from surebayes.server.page.look import count
from surebayes.server.page.texts import plain
from surebayes.server.page.visit import Done, Visit
from surebayes.server.service import lessons_by_person

RATES = (0.05, 0.01, 0.001)
"""Rates of possible promises, weakest first."""
ROWS = 50
MOST_VERSIONS = 200


def needs(have: int) -> list[dict[str, Any]]:
    """Return the number of good messages that each promise needs, and the number still missing."""
    needed = [(rate, negatives_needed(rate, 0.95)) for rate in RATES]
    return [{"max_fpr": rate, "needed": n, "have": have, "missing": max(n - have, 0)} for rate, n in needed]


# ---------------------------------------------------------------------- lessons


async def learning(visit: Visit) -> dict[str, Any]:
    """Return the journal's rows, latest first, and for the site's filter the messages needed for promises."""
    before = visit.number("before", 1)
    rows, more = await visit.service.lessons(ROWS, before, visit.person)
    learnt = await visit.ask(lambda mine: mine.learnt())
    have = learnt["reserved"].get(visit.service.classes[0], 0)
    return {
        "rows": rows, "next": rows[-1]["version"] if more else None, "is_first": before is None,
        "authors": lessons_by_person(rows), "documents": learnt["documents"],
        "needs": needs(have) if visit.person is None else [], "have": have,
    }  # fmt: skip


async def undo(visit: Visit) -> Done:
    """Undo one lesson without changing later ones."""
    version = visit.number("version", 1)
    if version is None:
        raise BadInput(plain("learning.no-version"))
    outcome = await visit.service.undo(version, visit.who, visit.person)
    return Done(plain("learning.undone", version=count(version), outcome=outcome), "/learning")


# ---------------------------------------------------------------------- versions


async def versions(visit: Visit) -> dict[str, Any]:
    """Return the versions of the model, and the changes between two of them."""
    listed = await visit.service.versions(visit.person)
    now = await _now(visit)
    first, last = visit.number("from"), visit.number("to")
    changed = None
    if first is not None:
        changed = await visit.service.difference(first, now if last is None else last, ROWS, visit.person)
    return {"versions": listed[:MOST_VERSIONS], "now": now, "first": first, "last": last, "changed": changed}


async def _now(visit: Visit) -> int:
    latest = await visit.service.history(1, visit.person)
    return int(latest[0]["version"]) if latest else 0


async def confirm_rollback(visit: Visit) -> dict[str, Any]:
    """Return the lessons that a rollback would undo."""
    version = visit.number("version")
    if version is None:
        raise BadInput(plain("versions.no-address"))
    changed = await visit.service.difference(version, await _now(visit), 20, visit.person)
    return {"version": version, "changed": changed}


async def rollback(visit: Visit) -> Done:
    """Restore a version."""
    version = visit.number("version")
    if version is None:
        raise BadInput(plain("versions.no-version"))
    outcome = await visit.service.rollback(version, visit.who, visit.person)
    entries = count(outcome["undone"], "entry")
    return Done(plain("versions.done", version=count(version), entries=entries), "/learning/versions")
