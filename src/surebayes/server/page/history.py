"""History: remembered verdicts and their correct labels, the review queue, and the lessons."""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import urlencode

from surebayes.errors import BadInput
from surebayes.pool.explanation import explanation_of
from surebayes.server.page.mail import COLOURED, MOST_TEXT, TERMS, coloured, shares
from surebayes.server.page.visit import Done, Visit

ROWS = 50
_BACK = re.compile(r"/(history|queue|lessons|shadow)(\?[!-~]*)?", re.ASCII)
SAID = {
    "learnt": "Learnt as {}.",
    "already": "Already known as {}.",
    "moved": "Moved to {}.",
    "noted": "Recorded as {}. The message itself was not stored, so nothing was learnt.",
}
"""Notices for the outcomes of setting a label."""
TAKEN_BACK = {
    "forgotten": "Undone: the lesson is forgotten.",
    "moved": "Undone: the earlier label is restored.",
    "already": "Undone.",
    "noted": "Undone.",
    "unknown": "Nothing to undo.",
}


# ---------------------------------------------------------------------- the list


async def history(visit: Visit) -> dict[str, Any]:
    """Return remembered verdicts, latest first, with the filters of the query string."""
    wanted = {name: visit.field(name) for name in ("sender", "subject", "day", "label", "person", "known")}
    known = {"yes": True, "no": False}.get(wanted["known"])
    person = visit.person or wanted["person"] or None
    listed = await visit.service.remembered(
        person=person, limit=ROWS, before=visit.number("before"), known=known,
        **{name: wanted[name] or None for name in ("sender", "subject", "day", "label")},
    )  # fmt: skip
    query = urlencode({name: value for name, value in wanted.items() if value})
    return {
        **listed, "wanted": wanted, "is_filtered": any(wanted.values()), "back": _here(visit),
        "more": f"/history?{query}&" if query else "/history?",
    }  # fmt: skip


def _here(visit: Visit) -> str:
    url = visit.request.url
    return url.path.removesuffix(".json") + (f"?{url.query}" if url.query else "")


def _back(visit: Visit, default: str) -> str:
    """Return the page of a form; its address is checked, to prevent open redirects."""
    named = visit.form.get("back", "")
    return named if isinstance(named, str) and _BACK.fullmatch(named) else default


def _number(visit: Visit) -> int:
    number = visit.number("number", 1)
    if number is None:
        raise BadInput("The form has no number of a verdict. Load the page again.")
    return number


async def tell(visit: Visit) -> Done:
    """Set the correct label of a remembered message."""
    number, label = _number(visit), visit.field("as")
    outcome = await visit.service.tell(number, label, visit.who, visit.person)
    row = await visit.service.remembered_verdict(number, visit.person)
    return Done(SAID[outcome].format(label), _back(visit, "/history"), "piece-row.html",
                {"row": row, "back": _back(visit, "/history")})  # fmt: skip


async def undo(visit: Visit) -> Done:
    """Remove the correct label of a remembered message."""
    number = _number(visit)
    outcome = await visit.service.untell(number, visit.who, visit.person)
    row = await visit.service.remembered_verdict(number, visit.person)
    return Done(TAKEN_BACK[outcome], _back(visit, "/history"), "piece-row.html",
                {"row": row, "back": _back(visit, "/history")})  # fmt: skip


# ---------------------------------------------------------------------- one verdict


async def verdict(visit: Visit) -> dict[str, Any]:
    """Return a remembered verdict, and the explanation of the present one."""
    number = visit.number("number", 1)
    if number is None:
        raise BadInput("The address has no number of a verdict. Use /verdict?number=1.")
    row = await visit.service.remembered_verdict(number, visit.person)
    return {"row": row, "why": await _why(visit, number), "back": "/history"}


async def _why(visit: Visit, number: int) -> dict[str, Any] | None:
    """Return the explanation of a remembered message's score; None if its content was not kept."""
    explained = await visit.service.explain_verdict(number, COLOURED, visit.person)
    now = await visit.service.verdict_now(number, TERMS, visit.person)
    if explained is None or now is None:
        return None
    text = await visit.service.text_of_verdict(number, visit.person) or ""
    classes, label = visit.service.classes, now["label_now"]
    why = explanation_of(explained, classes, label)
    turns = None if now["reversal"] is None else math.ceil(now["reversal"])
    return {
        **now, "reversal": turns, "positive": classes[-1] if len(classes) == 2 else label, "bias": why.bias,
        **shares(why), "text": coloured(text, why), "cut": len(text) > MOST_TEXT,
    }  # fmt: skip


# ---------------------------------------------------------------------- review queue


async def queue(visit: Visit) -> dict[str, Any]:
    """Return the unreviewed message with the least certain verdict."""
    skip, last = visit.number("skip", 0, 10_000) or 0, visit.number("last", 1)
    listed = await visit.service.remembered(person=visit.person, known=False, least_sure=True, skip=skip, limit=1)
    rows = listed["verdicts"]
    row = rows[0] if rows else None
    why = None if row is None else await _why(visit, row["id"])
    told = None
    if last is not None:
        told = await visit.service.remembered_verdict(last, visit.person)
    return {"row": row, "why": why, "skip": skip, "last": told, "back": _here(visit)}


async def tell_next(visit: Visit) -> Done:
    """Label the message in the queue, and continue with the next."""
    number, label = _number(visit), visit.field("as")
    outcome = await visit.service.tell(number, label, visit.who, visit.person)
    return Done(SAID[outcome].format(label), f"/queue?last={number}&skip={visit.number('skip', 0, 10_000) or 0}")


async def undo_last(visit: Visit) -> Done:
    """Remove the last label: its message returns to the queue."""
    outcome = await visit.service.untell(_number(visit), visit.who, visit.person)
    return Done(TAKEN_BACK[outcome], f"/queue?skip={visit.number('skip', 0, 10_000) or 0}")


# ---------------------------------------------------------------------- lessons


async def lessons(visit: Visit) -> dict[str, Any]:
    """Return the journal's rows, latest first."""
    limit = visit.number("limit", 1, 1000) or 100
    return {"rows": await visit.service.history(limit, visit.person), "limit": limit, "back": "/lessons"}


async def undo_lesson(visit: Visit) -> Done:
    """Undo one lesson; later ones stay."""
    version = visit.number("version", 1)
    if version is None:
        raise BadInput("The form has no number of a lesson. Load the page again.")
    outcome = await visit.service.undo(version, visit.who, visit.person)
    return Done(f"Lesson {version:,} undone: {outcome}.", "/lessons")
