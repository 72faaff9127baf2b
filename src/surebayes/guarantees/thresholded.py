"""Base class of classifiers with thresholds: scores and scikit-learn's tags."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from surebayes.guarantees.class_scores import Kind, by_class, raw_scores
from surebayes.text.documents import plain_documents


class ThresholdedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Base of estimators that wrap a classifier and apply thresholds to its scores."""

    estimator: Any
    estimator_: Any
    classes_: Any
    _kind: Kind
    _targets: list[int]

    def _raw(self, X: Any) -> Any:
        if n_rows(X) == 0:  # most classifiers reject zero rows
            return np.empty(0 if self._kind == "binary" else (0, self._n_columns))
        return raw_scores(self.estimator_, plain_documents(X), self._kind == "multilabel")

    @property
    def _n_columns(self) -> int:
        """The number of classes, or of labels."""
        return len(self.classes_)

    def _own_probabilities(self, X: Any) -> Any:
        if n_rows(X) == 0:
            return np.empty((0, self._n_columns))
        return self.estimator_.predict_proba(plain_documents(X))

    def scores(self, X: Any) -> Any:
        """Return the scores for the thresholds; scores strictly above :attr:`threshold_` are positive.

        They are the classifier's `decision_function`, or log-odds for a classifier without one, negated if `pos_label`
        is ``classes_[0]`` of two classes.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n,), or (n, K) if there are several thresholds
        """
        check_is_fitted(self, "classes_")
        columns = by_class(self._raw(X), self._kind)
        return columns[:, self._targets[0]] if len(self._targets) == 1 else columns

    def decision_function(self, X: Any) -> Any:
        """Return the classifier's own scores, without subtracting the threshold; higher means ``classes_[1]``.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
        """
        check_is_fitted(self, "classes_")
        return self._raw(X)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled state; parameters added since then get their defaults."""
        defaults = {name: each.default for name, each in signature(type(self).__init__).parameters.items()}
        missing = {name: defaults[name] for name in self._get_param_names() if name not in state and name in defaults}
        super().__setstate__({**missing, **state})

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        able = inner.classifier_tags
        tags.classifier_tags.multi_label = bool(able and able.multi_label)
        tags.classifier_tags.multi_class = not able or able.multi_class
        tags.classifier_tags.poor_score = True  # a low false-alarm rate takes precedence over accuracy
        return tags


def n_rows(X: Any) -> int | None:
    """Return the number of rows; None if counting them would require reading them.

    Examples
    --------
    >>> n_rows(["buy gold"]), n_rows(np.zeros((0, 3))), n_rows(iter("ab"))
    (1, 0, None)
    """
    if getattr(X, "shape", ()):
        return int(X.shape[0])
    return len(X) if hasattr(X, "__len__") else None
