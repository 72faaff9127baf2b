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

The numbers in the names may be any fraction: ``auc_0.02``, ``tpr@fpr=1e-4``, ``specificity@recall=0.95``. The names in
:data:`REGISTERED` are available to scikit-learn once this module, or any estimator or vectorizer of surebayes, is
loaded: ``cross_val_score(..., scoring="tpr@fpr=0.001")``. Use :func:`get_scorer` for other numbers or another positive
class.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import _scorer, make_scorer
from sklearn.utils._param_validation import StrOptions

from surebayes import metrics
from surebayes.core.checks import fraction

__all__ = ["NAMES", "REGISTERED", "get_scorer", "register"]

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
_RATES = ("0.1", "0.05", "0.02", "0.01", "0.005", "0.002", "0.001", "0.0005", "0.0002", "0.0001", "1e-3", "1e-4")
_RECALLS = ("1", "1.0", "0.999", "0.99", "0.98", "0.95", "0.9", "0.8", "0.5")
REGISTERED = (
    *(f"auc_{rate}" for rate in _RATES),
    *(f"tpr@fpr={rate}" for rate in ("0", *_RATES)),
    *(f"specificity@recall={recall}" for recall in _RECALLS),
    "roca_percent",
    "break_even",
    "micro_f1",
    "macro_f1",
)
"""The names that scikit-learn's functions accept for ``scoring=``."""

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


def get_scorer(name: str, *, pos_label: Any = None) -> Any:
    """Return a scikit-learn scorer by name.

    Parameters
    ----------
    name : str
        One of :data:`NAMES`, or one of them with another number.
    pos_label : label, default=None
        The positive class in a ranking of two classes; the larger label if None.

    Returns
    -------
    callable
        ``scorer(estimator, X, y) -> float``; greater is better. Ranking measures use `decision_function` if there is
        one, else `predict_proba`. With more than two classes, or indicator labels, they are averaged over the classes;
        classes with all rows or without rows can't be ranked, and are left out with a warning.

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
        if pos_label is not None:
            raise ValueError(f"{name} is a mean over all classes and takes no pos_label. Got {pos_label!r}.")
        return make_scorer(_OF_DECISIONS[name], response_method="predict")
    if name in _OF_SCORES:
        return _ranking_scorer(_OF_SCORES[name], {}, pos_label, greater_is_better=name != "roca_percent")
    for prefix, (measure, parameter) in _WITH_NUMBER.items():
        match = re.fullmatch(re.escape(prefix) + _NUMBER, str(name))
        if match:
            value = fraction(float(match[1]), f"the number of {name!r}", zero=measure is not metrics.partial_auc)
            return _ranking_scorer(measure, {parameter: value}, pos_label)
    raise ValueError(f"unknown scorer {name!r}; use one of {', '.join(NAMES)}, or such a name with another number.")


class _RankingScorer(_scorer._Scorer):  # type: ignore[misc]
    """A scorer that passes the classes of the score columns to its measure."""

    def _score(self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **parameters: Any) -> float:
        classes = getattr(estimator, "classes_", None)
        result: float = super()._score(method_caller, estimator, X, y_true, classes=classes, **parameters)
        return result


def _ranking_scorer(
    measure: Callable[..., float], parameters: dict[str, float], pos_label: Any, greater_is_better: bool = True
) -> Any:
    positive = {} if pos_label is None else {"pos_label": pos_label}
    keywords = {"measure": measure, **parameters, **positive}
    response = ("decision_function", "predict_proba")
    return _RankingScorer(_ranked, 1 if greater_is_better else -1, keywords, response_method=response)


def _ranked(
    y: Any,
    scores: Any,
    *,
    measure: Callable[..., float],
    classes: Any = None,
    pos_label: Any = None,
    **parameters: float,
) -> float:
    """Measure the ranking of one class; with several classes or labels, average over them."""
    if getattr(y, "ndim", 1) == 1:
        if np.ndim(scores) == 1:
            return measure(y if pos_label is None else np.asarray(y) == pos_label, scores, **parameters)
        names = np.unique(y) if classes is None else np.asarray(classes)
        members = np.asarray(y)[:, None] == names[None, :]
    else:
        members = np.asarray(y.toarray() if hasattr(y, "toarray") else y) != 0
        names = np.arange(members.shape[1]) if classes is None else np.asarray(classes)
    if pos_label is not None:
        raise ValueError(f"pos_label={pos_label!r} is for two classes. Leave it out: with more, every class is ranked.")
    table = np.asarray(scores)
    if table.shape != members.shape:
        raise ValueError(
            f"{measure.__name__} needs one column of scores for each class. Got scores of shape {table.shape} for "
            f"{members.shape[1]} classes."
        )
    usable = _rankable(members, names, measure.__name__)
    return float(np.mean([measure(members[:, k], table[:, k], **parameters) for k in usable]))


def _rankable(members: NDArray[np.bool_], names: NDArray[Any], measure: str) -> list[int]:
    """Return the classes with rows inside and outside; warn about the remaining ones by name."""
    usable: NDArray[np.bool_] = np.asarray(members.any(axis=0) & ~members.all(axis=0))
    if usable.all():
        return list(range(len(usable)))
    shown = names if len(names) == len(usable) else np.arange(len(usable))
    left_out = ", ".join(repr(name) for name in shown[~usable].tolist())
    if not usable.any():
        raise ValueError(f"{measure} can rank no class: each of {left_out} is in all rows or in none.")
    warnings.warn(
        f"{measure} leaves out the classes {left_out}: each of them is in all rows or in none.",
        UndefinedMetricWarning,
        stacklevel=2,
    )
    return [int(k) for k in np.flatnonzero(usable)]


def register() -> None:
    """Register the names with scikit-learn, also in modules it has already loaded."""
    _scorer._SCORERS.update({name: get_scorer(name) for name in REGISTERED})
    for module in [module for name, module in list(sys.modules.items()) if name.startswith("sklearn.")]:
        for value in list(vars(module).values()):
            constraints = getattr(value, "_skl_parameter_constraints", None) or (
                getattr(value, "_parameter_constraints", None) if isinstance(value, type) else None
            )
            for constraint in (constraints.get("scoring") or ()) if isinstance(constraints, dict) else ():
                if isinstance(constraint, StrOptions) and "accuracy" in constraint.options:
                    constraint.options.update(REGISTERED)


register()
