"""Learning: a frozen representation, exact class sums, and the checks that keep them consistent."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from surebayes.classifiers.holder import Holder
from surebayes.classifiers.labels import canonical_rows, read_target
from surebayes.classifiers.parameters import Constraints, check_array_of_priors
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.represent import Representation
from surebayes.core.statistics import Statistics
from surebayes.core.sums import SumOverflow


class Learner(BaseEstimator, metaclass=ABCMeta):
    """Base of the classifiers: learning of a frozen representation, then of exact class sums."""

    _parameter_constraints: ClassVar[Constraints] = {}

    # state set by learning
    classes_: NDArray[Any]
    multilabel_: bool
    n_features_in_: int
    representation_: Representation
    statistics_: Statistics
    _holder: Holder

    # ---- hooks of subclasses

    @property
    def _sums(self) -> tuple[str, ...]:
        """The names of the sums to keep."""
        return ("mass",)

    def _check_settings(self) -> None:
        """Raise ValueError for parameters that conflict with each other or with the classes."""

    @abstractmethod
    def _freeze(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None) -> Representation:
        """Fit the representation for scoring."""

    def _trained_on(self) -> Representation:
        """Return the representation for the sums."""
        return self.representation_

    def _frozen(self) -> tuple[Any, ...]:
        """Return all values that are fitted once and then kept."""
        return (self.representation_,)

    @property
    def _class_prior(self) -> Any:
        """The prior: "fit", "uniform" or one probability per class."""
        return getattr(self, "prior", "uniform")

    @property
    def _one_score(self) -> bool:
        return len(self.classes_) == 2 and not self.multilabel_

    @property
    def _contrasts(self) -> list[int]:
        """The classes with separate scores: the second of two, else each."""
        return [1] if self._one_score else list(range(len(self.classes_)))

    # ---- learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to documents: freeze the representation, then sum the documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.
        y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_classes)
            Labels; an indicator (dense or sparse) for multi-label data.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the documents; an integer weight k is equivalent to k copies.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        with restore_on_error(self):
            self._learn(self._read(X, y, None, sample_weight))
        return self

    def fit_representation(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Freeze the representation on these documents without learning them; earlier learning is discarded.

        Parameters are those of `partial_fit`. `empty_copy` shares the frozen representation, so that models trained
        separately can be merged.
        """
        with restore_on_error(self):
            self._start(X, y, classes, sample_weight)
            self._begin()
        return self

    def refit_representation(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Refit the frozen representation on all documents, because the sums change with it.

        Parameters are those of `fit`; the classes don't change.
        """
        check_is_fitted(self)
        with restore_on_error(self):
            self._learn(self._read(X, y, None if self.multilabel_ else self.classes_, sample_weight))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more documents exactly: the sums equal those of one `fit` with the same frozen representation.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`. X may have more columns than before (a growing vocabulary) if nothing frozen depends on
            columns.
        classes : array-like, default=None
            All classes that will ever occur, at the first call; by default those of y.

        Returns
        -------
        self : object
            The classifier.
        """
        with restore_on_error(self):
            if not hasattr(self, "statistics_"):
                documents = self._start(X, y, classes, sample_weight)
                self._begin()
            else:
                documents = self._more(X, y, sample_weight, classes, growing=True)
            delta = self._sum(documents, compact=True)
            if documents.rows.shape[1] > self.n_features_in_:
                self._grow(documents.rows.shape[1])
            with self._named_overflow():
                self.statistics_ += delta
            self._holder.clear()
        return self

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Unlearn documents, exactly; ValueError, with nothing changed, if a sum would become negative.

        Parameters are those of `fit`.
        """
        check_is_fitted(self, "statistics_")
        delta = self._sum(self._more(X, y, sample_weight), compact=True)
        self.statistics_ -= delta
        self._holder.clear()
        return self

    def merge(self, other: Self) -> Self:
        """Add the sums of another classifier, in place.

        Parameters
        ----------
        other : object
            A classifier of the same type, parameters, classes, width and frozen representation (see `empty_copy`).

        Returns
        -------
        self : object
            The classifier.
        """
        check_is_fitted(self, "statistics_")
        if type(other) is not type(self):
            raise ValueError(f"Only another {type(self).__name__} can be merged. Got {type(other).__name__} instead.")
        check_is_fitted(other, "statistics_")
        mine, theirs = self._identity(), other._identity()
        for what in mine:
            if not equal(mine[what], theirs[what]):
                raise ValueError(
                    f"Cannot merge classifiers of different {what}. Freeze one representation with fit_representation, "
                    "train empty_copy() of that classifier on each part of the documents, and merge the copies."
                )
        with self._named_overflow():
            self.statistics_ += other.statistics_
        self._holder.clear()
        return self

    def empty_copy(self) -> Self:
        """Return an untrained classifier with the same parameters, classes and frozen representation.

        Models trained separately from copies of one frozen representation can be merged exactly.

        Examples
        --------
        >>> from surebayes import OpinionPoolNB
        >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]], [1, 0, 1, 0]
        >>> frozen = OpinionPoolNB().fit_representation(X, y)
        >>> here = frozen.empty_copy().partial_fit(X[:2], y[:2])
        >>> there = frozen.empty_copy().partial_fit(X[2:], y[2:])
        >>> here.merge(there).statistics_ == OpinionPoolNB().fit(X, y).statistics_
        True
        """
        check_is_fitted(self, "classes_")
        empty = copy.copy(self)
        empty._holder = Holder()
        empty._begin()
        return empty

    def _identity(self) -> dict[str, Any]:
        """Return the properties that two classifiers must share to be merged."""
        return {
            "parameters": self.get_params(),
            "numbers of features": self.n_features_in_,
            "classes": self.classes_,
            "kinds of labels": self.multilabel_,
            "frozen representations": self._frozen(),
        }

    def _start(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> TrainingDocuments:
        documents = self._read(X, y, classes, sample_weight)
        self._freeze_on(documents)
        return documents

    def _read(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> TrainingDocuments:
        """Validate the input of `fit`, and reset to its classes."""
        self._validate_params()
        rows = self._rows(X, y, reset=True)
        target = read_target(y, None if classes is None else np.asarray(classes), None)
        self._prepare(rows.shape[1], target.classes, target.multilabel)
        return self._documents(rows, target.labels, sample_weight)

    def _prepare(self, n_columns: int, classes: NDArray[Any], multilabel: bool) -> None:
        """Reset to these columns and classes."""
        self._validate_params()
        self.n_features_in_ = n_columns
        self.classes_, self.multilabel_ = classes, multilabel
        self._check_prior()
        self._check_settings()

    def _check_prior(self) -> None:
        if not isinstance(self._class_prior, str):
            check_array_of_priors(self._class_prior, len(self.classes_), self.multilabel_)

    def _freeze_on(self, documents: TrainingDocuments, keep: NDArray[np.bool_] | None = None) -> None:
        with self._named_overflow():
            self.representation_ = self._freeze(documents, keep)
        self._holder = Holder()

    def _begin(self) -> None:
        specific = self._trained_on().class_specific
        self.statistics_ = Statistics.empty(len(self.classes_), self.n_features_in_, self._sums, specific)

    def _learn(self, documents: TrainingDocuments) -> None:
        """Freeze the representation on the documents and sum them."""
        self._freeze_on(documents)
        self.statistics_ = self._sum(documents, compact=False)

    def _more(
        self, X: Any, y: Any, sample_weight: Any, classes: Any = None, growing: bool = False
    ) -> TrainingDocuments:
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} is not the same as on last call to partial_fit: {self.classes_.tolist()}."
            )
        rows = self._rows(X, y, growing=growing)
        target = read_target(y, self.classes_, self.multilabel_)
        return self._documents(rows, target.labels, sample_weight)

    def _rows(self, X: Any, y: Any = None, reset: bool = False, growing: bool = False) -> csr_array:
        if growing and (isinstance(X, (list, tuple)) or hasattr(X, "shape")) and not hasattr(X, "columns"):
            X = np.asarray(X) if isinstance(X, (list, tuple)) else X
            growing = X.ndim == 2 and X.shape[1] > self.n_features_in_
        if growing:
            self._check_growth(X.shape[1])
            X = check_array(X, accept_sparse="csr", dtype="numeric", input_name="X", estimator=self)
        else:
            fewest = 1 if reset else 0  # an empty batch gives an empty result
            X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_min_samples=fewest)
        if y is not None:
            check_consistent_length(X, y)
        return self._counts(X)

    def _counts(self, X: Any) -> csr_array:
        """Return checked input as rows of counts in canonical order."""
        return canonical_rows(X, type(self).__name__)

    def _check_growth(self, columns: int) -> None:
        if not self._grows() or hasattr(self, "feature_names_in_"):
            raise ValueError(
                f"X has {columns} features, but {type(self).__name__} is expecting {self.n_features_in_} features as "
                "input: its frozen values belong to those columns. Use a vectorizer of fixed width (HashingVectorizer, "
                "or a fixed vocabulary), a model without frozen values (MultinomialNB without weight and top, "
                "OpinionPoolNB with weighting='scoring'), or fit again on all documents."
            )

    def _grows(self) -> bool:
        """Return whether columns can be appended: no frozen value depends on the columns or their number."""
        by_column = (self.representation_.weights, self.representation_.ranking, self.representation_.keep)
        return all(array is None for array in by_column) and not self.representation_.pad

    def _grow(self, columns: int) -> None:
        self.statistics_ = self.statistics_.widened(columns)
        self.n_features_in_ = columns

    def _documents(self, rows: csr_array, labels: Any, sample_weight: Any) -> TrainingDocuments:
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
            if not weight.all():  # drop documents of weight 0
                counted = np.flatnonzero(weight)
                rows, labels, weight = rows[counted], labels[counted], weight[counted]
        return TrainingDocuments(rows, labels, len(self.classes_), self._contrasts, weight)

    def _sum(self, documents: TrainingDocuments, compact: bool) -> Statistics:
        with self._named_overflow():
            return documents.statistics(self._trained_on(), self._sums, compact)

    @contextmanager
    def _named_overflow(self) -> Iterator[None]:
        """Name the class in an overflow error of a table."""
        try:
            yield
        except SumOverflow as error:
            row = error.row
            known = row < len(self.classes_)
            name = f"class {self.classes_[row : row + 1].tolist()[0]!r}" if known else "all classes together"
            raise OverflowError(
                f"The sums of {name} would exceed 2**63 units (real-valued sums hold up to 2**23); nothing was "
                "changed. Use integer counts, a norm, or smaller values."
            ) from None

    def _parts(self) -> list[Learner]:
        """Return the classifiers whose state learning may change."""
        return [self]


@contextmanager
def restore_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Restore an estimator's state if learning fails, such as on invalid input."""
    parts = estimator._parts() if isinstance(estimator, Learner) else [estimator]
    before = [(part, vars(part).copy()) for part in parts]
    try:
        yield
    except BaseException:
        for part, state in before:
            part.__dict__.clear()
            part.__dict__.update(state)
        raise


def equal(a: Any, b: Any) -> bool:
    """Return whether two parameters or frozen values are equal; compare arrays and estimators by content."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b))
    if isinstance(a, BaseEstimator) and isinstance(b, BaseEstimator):
        return type(a) is type(b) and equal(a.get_params(), b.get_params())
    return bool(a == b)
