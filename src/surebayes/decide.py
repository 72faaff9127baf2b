"""Decisions from scores: the best class, the best line, the threshold one can vouch for.

Everything here sees scores, labels and weights, never documents or terms. A document is *positive* exactly when its
score lies strictly above the threshold; every function of this module keeps to that rule, so ties have one meaning
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Two ratios nearer to each other than this (relatively) are the same ratio with different rounding: no cut fits
# between them.
_SAME_RATIO = 1e-12


def predict_argmax(scores: ArrayLike, possible: ArrayLike) -> NDArray[np.intp]:
    """Index of the class with the highest score in each row, among the classes that may be predicted.

    Parameters
    ----------
    scores : array-like of shape (n, K)
        One column a class.
    possible : array-like of bool, shape (K,)
        False for a class that must not be predicted (one without documents).

    Returns
    -------
    ndarray of int, shape (n,)
        Column indices; among equal scores the lowest.

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
        raise ValueError("no class may be predicted: every entry of 'possible' is False.")
    best: NDArray[np.intp] = columns[np.argmax(table[:, columns], axis=1)]
    return best


# ---------------------------------------------------------------------- least error by one sort


def slope_of_least_error(
    plus: ArrayLike, minus: ArrayLike, positive: ArrayLike, weight: ArrayLike | None = None
) -> float:
    """Junejo & Karim, eq. (8) without bias: the slope for which ``slope * plus - minus > 0`` errs least.

    A row turns positive when the slope passes minus / plus, so the error is a step function of the slope and one sort
    over the ratios finds all of its minima. Among equally good intervals between distinct ratios the middle one is
    taken (of two middle ones the wider in log scale, then the lower), and in it the geometric mean of its ends; (0,
    h) gives h/2 and (h, inf) gives 2h. Swapping the classes then turns the slope into its inverse, except where two
    intervals are exactly as wide.

    Parameters
    ----------
    plus, minus : array-like of shape (n,)
        Non-negative scores for the class and for the rest.
    positive : array-like of bool, shape (n,)
        Whether the row belongs to the class.
    weight : array-like of shape (n,), optional
        Non-negative weights of the rows; a row of weight 0 might as well not be there.

    Returns
    -------
    float
        The slope; 1.0 where no row depends on it (every row has plus = 0 or minus = 0).

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
    """Junejo & Karim, eq. (8): the bias for which ``score + bias > 0`` errs least, after the slope is chosen.

    Exact by one sort, with the choice of :func:`slope_of_least_error` among equally good intervals (here the wider
    one in plain scale) and the middle of the interval. An interval open to one side is left by half of the range of
    the scores, so that scaling the scores scales the bias; with one distinct score only, by its magnitude.

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
        The bias; 0.0 where there are no rows.

    Examples
    --------
    >>> bias_of_least_error([-3.0, -1.0, 5.0], [False, True, True])
    2.0
    """
    value = np.asarray(score, dtype=np.float64)
    truth, mass = _labels_and_mass(positive, weight, value.size)
    _refuse_nan(value, "score")
    kept = mass > 0
    value, change = value[kept], np.where(truth, mass, -mass)[kept]  # a row turns negative as the cut passes its score
    low, high = _interval_of_least_error(value, change, 0.0, _plain_width)
    if low == -math.inf and high == math.inf:
        return 0.0
    if math.isfinite(low) and math.isfinite(high):
        return -(low / 2 + high / 2) + 0.0
    step = (float(value.max()) - float(value.min())) / 2 or abs(float(value[0])) or 1.0
    return step - high if low == -math.inf else -low - step


def _interval_of_least_error(
    value: Floats, change: NDArray[np.int64], same: float, width: Callable[[float, float], float]
) -> tuple[float, float]:
    """Find the chosen interval of least error between distinct values, with -inf and inf for open ends.

    `change` is what the error gains when a cut that moves upwards passes the value; values that differ by less than
    the relative amount `same` have no cut between them.
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
        if width(lows[lower], highs[lower]) >= width(lows[middle], highs[middle]):
            middle = lower
    return float(lows[middle]), float(highs[middle])


def _log_width(low: float, high: float) -> float:
    return math.inf if low == -math.inf or high == math.inf else math.log(high) - math.log(low)


def _plain_width(low: float, high: float) -> float:
    return high - low


def _labels_and_mass(positive: ArrayLike, weight: ArrayLike | None, n: int) -> tuple[Bools, NDArray[np.int64]]:
    """Labels as booleans and weights as whole numbers, so that sums of weights are exact in any order."""
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
    # 2^60 / total: whole-number weights stay exact, the total stays within int64, and copies of a row scale as its
    # weight does
    exponent = 60 - math.frexp(math.fsum(real))[1]
    return truth, np.rint(np.ldexp(real, exponent)).astype(np.int64)


def _refuse_nan(scores: Floats, name: str) -> None:
    if np.isnan(scores).any():
        raise ValueError(
            f"{name} must not contain NaN. Got NaN in {int(np.isnan(scores).sum())} of {scores.size} entries."
        )
