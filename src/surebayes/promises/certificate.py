"""Certificates: what a threshold promises, from scores and labels alone.

:func:`certify` turns held-out scores into a threshold and the statement that goes with it. The statement is a plain
object that every program can show, store as JSON and read back.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surebayes.core.checks import fraction
from surebayes.metrics.significance import Interval, rate_interval
from surebayes.promises.order_statistics import order_statistic_threshold, precision_threshold, recall_threshold

EXACT = "exact: calibration rows were not used for training, and future rows come from the same distribution"
APPROXIMATE = "approximate: refitted model, no guarantee (scores come from models of other folds)"


@dataclass(frozen=True)
class Certificate:
    """What a threshold promises, and from what.

    Attributes
    ----------
    threshold : float
        Positive is what scores strictly above it.
    goal : {"max_fpr", "min_recall", "min_precision"}
        The promise that fixed the threshold.
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
        What the promise rests on; "approximate: ..." where there is none.
    first, last : str, float, int or None
        The range of `order` among the calibration rows.
    model : str or None
        The model that was calibrated; the certificate is void for any other.
    pos_label : str, float, int or None
        The class whose alarms are meant.
    lower_threshold : float or None
        With a limit on false positives *and* a minimum recall: what scores at or below this is negative, what lies
        between the two is unsure.
    stale : bool
        Revoked; `reason` says why.

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
    score > 4998: at most 0.1000% of negatives, with confidence 95.00% (5,000 calibration negatives, at most 1 above);
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

    @property
    def guaranteed(self) -> bool:
        """Whether the promise holds: exact, and not revoked."""
        return self.assumption == EXACT and not self.stale

    def revoke(self, reason: str) -> Certificate:
        """Return the same certificate marked stale, with the reason."""
        return replace(self, stale=True, reason=reason)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain Python values."""
        return asdict(self) | {"recall_interval": list(self.recall_interval)}

    def to_json(self, indent: int | None = None) -> str:
        """Write the certificate as a JSON object."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read back what :meth:`to_json` wrote."""
        fields = json.loads(text)
        return cls(**fields | {"recall_interval": Interval(*fields["recall_interval"])})

    def __str__(self) -> str:
        limit = {"max_fpr": self.max_fpr, "min_recall": self.min_recall, "min_precision": self.min_precision}[self.goal]
        promise = {
            "max_fpr": f"at most {limit:.4%} of negatives",
            "min_recall": f"at least {limit:.4%} of positives",
            "min_precision": f"at least {limit:.4%} right, at a share of {self.positive_share:.3%} positives",
        }[self.goal]
        if self.goal == "min_recall":
            rows = f"{self.n_positives:,} calibration positives, at most {self.allowed:,} not above"
        else:
            rows = f"{self.n_negatives:,} calibration negatives, at most {self.allowed:,} above"
        low, high = self.recall_interval
        text = (
            f"score > {self.threshold:.6g}: {promise}, with confidence {self.confidence:.2%} ({rows}); "
            f"recall {self.recall:.1%} ({low:.1%} to {high:.1%})"
        )
        if self.assumption != EXACT:
            text += f"; {self.assumption}"
        return f"REVOKED ({self.reason}): {text}" if self.stale else text


def certify(
    scores: ArrayLike,
    positive: ArrayLike,
    *,
    max_fpr: float | None = 0.001,
    confidence: float = 0.95,
    min_recall: float | None = None,
    min_precision: float | None = None,
    order: ArrayLike | None = None,
    assumption: str = EXACT,
    model: str | None = None,
    pos_label: Any = None,
) -> Certificate:
    """Choose the threshold that held-out scores vouch for.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Finite scores of rows that the model was not trained on.
    positive : array-like of bool, shape (n,)
        Whether the row is positive; rows of both classes are needed.
    max_fpr : float or None, default=0.001
        Largest share of negatives above the threshold.
    confidence : float, default=0.95
        In (0, 1).
    min_recall : float, optional
        Smallest share of positives above the threshold. Beside another limit it gives a second, lower threshold, and
        what lies between the two is unsure.
    min_precision : float, optional
        Smallest share of positives among what lies above the threshold, with max_fpr=None. A fifth of the rows (the
        earliest with `order`) chooses the sequence of thresholds, the others test it.
    order : array-like of shape (n,), optional
        When the rows were seen: fills `first` and `last`.
    assumption, model, pos_label
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
    values, truth = _checked(scores, positive)
    fraction(confidence, "confidence", zero=False, one=False)
    goal = _goal(max_fpr, min_recall, min_precision)
    lower: float | None = None
    if goal == "min_precision":
        assert min_precision is not None
        threshold, allowed = _precise(values, truth, min_precision, confidence, order)
    elif goal == "max_fpr":
        assert max_fpr is not None
        threshold, allowed = order_statistic_threshold(values[~truth], max_fpr, confidence)
    if min_recall is not None:
        low, missed = recall_threshold(values[truth], min_recall, confidence)
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


def _checked(scores: ArrayLike, positive: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
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
