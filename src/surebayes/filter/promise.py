"""The promise of a filter's threshold: made from documents set aside, stale when the model changes, renewed.

A promise holds for one fixed model and documents that this model has never learnt, set aside without a look at what it
says of them. So every version of the model needs a certificate of its own; renewing scores the same reserve with the
new model and chooses the threshold anew, and each certificate has its own confidence; on request all of a series hold
together, each with a confidence so much higher.

A document of the reserve that was misjudged may be taught. To leave it out from then on would leave the rest too good:
the score that it got goes on counting. The model has then learnt of its reserve, and such a certificate is measured,
not guaranteed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from surebayes.errors import BadModel, TooFewDocuments
from surebayes.filter.disk.journal import Event, pack_rows
from surebayes.filter.durable import Durable, Writing
from surebayes.filter.state import State
from surebayes.filter.teaching import BATCH, batched
from surebayes.filter.tuning import judged_scores, reserve_scores
from surebayes.metrics.significance import Interval
from surebayes.pool.document import packable
from surebayes.promises.calibration import fit_probability
from surebayes.promises.certificate import CORRECTED, EXACT, UNRECOGNISED, Certificate, certify
from surebayes.promises.order_statistics import Mislabelled, confidence_of_renewal, order_statistic_threshold


@dataclass(frozen=True)
class Terms:
    """What is to be promised: a renewal repeats it, with the next number of its series."""

    max_fpr: float
    confidence: float
    positive: str
    mislabelled: Mislabelled = (0, 0)
    renewal: int = 0

    @classmethod
    def of(cls, made: dict[str, Any], names: Sequence[str]) -> Terms:
        """Read the terms of a certificate that is kept; one of a series is followed by the next.

        BadModel where the file has no such terms.
        """
        try:
            renewal = made.get("renewal", 0)
            confidence = made["series_confidence"] if renewal else made["confidence"]
            foreign, missing = made.get("mislabelled", (0, 0))
            counts, rates = (foreign, missing, renewal), (made["max_fpr"], confidence)
            if not all(type(n) is int and 0 <= n < 2**53 for n in counts) or not all(0 < rate < 1 for rate in rates):
                raise ValueError(f"it promises {rates} with {counts}")
            if made["pos_label"] not in names:
                raise ValueError(f"it is about {made['pos_label']!r}")
            return cls(
                made["max_fpr"], confidence, made["pos_label"], (foreign, missing), renewal + 1 if renewal else 0
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadModel(f"The filter's certificate can't be read: {error!r}. Calibrate again.") from error


def certificate(state: State) -> Certificate | None:
    """Read the certificate; it is stale for any model but its own."""
    if state.settings.certificate is None:
        return None
    Terms.of(state.settings.certificate, state.names)
    try:
        made = Certificate.from_json(json.dumps(state.settings.certificate))
        str(made)  # whoever asks for it reads its sentences
    except (TypeError, ValueError, KeyError, AttributeError, AssertionError) as error:
        raise BadModel(f"The filter's certificate can't be read: {error!r}. Calibrate again.") from error
    if made.model != state.model:
        return made.revoke(f"made for model {made.model}, which has changed to {state.model}; calibrate again")
    return made


# ---------------------------------------------------------------------- making one


def calibrate(
    durable: Durable,
    max_fpr: float | None,
    confidence: float | None,
    positive: str | None,
    negatives: Iterable[bytes | str],
    positives: Iterable[bytes | str],
    mislabelled: Mislabelled | None,
    together: bool | None,
) -> Certificate:
    """See `Filter.calibrate`."""
    state = durable.loaded()
    before = state.settings.certificate
    if positive is None:
        if len(state.names) > 2 and before is None:
            raise ValueError(f"With {len(state.names)} classes, name the positive one. Classes: {state.names}.")
        positive = state.names[1] if before is None or len(state.names) == 2 else before["pos_label"]
    if positive not in state.names or (len(state.names) == 2 and positive != state.names[1]):
        raise ValueError(f"The positive class must be one of {state.names[1:]}. Got {positive!r}.")
    # Only a call without settings is a renewal; what one call was given must not stick to the next.
    given = (max_fpr, confidence, mislabelled, together)
    if before is not None and all(setting is None for setting in given):
        terms = replace(Terms.of(before, state.names), positive=positive)
    else:
        terms = Terms(
            0.001 if max_fpr is None else max_fpr,
            0.95 if confidence is None else confidence,
            positive,
            (0, 0) if mislabelled is None else mislabelled,
            1 if together else 0,
        )
    with durable.bulk():
        _set_aside(durable, [(state.names[0], negatives), (positive, positives)])

    def lesson(write: Writing) -> Certificate:
        return _promise(write, terms, "calibrate")

    promise: Certificate = durable.submit(lesson)
    durable.absorb_all(f"calibrated: false alarms at most {terms.max_fpr:g}")
    return promise


def renew(write: Writing) -> Certificate | None:
    """Replace a stale certificate by one for the model as it is, with the same promise; None where it can't be kept.

    The reserve is scored anew. It may have become too small, where messages of it were taught or forgotten: then the
    old certificate stays, stale as it is.
    """
    before = write.state.settings.certificate
    assert before is not None
    try:
        return _promise(write, Terms.of(before, write.state.names), "renew")
    except TooFewDocuments:
        return None


def _promise(write: Writing, terms: Terms, who: str) -> Certificate:
    """Certify the model as it is, and set threshold and probability by it."""
    state = write.state
    by_contrast, labels, rows = reserve_scores(state, write.journal)
    before, labels_then, rows_then = judged_scores(state, write.journal)
    by_contrast, labels, rows = by_contrast + before, labels + labels_then, rows + rows_then
    k = 0 if len(state.names) == 2 else state.names.index(terms.positive)
    scores = np.array([each[k] for each in by_contrast], float)
    truth = np.array([label == terms.positive for label in labels], bool)
    when = write.journal.times("reserve") | write.journal.times("judged")
    days = [datetime.fromtimestamp(when[row], UTC).isoformat(timespec="seconds") for row in rows]
    other = state.names[0] if len(state.names) == 2 else None
    made = _certify(scores, truth, terms, days, state.model, other)
    if before:
        made = replace(made, assumption=CORRECTED)
    elif not state.knows_what_it_learnt:
        made = replace(made, assumption=UNRECOGNISED)
    chance = state.settings.probability
    if len(state.names) == 2 and truth.any() and not truth.all():
        fitted = fit_probability(scores, truth)
        (centre, scale), (slope, intercept) = fitted.knots, fitted.values
        chance = [slope / scale, intercept - slope * centre / scale, fitted.floor]
    thresholds = {**state.settings.thresholds, terms.positive: made.threshold}
    change = {"thresholds": thresholds, "probability": chance, "certificate": json.loads(made.to_json())}
    write.settings({**change, "certified_at": state.lessons}, who)
    return made


def _certify(
    scores: np.ndarray, truth: np.ndarray, terms: Terms, days: list[str], model: str, other: str | None
) -> Certificate:
    series = terms.confidence if terms.renewal else None
    confidence = confidence_of_renewal(terms.confidence, terms.renewal) if terms.renewal else terms.confidence
    if truth.any():
        made = certify(
            scores, truth, max_fpr=terms.max_fpr, confidence=confidence, mislabelled=terms.mislabelled,
            order=np.array(days), model=model, pos_label=terms.positive, neg_label=other,
        )  # fmt: skip
        return replace(made, renewal=terms.renewal, series_confidence=series)
    threshold, allowed = order_statistic_threshold(scores, terms.max_fpr, confidence, terms.mislabelled)
    first, last = (min(days), max(days)) if days else (None, None)
    return Certificate(  # nothing is known of the recall without positives
        threshold, "max_fpr", confidence, len(scores), 0, allowed, terms.max_fpr, None, None, 0.0, Interval(0.0, 1.0),
        0.0, EXACT, first, last, model, terms.positive, neg_label=other, mislabelled=terms.mislabelled,
        renewal=terms.renewal, series_confidence=series,
    )  # fmt: skip


def _set_aside(durable: Durable, groups: Sequence[tuple[str, Iterable[bytes | str]]]) -> None:
    """Put documents to the reserve that the filter doesn't know."""
    state = durable.loaded()
    for label, documents in groups:
        for batch in batched((state.see(content) for content in documents), BATCH):
            packed = [(seen.fingerprint, pack_rows(packable(seen.rows))) for seen in batch]

            def lesson(write: Writing, packed: list[tuple[str, bytes]] = packed, label: str = label) -> None:
                for fingerprint, body in packed:
                    if write.state.known(fingerprint) is None:
                        write.add(Event("reserve", fingerprint, label, None, time.time(), "calibrate", body))

            durable.submit(lesson)
