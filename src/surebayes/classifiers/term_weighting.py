"""Document representations of the papers as a transformer for any classifier."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from surebayes.classifiers.labels import canonical_rows, read_target
from surebayes.classifiers.parameters import (
    NORM,
    STEEPNESS,
    TF,
    TOP,
    WEIGHT,
    Constraints,
    check_top,
    check_weight,
    top_of,
)
from surebayes.core import weigh
from surebayes.core.freezing import Recipe, TrainingDocuments, freeze
from surebayes.core.represent import Representation


class TermWeighting(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """A transformer of counts to the papers' document representations, for any scikit-learn classifier.

    With a supervised weight and more than two classes, each term gets its largest weight over the classes.

    Parameters
    ----------
    tf, weight, steepness, top, norm
        See `surebayes.classifiers`; "abs" uses the uniform L1 pool with smoothing 0.01.

    Attributes
    ----------
    representation_ : Representation
        The frozen function from counts to rows.

    Examples
    --------
    >>> from surebayes import TermWeighting
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
    >>> TermWeighting(weight="idf").fit_transform(X).toarray().round(3).tolist()[0]
    [0.5, 0.5, 0.0]
    >>> TermWeighting(weight="abs").fit(X, y).transform(X).toarray().round(3).tolist()[0]
    [1.0, 0.0, 0.0]
    """

    _parameter_constraints: ClassVar[Constraints] = {
        "tf": TF,
        "weight": WEIGHT,
        "steepness": STEEPNESS,
        "top": TOP,
        "norm": NORM,
    }
    representation_: Representation

    def __init__(
        self,
        tf: str = "binary",
        weight: Any = "abs_idf",
        steepness: float | None = None,
        top: Any = None,
        norm: str | None = "l1",
    ) -> None:
        self.tf = tf
        self.weight = weight
        self.steepness = steepness
        self.top = top
        self.norm = norm

    def _needs_labels(self) -> bool:
        ranking = top_of(self.top)[1]
        return weigh.is_supervised(self.weight) or (self.top is not None and ranking not in weigh.UNSUPERVISED)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit weights and ranking; y is needed for supervised weights and for `top`."""
        self._validate_params()
        check_weight(self, self.weight)
        check_top(self, self.top)
        X = validate_data(self, X, accept_sparse="csr", dtype="numeric")
        rows = canonical_rows(X, type(self).__name__)
        if y is None:
            if self._needs_labels():
                raise ValueError(
                    f"requires y to be passed, but the target y is None: weight={self.weight!r} and top={self.top!r} "
                    "are learnt from labels. Pass y, or use an unsupervised weight such as 'idf'."
                )
            y = np.zeros(rows.shape[0], int)
        target = read_target(y, None, None)
        k = len(target.classes)
        contrasts = [1] if k == 2 and not target.multilabel else list(range(k))
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
        documents = TrainingDocuments(rows, target.labels, k, contrasts, weight)
        top, ranking = top_of(self.top)
        recipe = Recipe(
            tf=self.tf,
            weight=weigh.factors(self.weight),
            steepness=self.steepness,
            top=top,
            ranking=ranking,
            norm=self.norm,
            smoothing=0.01,
            collapse=True,
        )
        self.representation_ = freeze(recipe, documents)
        return self

    def transform(self, X: Any) -> csr_array:
        """Represent documents as rows of a CSR matrix."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric", ensure_min_samples=0)
        rows = canonical_rows(X, type(self).__name__)
        z = csr_array((self.representation_(rows), rows.indices.copy(), rows.indptr.copy()), shape=rows.shape)
        z.eliminate_zeros()
        return z

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.target_tags.required = self._needs_labels()
        return tags
