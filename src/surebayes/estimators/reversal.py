"""Confidence from how hard a decision is to reverse (Kolcz & Chowdhury 2005)."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from surebayes import metrics
from surebayes.core import cross_validation, score, weigh
from surebayes.core.freezing import Documents, contingency_of
from surebayes.core.represent import places, spread
from surebayes.estimators.base import CountClassifier
from surebayes.estimators.multinomial import MultinomialNB
from surebayes.estimators.parameters import count_or_none, number, one_of
from surebayes.estimators.rates import RateClassifier

GAMMAS = tuple(float(g) for g in np.geomspace(0.001, 50, 15))
"""What gamma="auto" tries: the range of the paper."""


class DecisionReversalNB(CountClassifier):
    """Naive Bayes whose confidence is discounted by how easily the decision could be reversed (NB-KL).

    A score is weighed by how far the opposite class's distribution of terms would have to move, if the document were
    taught there again and again, until the decision turned.

    Parameters
    ----------
    estimator : MultinomialNB, OpinionPoolNB or ClassNormalizedNB, default=None
        The model whose decisions are weighed; None is the papers' NB,
        ``MultinomialNB(tf="binary", contrast="rest")``.
    discount : {"product", "exp", "inverse", "transductive"}, default="product"
        score * rdist (eq. 5); score * exp(-gamma rdist) (eq. 6 as printed); score * exp(-gamma / rdist); or Kukar's
        transductive reliability (NB-Trans).
    gamma : float or "auto", default=1.0
        For "exp" and "inverse"; "auto" takes the one with the best specificity at full recall on held-out training
        documents (mean over the classes).
    features : int, default=None
        Keep the best terms by mutual information, for each class its own.

    Attributes
    ----------
    estimator_ : object
        The fitted model.
    gamma_ : float
        The gamma in use.

    Examples
    --------
    >>> from surebayes import DecisionReversalNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> nb = DecisionReversalNB().fit(X, y)
    >>> nb.predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    >>> nb.reversal([[1, 1, 0]]).multiplicity.round(3)  # teach it as the other class so many times
    array([5.275])
    """

    def __init__(self, estimator=None, discount="product", gamma=1.0, features=None):
        self.estimator = estimator
        self.discount = discount
        self.gamma = gamma
        self.features = features

    def _rules(self):
        return {
            "estimator": (
                lambda v: v is None or isinstance(v, RateClassifier),
                "None, a MultinomialNB, an OpinionPoolNB or a ClassNormalizedNB",
            ),
            "discount": one_of("product", "exp", "inverse", "transductive"),
            "gamma": number(0, np.inf, "auto"),
            "features": (count_or_none, "None or a positive whole number"),
        }

    # ---- learning goes to the inner estimator

    def _prepare(self, n_columns, classes, multilabel) -> None:
        inner = MultinomialNB(tf="binary", contrast="rest") if self.estimator is None else clone(self.estimator)
        super()._prepare(n_columns, classes, multilabel)
        inner._prepare(n_columns, classes, multilabel)
        inner._check_one_against_rest()
        if hasattr(self, "feature_names_in_"):
            inner.feature_names_in_ = self.feature_names_in_
        self.estimator_ = inner

    def _freeze_on(self, documents: Documents, keep: Any = None) -> None:
        keep = None if self.features is None else best_features(documents, self.features)
        self.estimator_._freeze_on(documents, keep)
        self.gamma_ = self._choose_gamma(documents.sample(), keep) if self.gamma == "auto" else float(self.gamma)

    def _choose_gamma(self, documents: Documents, keep: Any) -> float:
        if self.discount not in ("exp", "inverse"):
            return 1.0
        held = cross_validation.deal(documents) == 0
        members = cross_validation.membership(documents)[held]
        train, test = cross_validation.part(documents, ~held), cross_validation.part(documents, held)
        usable = [c for c in range(members.shape[1]) if 0 < members[:, c].sum() < len(members)]
        if not usable:
            return 1.0
        inner = copy(self.estimator_)
        inner._freeze_on(train, keep)
        inner.statistics_ = inner._sum(train, compact=False)
        found = inner._reversals(test.rows)

        def worth(gamma: float) -> float:
            scores = found.score * score.discounted(self.discount, gamma, found)
            return float(np.mean([metrics.specificity_at_recall(members[:, c], scores[:, c]) for c in usable]))

        return max(GAMMAS, key=worth)

    @property
    def statistics_(self):
        """The sums of the inner estimator."""
        if not hasattr(self, "estimator_"):
            raise AttributeError("statistics_ comes with fit")
        return self.estimator_.statistics_

    @statistics_.setter
    def statistics_(self, statistics):
        self.estimator_.statistics_ = statistics

    @property
    def representation_(self):
        """The frozen representation of the inner estimator."""
        if not hasattr(self, "estimator_"):
            raise AttributeError("representation_ comes with fit")
        return self.estimator_.representation_

    @property
    def _holder(self):
        return self.estimator_._holder

    @property
    def _sums(self):
        return self.estimator_._sums

    def _freeze(self, documents, keep):
        return self.estimator_._freeze(documents, keep)

    def _model(self, columns):
        return self.estimator_._model(columns)

    def _trained_on(self):
        return self.estimator_._trained_on()

    def _frozen(self):
        return (*self.estimator_._frozen(), self.gamma_)

    def _against_rest(self):
        return self.estimator_._against_rest()

    def _estimate(self):
        return self.estimator_._estimate()

    # ---- scoring weighs the inner estimator's scores

    def _raw_scores(self, rows: csr_array) -> np.ndarray:
        if self.discount == "transductive":
            return np.column_stack(self.estimator_._each_contrast(rows, score.transductive_key))
        found = self.estimator_._reversals(rows)
        return found.score * score.discounted(self.discount, self.gamma_, found)

    def reversal(self, X):
        """Tell how hard each decision is to reverse; see the inner estimator's method of the same name."""
        check_is_fitted(self)
        self._check_learnt()
        return self.estimator_.reversal(X)

    def text_scorer(self, vectorizer):
        """Refuse: a reversal is no linear score."""
        raise TypeError("The score of a decision reversal is not linear: take the text_scorer of estimator_ instead.")

    def _model_for(self, rows):
        return self.estimator_._model_for(rows)

    def _shares(self, model, own, rows):
        """Scale the inner estimator's contributions to the discounted score."""
        plain, scores = model.scores(own), self._raw_scores(rows)
        result = []
        for c, (entries, bias) in enumerate(super()._shares(model, own, rows)):
            said = plain[:, c] != 0
            factor = np.divide(scores[:, c], plain[:, c], out=np.zeros(len(plain)), where=said)
            result.append((entries * spread(factor, own), np.where(said, bias * factor, scores[:, c])))
        return result


def best_features(documents: Documents, n: int) -> np.ndarray:
    """Tell which terms are among the n best by mutual information with the class: (V,), or (classes, V)."""
    presence = documents.presence()

    def gain(chosen):
        return weigh.information_gain(contingency_of(presence, None, chosen))

    kept = places(documents.by_class(gain)) < n
    return kept[0] if len(kept) == 1 else kept
