"""The papers' baseline classifiers: logistic regression, SVM, maximum entropy, balanced winnow."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC


def logistic_regression(variance: float = 1.0) -> LogisticRegression:
    """Return logistic regression with a Gaussian prior of this variance on every weight (Kolcz & Yih: 1)."""
    return LogisticRegression(C=variance, solver="liblinear")


class _SVM(LinearSVC):
    """LinearSVC without the warning at liblinear's iteration limit.

    The limit is reached only with a large C on separable rows, where further iterations don't change the ranking.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit as LinearSVC does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return super().fit(X, y, sample_weight)


def linear_svm(C: float = 1.0) -> LinearSVC:
    """Return a linear SVM with the hinge loss; on rows of unit length SVM-light's default C is 1 (Kolcz & Yih)."""
    return _SVM(C=C, loss="hinge", max_iter=5000, random_state=0)


def maximum_entropy(n_classes: int, variance: float = 1.0) -> LogisticRegression:
    """Return a maximum-entropy classifier with a Gaussian prior on each class's weights, as in Mallet (Junejo & Karim).

    With two classes, Mallet has two weight vectors; scikit-learn has one, their difference, with twice the variance.
    """
    if n_classes == 2:
        return LogisticRegression(C=2 * variance, solver="liblinear")
    return LogisticRegression(C=variance, solver="lbfgs", max_iter=300, tol=1e-3)


class TunedSVM(ClassifierMixin, BaseEstimator):
    """Linear SVM on rows of unit L2 length, with C chosen on held-out training rows (Junejo & Karim).

    Parameters
    ----------
    grid : tuple of float
        The values of C to try; the smallest wins a tie.
    share : float, default=0.3
        Share of the training rows to hold out.

    Examples
    --------
    >>> from surebayes.research.laboratory.baselines import TunedSVM
    >>> TunedSVM().fit([[2, 0], [0, 3]] * 10, ["a", "b"] * 10).predict([[1, 0]]).tolist()
    ['a']
    """

    def __init__(self, grid: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0), share: float = 0.3) -> None:
        self.grid = grid
        self.share = share

    def fit(self, X: Any, y: Any) -> TunedSVM:
        """Choose C, then fit on all rows."""
        X, y = normalize(csr_array(X, dtype=float)), np.asarray(y)
        train, held_out = next(StratifiedShuffleSplit(1, test_size=self.share, random_state=0).split(X, y))
        right = [linear_svm(C).fit(X[train], y[train]).score(X[held_out], y[held_out]) for C in self.grid]
        self.C_ = self.grid[int(np.argmax(right))]
        self.model_ = linear_svm(self.C_).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        """Predict the class of each row."""
        return self.model_.predict(normalize(csr_array(X, dtype=float)))

    def decision_function(self, X: Any) -> Any:
        """Score each row."""
        return self.model_.decision_function(normalize(csr_array(X, dtype=float)))


class BalancedWinnow(ClassifierMixin, BaseEstimator):
    """Balanced winnow for several classes, with the settings of the toolkit that Junejo & Karim used.

    Each class has a vector of weights, initially 1. A wrong prediction multiplies the wrong class's weights of the
    row's terms by 1 - epsilon and the correct class's by 1 + epsilon. After a correct prediction with a score of
    at most 1 + delta times the runner-up's, the runner-up counts as the wrong class. Epsilon shrinks after every pass.

    Parameters
    ----------
    epsilon, delta, cooling : float
        The step, the required margin, and the share by which the step shrinks after each pass.
    passes : int, default=30
        Number of passes over the rows.

    Examples
    --------
    >>> from surebayes.research.laboratory.baselines import BalancedWinnow
    >>> BalancedWinnow().fit([[2, 0], [0, 3]] * 10, ["a", "b"] * 10).predict([[1, 0]]).tolist()
    ['a']
    """

    def __init__(self, epsilon: float = 0.5, delta: float = 0.1, cooling: float = 0.5, passes: int = 30) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.cooling = cooling
        self.passes = passes

    def fit(self, X: Any, y: Any) -> BalancedWinnow:
        """Fit the weights, one row at a time."""
        X = csr_array(X, dtype=float)
        self.classes_, labels = np.unique(y, return_inverse=True)
        k, (n, v) = len(self.classes_), X.shape
        # Column v is the bias, a term that every row contains.
        columns = [np.append(X.indices[a:b], v) for a, b in zip(X.indptr[:-1], X.indptr[1:])]
        values = [np.append(X.data[a:b], 1.0) for a, b in zip(X.indptr[:-1], X.indptr[1:])]
        weights = np.ones((v + 1, k))
        epsilon = self.epsilon
        for _ in range(self.passes):
            up, down = 1.0 + epsilon, 1.0 - epsilon
            for i in range(n):
                terms = columns[i]
                scores = values[i] @ weights[terms]
                right, first = labels[i], int(scores.argmax())
                if first == right:
                    scores[first], best = -np.inf, scores[first]
                    first = int(scores.argmax())
                    if best > (1.0 + self.delta) * scores[first]:
                        continue
                weights[terms, first] *= down
                weights[terms, right] *= up
            epsilon *= 1.0 - self.cooling
        self.weights_ = weights
        return self

    def decision_function(self, X: Any) -> Any:
        """Score each row for each class."""
        return csr_array(X, dtype=float) @ self.weights_[:-1] + self.weights_[-1]

    def predict(self, X: Any) -> Any:
        """Predict the class of each row."""
        return self.classes_[self.decision_function(X).argmax(axis=1)]
