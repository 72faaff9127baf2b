"""Decision reversal as a measure of confidence (Kolcz & Chowdhury 2005)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from surebayes import metrics
from surebayes.classifiers.base import FloatArray
from surebayes.classifiers.delegating import DelegatingClassifier
from surebayes.classifiers.multinomial import MultinomialNB
from surebayes.classifiers.parameters import COUNT, POSITIVE, Constraints
from surebayes.classifiers.rates import RateClassifier
from surebayes.core import cross_validation, reversal, weigh
from surebayes.core.freezing import TrainingDocuments, contingency_of
from surebayes.core.represent import places, row_sums, spread
from surebayes.core.score import Linear

GAMMAS = tuple(float(g) for g in np.geomspace(0.001, 50, 15))
"""The candidates of gamma="auto": the range of the paper."""

_CANCELLED = 1e-6  # a smaller score, relative to its terms, is rounding error: contributions can't be scaled to it


class DecisionReversalNB(DelegatingClassifier):
    """Naive Bayes with scores discounted by the difficulty of reversing each decision (NB-KL).

    A score is weighted by the change of the opposite class's term distribution when the document is taught there
    repeatedly until the decision turns.

    Parameters
    ----------
    estimator : MultinomialNB, OpinionPoolNB or ClassNormalizedNB, default=None
        The model whose decisions are weighted; None is the papers' NB,
        ``MultinomialNB(tf="binary", contrast="rest")``.
    discount : {"product", "exp", "inverse", "transductive"}, default="product"
        score * rdist (eq. 5); score * exp(-gamma rdist) (eq. 6 as printed); score * exp(-gamma / rdist); or Kukar's
        transductive reliability (NB-Trans).
    gamma : float or "auto", default=1.0
        The parameter of "exp" and "inverse"; "auto" maximizes the mean specificity at full recall over the classes, on
        held-out training documents.
    features : int, default=None
        The number of terms to keep for each class, by mutual information; None for all.

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

    _inner_name = "estimator_"
    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": [None, RateClassifier],
        "discount": [StrOptions({"product", "exp", "inverse", "transductive"})],
        "gamma": [*POSITIVE, StrOptions({"auto"})],
        "features": [None, *COUNT],
    }
    estimator_: RateClassifier
    gamma_: float

    def __init__(
        self,
        estimator: RateClassifier | None = None,
        discount: str = "product",
        gamma: float | str = 1.0,
        features: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.discount = discount
        self.gamma = gamma
        self.features = features

    # ---- learning

    def _check_settings(self) -> None:
        inner = MultinomialNB(tf="binary", contrast="rest") if self.estimator is None else clone(self.estimator)
        self._adopt(inner)
        inner._prepare(self.n_features_in_, self.classes_, self.multilabel_)
        inner._check_one_against_rest()

    def _freeze_on(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None = None) -> None:
        keep = None if self.features is None else best_features(documents, self.features)
        self.estimator_._freeze_on(documents, keep)
        if isinstance(self.gamma, str):
            self.gamma_ = self._choose_gamma(documents.sample(), keep)
        else:
            self.gamma_ = float(self.gamma)

    def _choose_gamma(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> float:
        if self.discount not in ("exp", "inverse"):
            return 1.0
        tested = cross_validation.deal(documents) == 0
        train, test = cross_validation.part(documents, ~tested), cross_validation.part(documents, tested)
        times = cross_validation.copies(test)
        members = np.repeat(cross_validation.membership(test), times, axis=0)
        usable = [c for c in range(members.shape[1]) if 0 < members[:, c].sum() < len(members)]
        if not usable:
            return 1.0
        inner = copy(self.estimator_)
        inner._freeze_on(train, keep)
        inner.statistics_ = inner._sum(train, compact=False)
        reversals = inner._reversals(test.rows)

        def worth(gamma: float) -> float:
            scores = np.repeat(reversal.discounted_score(self.discount, gamma, reversals), times, axis=0)
            return float(np.mean([metrics.specificity_at_recall(members[:, c], scores[:, c]) for c in usable]))

        return max(GAMMAS, key=worth)

    def _identity(self) -> dict[str, Any]:
        return super()._identity() | {"gammas": self.gamma_}

    # ---- scores weighted by reversal difficulty

    def _raw_scores(self, rows: csr_array) -> FloatArray:
        if self.discount == "transductive":
            return np.column_stack(self.estimator_._each_contrast(rows, reversal.transductive_key))
        return reversal.discounted_score(self.discount, self.gamma_, self.estimator_._reversals(rows))

    def reversal(self, X: Any) -> reversal.Reversal:
        """Return the difficulty of reversing each decision; see the wrapped estimator's method."""
        check_is_fitted(self)
        self._check_learnt()
        return self.estimator_.reversal(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, RateClassifier):
            able = self.estimator._scores_against_rest
            tags.classifier_tags.multi_class = tags.classifier_tags.multi_label = able
        return tags

    def text_scorer(self, vectorizer: Any) -> NoReturn:
        """Raise TypeError: a reversal is not a linear score."""
        raise TypeError("The score of a decision reversal is not linear. Use the text_scorer of estimator_ instead.")

    def _shares(self, model: Linear, compact: csr_array, rows: csr_array) -> list[tuple[FloatArray, FloatArray]]:
        """Scale the wrapped estimator's contributions to the discounted score.

        If the inner score is only rounding error of cancelled terms, they can't be scaled to the discounted score
        (NB-Trans gives an undecided document log 2): the score is then all bias.
        """
        scores, result = self._raw_scores(rows), []
        for c, (shares, bias) in enumerate(super()._shares(model, compact, rows)):
            plain, size = bias + row_sums(shares, compact), np.abs(bias) + row_sums(np.abs(shares), compact)
            scalable = np.abs(plain) > _CANCELLED * size
            factor = np.divide(scores[:, c], plain, out=np.zeros(len(plain)), where=scalable)
            scaled = shares * spread(factor, compact)
            result.append((scaled, scores[:, c] - row_sums(scaled, compact)))
        return result


def best_features(documents: TrainingDocuments, n: int) -> NDArray[np.bool_]:
    """Return a mask of the n best terms by mutual information with the class: (V,), or (classes, V)."""
    presence = documents.presence()

    def gain(chosen: Sequence[int]) -> FloatArray:
        return weigh.information_gain(contingency_of(presence, None, chosen))

    selected = places(documents.by_class(gain)) < n
    return np.asarray(selected[0] if len(selected) == 1 else selected)
