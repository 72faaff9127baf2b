"""Decisions from scores: the best class, the best line, the threshold one can vouch for.

Everything here sees scores, labels and weights, never documents or terms. A document is *positive* exactly when its
score lies strictly above the threshold; every function of this module keeps to that rule, so ties have one meaning
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from surebayes.significance import fraction

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
    if not np.isfinite(value).all():
        raise ValueError("scores must be finite to place a bias between them. Got NaN or infinity.")
    kept = mass > 0
    value, change = value[kept], np.where(truth, mass, -mass)[kept]  # a row turns negative as the cut passes its score
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


def _between(low: float, high: float) -> float:
    """Middle of an interval, rounded so that `high` still lies strictly above it."""
    middle = low / 2 + high / 2
    return middle if middle < high else low


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


# ---------------------------------------------------------------------- thresholds one can vouch for


class _TooFew(ValueError):
    """Too few rows of a class for the promise; says how many are needed and what can be promised instead."""

    rows = "rows"
    promise = "an error rate of at most"

    def __init__(self, needed: int, available: int, rate: float, confidence: float) -> None:
        super().__init__(needed, available, rate, confidence)
        self.needed = needed
        self.available = available
        self.rate = rate
        self.confidence = confidence

    def __str__(self) -> str:
        n, more = self.available, f"collect {self.needed - self.available:,} more"
        if n:
            # rounded to the safe side: what the message offers must itself be possible
            rate = Context(3, ROUND_CEILING).create_decimal_from_float(smallest_rate(n, self.confidence))
            certain = Context(3, ROUND_FLOOR).create_decimal_from_float(-math.expm1(n * math.log1p(-self.rate)))
            more += (
                f", or promise what these allow: {self.promise} {rate} with confidence "
                f"{self.confidence:g}, or {self.rate:g} with confidence {certain}"
            )
        return (
            f"{self.promise} {self.rate:g} with confidence {self.confidence:g} needs at least {self.needed:,} "
            f"{self.rows}, there are {n:,}: {more}."
        )


class NotEnoughNegatives(_TooFew):
    """Too few negatives to vouch for a false-positive rate.

    Attributes
    ----------
    needed, available : int
        Negatives that the promise takes, and that there are.

    Examples
    --------
    >>> error = NotEnoughNegatives(2995, 1000, 0.001, 0.95)
    >>> error.needed, error.available
    (2995, 1000)
    >>> print(error)  # doctest: +NORMALIZE_WHITESPACE
    a false-positive rate of at most 0.001 with confidence 0.95 needs at least 2,995 negatives, there are 1,000:
    collect 1,995 more, or promise what these allow: a false-positive rate of at most 0.00300 with confidence 0.95,
    or 0.001 with confidence 0.632.
    """

    rows = "negatives"
    promise = "a false-positive rate of at most"


class NotEnoughPositives(_TooFew):
    """Too few positives to vouch for a recall.

    Attributes
    ----------
    needed, available : int
        Positives that the promise takes, and that there are.

    Examples
    --------
    >>> NotEnoughPositives(59, 10, 0.05, 0.95).needed
    59
    """

    rows = "positives"
    promise = "a share of missed positives of at most"


def smallest_rate(n: int, confidence: float) -> float:
    """Smallest error rate that `n` error-free rows can vouch for: 1 - (1 - confidence)^(1/n).

    Examples
    --------
    >>> round(smallest_rate(2995, 0.95), 6)
    0.001
    """
    return -math.expm1(math.log1p(-confidence) / n)


def negatives_needed(max_fpr: float, confidence: float) -> int:
    """Smallest number of negatives with which a false-positive rate can be promised at all.

    With fewer, even a threshold above all of them is exceeded by too many new negatives with a probability of more
    than 1 - confidence. The same number of positives is needed to promise a recall of 1 - `max_fpr`.

    Parameters
    ----------
    max_fpr, confidence : float
        In (0, 1).

    Examples
    --------
    >>> negatives_needed(0.001, 0.95), negatives_needed(0.01, 0.99)
    (2995, 459)
    """
    fraction(max_fpr, "max_fpr", zero=False, one=False)
    fraction(confidence, "confidence", zero=False, one=False)
    guess = max(1, math.ceil(math.log1p(-confidence) / math.log1p(-max_fpr)) - 1)
    while _allowed_errors(guess, max_fpr, confidence) < 0:
        guess += 1
    return guess


def _allowed_errors(n: int, rate: float, confidence: float) -> int:
    """Largest k with P(Binomial(n, rate) <= k) <= 1 - confidence; -1 where there is none."""
    low, high = -1, n  # the probability is within the limit at low, and 1 at high
    while high - low > 1:
        middle = (low + high) // 2
        if special.bdtr(middle, n, rate) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def order_statistic_threshold(negative_scores: ArrayLike, max_fpr: float, confidence: float) -> tuple[float, int]:
    """Lowest threshold that vouches for a false-positive rate: the Neyman-Pearson umbrella rule.

    The threshold is one of the negatives' own scores, the (allowed + 1)-th highest. A new negative exceeds it with a
    probability above `max_fpr` only if at most `allowed` of the n negatives fell into the top `max_fpr` of their
    distribution, and `allowed` is the largest number for which that has binomial probability <= 1 - confidence. Nothing
    is assumed about the distribution; with ties the true confidence is only higher, because a score *at* the threshold
    is not positive.

    Parameters
    ----------
    negative_scores : array-like of shape (n,)
        Scores of negatives that the model was not trained on, drawn as future negatives will be.
    max_fpr, confidence : float
        In (0, 1).

    Returns
    -------
    threshold : float
        Call positive what scores strictly above it.
    allowed : int
        At most so many of the given negatives lie above it.

    Raises
    ------
    NotEnoughNegatives
        If fewer than :func:`negatives_needed` are given.

    Examples
    --------
    >>> import numpy as np
    >>> order_statistic_threshold(np.arange(10_000), max_fpr=0.001, confidence=0.95)
    (9995.0, 4)
    """
    scores = _score_vector(negative_scores, "negative_scores")
    allowed = _allowed_or_raise(scores.size, max_fpr, confidence, NotEnoughNegatives)
    return float(np.partition(scores, scores.size - 1 - allowed)[scores.size - 1 - allowed]), allowed


def recall_threshold(positive_scores: ArrayLike, min_recall: float, confidence: float) -> tuple[float, int]:
    """Highest threshold that vouches for a recall: the mirror image of :func:`order_statistic_threshold`.

    Parameters
    ----------
    positive_scores : array-like of shape (n,)
        Scores of positives that the model was not trained on.
    min_recall, confidence : float
        In (0, 1).

    Returns
    -------
    threshold : float
        Call positive what scores strictly above it. It lies just below the score of a given positive, so that this one
        is still found.
    allowed : int
        At most so many of the given positives are missed.

    Raises
    ------
    NotEnoughPositives
        If there are too few positives for the promise.

    Examples
    --------
    >>> import numpy as np
    >>> threshold, allowed = recall_threshold(np.arange(1000), min_recall=0.9, confidence=0.95)
    >>> round(threshold, 6), allowed
    (84.0, 84)
    """
    scores = _score_vector(positive_scores, "positive_scores")
    fraction(min_recall, "min_recall", zero=False, one=False)
    allowed = _allowed_or_raise(scores.size, 1 - min_recall, confidence, NotEnoughPositives)
    return math.nextafter(float(np.partition(scores, allowed)[allowed]), -math.inf), allowed


def _allowed_or_raise(n: int, rate: float, confidence: float, error: type[_TooFew]) -> int:
    needed = negatives_needed(rate, confidence)
    allowed = _allowed_errors(n, rate, confidence) if n >= needed else -1
    if allowed < 0:
        raise error(needed, n, rate, confidence)
    return allowed


def precision_threshold(
    scores: ArrayLike, positive: ArrayLike, thresholds: ArrayLike, min_precision: float, confidence: float
) -> tuple[float, int, int]:
    """Lowest of the given thresholds that vouches for a precision, by a fixed-sequence test.

    The thresholds are tried from the highest down. Each is accepted while "precision is below `min_precision`" can be
    rejected by an exact binomial test at level 1 - confidence; the first that can't ends the walk, and the last
    accepted one is returned. Because the sequence is fixed beforehand, no correction for many tests is needed. The
    promise holds for the share of positives in `scores`: with fewer positives in the stream, precision falls.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Scores that the model was not trained on.
    positive : array-like of bool, shape (n,)
        Whether the row is positive.
    thresholds : array-like
        The sequence; must be chosen without looking at these rows.
    min_precision, confidence : float
        In (0, 1).

    Returns
    -------
    threshold : float
        Call positive what scores strictly above it.
    flagged, wrong : int
        How many of the given rows lie above it, and how many of those are negatives.

    Raises
    ------
    ValueError
        If not even the first threshold is accepted.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.arange(1000)
    >>> positive = (scores > 500) | (scores % 10 == 0)
    >>> precision_threshold(scores, positive, [800, 600, 500, 400, 300], min_precision=0.9, confidence=0.95)
    (500.0, 499, 0)
    """
    fraction(min_precision, "min_precision", zero=False, one=False)
    fraction(confidence, "confidence", zero=False, one=False)
    values = _score_vector(scores, "scores")
    truth, _ = _labels_and_mass(positive, None, values.size)
    accepted: tuple[float, int, int] | None = None
    for threshold in np.sort(_score_vector(thresholds, "thresholds"))[::-1]:
        above = values > threshold
        flagged, wrong = int(above.sum()), int((above & ~truth).sum())
        # so few wrong ones, or fewer, if each flagged row were wrong with probability 1 - min_precision
        if flagged == 0 or special.bdtr(wrong, flagged, 1 - min_precision) > 1 - confidence:
            break
        accepted = float(threshold), flagged, wrong
    if accepted is None:
        raise ValueError(
            f"a precision of at least {min_precision:g} with confidence {confidence:g} can't be vouched for: the "
            f"highest threshold flags {flagged:,} rows, {wrong:,} of them wrongly; it takes at least "
            f"{negatives_needed(1 - min_precision, confidence):,} flagged rows, all right."
        )
    return accepted


# ---------------------------------------------------------------------- thresholds without a promise


def threshold_at(scores: ArrayLike, positive: ArrayLike, max_fpr: float) -> float:
    """Lowest threshold with a false-positive rate of at most `max_fpr` *on these rows*: no promise for others.

    On new rows its rate is above `max_fpr` about half of the time; :func:`order_statistic_threshold` is the one to
    rely on.

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
    values = _score_vector(scores, "scores")
    truth, _ = _labels_and_mass(positive, None, values.size)
    negatives = np.sort(values[~truth])[::-1]
    if negatives.size == 0:
        raise ValueError("there must be negatives to measure a false-positive rate. Got none.")
    rates = np.arange(negatives.size + 1) / negatives.size
    allowed = int(np.searchsorted(rates, max_fpr, side="right")) - 1
    return float(negatives[allowed]) if allowed < negatives.size else -math.inf


def cost_threshold(scores: ArrayLike, positive: ArrayLike, cost: ArrayLike, weight: ArrayLike | None = None) -> float:
    """Threshold of least total cost on these rows, exact by one sort; no promise.

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
    """PCut: for each class the threshold that assigns it to its share of the rows.

    Parameters
    ----------
    scores : array-like of shape (n, K)
        Scores of the rows to decide on (PCut needs them all at once).
    shares : array-like of shape (K,)
        Share of the rows that each class had in training, in [0, 1].

    Returns
    -------
    ndarray of shape (K,)
        Thresholds, half-way between two scores. Ties are not torn: the number assigned is as near to share x n as they
        allow.

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
        Which classes each row has.

    Returns
    -------
    ndarray of shape (K,)
        Thresholds, half-way between two scores; among equally good ones the highest. inf for a class without rows.

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
        found = np.concatenate(([0], np.cumsum(truth[np.argsort(-table[:, c], kind="stable"), c])))[above]
        cuts[c] = between[np.argmax(2 * found / (above + truth[:, c].sum()))]
    return cuts


def _cuts_between(scores: Floats) -> tuple[NDArray[np.intp], Floats]:
    """All cuts between distinct scores, from the highest down: how many rows lie above, and where the cut is."""
    ranked = np.sort(scores)[::-1]
    last = np.flatnonzero(ranked[1:] < ranked[:-1])
    above = np.concatenate(([0], last + 1, [ranked.size]))
    middle = [_between(low, high) for low, high in zip(ranked[last + 1].tolist(), ranked[last].tolist())]
    return above, np.array([np.inf, *middle, -np.inf])


def _score_vector(scores: ArrayLike, name: str) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"{name} must be a vector. Got shape {values.shape}.")
    _refuse_nan(values, name)
    return values


def _score_table(scores: ArrayLike) -> Floats:
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] == 0:
        raise ValueError(f"scores must be a table with a row for each document. Got shape {table.shape}.")
    _refuse_nan(table, "scores")
    return table
