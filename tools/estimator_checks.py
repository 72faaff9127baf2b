"""The checks of scikit-learn that an estimator fails, and why; docs/scikit-learn.md has them as a table.

`tests/classifiers/test_estimator_checks.py` runs all checks on every estimator, and compares the failures with
this table.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import SkipTest

from sklearn.base import BaseEstimator
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

import surebayes as sb

WEIGHTS = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
ZERO = ("check_classifiers_classes", "check_classifiers_train")
NEGATIVE = ("check_decision_proba_consistency", "check_classifier_not_supporting_multiclass")

REASONS = {
    "negative": "The data of the check have negative values, although the estimator's tags say `positive_only`; counts "
    "are never negative.",
    "by row": "Held-out rows are drawn by row, copies included, so that weights and copies hold out other rows.",
    "threshold": "`decision_function` is the classifier's own: positive is what lies above `threshold_`, not 0.",
    "data": "With `max_fpr=0.001` a promise needs 2,995 held-out negatives, and the checks have a few hundred rows at "
    "most: `fit` ends with `NotEnoughNegatives`. With `max_fpr=0.5, confidence=0.5` the data suffice.",
}
"""Why checks fail."""

_GUARANTEED = {**dict.fromkeys(WEIGHTS, "by row"), **dict.fromkeys(ZERO, "threshold")}
_COUNTS = "every classifier on counts, but `BernoulliNB`"
TABLE = (
    (_COUNTS, NEGATIVE, "negative"),
    ("`GuaranteedThreshold`", WEIGHTS, "by row"),
    ("`GuaranteedThreshold`, `BudgetedThreshold`", ZERO, "threshold"),
    ("`GuaranteedThreshold` with its defaults", ("all that fit on data",), "data"),
)
"""Estimators, the checks that they may fail, and the reason."""


def may_fail(estimator: BaseEstimator) -> dict[str, str]:
    """Return the checks that an estimator may fail, and why: a key of `REASONS`."""
    negative = {}
    if get_tags(estimator).input_tags.positive_only and not isinstance(estimator, sb.BernoulliNB):
        negative = dict.fromkeys(NEGATIVE, "negative")
    if isinstance(estimator, sb.GuaranteedThreshold):
        return {**negative, **_GUARANTEED}
    if isinstance(estimator, sb.BudgetedThreshold):
        return {**negative, **dict.fromkeys(ZERO, "threshold")}
    return negative


def outcomes(estimator: BaseEstimator) -> Iterator[tuple[str, str | None]]:
    """Yield the name of every check, and None or its error with causes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)  # for text there are fewer checks, and it says so
        checks: list[Any] = list(estimator_checks_generator(estimator))
    for instance, check in checks:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's checks warn on purpose
            try:
                check(instance)
            except SkipTest:  # its subject is not installed or not enabled
                continue
            except Exception as error:
                yield check.func.__name__, "".join(traceback.format_exception_only(error)) + _causes(error)
            else:
                yield check.func.__name__, None


def _causes(error: BaseException) -> str:
    cause = error.__cause__ or error.__context__
    return "" if cause is None else f"from {cause!r}\n{_causes(cause)}"


def table() -> str:
    """Return the table in Markdown."""
    lines = ["| estimator | checks | why |", "|---|---|---|"]
    for whose, checks, reason in TABLE:
        names = ", ".join(f"`{check}`" if check.startswith("check_") else check for check in checks)
        lines.append(f"| {whose} | {names} | {REASONS[reason]} |")
    return "\n".join(lines)
