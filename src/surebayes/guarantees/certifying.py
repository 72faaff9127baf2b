"""Certification: choice of a threshold, with a certificate, from held-out scores of any classifier."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from surebayes.core.checks import fraction
from surebayes.guarantees.anytime import anytime_recall_threshold, anytime_threshold
from surebayes.guarantees.certificate import EXACT, Certificate, interval_confidence
from surebayes.guarantees.independent import (
    Groups,
    by_groups_and_rows,
    checked_groups,
    equal_scores,
    numbered,
    one_each,
)
from surebayes.guarantees.order_statistics import (
    Mislabelled,
    checked_mislabelled,
    order_statistic_threshold,
    precision_threshold,
    recall_threshold,
)
from surebayes.metrics.significance import rate_interval

_PILOT = 200
"""The number of rows that choose the thresholds for an anytime-valid test of precision."""


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
    groups: ArrayLike | None = None,
    anytime: bool = False,
    assumption: str = EXACT,
    model: str | None = None,
    pos_label: Any = None,
    neg_label: Any = None,
) -> Certificate:
    """Choose the threshold that keeps a promise, from held-out scores of any classifier.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Finite scores of rows that the model was not trained on.
    y : array-like of bool, shape (n,)
        Whether the row is positive (true, or 1); both classes are required.
    max_fpr : float or None, default=0.001
        Largest share of negatives above the threshold.
    confidence : float, default=0.95
        The probability that the promise holds, over the draw of the rows; in (0, 1).
    mislabelled : (a, m), default=(0, 0)
        Label errors to allow for: at most a rows labelled negative are positive, and at most m true negatives are
        missing (labelled positive, or discarded). The promise stays exact, at the cost of recall. Can't be combined
        with `min_precision`.
    min_recall : float, optional
        Smallest share of positives above the threshold. Together with another limit it sets a second, lower threshold;
        scores between the two are unsure.
    min_precision : float, optional
        Smallest share of positives among rows above the threshold, with max_fpr=None. A fifth of the rows (the earliest
        with `order`) chooses the sequence of thresholds, the rest tests it.
    order : array-like of shape (n,), optional
        The time of each row, for `first` and `last` of the certificate.
    groups : array-like of shape (n,), optional
        Groups of dependent rows: copies, a thread, a campaign, a sender. A group counts as one independent observation,
        with its least favourable score: the highest of its negatives, the lowest of its positives. None: equal scores
        of the same class with more than seven digits are copies of one document. ``range(n)``: all rows are
        independent.
    anytime : bool, default=False
        Whether the promise holds for all numbers of rows jointly, so that you may certify again whenever there are more
        rows, in the order of `order` or else of the rows. It takes about a quarter more negatives, and allows fewer
        above the threshold. Can't be combined with `mislabelled`. :class:`AnytimeCertificate` can be continued with
        more rows.
    assumption, model, pos_label, neg_label
        Copied to the certificate.

    Returns
    -------
    Certificate

    Raises
    ------
    NotEnoughNegatives, NotEnoughPositives
        If there are too few rows for the promise.
    ValueError
        If the rows are invalid, or no threshold reaches `min_precision`.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.concatenate((np.arange(5000), np.arange(4500, 5500)))
    >>> band = certify(scores, np.arange(6000) >= 5000, max_fpr=0.01, min_recall=0.95)
    >>> round(band.lower_threshold), round(band.threshold)
    (4538, 4961)
    """
    values, truth = _checked(scores, y)
    together = equal_scores(values) if groups is None else checked_groups(groups, values.size)
    if anytime:
        in_turn = (
            np.arange(values.size) if order is None else np.argsort(checked_order(order, values.size), kind="stable")
        )
        values, truth, together = values[in_turn], truth[in_turn], numbered(together[in_turn].tolist())
        order = None if order is None else np.asarray(order)[in_turn]
    negatives, positives = (values[~truth], together[~truth]), (values[truth], together[truth])
    fraction(confidence, "confidence", zero=False, one=False)
    goal = _goal(max_fpr, min_recall, min_precision)
    foreign, missing = checked_mislabelled(mislabelled)
    if anytime and (foreign or missing):
        raise ValueError("mislabelled can't be combined with anytime. Give one of them.")
    lower: float | None = None
    if goal == "min_precision":
        assert min_precision is not None
        if foreign or missing:
            raise ValueError("mislabelled can't be combined with min_precision. Give max_fpr or min_recall instead.")
        threshold, allowed = _precise(values, truth, together, min_precision, confidence, order, anytime)
    elif goal == "max_fpr":
        assert max_fpr is not None
        wrong_labels = foreign, missing
        threshold, allowed = by_groups_and_rows(threshold_rule(anytime), *negatives, max_fpr, confidence, wrong_labels)
    if min_recall is not None:
        # positives among the negatives are missing from the positives, and vice versa
        low, missed = by_groups_and_rows(
            _recall_rule(anytime), *positives, min_recall, confidence, (missing, foreign), highest=False
        )
        if goal == "min_recall":
            threshold, allowed = low, missed
        else:
            lower = min(low, threshold)  # if one threshold keeps both promises, nothing is unsure
    found, n_negatives = one_each(*positives, highest=False), len(np.unique(negatives[1]))
    caught, n_positives = int((found > threshold).sum()), len(found)
    first, last = _ends(order, values.size)
    return Certificate(
        threshold=threshold,
        goal=goal,
        confidence=float(confidence),
        n_negatives=n_negatives,
        n_positives=n_positives,
        allowed=allowed,
        max_fpr=max_fpr,
        min_recall=min_recall,
        min_precision=min_precision,
        recall=caught / n_positives,
        recall_interval=rate_interval(caught, n_positives, interval_confidence(confidence)),
        positive_share=n_positives / (n_positives + n_negatives),
        assumption=assumption,
        first=first,
        last=last,
        model=model,
        pos_label=_plain(pos_label),
        lower_threshold=lower,
        neg_label=_plain(neg_label),
        mislabelled=(foreign, missing),
        anytime=anytime,
        dependent=(negatives[0].size - n_negatives, positives[0].size - n_positives),
    )


def _goal(max_fpr: float | None, min_recall: float | None, min_precision: float | None) -> str:
    if max_fpr is not None and min_precision is not None:
        raise ValueError("max_fpr and min_precision both set the threshold. Give one of them, and None for the other.")
    limits = {"max_fpr": max_fpr, "min_precision": min_precision, "min_recall": min_recall}
    for name, limit in limits.items():
        if limit is not None:
            fraction(limit, name, zero=False, one=False)
    for name, limit in limits.items():
        if limit is not None:
            return name
    raise ValueError("there is no promise to certify. Give max_fpr, min_recall or min_precision.")


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
    groups: Groups,
    min_precision: float,
    confidence: float,
    order: ArrayLike | None,
    anytime: bool,
) -> tuple[float, int]:
    """Choose a falling sequence of thresholds on part of the rows, and test it on the rest; groups stay together.

    The part is a fifth of the rows, random or the earliest ones. For an anytime-valid test it is the first `_PILOT`
    rows, and the sequence depends on these alone.
    """
    n_groups = int(groups.max()) + 1
    if order is None and anytime:
        turn = np.arange(n_groups)
    elif order is None:
        turn = np.argsort(np.random.default_rng(0).permutation(n_groups))
    else:  # a group has the time of its first row
        rows = np.argsort(checked_order(order, values.size), kind="stable")
        turn = np.empty(n_groups, np.intp)
        turn[groups[rows][::-1]] = np.arange(values.size)[::-1]
    sequence = np.argsort(turn[groups], kind="stable")
    in_turn = turn[groups][sequence]
    size = min(_PILOT, values.size - 1) if anytime else values.size // 5
    pilot, rest = np.split(sequence, [np.searchsorted(in_turn, in_turn[size])])
    pilot = _least_favourable(values, truth, groups, pilot)
    ranked = pilot[np.argsort(-values[pilot], kind="stable")]
    flagged = np.arange(1, ranked.size + 1)
    wrong = np.cumsum(~truth[ranked])
    # The walk starts at the highest threshold that the rest should accept with a margin, according to the pilot's rows
    # above it. Without one, it starts at the threshold with the pilot's strongest evidence for the precision.
    times = len(_least_favourable(values, truth, groups, rest)) / max(pilot.size, 1)
    doubt = special.bdtr(np.ceil(times * wrong), (times * flagged).astype(np.int64), 1 - min_precision)
    sure = np.flatnonzero(doubt <= (1 - confidence) / 10)
    case = (flagged - wrong - min_precision * flagged) / np.sqrt(flagged)
    start = int(sure[0]) if sure.size and not anytime else int(np.argmax(case))
    below = np.unique(values[ranked[start:]])[::-1]
    steps = below[np.unique(np.linspace(0, below.size - 1, 200).astype(int))]
    threshold, _, errors = precision_threshold(
        values[rest], truth[rest], steps, min_precision, confidence, groups[rest], anytime
    )
    return threshold, errors


def threshold_rule(anytime: bool) -> Callable[..., tuple[float, int]]:
    """Return the rule that sets a threshold by negatives' scores: the fixed-n rule, or the anytime-valid one.

    Examples
    --------
    >>> scores = np.arange(10_000.0)[::-1]
    >>> [threshold_rule(anytime)(scores, 0.001, 0.95, (0, 0)) for anytime in (False, True)]
    [(9995.0, 4), (9997.0, 2)]
    """
    if not anytime:
        return order_statistic_threshold
    return lambda scores, max_fpr, confidence, mislabelled: anytime_threshold(scores, max_fpr, confidence)


def _recall_rule(anytime: bool) -> Callable[..., tuple[float, int]]:
    if not anytime:
        return recall_threshold
    return lambda scores, recall, confidence, mislabelled: anytime_recall_threshold(scores, recall, confidence)


def _least_favourable(
    values: NDArray[np.float64], truth: NDArray[np.bool_], groups: Groups, rows: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the least favourable rows for a precision: a group's highest negative, its lowest positive."""
    against = np.where(truth[rows], -values[rows], values[rows])
    best_first = np.lexsort((-against, groups[rows], truth[rows]))
    named = np.stack((truth[rows], groups[rows]))[:, best_first]
    first = np.append(True, (named[:, 1:] != named[:, :-1]).any(axis=0))
    return np.asarray(rows[np.sort(best_first[first])])


def _ends(order: ArrayLike | None, n: int) -> tuple[Any, Any]:
    if order is None:
        return None, None
    when = np.sort(checked_order(order, n))
    return _plain(when[0]), _plain(when[-1])


def checked_order(order: ArrayLike, n: int) -> NDArray[Any]:
    """Validate `order`: one sortable value per row.

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
    """Convert a numpy scalar or a time to a JSON value."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
