"""The measures as scikit-learn scorers, by name: for ``scoring=`` of cross_val_score, GridSearchCV and friends.

======================== ===================================================================================
name                     measure
======================== ===================================================================================
``auc_0.1``              :func:`surebayes.metrics.partial_auc` up to that false-positive rate
``tpr@fpr=0.001``        :func:`surebayes.metrics.tpr_at_fpr`
``specificity@recall=1`` :func:`surebayes.metrics.specificity_at_recall`
``roca_percent``         :func:`surebayes.metrics.roca_percent`, negated because greater is better for a scorer
``roc_auc``              :func:`surebayes.metrics.roc_auc`
``break_even``           :func:`surebayes.metrics.break_even`
``micro_f1, macro_f1``   :func:`surebayes.metrics.micro_f1`, :func:`surebayes.metrics.macro_f1` of the decisions
======================== ===================================================================================

The numbers in the names may be any fraction: ``auc_0.02``, ``tpr@fpr=1e-4``, ``specificity@recall=0.95``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from surebayes import metrics
from surebayes.core.checks import fraction

__all__ = ["NAMES", "get_scorer"]

NAMES = (
    "auc_0.1",
    "auc_0.01",
    "auc_0.001",
    "tpr@fpr=0.01",
    "tpr@fpr=0.001",
    "specificity@recall=1",
    "specificity@recall=0.99",
    "roca_percent",
    "roc_auc",
    "break_even",
    "micro_f1",
    "macro_f1",
)

_NUMBER = r"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
_WITH_NUMBER: dict[str, tuple[Callable[..., float], str]] = {
    "auc_": (metrics.partial_auc, "max_fpr"),
    "tpr@fpr=": (metrics.tpr_at_fpr, "x"),
    "specificity@recall=": (metrics.specificity_at_recall, "recall"),
}
_OF_SCORES: dict[str, Callable[..., float]] = {
    "roca_percent": metrics.roca_percent,
    "roc_auc": metrics.roc_auc,
    "break_even": metrics.break_even,
}
_OF_DECISIONS: dict[str, Callable[..., float]] = {"micro_f1": metrics.micro_f1, "macro_f1": metrics.macro_f1}


def get_scorer(name: str) -> Any:
    """Find the scikit-learn scorer of that name.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`, or such a name with another number in it.

    Returns
    -------
    callable
        ``scorer(estimator, X, y) -> float``, greater is better. Ranking measures take `decision_function`, and
        `predict_proba` where there is none; with indicator labels they are averaged over the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> X = np.arange(40.0)[:, None]
    >>> y = (X[:, 0] > 15).astype(int)
    >>> cross_val_score(LogisticRegression(), X, y, scoring=get_scorer("tpr@fpr=0.001"), cv=2).tolist()
    [1.0, 1.0]
    """
    if name in _OF_DECISIONS:
        return make_scorer(_OF_DECISIONS[name], response_method="predict")
    if name in _OF_SCORES:
        return _ranking_scorer(_OF_SCORES[name], {}, greater_is_better=name != "roca_percent")
    for prefix, (measure, parameter) in _WITH_NUMBER.items():
        match = re.fullmatch(re.escape(prefix) + _NUMBER, str(name))
        if match:
            value = fraction(float(match[1]), f"the number of {name!r}", zero=measure is not metrics.partial_auc)
            return _ranking_scorer(measure, {parameter: value})
    raise ValueError(
        f"there is no scorer named {name!r}; use one of {', '.join(NAMES)}, or such a name with another number."
    )


def _ranking_scorer(measure: Callable[..., float], parameters: dict[str, float], greater_is_better: bool = True) -> Any:
    return make_scorer(
        _mean_over_classes,
        response_method=("decision_function", "predict_proba"),
        greater_is_better=greater_is_better,
        measure=measure,
        **parameters,
    )


def _mean_over_classes(y: Any, scores: Any, *, measure: Callable[..., float], **parameters: float) -> float:
    """Apply a measure of one class's ranking; for indicator labels, the mean over the columns."""
    if getattr(y, "ndim", 1) == 1:
        if np.ndim(scores) == 2:
            raise ValueError(
                f"{measure.__name__} ranks one class against the rest; with {np.shape(scores)[1]} classes pass "
                "indicator labels, or score each class on its own."
            )
        return measure(y, scores, **parameters)
    labels = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    table = np.asarray(scores)
    return float(np.mean([measure(labels[:, k], table[:, k], **parameters) for k in range(labels.shape[1])]))
