"""Certificates: records of a threshold's promises and their assumptions.

A certificate is a plain object that can be printed, stored as JSON and restored. It contains promises and the
assumption of each, for example:

- "at most 0.1% of negatives like these, confidence 95%": exact for documents drawn like the held-out documents;
- "prequential: measured, not guaranteed": from scores that documents got before their labels were known;
- "in any run of n known negatives, at most 5 + 0.1% x n alarms, plus those not yet reviewed (0 now), whatever arrives":
  a budget of alarms.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from surebayes.guarantees.budget import AlarmBound, percent
from surebayes.guarantees.order_statistics import (
    Mislabelled,
)
from surebayes.metrics.significance import Interval

EXACT = (
    "exact: calibration rows are independent and were not used for training, and future rows come from the same "
    "distribution"
)
APPROXIMATE = "approximate: refitted model, no guarantee (scores come from models of other folds)"
CORRECTED = "corrected: measured, not guaranteed (misjudged rows of the reserve were learnt; their old scores count)"
UNRECOGNISED = "unknown: measured, not guaranteed (learnt documents can't be distinguished from calibration rows)"
PREQUENTIAL = "prequential: measured, not guaranteed (each score is from before its row was learnt)"

HOLDS, MEASURED, RENEWED, REVOKED = STATES = ("holds", "measured, not guaranteed", "being renewed", "revoked")
"""States of a promise, as shown on the page, by `doctor` and `status`, in JSON and in header fields."""


@dataclass(frozen=True)
class Certificate:
    """The promise of a threshold and its evidence.

    Attributes
    ----------
    threshold : float
        Scores strictly above it are positive.
    goal : {"max_fpr", "min_recall", "min_precision", "budget"}
        The promise that determined the threshold; "budget" if there is only a budget of alarms.
    max_fpr, min_recall, min_precision : float or None
        The requested limits.
    confidence : float
        Minimum probability that a promise holds, over the draw of the calibration rows.
    n_negatives, n_positives : int
        Numbers of independent calibration rows; copies and groups count once.
    allowed : int
        The number of calibration rows allowed on the wrong side of the threshold: positives not above it for the goal
        "min_recall", negatives above it for other goals.
    recall : float
        Share of the calibration positives above the threshold.
    recall_interval : (float, float)
        The exact interval of the recall; see `interval_confidence`.
    positive_share : float
        Share of positives among the calibration rows; a promised precision holds for this share.
    assumption : str
        The assumption of the promise, "exact: ...", or a note such as "approximate: ..." or "prequential: ..." if the
        rate is measured, not guaranteed.
    first, last : str, float, int or None
        The range of `order` in the calibration rows.
    model : str or None
        The name of the calibrated model; the certificate is invalid for other models.
    pos_label, neg_label : str, float, int or None
        The class with limited false alarms, and the class protected from them; `neg_label` is None if several classes
        are protected.
    lower_threshold : float or None
        The second threshold if both max_fpr and min_recall are set: lower scores are negative, scores between the two
        thresholds are unsure.
    stale : bool
        Whether it is invalid for the current model, or revoked; `reason` explains it.
    renewed : str or None
        The time of a scheduled renewal; the certificate is then stale but not revoked.
    mislabelled : (int, int)
        The maximum label errors of the promise: positives among the calibration negatives, and missing negatives.
    budget : AlarmBound or None
        The bound of the budget, if there is one.
    renewal : int
        The position in a series of renewals, from 1; 0 for a single certificate.
    series_confidence : float or None
        The joint confidence of all certificates of the series; `confidence` is that of this certificate.
    dependent : (int, int)
        The numbers of calibration rows of each class that did not count: copies, or further members of a group.

    Examples
    --------
    >>> import numpy as np
    >>> from surebayes import certify
    >>> scores = np.concatenate((np.arange(5000), np.arange(4800, 5800)))
    >>> certificate = certify(scores, np.arange(6000) >= 5000)
    >>> certificate.threshold, certificate.allowed, certificate.recall
    (4998.0, 1, 0.801)
    >>> Certificate.from_json(certificate.to_json()) == certificate
    True
    >>> print(certificate)  # doctest: +NORMALIZE_WHITESPACE
    score > 4998: at most 0.1% of negatives like these, confidence 95% (5,000 independent calibration negatives,
    at most 1 above); recall 80.1% (95% interval 77.5% to 82.5%)
    """

    threshold: float
    goal: str
    confidence: float
    n_negatives: int
    n_positives: int
    allowed: int
    max_fpr: float | None
    min_recall: float | None
    min_precision: float | None
    recall: float
    recall_interval: Interval
    positive_share: float
    assumption: str
    first: Any = None
    last: Any = None
    model: str | None = None
    pos_label: Any = None
    lower_threshold: float | None = None
    stale: bool = False
    reason: str | None = None
    neg_label: Any = None
    mislabelled: Mislabelled = (0, 0)
    budget: AlarmBound | None = None
    renewal: int = 0
    series_confidence: float | None = None
    dependent: tuple[int, int] = (0, 0)
    anytime: bool = False
    renewed: str | None = None

    @property
    def state(self) -> str:
        """The state of the promise, in one word for every display: see `STATES`.

        Examples
        --------
        >>> import numpy as np
        >>> from surebayes import certify
        >>> made = certify(np.arange(6000), np.arange(6000) >= 5000)
        >>> made.state, made.revoke("drift").state, made.renew("learnt", "after 99 more lessons").state
        ('holds', 'revoked', 'being renewed')
        """
        if self.stale:
            return RENEWED if self.renewed is not None else REVOKED
        return HOLDS if self._is_exact or self.goal == "budget" else MEASURED

    @property
    def guaranteed(self) -> bool:
        """Whether the promise of a rate is valid: exact, and not revoked. A budget is valid in any case."""
        return self._is_exact and not self.stale

    @property
    def _is_exact(self) -> bool:
        return self.assumption.startswith("exact: ")  # later words differ between releases

    @property
    def protected(self) -> str:
        """The class protected from alarms."""
        if self.neg_label is not None:
            return str(self.neg_label)
        return "negatives" if self.pos_label is None else f"what is not {self.pos_label}"

    @property
    def promises(self) -> tuple[str, ...]:
        """Every promise as a sentence, with its assumption."""
        sentences = () if self.goal == "budget" else (self._rate_sentence(),)
        return sentences if self.budget is None else (*sentences, self.budget.sentence(self.protected))

    def _rate_sentence(self) -> str:
        limit = {"max_fpr": self.max_fpr, "min_recall": self.min_recall, "min_precision": self.min_precision}[self.goal]
        assert limit is not None
        positives = "positives" if self.pos_label is None else str(self.pos_label)
        promise = {
            "max_fpr": f"at most {percent(limit)} of {self.protected} like these",
            "min_recall": f"at least {percent(limit)} of {positives} like these",
            "min_precision": f"at least {percent(limit)} right, at a share of {self.positive_share:.3%} {positives}",
        }[self.goal]
        sentence = (
            f"{promise}, {'at all times at once with ' if self.anytime else ''}confidence {percent(self.confidence)}"
        )
        if self.series_confidence is not None:
            sentence += f" (number {self.renewal:,} of a series, all with {percent(self.series_confidence)})"
        if any(self.mislabelled):
            foreign, missing = self.mislabelled
            sentence += f", with up to {foreign:,} wrongly labelled {self.protected} and {missing:,} missing"
        return sentence if self._is_exact else f"{sentence}; {self.assumption}"

    def revoke(self, reason: str) -> Certificate:
        """Return a stale copy of the certificate, with a reason."""
        return replace(self, stale=True, reason=reason)

    def renew(self, reason: str, when: str) -> Certificate:
        """Return a stale copy of the certificate that is scheduled for renewal, with reason and time."""
        return replace(self, stale=True, reason=reason, renewed=when)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as JSON values, with the sentences as "promises" and the state as "state"."""
        plain = asdict(self)
        for name in ("recall_interval", "mislabelled", "dependent"):
            plain[name] = list(getattr(self, name))
        return plain | {"promises": list(self.promises), "state": self.state}

    def to_json(self, indent: int | None = None) -> str:
        """Write the certificate as a JSON object."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Certificate:
        """Restore a certificate from :meth:`to_dict`, also of earlier releases."""
        known = {field.name for field in fields(cls)}
        values = {name: value for name, value in plain.items() if name in known}
        for name, rebuild in _REBUILT.items():
            if values.get(name) is not None:
                values[name] = rebuild(values[name])
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate from :meth:`to_json`."""
        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        called = "" if self.pos_label is None else f" is called {self.pos_label}"
        text = f"score > {self.threshold:.6g}{called}: {'; '.join(self.promises)} ({self._rows()}); {self._recall()}"
        if self.renewed is not None:
            return f"{RENEWED} ({self.renewed}): {text}"
        return f"REVOKED ({self.reason}): {text}" if self.stale else text

    def _repr_html_(self) -> str:
        from surebayes.notebook import html

        return html.statement(str(self))

    def _rows(self) -> str:
        recall = self.goal == "min_recall"
        rows, more = (self.n_positives, self.dependent[1]) if recall else (self.n_negatives, self.dependent[0])
        kind = f"{'independent ' if self._is_exact else ''}calibration {'positives' if recall else 'negatives'}"
        counted = f"{rows:,} {kind}{f' ({more:,} more are copies or of the same groups)' if more else ''}"
        return f"{counted}, at most {self.allowed:,} {'not above' if recall else 'above'}"

    def _recall(self) -> str:
        low, high = self.recall_interval
        level = percent(interval_confidence(self.confidence))
        return f"recall {self.recall:.1%} ({level} interval {low:.1%} to {high:.1%})"


def interval_confidence(confidence: float) -> float:
    """Return the confidence of the recall's interval: the promise's, and at least 95%.

    Examples
    --------
    >>> interval_confidence(0.5), interval_confidence(0.99)
    (0.95, 0.99)
    """
    return max(confidence, 0.95)


class Certificates(dict[Any, Certificate]):
    """Certificates of several classes, by label.

    Examples
    --------
    >>> Certificates().to_json()
    '[]'
    """

    def to_json(self, indent: int | None = None) -> str:
        """Serialize the certificates as one JSON list; `pos_label` identifies each."""
        inner = ", ".join(certificate.to_json(indent) for certificate in self.values())
        return f"[{inner}]"

    @classmethod
    def from_json(cls, text: str) -> Certificates:
        """Read certificates from :meth:`to_json`."""
        return cls({plain["pos_label"]: Certificate.from_dict(plain) for plain in json.loads(text)})

    def _repr_html_(self) -> str:
        return "".join(certificate._repr_html_() for certificate in self.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the certificates as JSON values by class, and whether any is stale."""
        classes = {str(label): certificate.to_dict() for label, certificate in self.items()}
        return {"stale": self.stale, "state": self.state, "classes": classes}

    @property
    def state(self) -> str:
        """The worst state of any certificate."""
        return max((each.state for each in self.values()), key=STATES.index, default=HOLDS)

    @property
    def stale(self) -> bool:
        """Whether any certificate is stale."""
        return any(certificate.stale for certificate in self.values())


def _pair(values: Any) -> tuple[Any, Any]:
    first, second = values
    return first, second


_REBUILT: dict[str, Callable[[Any], Any]] = {
    "recall_interval": lambda ends: Interval(*ends),
    "mislabelled": _pair,
    "dependent": _pair,
    "budget": lambda bound: AlarmBound(**bound),
}
