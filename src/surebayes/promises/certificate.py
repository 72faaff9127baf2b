"""Certificates: what a threshold promises, from scores and labels alone.

:func:`certify` turns held-out scores into a threshold and the statement that goes with it. The statement is a plain
object that every program can show, store as JSON and read back. It says which promises it makes and what each rests on:

- "at most 0.1% of negatives like these, confidence 95%": exact for documents drawn as the held-out ones were;
- "prequential: measured, not guaranteed": from scores that documents got before their labels were known;
- "in any stretch of n known negatives at most 5 + 0.1% n alarms, whatever comes, and those in flight (0 now)": a budget
  of alarms.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surebayes.core.checks import fraction
from surebayes.metrics.significance import Interval, rate_interval
from surebayes.promises.budget import AlarmBound, percent
from surebayes.promises.order_statistics import (
    Mislabelled,
    checked_mislabelled,
    order_statistic_threshold,
    precision_threshold,
    recall_threshold,
)

EXACT = "exact: calibration rows were not used for training, and future rows come from the same distribution"
APPROXIMATE = "approximate: refitted model, no guarantee (scores come from models of other folds)"
CORRECTED = "corrected: measured, not guaranteed (misjudged rows of the reserve were learnt; their old scores count)"
UNRECOGNISED = "unknown: measured, not guaranteed (documents were learnt that can't be told from calibration rows)"
PREQUENTIAL = "prequential: measured, not guaranteed (each score is from before its row was learnt)"


@dataclass(frozen=True)
class Certificate:
    """What a threshold promises, and from what.

    Attributes
    ----------
    threshold : float
        Positive is what scores strictly above it.
    goal : {"max_fpr", "min_recall", "min_precision", "budget"}
        The promise that fixed the threshold; "budget" where only a budget of alarms stands behind it.
    max_fpr, min_recall, min_precision : float or None
        The limits that were asked for.
    confidence : float
        Each promise holds with at least this probability over the draw of the calibration rows.
    n_negatives, n_positives : int
        Calibration rows of each class.
    allowed : int
        How many of them may lie on the wrong side of the threshold: negatives above it for "max_fpr", positives not
        above it for "min_recall", negatives above it for "min_precision".
    recall : float
        Share of the calibration positives above the threshold.
    recall_interval : (float, float)
        Its exact interval at `confidence`.
    positive_share : float
        Share of positives among the calibration rows; the promise of a precision holds for this share.
    assumption : str
        What the promise rests on: "exact: ..."; "approximate: ..." or "prequential: ..." where there is none.
    first, last : str, float, int or None
        The range of `order` among the calibration rows.
    model : str or None
        The model that was calibrated; the certificate is void for any other.
    pos_label, neg_label : str, float, int or None
        The class whose alarms are meant, and the one that is protected from them; `neg_label` is None where that is
        every other class.
    lower_threshold : float or None
        With a limit on false positives *and* a minimum recall: what scores at or below this is negative, what lies
        between the two is unsure.
    stale : bool
        Revoked; `reason` says why.
    mislabelled : (int, int)
        The promise allows for so many foreign documents among the calibration negatives, and so many missing ones.
    budget : AlarmBound or None
        The bound that holds whatever comes, where a budget is on.
    renewal : int
        Which one of a series this is, from 1; 0 for one that stands alone.
    series_confidence : float or None
        With which all of the series hold at once; `confidence` is what this one needs for it.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.concatenate((np.arange(5000), np.arange(4800, 5800)))
    >>> certificate = certify(scores, np.arange(6000) >= 5000)
    >>> certificate.threshold, certificate.allowed, certificate.recall
    (4998.0, 1, 0.801)
    >>> Certificate.from_json(certificate.to_json()) == certificate
    True
    >>> print(certificate)  # doctest: +NORMALIZE_WHITESPACE
    score > 4998: at most 0.1% of negatives like these, confidence 95% (5,000 calibration negatives, at most 1 above);
    recall 80.1% (77.5% to 82.5%)
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

    @property
    def guaranteed(self) -> bool:
        """Whether the promise of a rate holds: exact, and not revoked. A budget holds in any case."""
        return self.assumption == EXACT and not self.stale

    @property
    def protected(self) -> str:
        """What the documents are called that the promise protects from alarms."""
        if self.neg_label is not None:
            return str(self.neg_label)
        return "negatives" if self.pos_label is None else f"what is not {self.pos_label}"

    @property
    def promises(self) -> tuple[str, ...]:
        """Every promise that is made, as a sentence that says what it rests on."""
        kept = () if self.goal == "budget" else (self._rate_sentence(),)
        return kept if self.budget is None else (*kept, self.budget.sentence(self.protected))

    def _rate_sentence(self) -> str:
        limit = {"max_fpr": self.max_fpr, "min_recall": self.min_recall, "min_precision": self.min_precision}[self.goal]
        assert limit is not None
        positives = "positives" if self.pos_label is None else str(self.pos_label)
        promise = {
            "max_fpr": f"at most {percent(limit)} of {self.protected} like these",
            "min_recall": f"at least {percent(limit)} of {positives} like these",
            "min_precision": f"at least {percent(limit)} right, at a share of {self.positive_share:.3%} {positives}",
        }[self.goal]
        sentence = f"{promise}, confidence {percent(self.confidence)}"
        if self.series_confidence is not None:
            sentence += f" (number {self.renewal:,} of a series, all with {percent(self.series_confidence)})"
        if any(self.mislabelled):
            foreign, missing = self.mislabelled
            sentence += f", with up to {foreign:,} wrongly labelled {self.protected} and {missing:,} missing"
        return sentence if self.assumption == EXACT else f"{sentence}; {self.assumption}"

    def revoke(self, reason: str) -> Certificate:
        """Return the same certificate marked stale, with the reason."""
        return replace(self, stale=True, reason=reason)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain Python values, and the sentences under "promises"."""
        plain = asdict(self)
        plain["recall_interval"], plain["mislabelled"] = list(self.recall_interval), list(self.mislabelled)
        return plain | {"promises": list(self.promises)}

    def to_json(self, indent: int | None = None) -> str:
        """Write the certificate as a JSON object."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Certificate:
        """Rebuild what :meth:`to_dict` returned, or a release before this one."""
        known = {field.name for field in fields(cls)}
        values = {name: value for name, value in plain.items() if name in known}
        for name, rebuild in _REBUILT.items():
            if values.get(name) is not None:
                values[name] = rebuild(values[name])
        return cls(**values)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read back what :meth:`to_json` wrote."""
        return cls.from_dict(json.loads(text))

    def __str__(self) -> str:
        called = "" if self.pos_label is None else f" is called {self.pos_label}"
        text = f"score > {self.threshold:.6g}{called}: {'; '.join(self.promises)} ({self._rows()}); {self._recall()}"
        return f"REVOKED ({self.reason}): {text}" if self.stale else text

    def _repr_html_(self) -> str:
        from surebayes.notebook import html

        return html.statement(str(self))

    def _rows(self) -> str:
        if self.goal == "min_recall":
            return f"{self.n_positives:,} calibration positives, at most {self.allowed:,} not above"
        return f"{self.n_negatives:,} calibration negatives, at most {self.allowed:,} above"

    def _recall(self) -> str:
        low, high = self.recall_interval
        return f"recall {self.recall:.1%} ({low:.1%} to {high:.1%})"


class Certificates(dict[Any, Certificate]):
    """The certificates of several classes, by label.

    Examples
    --------
    >>> Certificates().to_json()
    '[]'
    """

    def to_json(self, indent: int | None = None) -> str:
        """Write all of them as one JSON list; each names its class in `pos_label`."""
        inner = ", ".join(certificate.to_json(indent) for certificate in self.values())
        return f"[{inner}]"

    @classmethod
    def from_json(cls, text: str) -> Certificates:
        """Read back what :meth:`to_json` wrote."""
        return cls({plain["pos_label"]: Certificate.from_dict(plain) for plain in json.loads(text)})

    def _repr_html_(self) -> str:
        return "".join(certificate._repr_html_() for certificate in self.values())

    def to_dict(self) -> dict[str, Any]:
        """Return all of them as plain values, by class, and whether one is stale."""
        classes = {str(label): certificate.to_dict() for label, certificate in self.items()}
        return {"stale": self.stale, "classes": classes}

    @property
    def stale(self) -> bool:
        """Whether one of them is."""
        return any(certificate.stale for certificate in self.values())


_REBUILT: dict[str, Callable[[Any], Any]] = {
    "recall_interval": lambda ends: Interval(*ends),
    "mislabelled": lambda counts: tuple(counts),
    "budget": lambda bound: AlarmBound(**bound),
}


def certify(
    scores: ArrayLike,
    y: ArrayLike,
    *,
    max_fpr: float | None = 0.001,
    confidence: float = 0.95,
    mislabelled: Mislabelled = (0, 0),
    min_recall: float | None = None,
    min_precision: float | None = None,
    order: ArrayLike | None = None,
    assumption: str = EXACT,
    model: str | None = None,
    pos_label: Any = None,
    neg_label: Any = None,
) -> Certificate:
    """Choose the threshold that held-out scores vouch for; whose scores they are doesn't matter.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Finite scores of rows that the model was not trained on.
    y : array-like of bool, shape (n,)
        Whether the row is positive (true, or 1); rows of both classes are needed.
    max_fpr : float or None, default=0.001
        Largest share of negatives above the threshold.
    confidence : float, default=0.95
        In (0, 1).
    mislabelled : (a, m), default=(0, 0)
        Wrong labels to allow for: at most a rows called negative are not, and at most m true negatives are missing
        (called positive, or thrown away). The promise stays exact; it costs recall. Not with `min_precision`.
    min_recall : float, optional
        Smallest share of positives above the threshold. Beside another limit it gives a second, lower threshold, and
        what lies between the two is unsure.
    min_precision : float, optional
        Smallest share of positives among what lies above the threshold, with max_fpr=None. A fifth of the rows (the
        earliest with `order`) chooses the sequence of thresholds, the others test it.
    order : array-like of shape (n,), optional
        When the rows were seen: fills `first` and `last`.
    assumption, model, pos_label, neg_label
        Copied into the certificate.

    Returns
    -------
    Certificate

    Raises
    ------
    NotEnoughNegatives, NotEnoughPositives
        If there are too few rows for the promise.
    ValueError
        If the rows can't be judged, or no threshold reaches `min_precision`.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.concatenate((np.arange(5000), np.arange(4500, 5500)))
    >>> band = certify(scores, np.arange(6000) >= 5000, max_fpr=0.01, min_recall=0.95)
    >>> round(band.lower_threshold), round(band.threshold)
    (4538, 4961)
    """
    values, truth = _checked(scores, y)
    fraction(confidence, "confidence", zero=False, one=False)
    goal = _goal(max_fpr, min_recall, min_precision)
    foreign, missing = checked_mislabelled(mislabelled)
    lower: float | None = None
    if goal == "min_precision":
        assert min_precision is not None
        if foreign or missing:
            raise ValueError("mislabelled rows can't be allowed for with min_precision: give max_fpr or min_recall.")
        threshold, allowed = _precise(values, truth, min_precision, confidence, order)
    elif goal == "max_fpr":
        assert max_fpr is not None
        threshold, allowed = order_statistic_threshold(values[~truth], max_fpr, confidence, (foreign, missing))
    if min_recall is not None:
        # what is foreign among the negatives is missing from the positives, and the other way round
        low, missed = recall_threshold(values[truth], min_recall, confidence, (missing, foreign))
        if goal == "min_recall":
            threshold, allowed = low, missed
        else:
            lower = min(low, threshold)  # where one threshold keeps both promises nothing is unsure
    found, there = int((values[truth] > threshold).sum()), int(truth.sum())
    first, last = _ends(order, values.size)
    return Certificate(
        threshold=threshold,
        goal=goal,
        confidence=float(confidence),
        n_negatives=int((~truth).sum()),
        n_positives=there,
        allowed=allowed,
        max_fpr=max_fpr,
        min_recall=min_recall,
        min_precision=min_precision,
        recall=found / there,
        recall_interval=rate_interval(found, there, confidence),
        positive_share=there / truth.size,
        assumption=assumption,
        first=first,
        last=last,
        model=model,
        pos_label=_plain(pos_label),
        lower_threshold=lower,
        neg_label=_plain(neg_label),
        mislabelled=(foreign, missing),
    )


def _goal(max_fpr: float | None, min_recall: float | None, min_precision: float | None) -> str:
    if max_fpr is not None and min_precision is not None:
        raise ValueError("max_fpr and min_precision fix the same threshold: give one of them, and None for the other.")
    limits = {"max_fpr": max_fpr, "min_precision": min_precision, "min_recall": min_recall}
    for name, limit in limits.items():
        if limit is not None:
            fraction(limit, name, zero=False, one=False)
    for name, limit in limits.items():
        if limit is not None:
            return name
    raise ValueError("nothing to promise: give max_fpr, min_recall or min_precision.")


def _checked(scores: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, labels = np.asarray(scores, dtype=np.float64), np.asarray(y)
    strange = [] if labels.dtype.kind == "b" else [label for label in labels.ravel().tolist() if label not in (0, 1)]
    if strange:
        raise ValueError(
            f"y must be true (or 1) for positives and false (or 0) for negatives. Got {strange[0]!r}; write, for "
            "example, labels == 'spam'."
        )
    truth = labels.astype(bool)
    if values.ndim != 1 or values.shape != truth.shape:
        raise ValueError(
            f"scores and labels must be vectors of one length. Got shapes {values.shape} and {truth.shape}."
        )
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise ValueError(
            f"calibration scores must be finite numbers. Got NaN or infinity in {bad:,} of {values.size:,}."
        )
    if truth.all() or not truth.any():
        got = "no rows" if truth.size == 0 else "only positives" if truth.all() else "only negatives"
        raise ValueError(
            f"calibration needs rows of both classes: negatives for the promise, positives for the recall. Got {got}."
        )
    return values, truth


def _precise(
    values: NDArray[np.float64],
    truth: NDArray[np.bool_],
    min_precision: float,
    confidence: float,
    order: ArrayLike | None,
) -> tuple[float, int]:
    """Test a falling sequence of thresholds that a fifth of the rows chose, on the other rows."""
    sequence = (
        np.random.default_rng(0).permutation(values.size)
        if order is None
        else np.argsort(np.asarray(order), kind="stable")
    )
    pilot, rest = np.split(sequence, [values.size // 5])
    ranked = pilot[np.argsort(-values[pilot], kind="stable")]
    flagged = np.arange(1, ranked.size + 1)
    wrong = np.cumsum(~truth[ranked])
    # The walk starts where the pilot makes the strongest case for the precision, and goes down from there.
    score_of_case = (flagged - wrong - min_precision * flagged) / np.sqrt(flagged)
    start = int(np.argmax(score_of_case))
    below = np.unique(values[ranked[start:]])[::-1]
    steps = below[np.unique(np.linspace(0, below.size - 1, 200).astype(int))]
    threshold, _, errors = precision_threshold(values[rest], truth[rest], steps, min_precision, confidence)
    return threshold, errors


def _ends(order: ArrayLike | None, n: int) -> tuple[Any, Any]:
    if order is None:
        return None, None
    when = np.sort(checked_order(order, n))
    return _plain(when[0]), _plain(when[-1])


def checked_order(order: ArrayLike, n: int) -> NDArray[Any]:
    """Check that there is one sortable value for each row.

    Examples
    --------
    >>> checked_order([3, 1, 2], 3)
    array([3, 1, 2])
    """
    when = np.asarray(order)
    if when.shape != (n,):
        raise ValueError(f"order must have one value for each of the {n:,} rows. Got shape {when.shape}.")
    if (when.dtype.kind == "f" and np.isnan(when).any()) or (when.dtype.kind in "mM" and np.isnat(when).any()):
        raise ValueError("order must not contain missing values (NaN or NaT).")
    return when


def _plain(value: Any) -> Any:
    """Turn a numpy scalar, or a time, into something that JSON knows."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
