"""From held-out scores to a threshold and its certificate; whose scores they are doesn't matter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from surebayes.core.checks import fraction
from surebayes.metrics.significance import rate_interval
from surebayes.promises.certificate import EXACT, Certificate, interval_confidence
from surebayes.promises.order_statistics import (
    Mislabelled,
    checked_mislabelled,
    order_statistic_threshold,
    precision_threshold,
    recall_threshold,
)


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
    caught, n_positives = int((values[truth] > threshold).sum()), int(truth.sum())
    first, last = _ends(order, values.size)
    return Certificate(
        threshold=threshold,
        goal=goal,
        confidence=float(confidence),
        n_negatives=int((~truth).sum()),
        n_positives=n_positives,
        allowed=allowed,
        max_fpr=max_fpr,
        min_recall=min_recall,
        min_precision=min_precision,
        recall=caught / n_positives,
        recall_interval=rate_interval(caught, n_positives, interval_confidence(confidence)),
        positive_share=n_positives / truth.size,
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
        received = "no rows" if truth.size == 0 else "only positives" if truth.all() else "only negatives"
        raise ValueError(
            f"calibration needs rows of both classes: negatives for the promise, positives for recall. Got {received}."
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
    # The walk goes down from the highest threshold that the other rows should accept with room to spare, by what the
    # pilot has above it; where there is none, from where the pilot makes the strongest case for the precision.
    times = rest.size / max(pilot.size, 1)
    doubt = special.bdtr(np.ceil(times * wrong), (times * flagged).astype(np.int64), 1 - min_precision)
    sure = np.flatnonzero(doubt <= (1 - confidence) / 10)
    case = (flagged - wrong - min_precision * flagged) / np.sqrt(flagged)
    start = int(sure[0]) if sure.size else int(np.argmax(case))
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
