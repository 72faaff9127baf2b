"""Objectives of TunedNB: ranking measures, or scikit-learn scorers, on held-out documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import sklearn.metrics
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics._scorer import _BaseScorer

from surebayes import metrics
from surebayes.core import score
from surebayes.core.decide import predict_argmax
from surebayes.metrics import ranking, scorers

FloatArray = NDArray[np.float64]
Measure = Callable[[NDArray[np.bool_], FloatArray, Sequence[int]], float]
"""A function of membership and scores, both (documents, contrasts), and of the measurable contrasts."""


def measure_of(metric: Any, classes: NDArray[Any], multilabel: bool) -> Measure:
    """Convert the parameter `metric` to a function of held-out scores; greater is better."""
    if isinstance(metric, str):
        metric = _scorer_named(metric)
    if not isinstance(metric, _BaseScorer):
        return _mean_over_contrasts(metric)
    parameters = dict(metric._kwargs)
    if "measure" not in parameters:
        return _by_scorer(metric, classes, multilabel)
    measure, sign = parameters.pop("measure"), metric._sign
    parameters = {name: value for name, value in parameters.items() if name not in ("pos_label", "average")}
    measure = low_end_area if measure is metrics.partial_auc else measure
    return _mean_over_contrasts(lambda y, s: sign * measure(y, s, **parameters))


def only_ranks(metric: Any) -> bool:
    """Whether a measure depends on the ranking only, not on decisions.

    Examples
    --------
    >>> only_ranks("auc_0.1"), only_ranks("accuracy")
    (True, False)
    """
    metric = _scorer_named(metric) if isinstance(metric, str) else metric
    return isinstance(metric, _BaseScorer) and "measure" in metric._kwargs


def _scorer_named(name: str) -> Any:
    try:
        return scorers.get_scorer(name)
    except ValueError as error:
        if name in sklearn.metrics.get_scorer_names():
            return sklearn.metrics.get_scorer(name)
        raise ValueError(
            f"The 'metric' parameter of TunedNB must be a measure of surebayes.metrics.scorers or a scorer of "
            f"scikit-learn: {error}"
        ) from None


def _mean_over_contrasts(measure: Callable[[Any, Any], float]) -> Measure:
    return lambda members, scores, usable: float(np.mean([measure(members[:, c], scores[:, c]) for c in usable]))


def _by_scorer(scorer: Any, classes: NDArray[Any], multilabel: bool) -> Measure:
    def measure(members: NDArray[np.bool_], scores: FloatArray, usable: Sequence[int]) -> float:
        documents = np.arange(len(scores))[:, None]
        if multilabel:
            y: NDArray[Any] = members.astype(int)
        else:
            y = classes[members[:, 0].astype(int) if len(classes) == 2 else members.argmax(axis=1)]
        return float(scorer(_Scored(scores, classes, multilabel), documents, y))

    return measure


class _Scored(ClassifierMixin, BaseEstimator):
    """A fake classifier that looks up precomputed scores: each document is its index."""

    def __init__(self, scores: Any = None, classes: Any = None, multilabel: bool = False) -> None:
        self.scores = scores
        self.classes = classes
        self.multilabel = multilabel

    @property
    def classes_(self) -> Any:
        return self.classes

    @property
    def _two(self) -> bool:
        return len(self.classes) == 2 and not self.multilabel

    def decision_function(self, X: Any) -> FloatArray:
        return np.asarray(self.scores[:, 0] if self._two else self.scores)

    def predict(self, X: Any) -> NDArray[Any]:
        if self.multilabel:
            return np.asarray(self.scores > 0, dtype=int)
        if self._two:
            return np.asarray(self.classes[(self.scores[:, 0] > 0).astype(int)])
        return np.asarray(self.classes[predict_argmax(self.scores, np.ones(len(self.classes), bool))])

    def predict_proba(self, X: Any) -> FloatArray:
        form = "each" if self.multilabel else "binary" if self._two else "softmax"
        return score.probabilities(self.decision_function(X), form)


def low_end_area(positive: NDArray[np.bool_], scores: FloatArray, max_fpr: float) -> float:
    """Return `metrics.partial_auc` of flags and finite scores, ranking only documents left of `max_fpr`: half the time.

    Examples
    --------
    >>> import numpy as np
    >>> from surebayes.metrics import partial_auc
    >>> scores = np.array([9.0] + [1.0] * 9 + [10.0, 10.0, 8.0, 1.0])
    >>> positive = np.arange(14) > 9
    >>> low_end_area(positive, scores, 0.2) == partial_auc(positive, scores, 0.2)
    True
    """
    negative = scores[~positive]
    last = max(len(negative) - 1 - int(max_fpr * len(negative)), 0)
    above = scores >= np.partition(negative, last)[last]
    steps = ranking.steps_of(positive[above], scores[above])
    whole = len(negative), len(scores) - len(negative)
    counts = [np.append(step, n) for step, n in zip(steps[1:], whole)]
    return float(ranking.partial_area(counts[0], counts[1], max_fpr))
