"""What the classifiers share: the scikit-learn face of statistics -> estimate -> score -> decide.

A subclass says which sums it keeps, how it freezes a representation, and how sums become a linear model; learning,
forgetting, merging, scoring and explaining are here, once.
"""

from __future__ import annotations

import threading
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from surebayes.core import estimate, score
from surebayes.core.decide import predict_argmax
from surebayes.core.freezing import Documents
from surebayes.core.represent import Representation
from surebayes.core.score import NEVER, Linear
from surebayes.core.statistics import Statistics
from surebayes.core.sums import SumOverflow
from surebayes.estimators.parameters import Rule, check_parameters

FULL_ENTRIES = 1 << 25
"""An estimate of more entries (classes x terms) than this is never built whole, only for the terms at hand."""


class _Holder:
    """The current estimate, built when first needed, by one thread only; it is not copied or pickled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._model: Any = None

    def get(self, build: Callable[[], Any]) -> Any:
        model = self._model
        if model is None:
            with self._lock:
                if self._model is None:
                    self._model = build()
                model = self._model
        return model

    @property
    def filled(self) -> bool:
        return self._model is not None

    def clear(self) -> None:
        self._model = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Holder, ()


@dataclass(frozen=True, slots=True)
class _Target:
    """Labels as the sums want them: class numbers, or an indicator for multi-label data."""

    classes: np.ndarray
    labels: Any
    multilabel: bool


def read_target(y: Any, classes: np.ndarray | None, multilabel: bool | None) -> _Target:
    """Turn y into class numbers or an indicator; refuse labels that are not among the known classes."""
    if y is None:
        raise ValueError("y can't be None: this classifier requires y to be passed, but the target y is None.")
    check_classification_targets(y)
    if type_of_target(y).startswith("multilabel"):
        indicator = csr_array(y)
        indicator.eliminate_zeros()
        if multilabel is False:
            raise ValueError("y is a multi-label indicator, but the classifier has learnt single labels.")
        if classes is not None and indicator.shape[1] != len(classes):
            raise ValueError(f"y has {indicator.shape[1]} label columns, but the classifier knows {len(classes)}.")
        return _Target(np.arange(indicator.shape[1]), indicator, True)
    if multilabel:
        raise ValueError("y must be a multi-label indicator as before. Got single labels instead.")
    y = column_or_1d(y, warn=True)
    if classes is None:
        classes, codes = np.unique(y, return_inverse=True)
        return _Target(classes, codes.astype(np.int64), False)
    classes = np.unique(classes)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[codes] != y
    if unknown.any():
        raise ValueError(f"y holds the unknown label {y[unknown].tolist()[0]!r}; known classes are {classes.tolist()}.")
    return _Target(classes, codes.astype(np.int64), False)


def canonical_rows(X: Any, who: str) -> csr_array:
    """Give counts as a CSR matrix in canonical order without stored zeros, copying only what must change."""
    rows = csr_array(X)
    least = rows.data.min() if rows.nnz else 1
    if least < 0:
        raise ValueError(f"Negative values in data passed to X in {who}: counts of terms are 0 or above.")
    if rows.has_canonical_format and least > 0:
        return rows
    rows = rows.copy()
    rows.sum_duplicates()
    rows.eliminate_zeros()
    return rows


class CountClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the classifiers on rows of counts: class sums in, linear scores out."""

    _sums: tuple[str, ...] = ("mass",)
    _whole_vocabulary = (
        False  # whether an estimate of a few columns needs all of them; then there is _model_of(classes)
    )

    # ---- what a subclass says

    @abstractmethod
    def _rules(self) -> dict[str, Rule]:
        """Give the rule of each parameter."""

    @abstractmethod
    def _freeze(self, documents: Documents, keep: Any) -> Representation:
        """Learn the representation that scores documents."""

    def _trained_on(self) -> Representation:
        """Give the representation that the sums are made of."""
        return self.representation_

    @abstractmethod
    def _model(self, columns: Any) -> Linear:
        """Make the linear model of the named columns (all if None) from the sums."""

    def _frozen(self) -> tuple[Any, ...]:
        """Give everything that was learnt from whole documents."""
        return (self.representation_,)

    # ---- learning

    def fit(self, X, y, sample_weight=None):
        """Learn from documents: freeze the representation, then sum the documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.
        y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_classes)
            Labels; an indicator (dense or sparse) for multi-label data.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the documents; a whole weight k is the same as k copies.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        with whole_or_not_at_all(self):
            self._learn(self._read(X, y, None, sample_weight))
        return self

    def fit_representation(self, X, y, classes=None, sample_weight=None):
        """Freeze the representation on these documents without learning them yet; what was learnt is dropped.

        Parameters are those of `partial_fit`.
        """
        with whole_or_not_at_all(self):
            documents = self._start(X, y, classes, sample_weight)
            self._begin(documents)
        return self

    def refit_representation(self, X, y, sample_weight=None):
        """Refresh the frozen representation; needs all documents, because their sums change with it.

        Parameters are those of `fit`; the classes stay as they are.
        """
        check_is_fitted(self)
        with whole_or_not_at_all(self):
            documents = self._start(X, y, None if self.multilabel_ else self.classes_, sample_weight)
            self.statistics_ = self._sum(documents, compact=False)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn more documents exactly: the sums are those of one `fit` with the same frozen representation.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        classes : array-like, default=None
            All classes there will ever be, at the first call; those of y if None.

        Returns
        -------
        self : object
            The classifier.
        """
        with whole_or_not_at_all(self):
            if not hasattr(self, "statistics_"):
                documents = self._start(X, y, classes, sample_weight)
                self._begin(documents)
            else:
                documents = self._more(X, y, sample_weight, classes)
            delta = self._sum(documents, compact=True)
            with self._named_overflow():
                self.statistics_ += delta
            self._holder.clear()
        return self

    def forget(self, X, y, sample_weight=None):
        """Undo the learning of documents, exactly; ValueError, and nothing changed, where a sum would go negative.

        Parameters are those of `fit`.
        """
        check_is_fitted(self, "statistics_")
        delta = self._sum(self._more(X, y, sample_weight), compact=True)
        self.statistics_ -= delta
        self._holder.clear()
        return self

    def merge(self, other):
        """Add what another classifier has learnt, in place.

        Parameters
        ----------
        other : object
            A classifier of the same kind, parameters, classes, width and frozen representation.

        Returns
        -------
        self : object
            The classifier.
        """
        check_is_fitted(self, "statistics_")
        if type(other) is not type(self):
            raise ValueError(f"Only another {type(self).__name__} can be merged. Got {type(other).__name__} instead.")
        check_is_fitted(other, "statistics_")
        for what, mine, theirs in (
            ("parameters", self.get_params(), other.get_params()),
            ("numbers of features", self.n_features_in_, other.n_features_in_),
            ("classes", self.classes_, other.classes_),
            ("kinds of labels", self.multilabel_, other.multilabel_),
            ("frozen representations", self._frozen(), other._frozen()),
        ):
            if not _equal(mine, theirs):
                raise ValueError(
                    f"Cannot merge classifiers of different {what}; freeze one representation and share it."
                )
        with self._named_overflow():
            self.statistics_ += other.statistics_
        self._holder.clear()
        return self

    def _learn(self, documents: Documents) -> None:
        """Freeze the representation on the documents, wherever they are, and sum them."""
        self._freeze_on(documents)
        self.statistics_ = self._sum(documents, compact=False)
        if self._contrast_size() <= FULL_ENTRIES:
            self._estimate()

    def _start(self, X, y, classes, sample_weight) -> Documents:
        documents = self._read(X, y, classes, sample_weight)
        self._freeze_on(documents)
        return documents

    def _read(self, X, y, classes, sample_weight) -> Documents:
        """Check everything that `fit` is given, and start anew with these classes."""
        check_parameters(self, self._rules())
        rows = self._rows(X, y, reset=True)
        target = read_target(y, None if classes is None else np.asarray(classes), None)
        self._prepare(rows.shape[1], target.classes, target.multilabel)
        return self._documents(rows, target.labels, sample_weight)

    def _prepare(self, n_columns: int, classes: np.ndarray, multilabel: bool) -> None:
        """Start anew with these columns and classes; documents come next."""
        check_parameters(self, self._rules())
        self.n_features_in_ = n_columns
        self.classes_, self.multilabel_ = classes, multilabel
        check_prior(self)

    def _freeze_on(self, documents: Documents, keep: Any = None) -> None:
        with self._named_overflow():
            self.representation_ = self._freeze(documents, keep)
        self._holder = _Holder()

    def _begin(self, documents: Documents) -> None:
        z = self._trained_on()
        self.statistics_ = Statistics.empty(len(self.classes_), documents.rows.shape[1], self._sums, z.class_specific)

    def _more(self, X, y, sample_weight, classes=None) -> Documents:
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes={classes!r} is not what it was at the first call: {self.classes_.tolist()}.")
        rows = self._rows(X, y, reset=False)
        target = read_target(y, self.classes_, self.multilabel_)
        return self._documents(rows, target.labels, sample_weight)

    def _rows(self, X, y=None, reset=False) -> csr_array:
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric")
        if y is not None:
            check_consistent_length(X, y)
        return canonical_rows(X, type(self).__name__)

    def _documents(self, rows: csr_array, labels: Any, sample_weight) -> Documents:
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
            if not weight.all():  # a weight of 0 is the same as no document
                counted = np.flatnonzero(weight)
                rows, labels, weight = rows[counted], labels[counted], weight[counted]
        return Documents(rows, labels, len(self.classes_), self._contrasts, weight)

    def _sum(self, documents: Documents, compact: bool) -> Statistics:
        with self._named_overflow():
            return documents.statistics(self._trained_on(), self._sums, compact)

    def _named_overflow(self) -> _NamedOverflow:
        return _NamedOverflow(self.classes_)

    # ---- scoring

    @property
    def _contrasts(self) -> list[int]:
        """The classes that get a score of their own: the second of two, else each."""
        return [1] if len(self.classes_) == 2 and not self.multilabel_ else list(range(len(self.classes_)))

    def _contrast_size(self) -> int:
        return len(self._contrasts) * self.n_features_in_

    def _estimate(self) -> Linear:
        return self._holder.get(lambda: self._model(None))

    def _model_for(self, rows: csr_array) -> tuple[Any, csr_array, Any]:
        """Give a model for these rows, the rows in its columns, and which columns those are (None: all).

        A few documents after a change need the estimate of their own terms only.
        """
        large = self._contrast_size() > FULL_ENTRIES
        small = not self._holder.filled and rows.nnz * 8 < rows.shape[1]
        if self._whole_vocabulary or not (large or small):
            return self._estimate(), rows, None
        columns, places = np.unique(rows.indices, return_inverse=True)
        own = csr_array((rows.data, places.astype(np.int32), rows.indptr), shape=(rows.shape[0], len(columns)))
        return self._model(columns), own, columns

    def _check_learnt(self) -> None:
        check_is_fitted(self, "statistics_")
        if not self.statistics_.all_documents() > 0:
            raise NotFittedError(f"This {type(self).__name__} has learnt no document yet: call fit or partial_fit.")

    def _scores(self, X) -> np.ndarray:
        """Score rows for each contrast, (n, C), classes without documents out of the question."""
        self._check_learnt()
        return self._masked(self._raw_scores(self._rows(X)))

    def _raw_scores(self, rows: csr_array) -> np.ndarray:
        large = self._contrast_size() > FULL_ENTRIES
        if large and self._whole_vocabulary:
            return np.hstack([self._model_of([c]).scores(rows) for c in self._contrasts])
        if large and rows.shape[0] > 256:
            parts = [self._raw_scores(rows[i : i + 256]) for i in range(0, rows.shape[0], 256)]
            return np.vstack(parts)
        model, own, _ = self._model_for(rows)
        return model.scores(own)

    def _possible(self) -> np.ndarray:
        return self.statistics_.documents_by_class() > 0

    def _masked(self, scores: np.ndarray) -> np.ndarray:
        possible = self._possible()
        if possible.all() and not self.multilabel_:
            return scores if len(possible) > 1 or not self._against_rest() else np.zeros_like(scores)
        if len(self._contrasts) == 1 and len(possible) == 2:
            scores[:, 0] = NEVER if possible[0] else -NEVER
            return scores
        scores[:, ~possible] = NEVER
        if self.multilabel_:
            everyone = self.statistics_.documents_by_class() == self.statistics_.all_documents()
            scores[:, everyone] = -NEVER
        return scores

    def _against_rest(self) -> bool:
        return True

    def decision_function(self, X):
        """Score documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: above 0 means ``classes_[1]``. Otherwise a score for each class.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 and not self.multilabel_ else scores

    def predict(self, X):
        """Predict the class of each document; for multi-label data an indicator matrix."""
        scores = self._scores(X)
        if self.multilabel_:
            return (scores > 0).astype(int)
        if len(self.classes_) == 2:
            return self.classes_[(scores[:, 0] > 0).astype(int)]
        return self.classes_[predict_argmax(scores, self._possible())]

    def predict_proba(self, X):
        """Turn scores into probabilities: logistic for two classes or labels, softmax for more.

        Scores of Naive Bayes saturate: for a decision use the score, for a probability calibrate it.
        """
        scores = self._scores(X)
        if self.multilabel_:
            return score.probabilities(scores, "each")
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        if len(self.classes_) == 2:
            return score.probabilities(scores[:, 0], "binary")
        return score.probabilities(scores, "softmax")

    def predict_log_proba(self, X):
        """Give the logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def text_scorer(self, vectorizer):
        """Give a `TextScorer`: this model's scores straight from text, as it stands now.

        Parameters
        ----------
        vectorizer : surebayes.CountVectorizer or surebayes.HashingVectorizer
            The fitted vectorizer that made the rows of counts.

        Returns
        -------
        TextScorer
            Its `decision_function` takes texts and gives what this one's gives for their rows.
        """
        from surebayes.text.scorer import TextScorer

        self._check_learnt()
        model = self._estimate()
        fixed = self._masked(np.zeros((1, len(self._contrasts))))[0]  # classes out of the question have a fixed score
        log_odds = np.where(fixed[:, None] == 0, model.log_odds, 0.0)
        prior = np.where(fixed == 0, model.bias, fixed)
        if len(self.classes_) == 2 and not self.multilabel_:
            return TextScorer.of(vectorizer, model.represent, log_odds[0], prior[0])
        return TextScorer.of(vectorizer, model.represent, log_odds, prior)

    # ---- explaining

    def explain(self, X, top=None, terms=None):
        """Say what each term adds to each score.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.
        top : int, default=None
            Keep only the strongest terms; what the others add is then part of the bias.
        terms : sequence of str, default=None
            Names of the columns; those seen in `fit` if None.

        Returns
        -------
        list of Explanation
            One for each document; for more than two classes, or labels, a list of one for each class.
        """
        self._check_learnt()
        rows = self._rows(X)
        names = getattr(self, "feature_names_in_", None) if terms is None else terms
        if terms is not None and len(terms) != self.n_features_in_:
            raise ValueError(f"terms must name all {self.n_features_in_} columns. Got {len(terms)} names instead.")
        model, own, _ = self._model_for(rows)
        each = []
        for k, (shares, bias) in enumerate(self._shares(model, own, rows)):
            fixed = self._masked(np.zeros((1, len(self._contrasts))))[0, k]
            if fixed:  # a class without documents is out of the question whatever the terms say
                shares, bias = np.zeros_like(shares), np.full(len(bias), fixed)
            each.append((shares, bias))
        result = []
        for i in range(rows.shape[0]):
            span = slice(rows.indptr[i], rows.indptr[i + 1])
            found = rows.indices[span]
            said = [score.explain_row(found, shares[span], float(bias[i]), names, top) for shares, bias in each]
            result.append(said[0] if len(self.classes_) == 2 and not self.multilabel_ else said)
        return result

    def _shares(self, model: Any, own: csr_array, rows: csr_array) -> list[tuple[np.ndarray, np.ndarray]]:
        """Give for each contrast the contributions on the rows' pattern and the bias of each row.

        `own` are the rows in the model's columns.
        """
        n = own.shape[0]
        return [(model.contributions(own, c), np.full(n, model.bias[c])) for c in range(len(self._contrasts))]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.poor_score = True  # on scikit-learn's toy data, whose coordinates are no counts
        return tags


@contextmanager
def whole_or_not_at_all(estimator: Any) -> Iterator[None]:
    """Put an estimator back as it was where learning fails half-way: bad input loses nothing."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


class _NamedOverflow:
    """Turn a table's overflow into one that names the class."""

    def __init__(self, classes: np.ndarray) -> None:
        self.classes = classes

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, SumOverflow):
            row = error.row
            name = (
                f"class {self.classes[row : row + 1].tolist()[0]!r}"
                if row < len(self.classes)
                else "all classes together"
            )
            raise OverflowError(
                f"The sums of {name} would exceed 2**63 units (real-valued sums hold up to 2**23); nothing was "
                "changed. Use whole-number counts, a norm, or smaller values."
            ) from None


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(np.asarray(a), np.asarray(b))
    if isinstance(a, BaseEstimator) and isinstance(b, BaseEstimator):
        return type(a) is type(b) and _equal(a.get_params(), b.get_params())
    return bool(a == b)


def check_prior(estimator: CountClassifier) -> None:
    """Refuse an array of priors that doesn't fit the classes."""
    prior = getattr(estimator, "prior", "uniform")
    if isinstance(prior, str):
        return
    p = np.asarray(prior, dtype=np.float64)
    k = len(estimator.classes_)
    if p.shape != (k,) or not ((p > 0) & (p < 1)).all():
        raise ValueError(
            f"prior must hold a probability strictly between 0 and 1 for each of {k} classes. Got {prior!r}."
        )
    if not estimator.multilabel_ and abs(p.sum() - 1) > 1e-6:
        raise ValueError(f"prior must add up to 1. Got a sum of {p.sum():.6g}.")


def log_prior_odds(estimator: CountClassifier) -> np.ndarray:
    """Give each contrast's prior log-odds, (C,)."""
    contrasts = estimator._contrasts
    if isinstance(estimator.prior, str):
        if estimator.prior == "uniform":
            return np.zeros(len(contrasts))
        inside = estimator.statistics_.documents_by_class()[contrasts]
        return estimate.prior_log_odds(inside, estimator.statistics_.all_documents() - inside)
    p = np.asarray(estimator.prior, dtype=np.float64)[contrasts]
    return np.log(p) - np.log1p(-p)
