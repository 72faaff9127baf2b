"""The promise of a filter's threshold: made from documents set aside, stale when the model changes, renewed.

A promise holds for one fixed model and documents that this model has never learnt, set aside without a look at what it
says of them. So every version of the model needs a certificate of its own; renewing scores the same reserve with the
new model and chooses the threshold anew, and each certificate has its own confidence.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from surebayes.errors import NotEnoughNegatives
from surebayes.filter.journal import Event, pack_rows
from surebayes.filter.judge import Document
from surebayes.filter.lessons import BATCH, batched, scored_reserve
from surebayes.filter.state import State
from surebayes.metrics.significance import Interval
from surebayes.promises.calibration import fit_probability
from surebayes.promises.certificate import EXACT, Certificate, certify
from surebayes.promises.order_statistics import order_statistic_threshold

if TYPE_CHECKING:
    from surebayes.filter.filter import Filter
    from surebayes.filter.keeper import Writing


def certificate(state: State) -> Certificate | None:
    """Read the certificate; it is stale for any model but its own."""
    said = state.settings["certificate"]
    if said is None:
        return None
    found = Certificate.from_json(json.dumps(said))
    if found.model != state.model:
        return found.revoke(f"made for model {found.model}, which has changed to {state.model}; calibrate again")
    return found


# ---------------------------------------------------------------------- making one


def calibrate(
    filter: Filter,
    max_fpr: float | None,
    confidence: float | None,
    positive: str | None,
    negatives: Iterable,
    positives: Iterable,
) -> Certificate:
    """See `Filter.calibrate`."""
    state = filter._loaded()
    before = state.settings["certificate"] or {}
    # Only a call without settings is a renewal; what one call was given must not stick to the next.
    repeated = before if max_fpr is None and confidence is None else {}
    max_fpr = repeated.get("max_fpr", 0.001) if max_fpr is None else max_fpr
    confidence = repeated.get("confidence", 0.95) if confidence is None else confidence
    if positive is None:
        if len(state.classes) > 2 and before.get("pos_label") is None:
            raise ValueError(f"With {len(state.classes)} classes, name the positive one. Classes: {state.classes}.")
        positive = state.classes[1] if len(state.classes) == 2 else before["pos_label"]
    if positive not in state.classes or (len(state.classes) == 2 and positive != state.classes[1]):
        raise ValueError(f"The positive class must be one of {state.classes[1:]}. Got {positive!r}.")
    with filter.bulk():
        _set_aside(filter, [(state.classes[0], negatives), (positive, positives)])

    def lesson(write: Writing) -> Certificate:
        return _promise(write, max_fpr, confidence, positive, "calibrate")

    found = filter._submit(lesson)
    filter.absorb(f"calibrated: false alarms at most {max_fpr:g}")
    return found


def renew(write: Writing) -> Certificate | None:
    """Replace a stale certificate by one for the model as it is, with the same promise; None where it can't be kept.

    The reserve is scored anew. It may have become too small, where messages of it were taught or forgotten: then the
    old certificate stays, stale as it is.
    """
    said = write.state.settings["certificate"]
    try:
        return _promise(write, said["max_fpr"], said["confidence"], said["pos_label"], "renew")
    except NotEnoughNegatives:
        return None


def _promise(write: Writing, max_fpr: float, confidence: float, positive: str, who: str) -> Certificate:
    """Certify the model as it is, and set threshold and probability by it."""
    state = write.state
    scores, labels, rows = scored_reserve(state, write.journal)
    own = scores[:, 0 if scores.shape[1] == 1 else state.classes.index(positive)]
    truth = np.array([label == positive for label in labels], bool)
    when = write.journal.times("reserve")
    days = [datetime.fromtimestamp(when[row], UTC).isoformat(timespec="seconds") for row in rows]
    other = state.classes[0] if len(state.classes) == 2 else None
    found = _certify(own, truth, max_fpr, confidence, days, state.model, positive, other)
    chance = state.settings["probability"]
    if len(state.classes) == 2 and truth.any() and not truth.all():
        fitted = fit_probability(own, truth)
        (centre, scale), (slope, intercept) = fitted.knots, fitted.values
        chance = [slope / scale, intercept - slope * centre / scale, fitted.floor]
    thresholds = {**state.settings["thresholds"], positive: found.threshold}
    change = {"thresholds": thresholds, "probability": chance, "certificate": json.loads(found.to_json())}
    write.settings({**change, "certified_at": state.lessons}, who)
    return found


def _certify(
    scores: np.ndarray,
    truth: np.ndarray,
    max_fpr: float,
    confidence: float,
    days: list[str],
    model: str,
    positive: str,
    other: str | None,
) -> Certificate:
    if truth.any():
        return certify(
            scores, truth, max_fpr=max_fpr, confidence=confidence, order=np.array(days), model=model,
            pos_label=positive, neg_label=other,
        )  # fmt: skip
    threshold, allowed = order_statistic_threshold(scores, max_fpr, confidence)
    first, last = (min(days), max(days)) if days else (None, None)
    return Certificate(  # nothing is known of the recall without positives
        threshold, "max_fpr", confidence, len(scores), 0, allowed, max_fpr, None, None, 0.0, Interval(0.0, 1.0), 0.0,
        EXACT,
        first, last, model, positive, neg_label=other,
    )  # fmt: skip


def _set_aside(filter: Filter, groups: Sequence[tuple[str, Iterable]]) -> None:
    """Put documents to the reserve that the filter doesn't know."""
    reader = filter._loaded().reader
    for label, documents in groups:
        for batch in batched((Document(content, reader) for content in documents), BATCH):
            rows = [(seen.fingerprint, pack_rows(filter._loaded().rows(seen))) for seen in batch]

            def lesson(write: Writing, rows=rows, label=label) -> None:
                for fingerprint, body in rows:
                    if fingerprint not in write.state.messages:
                        write.add(Event("reserve", fingerprint, label, None, time.time(), "calibrate", body))

            filter._submit(lesson)
