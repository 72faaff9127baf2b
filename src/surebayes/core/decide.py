"""Decisions from scores: the best class, the best line, and thresholds without a guarantee.

The functions take scores, labels and weights, never documents or terms. A document is *positive* exactly if its score
is strictly above the threshold, so that ties have the same meaning everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surebayes.core.checks import fraction, refuse_nan, score_vector

__all__ = [
    "bias_of_least_error",
    "cost_threshold",
    "f1_cuts",
    "predict_argmax",
    "proportional_cuts",
    "slope_of_least_error",
    "threshold_at",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Ratios with a smaller relative difference are equal up to rounding, so that there is no cut between them.
_SAME_RATIO = 1e-12
# Widths with a smaller relative difference count as equal, so that rounding doesn't choose between intervals.
_SAME_WIDTH = 1e-9


def predict_argmax(scores: ArrayLike, possible: ArrayLike) -> NDArray[np.intp]:
    """Junejo & Karim, eq. (9): the class with the highest score in each row, among the allowed ones.

    Parameters
    ----------
    scores : array-like of shape (n, K)
        Scores with one column per class.
    possible : array-like of bool, shape (K,)
        False for a class that must not be predicted, such as one without documents.

    Returns
    -------
    ndarray of int, shape (n,)
        Column indices; ties go to the lowest.

    Examples
    --------
    >>> predict_argmax([[1.0, 5.0, 2.0], [3.0, 9.0, 3.0]], [True, False, True])
    array([2, 0])
    """
    table = np.asarray(scores, dtype=np.float64)
    columns = np.flatnonzero(np.asarray(possible, dtype=bool))
    if table.ndim != 2 or table.shape[1] != np.size(possible):
        raise ValueError(
            f"scores must have one column for each of the {np.size(possible)} classes. Got shape {table.shape}."
        )
    if columns.size == 0:
        raise ValueError("no class is allowed: every entry of 'possible' is False.")
    best: NDArray[np.intp] = columns[np.argmax(table[:, columns], axis=1)]
    return best


# ---------------------------------------------------------------------- least error by one sort


def slope_of_least_error(
    plus: ArrayLike, minus: ArrayLike, positive: ArrayLike, weight: ArrayLike | None = None
) -> float:
    """Junejo & Karim, eq. (8) without bias: the slope that minimizes the errors of ``slope * plus - minus > 0``.

    A row turns positive when the slope passes minus / plus, so the error is a step function of the slope, and one sort
    of the ratios finds all of its minima. Among equally good intervals between distinct ratios the middle one is chosen
    (of two middle ones the wider in log scale, then the lower), and in it the geometric mean of its ends; (0, h) gives
    h/2 and (h, inf) gives 2h. Swapping the classes then inverts the slope, except when two intervals are exactly as
    wide.

    Parameters
    ----------
    plus, minus : array-like of shape (n,)
        Non-negative scores for the class and for the rest.
    positive : array-like of bool, shape (n,)
        Whether the row belongs to the class.
    weight : array-like of shape (n,), optional
        Non-negative weights of the rows; a row of weight 0 has no effect.

    Returns
    -------
    float
        The slope; 1.0 if no row depends on it (every row has plus = 0 or minus = 0).

    Examples
    --------
    >>> plus, minus = [4.0, 2.0, 1.0, 1.0], [1.0, 1.0, 2.0, 8.0]
    >>> slope_of_least_error(plus, minus, [True, True, False, False])   # between 1/2 and 2
    1.0
    >>> slope_of_least_error(plus, minus, [True, True, True, False])    # between 2 and 8
    4.0
    """
    above, below = np.asarray(plus, dtype=np.float64), np.asarray(minus, dtype=np.float64)
    truth, mass = _labels_and_mass(positive, weight, above.size)
    if above.shape != below.shape or above.ndim != 1:
        raise ValueError(f"plus and minus must be vectors of one length. Got shapes {above.shape} and {below.shape}.")
    if not (np.all(above >= 0) and np.all(below >= 0)):
        raise ValueError("plus and minus must be non-negative numbers: they are sums of term weights.")
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = below / above
    usable = (ratio > 0) & (ratio < math.inf) & (mass > 0)
    change = np.where(truth, -mass, mass)[usable]  # a row turns positive as the slope passes its ratio
    low, high = _interval_of_least_error(ratio[usable], change, _SAME_RATIO, _log_width)
    if low == -math.inf and high == math.inf:
        return 1.0
    if low == -math.inf:
        return high / 2
    if high == math.inf:
        return 2 * low
    product = low * high
    return math.sqrt(product) if 0 < product < math.inf else math.sqrt(low) * math.sqrt(high)


def bias_of_least_error(score: ArrayLike, positive: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Junejo & Karim, eq. (8): the bias that minimizes the errors of ``score + bias > 0``, after the slope is chosen.

    Exact by one sort; ties among intervals are resolved as in :func:`slope_of_least_error` (here the wider one in
    linear scale), and the bias is the middle of the interval. An interval open to one side is entered by half of the
    range of the scores, so that scaling the scores scales the bias; with only one distinct score, by its magnitude.

    Parameters
    ----------
    score : array-like of shape (n,)
        Any real numbers.
    positive : array-like of bool, shape (n,)
        Whether the row belongs to the class.
    weight : array-like of shape (n,), optional
        Non-negative weights of the rows.

    Returns
    -------
    float
        The bias; 0.0 without rows.

    Examples
    --------
    >>> bias_of_least_error([-3.0, -1.0, 5.0], [False, True, True])
    2.0
    """
    value = np.asarray(score, dtype=np.float64)
    truth, mass = _labels_and_mass(positive, weight, value.size)
    if not np.isfinite(value).all():
        raise ValueError("scores must be finite to place a bias between them. Got NaN or infinity.")
    counts = mass > 0
    # a row turns negative as the cut passes its score
    value, change = value[counts], np.where(truth, mass, -mass)[counts]
    low, high = _interval_of_least_error(value, change, 0.0, _plain_width)
    if low == -math.inf and high == math.inf:
        return 0.0
    if math.isfinite(low) and math.isfinite(high):
        return 0.0 - _between(low, high)
    step = (float(value.max()) - float(value.min())) / 2 or abs(float(value[0])) or 1.0
    return step - high if low == -math.inf else -low - step


def _interval_of_least_error(
    value: Floats, change: NDArray[np.int64], same: float, width: Callable[[float, float], float]
) -> tuple[float, float]:
    """Find the chosen interval of least error between distinct values, with -inf and inf for open ends.

    `change` is the change of the error when a rising cut passes the value; values that differ by less than the relative
    amount `same` have no cut between them.
    """
    if value.size == 0:
        return -math.inf, math.inf
    order = np.argsort(value, kind="stable")
    value, error = value[order], np.cumsum(change[order])
    last = np.flatnonzero(value[1:] - value[:-1] > same * np.abs(value[1:]))
    lows = np.concatenate(([-np.inf], value[last], value[-1:]))
    highs = np.concatenate((value[:1], value[last + 1], [np.inf]))
    errors = np.concatenate(([0], error[last], error[-1:]))
    best = np.flatnonzero(errors == errors.min())
    middle = int(best[best.size // 2])
    if best.size % 2 == 0:
        lower = int(best[best.size // 2 - 1])
        if width(lows[lower], highs[lower]) >= width(lows[middle], highs[middle]) * (1 - _SAME_WIDTH):
            middle = lower
    return float(lows[middle]), float(highs[middle])


def _log_width(low: float, high: float) -> float:
    return math.inf if low == -math.inf or high == math.inf else math.log(high) - math.log(low)


def _plain_width(low: float, high: float) -> float:
    return high - low


def _between(low: float, high: float) -> float:
    """Return the middle of an interval, rounded to a number strictly below `high`."""
    middle = low / 2 + high / 2
    return middle if middle < high else low


def _labels_and_mass(positive: ArrayLike, weight: ArrayLike | None, n: int) -> tuple[Bools, NDArray[np.int64]]:
    """Convert labels to booleans and weights to integers, so that sums of weights are exact in any order."""
    truth = np.asarray(positive, dtype=bool)
    if truth.shape != (n,):
        raise ValueError(f"there must be one label for each of the {n} rows. Got shape {truth.shape}.")
    if weight is None:
        return truth, np.ones(n, dtype=np.int64)
    real = np.asarray(weight, dtype=np.float64)
    if real.shape != (n,):
        raise ValueError(f"there must be one weight for each of the {n} rows. Got shape {real.shape}.")
    if not np.all((real >= 0) & (real < np.inf)):
        raise ValueError("weights must be finite and non-negative.")
    # With the factor 2^60 / total, integer weights stay exact, the total fits into int64, and copies of a row are
    # equivalent to a larger weight.
    exponent = 60 - math.frexp(math.fsum(real))[1]
    return truth, np.rint(np.ldexp(real, exponent)).astype(np.int64)


# ---------------------------------------------------------------------- thresholds without a guarantee


def threshold_at(scores: ArrayLike, positive: ArrayLike, max_fpr: float) -> float:
    """Return the lowest threshold with a false-positive rate of at most `max_fpr` on these rows, without a guarantee.

    On new rows the rate exceeds `max_fpr` about half of the time; use :func:`order_statistic_threshold` for a
    guarantee.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Scores.
    positive : array-like of bool, shape (n,)
        Whether the row is positive; there must be negatives.
    max_fpr : float
        In [0, 1].

    Examples
    --------
    >>> threshold_at([1, 2, 3, 4, 5, 9], [False, False, False, False, False, True], max_fpr=0.2)
    4.0
    """
    fraction(max_fpr, "max_fpr")
    values = score_vector(scores, "scores")
    truth, _ = _labels_and_mass(positive, None, values.size)
    negatives = np.sort(values[~truth])[::-1]
    if negatives.size == 0:
        raise ValueError("there must be negatives to measure a false-positive rate. Got none.")
    rates = np.arange(negatives.size + 1) / negatives.size
    allowed = int(np.searchsorted(rates, max_fpr, side="right")) - 1
    return float(negatives[allowed]) if allowed < negatives.size else -math.inf


def cost_threshold(scores: ArrayLike, positive: ArrayLike, cost: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Return the threshold with the lowest total cost on these rows, without a guarantee.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Finite scores.
    positive : array-like of bool, shape (n,)
        Whether the row is positive.
    cost : array-like of shape (2, 2)
        ``cost[truth][decision]``, with 0 for negative and 1 for positive; an error must cost more than the right
        answer.
    weight : array-like of shape (n,), optional
        Weights of the rows.

    Examples
    --------
    >>> scores, positive = [1.0, 2.0, 3.0, 4.0], [False, True, False, True]
    >>> cost_threshold(scores, positive, [[0, 10], [1, 0]])     # a false alarm costs ten misses
    3.5
    >>> cost_threshold(scores, positive, [[0, 1], [10, 0]])
    1.5
    """
    table = np.asarray(cost, dtype=np.float64)
    if table.shape != (2, 2) or not np.isfinite(table).all():
        raise ValueError(
            f"cost must be a 2 x 2 table of numbers, cost[truth][decision]. Got {np.asarray(cost).tolist()}."
        )
    false_alarm, miss = table[0, 1] - table[0, 0], table[1, 0] - table[1, 1]
    if false_alarm < 0 or miss < 0 or false_alarm + miss == 0:
        raise ValueError(f"an error must cost more than the right answer. Got {table.tolist()}.")
    truth, _ = _labels_and_mass(positive, None, np.size(scores))
    price = np.where(truth, miss, false_alarm)
    return -bias_of_least_error(
        scores, truth, price if weight is None else price * np.asarray(weight, dtype=np.float64)
    )


# ---------------------------------------------------------------------- a cut for each class (multi-label)


def proportional_cuts(scores: ArrayLike, shares: ArrayLike) -> Floats:
    """PCut: for each class the threshold that gives it its share of the rows.

    Parameters
    ----------
    scores : array-like of shape (n, K)
        Scores of all rows to decide on; PCut needs them at once.
    shares : array-like of shape (K,)
        Share of the rows that each class had in training, in [0, 1].

    Returns
    -------
    ndarray of shape (K,)
        Thresholds, half-way between two scores. Ties are not split: the number assigned is as close to share x n as
        they allow.

    Examples
    --------
    >>> proportional_cuts([[1.0, 7.0], [2.0, 8.0], [3.0, 9.0], [4.0, 9.0]], [0.5, 0.25])
    array([2.5, inf])
    """
    table = _score_table(scores)
    wanted = np.asarray(shares, dtype=np.float64)
    if wanted.shape != (table.shape[1],) or not np.all((wanted >= 0) & (wanted <= 1)):
        raise ValueError(
            f"shares must be {table.shape[1]} fractions, one for each class. Got {np.asarray(shares).tolist()}."
        )
    cuts = np.empty(wanted.size)
    for c, share in enumerate(wanted):
        above, between = _cuts_between(table[:, c])
        cuts[c] = between[np.argmin(np.abs(above - share * table.shape[0]))]
    return cuts


def f1_cuts(scores: ArrayLike, labels: ArrayLike) -> Floats:
    """SCut: for each class the threshold of best F1 on validation rows.

    Parameters
    ----------
    scores : array-like of shape (n, K)
        Scores of rows that the model was not trained on.
    labels : array-like of bool, shape (n, K)
        Class membership of each row.

    Returns
    -------
    ndarray of shape (K,)
        Thresholds, half-way between two scores; ties go to the highest. inf for a class without rows.

    Examples
    --------
    >>> f1_cuts([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]], [[0, 0], [1, 0], [1, 0]])
    array([1.5, inf])
    """
    table, truth = _score_table(scores), np.asarray(labels).astype(bool)
    if truth.shape != table.shape:
        raise ValueError(f"scores and labels must have the same shape. Got {table.shape} and {truth.shape}.")
    cuts = np.full(table.shape[1], np.inf)
    for c in np.flatnonzero(truth.any(axis=0)):
        above, between = _cuts_between(table[:, c])
        true_positives = np.concatenate(([0], np.cumsum(truth[np.argsort(-table[:, c], kind="stable"), c])))[above]
        cuts[c] = between[np.argmax(2 * true_positives / (above + truth[:, c].sum()))]
    return cuts


def _cuts_between(scores: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the cuts between distinct scores in descending order: numbers of rows above them, and positions."""
    ranked = np.sort(scores)[::-1]
    last = np.flatnonzero(ranked[1:] < ranked[:-1])
    above = np.concatenate(([0], last + 1, [ranked.size]))
    middle = [_between(low, high) for low, high in zip(ranked[last + 1].tolist(), ranked[last].tolist())]
    return above, np.array([np.inf, *middle, -np.inf])


def _score_table(scores: ArrayLike) -> Floats:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] == 0:
        raise ValueError(f"scores must be a table with a row for each document. Got shape {table.shape}.")
    refuse_nan(table, "scores")
    return table
