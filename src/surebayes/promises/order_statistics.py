"""Thresholds one can vouch for: exact binomial promises from held-out scores.

A document is *positive* exactly when its score lies strictly above the threshold. Nothing is assumed about the
distribution of the scores; the rows given must be ones the model was not trained on, drawn as future ones will be.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from surebayes.core.checks import fraction, score_vector
from surebayes.errors import NotEnoughNegatives, NotEnoughPositives, TooFewDocuments

Floats = NDArray[np.float64]


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
    scores = score_vector(negative_scores, "negative_scores")
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
    scores = score_vector(positive_scores, "positive_scores")
    fraction(min_recall, "min_recall", zero=False, one=False)
    allowed = _allowed_or_raise(scores.size, 1 - min_recall, confidence, NotEnoughPositives)
    return math.nextafter(float(np.partition(scores, allowed)[allowed]), -math.inf), allowed


def _allowed_or_raise(n: int, rate: float, confidence: float, error: type[TooFewDocuments]) -> int:
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
    values = score_vector(scores, "scores")
    truth = np.asarray(positive, dtype=bool)
    if truth.shape != values.shape:
        raise ValueError(f"there must be one label for each of the {values.size:,} rows. Got shape {truth.shape}.")
    accepted: tuple[float, int, int] | None = None
    for threshold in np.sort(score_vector(thresholds, "thresholds"))[::-1]:
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
