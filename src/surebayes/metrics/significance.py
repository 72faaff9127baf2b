"""Confidence intervals for rates, and significance tests for comparing classifiers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from surebayes.core.checks import fraction


class Interval(NamedTuple):
    """The bounds of a confidence interval.

    Examples
    --------
    >>> low, high = Interval(0.25, 0.75)
    >>> high - low
    0.5
    """

    low: float
    high: float


def rate_interval(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Return Clopper & Pearson's exact interval for a rate, with at least the stated confidence.

    Parameters
    ----------
    successes, trials : int
        Integers with 0 <= successes <= trials and trials >= 1.
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
    fraction(confidence, "confidence", zero=False, one=False)
    if successes != int(successes) or trials != int(trials) or not 0 <= successes <= trials or trials < 1:
        raise ValueError(
            f"successes must be an integer from 0 to trials, trials at least 1. Got {successes!r} of {trials!r}."
        )
    tail = (1 - confidence) / 2
    from scipy import special

    low = float(special.betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = float(special.betainccinv(successes + 1, trials - successes, tail)) if successes < trials else 1.0
    return Interval(low, high)


class TTest(NamedTuple):
    """The statistic and two-sided p-value of a t-test.

    Examples
    --------
    >>> TTest(2.0, 0.06).p
    0.06
    """

    statistic: float
    p: float


def corrected_resampled_ttest(a: ArrayLike, b: ArrayLike, n_train: int, n_test: int) -> TTest:
    """Apply Nadeau & Bengio's t-test to two classifiers measured on the same random splits.

    Because the training sets of random splits overlap, the plain paired t-test is overconfident. This test multiplies
    the variance by (1/k + n_test/n_train) instead of 1/k. Frank & Bouckaert use it for their tables.

    Parameters
    ----------
    a, b : array-like of shape (k,)
        Results of the two classifiers on each split; k >= 2.
    n_train, n_test : int
        Numbers of rows in each training set and in each test set.

    Returns
    -------
    TTest
        A named tuple (statistic, p), two-sided with k - 1 degrees of freedom; positive when `a` is larger. Constant
        differences give (0, 1) if they are 0, else an infinite statistic and p = 0.

    Examples
    --------
    >>> a, b = [0.91, 0.93, 0.92, 0.94, 0.90], [0.90, 0.91, 0.92, 0.91, 0.89]
    >>> statistic, p = corrected_resampled_ttest(a, b, n_train=900, n_test=100)
    >>> round(statistic, 4), round(p, 4)
    (2.2014, 0.0925)
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size < 2:
        raise ValueError(f"a and b must be vectors of equal length >= 2. Got shapes {first.shape}, {second.shape}.")
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
    from scipy import special

    return TTest(statistic, 2 * float(special.stdtr(k - 1, -abs(statistic))))


def sign_test(wins: int, losses: int, *, method: str = "exact") -> float:
    """Return the p-value of the two-sided sign test that wins and losses are equally likely; draws are ignored.

    Parameters
    ----------
    wins, losses : int
        Non-negative integers.
    method : {"exact", "normal", "printed"}, default="exact"
        "exact" uses the binomial distribution, "normal" the normal approximation with continuity correction. "printed"
        is the same with Abramowitz & Stegun's polynomial 26.2.17 for the tail, as in older statistics packages; it
        reproduces the value printed by Frank & Bouckaert, 4.64e-8 for 81/24.

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
        raise ValueError(f"wins and losses must be non-negative integers. Got {wins!r} and {losses!r}.")
    from scipy import special

    fewer, total = min(wins, losses), wins + losses
    if method == "exact":
        return min(1.0, 2 * float(special.bdtr(fewer, total, 0.5))) if total else 1.0
    if method not in ("normal", "printed"):
        raise ValueError(f"method must be 'exact', 'normal' or 'printed'. Got {method!r}.")
    z = max(0.0, (abs(wins - losses) - 1) / math.sqrt(max(total, 1)))
    return min(1.0, 2 * (float(special.ndtr(-z)) if method == "normal" else _polynomial_tail(z)))


def _polynomial_tail(z: float) -> float:
    """Return the upper tail of the normal distribution by Abramowitz & Stegun 26.2.17, with an error below 7.5e-8."""
    t = 1 / (1 + 0.2316419 * z)
    powers = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * sum(b * t ** (i + 1) for i, b in enumerate(powers))
