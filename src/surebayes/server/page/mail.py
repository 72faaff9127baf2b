"""The place "Mail": search in remembered verdicts, explanation of a verdict, reports and their undo."""

from __future__ import annotations

import math
import re
from typing import Any
from urllib.parse import urlencode

from surebayes.errors import BadInput
from surebayes.filter.verdicts.query import STATES
from surebayes.pool.explanation import explanation_of
from surebayes.server.page.evidence import COLOURED, MOST_TEXT, TERMS, coloured, least_familiar, shares
from surebayes.server.page.look import count
from surebayes.server.page.texts import TEXTS, plain
from surebayes.server.page.visit import Done, Visit

ROWS = 50
MOST_REPORTED = 200
"""Maximum number of messages in a report."""
_BACK = re.compile(r"/(mail|mail/message|promise/compare)(\?[!-~]*)?", re.ASCII)


# ---------------------------------------------------------------------- the list


async def mail(visit: Visit) -> dict[str, Any]:
    """Return a page of remembered verdicts that match a search."""
    words, after = visit.field("q", 500), visit.field("after") or None
    problem = ""
    listed: dict[str, Any] = {"verdicts": [], "next": None}
    try:
        listed = await visit.service.search(words, visit.person, ROWS, after)
    except BadInput as error:
        if visit.as_json:
            raise
        problem = str(error)
    more = urlencode({**({"q": words} if words else {}), "after": listed["next"]}) if listed["next"] else ""
    return {
        **listed, "q": words, "problem": problem, "is_first": after is None, "back": _list(words),
        "more": f"/mail?{more}" if more else "", "filters": _filters(visit, words), "states": STATES,
        "latest": await latest_report(visit),
    }  # fmt: skip


def _list(words: str) -> str:
    return f"/mail?{urlencode({'q': words})}" if words else "/mail"


def _filters(visit: Visit, words: str) -> list[dict[str, Any]]:
    """Return the predefined searches."""
    offered = [(TEXTS["mail.all"], ""), (TEXTS["mail.unsure"], "is:unsure")]
    offered += [(label, f"is:{label}") for label in visit.service.classes[1:3]]
    offered += [(TEXTS["mail.unreviewed"], "is:unreviewed"), (TEXTS["mail.wrong"], "is:wrong")]
    return [{"title": title, "to": _list(query), "is_here": query == words} for title, query in offered]


async def latest_report(visit: Visit) -> dict[str, Any] | None:
    """Return the visitor's latest report that can be undone; None if there is none."""
    if not visit.visitor.may("teach"):
        return None
    return await visit.service.latest_report(visit.who, visit.person)


def _back(visit: Visit) -> str:
    """Return the path to go back to, validated to prevent open redirects."""
    named = visit.form.get("back", "")
    return named if isinstance(named, str) and _BACK.fullmatch(named) else "/mail"


# ---------------------------------------------------------------------- reports


async def report(visit: Visit) -> Done:
    """Report messages with a label."""
    numbers, label = visit.numbers("number", MOST_REPORTED), visit.field("as")
    if not numbers:
        raise BadInput(plain("mail.reported-none"))
    outcomes, _ = await visit.service.report(numbers, label, visit.who, visit.person)
    sentences = [plain("mail.reported", messages=count(len(numbers), "message"), label=label)]
    done_quietly = "noted" not in outcomes  # the line with the undo button has the same information
    if recorded := outcomes.get("noted"):
        sentences.append(plain("mail.reported-noted", recorded=count(recorded, "message")))
    return await _changed(visit, numbers, " ".join(sentences), done_quietly)


async def undo(visit: Visit) -> Done:
    """Undo a report."""
    name = visit.field("report")
    if not name:
        raise BadInput(plain("mail.no-report"))
    done = await visit.service.take_back(name, visit.who, visit.person)
    sentences = [plain("mail.undone", restored=count(done["restored"], "message"))]
    if done["changed"]:
        sentences.append(plain("mail.undone-changed", changed=count(done["changed"], "message")))
    return await _changed(visit, done["numbers"], " ".join(sentences))


async def _changed(visit: Visit, numbers: list[int], notice: str, quietly: bool = False) -> Done:
    """Return to the list; scripts get only the changed rows.

    With `quietly`, only screen readers get the notice.
    """
    rows = await visit.service.verdicts_of(numbers, visit.person) if visit.is_scripted else []
    back = _back(visit)
    data = {"rows": rows, "back": back, "latest": await latest_report(visit), "quietly": quietly}
    return Done(notice, back, "piece-changed-rows.html", data)


def _number(visit: Visit, missing: str) -> int:
    number = visit.number("number", 1)
    if number is None:
        raise BadInput(plain(missing))
    return number


async def clear(visit: Visit) -> Done:
    """Remove the correct label of a message."""
    number = _number(visit, "mail.no-number")
    outcome = await visit.service.clear_label(number, visit.who, visit.person)
    return await _changed(visit, [number], TEXTS[f"cleared.{outcome}"])


# ---------------------------------------------------------------------- one message


async def message(visit: Visit) -> dict[str, Any]:
    """Return a remembered verdict and the explanation of the current verdict."""
    number = _number(visit, "mail.no-address")
    row = await visit.service.remembered_verdict(number, visit.person)
    words = visit.field("q", 500)
    return {
        "row": row, "why": await _why(visit, number), "back": _list(words),
        "here": f"/mail/message?{urlencode({'number': number, **({'q': words} if words else {})})}", "q": words,
        "latest": await latest_report(visit),
    }  # fmt: skip


async def _why(visit: Visit, number: int) -> dict[str, Any] | None:
    """Return the explanation of a remembered message's current verdict; None if its content wasn't stored."""
    explained = await visit.service.explain_verdict(number, COLOURED, visit.person)
    now = await visit.service.verdict_now(number, TERMS, visit.person)
    if explained is None or now is None:
        return None
    text = await visit.service.text_of_verdict(number, visit.person) or ""
    classes, label = visit.service.classes, now["label_now"]
    why = explanation_of(explained, classes, label)
    turns = None if now["reversal"] is None else math.ceil(now["reversal"])
    return {
        **now, "unfamiliar": least_familiar(now["novelty_by_view"]), "reversal": turns,
        "positive": classes[-1] if len(classes) == 2 else label, "bias": why.bias,
        **shares(why), "text": coloured(text, why), "cut": len(text) > MOST_TEXT,
    }  # fmt: skip
