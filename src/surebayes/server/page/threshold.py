"""Threshold: reserved scores, the promise at each threshold, and the choice of one."""

from __future__ import annotations

from typing import Any

from surebayes.errors import BadInput
from surebayes.server.page import charts
from surebayes.server.page.visit import Done, Visit

CONFIDENCES = (0.9, 0.95, 0.99)


async def threshold(visit: Visit) -> dict[str, Any]:
    """Return the promise at each threshold."""
    positive, confidence = visit.field("positive") or None, visit.real("confidence", 0.5, 0.9999) or 0.95
    now = await visit.service.status()
    traded = await visit.ask(lambda mine: mine.tradeoff(positive, confidence))
    points, label = traded["points"], traded["positive"]
    current = _threshold_now(now["certificate"], label)
    chosen = visit.number("point", 0, 10_000)
    if chosen is None:
        chosen = _nearest(points, current)
    chosen = min(chosen, max(len(points) - 1, 0))
    most = charts.nice_top(max(4 * points[chosen]["max_fpr"], 4 * points[0]["max_fpr"])) if points else 0.0
    return {
        "positive": label, "confidence": confidence, "confidences": CONFIDENCES, "points": points, "chosen": chosen,
        "point": points[chosen] if points else None, "threshold_now": current, "negatives": traded["negatives"],
        "positives": traded["positives"], "most": most,
        "labels": visit.service.classes[1:] if len(visit.service.classes) == 2 else visit.service.classes,
        "places": _places(traded, points, most),
    }  # fmt: skip


def _threshold_now(certificate: dict[str, Any] | None, label: str) -> float | None:
    """Return the present threshold, if there is a promise."""
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


def _places(traded: dict[str, Any], points: list[dict[str, Any]], most: float) -> list[list[float | None]]:
    """Return the data of each point for the script: x, threshold, rate, recall."""
    if not points:
        return []
    scale = charts.Scale([*traded["negatives"], *traded["positives"]])
    return [
        [round(scale.x(p["threshold"]), 2), round(p["threshold"], 4), p["max_fpr"],
         None if p["recall"] is None else round(p["recall"], 4), p["above"]]
        for p in points
    ]  # fmt: skip


async def confirm(visit: Visit) -> dict[str, Any]:
    """Return a preview of a calibration."""
    choice = await threshold(visit)
    if choice["point"] is None:
        raise BadInput(
            "No mail is set aside, so no threshold can be certified. Set some aside with `surebayes calibrate --ham "
            "PATH`."
        )
    return {name: choice[name] for name in ("positive", "confidence", "point", "chosen", "threshold_now", "negatives")}


async def use(visit: Visit) -> Done:
    """Calibrate to the chosen promise."""
    rate, confidence = visit.real("max_fpr", 0.0, 1.0), visit.real("confidence", 0.5, 0.9999)
    positive = visit.field("positive") or None
    if rate is None or confidence is None or not 0 < rate < 1:
        raise BadInput("The form has no rate or confidence. Load the page again.")
    made = await visit.service.calibrate(positive, visit.person, max_fpr=rate, confidence=confidence)
    made = made["classes"][positive] if "classes" in made else made
    return Done(f"Calibrated: {made['promises'][0]}.", "/today")
