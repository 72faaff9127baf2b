"""Measures of rankings and decisions, computed from labels and scores: the functions of `surebayes.metrics`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surebayes.core.checks import fraction
from surebayes.metrics import ranking
from surebayes.metrics.significance import Interval, corrected_resampled_ttest, rate_interval, sign_test

__all__ = [
    "Interval",
    "bootstrap_interval",
    "break_even",
    "corrected_resampled_ttest",
    "lam_percent",
    "macro_f1",
    "micro_f1",
    "partial_auc",
    "precision_recall_f1",
    "rate_interval",
    "roc_auc",
    "roc_curve",
    "roca_percent",
    "sign_test",
    "specificity_at_recall",
    "tpr_at_fpr",
]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


# ---------------------------------------------------------------------- rankings


def roc_curve(y: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return the points of the ROC curve: one for each distinct score, and the origin.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of two classes; the larger one is positive.
    s : array-like of shape (n,)
        Scores, higher for positives.

    Returns
    -------
    fpr, tpr, thresholds : ndarray
        The shares of negatives and of positives strictly above each threshold, and the thresholds, in descending order;
        the last threshold is -inf. (scikit-learn also counts scores *at* the threshold, so its thresholds are shifted
        by one step.)

    Examples
    --------
    >>> fpr, tpr, thresholds = roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    >>> fpr.tolist(), tpr.tolist(), thresholds.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0], [0.8, 0.4, 0.1, -inf])
    """
    thresholds, false_positives, true_positives = ranking.steps_of(*ranking.checked(y, s))
    return false_positives / false_positives[-1], true_positives / true_positives[-1], thresholds


def roc_auc(y: ArrayLike, s: ArrayLike) -> float:
    """Return the area under the ROC curve: the probability that a positive outranks a negative; ties count one half.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.

    Returns
    -------
    float
        Between 0 and 1; computed from integers, so that the order of the rows has no effect.

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return float(ranking.area(*ranking.steps_of(*ranking.checked(y, s))[1:]))


def partial_auc(y: ArrayLike, s: ArrayLike, max_fpr: float = 0.1) -> float:
    """Return the area under the ROC curve left of `max_fpr`, divided by `max_fpr`: Kolcz & Yih's AUC_0.1.

    The curve is interpolated linearly at `max_fpr`. The result is the mean recall over the false-positive rates from 0
    to `max_fpr`: 1 for a perfect ranking, max_fpr / 2 for a random one.

    scikit-learn's ``roc_auc_score(y, s, max_fpr=x)`` starts from the same area A but reports McClish's standardised
    value (1 + (A - x^2/2) / (x - x^2/2)) / 2, which is 0.5 for a random ranking and compresses better values towards 1;
    with p = partial_auc it is (1 + (p - x/2) / (1 - x/2)) / 2. Both measures order classifiers in the same way, but
    only this one is comparable with the paper's tables.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    max_fpr : float, default=0.1
        Upper limit of the false-positive rate, in (0, 1]; 1 gives the whole area.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> y = [0] * 10 + [1] * 4
    >>> s = [9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 10, 10, 8, 1]   # one negative outranks half of the positives
    >>> partial_auc(y, s, max_fpr=0.1)
    0.5
    >>> partial_auc(y, s, max_fpr=0.2)                      # the 0.75 above it, and the start of the tie
    0.6319444444444444
    """
    fraction(max_fpr, "max_fpr", zero=False)
    return float(ranking.partial_area(*ranking.steps_of(*ranking.checked(y, s))[1:], max_fpr))


def tpr_at_fpr(y: ArrayLike, s: ArrayLike, x: float) -> float:
    """Return the largest true-positive rate of the thresholds with a false-positive rate of at most `x`.

    The curve is not interpolated.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    x : float
        Largest share of negatives above the threshold, in [0, 1].

    Returns
    -------
    float
        Between 0 and 1. Negatives and positives with equal scores are all above the threshold or all below.

    Examples
    --------
    >>> y, s = [0, 0, 0, 0, 1, 1, 1, 1], [1, 2, 3, 6, 5, 6, 7, 8]
    >>> tpr_at_fpr(y, s, 0.0), tpr_at_fpr(y, s, 0.25)
    (0.5, 1.0)
    """
    fraction(x, "x")
    return float(ranking.best_tpr(*ranking.steps_of(*ranking.checked(y, s))[1:], x))


def specificity_at_recall(y: ArrayLike, s: ArrayLike, recall: float = 1.0) -> float:
    """Return the largest true-negative rate of the thresholds with a recall of at least `recall`.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    recall : float, default=1.0
        Minimum share of positives above the threshold, in [0, 1]. Kolcz & Chowdhury use 1.0.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> specificity_at_recall([0, 0, 0, 0, 1, 1], [1, 2, 3, 9, 3, 8])
    0.5
    """
    fraction(recall, "recall")
    return float(ranking.best_specificity(*ranking.steps_of(*ranking.checked(y, s))[1:], recall))


def roca_percent(y: ArrayLike, s: ArrayLike) -> float:
    """Return TREC's 1-ROCA%: 100 (1 - AUC), the percentage of (ham, spam) pairs in the wrong order; lower is better.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.

    Returns
    -------
    float
        Between 0 and 100, computed without subtracting from 1, so that small values keep their digits.

    Examples
    --------
    >>> roca_percent(["ham", "ham", "spam", "spam"], [0.1, 0.4, 0.35, 0.8])
    25.0
    """
    return float(ranking.lost_percent(*ranking.steps_of(*ranking.checked(y, s))[1:]))


def break_even(y: ArrayLike, s: ArrayLike) -> float:
    """Return the break-even point: the precision, which equals the recall, if k rows are flagged for k positives.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.

    Returns
    -------
    float
        Between 0 and 1. If the cut falls within a tie, the average over all orders of the tied rows.

    Examples
    --------
    >>> break_even([0, 1, 1, 0], [4, 3, 2, 1])
    0.5
    >>> break_even([0, 1, 1, 0], [2, 3, 2, 2])
    0.6666666666666666
    """
    return float(ranking.precision_at_positives(*ranking.steps_of(*ranking.checked(y, s))[1:]))


# ---------------------------------------------------------------------- decisions


class PrecisionRecallF1(NamedTuple):
    """Precision, recall and their harmonic mean.

    Examples
    --------
    >>> PrecisionRecallF1(1.0, 0.5, 2 / 3).recall
    0.5
    """

    precision: float
    recall: float
    f1: float


def precision_recall_f1(y: ArrayLike, s: ArrayLike, threshold: float = 0.0) -> PrecisionRecallF1:
    """Return precision, recall and F1 of a threshold; scores strictly above it are flagged.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    threshold : float, default=0.0
        The threshold; it may be infinite, but not NaN.

    Returns
    -------
    PrecisionRecallF1
        A named tuple (precision, recall, f1); precision is 0 if no row is flagged.

    Examples
    --------
    >>> precision_recall_f1([0, 0, 1, 1], [-2, 1, 3, 0])
    PrecisionRecallF1(precision=0.5, recall=0.5, f1=0.5)
    """
    positive, scores = ranking.checked(y, s)
    if math.isnan(threshold):
        raise ValueError("threshold must be a number. Got NaN.")
    predicted = scores > np.float64(threshold)
    true_positives, called, there = int((predicted & positive).sum()), int(predicted.sum()), int(positive.sum())
    precision, recall = true_positives / max(called, 1), true_positives / there
    return PrecisionRecallF1(precision, recall, 2 * true_positives / (called + there))


def lam_percent(ham_error_rate: float, spam_error_rate: float) -> float:
    """Return TREC's logistic average misclassification percentage (lam%) of the two error rates.

    This is the mean of the two logits, converted back to a rate. A filter that flags messages at random with
    probability p gets 50% for every p; the pair (0, 1) gets 50% as the limit.

    Parameters
    ----------
    ham_error_rate, spam_error_rate : float
        Misclassified shares of ham and of spam, in [0, 1].

    Returns
    -------
    float
        A percentage; 0 if one of the rates is 0 and the other is not 1.

    Examples
    --------
    >>> round(lam_percent(0.001, 0.1), 4)
    1.0436
    >>> lam_percent(0.0, 0.5), lam_percent(0.3, 0.7)
    (0.0, 50.0)
    """
    ham, spam = fraction(ham_error_rate, "ham_error_rate"), fraction(spam_error_rate, "spam_error_rate")
    if {ham, spam} == {0.0, 1.0}:
        return 50.0
    from scipy import special  # scipy takes a quarter of a second to import, and few measures need it

    return 100 * float(special.expit((special.logit(ham) + special.logit(spam)) / 2))


def micro_f1(Y: Any, P: Any) -> float:
    """Return the micro-averaged F1: that of all (row, class) decisions together.

    Parameters
    ----------
    Y, P : array-like or sparse matrix of shape (n, K), or array-like of shape (n,)
        True and predicted labels: indicators of 0 and 1 (or booleans), or one label per row. With one label per row,
        every label is a class, and the result is the accuracy.

    Returns
    -------
    float
        Between 0 and 1; 0 without true and predicted positives.

    Examples
    --------
    >>> micro_f1([[1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 1]])
    0.6666666666666666
    """
    true_positives, predicted, there = (int(count.sum()) for count in _class_counts(Y, P))
    return 2 * true_positives / max(predicted + there, 1)


def macro_f1(Y: Any, P: Any) -> float:
    """Return the macro-averaged F1: the mean of the classes' F1.

    Parameters
    ----------
    Y, P : array-like or sparse matrix of shape (n, K), or array-like of shape (n,)
        True and predicted labels, as for :func:`micro_f1`.

    Returns
    -------
    float
        Between 0 and 1. A class that is neither present nor predicted has an F1 of 0, as in scikit-learn.

    Examples
    --------
    >>> macro_f1([[1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 1]])
    0.6666666666666666
    >>> macro_f1(["a", "a", "b"], ["a", "b", "b"])
    0.6666666666666666
    """
    true_positives, predicted, there = _class_counts(Y, P)
    return float(np.mean(2 * true_positives / np.maximum(predicted + there, 1)))


def _class_counts(Y: Any, P: Any) -> tuple[Counts, Counts, Counts]:
    """Return for each class the numbers of correct predictions, of predictions, and of rows."""
    truth, guess = _indicator_or_labels(Y, "Y"), _indicator_or_labels(P, "P")
    if truth.shape != guess.shape:
        raise ValueError(f"Y and P must have the same shape. Got {truth.shape} and {guess.shape}.")
    if 0 in truth.shape:
        raise ValueError(f"Y and P must have rows and classes. Got shape {truth.shape}.")
    if truth.ndim == 1:
        _, codes = np.unique(np.concatenate((truth, guess)), return_inverse=True)
        columns = int(codes.max()) + 1
        there, predicted = codes[: truth.size], codes[truth.size :]
        true_positives = np.bincount(there[there == predicted], minlength=columns)
        return true_positives, np.bincount(predicted, minlength=columns), np.bincount(there, minlength=columns)
    counts = (truth.multiply(guess), guess, truth)
    true_positives, predicted, there = (np.asarray(c.sum(axis=0)).ravel().astype(np.int64) for c in counts)
    return true_positives, predicted, there


def _indicator_or_labels(values: Any, name: str) -> Any:
    from scipy import sparse

    if not sparse.issparse(values):
        values = np.asarray(values)
        if values.ndim == 1:
            return values
        if values.ndim != 2:
            raise ValueError(f"{name} must be a vector of labels or a matrix of 0 and 1. Got {values.ndim} dimensions.")
    matrix = sparse.csr_array(values)
    matrix.sum_duplicates()
    wrong = matrix.data[~np.isin(matrix.data, (0, 1))]
    if wrong.size:
        raise ValueError(f"{name} must be a matrix of 0 and 1. Got the value {wrong[0].item()!r}.")
    return matrix.astype(np.int64)


# ---------------------------------------------------------------------- intervals


# The implementation of each measure on steps, which measures many bootstrap samples at once without sorting.
_ON_STEPS: dict[Any, Callable[..., Floats]] = {
    partial_auc: ranking.partial_area,
    roc_auc: ranking.area,
    tpr_at_fpr: ranking.best_tpr,
    specificity_at_recall: ranking.best_specificity,
    roca_percent: ranking.lost_percent,
    break_even: ranking.precision_at_positives,
}


def bootstrap_interval(
    metric: Callable[..., float],
    y: ArrayLike,
    s: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    **parameters: Any,
) -> Interval:
    """Return the percentile interval of a measure, from samples drawn with replacement within each class.

    The numbers of positives and negatives are fixed (a stratified bootstrap), so that every sample can be measured. The
    ranking measures of this module are computed for many samples at once from one sort; 1,000 samples of 10,000 rows
    take about half a second. Any other function of (labels, scores) is called once per sample.

    Parameters
    ----------
    metric : callable
        A measure: ``metric(y, s, **parameters) -> float``.
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    confidence : float, default=0.95
        Confidence of the interval, in (0, 1).
    resamples : int, default=1000
        Number of samples.
    seed : int, default=0
        Seed of the random samples; the same seed gives the same interval.
    **parameters
        Passed to `metric`.

    Returns
    -------
    Interval
        A named tuple (low, high). In the far tail (such as the TPR at a tiny FPR, from few negatives), the bootstrap
        depends on very few scores; use :func:`rate_interval` with a fixed threshold instead.

    Examples
    --------
    >>> y, s = [0] * 50 + [1] * 50, list(range(100))
    >>> s[10], s[60] = s[60], s[10]
    >>> low, high = bootstrap_interval(partial_auc, y, s, max_fpr=0.1, resamples=200)
    >>> low < partial_auc(y, s, max_fpr=0.1) < high
    True
    """
    fraction(confidence, "confidence", zero=False, one=False)
    if resamples != int(resamples) or resamples < 1:
        raise ValueError(f"resamples must be an integer of at least 1. Got {resamples!r}.")
    positive, scores = ranking.checked(y, s)
    metric(np.asarray(y), scores, **parameters)  # raise errors of the metric or its parameters first
    random = np.random.default_rng(seed)
    on_steps = _ON_STEPS.get(metric)
    if on_steps is None:
        values = ranking.measure_samples(metric, np.asarray(y), positive, scores, int(resamples), random, parameters)
    else:
        values = ranking.measure_steps(on_steps, positive, scores, int(resamples), random, parameters)
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
