"""Scores of any classifier, one column per class, and decisions by thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import column_or_1d

from surebayes.core.decide import predict_argmax

Floats = NDArray[np.float64]
Kind = Literal["binary", "multiclass", "multilabel"]

LOG_OF_ZERO = float(np.log(np.finfo(float).smallest_subnormal))
"""Substitute for log 0, to keep scores finite."""


def raw_scores(estimator: Any, X: Any, indicators: bool = False) -> Floats:
    """Return unsaturated scores: (n,) for two classes, (n, K) for more or for indicator labels.

    Parameters
    ----------
    estimator : classifier
        Any classifier with `decision_function`, or else `predict_log_proba` or `predict_proba` (then log-odds are
        used).
    X : array-like, sparse matrix or sequence of length n
        Rows.
    indicators : bool, default=False
        Whether the classifier was trained on indicator labels, where two columns are two labels, not two classes.
    """
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), dtype=np.float64)
    method = next((name for name in ("predict_log_proba", "predict_proba") if hasattr(estimator, name)), None)
    if method is None:
        raise TypeError(
            f"{type(estimator).__name__} has no scores. Use a classifier with decision_function or predict_proba."
        )
    with np.errstate(divide="ignore"):
        answer = getattr(estimator, method)(X)
        tables = isinstance(answer, list)  # one per label, as forests return for indicators
        table = np.column_stack([t[:, -1] for t in answer]) if tables else np.asarray(answer, dtype=np.float64)
        logs: Floats = np.maximum(np.log(table) if method == "predict_proba" else table, LOG_OF_ZERO)
        if not indicators and not tables and logs.shape[1] == 2 and len(estimator.classes_) == 2:
            return np.asarray(logs[:, 1] - logs[:, 0])
        return np.asarray(logs - np.maximum(np.log(-np.expm1(logs)), LOG_OF_ZERO))


def kind_of(labels: Any, raw: Floats) -> Kind:
    """Return the kind of a task from its labels and scores."""
    return "multilabel" if labels.ndim == 2 else "binary" if raw.ndim == 1 else "multiclass"


def by_class(raw: Floats, kind: Kind) -> Floats:
    """Return one column of scores per class; for two classes, the first is the negated second."""
    return np.column_stack((-raw, raw)) if kind == "binary" else raw


def memberships(labels: Any, classes: NDArray[Any], kind: Kind) -> NDArray[np.bool_]:
    """Return a membership mask, one column per class; ValueError for unknown labels."""
    if kind == "multilabel":
        return np.asarray(labels.toarray() if sparse.issparse(labels) else labels).astype(bool)
    inside = np.asarray(labels[:, None] == classes)
    if not inside.any(1).all():
        strange = np.setdiff1d(labels, classes)[0].item()
        raise ValueError(
            f"y has the unknown label {strange!r}: the classifier was not trained on it. Remove these rows."
        )
    return inside


def target_columns(names: NDArray[Any], kind: Kind, pos_label: Any) -> list[int]:
    """Return the columns with thresholds: the column of `pos_label`, else the second of two, or all of several."""
    if pos_label is None:
        return [1] if kind == "binary" else list(range(len(names)))
    if kind == "multilabel":
        raise ValueError("indicator labels have a threshold for each class. Set pos_label to None.")
    places = np.flatnonzero(names == pos_label)
    if places.size == 0:
        raise ValueError(f"pos_label must be one of {names.tolist()}. Got {pos_label!r}.")
    return [int(places[0])]


def protected_label(names: NDArray[Any], kind: Kind, target: int) -> Any:
    """Return the class protected from alarms; None if there are several."""
    return names[1 - target] if kind == "binary" else None


def chosen(
    columns: Floats, thresholds: Floats, targets: Sequence[int], lower: float | None = None
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the predicted class of each row, and whether it is unsure.

    Parameters
    ----------
    columns : ndarray of shape (n, K)
        Scores by class.
    thresholds : ndarray of shape (K,)
        The threshold of each class; infinity for classes without one. Scores strictly above it are positive.
    targets : sequence of int
        The columns with a threshold.
    lower : float, optional
        A second threshold of the only target; scores between the two are unsure.

    Returns
    -------
    choice : ndarray of int, shape (n,)
        The class of each row. With several targets, it is the class with the highest score among the classes above
        their thresholds; with one target, rows that don't exceed its threshold get the best other class.
    doubt : ndarray of bool, shape (n,)
        Whether the row is unsure: above none of several thresholds, or between two.

    Examples
    --------
    >>> choice, doubt = chosen(np.array([[3.0, 1.0], [0.0, 0.5]]), np.array([2.0, 1.0]), [0, 1])
    >>> choice.tolist(), doubt.tolist()
    ([0, 0], [False, True])
    """
    above: NDArray[np.bool_] = columns > thresholds
    if len(targets) > 1:
        return np.where(above, columns, -np.inf).argmax(axis=1), np.logical_not(above.any(axis=1))
    target = targets[0]
    other = predict_argmax(columns, np.arange(columns.shape[1]) != target)
    doubt = np.zeros(len(columns), dtype=bool)
    if lower is not None:
        doubt |= (columns[:, target] > lower) & ~above[:, target]
    return np.where(above[:, target], target, other), doubt


def with_unsure(classes: NDArray[Any], choice: NDArray[np.intp], doubt: NDArray[np.bool_], label: Any) -> NDArray[Any]:
    """Return the predicted classes, with `label` for unsure rows (None: "unsure" for text labels, -1 for numbers)."""
    if label is None:
        label = -1 if classes.dtype.kind in "biuf" else "unsure"
    return np.append(classes, label)[np.where(doubt, len(classes), choice)]


def finite(scores: Any) -> Floats:
    """Return scores as floats; ValueError if any are NaN or infinite."""
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        raise ValueError(f"scores must be finite numbers. Got NaN or infinity in {bad:,} of {values.size:,}.")
    return values


def known_labels(y: Any) -> NDArray[Any]:
    """Return labels, or an indicator matrix, as an array."""
    labels = y.toarray() if hasattr(y, "toarray") else np.atleast_1d(np.asarray(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    return np.asarray(labels)
