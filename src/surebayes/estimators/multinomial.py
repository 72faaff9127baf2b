"""Multinomial Naive Bayes: scikit-learn's by default, by its parameters the NB and NB-IR of the papers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from surebayes.core import estimate, weigh
from surebayes.core.freezing import Recipe, freeze
from surebayes.core.score import Linear
from surebayes.estimators.parameters import (
    NORM,
    PRIOR,
    SELECTION,
    SMOOTHING,
    STEEPNESS,
    TF,
    TOP,
    WEIGHT,
    number,
    one_of,
    top_of,
)
from surebayes.estimators.rates import RateClassifier


class MultinomialNB(RateClassifier):
    """Multinomial Naive Bayes: scikit-learn's by default; by its parameters NB and NB-IR of Kolcz & Yih.

    Parameters
    ----------
    tf, weight, steepness, top, selection, norm, scale, smoothing, prior
        See `surebayes.estimators`.
    contrast : {"joint", "rest"}, default="joint"
        What more than two classes get: the joint log-likelihood of each, or each one's log-odds against the rest.
        Supervised weights, `top` and multi-label data need "rest"; for two classes both are the same.

    Examples
    --------
    >>> from surebayes import MultinomialNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], ["spam", "ham", "spam", "ham"]
    >>> nb = MultinomialNB().fit(X, y)
    >>> nb.predict([[1, 1, 0]]).tolist()
    ['spam']
    >>> nb.partial_fit([[1, 1, 0]], ["ham"]).forget([[1, 1, 0]], ["ham"]).decision_function([[1, 1, 0]]).round(4)
    array([1.6534])
    """

    def __init__(
        self,
        tf="count",
        weight=None,
        steepness=None,
        top=None,
        selection="induction",
        norm=None,
        scale=1.0,
        smoothing=1.0,
        prior="fit",
        contrast="joint",
    ):
        self.tf = tf
        self.weight = weight
        self.steepness = steepness
        self.top = top
        self.selection = selection
        self.norm = norm
        self.scale = scale
        self.smoothing = smoothing
        self.prior = prior
        self.contrast = contrast

    def _rules(self):
        return {
            "tf": TF,
            "weight": WEIGHT,
            "steepness": STEEPNESS,
            "top": TOP,
            "selection": SELECTION,
            "norm": NORM,
            "scale": number(0, np.inf, "mean"),
            "smoothing": SMOOTHING,
            "prior": PRIOR,
            "contrast": one_of("joint", "rest"),
        }

    def _freeze(self, documents, keep):
        if self.norm is None and self.scale != 1.0:
            raise ValueError(f"scale={self.scale!r} needs a norm: set norm='l1' or 'l2', or leave scale at 1.0.")
        if self.contrast == "joint":
            if self.multilabel_:
                raise ValueError("Multi-label y needs contrast='rest': every label is set against the rest.")
            if len(self.classes_) > 2 and (weigh.is_supervised(self.weight) or self.top is not None):
                raise ValueError(
                    "Supervised weights and top need one class against the rest: set contrast='rest' for more than "
                    "two classes."
                )
        top, ranking = top_of(self.top)
        recipe = Recipe(
            tf=self.tf,
            weight=weigh.factors(self.weight),
            steepness=self.steepness,
            top=top,
            ranking=ranking,
            posthoc=self.selection == "posthoc",
            norm=self.norm,
            scale=self.scale,
            smoothing=self.smoothing,
        )
        return freeze(recipe, documents, keep)

    def _trained_on(self):
        z = self.representation_
        return replace(z, top=None, ranking=None) if self.selection == "posthoc" else z

    def _against_rest(self):
        return self.contrast == "rest" or len(self.classes_) == 2

    def _model(self, columns):
        if self._against_rest():
            return super()._model(columns)
        inside, _ = self.statistics_.contrast(columns)
        z = self.representation_ if columns is None else self.representation_.at(columns)
        width = self._trained_on().width(self.n_features_in_)
        rates = estimate.log_rates(*estimate.smoothed(inside, self.smoothing, width))
        return Linear.of(z, rates, self._joint_prior(inside.documents))

    def _joint_prior(self, documents):
        if not isinstance(self.prior, str):
            return np.log(np.asarray(self.prior, float))
        if self.prior == "uniform":
            return np.full(len(documents), -np.log(len(documents)))
        seen = documents > 0
        return np.where(seen, np.log(np.where(seen, documents, 1.0)) - np.log(documents.sum()), 0.0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.contrast == "rest"
        return tags

    def _check_one_against_rest(self):
        if not self._against_rest():
            raise ValueError("A reversal needs one class against the rest: for more classes set contrast='rest'.")
