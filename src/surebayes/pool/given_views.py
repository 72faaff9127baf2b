"""Custom views: vectorizers and classifiers that follow scikit-learn's conventions, as experts of a pool."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from surebayes.kernels import Numbers
from surebayes.pool.weights import PoolWeights, contrasts_of, weight_experts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[Any]


class GivenEngine:
    """A pool of custom views with the interface of `surebayes.pool.engine.Engine`; its rows are the documents.

    Parameters
    ----------
    views : list of (name, vectorizer, classifier)
        The experts; those with equal vectorizers share rows.
    classes : int
        The number of classes.
    """

    def __init__(self, views: Sequence[tuple[str, Any, Any]], classes: int) -> None:
        same: dict[str, tuple[Any, list[Any]]] = {}
        for name, vectorizer, classifier in views:
            same.setdefault(repr(vectorizer), (vectorizer, []))[1].append((name, classifier))
        self.contrasts = contrasts_of(classes)
        self.models = [GivenView(vectorizer, experts, classes, self.contrasts) for vectorizer, experts in same.values()]
        self.weights = PoolWeights.equal(len(self.contrasts), len(self.names))

    @property
    def names(self) -> list[str]:
        """The experts' names."""
        return [name for model in self.models for name in model.names]

    @property
    def n_places(self) -> int:
        """The number of opinions of a document in a contrast."""
        return len(self.names)

    @property
    def places(self) -> list[int]:
        """The places of the experts' opinions."""
        return list(range(len(self.names)))

    def cut(self, contents: Sequence[Any]) -> Sequence[Any]:
        """Return the documents unchanged: the vectorizers transform them later."""
        return contents

    def opinions(self, documents: Sequence[Any], which: Numbers | None = None) -> FloatArray:
        """Score documents, or those selected by `which`, by every expert: (documents, contrasts, experts)."""
        documents = documents if which is None else [documents[i] for i in which]
        return np.concatenate([model.scores(documents) for model in self.models], axis=2)

    def weighed(self, opinions: Numbers) -> FloatArray:
        """Return the pool's scores from the experts' opinions, (documents, contrasts)."""
        shape = len(self.contrasts), len(self.names)
        weights = np.frombuffer(self.weights.values).reshape(shape)
        scores: FloatArray = np.einsum("nce,ce->nc", np.reshape(opinions, (-1, *shape)), weights)
        scores += np.array(self.weights.bias)
        return scores

    def fit(
        self,
        documents: Sequence[Any],
        labels: array[int],
        turns: list[array[int]],
        how: str,
        weights: array[int] | None = None,
    ) -> None:
        """Fit like `fit_contents`, on all documents; vectorizers are fitted on training documents only."""
        (held_out,) = turns
        truth, out = np.array(labels), np.isin(np.arange(len(labels)), held_out)
        times = None if weights is None else np.array(weights)
        if held_out:
            for model in self.models:
                model.fit(
                    [d for d, h in zip(documents, out) if not h], truth[~out], None if times is None else times[~out]
                )
            opinions, known = self.opinions(documents, np.flatnonzero(out)), truth[out]
            if times is not None:
                opinions, known = np.repeat(opinions, times[out], axis=0), np.repeat(known, times[out])
            self.weights, _ = weight_experts(opinions, known, self.contrasts, how)
        for model in self.models:
            model.fit(documents, truth, times)

    def learn(
        self,
        documents: Sequence[Any],
        labels: array[int],
        which: array[int] | None = None,
        weights: array[int] | None = None,
    ) -> None:
        """Learn documents, or those selected by `which`, by the classifiers' partial_fit."""
        meant = list(range(len(documents))) if which is None else list(which)
        times = None if weights is None else np.array([weights[i] for i in meant])
        for model in self.models:
            model.learn([documents[i] for i in meant], np.array([labels[i] for i in meant]), times)

    def forget(self, documents: Sequence[Any], labels: array[int]) -> None:
        """Forget documents by the classifiers' forget; nothing changes if one of them can't."""
        done: list[GivenView] = []
        try:
            for model in self.models:
                model.forget(documents, np.array(labels))
                done.append(model)
        except ValueError:
            for model in done:
                model.learn(documents, np.array(labels))
            raise

    def require(self, method: str) -> None:
        """Raise an error if a classifier has no such method."""
        for model in self.models:
            model.require(method)

    def moves(self, opinions: Numbers, scores: Numbers, label: int) -> list[int]:
        """Return the weight update for a document."""
        said = np.reshape(opinions, (len(self.contrasts), -1)).tolist()
        return self.weights.moves(said, np.ravel(scores), label, self.contrasts)


class GivenView:
    """A custom vectorizer and its classifiers, following scikit-learn's conventions. Rows are documents."""

    def __init__(self, vectorizer: Any, experts: Sequence[tuple[str, Any]], n_classes: int, contrasts: Sequence[int]):
        from sklearn.base import clone

        self.names = [name for name, _ in experts]
        self.contrasts, self.codes = contrasts, np.arange(n_classes)
        self.vectorizer, self.experts = clone(vectorizer), [clone(classifier) for _, classifier in experts]
        self.fitted = False

    def fit(self, documents: Sequence[Any], labels: IntArray, weights: IntArray | None = None) -> None:
        """Fit fresh clones of the vectorizer and the classifiers."""
        from sklearn.base import clone

        self.vectorizer = clone(self.vectorizer)
        rows = self.vectorizer.fit_transform(documents)
        self.experts = [clone(expert).fit(rows, labels, **_weighed(weights)) for expert in self.experts]
        self.fitted = True

    def require(self, method: str) -> None:
        """Raise an error if a classifier has no such method."""
        for name, expert in zip(self.names, self.experts):
            if not hasattr(expert, method):
                raise ValueError(
                    f"The classifier of the view {name!r}, {type(expert).__name__}, has no {method}. Fit the "
                    "pool again on all documents, or use a classifier of this library for the view."
                )

    def learn(self, documents: Sequence[Any], labels: IntArray, weights: IntArray | None = None) -> None:
        """Learn documents by the classifiers' partial_fit."""
        if not self.fitted:
            self.vectorizer.fit(documents)
        rows = self.vectorizer.transform(documents)
        for expert in self.experts:
            expert.partial_fit(rows, labels, classes=self.codes, **_weighed(weights))
        self.fitted = True

    def forget(self, documents: Sequence[Any], labels: IntArray) -> None:
        """Forget documents by the classifiers' forget."""
        rows = self.vectorizer.transform(documents)
        for expert in self.experts:
            expert.forget(rows, labels)

    def scores(self, documents: Sequence[Any]) -> FloatArray:
        """Score documents by decision_function or by the log-odds of predict_proba."""
        result = np.zeros((len(documents), len(self.contrasts), len(self.experts)))
        if self.fitted:
            rows = self.vectorizer.transform(documents)
            for e, expert in enumerate(self.experts):
                result[:, :, e] = _scores_of(expert, rows).reshape(len(documents), -1)
        return result

    def explain(self, documents: Sequence[Any], e: int) -> list[Any] | None:
        """Return the classifier's explanations, if it has an `explain` method."""
        expert = self.experts[e]
        if not self.fitted or not hasattr(expert, "explain"):
            return None
        rows = self.vectorizer.transform(documents)
        names = self.vectorizer.get_feature_names_out() if hasattr(self.vectorizer, "vocabulary_") else None
        return list(expert.explain(rows, terms=names))


def _weighed(weights: IntArray | None) -> dict[str, IntArray]:
    return {} if weights is None else {"sample_weight": weights}


def _scores_of(expert: Any, rows: Any) -> FloatArray:
    if hasattr(expert, "decision_function"):
        scores: FloatArray = np.clip(np.asarray(expert.decision_function(rows), float), -1e6, 1e6)
        return scores
    p = np.clip(expert.predict_proba(rows), 1e-12, 1 - 1e-12)
    scores = np.log(p) - np.log1p(-p)
    return np.asarray(scores[:, 1] if scores.shape[1] == 2 else scores, float)


def is_classifier_like(classifier: Any) -> bool:
    """Whether an object can be an expert."""
    from sklearn.base import BaseEstimator

    scored = hasattr(classifier, "decision_function") or hasattr(classifier, "predict_proba")
    return isinstance(classifier, BaseEstimator) and hasattr(classifier, "fit") and scored
