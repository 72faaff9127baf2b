"""Classes of one length: per-class normalisation and the centroid classifier (Frank & Bouckaert 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np

from surebayes import metrics
from surebayes.core import cross_validation, estimate, weigh
from surebayes.core.freezing import Documents, Recipe, freeze
from surebayes.core.represent import Representation
from surebayes.core.score import Linear
from surebayes.core.statistics import Statistics
from surebayes.estimators.base import CountClassifier
from surebayes.estimators.parameters import NORM, PRIOR, SMOOTHING, TF, WEIGHT, number, one_of
from surebayes.estimators.rates import RateClassifier


class ClassNormalizedNB(RateClassifier):
    """Multinomial Naive Bayes with per-class normalisation for unbalanced classes (Frank & Bouckaert's MNB_PCN).

    Parameters
    ----------
    length : float, "min" or "cv", default=1.0
        The length that each class's mass is scaled to: a number, the smaller of the two classes' (PCNmin), or for each
        class what cross-validation on the training documents finds best by the area under the ROC curve.
    tf, weight, norm, scale, smoothing, prior
        See `surebayes.estimators`.

    Attributes
    ----------
    length_ : list
        The length of each class against the rest; None stands for "min".

    Examples
    --------
    >>> from surebayes import ClassNormalizedNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> ClassNormalizedNB(length="min").fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _lengths = (1.0, 10.0, 100.0, 1000.0, 10000.0, None)

    def __init__(
        self, length=1.0, tf="log", weight="idf_plain", norm="l2", scale="mean", smoothing=1.0, prior="uniform"
    ):
        self.length = length
        self.tf = tf
        self.weight = weight
        self.norm = norm
        self.scale = scale
        self.smoothing = smoothing
        self.prior = prior

    def _rules(self):
        return {
            "length": number(0, np.inf, "min", "cv"),
            "tf": TF,
            "weight": WEIGHT,
            "norm": NORM,
            "scale": number(0, np.inf, "mean"),
            "smoothing": SMOOTHING,
            "prior": PRIOR,
        }

    def _freeze(self, documents, keep):
        z = _documents_as_in_frank(self, documents, keep)
        if self.length != "cv":
            self.length_ = [None if self.length == "min" else float(self.length)] * len(documents.contrasts)
            return z
        bias = np.zeros(len(documents.contrasts))

        def candidates(statistics: Statistics) -> list[Linear]:
            sides = statistics.contrast(classes=documents.contrasts)
            width = z.width(documents.n_columns)
            rates = [estimate.class_normalised(*sides, length, self.smoothing, width) for length in self._lengths]
            return [Linear.of(z, r.log_odds(), bias) for r in rates]

        sample = documents.sample()
        scores = cross_validation.held_out_scores(sample, z, self._sums, candidates)
        # Scores of several classes are compared with each other only if their masses have one length.
        common = len(documents.contrasts) > 1 and not self.multilabel_
        chosen = cross_validation.best_by_class(sample, scores, metrics.roc_auc, default=0, common=common)
        self.length_ = [self._lengths[k] for k in chosen]
        return z

    def _frozen(self):
        return (self.representation_, self.length_)

    def _rates_of(self, inside, outside):
        width = self._trained_on().width(self.n_features_in_)
        shorter = np.minimum(inside.mass_total, outside.mass_total)
        lengths = np.array(
            [(s if s > 0 else 1.0) if length is None else length for length, s in zip(self.length_, shorter)]
        )
        return estimate.class_normalised(inside, outside, lengths, self.smoothing, width)


class CentroidClassifier(CountClassifier):
    """Documents compared with the class's mean vector and the rest's, each of unit length (Frank & Bouckaert, eq. 4).

    Parameters
    ----------
    norm : {"l2", "l1"}, default="l2"
        The norm in which centroids get unit length.
    tf, weight
        See `surebayes.estimators`; documents are scaled in L2 to the mean length of the training documents.

    Examples
    --------
    >>> from surebayes import CentroidClassifier
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> CentroidClassifier().fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _whole_vocabulary = True
    _norm = "l2"

    def __init__(self, norm="l2", tf="log", weight="idf_plain"):
        self.norm = norm
        self.tf = tf
        self.weight = weight

    def _rules(self):
        return {"norm": one_of("l2", "l1"), "tf": TF, "weight": WEIGHT}

    def _freeze(self, documents, keep):
        return _documents_as_in_frank(self, documents, keep)

    def _model(self, columns):
        return self._model_of(self._contrasts)

    def _model_of(self, contrasts):
        inside, outside = estimate.unit_centroids(*self.statistics_.contrast(None, contrasts), self.norm)
        return Linear.of(self.representation_, inside - outside, np.zeros(len(contrasts)))


def _documents_as_in_frank(estimator: Any, documents: Documents, keep: Any) -> Representation:
    """Frank & Bouckaert, section 5: tf x idf, scaled in L2 to the mean length of the training documents."""
    norm = getattr(estimator, "_norm", estimator.norm)
    scale = getattr(estimator, "scale", "mean")
    if norm is None and scale != 1.0:
        raise ValueError(f"scale={scale!r} needs a norm: set norm='l1' or 'l2', or scale to 1.0.")
    recipe = Recipe(
        tf=estimator.tf,
        weight=weigh.factors(estimator.weight),
        norm=norm,
        scale=scale,
        smoothing=getattr(estimator, "smoothing", 1.0),
    )
    return freeze(recipe, documents, keep)
