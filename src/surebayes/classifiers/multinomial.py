"""Multinomial Naive Bayes: scikit-learn's by default; its parameters give the NB and NB-IR of the papers."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from surebayes.classifiers.joint import ALPHA_MIN, Columns, JointClassifier
from surebayes.classifiers.parameters import (
    NORM,
    POSITIVE,
    PRIOR,
    SCALE,
    SELECTION,
    STEEPNESS,
    TF,
    TOP,
    UNSEEN,
    WEIGHT,
    Constraints,
    check_top,
    check_weight,
    top_of,
)
from surebayes.classifiers.rates import RateClassifier
from surebayes.core import estimate, weigh
from surebayes.core.freezing import Recipe, TrainingDocuments
from surebayes.core.represent import Representation
from surebayes.core.score import Linear
from surebayes.core.statistics import Side

ONLY_BINARY = "Only binary classification is supported. The type of the target is multiclass."
"""The message that scikit-learn's checks expect from binary-only classifiers."""


class MultinomialNB(JointClassifier, RateClassifier):
    """Multinomial Naive Bayes: scikit-learn's by default; its parameters give NB and NB-IR of Kolcz & Yih.

    Parameters
    ----------
    tf, weight, steepness, top, selection, norm, scale, smoothing, prior
        See `surebayes.classifiers`.
    contrast : {"joint", "rest"}, default="joint"
        Scores for more than two classes. "joint": classes compete by joint log-likelihood, and the score is the
        posterior log-odds log p_c / (1 - p_c). "rest": log-odds of each class against the rest. Supervised weights,
        `top` and multi-label data need "rest"; for two classes both are the same.
    alpha : float or array-like of shape (n_features,), default=None
        scikit-learn's name for `smoothing`; may be one per feature, or 0.
    fit_prior, class_prior : bool and array-like, default=None
        scikit-learn's names for `prior`: "fit" or "uniform", and an array.
    force_alpha : bool, default=True
        Whether to keep an alpha below 1e-10.
    unseen : {"smooth", "ignore"}, default="smooth"
        See `surebayes.classifiers`.

    Attributes
    ----------
    class_count_, class_log_prior_, feature_count_, feature_log_prob_ : ndarray
        Sums and estimates by scikit-learn's names, computed on access.

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

    _parameter_constraints: ClassVar[Constraints] = {
        "tf": TF,
        "weight": WEIGHT,
        "steepness": STEEPNESS,
        "top": TOP,
        "selection": SELECTION,
        "norm": NORM,
        "scale": SCALE,
        "smoothing": POSITIVE,
        "prior": PRIOR,
        "contrast": [StrOptions({"joint", "rest"})],
        "alpha": [None, Interval(Real, 0, None, closed="left"), "array-like"],
        "force_alpha": ["boolean"],
        "fit_prior": [None, "boolean"],
        "class_prior": [None, "array-like"],
        "unseen": UNSEEN,
    }

    def __init__(
        self,
        tf: str = "count",
        weight: Any = None,
        steepness: float | None = None,
        top: Any = None,
        selection: str = "induction",
        norm: str | None = None,
        scale: float | str = 1.0,
        smoothing: float = 1.0,
        prior: Any = "fit",
        contrast: str = "joint",
        *,
        alpha: Any = None,
        force_alpha: bool = True,
        fit_prior: bool | None = None,
        class_prior: Any = None,
        unseen: str = "smooth",
    ) -> None:
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
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.unseen = unseen

    def _check_settings(self) -> None:
        check_weight(self, self.weight)
        check_top(self, self.top)
        if self.norm is None and self.scale != 1.0:
            raise ValueError(f"scale={self.scale!r} needs a norm. Set norm='l1' or 'l2', or scale=1.0.")
        if self.contrast == "joint":
            if self.multilabel_:
                raise ValueError("Multi-label y needs contrast='rest', which scores each label against the rest.")
            if len(self.classes_) > 2 and self._needs_one_against_rest():
                raise ValueError(
                    f"{ONLY_BINARY} Supervised weights and top need one class against the rest. Set contrast='rest' "
                    "for more than two classes."
                )
        self._check_aliases()

    def _check_aliases(self) -> None:
        """Reject a setting that is given under both of its names."""
        if self.alpha is not None:
            if self.smoothing != 1.0:
                raise ValueError(
                    f"alpha and smoothing are two names of one setting. Got alpha={self.alpha!r} and "
                    f"smoothing={self.smoothing!r}. Give one of them."
                )
            self._check_alpha()
        aliases = [name for name in ("fit_prior", "class_prior") if getattr(self, name) is not None]
        if aliases and not (isinstance(self.prior, str) and self.prior == "fit"):
            raise ValueError(
                f"{' and '.join(aliases)} and prior are names of one setting. Got prior={self.prior!r}, too. Pass one."
            )

    @property
    def _class_prior(self) -> Any:
        if self.fit_prior is None and self.class_prior is None:
            return self.prior
        return self.class_prior if self.class_prior is not None else "fit" if self.fit_prior else "uniform"

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
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
        return self._frozen_by(recipe, documents, keep)

    def _trained_on(self) -> Representation:
        z = self.representation_
        return replace(z, top=None, ranking=None) if self.selection == "posthoc" else z

    def _competes(self) -> bool:
        return self.contrast == "joint" and not self._one_score

    def _pseudo_counts(self, columns: Columns) -> tuple[Any, Any]:
        alpha = self.smoothing if self.alpha is None else self.alpha
        if not self.force_alpha:
            alpha = np.maximum(alpha, ALPHA_MIN)
        if np.ndim(alpha) == 0:
            return float(alpha), float(alpha) * self._width()
        return np.asarray(alpha, float)[slice(None) if columns is None else columns], float(np.sum(alpha))

    def _with_pseudo_counts(self, side: Side, columns: Columns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return estimate.with_pseudo_counts(side, *self._pseudo_counts(columns), self._width())

    def _grows(self) -> bool:
        return np.ndim(self.alpha) == 0 and RateClassifier._grows(self)

    def _rates(self, columns: Columns) -> estimate.Rates:
        if self.alpha is None:
            return super()._rates(columns)
        inside, outside = self.statistics_.contrast(columns, self._contrasts)
        sides = [self._with_pseudo_counts(side, columns) for side in (inside, outside)]
        return estimate.Rates(sides[0][0], sides[1][0], sides[0][1], sides[1][1])

    def _joint(self, columns: Columns) -> Linear:
        if self.multilabel_ or self.representation_.class_specific:
            raise ValueError(
                "There is no joint likelihood for labels, or with a representation for each class. Set "
                "contrast='joint'."
            )
        inside, _ = self.statistics_.contrast(columns)
        rates = estimate.log_rates(*self._with_pseudo_counts(inside, columns))
        return Linear.of(self._scoring(columns), rates, self._joint_prior(inside.documents))

    def _model(self, columns: Columns) -> Linear:
        return self._joint(columns) if self._competes() else RateClassifier._model(self, columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self._scores_against_rest
        tags.classifier_tags.multi_class = self._scores_against_rest or not self._needs_one_against_rest()
        return tags

    @property
    def _scores_against_rest(self) -> bool:
        return self.contrast == "rest"

    def _needs_one_against_rest(self) -> bool:
        """Whether the representation needs one class against the rest."""
        return self.top is not None or weigh.is_supervised(self.weight)

    def _check_one_against_rest(self) -> None:
        if self._competes():
            raise ValueError(
                f"{ONLY_BINARY} A reversal needs one class against the rest. Set contrast='rest' for more than two "
                "classes."
            )
