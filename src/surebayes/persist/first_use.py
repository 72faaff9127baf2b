"""Trial use of a loaded estimator, so that inconsistent files fail on load and not later.

A file may have a valid checksum and impossible content: text as smoothing, a table without rows, NaN. Parameters are
validated by the rules of `fit`; then a dummy document passes through all scoring methods, and every score must be a
number.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from surebayes.classifiers.parameters import check_top, check_weight
from surebayes.errors import BadModel

TEXTS = ["Subject: one more\n\nA document that nobody has written, with 10 words or so.", "", "more"]
_SCORES = ("decision_function", "predict", "predict_proba", "predict_log_proba", "transform")


def check_settings(estimator: Any) -> None:
    """Validate an estimator's parameters; raise an error if one is missing or invalid."""
    for name in estimator.get_params(deep=False):
        getattr(estimator, name)
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()
    check_weight(estimator, getattr(estimator, "weight", None))
    check_top(estimator, getattr(estimator, "top", None))
    width = getattr(estimator, "n_features_in_", 1)
    if isinstance(width, bool) or not isinstance(width, (int, np.integer)) or not 0 <= width < 2**31:
        raise BadModel(f"{type(estimator).__name__} has an invalid number of features: {width!r}.")


_SCALARS = {"pad": float, "steepness": float, "floor": float, "top": int, "tf": str, "norm": str, "method": str}


def check_record(record: Any) -> None:
    """Reject a record with plain fields of the wrong type: an array in place of a number may fit by chance."""
    for name, kind in _SCALARS.items():
        value = getattr(record, name, None)
        if value is None:
            continue
        if kind is float:
            fits = isinstance(value, (int, float, np.number)) and bool(np.isfinite(float(value)))
        else:
            fits = isinstance(value, (int, np.integer) if kind is int else kind)
        if not fits or isinstance(value, bool):
            raise BadModel(f"{name} of {type(record).__name__} is {value!r}.")


def use_once(estimator: Any) -> None:
    """Score a dummy document; BadModel if a score is not a number.

    Unfitted estimators are skipped, and so are estimators of file names.
    """
    sample = _sample(estimator)
    if sample is None:
        return
    try:
        check_is_fitted(estimator)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for name in _SCORES:
                method = getattr(estimator, name, None)
                if method is not None:
                    _check_numbers(name, method(sample))
    except NotFittedError:
        return


def _check_numbers(name: str, result: Any) -> None:
    values = result.data if issparse(result) else np.asarray(result)
    least = -np.inf if name == "predict_log_proba" else np.nextafter(-np.inf, 0)  # log 0 is allowed
    if values.dtype.kind in "fc" and not ((values >= least) & (values < np.inf)).all():
        raise BadModel(f"{name} of the model gives values that are not numbers.")


def _sample(estimator: Any) -> Any:
    """Return documents in the estimator's input format: texts, or rows of counts; None if unknown."""
    if hasattr(estimator, "steps"):
        return _sample(estimator.steps[0][1])
    if hasattr(estimator, "transformer_list"):
        return _sample(estimator.transformer_list[0][1])
    if hasattr(estimator, "input"):
        return TEXTS if estimator.input == "content" else None
    if type(estimator).__name__ in ("ViewPool", "Views"):
        return TEXTS
    inner = getattr(estimator, "estimator_", getattr(estimator, "estimator", None))
    if type(estimator).__name__ in ("GuaranteedThreshold", "BudgetedThreshold") and inner is not None:
        fitted = any(name.endswith("_") and not name.startswith("_") for name in vars(estimator))
        if not hasattr(inner, "get_params") or (fitted and not hasattr(estimator, "estimator_")):
            raise BadModel(f"{type(estimator).__name__} wraps {type(inner).__name__}, which is not fitted.")
        return _sample(inner)
    width = getattr(estimator, "n_features_in_", None)
    if width is None:
        return None
    columns = np.unique([0, width // 2, max(width - 1, 0)])[:width]
    # three rows: a pair of values in place of a number must not fit by chance
    return csr_array((np.ones(len(columns)), (np.zeros(len(columns), int), columns)), shape=(3, width))
