"""Per-class normalisation and the centroid classifier (Frank & Bouckaert 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from surebayes import metrics
from surebayes.classifiers.base import CountClassifier, log_prior_odds
from surebayes.classifiers.parameters import (
    NORM,
    POSITIVE,
    PRIOR,
    SCALE,
    TF,
    UNSEEN,
    WEIGHT,
    Constraints,
    check_weight,
)
from surebayes.classifiers.rates import Columns, RateClassifier
from surebayes.core import cross_validation, estimate, weigh
from surebayes.core.freezing import Recipe, TrainingDocuments, freeze
from surebayes.core.represent import Representation
from surebayes.core.score import Linear
from surebayes.core.statistics import Side, Statistics


class ClassNormalizedNB(RateClassifier):
    """Multinomial Naive Bayes with per-class normalisation for unbalanced classes (Frank & Bouckaert's MNB_PCN).

    Parameters
    ----------
    length : float, "min" or "cv", default=1.0
        The length to which each class's mass is scaled: a number; "min", the smaller length of the two classes
        (PCNmin); or "cv", the best for each class by the area under the ROC curve in cross-validation on the training
        documents.
    tf, weight, norm, scale, smoothing, prior, unseen
        See `surebayes.classifiers`.

    Attributes
    ----------
    length_ : list
        The length of each class against the rest; None means "min".

    Examples
    --------
    >>> from surebayes import ClassNormalizedNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> ClassNormalizedNB(length="min").fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _lengths = (1.0, 10.0, 100.0, 1000.0, 10000.0, None)
    _parameter_constraints: ClassVar[Constraints] = {
        "length": [*POSITIVE, StrOptions({"min", "cv"})],
        "tf": TF,
        "weight": WEIGHT,
        "norm": NORM,
        "scale": SCALE,
        "smoothing": POSITIVE,
        "prior": PRIOR,
        "unseen": UNSEEN,
    }
    length_: list[float | None]

    def __init__(
        self,
        length: float | str = 1.0,
        tf: str = "log",
        weight: Any = "idf_plain",
        norm: str | None = "l2",
        scale: float | str = "mean",
        smoothing: float = 1.0,
        prior: Any = "uniform",
        unseen: str = "smooth",
    ) -> None:
        self.length = length
        self.tf = tf
        self.weight = weight
        self.norm = norm
        self.scale = scale
        self.smoothing = smoothing
        self.prior = prior
        self.unseen = unseen

    def _check_settings(self) -> None:
        check_weight(self, self.weight)
        if self.norm is None and self.scale != 1.0:
            raise ValueError(f"scale={self.scale!r} needs a norm. Set norm='l1' or 'l2', or scale=1.0.")

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        recipe = Recipe(
            tf=self.tf,
            weight=weigh.factors(self.weight),
            norm=self.norm,
            scale=self.scale,
            smoothing=self.smoothing,
        )
        z = self._frozen_by(recipe, documents, keep)
        self.length_ = self._chosen_lengths(documents, z)
        return z

    def _chosen_lengths(self, documents: TrainingDocuments, z: Representation) -> list[float | None]:
        """Frank & Bouckaert, section 4: the length of each class's mass, given or by cross-validation."""
        if not isinstance(self.length, str) or self.length == "min":
            return [None if isinstance(self.length, str) else float(self.length)] * len(documents.contrasts)
        bias = np.zeros(len(documents.contrasts))

        def candidates(statistics: Statistics) -> list[Linear]:
            sides = statistics.contrast(classes=documents.contrasts)
            width = z.width(documents.n_columns)
            rates = [estimate.class_normalised(*sides, length, self.smoothing, width) for length in self._lengths]
            return [Linear.of(z, r.log_odds(), bias) for r in rates]

        sample = documents.sample()
        scores = cross_validation.held_out_scores(sample, z, self._sums, candidates)
        # Scores of several classes are comparable only if their masses have the same length.
        common = len(documents.contrasts) > 1 and not self.multilabel_
        chosen = cross_validation.best_by_class(sample, scores, metrics.roc_auc, default=0, common=common)
        return [self._lengths[k] for k in chosen]

    def _frozen(self) -> tuple[Any, ...]:
        return (self.representation_, self.length_)

    def _rates_of(self, inside: Side, outside: Side) -> estimate.Rates:
        if inside.mass_total is None or outside.mass_total is None:
            raise TypeError("A class-normalised estimate needs the sums of represented rows.")
        shorter = np.minimum(inside.mass_total, outside.mass_total)
        lengths = np.array(
            [(s if s > 0 else 1.0) if length is None else length for length, s in zip(self.length_, shorter)]
        )
        return estimate.class_normalised(inside, outside, lengths, self.smoothing, self._width())


class CentroidClassifier(CountClassifier):
    """A classifier by similarity to the mean vectors of the class and of the rest, both of unit length.

    Frank & Bouckaert, eq. (4).

    Parameters
    ----------
    norm : {"l2", "l1"}, default="l2"
        The norm in which centroids have unit length.
    tf, weight
        See `surebayes.classifiers`; documents are scaled in L2 to the mean length of the training documents.
    prior : {"uniform", "fit"} or array, default="uniform"
        See `surebayes.classifiers`; the log-odds are added to the difference of the similarities.

    Examples
    --------
    >>> from surebayes import CentroidClassifier
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> CentroidClassifier().fit(X, y).predict([[1, 1, 0], [0, 1, 2]]).tolist()
    [1, 0]
    """

    _whole_vocabulary = True
    _parameter_constraints: ClassVar[Constraints] = {
        "norm": [StrOptions({"l1", "l2"})],
        "tf": TF,
        "weight": WEIGHT,
        "prior": PRIOR,
    }

    def __init__(self, norm: str = "l2", tf: str = "log", weight: Any = "idf_plain", prior: Any = "uniform") -> None:
        self.norm = norm
        self.tf = tf
        self.weight = weight
        self.prior = prior

    def _check_settings(self) -> None:
        check_weight(self, self.weight)

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        recipe = Recipe(tf=self.tf, weight=weigh.factors(self.weight), norm="l2", scale="mean")
        return freeze(recipe, documents, keep)

    def _model(self, columns: Columns) -> Linear:
        return self._model_of(self._contrasts)

    def _model_of(self, contrasts: Sequence[int]) -> Linear:
        inside, outside = estimate.unit_centroids(*self.statistics_.contrast(None, contrasts), self.norm)
        bias = log_prior_odds(self)[[self._contrasts.index(c) for c in contrasts]]
        return Linear.of(self.representation_, inside - outside, bias)
