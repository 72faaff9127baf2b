"""Explanations of verdicts (views, deciding terms, marked text), and the check of a pasted message."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Sequence
from typing import Any

from surebayes.errors import BadInput
from surebayes.filter.filter import Filter
from surebayes.filter.verdict import FIELDS
from surebayes.mail.message import read_message
from surebayes.pool.explanation import explanation_of
from surebayes.server.page.texts import plain
from surebayes.server.page.visit import LISTENER, Done, Visit

TERMS = 12
"""Number of terms to show per view."""
DECIDING = 6
"""Number of terms to show for and against the verdict, over all views."""
COLOURED = 400
"""Number of terms per view to mark in the text."""
MOST_TERM = 80
"""Maximum length of a shown term or passage, in characters."""
MOST_TEXT = 40_000
"""Maximum length of the shown text, in characters."""
MOST_AGAIN = 256 * 1024
"""Maximum size in bytes of a message that the page includes for a later lesson; a larger one must be uploaded again."""
_WORD = re.compile(r"\w\w+")


async def check(visit: Visit) -> dict[str, Any]:
    """Return the explanation of the submitted message, if there is one."""
    document = _given(visit)
    limit = visit.service.options.max_size
    if not document:
        return {"explained": None, "size": 0, "limit": limit, "again": ""}
    explained = await visit.ask(lambda mine: explanation(mine, document))
    again = base64.b64encode(document).decode() if len(document) <= MOST_AGAIN else ""
    return {"explained": explained, "size": len(document), "limit": limit, "again": again}


def _given(visit: Visit) -> bytes:
    """Return the message in a form: the uploaded file or the pasted text."""
    file, pasted, again = (visit.form.get(name, "") for name in ("file", "mail", "again"))
    if isinstance(again, str) and again:
        try:
            return base64.b64decode(again, validate=True)
        except ValueError:
            raise BadInput(plain("check.unreadable")) from None
    if isinstance(file, bytes) and file:
        return file
    text = pasted if isinstance(pasted, str) else ""
    return text.replace("\r\n", "\n").encode("utf-8", "surrogateescape") if text.strip() else b""


def explanation(mine: Filter, document: bytes) -> dict[str, Any]:
    """Return the verdict on a message and its explanation."""
    verdict = mine.judge(document, remember=False)
    why = explanation_of(mine.explain(document, COLOURED), mine.classes, verdict.label)
    message = read_message(document)
    changed = mine.explain_layers(document, TERMS)
    copies = verdict.reversal
    return {
        **{name: getattr(verdict, name) for name in FIELDS},
        "reversal": math.ceil(copies) if copies is not None and math.isfinite(copies) else None,
        "novelty": verdict.novelty, "unfamiliar": least_familiar(verdict.novelty_by_view),
        "known": _known(mine, document),
        "positive": mine.classes[-1] if len(mine.classes) == 2 else verdict.label,
        "subject": message.subject, "sender": message.headers.get("from"), "truncated": message.truncated,
        "bias": why.bias, **shares(why), "text": coloured(message.text, why), "cut": len(message.text) > MOST_TEXT,
        "layers": None if changed is None else changed.to_dict(),
    }  # fmt: skip


def least_familiar(p_values: dict[str, float]) -> str | None:
    """Return the part of a document that is least like the known ones: its "words" or its "source"."""
    view = min(p_values, key=lambda name: p_values[name], default=None)
    return None if view is None else "words" if view == "words" else "source"


def _known(mine: Filter, document: bytes) -> str | None:
    """Return the class with which a message was learnt; None if it was not learnt."""
    rows = [row for row in mine.history(document, 10) if row["action"] in ("learn", "forget")]
    return rows[0]["label"] if rows and rows[0]["action"] == "learn" else None


def shares(why: Any) -> dict[str, Any]:
    """Return the contributions of the views, with their strongest terms or passages."""
    views = []
    for view in why.views:
        if view.text is None:
            strongest = [(term, float(value)) for term, value in zip(view.terms, view.contributions)][:TERMS]
        else:
            strongest = [(view.text[start:stop], value) for start, stop, value in view.spans(TERMS)]
        terms = [{"term": _shortened(term), "share": value} for term, value in strongest]
        views.append({"view": view.name, "share": view.share, "terms": terms})
    each = [abs(term["share"]) for view in views for term in view["terms"]]
    together = _together(why)
    return {
        "views": views, "most_view": max((abs(view["share"]) for view in views), default=0.0),
        "most_term": max(each, default=0.0), "deciding": together,
        "most_deciding": max((abs(term["share"]) for terms in together.values() for term in terms), default=0.0),
    }  # fmt: skip


def _together(why: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the terms that decide, over all views: the strongest for the positive class, and against it."""
    sums: dict[str, float] = {}
    for view in why.views:
        rows = zip(view.terms, view.contributions) if view.text is None else ()
        for term, value in rows:
            sums[term] = sums.get(term, 0.0) + float(value)
    ranked = sorted(sums.items(), key=lambda item: -abs(item[1]))
    rows_of: list[dict[str, Any]] = [{"term": _shortened(term), "share": value} for term, value in ranked]
    return {
        "for": [row for row in rows_of if row["share"] > 0][:DECIDING],
        "against": [row for row in rows_of if row["share"] < 0][:DECIDING],
    }


def _shortened(term: str) -> str:
    """Shorten a term to fit next to its bar: a passage may be as long as the message."""
    return term if len(term) <= MOST_TERM else f"{term[: MOST_TERM // 2]} … {term[-MOST_TERM // 2 :]}"


def coloured(text: str, why: Any) -> list[tuple[str, str]]:
    """Cut a text into pieces, each with its strength: "f1" to "f3" for, "a1" to "a3" against, "" neither."""
    weights: dict[str, float] = {}
    for view in why.views:
        for term, value in zip(view.terms, view.contributions):
            if _WORD.fullmatch(term):
                weights[term] = weights.get(term, 0.0) + float(value)
    strongest = max((abs(value) for value in weights.values()), default=0.0)
    pieces: list[tuple[str, str]] = []
    end = 0
    for match in _WORD.finditer(text[:MOST_TEXT]):
        mark = _strength(weights.get(match[0].lower(), 0.0), strongest)
        if mark:
            _add(pieces, text[end : match.start()], "")
            _add(pieces, match[0], mark)
            end = match.end()
    _add(pieces, text[end:MOST_TEXT], "")
    return pieces


def _add(pieces: list[tuple[str, str]], text: str, mark: str) -> None:
    if text:
        pieces.append((text, mark))


def _strength(value: float, strongest: float) -> str:
    share = abs(value) / strongest if strongest else 0.0
    level = next((level for level, bound in ((3, 0.5), (2, 0.2), (1, 0.05)) if share >= bound), 0)
    return f"{'f' if value > 0 else 'a'}{level}" if level else ""


async def teach(visit: Visit) -> Done:
    """Teach the message on the page."""
    label = visit.field("as")
    (outcome,) = await visit.service.teach(_documents(visit), label, LISTENER, visit.who, visit.person)
    return Done(plain(f"outcome.{outcome}", label=label), "/mail/check")


async def forget(visit: Visit) -> Done:
    """Forget the message on the page."""
    (outcome,) = await visit.service.forget(_documents(visit), LISTENER, visit.who, visit.person)
    return Done(plain(f"outcome.{'never' if outcome == 'unknown' else outcome}"), "/mail/check")


def _documents(visit: Visit) -> Sequence[bytes]:
    document = _given(visit)
    if not document:
        raise BadInput(plain("check.missing"))
    return [document]
