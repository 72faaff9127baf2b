"""Poisson Naive Bayes with weighted terms (Kim, Seo & Rim)."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from surebayes import metrics
from surebayes.classifiers.base import CountClassifier, FloatArray, log_prior_odds
from surebayes.classifiers.parameters import POSITIVE, PRIOR, Constraints, check_weight
from surebayes.classifiers.rates import Columns
from surebayes.core import cross_validation, estimate, score, weigh
from surebayes.core.freezing import TrainingDocuments, contingency_of
from surebayes.core.represent import Representation
from surebayes.core.score import Linear
from surebayes.core.statistics import Statistics


class PoissonNB(CountClassifier):
    """Poisson Naive Bayes with feature weights (Kim, Seo & Rim's PNB, PNB-IG, PNB-CHI, PNB-PrR, PNB*).

    Parameters
    ----------
    weight : default=None
        None (PNB), "ig", "chi2", "ratio", any weight listed in `surebayes.classifiers` ("abs" is the absolute log ratio
        of means), or "auto": the best for each class by break-even point in cross-validation on the training documents;
        a class of few documents gets "chi2", as the paper advises (PNB*). Weights are recomputed from the current sums.
    interpolation : float or "auto", default=0.8
        The paper's alpha: 1 weights documents equally, 0 by length; "auto" chooses for each class.
    theta : float, default=0.003
        The number added to every count of every document.
    ratio : {"documents", "means"}, default="documents"
        Whether "ratio" compares document shares or Poisson means.
    prior
        See `surebayes.classifiers`.

    Attributes
    ----------
    weight_, interpolation_ : list
        The values in use for each class.

    Examples
    --------
    >>> from surebayes import PoissonNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> PoissonNB(weight="ratio").fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _whole_vocabulary = True
    _weights = (None, "ig", "chi2", "ratio")
    _interpolations = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
    _parameter_constraints: ClassVar[Constraints] = {
        "weight": [None, StrOptions({"auto", *weigh.NAMES}), tuple, list],
        "interpolation": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "theta": POSITIVE,
        "ratio": [StrOptions({"documents", "means"})],
        "prior": PRIOR,
    }
    weight_: list[Any]
    interpolation_: list[Any]

    def __init__(
        self,
        weight: Any = None,
        interpolation: float | str = 0.8,
        theta: float = 0.003,
        ratio: str = "documents",
        prior: Any = "uniform",
    ) -> None:
        self.weight = weight
        self.interpolation = interpolation
        self.theta = theta
        self.ratio = ratio
        self.prior = prior

    def _check_settings(self) -> None:
        check_weight(self, self.weight)

    @property
    def _sums(self) -> tuple[str, ...]:
        plain = self.weight in (None, "uniform", "abs") or (self.weight == "ratio" and self.ratio == "means")
        return ("mass", "counts") if plain else ("mass", "counts", "presence")

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        z = Representation("count", norm="l1", pad=self.theta * documents.n_columns, keep=keep)
        c = len(documents.contrasts)
        self.weight_, self.interpolation_ = [self.weight] * c, [self.interpolation] * c
        if "auto" in (self.weight, self.interpolation):
            self._choose(documents.sample(), z)
        return z

    def _choose(self, documents: TrainingDocuments, z: Representation) -> None:
        """Kim, Seo & Rim, section 5: choose the weight and the interpolation of each class automatically."""
        weights = self._weights if self.weight == "auto" else (self.weight,)
        alphas = self._interpolations if self.interpolation == "auto" else (self.interpolation,)
        pairs = [(w, a) for w in weights for a in alphas]
        c = len(documents.contrasts)

        def candidates(statistics: Statistics) -> list[Linear]:
            return [self._linear(statistics, z, documents.contrasts, [w] * c, [a] * c, np.zeros(c)) for w, a in pairs]

        rare = "chi2" if self.weight == "auto" else self.weight
        usual = "ratio" if self.weight == "auto" else self.weight
        alpha = 0.8 if self.interpolation == "auto" else self.interpolation
        scores = cross_validation.held_out_scores(documents, z, self._sums, candidates)
        chosen = cross_validation.best_by_class(
            documents,
            scores,
            metrics.break_even,
            lambda n: pairs.index((rare if n < cross_validation.MIN_DOCUMENTS else usual, alpha)),
        )
        self.weight_ = [pairs[k][0] for k in chosen]
        self.interpolation_ = [pairs[k][1] for k in chosen]

    def _frozen(self) -> tuple[Any, ...]:
        return (self.representation_, self.weight_, self.interpolation_)

    def _linear(
        self,
        statistics: Statistics,
        z: Representation,
        contrasts: Sequence[int],
        weights: Sequence[Any],
        alphas: Sequence[Any],
        prior: FloatArray,
    ) -> Linear:
        inside, outside = statistics.contrast(None, contrasts)
        v = statistics.n_columns
        alpha = np.asarray(alphas, float)
        means = (
            estimate.poisson_means(inside, self.theta, alpha, v),
            estimate.poisson_means(outside, self.theta, alpha, v),
        )
        worth = self._worth(statistics, contrasts, weights, means)
        coefficients, constant = score.poisson_terms(means[0], means[1], worth)
        return Linear.of(z, coefficients, constant + prior)

    def _worth(
        self,
        statistics: Statistics,
        contrasts: Sequence[int],
        weights: Sequence[Any],
        means: tuple[FloatArray, FloatArray],
    ) -> FloatArray | None:
        """Return the term weights of each class, (C, V); None if all are equal."""
        if not any(weigh.factors(w) for w in weights):
            return None
        table = contingency_of(statistics, None, contrasts) if statistics.presence is not None else None
        worth = np.ones_like(means[0])
        for name in set(weights):
            rows = [k for k, w in enumerate(weights) if w == name]
            product: FloatArray | None
            if name == "ratio" and self.ratio == "means":
                product = weigh.probability_ratio(*means)
            else:
                product = weigh.product(weigh.factors(name), table, np.abs(np.log(means[0]) - np.log(means[1])))
            if product is not None:
                worth[rows] = np.broadcast_to(product, worth.shape)[rows]
        return worth

    def _model(self, columns: Columns) -> Linear:
        return self._model_of(self._contrasts)

    def _model_of(self, contrasts: Sequence[int]) -> Linear:
        places = [self._contrasts.index(c) for c in contrasts]
        weights, alphas = ([each[k] for k in places] for each in (self.weight_, self.interpolation_))
        prior = log_prior_odds(self)[places]
        return self._linear(self.statistics_, self.representation_, contrasts, weights, alphas, prior)
