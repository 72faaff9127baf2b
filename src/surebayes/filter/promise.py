"""Certificates for a filter's threshold: issued from the reserve, stale once the model changes, and then renewed.

A promise holds for one fixed model and documents that this model has never learnt, reserved independently of their
scores. So every version of the model needs its own certificate. A renewal scores the same reserve with the new model
and chooses the threshold again. Each certificate has its own confidence; on request all certificates of a series hold
together, each with a correspondingly higher confidence.

A misjudged document of the reserve may be taught. Without it the reserve would be optimistic, so its old score still
counts. The model has then learnt from its reserve, and the certificate states a measurement, not a guarantee.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from surebayes.core.checks import fraction
from surebayes.errors import BadModel
from surebayes.filter.model import UNSURE, Features
from surebayes.filter.plain_values import label_of
from surebayes.filter.state import State, Transaction
from surebayes.filter.store.events import Lesson
from surebayes.filter.store.journal import Journal
from surebayes.filter.training import BATCH, batched, is_reserved
from surebayes.filter.tuning import judged_scores, reserve_scores
from surebayes.guarantees.calibration import fit_probability
from surebayes.guarantees.certificate import (
    CORRECTED,
    EXACT,
    UNRECOGNISED,
    Certificate,
    Certificates,
    interval_confidence,
)
from surebayes.guarantees.certifying import certify, threshold_rule
from surebayes.guarantees.independent import Groups, by_groups_and_rows, one_each
from surebayes.guarantees.near_copies import Fingerprint, fingerprint, near_equal
from surebayes.guarantees.order_statistics import (
    Mislabelled,
    confidence_of_renewal,
    supported_rate,
)
from surebayes.metrics.significance import Interval, rate_interval
from surebayes.pool.document import Rows

if TYPE_CHECKING:
    from surebayes.filter.session import Session

_RENEWAL = Lesson("renew")
SHORT = 8
"""Texts with fewer distinct words and word runs than this may be equal by chance."""
POINTS = 400
"""Approximate maximum number of thresholds that `Filter.tradeoff` lists."""


@dataclass(frozen=True)
class PromiseTerms:
    """The terms of a promise; a renewal repeats them with the next number in its series."""

    max_fpr: float | None
    confidence: float
    mislabelled: Mislabelled = (0, 0)
    renewal: int = 0
    min_precision: float | None = None
    anytime: bool = False

    @classmethod
    def of(cls, made: dict[str, Any], label: str) -> PromiseTerms:
        """Read the terms of a stored certificate; for a certificate in a series, return the terms of the next one.

        Raise BadModel if its terms are invalid.
        """
        try:
            renewal = made.get("renewal", 0)
            confidence = made["series_confidence"] if renewal else made["confidence"]
            foreign, missing = made.get("mislabelled", (0, 0))
            max_fpr, precision = made["max_fpr"], made.get("min_precision")
            rates: tuple[Any, ...] = (precision if max_fpr is None else max_fpr, confidence)
            counts = (foreign, missing, renewal)
            if not all(type(n) is int and 0 <= n < 2**31 for n in counts) or not all(0 < rate < 1 for rate in rates):
                raise ValueError(f"it promises {rates} with {counts}")
            if made["pos_label"] != label:
                raise ValueError(f"its class is {made['pos_label']!r}")
            next_renewal = renewal + 1 if renewal else 0
            return cls(max_fpr, confidence, (foreign, missing), next_renewal, precision, made.get("anytime") is True)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadModel(f"The filter's certificate can't be read: {error!r}. Calibrate again.") from error


def certificates(
    state: State, budgets: Mapping[str, Certificate], has_bits_of: Callable[[str], bool], until_renewal: int | None
) -> Certificate | Certificates | None:
    """Return all certificates of the filter; a certificate of a rate is stale for any model but its own.

    `budgets` are the certificates of alarm budgets, by class. A single certificate is returned on its own, not in a
    mapping. `has_bits_of` tells whether the model is identical to an earlier version; `until_renewal` is the number of
    lessons until a stale certificate is renewed, None if lessons don't renew it, -1 if the renewal is seconds away.
    """
    issued = Certificates()
    for label in state.names:
        stored, budget = state.settings.certificates.get(label), budgets.get(label)
        if stored is not None:
            issued[label] = _read(stored, label, state.model_version, has_bits_of, until_renewal)
            if budget is not None:
                issued[label] = replace(issued[label], budget=budget.budget)
        elif budget is not None:
            issued[label] = budget
    return issued if len(issued) > 1 else next(iter(issued.values()), None)


def _read(
    stored: dict[str, Any], label: str, model: str, has_bits_of: Callable[[str], bool], until_renewal: int | None
) -> Certificate:
    PromiseTerms.of(stored, label)
    try:
        certificate = Certificate.from_json(json.dumps(stored))
        str(certificate)  # check that it can be rendered as text
    except (TypeError, ValueError, KeyError, AttributeError, AssertionError, OverflowError) as error:
        raise BadModel(f"The filter's certificate can't be read: {error!r}. Calibrate again.") from error
    if certificate.model == model or (certificate.model is not None and has_bits_of(certificate.model)):
        return certificate
    if until_renewal is not None and until_renewal < 0:
        when = "within seconds"
    elif until_renewal is None:
        when = "when you run `surebayes calibrate`"
    elif until_renewal:
        lessons = "1 more lesson" if until_renewal == 1 else f"{until_renewal:,} more lessons"
        when = f"after {lessons}, or immediately if you run `surebayes calibrate`"
    else:
        when = "with the next lessons, or immediately if you run `surebayes calibrate`"
    return certificate.renew(f"the model has changed from {certificate.model} to {model}", when)


# ---------------------------------------------------------------------- making one


def targets(state: State, positive: str | None) -> list[str]:
    """Return the positive classes of a promise: the second of two classes; of more, the named class or all of them."""
    names = state.names
    if positive is not None and (positive not in names or (len(names) == 2 and positive != names[1])):
        allowed = names[1:] if len(names) == 2 else names
        raise ValueError(f"The positive class must be one of {allowed}. Got {positive!r}.")
    if len(names) > 2 and UNSURE in names:
        raise ValueError(
            f"{UNSURE!r} can't be a class: it is the verdict for documents that exceed no threshold. Rename the class."
        )
    return [positive] if positive is not None else names[1:] if len(names) == 2 else list(names)


def calibrate(session: Session, positive: str | None, terms: Mapping[str, Any]) -> None:
    """Issue certificates for a rate or a precision for the positive classes; see `Filter.calibrate`."""
    state = session.current_state()
    labels, before = targets(state, positive), state.settings.certificates
    # Only a call without terms is a renewal; the terms of one call must not carry over to the next.
    if all(value is None for value in terms.values()) and any(label in before for label in labels):
        wanted = {label: PromiseTerms.of(before[label], label) for label in labels if label in before}
    else:
        wanted = dict.fromkeys(labels, _terms(terms))

    with session.transaction() as txn:
        reserve = held_out(txn.state, txn.journal)
        for label, terms_of_class in wanted.items():
            _promise(txn, reserve, label, terms_of_class, Lesson("calibrate"))
    limits = {each.max_fpr for each in wanted.values() if each.max_fpr is not None}
    summary = f"false alarms at most {min(limits):g}" if limits else "a precision for each class"
    session.absorb(f"calibrated: {summary}")


def _terms(options: Mapping[str, Any]) -> PromiseTerms:
    max_fpr, precision = options["max_fpr"], options["min_precision"]
    if max_fpr is not None and precision is not None:
        raise ValueError("max_fpr and min_precision both set the threshold. Give one of them.")
    if precision is not None and any(options["mislabelled"] or (0, 0)):
        raise ValueError("mislabelled can't be combined with min_precision. Use max_fpr instead.")
    if options["anytime"] and any(options["mislabelled"] or (0, 0)):
        raise ValueError("mislabelled can't be combined with anytime. Give one of them.")
    return PromiseTerms(
        0.001 if max_fpr is None and precision is None else max_fpr,
        0.95 if options["confidence"] is None else options["confidence"],
        options["mislabelled"] or (0, 0),
        1 if options["together"] else 0,
        precision,
        bool(options["anytime"]),
    )


def renew(txn: Transaction) -> Certificate | None:
    """Replace a stale certificate with one for the current model with the same promise; None if that is impossible.

    The current model scores the reserve again. If the reserve has become too small, because some of its messages were
    taught or forgotten, the old certificate stays, marked stale.
    """
    certificate = None
    reserve = held_out(txn.state, txn.journal)
    for label, before in txn.state.settings.certificates.items():
        try:
            certificate = _promise(txn, reserve, label, PromiseTerms.of(before, label), _RENEWAL)
        except ValueError as error:  # the reserve is too small, or no threshold reaches the precision
            if isinstance(error, BadModel):
                raise
    return certificate


def _promise(txn: Transaction, reserve: HeldOut, label: str, terms: PromiseTerms, lesson: Lesson) -> Certificate:
    """Certify the current model, and set the class's threshold and the mapping from scores to probabilities."""
    state = txn.state
    scores, truth, days, groups = reserve.of(label, terms.min_precision is not None)
    other = state.names[0] if len(state.names) == 2 else None
    certificate = _certify(scores, truth, label, terms, days, groups, state.model_version, other)
    if lesson is _RENEWAL and (stays := state.settings.thresholds.get(label)) is not None:
        certificate = _steady(certificate, stays, scores, truth, groups)
    if reserve.corrected:
        certificate = replace(certificate, assumption=CORRECTED)
    elif not state.has_all_fingerprints:
        certificate = replace(certificate, assumption=UNRECOGNISED)
    chance = state.settings.probability
    if len(state.names) == 2 and truth.any() and not truth.all():
        fitted = fit_probability(scores, truth)
        (centre, scale), (slope, intercept) = fitted.knots, fitted.values
        chance = [slope / scale, intercept - slope * centre / scale, fitted.floor]
    settings = state.settings
    change = {
        "thresholds": {**settings.thresholds, label: certificate.threshold}, "probability": chance,
        "certificates": {**settings.certificates, label: json.loads(certificate.to_json())},
        "certified_at": state.lessons,
    }  # fmt: skip
    txn.settings(change, lesson)
    return certificate


def _steady(
    certificate: Certificate, before: float, scores: np.ndarray, truth: np.ndarray, groups: Groups
) -> Certificate:
    """Keep the previous threshold if it is safe and differs from the certified one by less than the uncertainty.

    A threshold above the certified one never flags more negatives. The uncertainty of an order statistic is about
    the square root of its rank: another sample would move the threshold by that many negatives.
    """
    if certificate.goal != "max_fpr" or not before > certificate.threshold:
        return certificate
    negatives = np.sort(one_each(scores[~truth], groups[~truth]))[::-1]
    rank = certificate.allowed + math.ceil(math.sqrt(certificate.allowed + 1))
    if rank >= len(negatives) or before - certificate.threshold > certificate.threshold - negatives[rank]:
        return certificate
    positives = one_each(scores[truth], groups[truth], highest=False)
    caught, n = int((positives > before).sum()), len(positives)
    interval = rate_interval(caught, n, interval_confidence(certificate.confidence)) if n else Interval(0.0, 1.0)
    return replace(certificate, threshold=before, recall=caught / n if n else 0.0, recall_interval=interval)


@dataclass(frozen=True)
class HeldOut:
    """The scored reserve: scores by contrast, labels, fingerprints, times, whether a message has been learnt since."""

    scores: list[list[float]]
    labels: list[str]
    fingerprints: list[str]
    days: list[str]
    names: list[str]
    corrected: bool
    texts: list[Fingerprint | None]

    def of(self, label: str, as_they_come: bool = False) -> tuple[np.ndarray, np.ndarray, list[str], Groups]:
        """Return the scores, class membership, times and near-copy groups of the messages, for one class.

        Training reserves twice as large a share of the first class as of the other classes. `as_they_come` drops half
        of the first class, by fingerprint, for promises that depend on the proportions of the classes.
        """
        k = 0 if len(self.names) == 2 else self.names.index(label)
        rows = [
            i for i, (name, fingerprint) in enumerate(zip(self.labels, self.fingerprints))
            if not as_they_come or name != self.names[0] or is_reserved(fingerprint[16:], 0.5)
        ]  # fmt: skip
        scores = np.array([self.scores[i][k] for i in rows], float)
        truth = np.array([self.labels[i] == label for i in rows], bool)
        groups = near_equal([self.texts[i] for i in rows])
        return scores, truth, [self.days[i] for i in rows], groups


def held_out(state: State, journal: Journal) -> HeldOut:
    """Score the reserve with the current model; misjudged messages that were learnt keep their old scores."""
    texts: list[Fingerprint | None] = []
    by_contrast, labels, rows = reserve_scores(state, journal, lambda cut: texts.extend(_texts(state, cut)))
    before, labels_then, rows_then = judged_scores(state, journal)
    when = journal.times("reserve") | journal.times("judged")
    days = [datetime.fromtimestamp(when[row], UTC).isoformat(timespec="seconds") for row in rows + rows_then]
    by_action = journal.messages("reserve", "release"), journal.messages("judged", "unjudged")
    by_row = {row: fingerprint for messages in by_action for fingerprint, (_, _, row) in messages.items()}
    fingerprints = [by_row[row] for row in rows + rows_then]
    texts += [None] * len(before)
    return HeldOut(by_contrast + before, labels + labels_then, fingerprints, days, state.names, bool(before), texts)


def _texts(state: State, cut: list[Rows]) -> Iterator[Fingerprint | None]:
    """Yield the fingerprint of each text; None for a text short enough to match another by chance.

    The fingerprint is computed from the view with the longest runs of words, preferably one without header tokens,
    since copies of a message have different Message-IDs.
    """
    views = state.engine.views
    best = max(range(len(views)), key=lambda k: (views[k].part == "text", not views[k].tokens, views[k].high))
    for i in range(len(cut[best])):
        runs = np.frombuffer(cut[best].of(i).columns, np.int32)
        yield fingerprint(runs) if len(runs) >= SHORT else None


def tradeoff(session: Session, positive: str | None, confidence: float) -> dict[str, Any]:
    """See `Filter.tradeoff`."""
    fraction(confidence, "confidence", zero=False, one=False)
    with session.mutex:
        state = session.fresh_state()
        held = held_out(state, session.reading())
    label = targets(state, positive)[-1]
    scores, truth, _, groups = held.of(label)
    negatives = np.sort(one_each(scores[~truth], groups[~truth]))[::-1]
    positives = np.sort(one_each(scores[truth], groups[truth], highest=False))
    wanted: Iterable[int] = range(len(negatives))
    if len(negatives) > POINTS:  # all of the highest scores, then increasingly sparse
        wanted = sorted({*range(POINTS // 4), *np.geomspace(1, len(negatives) - 1, POINTS).astype(int).tolist()})
    points: list[dict[str, Any]] = []
    for above in wanted:
        threshold, rate = float(negatives[above]), supported_rate(len(negatives), above, confidence)
        if rate is None or (points and points[-1]["threshold"] == threshold):
            continue
        caught = len(positives) - int(np.searchsorted(positives, threshold, side="right"))
        recall = caught / len(positives) if len(positives) else None
        points.append({"threshold": threshold, "above": above, "max_fpr": rate, "recall": recall})
    return {
        "positive": label, "confidence": confidence, "negatives": negatives.tolist(), "positives": positives.tolist(),
        "points": points,
    }  # fmt: skip


def _certify(
    scores: np.ndarray,
    truth: np.ndarray,
    label: str,
    terms: PromiseTerms,
    days: list[str],
    groups: Groups,
    model: str,
    other: str | None,
) -> Certificate:
    series = terms.confidence if terms.renewal else None
    confidence = confidence_of_renewal(terms.confidence, terms.renewal) if terms.renewal else terms.confidence
    if truth.any() or terms.max_fpr is None:
        made = certify(
            scores, truth, max_fpr=terms.max_fpr, min_precision=terms.min_precision, confidence=confidence,
            mislabelled=terms.mislabelled, order=np.array(days), groups=groups, model=model,
            pos_label=label, neg_label=other, anytime=terms.anytime,
        )  # fmt: skip
        return replace(made, renewal=terms.renewal, series_confidence=series)
    rule = threshold_rule(terms.anytime)
    in_turn = np.argsort(np.array(days), kind="stable")
    threshold, allowed = by_groups_and_rows(
        rule, scores[in_turn], groups[in_turn], terms.max_fpr, confidence, terms.mislabelled
    )
    independent = len(np.unique(groups))
    first, last = (min(days), max(days)) if days else (None, None)
    return Certificate(  # without positives the recall is unknown
        threshold, "max_fpr", confidence, independent, 0, allowed, terms.max_fpr, None, None, 0.0, Interval(0.0, 1.0),
        0.0, EXACT, first, last, model, label, neg_label=other, mislabelled=terms.mislabelled,
        renewal=terms.renewal, series_confidence=series, dependent=(len(scores) - independent, 0),
        anytime=terms.anytime,
    )  # fmt: skip


def set_aside(session: Session, documents: Iterable[tuple[bytes | str, str]]) -> None:
    """Add labelled documents to the reserve, except documents already known."""
    state = session.current_state()

    def read() -> Iterator[tuple[str, Features]]:
        for content, label in documents:
            yield label_of(label, state.names), state.features_of(content)

    with session.bulk():
        for batch in batched(read(), BATCH):
            with session.transaction() as txn:
                for label, features in batch:
                    txn.reserve(features, label, Lesson("calibrate"))
