"""Discriminative term weights and a line between two opinion pools (Junejo & Karim 2008)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils._param_validation import StrOptions

from surebayes.classifiers.base import CountClassifier, FloatArray
from surebayes.classifiers.parameters import NORM, NOT_NEGATIVE, POSITIVE, TF, Constraints, check_weight
from surebayes.classifiers.rates import Columns
from surebayes.core import cross_validation, score, weigh
from surebayes.core.decide import bias_of_least_error, slope_of_least_error
from surebayes.core.freezing import TrainingDocuments, contingency_of
from surebayes.core.represent import Representation
from surebayes.core.score import Linear


class TermDiscriminant(CountClassifier):
    """Discriminative term weights, two linear opinion pools and a line between them (Junejo & Karim's DTWC).

    Parameters
    ----------
    weight : {"odds", "log_odds", "kl", ...}, default="log_odds"
        The discriminative weight (DTWC-O, -LO, -KL), or any weight listed in `surebayes.classifiers` except "abs".
    min_weight : float, default=0.0
        The minimum of the selected quantity; terms below it are dropped.
    select : {"weight", "difference"}, default="weight"
        The quantity compared with `min_weight`: the weight, or |a - b|, the difference of document shares.
    fit_bias : bool, default=False
        Whether the line has an intercept, which is fitted after the slope.
    slope : "fit" or float, default="fit"
        The slope of the line; "fit" minimizes the training error exactly, by sorting once.
    tf, norm
        See `surebayes.classifiers`; without a norm, with log-odds and slope 1, the score is that of Bernoulli-style
        Naive Bayes over the terms present, without a prior.

    Attributes
    ----------
    slope_, bias_ : ndarray
        The line of each class.

    Examples
    --------
    >>> from surebayes import TermDiscriminant
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> TermDiscriminant(weight="kl").fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "weight": [StrOptions(set(weigh.NAMES) - {"abs", "abs_idf"}), tuple, list],
        "min_weight": NOT_NEGATIVE,
        "select": [StrOptions({"weight", "difference"})],
        "fit_bias": ["boolean"],
        "slope": [*POSITIVE, StrOptions({"fit"})],
        "tf": TF,
        "norm": NORM,
    }
    slope_: FloatArray
    bias_: FloatArray

    def __init__(
        self,
        weight: Any = "log_odds",
        min_weight: float = 0.0,
        select: str = "weight",
        fit_bias: bool = False,
        slope: float | str = "fit",
        tf: str = "binary",
        norm: str | None = "l1",
    ) -> None:
        self.weight = weight
        self.min_weight = min_weight
        self.select = select
        self.fit_bias = fit_bias
        self.slope = slope
        self.tf = tf
        self.norm = norm

    def _check_settings(self) -> None:
        check_weight(self, self.weight)
        if "abs" in weigh.factors(self.weight):
            raise ValueError(
                "The 'weight' parameter of TermDiscriminant must be a weight from document frequencies, such as "
                f"'log_odds' in place of 'abs'. Got {self.weight!r} instead."
            )

    @property
    def _sums(self) -> tuple[str, ...]:
        return ("presence",)

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        z = Representation(self.tf, norm=self.norm, keep=keep)
        c = len(documents.contrasts)
        self.slope_ = np.ones(c) if self.slope == "fit" else np.full(c, float(self.slope))
        self.bias_ = np.zeros(c)
        if self.slope == "fit" or self.fit_bias:
            self._fit_line(documents, z)
        return z

    def _fit_line(self, documents: TrainingDocuments, z: Representation) -> None:
        presence, sample = documents.presence(), documents.sample()
        rows = csr_array((z(sample.rows), sample.rows.indices, sample.rows.indptr), shape=sample.rows.shape)
        members = cross_validation.membership(sample)
        for c, contrast in enumerate(documents.contrasts):
            weights, favours = self._weigh(contingency_of(presence, None, [contrast]))
            plus, minus = rows @ (weights[0] * favours[0]), rows @ (weights[0] * ~favours[0])
            if self.slope == "fit":
                self.slope_[c] = slope_of_least_error(plus, minus, members[:, c], sample.weight)
            if self.fit_bias:
                line = self.slope_[c] * plus - minus
                self.bias_[c] = bias_of_least_error(line, members[:, c], sample.weight)

    def _weigh(self, table: weigh.Contingency) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Junejo & Karim, eq. (1): find the side that each term favours, weight it, drop weak terms."""
        a, b = table.shares()
        weights = weigh.product(weigh.factors(self.weight), table)
        weights = np.ones_like(a) if weights is None else np.broadcast_to(weights, a.shape)
        compared = weights if self.select == "weight" else np.abs(a - b)
        return np.where(compared >= self.min_weight, weights, 0.0), a > b

    def _frozen(self) -> tuple[Any, ...]:
        return (self.representation_, self.slope_, self.bias_)

    def _model(self, columns: Columns) -> Linear:
        weights, favours = self._weigh(contingency_of(self.statistics_, columns, self._contrasts))
        z = self.representation_ if columns is None else self.representation_.at(columns)
        return Linear.of(z, score.opinion_pools(weights, favours, self.slope_), self.bias_)
