"""Learning curves and noise curves: performance against training size and against the share of wrong labels.

>>> from surebayes import MultinomialNB, OpinionPoolNB
>>> from surebayes.research.curves import learning_curve
>>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]] * 20, [1, 0, 1, 0] * 20
>>> curve = learning_curve({"NB": MultinomialNB(), "pool": OpinionPoolNB()}, X, y, shares=(0.2, 1.0), repeats=2)
>>> curve.mean("auc")["pool"]
[1.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if

from surebayes.research.compare import Comparison, compare, named, splits_of
from surebayes.research.laboratory.report import Plot, PublishedFigure, Result

__all__ = ["Curve", "learning_curve", "noise_curve"]

LEARNING = (0.01, 0.03, 0.1, 0.3, 1.0)
NOISE = (0.0, 0.05, 0.1, 0.2)

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Curve:
    """Comparisons of the same classifiers at each point of a curve.

    Attributes
    ----------
    label : str
        The quantity on the x axis.
    points : list of float
        Its values.
    comparisons : list of Comparison
        The comparison at each point.
    """

    label: str
    points: list[float]
    comparisons: list[Comparison]

    @property
    def names(self) -> list[str]:
        """Names of the classifiers."""
        return self.comparisons[0].names

    @property
    def measures(self) -> list[str]:
        """The measures available at every point."""
        first, *others = (list(comparison.values) for comparison in self.comparisons)
        return [measure for measure in first if all(measure in other for other in others)]

    def mean(self, measure: str) -> dict[str, list[float]]:
        """Return each classifier's mean of a measure at every point."""
        means = [comparison.mean(measure) for comparison in self.comparisons]
        return {name: [mean[name] for mean in means] for name in self.names}

    def result(self) -> Result:
        """Return all measures as tables and plots."""
        records = [
            PublishedFigure("", "curve", measure, name, f"{self.label} {point:g}", None, value)
            for measure in self.measures
            for name, values in self.mean(measure).items()
            for point, value in zip(self.points, values)
        ]
        plots = [
            Plot(
                measure,
                measure,
                self.label,
                measure,
                {n: (list(self.points), v) for n, v in self.mean(measure).items()},
            )
            for measure in self.measures
        ]
        return Result("", "curve", f"Means against {self.label}", records, plots)

    def _repr_html_(self) -> str:
        from surebayes.notebook import html

        measure = "auc_0.1" if "auc_0.1" in self.measures else self.measures[0]
        means = self.mean(measure)
        head = ["", *(f"{point:g}" for point in self.points)]
        rows = [[name, *(f"{value:.3f}" for value in values)] for name, values in means.items()]
        series = {name: (self.points, values) for name, values in means.items()}
        low = min(min(values) for values in means.values())
        high = max(max(values) for values in means.values())
        drawn = html.curves(series, self.label, measure, (self.points[0], self.points[-1]), (low, high))
        return html.frame(f"{measure} against {self.label}", html.table(head, rows), drawn)


def learning_curve(
    estimators: Mapping[str, Any] | Sequence[Any],
    X: Any,
    y: Any,
    *,
    shares: Sequence[float] = LEARNING,
    split: Any = "holdout",
    repeats: int = 10,
    train_size: float = 0.66,
    order: Any = None,
    random_state: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Curve:
    """Measure classifiers trained on shares of each split's training rows; the test rows stay the same.

    Parameters
    ----------
    estimators, X, y, split, repeats, train_size, order, random_state
        As in `compare`.
    shares : sequence of float
        Shares of the training rows, each above 0 and at most 1. Smaller shares are subsets of larger ones. Splits by
        time use the latest rows.
    progress : callable, optional
        Called as progress(what, done, total).
    **options
        Options of `compare`.

    Returns
    -------
    Curve
    """
    if not shares or any(not 0 < share <= 1 for share in shares):
        raise ValueError(f"shares must be numbers above 0 and at most 1. Got {list(shares)}.")
    classifiers = named(estimators)
    chosen = splits_of(y, split, repeats, train_size, order, random_state)
    drawn = _in_time if split == "time" else _at_random
    runs = len(classifiers) * len(chosen)
    comparisons = []
    for k, share in enumerate(sorted(shares)):
        fixed = _FixedSplits(
            [(drawn(train, y, share, random_state + i), test) for i, (train, test) in enumerate(chosen)]
        )
        comparisons.append(
            compare(classifiers, X, y, split=fixed, progress=_after(progress, k, len(shares), runs), **options)
        )
    return Curve("share of the training rows", sorted(shares), comparisons)


def noise_curve(
    estimators: Mapping[str, Any] | Sequence[Any],
    X: Any,
    y: Any,
    *,
    shares: Sequence[float] = NOISE,
    random_state: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Curve:
    """Measure classifiers trained with some wrong labels; the test labels stay correct.

    Parameters
    ----------
    estimators, X, y, random_state
        As in `compare`.
    shares : sequence of float
        Shares of training labels to corrupt, each from 0 to below 1.
    progress : callable, optional
        Called as progress(what, done, total).
    **options
        Options of `compare`.

    Returns
    -------
    Curve

    Examples
    --------
    >>> from surebayes import MultinomialNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]] * 20, [1, 0, 1, 0] * 20
    >>> noise_curve([MultinomialNB()], X, y, shares=(0.0, 0.2), repeats=2).points
    [0.0, 0.2]
    """
    if not shares or any(not 0 <= share < 1 for share in shares):
        raise ValueError(f"shares must be numbers from 0 to below 1. Got {list(shares)}.")
    classifiers = named(estimators)
    comparisons = []
    for k, share in enumerate(sorted(shares)):
        noisy = {name: _Mislabelled(estimator, share, random_state) for name, estimator in classifiers.items()}
        runs = len(classifiers) * options.get("repeats", 10)
        step = _after(progress, k, len(shares), runs)
        comparisons.append(compare(noisy, X, y, random_state=random_state, progress=step, **options))
    return Curve("share of wrong labels", sorted(shares), comparisons)


def _after(progress: Progress | None, k: int, points: int, runs: int) -> Progress | None:
    """Return a callback that reports progress within the k-th point as progress over all points."""
    if progress is None:
        return None
    return lambda what, done, total: progress(what, k * runs + done, points * runs)


@dataclass(frozen=True, slots=True)
class _FixedSplits:
    """A cross-validator with predetermined splits."""

    chosen: list[tuple[np.ndarray, np.ndarray]]

    def split(self, X: Any, y: Any = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the splits."""
        return self.chosen


def _at_random(train: np.ndarray, y: Any, share: float, seed: int) -> np.ndarray:
    """Return a random share of the training rows, with at least two rows of each class."""
    shuffled = np.random.default_rng(seed).permutation(train)
    count = max(2, round(share * len(train)))
    if getattr(y, "ndim", 1) == 2:
        return shuffled[:count]
    labels = np.asarray(y)[shuffled]
    first = [np.flatnonzero(labels == label)[:2] for label in np.unique(labels)]
    needed = np.concatenate(first)
    rest = np.setdiff1d(np.arange(len(shuffled)), needed)
    places = np.concatenate([needed, rest])[: max(count, len(needed))]
    return np.asarray(shuffled[np.sort(places)])


def _in_time(train: np.ndarray, y: Any, share: float, seed: int) -> np.ndarray:
    return train[-max(2, round(share * len(train))) :]


def _delegates(name: str) -> Callable[[Any], bool]:
    return lambda wrapped: hasattr(wrapped.estimator, name)


class _Mislabelled(ClassifierMixin, BaseEstimator):
    """A classifier that is trained with some wrong labels."""

    def __init__(self, estimator: Any, share: float, seed: int) -> None:
        self.estimator, self.share, self.seed = estimator, share, seed

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.estimator)

    def fit(self, X: Any, y: Any) -> _Mislabelled:
        """Fit the classifier on the corrupted labels."""
        self.fitted_ = clone(self.estimator).fit(X, self._with_wrong_labels(np.asarray(y)))
        self.classes_ = getattr(self.fitted_, "classes_", None)
        return self

    def _with_wrong_labels(self, y: np.ndarray) -> np.ndarray:
        """Return the labels with a share replaced by another class."""
        generator, labels = np.random.default_rng(self.seed), y.copy()
        wrong = generator.permutation(len(y))[: round(self.share * len(y))]
        if y.ndim == 2:
            labels[wrong] = 1 - labels[wrong]
            return labels
        classes = np.unique(y)
        codes = np.searchsorted(classes, y[wrong])
        labels[wrong] = classes[(codes + generator.integers(1, len(classes), len(wrong))) % len(classes)]
        return labels

    def predict(self, X: Any) -> Any:
        """Predict labels."""
        return self.fitted_.predict(X)

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return scores."""
        return self.fitted_.decision_function(X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return probabilities."""
        return self.fitted_.predict_proba(X)
