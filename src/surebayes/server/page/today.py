"""Today: promises and their assumptions, the budget of alarms, recent verdicts and lessons, drift."""

from __future__ import annotations

from typing import Any

from surebayes.filter.filter import Filter
from surebayes.guarantees.order_statistics import negatives_needed
from surebayes.server.page.visit import Visit

RATES = (0.05, 0.01, 0.001)
"""Possible promises, weakest first."""
DAYS = 30


async def today(visit: Visit) -> dict[str, Any]:
    """Return the present state of the filter."""
    status = await visit.service.status()

    def question(mine: Filter) -> dict[str, Any]:
        return {"activity": mine.activity(DAYS), "drift": mine.drift(), "history": mine.history(limit=1)}

    more = await visit.ask(question)
    promises = _promises(status["certificate"])
    first = visit.service.classes[0]
    have = status["reserved"].get(first, 0)
    return {
        "promises": promises,
        "needs": [_need(rate, have) for rate in RATES],
        "budgets": status["budgets"],
        "audit": status["audit"],
        "words": status["promise"],
        "activity": more["activity"],
        "drift": more["drift"],
        "documents": status["documents"],
        "reserved": status["reserved"],
        "model": status["model"],
        "bytes": status["bytes"],
        "lessons": status["lessons"],
        "latest": more["history"][0] if more["history"] else None,
        "server": status["server"],
    }  # fmt: skip


def _promises(certificate: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the certificates by class."""
    if certificate is None:
        return []
    return list(certificate["classes"].values()) if "classes" in certificate else [certificate]


def _need(rate: float, have: int) -> dict[str, Any]:
    needed = negatives_needed(rate, 0.95)
    return {"max_fpr": rate, "needed": needed, "have": have, "missing": max(needed - have, 0)}
