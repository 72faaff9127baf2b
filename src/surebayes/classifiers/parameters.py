"""Validation of the classifiers' parameters, beyond scikit-learn's constraints."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from surebayes.core import weigh

Constraints = dict[str, list[Any]]

POSITIVE: list[Any] = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE: list[Any] = [Interval(Real, 0, None, closed="left")]
COUNT: list[Any] = [Interval(Integral, 1, None, closed="left")]
TF: list[Any] = [StrOptions({"count", "binary", "log"})]
NORM: list[Any] = [None, StrOptions({"l1", "l2"})]
SCALE: list[Any] = [*POSITIVE, StrOptions({"mean"})]
SELECTION: list[Any] = [StrOptions({"induction", "posthoc"})]
STEEPNESS: list[Any] = [None, *POSITIVE]
PRIOR: list[Any] = [StrOptions({"fit", "uniform"}), "array-like"]
UNSEEN: list[Any] = [StrOptions({"smooth", "ignore"})]
WEIGHT: list[Any] = [None, StrOptions(set(weigh.NAMES)), tuple, list]
TOP: list[Any] = [None, *COUNT, tuple]


def check_weight(estimator: BaseEstimator, weight: Any) -> None:
    """Raise ValueError for an invalid parameter `weight`."""
    if isinstance(weight, (tuple, list)):
        unknown = [name for name in weight if not isinstance(name, str) or name not in weigh.NAMES]
        if unknown or not weight:
            raise ValueError(
                f"The 'weight' parameter of {type(estimator).__name__} must be a tuple of names from "
                f"{', '.join(map(repr, weigh.NAMES))}. Got {weight!r} instead."
            )


def check_top(estimator: BaseEstimator, top: Any) -> None:
    """Raise ValueError for an invalid parameter `top`."""
    names = ("abs", *weigh.UNSUPERVISED, *weigh.SUPERVISED)
    if isinstance(top, tuple) and not (len(top) == 2 and is_count(top[0]) and top[1] in names):
        raise ValueError(
            f"The 'top' parameter of {type(estimator).__name__} must be None, a positive integer, or a pair of "
            f"such a number and a weight to rank by ({', '.join(map(repr, names))}). Got {top!r} instead."
        )


def top_of(top: Any) -> tuple[int | None, str]:
    """Split the parameter `top` into the number of terms and the ranking weight."""
    return (int(top[0]), top[1]) if isinstance(top, tuple) else (top, "abs")


def is_count(value: Any) -> bool:
    """Return whether a value is a positive integer."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value > 0)


def check_array_of_priors(prior: Any, n_classes: int, multilabel: bool) -> None:
    """Raise ValueError for an array of priors that is invalid or doesn't match the classes."""
    p = np.asarray(prior, dtype=np.float64)
    below = p < 1 if multilabel else p <= 1  # the complement of a probability below 1e-16 rounds to 1
    if p.shape != (n_classes,) or not ((p > 0) & below).all():
        raise ValueError(
            f"prior must have a probability strictly between 0 and 1 for each of {n_classes} classes. Got {prior!r}."
        )
    if not multilabel and abs(p.sum() - 1) > 1e-6:
        raise ValueError(f"prior must sum to 1. Got a sum of {p.sum():.6g}.")
