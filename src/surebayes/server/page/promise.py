"""The place "Promise": promised and delivered rates, choice of a threshold, comparison with other filters."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from surebayes.errors import BadInput
from surebayes.filter.filter import Filter
from surebayes.server.page import charts
from surebayes.server.page.mail import latest_report
from surebayes.server.page.texts import plain
from surebayes.server.page.visit import Done, Visit

CONFIDENCES = (0.9, 0.95, 0.99)
DAYS = 30
ROWS = 50
LATEST = 10_000
"""Number of remembered verdicts to apply a threshold to."""


async def promise(visit: Visit) -> dict[str, Any]:
    """Return the promises, the delivered rates, and the budgets."""

    def question(mine: Filter) -> dict[str, Any]:
        return {"status": mine.status(), "drift": mine.drift()}

    found = await visit.ask(question)
    status = found["status"]
    return {
        "promises": certificates(status["certificate"]), "budgets": status["budgets"], "audit": status["audit"],
        "words": status["promise"], "drift": found["drift"], "band": await band(visit), "promised": promised(status),
    }  # fmt: skip


def certificates(certificate: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the certificates of a filter as a list, one per class."""
    if certificate is None:
        return []
    return list(certificate["classes"].values()) if "classes" in certificate else [certificate]


def promised(status: dict[str, Any]) -> dict[str, float]:
    """Return the promised rate of false alarms of each class."""
    issued = certificates(status["certificate"])
    rates = {each["pos_label"]: each["max_fpr"] for each in issued if each.get("max_fpr")}
    return {**{label: budget["rate"] for label, budget in status["budgets"].items()}, **rates}


async def band(visit: Visit) -> dict[str, Any]:
    """Return the running audit of each class at the end of each of the latest days."""
    return await visit.service.cached("band", lambda mine: mine.audit_history(DAYS))


# ---------------------------------------------------------------------- a threshold


async def threshold(visit: Visit) -> dict[str, Any]:
    """Return the possible promises with their thresholds."""
    positive, confidence = visit.field("positive") or None, visit.real("confidence", 0.5, 0.9999) or 0.95
    certificate, traded = await visit.ask(lambda mine: (_certificate(mine), mine.tradeoff(positive, confidence)))
    points, label = traded["points"], traded["positive"]
    current = _threshold_now(certificate, label)
    chosen = visit.number("point", 0, 10_000)
    if chosen is None:
        chosen = _nearest(points, current)
    chosen = min(chosen, max(len(points) - 1, 0))
    scores = await visit.service.cached("scores", lambda mine: mine.recent_scores(LATEST))
    would = _counts_above(scores, [each["threshold"] for each in points], visit.service.classes)
    most = charts.nice_top(max(4 * points[chosen]["max_fpr"], 4 * points[0]["max_fpr"])) if points else 0.0
    return {
        "positive": label, "confidence": confidence, "confidences": CONFIDENCES, "points": points, "chosen": chosen,
        "point": points[chosen] if points else None, "threshold_now": current, "negatives": traded["negatives"],
        "positives": traded["positives"], "most": most,
        "labels": visit.service.classes[1:] if len(visit.service.classes) == 2 else visit.service.classes,
        "places": _places(traded, points, would), "latest": len(scores) if would else 0,
        "would": would[chosen] if would else (0, 0),
    }  # fmt: skip


def _certificate(mine: Filter) -> dict[str, Any] | None:
    certificate = mine.certificate
    return None if certificate is None else certificate.to_dict()


def _threshold_now(certificate: dict[str, Any] | None, label: str) -> float | None:
    """Return the current threshold of a class; None without a promise."""
    if certificate is None:
        return None
    if "classes" in certificate:
        certificate = certificate["classes"].get(label)
    threshold = None if certificate is None else certificate["threshold"]
    return None if threshold is None or abs(threshold) > 1e300 else threshold


def _nearest(points: list[dict[str, Any]], wanted: float | None) -> int:
    if wanted is None or not points:
        return 0
    return min(range(len(points)), key=lambda k: abs(points[k]["threshold"] - wanted))


def _counts_above(
    scores: list[tuple[float, str | None]], thresholds: list[float], classes: Sequence[str]
) -> list[tuple[int, int]]:
    """Return the numbers of latest verdicts, and of known good ones, above each threshold.

    Scores are from the time of the verdict. The list is empty for more than two classes, because their scores belong to
    different classes.
    """
    if len(classes) != 2:
        return []
    every = sorted(score for score, _ in scores)
    good = sorted(score for score, truth in scores if truth == classes[0])
    return [(len(every) - bisect_right(every, cut), len(good) - bisect_right(good, cut)) for cut in thresholds]


def _places(
    traded: dict[str, Any], points: list[dict[str, Any]], would: list[tuple[int, int]]
) -> list[list[float | None]]:
    """Return the data of each point for the script: x, threshold, rate, recall, and numbers above it."""
    if not points:
        return []
    scale = charts.Scale([*traded["negatives"], *traded["positives"]])
    return [
        [round(scale.x(p["threshold"]), 2), round(p["threshold"], 4), p["max_fpr"],
         None if p["recall"] is None else round(p["recall"], 4), p["above"], *(would[k] if would else ())]
        for k, p in enumerate(points)
    ]  # fmt: skip


async def confirm(visit: Visit) -> dict[str, Any]:
    """Return the preview of a calibration."""
    choice = await threshold(visit)
    if choice["point"] is None:
        raise BadInput(plain("threshold.no-mail"))
    return {name: choice[name] for name in ("positive", "confidence", "point", "chosen", "threshold_now", "negatives")}


async def use(visit: Visit) -> Done:
    """Calibrate to the chosen promise."""
    rate, confidence = visit.real("max_fpr", 0.0, 1.0), visit.real("confidence", 0.5, 0.9999)
    positive = visit.field("positive") or None
    if rate is None or confidence is None or not 0 < rate < 1:
        raise BadInput(plain("threshold.no-rate"))
    calibrated = await visit.service.calibrate(positive, visit.person, max_fpr=rate, confidence=confidence)
    calibrated = calibrated["classes"][positive] if "classes" in calibrated else calibrated
    return Done(plain("threshold.done", promise=calibrated["promises"][0]), "/promise")


# ---------------------------------------------------------------------- other filters


async def compare(visit: Visit) -> dict[str, Any]:
    """Return comparisons with other filters, and verdicts that differ, or agree, on the same messages."""
    comparisons = await visit.service.cached("compared", lambda mine: [each.to_dict() for each in mine.compared()])
    field = visit.field("field") or (comparisons[0]["field"] if comparisons else "")
    same = visit.field("same") == "yes"
    listed: dict[str, Any] = {"verdicts": [], "next": None}
    if field:
        which = {"agrees" if same else "differs": field}
        listed = await visit.service.remembered(limit=ROWS, before=visit.number("before"), **which)
    here = f"/promise/compare?{urlencode({'field': field, **({'same': 'yes'} if same else {})})}"
    more = f"{here}&before={listed['next']}" if listed["next"] else ""
    return {
        "comparisons": comparisons, "field": field, "same": same, **listed, "back": here, "more": more,
        "is_first": visit.number("before") is None, "latest": await latest_report(visit), "q": "",
    }  # fmt: skip
