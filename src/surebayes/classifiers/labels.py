"""Validation of the classifiers' input: labels, and rows of counts in canonical order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d


@dataclass(frozen=True, slots=True)
class Target:
    """Validated labels: class numbers, or an indicator matrix for multi-label data."""

    classes: NDArray[Any]
    labels: Any
    multilabel: bool


def read_target(y: Any, classes: NDArray[Any] | None, multilabel: bool | None) -> Target:
    """Convert y to class numbers or an indicator; ValueError for unknown labels."""
    if y is None:
        raise ValueError("y can't be None: this classifier requires y to be passed, but the target y is None.")
    if classes is not None and multilabel is not None and not _n_rows(y):
        nothing = csr_array((0, len(classes))) if multilabel else np.empty(0, np.int64)
        return Target(classes, nothing, multilabel)
    check_classification_targets(y)
    if type_of_target(y).startswith("multilabel"):
        indicator = csr_array(y)
        indicator.eliminate_zeros()
        if multilabel is False:
            raise ValueError("y is a multi-label indicator, but the classifier was fitted on single labels.")
        if classes is not None and indicator.shape[1] != len(classes):
            raise ValueError(f"y has {indicator.shape[1]} label columns, but the classifier knows {len(classes)}.")
        return Target(np.arange(indicator.shape[1]), indicator, True)
    if multilabel:
        raise ValueError("y must be a multi-label indicator as before. Got single labels instead.")
    y = column_or_1d(y, warn=True)
    if classes is None:
        classes, codes = np.unique(y, return_inverse=True)
        return Target(classes, codes.astype(np.int64), False)
    classes = np.unique(classes)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[codes] != y
    if unknown.any():
        raise ValueError(f"y has the unknown label {y[unknown].tolist()[0]!r}. Known classes are {classes.tolist()}.")
    return Target(classes, codes.astype(np.int64), False)


def _n_rows(y: Any) -> int:
    return int(y.shape[0]) if getattr(y, "shape", ()) else len(y)


def canonical_rows(X: Any, estimator_name: str) -> csr_array:
    """Return counts as a CSR matrix in canonical order without stored zeros, copying only if needed."""
    rows = csr_array(X)
    least = rows.data.min() if rows.nnz else 1
    if least < 0:
        raise ValueError(
            f"Negative values in data passed to {estimator_name} (input X): counts of terms are 0 or above. "
            "A HashingVectorizer gives such rows with alternate_sign=False, norm=None."
        )
    if rows.has_canonical_format and least > 0:
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows
