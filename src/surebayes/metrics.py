"""How good a ranking or a decision is, from labels and scores alone.

Labels may be booleans, 0/1 or any two values; the larger one is the positive class. Higher scores mean "more
positive", and a threshold calls positive what lies strictly above it. Rows with equal scores are one step: no measure
depends on the order in which ties happen to be stored. Scores may be infinite, never NaN.

=====================================  ==========================================================================
:func:`roc_curve`, :func:`roc_auc`     the curve, the area under it
:func:`partial_auc`                    area left of a false-positive rate (AUC_0.1 of Kolcz & Yih)
:func:`tpr_at_fpr`                     recall that a false-positive rate allows
:func:`specificity_at_recall`          true-negative rate that a recall allows (Kolcz & Chowdhury)
:func:`roca_percent`                   TREC's 1-ROCA%
:func:`lam_percent`                    TREC's logistic average of two error rates
:func:`break_even`                     where precision equals recall
:func:`precision_recall_f1`            at one threshold
:func:`micro_f1`, :func:`macro_f1`     of multi-label or multi-class decisions
:func:`rate_interval`                  exact interval of a rate
:func:`bootstrap_interval`             interval of any of these, or of your own function of labels and scores
:func:`corrected_resampled_ttest`      two classifiers on the same random splits
:func:`sign_test`                      wins against losses
=====================================  ==========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, special

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


class Interval(NamedTuple):
    """Both ends of a confidence interval.

    Examples
    --------
    >>> low, high = Interval(0.25, 0.75)
    >>> high - low
    0.5
    """

    low: float
    high: float


# ---------------------------------------------------------------------- the ranking


class _Steps(NamedTuple):
    """A ranking by distinct scores, highest first: what lies strictly above each of them, and finally everything."""

    thresholds: Floats
    false_positives: Counts
    true_positives: Counts


def _checked(y: ArrayLike, s: ArrayLike) -> tuple[NDArray[np.bool_], Floats]:
    """Labels as booleans and scores as floats, or a one-sentence error."""
    labels, scores = np.asarray(y), np.asarray(s, dtype=np.float64)
    if labels.ndim != 1 or scores.ndim != 1:
        raise ValueError(f"labels and scores must be vectors. Got shapes {labels.shape} and {scores.shape}.")
    if labels.size != scores.size:
        raise ValueError(
            f"labels and scores must have the same length. Got {labels.size} labels and {scores.size} scores."
        )
    if np.isnan(scores).any():
        raise ValueError(f"scores must not contain NaN. Got NaN in {int(np.isnan(scores).sum())} of {scores.size}.")
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"labels must not contain NaN. Got NaN in {int(np.isnan(labels).sum())} of {labels.size}.")
    values = np.unique(labels)
    if values.size != 2:
        got = ", ".join(map(repr, values[:5].tolist())) or "no labels at all"
        raise ValueError(f"labels must take exactly two values, with rows of both classes. Got {got}.")
    return labels == values[1], scores


def _steps(positive: NDArray[np.bool_], scores: Floats) -> _Steps:
    order = np.argsort(-scores, kind="stable")
    ranked, truth = scores[order], positive[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), ranked.size - 1)
    true_positives = np.concatenate(([0], np.cumsum(truth, dtype=np.int64)[last]))
    predicted = np.concatenate(([0], last + 1)).astype(np.int64)
    thresholds = np.concatenate((ranked[last], [-np.inf]))
    return _Steps(thresholds, predicted - true_positives, true_positives)


def _fraction(value: float, name: str, *, zero: bool = True, one: bool = True) -> float:
    number = float(value)
    if not (0 < number < 1 or (zero and number == 0) or (one and number == 1)):
        span = f"{'[' if zero else '('}0, 1{']' if one else ')'}"
        raise ValueError(f"{name} must lie in {span}: it is a fraction, not a percentage. Got {value!r}.")
    return number


# Functions of the steps work along the last axis, so that one call measures a thousand bootstrap samples.


def _auc_lost(false_positives: Counts, true_positives: Counts) -> Floats:
    """Share of (negative, positive) pairs in the wrong order, ties counting half: 1 - AUC without cancellation."""
    positives, negatives = true_positives[..., -1], false_positives[..., -1]
    missed = 2 * positives[..., None] - true_positives[..., 1:] - true_positives[..., :-1]
    pairs = np.sum(np.diff(false_positives) * missed, axis=-1)  # int64: exact up to 2^62 pairs
    return np.asarray(pairs / (2 * positives * negatives), dtype=np.float64)


def _partial_area(false_positives: Counts, true_positives: Counts, max_fpr: float = 0.1) -> Floats:
    limit = max_fpr * false_positives[..., -1:]
    start, stop = false_positives[..., :-1], false_positives[..., 1:]
    low, high = true_positives[..., :-1], true_positives[..., 1:]
    run = np.clip(limit - start, 0, stop - start)
    # the height at the right end of the part of each step that lies left of max_fpr
    end = low + (high - low) * (run / np.maximum(stop - start, 1))
    area = np.sum(run * (low + end), axis=-1) / 2
    return np.asarray(area / (limit[..., 0] * true_positives[..., -1]), dtype=np.float64)


def _best_tpr(false_positives: Counts, true_positives: Counts, x: float) -> Floats:
    allowed = false_positives / false_positives[..., -1:] <= x
    return np.asarray(np.max(np.where(allowed, true_positives, 0), axis=-1) / true_positives[..., -1], dtype=np.float64)


def _best_specificity(false_positives: Counts, true_positives: Counts, recall: float = 1.0) -> Floats:
    enough = true_positives / true_positives[..., -1:] >= recall
    negatives = false_positives[..., -1]
    fewest = np.min(np.where(enough, false_positives, negatives[..., None]), axis=-1)
    return np.asarray((negatives - fewest) / negatives, dtype=np.float64)


def _precision_at_positives(false_positives: Counts, true_positives: Counts) -> Floats:
    wanted = true_positives[..., -1:]
    predicted = false_positives + true_positives
    # of the step that crosses k = wanted, the share of its positives that a random order would put above k
    share = np.clip((wanted - predicted[..., :-1]) / np.maximum(np.diff(predicted), 1), 0, 1)
    found = np.sum(share * np.diff(true_positives), axis=-1)
    return np.asarray(found / wanted[..., 0], dtype=np.float64)


def _lost_percent(false_positives: Counts, true_positives: Counts) -> Floats:
    return 100 * _auc_lost(false_positives, true_positives)


def _area(false_positives: Counts, true_positives: Counts) -> Floats:
    return 1 - _auc_lost(false_positives, true_positives)


# ---------------------------------------------------------------------- rankings


def roc_curve(y: ArrayLike, s: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Points of the ROC curve, one for each distinct score and the origin.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of two classes; the larger one is positive.
    s : array-like of shape (n,)
        Scores, higher for positives.

    Returns
    -------
    fpr, tpr, thresholds : ndarray
        The share of negatives and of positives strictly above each threshold, by falling threshold; the last threshold
        is -inf. (scikit-learn counts scores *at* the threshold as well, so its thresholds are one step off.)

    Examples
    --------
    >>> fpr, tpr, thresholds = roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    >>> fpr.tolist(), tpr.tolist(), thresholds.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0], [0.8, 0.4, 0.1, -inf])
    """
    thresholds, false_positives, true_positives = _steps(*_checked(y, s))
    return false_positives / false_positives[-1], true_positives / true_positives[-1], thresholds


def roc_auc(y: ArrayLike, s: ArrayLike) -> float:
    """Area under the ROC curve: the chance that a positive outranks a negative, ties counting one half.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.

    Returns
    -------
    float
        Between 0 and 1; computed from whole numbers, so it does not depend on the order of the rows.

    Examples
    --------
    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return float(_area(*_steps(*_checked(y, s))[1:]))


def partial_auc(y: ArrayLike, s: ArrayLike, max_fpr: float = 0.1) -> float:
    """Area under the ROC curve left of `max_fpr`, divided by `max_fpr`: Kolcz & Yih's AUC_0.1.

    The curve is interpolated linearly at `max_fpr`. The result is the mean recall over the false-positive rates from 0
    to `max_fpr`: 1 for a perfect ranking, max_fpr / 2 for a random one.

    scikit-learn's ``roc_auc_score(y, s, max_fpr=x)`` starts from the same area A but reports McClish's standardised
    value (1 + (A - x^2/2) / (x - x^2/2)) / 2, which moves a random ranking to 0.5 and squeezes every other value
    towards 1; with p = partial_auc it is (1 + (p - x/2) / (1 - x/2)) / 2. The order of two classifiers is the same,
    the numbers are not, and only this one can be compared with the paper's tables.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    max_fpr : float, default=0.1
        In (0, 1]; 1 gives the whole area.

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
    _fraction(max_fpr, "max_fpr", zero=False)
    return float(_partial_area(*_steps(*_checked(y, s))[1:], max_fpr))


def tpr_at_fpr(y: ArrayLike, s: ArrayLike, x: float) -> float:
    """Largest true-positive rate of any threshold whose false-positive rate is at most `x`; no interpolation.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    x : float
        Largest share of negatives above the threshold, in [0, 1].

    Returns
    -------
    float
        Between 0 and 1. A tie between negatives and positives is passed as a whole or not at all.

    Examples
    --------
    >>> y, s = [0, 0, 0, 0, 1, 1, 1, 1], [1, 2, 3, 6, 5, 6, 7, 8]
    >>> tpr_at_fpr(y, s, 0.0), tpr_at_fpr(y, s, 0.25)
    (0.5, 1.0)
    """
    _fraction(x, "x")
    return float(_best_tpr(*_steps(*_checked(y, s))[1:], x))


def specificity_at_recall(y: ArrayLike, s: ArrayLike, recall: float = 1.0) -> float:
    """Largest share of negatives left alone by any threshold that finds at least `recall` of the positives.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    recall : float, default=1.0
        In [0, 1]. Kolcz & Chowdhury report 1.0: every positive is found.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> specificity_at_recall([0, 0, 0, 0, 1, 1], [1, 2, 3, 9, 3, 8])
    0.5
    """
    _fraction(recall, "recall")
    return float(_best_specificity(*_steps(*_checked(y, s))[1:], recall))


def roca_percent(y: ArrayLike, s: ArrayLike) -> float:
    """TREC's 1-ROCA%: 100 (1 - AUC), the percentage of (ham, spam) pairs in the wrong order; lower is better.

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
    return float(_lost_percent(*_steps(*_checked(y, s))[1:]))


def break_even(y: ArrayLike, s: ArrayLike) -> float:
    """Precision (= recall) when as many rows are called positive as there are positives.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.

    Returns
    -------
    float
        Between 0 and 1. Where the cut falls into a tie, the average over all orders of the tie.

    Examples
    --------
    >>> break_even([0, 1, 1, 0], [4, 3, 2, 1])
    0.5
    >>> break_even([0, 1, 1, 0], [2, 3, 2, 2])
    0.6666666666666666
    """
    return float(_precision_at_positives(*_steps(*_checked(y, s))[1:]))


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
    """Precision, recall and F1 when every score strictly above `threshold` is called positive.

    Parameters
    ----------
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    threshold : float, default=0.0
        Not NaN; may be infinite.

    Returns
    -------
    PrecisionRecallF1
        A named tuple (precision, recall, f1); precision is 0 where nothing is called positive.

    Examples
    --------
    >>> precision_recall_f1([0, 0, 1, 1], [-2, 1, 3, 0])
    PrecisionRecallF1(precision=0.5, recall=0.5, f1=0.5)
    """
    positive, scores = _checked(y, s)
    if math.isnan(threshold):
        raise ValueError("threshold must be a number. Got NaN.")
    predicted = scores > np.float64(threshold)
    found, called, there = int((predicted & positive).sum()), int(predicted.sum()), int(positive.sum())
    return PrecisionRecallF1(found / max(called, 1), found / there, 2 * found / (called + there))


def lam_percent(ham_error_rate: float, spam_error_rate: float) -> float:
    """TREC's logistic average misclassification percentage of the two error rates.

    The mean of the two logits, turned back into a rate. A filter that guesses, calling everything spam with
    probability p whatever it sees, gets 50% for every p; so does, as the limit, the pair (0, 1).

    Parameters
    ----------
    ham_error_rate, spam_error_rate : float
        Fractions in [0, 1]: misjudged ham of all ham, misjudged spam of all spam.

    Returns
    -------
    float
        A percentage; 0 when one of the rates is 0 and the other is not 1.

    Examples
    --------
    >>> round(lam_percent(0.001, 0.1), 4)
    1.0436
    >>> lam_percent(0.0, 0.5), lam_percent(0.3, 0.7)
    (0.0, 50.0)
    """
    ham, spam = _fraction(ham_error_rate, "ham_error_rate"), _fraction(spam_error_rate, "spam_error_rate")
    if {ham, spam} == {0.0, 1.0}:
        return 50.0
    return 100 * float(special.expit((special.logit(ham) + special.logit(spam)) / 2))


def micro_f1(Y: Any, P: Any) -> float:
    """F1 of all (row, class) decisions counted together.

    Parameters
    ----------
    Y, P : array-like or sparse matrix of shape (n, K), or array-like of shape (n,)
        Truth and prediction: indicators of 0 and 1 (also booleans), or one label a row; with one label a row every
        label is a class, and the result is the share of right rows.

    Returns
    -------
    float
        Between 0 and 1; 0 where there is nothing to find and nothing was found.

    Examples
    --------
    >>> micro_f1([[1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 1]])
    0.6666666666666666
    """
    found, predicted, there = (int(count.sum()) for count in _class_counts(Y, P))
    return 2 * found / max(predicted + there, 1)


def macro_f1(Y: Any, P: Any) -> float:
    """Mean over the classes of each class's F1.

    Parameters
    ----------
    Y, P : array-like or sparse matrix of shape (n, K), or array-like of shape (n,)
        Truth and prediction as for :func:`micro_f1`.

    Returns
    -------
    float
        Between 0 and 1. A class that is neither there nor predicted counts 0, as in scikit-learn.

    Examples
    --------
    >>> macro_f1([[1, 0], [1, 1], [0, 0]], [[1, 0], [0, 1], [0, 1]])
    0.6666666666666666
    >>> macro_f1(["a", "a", "b"], ["a", "b", "b"])
    0.6666666666666666
    """
    found, predicted, there = _class_counts(Y, P)
    return float(np.mean(2 * found / np.maximum(predicted + there, 1)))


def _class_counts(Y: Any, P: Any) -> tuple[Counts, Counts, Counts]:
    """For each class: rows rightly predicted, predicted, and there."""
    truth, guess = _indicator_or_labels(Y, "Y"), _indicator_or_labels(P, "P")
    if truth.shape != guess.shape:
        raise ValueError(f"Y and P must have the same shape. Got {truth.shape} and {guess.shape}.")
    if 0 in truth.shape:
        raise ValueError(f"Y and P must have rows and classes. Got shape {truth.shape}.")
    if truth.ndim == 1:
        _, codes = np.unique(np.concatenate((truth, guess)), return_inverse=True)
        columns = int(codes.max()) + 1
        there, predicted = codes[: truth.size], codes[truth.size :]
        found = np.bincount(there[there == predicted], minlength=columns)
        return found, np.bincount(predicted, minlength=columns), np.bincount(there, minlength=columns)
    counts = (truth.multiply(guess), guess, truth)
    found, predicted, there = (np.asarray(c.sum(axis=0)).ravel().astype(np.int64) for c in counts)
    return found, predicted, there


def _indicator_or_labels(values: Any, name: str) -> Any:
    if not sparse.issparse(values):
        values = np.asarray(values)
        if values.ndim == 1:
            return values
        if values.ndim != 2:
            raise ValueError(f"{name} must be a vector of labels or a matrix of 0 and 1. Got {values.ndim} dimensions.")
    matrix = sparse.csr_array(values)
    matrix.sum_duplicates()
    if not np.isin(matrix.data, (0, 1)).all():
        raise ValueError(f"{name} must be a matrix of 0 and 1. Got the value {matrix.data[matrix.data > 1].max()!r}.")
    return matrix.astype(np.int64)


# ---------------------------------------------------------------------- intervals


def rate_interval(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Clopper & Pearson's exact interval of a rate: it covers the true rate with at least the stated confidence.

    Parameters
    ----------
    successes, trials : int
        Whole numbers, 0 <= successes <= trials and trials >= 1.
    confidence : float, default=0.95
        In (0, 1).

    Returns
    -------
    Interval
        A named tuple (low, high).

    Examples
    --------
    >>> low, high = rate_interval(0, 3000)
    >>> low, round(high, 6)
    (0.0, 0.001229)
    """
    _fraction(confidence, "confidence", zero=False, one=False)
    if successes != int(successes) or trials != int(trials) or not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"successes must be a whole number from 0 to trials, trials at least 1. Got {successes!r} of {trials!r}."
        )
    tail = (1 - confidence) / 2
    low = float(special.betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = float(special.betainccinv(successes + 1, trials - successes, tail)) if successes < trials else 1.0
    return Interval(low, high)


# measure -> its form on steps, where many bootstrap samples are measured at once without sorting again
_ON_STEPS: dict[Any, Callable[..., Floats]] = {
    partial_auc: _partial_area,
    roc_auc: _area,
    tpr_at_fpr: _best_tpr,
    specificity_at_recall: _best_specificity,
    roca_percent: _lost_percent,
    break_even: _precision_at_positives,
}
_CELLS_AT_ONCE = 1 << 21  # 16 MB of counts


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
    """Percentile interval of a measure, from samples drawn with replacement within each class.

    The number of positives and negatives stays as it is (a stratified bootstrap), so every sample can be measured.
    The ranking measures of this module are computed for many samples at once from one sort; 1,000 samples of 10,000
    rows take about half a second. Any other function of (labels, scores) is called once for each sample.

    Parameters
    ----------
    metric : callable
        ``metric(y, s, **parameters) -> float``.
    y, s : array-like of shape (n,)
        Labels (the larger one is positive) and scores.
    confidence : float, default=0.95
        In (0, 1).
    resamples : int, default=1000
        How many samples are drawn.
    seed : int, default=0
        The same seed gives the same interval.
    **parameters
        Passed to `metric`.

    Returns
    -------
    Interval
        A named tuple (low, high). Far in the tail (TPR at a tiny FPR from few negatives) the bootstrap knows no more
        than the few scores up there: use :func:`rate_interval` for a fixed threshold instead.

    Examples
    --------
    >>> y, s = [0] * 50 + [1] * 50, list(range(100))
    >>> s[10], s[60] = s[60], s[10]
    >>> bootstrap_interval(partial_auc, y, s, max_fpr=0.1, resamples=200)
    Interval(low=0.8279, high=1.0)
    """
    _fraction(confidence, "confidence", zero=False, one=False)
    if resamples != int(resamples) or resamples < 1:
        raise ValueError(f"resamples must be a whole number of at least 1. Got {resamples!r}.")
    positive, scores = _checked(y, s)
    metric(y, s, **parameters)  # errors of the metric or its parameters come before the work
    random = np.random.default_rng(seed)
    on_steps = _ON_STEPS.get(metric)
    if on_steps is None:
        values = _measure_samples(metric, np.asarray(y), positive, scores, int(resamples), random, parameters)
    else:
        values = _measure_steps(on_steps, positive, scores, int(resamples), random, parameters)
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))


def _measure_samples(
    metric: Callable[..., float],
    y: NDArray[Any],
    positive: NDArray[np.bool_],
    scores: Floats,
    resamples: int,
    random: np.random.Generator,
    parameters: dict[str, Any],
) -> Floats:
    groups = [np.flatnonzero(~positive), np.flatnonzero(positive)]
    values = np.empty(resamples)
    for i in range(resamples):
        rows = np.concatenate([group[random.integers(group.size, size=group.size)] for group in groups])
        values[i] = metric(y[rows], scores[rows], **parameters)
    return values


def _measure_steps(
    on_steps: Callable[..., Floats],
    positive: NDArray[np.bool_],
    scores: Floats,
    resamples: int,
    random: np.random.Generator,
    parameters: dict[str, Any],
) -> Floats:
    """Draw the number of rows at each distinct score instead of rows: the ranking of the sample needs no sort."""
    steps = _steps(positive, scores)
    width = steps.thresholds.size
    at_once = max(1, _CELLS_AT_ONCE // max(width, positive.size))
    values = []
    for start in range(0, resamples, at_once):
        size = min(at_once, resamples - start)
        drawn = [_draw_steps(counts, size, random) for counts in (steps.false_positives, steps.true_positives)]
        values.append(on_steps(*drawn, **parameters))
    return np.concatenate(values)


def _draw_steps(cumulative: Counts, size: int, random: np.random.Generator) -> Counts:
    total, width = int(cumulative[-1]), cumulative.size
    step_of_row = np.repeat(np.arange(1, width), np.diff(cumulative))
    drawn = step_of_row[random.integers(total, size=(size, total))]
    drawn += np.arange(size)[:, None] * width
    counts = np.bincount(drawn.ravel(), minlength=size * width).reshape(size, width)
    return np.cumsum(counts, axis=1, dtype=np.int64)


# ---------------------------------------------------------------------- comparisons


class TTest(NamedTuple):
    """Statistic and two-sided p-value.

    Examples
    --------
    >>> TTest(2.0, 0.06).p
    0.06
    """

    statistic: float
    p: float


def corrected_resampled_ttest(a: ArrayLike, b: ArrayLike, n_train: int, n_test: int) -> TTest:
    """Nadeau & Bengio's t-test of two classifiers measured on the same random train/test splits.

    Training sets of random splits overlap, so the plain paired t-test is too sure of itself; the variance is
    multiplied by (1/k + n_test/n_train) instead of 1/k. Frank & Bouckaert use it for their tables.

    Parameters
    ----------
    a, b : array-like of shape (k,)
        Results of the two classifiers, split by split; k >= 2.
    n_train, n_test : int
        Rows in each training set and in each test set.

    Returns
    -------
    TTest
        A named tuple (statistic, p), two-sided with k - 1 degrees of freedom; positive when `a` is larger. Differences
        that are all the same number give (0, 1) if it is 0, else an infinite statistic and p = 0.

    Examples
    --------
    >>> a, b = [0.91, 0.93, 0.92, 0.94, 0.90], [0.90, 0.91, 0.92, 0.91, 0.89]
    >>> statistic, p = corrected_resampled_ttest(a, b, n_train=900, n_test=100)
    >>> round(statistic, 4), round(p, 4)
    (2.2014, 0.0925)
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size < 2:
        raise ValueError(f"a and b must be vectors of one length >= 2. Got shapes {first.shape}, {second.shape}.")
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("a and b must be finite numbers. Got NaN or infinity.")
    if not (n_train > 0 and n_test > 0):
        raise ValueError(f"n_train and n_test must be positive numbers of rows. Got {n_train!r} and {n_test!r}.")
    difference = first - second
    mean, k = float(difference.mean()), difference.size
    # equal differences leave a rounding error of a few ulp as their variance
    if np.ptp(difference) <= 4 * np.finfo(float).eps * np.max(np.abs(np.concatenate((first, second)))):
        same = bool(np.all(difference == 0))
        return TTest(0.0, 1.0) if same else TTest(math.copysign(math.inf, mean), 0.0)
    statistic = mean / math.sqrt((1 / k + n_test / n_train) * float(difference.var(ddof=1)))
    return TTest(statistic, 2 * float(special.stdtr(k - 1, -abs(statistic))))


def sign_test(wins: int, losses: int, *, method: str = "exact") -> float:
    """Two-sided sign test of the hypothesis that a win is as likely as a loss; draws are left out.

    Parameters
    ----------
    wins, losses : int
        Whole numbers, not negative.
    method : {"exact", "normal", "printed"}, default="exact"
        "exact": the binomial distribution. "normal": the normal approximation with continuity correction. "printed":
        the same with the tail by Abramowitz & Stegun's polynomial 26.2.17, as statistics packages had it; it is
        what gives Frank & Bouckaert's 4.64e-8 for 81/24.

    Returns
    -------
    float
        The p-value; 1.0 without wins and losses.

    Examples
    --------
    >>> round(sign_test(8, 2), 4)
    0.1094
    >>> print(*(f"{sign_test(81, 24, method=m):.3g}" for m in ("exact", "normal", "printed")))
    2.08e-08 4.63e-08 4.64e-08
    """
    if wins != int(wins) or losses != int(losses) or wins < 0 or losses < 0:
        raise ValueError(f"wins and losses must be whole numbers, not negative. Got {wins!r} and {losses!r}.")
    fewer, total = min(wins, losses), wins + losses
    if method == "exact":
        return min(1.0, 2 * float(special.bdtr(fewer, total, 0.5))) if total else 1.0
    if method not in ("normal", "printed"):
        raise ValueError(f"method must be 'exact', 'normal' or 'printed'. Got {method!r}.")
    z = max(0.0, (abs(wins - losses) - 1) / math.sqrt(max(total, 1)))
    return min(1.0, 2 * (float(special.ndtr(-z)) if method == "normal" else _polynomial_tail(z)))


def _polynomial_tail(z: float) -> float:
    """Abramowitz & Stegun 26.2.17: the upper tail of the normal distribution, to an absolute error of 7.5e-8."""
    t = 1 / (1 + 0.2316419 * z)
    powers = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * sum(b * t ** (i + 1) for i, b in enumerate(powers))
