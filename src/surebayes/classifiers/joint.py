"""Joint log-likelihood models: scikit-learn's ComplementNB and BernoulliNB on exact sums.

Each class has its own joint log-likelihood, linear in the row of counts. The score of `decision_function` is the
posterior log-odds log p_c / (1 - p_c), which is comparable across documents; joint log-likelihoods are not, because
they decrease with every term of the document.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.preprocessing import binarize
from sklearn.utils._param_validation import Interval

from surebayes.classifiers.base import CountClassifier, FloatArray, own_columns
from surebayes.classifiers.labels import canonical_rows
from surebayes.classifiers.parameters import Constraints
from surebayes.core import score
from surebayes.core.estimate import MIN_RATE, log_rates, with_pseudo_counts
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.represent import Representation, spread
from surebayes.core.score import Linear
from surebayes.core.statistics import Side

Columns = NDArray[np.int64] | None

ALPHA_MIN = 1e-10
"""The minimum pseudo-count unless `force_alpha` is set."""


class JointClassifier(CountClassifier):
    """Base of classifiers with a joint log-likelihood per class and scikit-learn's parameters."""

    alpha: Any
    force_alpha: bool
    fit_prior: Any
    class_prior: Any
    _joint_constraints: ClassVar[Constraints] = {
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "force_alpha": ["boolean"],
        "fit_prior": ["boolean"],
        "class_prior": ["array-like", None],
    }

    @abstractmethod
    def _joint(self, columns: Columns) -> Linear:
        """Build the joint log-likelihood of each class, (K, columns)."""

    def _competes(self) -> bool:
        """Return whether classes compete by joint log-likelihood: more than two, not each against the rest."""
        return not self._one_score

    def _check_settings(self) -> None:
        if self.multilabel_:
            raise ValueError(
                f"{type(self).__name__} takes one label per document. Got a multi-label indicator: use "
                "MultinomialNB(contrast='rest'), OpinionPoolNB or another classifier that sets each label against the "
                "rest."
            )
        self._check_alpha()

    # ---- alpha and priors, as in scikit-learn

    def _check_prior(self) -> None:
        if self.class_prior is None:
            super()._check_prior()
            return
        prior = np.asarray(self.class_prior, float)
        if prior.shape != (len(self.classes_),):
            raise ValueError(
                f"Number of priors must match number of classes: got class_prior={self.class_prior!r} for "
                f"{len(self.classes_)} classes."
            )
        if not ((prior > 0) & np.isfinite(prior)).all():
            raise ValueError(f"class_prior must be positive. Got {self.class_prior!r}.")

    def _check_alpha(self) -> Any:
        """Return the pseudo-counts, a number or one per feature, clipped unless `force_alpha` is set."""
        alpha: Any = self.alpha if isinstance(self.alpha, Real) else np.asarray(self.alpha)
        if isinstance(alpha, np.ndarray):
            if alpha.shape != (self.n_features_in_,):
                raise ValueError(
                    "When alpha is an array, it should contains `n_features` values: one pseudo-count for each of "
                    f"{self.n_features_in_}. Got shape {alpha.shape}."
                )
            if (alpha < 0).any():
                raise ValueError(f"All values in alpha must be greater than 0. Got {alpha.min()}.")
        if np.min(alpha) < ALPHA_MIN and not self.force_alpha:
            warnings.warn(
                f"alpha too small will result in numeric errors, setting alpha = {ALPHA_MIN:.1e}. Use "
                "`force_alpha=True` to keep alpha unchanged.",
                stacklevel=2,
            )
            return np.maximum(alpha, ALPHA_MIN)
        return alpha

    def _pseudo_counts(self, columns: Columns) -> tuple[Any, float]:
        """Return the columns' pseudo-counts, and their total over all columns."""
        alpha = self.alpha if self.force_alpha else np.maximum(self.alpha, ALPHA_MIN)
        if isinstance(alpha, Real):
            return float(alpha), float(alpha) * self._columns_counted()
        return np.asarray(alpha, float)[slice(None) if columns is None else columns], float(np.sum(alpha))

    def _columns_counted(self) -> float:
        return float(self.n_features_in_)

    def _grows(self) -> bool:
        return isinstance(self.alpha, Real) and super()._grows()

    @property
    def _class_prior(self) -> Any:
        if self.class_prior is not None:
            return np.asarray(self.class_prior, float)
        return "fit" if self.fit_prior else "uniform"

    def _joint_prior(self, documents: FloatArray) -> FloatArray:
        """Return the logarithm of each class's prior; 0 for a class without documents, which is excluded."""
        prior = self._class_prior
        if not isinstance(prior, str):
            return np.asarray(np.log(np.asarray(prior, float)), np.float64)
        if prior == "uniform":
            return np.full(len(documents), -np.log(len(documents)))
        seen = documents > 0
        return np.where(seen, np.log(np.where(seen, documents, 1.0)) - np.log(max(documents.sum(), 1e-300)), 0.0)

    # ---- scores

    def _model(self, columns: Columns) -> Linear:
        joint = self._joint(columns)
        if not self._one_score:
            return joint
        log_odds = joint.log_odds[[1]] - joint.log_odds[[0]]
        return Linear.of(joint.represent, log_odds, joint.bias[[1]] - joint.bias[[0]])

    def _model_of(self, contrasts: Sequence[int]) -> Linear:
        model = self._model(None)
        places = [self._contrasts.index(c) for c in contrasts]
        return Linear.of(model.represent, model.log_odds[places], model.bias[places])

    @property
    def _decide(self) -> Callable[[FloatArray], FloatArray] | None:
        return score.posterior_log_odds if self._competes() and len(self.classes_) > 1 else None

    def predict_joint_log_proba(self, X: Any) -> FloatArray:
        """Return the joint log-likelihood of each document and class, log P(c) + log P(x | c).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            As in scikit-learn; -inf for a class without documents.
        """
        self._check_learnt()
        rows = self._rows(X)
        if self._whole_vocabulary:
            joint = self._joint(None).scores(rows)
        else:
            columns, compact = own_columns(rows)
            joint = self._joint(columns).scores(compact)
        joint[:, ~self._possible()] = -np.inf
        return joint

    def _shares(self, model: Linear, compact: csr_array, rows: csr_array) -> list[tuple[FloatArray, FloatArray]]:
        """Return each term's evidence for a class against the remaining ones, weighted by their posterior shares."""
        if not self._competes() or len(self.classes_) == 1:
            return super()._shares(model, compact, rows)
        joint = self._masked(model.scores(compact))
        decided = self._decided(joint)
        values, result = model.represent(compact), []
        log_odds = model.log_odds[:, compact.indices]
        for c in range(len(self.classes_)):
            others = score.shares_of_the_rest(joint, c)
            against = sum(spread(others[:, k], compact) * log_odds[k] for k in range(len(log_odds)) if k != c)
            shares = values * (log_odds[c] - against)
            total = np.bincount(spread(np.arange(len(joint)), compact), shares, len(joint))
            result.append((shares, decided[:, c] - total))
        return result

    # ---- scikit-learn's names for sums and estimates

    def _side(self) -> Side:
        if "statistics_" not in vars(self):
            raise AttributeError(f"This {type(self).__name__} has no sums yet. Call fit first.")
        return self.statistics_.contrast()[0]

    @property
    def class_count_(self) -> FloatArray:
        """The (weighted) number of documents of each class."""
        return self._side().documents

    @property
    def class_log_prior_(self) -> FloatArray:
        """The logarithm of each class's prior; -inf for a class without documents if priors are fitted."""
        documents = self._side().documents
        fitted = isinstance(self._class_prior, str) and self._class_prior == "fit"
        return np.where(fitted & (documents == 0), -np.inf, self._joint_prior(documents))

    @property
    def feature_count_(self) -> FloatArray:
        """The sum of each term over each class's documents."""
        counted = self._side()
        table = counted.mass if counted.mass is not None else counted.presence
        return np.asarray(table, np.float64)

    @property
    def feature_log_prob_(self) -> FloatArray:
        """The contribution of one unit of each term to each class's joint log-likelihood."""
        self._side()
        return self._joint(None).log_odds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = False
        return tags


class ComplementNB(JointClassifier):
    """Complement Naive Bayes (Rennie et al. 2003), as in scikit-learn, with exact `forget` and `merge`.

    The score of a class grows as the document fits the other classes worse.

    Parameters
    ----------
    alpha : float or array-like of shape (n_features,), default=1.0
        Pseudo-counts added to every sum; 0 for none.
    force_alpha : bool, default=True
        Whether to keep an alpha below 1e-10.
    fit_prior : bool, default=True
        Whether priors are fitted; used only with a single class.
    class_prior : array-like of shape (n_classes,), default=None
        Prior probabilities; not used in scores.
    norm : bool, default=False
        Whether to divide each class's weights by their sum.

    Examples
    --------
    >>> from surebayes import ComplementNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], ["spam", "ham", "spam", "ham"]
    >>> ComplementNB().fit(X, y).predict([[1, 1, 0]]).tolist()
    ['spam']
    """

    norm: bool
    _parameter_constraints: ClassVar[Constraints] = {**JointClassifier._joint_constraints, "norm": ["boolean"]}

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        fit_prior: bool = True,
        class_prior: Any = None,
        norm: bool = False,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.norm = norm

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        return Representation("count", keep=keep)

    @property
    def _whole_vocabulary(self) -> bool:  # type: ignore[override]
        return self.norm  # a class's weights are summed over all terms

    def _joint(self, columns: Columns) -> Linear:
        _, others = self.statistics_.contrast(columns, range(len(self.classes_)))
        logs = log_rates(*with_pseudo_counts(others, *self._pseudo_counts(columns), self._columns_counted()))
        if self.norm:
            size = logs.sum(axis=1, keepdims=True)
            weights = np.divide(logs, size, out=np.zeros_like(logs), where=size != 0)
        else:
            weights = -logs
        inside = self.statistics_.documents_by_class()
        bias = self._joint_prior(inside) if len(inside) == 1 else np.zeros(len(inside))
        return Linear.of(self.representation_, weights, bias)

    @property
    def feature_all_(self) -> FloatArray:
        """The sum of each term over all documents."""
        counted = self._side()
        return np.asarray(np.asarray(counted.mass, np.float64).sum(axis=0))


class BernoulliNB(JointClassifier):
    """Bernoulli Naive Bayes, as in scikit-learn, with exact `forget` and `merge`.

    Absent terms are evidence, too.

    Parameters
    ----------
    alpha : float or array-like of shape (n_features,), default=1.0
        Pseudo-counts added to the documents with a term and to those without it; 0 for none.
    force_alpha : bool, default=True
        Whether to keep an alpha below 1e-10.
    binarize : float or None, default=0.0
        A term is present if its count exceeds this; None requires X of 0 and 1.
    fit_prior : bool, default=True
        Whether priors are fitted to the shares of documents; otherwise they are uniform.
    class_prior : array-like of shape (n_classes,), default=None
        Prior probabilities.

    Examples
    --------
    >>> from surebayes import BernoulliNB
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], ["spam", "ham", "spam", "ham"]
    >>> BernoulliNB().fit(X, y).predict([[1, 1, 0]]).tolist()
    ['spam']
    """

    _whole_vocabulary = True
    _parameter_constraints: ClassVar[Constraints] = {
        **JointClassifier._joint_constraints,
        "binarize": [None, Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        alpha: Any = 1.0,
        force_alpha: bool = True,
        binarize: float | None = 0.0,
        fit_prior: bool = True,
        class_prior: Any = None,
    ) -> None:
        self.alpha = alpha
        self.force_alpha = force_alpha
        self.binarize = binarize
        self.fit_prior = fit_prior
        self.class_prior = class_prior

    @property
    def _sums(self) -> tuple[str, ...]:
        return ("presence",)

    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        return Representation("binary", keep=keep)

    def _counts(self, X: Any) -> csr_array:
        if self.binarize is not None:
            X = binarize(X, threshold=self.binarize) if X.shape[0] else X  # binarize rejects empty input
            return canonical_rows(X, type(self).__name__)
        rows = canonical_rows(X, type(self).__name__)
        if not (rows.data == 1).all():
            raise ValueError("With binarize=None, X must have only the values 0 and 1. Set binarize=0.0 for counts.")
        return rows

    def _joint(self, columns: Columns) -> Linear:
        inside, _ = self.statistics_.contrast(None, range(len(self.classes_)))
        added, _ = self._pseudo_counts(None)
        if inside.presence is None:
            raise TypeError("Bernoulli Naive Bayes needs the sums of presence.")
        with_term, documents = inside.presence + added, (inside.documents[:, None] + 2 * np.asarray(added))
        documents = np.maximum(documents, 2 * MIN_RATE)
        there = log_rates(np.maximum(with_term, MIN_RATE), documents)
        absent = log_rates(np.maximum(documents - with_term, MIN_RATE), documents)
        bias = self._joint_prior(inside.documents) + absent.sum(axis=1)
        return Linear.of(self.representation_, there - absent, bias)

    @property
    def feature_log_prob_(self) -> FloatArray:
        """The logarithm of each term's document share in each class."""
        side = self._side()
        added, _ = self._pseudo_counts(None)
        with_term = np.asarray(side.presence, np.float64) + added
        documents = np.maximum(side.documents[:, None] + 2 * np.asarray(added), 2 * MIN_RATE)
        return log_rates(np.maximum(with_term, MIN_RATE), documents)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False
        return tags
