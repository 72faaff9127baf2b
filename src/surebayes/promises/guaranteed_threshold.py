"""GuaranteedThreshold: any scikit-learn classifier, with a false-positive rate one can rely on."""

from __future__ import annotations

import numbers
import pickle
import warnings
from typing import Any

import joblib
import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit, check_cv
from sklearn.utils import _safe_indexing, column_or_1d, get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from surebayes.core.checks import fraction
from surebayes.core.decide import cost_threshold, predict_argmax
from surebayes.errors import NotEnoughNegatives, NotEnoughPositives
from surebayes.promises.calibration import fit_probability
from surebayes.promises.certificate import APPROXIMATE, EXACT, Certificate, certify, checked_order

__all__ = ["Certificate", "Certificates", "GuaranteedThreshold", "NotEnoughNegatives", "NotEnoughPositives"]

_LOG_OF_ZERO = float(np.log(np.finfo(float).smallest_subnormal))  # what stands for log 0: scores stay finite


class Certificates(dict[Any, Certificate]):
    """The certificates of several classes, by label.

    Examples
    --------
    >>> Certificates().to_json()
    '[]'
    """

    def to_json(self, indent: int | None = None) -> str:
        """Write all of them as one JSON list; each names its class in `pos_label`."""
        inner = ", ".join(certificate.to_json(indent) for certificate in self.values())
        return f"[{inner}]"

    @property
    def stale(self) -> bool:
        """Whether one of them is."""
        return any(certificate.stale for certificate in self.values())


def _gives_probabilities(self: GuaranteedThreshold) -> bool:
    return self.probabilities is not None or hasattr(getattr(self, "estimator_", self.estimator), "predict_proba")


class GuaranteedThreshold(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier whose false-positive rate is guaranteed, not hoped for.

    "At most 0.1% false positives on the held-out rows" ends above 0.1% on new rows more than half of the time. This
    estimator sets rows aside, fits the classifier on the others, and takes as threshold the order statistic of the
    held-out negatives' scores for which the binomial distribution bounds the probability of a broken promise by
    1 - confidence. Nothing is assumed about the scores; ties make it safer.

    Parameters
    ----------
    estimator : classifier
        Anything with `decision_function`, or else `predict_log_proba` or `predict_proba` (then log-odds are taken).
    max_fpr : float or None, default=0.001
        Largest share of negatives called positive, in (0, 1).
    confidence : float, default=0.95
        Probability, over the draw of the held-out rows, that the promise holds; in (0, 1).
    pos_label : label, default=None
        The class whose false alarms are limited. None: the second of two classes; with more classes, and with
        indicator labels, each class gets a threshold. ``classes_[0]`` of two classes negates the score. One of several
        classes: only that one gets a threshold, the other rows go to the best of the other classes.
    cv : float, "prefit", int or cross-validator, default=0.3
        A share of the rows to hold out: stratified with a fixed seed, or, with `order`, the latest rows (ties stay
        together, on the held-out side); the classifier is not refitted on them. "prefit": the classifier is fitted, all
        rows given to `fit` are for calibration. A cross-validator: scores out of fold, then a fit on all rows; the
        certificate then says that it is approximate.
    min_recall : float, default=None
        Smallest share of positives found. Beside `max_fpr` or `min_precision`: a second threshold below the first, and
        `predict` answers `unsure_label` between them. Alone (max_fpr=None): the mirror image of `max_fpr`.
    min_precision : float, default=None
        With max_fpr=None: smallest share of right answers among rows called positive, at the class shares of the
        held-out rows.
    cost : array-like of shape (2, 2), default=None
        With max_fpr=None: ``cost[truth][decision]``; the threshold of least cost on the held-out rows, without a
        certificate.
    probabilities : {"logistic", "isotonic", None}, default="logistic"
        How `predict_proba` maps held-out scores; None gives the classifier's own probabilities.
    unsure_label : label, default=None
        What `predict` answers where no promise covers an answer: between two thresholds, or (more than two classes)
        above none. None: "unsure" for text labels, -1 for numbers.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray
        Labels.
    threshold_ : float, or ndarray of shape (K,)
        Positive is what scores strictly above it, see :meth:`scores`. inf for classes without a threshold of their own.
    certificate_ : Certificate, Certificates or None
        The promise: threshold, n_negatives, allowed, max_fpr, confidence, recall, recall_interval, assumption, first,
        last, model, stale, and ``to_json()``. A dict by label if there are several thresholds; None for `cost`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> random = np.random.default_rng(0)
    >>> y = random.random(20_000) < 0.4
    >>> X = random.normal(size=(20_000, 2)) + 2 * y[:, None]
    >>> model = GuaranteedThreshold(LogisticRegression(), max_fpr=0.01).fit(X, y)
    >>> print(model.certificate_)  # doctest: +ELLIPSIS
    score > ...: at most 1.0000% of negatives, with confidence 95.00% (3,... calibration negatives, at most ...
    >>> try:
    ...     GuaranteedThreshold(LogisticRegression(), max_fpr=0.001).fit(X[:5000], y[:5000])
    ... except NotEnoughNegatives as error:
    ...     print(error.needed, error.available)
    2995 898
    """

    def __init__(
        self,
        estimator: Any,
        *,
        max_fpr: float | None = 0.001,
        confidence: float = 0.95,
        pos_label: Any = None,
        cv: Any = 0.3,
        min_recall: float | None = None,
        min_precision: float | None = None,
        cost: Any = None,
        probabilities: str | None = "logistic",
        unsure_label: Any = None,
    ) -> None:
        self.estimator = estimator
        self.max_fpr = max_fpr
        self.confidence = confidence
        self.pos_label = pos_label
        self.cv = cv
        self.min_recall = min_recall
        self.min_precision = min_precision
        self.cost = cost
        self.probabilities = probabilities
        self.unsure_label = unsure_label

    # ------------------------------------------------------------------ fit

    def fit(self, X: Any, y: Any, order: Any = None, sample_weight: Any = None) -> GuaranteedThreshold:
        """Fit the classifier on one part of the rows and choose the threshold on the other.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows, in whatever form the classifier takes.
        y : array-like of shape (n,) or (n, K)
            Labels or indicators.
        order : array-like of shape (n,), optional
            When each row was seen (numbers, dates, anything sortable).
        sample_weight : array-like of shape (n,), optional
            Given to the classifier's `fit`. The promise is about rows, each counted once.

        Returns
        -------
        GuaranteedThreshold
            Itself.
        """
        self._check_parameters()
        if y is None:
            raise ValueError("GuaranteedThreshold requires y to be passed, but the target y is None.")
        (X,) = indexable(X)
        labels = y.tocsr() if sparse.issparse(y) else np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = column_or_1d(labels, warn=True)
        check_classification_targets(labels)
        n, rows = labels.shape[0], X.shape[0] if hasattr(X, "shape") else len(X)
        if rows != n:
            raise ValueError(f"X and y must have the same number of rows. Got {rows:,} and {n:,}.")
        when = None if order is None else checked_order(order, n)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        held, assumption = np.arange(n), EXACT
        if isinstance(self.cv, str):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            raw = _raw_scores(self.estimator_, X)
        elif _is_share(self.cv):
            train, held = _split(labels, when, self.cv)
            self.estimator_ = self._fitted(X, labels, weight, train)
            raw = _raw_scores(self.estimator_, _safe_indexing(X, held))
        else:
            raw, assumption = self._out_of_fold(X, labels, weight), APPROXIMATE
            self.estimator_ = self._fitted(X, labels, weight, held)
        self.classes_ = np.asarray(self.estimator_.classes_)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        self._calibrate(raw, labels[held], None if when is None else when[held], assumption)
        return self

    def _check_parameters(self) -> None:
        limits = {name: getattr(self, name) for name in ("max_fpr", "min_recall", "min_precision")}
        if self.cost is not None and any(limit is not None for limit in limits.values()):
            raise ValueError(
                "cost chooses a threshold without a promise: set max_fpr, min_recall and min_precision to None."
            )
        for name, limit in (limits | {"confidence": self.confidence}).items():
            if limit is not None:
                fraction(limit, name, zero=False, one=False)
        if _is_share(self.cv):
            fraction(self.cv, "cv", zero=False, one=False)
        elif isinstance(self.cv, str) and self.cv != "prefit":
            raise ValueError(f"cv must be a share of the rows, 'prefit' or a cross-validator. Got {self.cv!r}.")
        if self.probabilities not in ("logistic", "isotonic", None):
            raise ValueError(f"probabilities must be 'logistic', 'isotonic' or None. Got {self.probabilities!r}.")

    def _fitted(self, X: Any, labels: Any, weight: Any, rows: Any) -> Any:
        part = labels[rows]
        if part.ndim == 1 and np.unique(part).size < 2:
            raise ValueError(f"the {part.size:,} rows to train on hold one class only: rows of two or more are needed.")
        weights = {} if weight is None else {"sample_weight": weight[rows]}
        return clone(self.estimator).fit(_safe_indexing(X, rows), part, **weights)

    def _out_of_fold(self, X: Any, labels: Any, weight: Any) -> Any:
        scores: Any = None
        times_held = np.zeros(labels.shape[0], dtype=int)
        for train, held in check_cv(self.cv, labels, classifier=True).split(X, labels):
            part = _raw_scores(self._fitted(X, labels, weight, train), _safe_indexing(X, held))
            scores = np.empty((labels.shape[0], *part.shape[1:])) if scores is None else scores
            scores[held] = part
            times_held[held] += 1
        if not np.all(times_held == 1):
            raise ValueError("the cross-validator must hold out every row exactly once.")
        return scores

    # ------------------------------------------------------------------ calibration

    def _calibrate(self, raw: Any, labels: Any, when: Any, assumption: str) -> None:
        """Choose a threshold for each target class, and fit the probabilities."""
        self._kind = "multilabel" if labels.ndim == 2 else "binary" if raw.ndim == 1 else "multiclass"
        columns, (names, truth) = self._by_class(raw), self._truth(labels)
        self._targets = self._target_columns(names)
        if len(self._targets) > 1 and self.min_recall is not None and (self.max_fpr or self.min_precision):
            raise ValueError(
                "a band between two thresholds needs one positive class: give pos_label, or one limit only."
            )
        model = self._model_name()
        thresholds, lower, certificates = np.full(len(names), np.inf), None, Certificates()
        for c in self._targets:
            if self.cost is not None:
                thresholds[c] = cost_threshold(columns[:, c], truth[:, c], self.cost)
                continue
            certificate = certify(
                columns[:, c],
                truth[:, c],
                max_fpr=self.max_fpr,
                confidence=self.confidence,
                min_recall=self.min_recall,
                min_precision=self.min_precision,
                order=when,
                assumption=assumption,
                model=model,
                pos_label=names[c],
            )
            thresholds[c], lower = certificate.threshold, certificate.lower_threshold
            certificates[certificate.pos_label] = certificate
        self._thresholds, self._lower = thresholds, lower
        single = len(self._targets) == 1
        self.threshold_: Any = float(thresholds[self._targets[0]]) if single else thresholds
        lone = single or self.cost is not None
        self.certificate_: Any = next(iter(certificates.values()), None) if lone else certificates
        if not hasattr(self.estimator_, "decision_function") and (thresholds[self._targets] >= -_LOG_OF_ZERO).any():
            warnings.warn(
                "the threshold lies at a probability of exactly 1, where scores tie: nothing can be called "
                "positive. Use a classifier with decision_function, or one whose probabilities don't saturate.",
                UserWarning,
                stacklevel=3,
            )
        self._maps = None
        if self.probabilities is not None:
            mapped = [1] if self._kind == "binary" else range(len(names))
            self._maps = [fit_probability(columns[:, c], truth[:, c], self.probabilities) for c in mapped]

    def _by_class(self, raw: Any) -> Any:
        """One column of scores a class; of two classes the first one's score is the other's, negated."""
        return np.column_stack((-raw, raw)) if self._kind == "binary" else raw

    def _truth(self, labels: Any) -> tuple[Any, Any]:
        """Names of the classes, and who belongs to which."""
        if self._kind == "multilabel":
            truth = (labels.toarray() if sparse.issparse(labels) else labels).astype(bool)
            return np.arange(truth.shape[1]), truth
        strange = np.setdiff1d(labels, self.classes_)
        if strange.size:
            raise ValueError(f"y holds the label {strange[0].item()!r}, which the classifier was not trained on.")
        truth = labels[:, None] == self.classes_
        missing = self.classes_[~truth.any(axis=0)]
        if missing.size:
            raise ValueError(
                f"calibration needs rows of every class. Got none of {missing[0].item()!r} among the {labels.size:,} "
                "rows held out."
            )
        return self.classes_, truth

    def _target_columns(self, names: Any) -> list[int]:
        if self.pos_label is None:
            return [1] if self._kind == "binary" else list(range(len(names)))
        if self._kind == "multilabel":
            raise ValueError("indicator labels have a threshold for each class: leave pos_label None.")
        found = np.flatnonzero(names == self.pos_label)
        if found.size == 0:
            raise ValueError(f"pos_label must be one of {names.tolist()}. Got {self.pos_label!r}.")
        return [int(found[0])]

    def _model_name(self) -> str:
        try:
            code = joblib.hash(self.estimator_)[:16]
        except (pickle.PicklingError, AttributeError, TypeError):  # locks, local classes, open files
            code = "unhashable"
        return f"{type(self.estimator_).__name__}-{code}"

    def check_model(self) -> bool:
        """Compare the classifier with the one that was calibrated, and mark the certificate stale if it has changed.

        Learning, forgetting or replacing anything in `estimator_` voids the promise; this finds out (by a hash of the
        whole classifier, so not at every row).

        Returns
        -------
        bool
            True if it is the same.
        """
        check_is_fitted(self, "threshold_")
        name = self._model_name()
        if name.endswith("-unhashable"):
            raise TypeError(f"{type(self.estimator_).__name__} can't be pickled, so it can't be compared.")
        several = isinstance(self.certificate_, Certificates)
        found = self.certificate_ if several else Certificates({None: self.certificate_} if self.certificate_ else {})
        same = all(certificate.model == name for certificate in found.values())
        if not same:
            revoked = {key: certificate.revoke(f"the model is now {name}") for key, certificate in found.items()}
            self.certificate_ = Certificates(revoked) if several else revoked[None]
        return same

    # ------------------------------------------------------------------ answers

    def scores(self, X: Any) -> Any:
        """Scores as the thresholds mean them: positive is what lies strictly above :attr:`threshold_`.

        They are the classifier's `decision_function`, negated if `pos_label` is ``classes_[0]`` of two classes; for a
        classifier without one, log-odds.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n,), or (n, K) if there are several thresholds
        """
        check_is_fitted(self, "threshold_")
        columns = self._by_class(_raw_scores(self.estimator_, X))
        return columns[:, self._targets[0]] if len(self._targets) == 1 else columns

    def decision_function(self, X: Any) -> Any:
        """Scores of the classifier itself (the threshold is not subtracted); higher means ``classes_[1]``.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
        """
        check_is_fitted(self, "threshold_")
        return _raw_scores(self.estimator_, X)

    def predict(self, X: Any) -> Any:
        """Call positive what scores strictly above the threshold.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Labels; `unsure_label` between two thresholds. With a threshold for each class: the class of highest score
            among those above their threshold, `unsure_label` above none; for indicator labels, all that are above.
        """
        check_is_fitted(self, "threshold_")
        columns = self._by_class(_raw_scores(self.estimator_, X))
        above = columns > self._thresholds
        if self._kind == "multilabel":
            return above.astype(int)
        unsure = np.zeros(columns.shape[0], dtype=bool)
        if len(self._targets) > 1:
            choice, unsure = np.where(above, columns, -np.inf).argmax(axis=1), ~above.any(axis=1)
        else:
            target = self._targets[0]
            other = predict_argmax(columns, np.arange(columns.shape[1]) != target)
            choice = np.where(above[:, target], target, other)
            if self._lower is not None:
                unsure = (columns[:, target] > self._lower) & ~above[:, target]
        if len(self._targets) == 1 and self._lower is None:
            return self.classes_[choice]
        return np.append(self.classes_, self._unsure())[np.where(unsure, len(self.classes_), choice)]

    def _unsure(self) -> Any:
        if self.unsure_label is not None:
            return self.unsure_label
        return -1 if self.classes_.dtype.kind in "biuf" else "unsure"

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Probabilities, calibrated on the held-out scores and never closer to 0 or 1 than 1/(n + 2).

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
            For several classes each class against the rest, scaled to add up to 1; for indicator labels, each on its
            own.
        """
        check_is_fitted(self, "threshold_")
        if self._maps is None:
            return self.estimator_.predict_proba(X)
        raw = _raw_scores(self.estimator_, X)
        if self._kind == "binary":
            chance = self._maps[0](raw)
            return np.column_stack((1 - chance, chance))
        table = np.column_stack([chance(raw[:, c]) for c, chance in enumerate(self._maps)])
        return table if self._kind == "multilabel" else table / table.sum(axis=1, keepdims=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags.multi_label = bool(inner.classifier_tags and inner.classifier_tags.multi_label)
        tags.classifier_tags.poor_score = True  # few false alarms come before many right answers
        return tags


def _is_share(cv: Any) -> bool:
    return isinstance(cv, numbers.Real) and not isinstance(cv, numbers.Integral)


def _split(labels: Any, when: Any, share: float) -> tuple[Any, Any]:
    """Rows to train on and rows to hold out: at random within each class, or the latest."""
    n = labels.shape[0]
    if when is None:
        plain = labels.ndim == 1
        splitter = (StratifiedShuffleSplit if plain else ShuffleSplit)(1, test_size=share, random_state=0)
        train, held = next(splitter.split(np.zeros(n), labels if plain else None))
        return np.sort(train), np.sort(held)
    start = np.sort(when)[n - max(1, round(share * n))]
    late = when >= start
    if late.all():
        late = when > start
    if not late.any():
        raise ValueError("order gives all rows the same time: there are no latest rows to hold out.")
    return np.flatnonzero(~late), np.flatnonzero(late)


def _raw_scores(estimator: Any, X: Any) -> Any:
    """Scores that don't saturate: (n,) for two classes, (n, K) for more or for indicator labels."""
    if hasattr(estimator, "decision_function"):
        return np.asarray(estimator.decision_function(X), dtype=np.float64)
    method = next((name for name in ("predict_log_proba", "predict_proba") if hasattr(estimator, name)), None)
    if method is None:
        raise TypeError(f"{type(estimator).__name__} has no scores: it needs decision_function or predict_proba.")
    with np.errstate(divide="ignore"):
        answer = getattr(estimator, method)(X)
        indicators = isinstance(answer, list)  # one table for each class of indicator labels, as forests give
        table = np.column_stack([t[:, -1] for t in answer]) if indicators else np.asarray(answer, dtype=np.float64)
        logs = np.maximum(np.log(table) if method == "predict_proba" else table, _LOG_OF_ZERO)
        if not indicators and logs.shape[1] == 2 and len(estimator.classes_) == 2:
            return logs[:, 1] - logs[:, 0]
        return logs - np.maximum(np.log(-np.expm1(logs)), _LOG_OF_ZERO)
