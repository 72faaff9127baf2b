"""Guaranteed thresholds: exact binomial promises from held-out scores.

A document is *positive* if its score lies strictly above the threshold. The promises don't depend on the distribution
of the scores; they assume rows that were not used for training, and that are drawn like future rows.
"""

from __future__ import annotations

import math
import operator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from surebayes.core.checks import fraction, score_vector
from surebayes.errors import NotEnoughNegatives, NotEnoughPositives, TooFewDocuments
from surebayes.guarantees.anytime import log_evidence
from surebayes.guarantees.independent import Groups, one_each

Floats = NDArray[np.float64]


Mislabelled = tuple[int, int]
"""Upper limits on positives among the given negatives, and on missing negatives."""


def negatives_needed(max_fpr: float, confidence: float, *, allowed: int = 0, mislabelled: Mislabelled = (0, 0)) -> int:
    """Return the smallest number of negatives that supports a promise of a false-positive rate.

    With fewer, even a threshold above all of them is exceeded by too many new negatives with a probability of more than
    1 - confidence. A promise of a recall of 1 - `max_fpr` needs the same number of positives.

    Parameters
    ----------
    max_fpr, confidence : float
        The promised rate and its confidence, both in (0, 1).
    allowed : int, default=0
        The number of negatives that must be allowed above the threshold.
    mislabelled : (int, int), default=(0, 0)
        Label errors to allow for, as in :func:`order_statistic_threshold`.

    Examples
    --------
    >>> negatives_needed(0.001, 0.95), negatives_needed(0.01, 0.99)
    (2995, 459)
    >>> negatives_needed(0.001, 0.95, allowed=4), negatives_needed(0.001, 0.95, mislabelled=(3, 2))
    (9151, 6295)
    """
    fraction(max_fpr, "max_fpr", zero=False, one=False)
    fraction(confidence, "confidence", zero=False, one=False)
    foreign, missing = checked_mislabelled(mislabelled)
    errors = allowed + missing
    too_few, enough = errors, errors + 1  # k(n) < n, so n rows can't contain n allowed errors
    while allowed_errors(enough, max_fpr, confidence, errors) < errors:
        too_few, enough = enough, 2 * enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if allowed_errors(middle, max_fpr, confidence, errors) < errors:
            too_few = middle
        else:
            enough = middle
    return enough + foreign - missing


def checked_mislabelled(mislabelled: Mislabelled) -> Mislabelled:
    """Validate a pair of counts and return it as ints.

    Examples
    --------
    >>> checked_mislabelled((3, 0))
    (3, 0)
    """
    try:
        foreign, missing = (operator.index(count) for count in mislabelled)
    except (TypeError, ValueError):
        foreign = missing = -1
    if foreign < 0 or missing < 0:
        raise ValueError(
            "mislabelled must be two integers: the maximum number of positives among the held-out negatives, and of "
            f"missing negatives. Got {mislabelled!r}."
        )
    return foreign, missing


def allowed_errors(n: int, rate: float, confidence: float, most: int | None = None) -> int:
    """Return the largest k with P(Binomial(n, rate) <= k) <= 1 - confidence, at most `most`; -1 if there is none.

    Examples
    --------
    >>> allowed_errors(2994, 0.001, 0.95), allowed_errors(2995, 0.001, 0.95), allowed_errors(9151, 0.001, 0.95)
    (-1, 0, 4)
    """
    if most is not None and most < n and special.bdtr(most, n, rate) <= 1 - confidence:
        return most
    low, high = -1, n if most is None else min(most, n)  # the probability is within the limit at low, not at high
    while high - low > 1:
        middle = (low + high) // 2
        if special.bdtr(middle, n, rate) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def order_statistic_threshold(
    negative_scores: ArrayLike, max_fpr: float, confidence: float, mislabelled: Mislabelled = (0, 0)
) -> tuple[float, int]:
    """Return the lowest threshold that guarantees a false-positive rate, by the Neyman-Pearson umbrella rule.

    The threshold is the (allowed + 1)-th highest of the negatives' scores. A new negative exceeds it with a probability
    above `max_fpr` only if at most `allowed` of the n negatives fell into the top `max_fpr` of their distribution;
    `allowed` is the largest number for which this has a probability of at most 1 - confidence. The rule holds for any
    distribution; ties only raise the actual confidence, because a score *at* the threshold is not positive.

    Label errors: suppose that at most a of the n are positives, and that at most m true negatives are missing (labelled
    positive, or discarded). Then the true sample has n - a + m or more members, and at worst all m missing negatives
    are above the threshold. So k(n - a + m) - m negatives are allowed instead of k(n), and the promise stays exact,
    since k grows by at most 1 per document.

    Parameters
    ----------
    negative_scores : array-like of shape (n,)
        Scores of negatives that the model was not trained on, drawn like future negatives.
    max_fpr, confidence : float
        The promised rate and its confidence, both in (0, 1).
    mislabelled : (a, m), default=(0, 0)
        Label errors to allow for: at most a of the given negatives are positives, and at most m true negatives are
        missing.

    Returns
    -------
    threshold : float
        Scores strictly above it are positive.
    allowed : int
        The maximum number of given negatives above the threshold.

    Raises
    ------
    NotEnoughNegatives
        If fewer than :func:`negatives_needed` are given.

    Examples
    --------
    >>> import numpy as np
    >>> order_statistic_threshold(np.arange(10_000), max_fpr=0.001, confidence=0.95)
    (9995.0, 4)
    >>> order_statistic_threshold(np.arange(10_000), max_fpr=0.001, confidence=0.95, mislabelled=(5, 2))
    (9997.0, 2)
    """
    scores = score_vector(negative_scores, "negative_scores")
    allowed = _allowed_or_raise(scores.size, max_fpr, confidence, NotEnoughNegatives, mislabelled)
    return float(np.partition(scores, scores.size - 1 - allowed)[scores.size - 1 - allowed]), allowed


def recall_threshold(
    positive_scores: ArrayLike, min_recall: float, confidence: float, mislabelled: Mislabelled = (0, 0)
) -> tuple[float, int]:
    """Return the highest threshold that guarantees a recall, by :func:`order_statistic_threshold` on negated scores.

    Parameters
    ----------
    positive_scores : array-like of shape (n,)
        Scores of positives that the model was not trained on.
    min_recall, confidence : float
        The promised recall and its confidence, both in (0, 1).
    mislabelled : (int, int), default=(0, 0)
        Limits on negatives among the given positives, and on missing positives.

    Returns
    -------
    threshold : float
        Scores strictly above it are positive. It lies just below the score of a given positive, so that this positive
        is still found.
    allowed : int
        The maximum number of given positives that are missed.

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
    scores = score_vector(positive_scores, "positive_scores")
    fraction(min_recall, "min_recall", zero=False, one=False)
    allowed = _allowed_or_raise(scores.size, 1 - min_recall, confidence, NotEnoughPositives, mislabelled)
    return math.nextafter(float(np.partition(scores, allowed)[allowed]), -math.inf), allowed


def allowed_above(n: int, max_fpr: float, confidence: float, mislabelled: Mislabelled = (0, 0)) -> int:
    """Return the number of n negatives allowed above a threshold that guarantees a false-positive rate.

    Parameters and errors are those of :func:`order_statistic_threshold`, without the scores.

    Examples
    --------
    >>> allowed_above(10_000, max_fpr=0.001, confidence=0.95)
    4
    """
    return _allowed_or_raise(n, max_fpr, confidence, NotEnoughNegatives, checked_mislabelled(mislabelled))


def _allowed_or_raise(
    n: int, rate: float, confidence: float, error: type[TooFewDocuments], mislabelled: Mislabelled
) -> int:
    needed = negatives_needed(rate, confidence, mislabelled=mislabelled)
    foreign, missing = mislabelled
    if n < needed:
        offer = (smallest_rate(n, confidence, mislabelled) or 0.0) if foreign or missing else None
        raise error(needed, n, rate, confidence, offer)
    return allowed_errors(n - foreign + missing, rate, confidence) - missing


def smallest_rate(n: int, confidence: float, mislabelled: Mislabelled = (0, 0)) -> float | None:
    """Return the smallest rate, to three digits, that n negatives can support; None if there is none.

    Examples
    --------
    >>> smallest_rate(2995, 0.95), smallest_rate(1000, 0.95, (0, 2)), smallest_rate(3, 0.95, (5, 0))
    (0.001, 0.00627, None)
    """
    foreign, missing = checked_mislabelled(mislabelled)
    return supported_rate(n - foreign + missing, missing, confidence)


def supported_rate(n: int, above: int, confidence: float) -> float | None:
    """Return the smallest rate, to three digits, that n negatives support if `above` exceed the threshold, or None.

    Examples
    --------
    >>> supported_rate(2995, 0, 0.95), supported_rate(10_000, 4, 0.95), supported_rate(3, 3, 0.95)
    (0.001, 0.000916, None)
    """
    if above >= n:
        return None
    rate = float(special.bdtri(above, n, 1 - confidence))  # P(Binomial(n, rate) <= above) = 1 - confidence
    digits = 2 - math.floor(math.log10(rate))
    rounded = math.ceil(rate * 10**digits) / 10**digits
    return rounded if rounded < 1 else None


def confidence_of_renewal(confidence: float, renewal: int) -> float:
    """Return the confidence of a single renewal such that all of them hold together.

    The j-th certificate of a series gets the share 6 / (pi^2 j^2) of the error probability. These shares sum to 1
    over all j, so the probability that *any* of the series is ever wrong is at most 1 - confidence.

    Parameters
    ----------
    confidence : float
        The joint confidence of all renewals, in (0, 1).
    renewal : int
        The number of the renewal, from 1.

    Examples
    --------
    >>> [round(confidence_of_renewal(0.95, j), 4) for j in (1, 2, 10)]
    [0.9696, 0.9924, 0.9997]
    """
    fraction(confidence, "confidence", zero=False, one=False)
    if renewal < 1:
        raise ValueError(f"renewal must be an integer of at least 1. Got {renewal!r}.")
    return 1 - (1 - confidence) * 6 / (math.pi * renewal) ** 2


def precision_threshold(
    scores: ArrayLike,
    positive: ArrayLike,
    thresholds: ArrayLike,
    min_precision: float,
    confidence: float,
    groups: Groups | None = None,
    anytime: bool = False,
) -> tuple[float, int, int]:
    """Return the lowest of the given thresholds that guarantees a precision, by a fixed-sequence test.

    Thresholds are tested from the highest down. Each is accepted if "precision is below `min_precision`" is rejected by
    an exact binomial test at level 1 - confidence; the first failure ends the walk, and the last accepted one is
    returned. Because the sequence is fixed in advance, no correction for multiple tests is needed. The promise holds
    for the share of positives in `scores`: with fewer positives in the stream, precision falls.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Scores that the model was not trained on.
    positive : array-like of bool, shape (n,)
        Whether the row is positive.
    thresholds : array-like
        The sequence of thresholds; its choice must not depend on these rows.
    min_precision, confidence : float
        The promised precision and its confidence, both in (0, 1).
    groups : ndarray of int, shape (n,), optional
        Groups of dependent rows. A threshold is then accepted only if the test by groups accepts it as well, with one
        row for a group's positives, the lowest, and one for its negatives, the highest.
    anytime : bool, default=False
        Whether the test is valid for all numbers of rows jointly, with the same sequence of thresholds.

    Returns
    -------
    threshold : float
        Scores strictly above it are positive.
    flagged, wrong : int
        The number of given rows above it (with groups, one row each), and the number of negatives among them.

    Raises
    ------
    ValueError
        If even the first threshold is rejected.

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
    values = score_vector(scores, "scores")
    truth = np.asarray(positive, dtype=bool)
    if truth.shape != values.shape:
        raise ValueError(f"there must be one label for each of the {values.size:,} rows. Got shape {truth.shape}.")
    accepted: tuple[float, int, int] | None = None
    readings = [(values[truth], values[~truth])]
    if groups is not None:
        right, of_wrong = (
            one_each(values[truth], groups[truth], highest=False),
            one_each(values[~truth], groups[~truth]),
        )
        readings.append((right, of_wrong))
    for threshold in np.sort(score_vector(thresholds, "thresholds"))[::-1]:
        counts = [(int((right > threshold).sum()), int((false > threshold).sum())) for right, false in readings]
        doubts = [_doubt(right + false, false, 1 - min_precision, anytime) for right, false in counts]
        wrong = counts[-1][1]
        flagged = counts[-1][0] + wrong
        # the probability of at most as many wrong rows if each flagged row is wrong with probability 1 - min_precision
        if flagged == 0 or max(doubts) > 1 - confidence:
            break
        accepted = float(threshold), flagged, wrong
    if accepted is None:
        raise ValueError(
            f"a precision of at least {min_precision:g} with confidence {confidence:g} can't be certified: the "
            f"highest threshold flags {flagged:,} rows, {wrong:,} of them wrongly; it takes at least "
            f"{negatives_needed(1 - min_precision, confidence):,} flagged rows, all right."
        )
    return accepted


def _doubt(n: int, k: int, rate: float, anytime: bool) -> float:
    """Return the p-value of k errors in n rows for the claim of a higher rate; with `anytime`, valid at all times."""
    return math.exp(min(-log_evidence(n, k, rate), 0.0)) if anytime else float(special.bdtr(k, n, rate))
