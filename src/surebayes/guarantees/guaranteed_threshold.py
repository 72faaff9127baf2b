"""The estimator `GuaranteedThreshold`: any scikit-learn classifier, with a guaranteed false-positive rate."""

from __future__ import annotations

import numbers
import warnings
from typing import Any, Literal

import numpy as np
from joblib.hashing import NumpyHasher
from scipy import sparse
from sklearn import get_config
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._split import GroupsConsumerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch, _safe_indexing, column_or_1d, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params, _check_sample_weight, check_is_fitted, has_fit_parameter

from surebayes.core.checks import fraction
from surebayes.core.decide import cost_threshold
from surebayes.errors import NotEnoughNegatives, NotEnoughPositives
from surebayes.guarantees.calibration import constant_probability, fit_probability
from surebayes.guarantees.certificate import APPROXIMATE, EXACT, Certificate, Certificates
from surebayes.guarantees.certifying import certify, checked_order
from surebayes.guarantees.class_scores import (
    LOG_OF_ZERO,
    by_class,
    chosen,
    kind_of,
    memberships,
    protected_label,
    raw_scores,
    target_columns,
    with_unsure,
)
from surebayes.guarantees.independent import Groups, checked_groups, equal_rows
from surebayes.guarantees.order_statistics import checked_mislabelled
from surebayes.guarantees.positive_class import warn_once
from surebayes.guarantees.thresholded import ThresholdedClassifier, n_rows
from surebayes.text.documents import places_among, plain_documents

__all__ = ["Certificate", "Certificates", "GuaranteedThreshold", "NotEnoughNegatives", "NotEnoughPositives"]


def _gives_probabilities(self: GuaranteedThreshold) -> bool:
    return self.probabilities is not None or hasattr(getattr(self, "estimator_", self.estimator), "predict_proba")


class GuaranteedThreshold(ThresholdedClassifier):
    """A classifier with a guaranteed false-positive rate.

    A threshold with "at most 0.1% false positives on the held-out rows" exceeds 0.1% on new rows more than half of the
    time. This estimator holds rows out, fits the classifier on the rest, and sets the threshold to the order statistic
    of the held-out negatives' scores that bounds the probability of a broken promise by 1 - confidence, according to
    the binomial distribution. There is no assumption about the scores; ties only make the threshold safer.

    Parameters
    ----------
    estimator : classifier
        Any classifier with `decision_function`, or else `predict_log_proba` or `predict_proba` (then log-odds are
        used).
    max_fpr : float or None, default=0.001
        The largest share of negatives judged positive, in (0, 1).
    confidence : float, default=0.95
        The probability that the promise holds, over the draw of the held-out rows; in (0, 1).
    pos_label : label, default=None
        The class whose false alarms are limited. None: the second of two classes; with more classes, or indicator
        labels, each class gets a threshold. With ``classes_[0]`` of two classes, the score is negated. With one of
        several classes, only that class gets a threshold, and rows not above it get the best remaining class.
    cv : float, "prefit", int or cross-validator, default=0.3
        A share of the rows to hold out: stratified with a fixed seed, or, with `order`, the latest rows (rows with
        equal times stay together, on the held-out side). The classifier is not refitted on these rows. With "prefit",
        the classifier is already fitted, and all rows passed to `fit` are for calibration. A cross-validator gives
        out-of-fold scores, and the classifier is then fitted on all rows; the certificate is marked approximate.
    min_recall : float, default=None
        The smallest recall. Together with `max_fpr` or `min_precision` it sets a second threshold below the first;
        between the two, `predict` returns `unsure_label`. Alone (with max_fpr=None) it sets the only threshold.
    min_precision : float, default=None
        The smallest precision of positive answers, at the class shares of the held-out rows; requires max_fpr=None.
    cost : array-like of shape (2, 2), default=None
        The cost of each decision, ``cost[truth][decision]``; requires max_fpr=None. The threshold is the one with the
        least cost on the held-out rows, without a certificate.
    probabilities : {"logistic", "isotonic", None}, default="logistic"
        The method by which `predict_proba` calibrates held-out scores; None returns the classifier's own probabilities.
    mislabelled : (a, m), default=(0, 0)
        Label errors to allow for among the held-out rows, for each class with a threshold: at most a rows labelled
        negative are positive, and at most m true negatives are missing. The promise stays exact, at the cost of recall.
        Can't be combined with `min_precision`, `cost` or `anytime`.
    unsure_label : label, default=None
        The answer of `predict` for rows without a promise: between two thresholds or, with more than two classes, above
        no threshold. None takes "unsure" for text labels, and -1 for numbers.
    anytime : bool, default=False
        Whether each promise holds for all numbers of held-out rows jointly. With a fitted classifier (cv="prefit"), you
        may then call `fit` again with more rows until the threshold is low enough. See `certify`.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray
        Labels.
    threshold_ : float, or ndarray of shape (K,)
        Scores strictly above it are positive, see :meth:`scores`. inf for classes without a threshold.
    certificate_ : Certificate, Certificates or None
        The promise: threshold, n_negatives, allowed, max_fpr, confidence, recall, recall_interval, assumption, first,
        last, model, stale, and ``to_json()``; its text includes the positive and the protected class. A dict by label
        if there are several thresholds; None with `cost`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> random = np.random.default_rng(0)
    >>> y = random.random(20_000) < 0.4
    >>> X = random.normal(size=(20_000, 2)) + 2 * y[:, None]
    >>> model = GuaranteedThreshold(LogisticRegression(), max_fpr=0.01).fit(X, y)
    >>> print(model.certificate_)  # doctest: +ELLIPSIS
    score > ... is called True: at most 1% of False like these, confidence 95% (3,... calibration negatives, ...
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
        mislabelled: Any = (0, 0),
        anytime: bool = False,
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
        self.mislabelled = mislabelled
        self.anytime = anytime

    # ------------------------------------------------------------------ fit

    def fit(
        self, X: Any, y: Any, order: Any = None, sample_weight: Any = None, groups: Any = None, **fit_params: Any
    ) -> GuaranteedThreshold:
        """Fit the classifier on some of the rows and choose the threshold on the rest.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows of any form that the classifier accepts.
        y : array-like of shape (n,) or (n, K)
            Labels or indicators.
        order : array-like of shape (n,), optional
            The time of each row: numbers, dates, or other sortable values.
        sample_weight : array-like of shape (n,), optional
            Passed to the classifier's `fit`, or to that of a pipeline's last step. In the promise each row counts once.
        groups : array-like of shape (n,), optional
            Groups of dependent rows: copies, a thread, a campaign, a sender. A group is held out as a whole and counts
            as one independent observation: the highest score of its negatives, the lowest of its positives. None: equal
            rows are copies, unless rows this short are equal by chance. ``range(n)``: all rows are independent. A
            classifier with internal cross-validation, or with a `groups` parameter of `fit`, is passed the groups of
            its rows.
        **fit_params
            Further arguments for the classifier's `fit`; a value with one entry per row is limited to training rows.

        Returns
        -------
        GuaranteedThreshold
            The fitted object.
        """
        self._check_parameters()
        if y is None:
            raise ValueError("GuaranteedThreshold requires y to be passed, but the target y is None.")
        (X,) = indexable(plain_documents(X))
        labels = y.tocsr() if sparse.issparse(y) else np.asarray(y)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = column_or_1d(labels, warn=True)
        check_classification_targets(labels)
        n, rows = labels.shape[0], X.shape[0] if hasattr(X, "shape") else len(X)
        if rows != n:
            raise ValueError(f"X and y must have the same number of rows. Got {rows:,} and {n:,}.")
        when = None if order is None else checked_order(order, n)
        together = equal_rows(X) if groups is None else checked_groups(groups, n)
        if groups is not None and (
            has_fit_parameter(self.estimator, "groups") or isinstance(self.estimator, BaseSearchCV)
        ):
            fit_params = {**fit_params, "groups": np.asarray(groups)}
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X)
            fit_params = {**fit_params, weight_parameter(self.estimator): weight}
        calibration, assumption, indicators = np.arange(n), EXACT, labels.ndim == 2
        if isinstance(self.cv, str):
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
            raw = raw_scores(self.estimator_, X, indicators)
        elif is_share(self.cv):
            train, calibration = split(labels, when, self.cv, together)
            self.estimator_ = self._fitted(X, labels, fit_params, train)
            with places_among(calibration):
                raw = raw_scores(self.estimator_, _safe_indexing(X, calibration), indicators)
        else:
            raw, assumption = self._out_of_fold(X, labels, fit_params, together), APPROXIMATE
            self.estimator_ = self._fitted(X, labels, fit_params, calibration)
        self.classes_ = np.asarray(self.estimator_.classes_)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        late = None if when is None else when[calibration]
        self._calibrate(raw, labels[calibration], late, together[calibration], assumption)
        return self

    def _check_parameters(self) -> None:
        limits = {name: getattr(self, name) for name in ("max_fpr", "min_recall", "min_precision")}
        if self.cost is not None and any(limit is not None for limit in limits.values()):
            raise ValueError(
                "cost chooses a threshold without a promise. Set max_fpr, min_recall and min_precision to None."
            )
        for name, limit in (limits | {"confidence": self.confidence}).items():
            if limit is not None:
                fraction(limit, name, zero=False, one=False)
        if is_share(self.cv):
            fraction(self.cv, "cv", zero=False, one=False)
        elif isinstance(self.cv, str) and self.cv != "prefit":
            raise ValueError(f"cv must be a share of the rows, 'prefit' or a cross-validator. Got {self.cv!r}.")
        if any(checked_mislabelled(self.mislabelled)) and (self.cost is not None or self.min_precision is not None):
            raise ValueError("mislabelled needs max_fpr or min_recall.")
        if self.anytime and (any(checked_mislabelled(self.mislabelled)) or self.cost is not None):
            raise ValueError("anytime can't be combined with mislabelled or cost.")
        if self.probabilities not in ("logistic", "isotonic", None):
            raise ValueError(f"probabilities must be 'logistic', 'isotonic' or None. Got {self.probabilities!r}.")

    def _fitted(self, X: Any, labels: Any, fit_params: dict[str, Any], rows: Any) -> Any:
        part = labels[rows]
        if part.ndim == 1 and np.unique(part).size < 2:
            raise ValueError(f"the {part.size:,} training rows are of one class. Give rows of two or more classes.")
        own_params = _check_method_params(X, fit_params, indices=rows)
        with places_among(rows):
            return clone(self.estimator).fit(_safe_indexing(X, rows), part, **own_params)

    def _out_of_fold(self, X: Any, labels: Any, fit_params: dict[str, Any], groups: Groups) -> Any:
        scores: Any = None
        times_held = np.zeros(labels.shape[0], dtype=int)
        folds = check_cv(self.cv, labels, classifier=True)
        of_rows = (groups,) if isinstance(folds, GroupsConsumerMixin) else ()
        for train, test in folds.split(X, labels, *of_rows):
            model = self._fitted(X, labels, fit_params, train)
            with places_among(test):
                part = raw_scores(model, _safe_indexing(X, test), labels.ndim == 2)
            scores = np.empty((labels.shape[0], *part.shape[1:])) if scores is None else scores
            scores[test] = part
            times_held[test] += 1
        if not np.all(times_held == 1):
            raise ValueError("the cross-validator must hold out every row exactly once.")
        return scores

    # ------------------------------------------------------------------ calibration

    def _calibrate(self, raw: Any, labels: Any, when: Any, groups: Groups, assumption: str) -> None:
        """Choose a threshold for each target class, and calibrate the probabilities."""
        self._kind = kind_of(labels, raw)
        columns, (names, truth) = by_class(raw, self._kind), self._truth(labels)
        self._targets = target_columns(names, self._kind, self.pos_label)
        if self.pos_label is None and self._kind == "binary" and self.cost is None:
            warn_once(names.tolist(), names.tolist()[1], "give pos_label", stacklevel=3)
        if len(self._targets) > 1 and self.min_recall is not None and (self.max_fpr or self.min_precision):
            raise ValueError("two thresholds need a single positive class. Give pos_label, or only one limit.")
        known = self._known_labels(truth)
        model = self._model_name()
        thresholds, lower, certificates = np.full(len(names), np.inf), None, Certificates()
        for c in self._targets:
            if self.cost is not None:
                thresholds[c] = cost_threshold(columns[:, c], truth[:, c], self.cost)
                continue
            if not known[c]:
                continue
            certificate = certify(
                columns[:, c],
                truth[:, c],
                max_fpr=self.max_fpr,
                confidence=self.confidence,
                mislabelled=self.mislabelled,
                min_recall=self.min_recall,
                min_precision=self.min_precision,
                order=when,
                groups=groups,
                anytime=self.anytime,
                assumption=assumption,
                model=model,
                pos_label=names[c],
                neg_label=protected_label(names, self._kind, c),
            )
            thresholds[c], lower = certificate.threshold, certificate.lower_threshold
            certificates[certificate.pos_label] = certificate
        self._thresholds, self._lower = thresholds, lower
        single = len(self._targets) == 1
        self.threshold_: Any = float(thresholds[self._targets[0]]) if single else thresholds
        lone = single or self.cost is not None
        self.certificate_: Any = next(iter(certificates.values()), None) if lone else certificates
        certified = np.isfinite(thresholds)
        if not hasattr(self.estimator_, "decision_function") and (thresholds[certified] >= -LOG_OF_ZERO).any():
            warnings.warn(
                "the threshold is a probability of exactly 1, so no row can exceed it. Use a classifier with "
                "decision_function, or with probabilities that don't saturate.",
                UserWarning,
                stacklevel=3,
            )
        self._maps = None
        if self.probabilities is not None:
            mapped = [1] if self._kind == "binary" else range(len(names))
            self._maps = [
                fit_probability(columns[:, c], truth[:, c], self.probabilities)
                if known[c]
                else constant_probability(truth[:, c])
                for c in mapped
            ]

    def _known_labels(self, truth: Any) -> Any:
        """Return a mask of the columns with rows inside and outside the class; indicator labels may have neither."""
        known = truth.any(axis=0) & ~truth.all(axis=0)
        absent = np.flatnonzero(~known)
        if self._kind != "multilabel" or not absent.size or self.cost is not None:
            return known
        listed = ", ".join(str(c) for c in absent[:5]) + (", ..." if absent.size > 5 else "")
        which = f"label {listed}" if absent.size == 1 else f"labels {listed}"
        if not known.any():
            raise ValueError(f"calibration needs rows with and without each label. No label has both: {which}.")
        warnings.warn(
            f"{which} (columns of y) can't be certified: among the {truth.shape[0]:,} rows held out all are inside or "
            "all outside. Such a label is never given; hold out more rows, or leave it out of y.",
            UserWarning,
            stacklevel=4,
        )
        return known

    def _truth(self, labels: Any) -> tuple[Any, Any]:
        """Return the names of the classes and the membership mask."""
        truth = memberships(labels, self.classes_, self._kind)
        if self._kind == "multilabel":
            return np.arange(truth.shape[1]), truth
        missing = self.classes_[~truth.any(axis=0)]
        if missing.size:
            raise ValueError(
                f"calibration needs rows of every class. Got none of {missing[0].item()!r} among the {labels.size:,} "
                "rows held out."
            )
        return self.classes_, truth

    @property
    def _n_columns(self) -> int:
        return len(self._thresholds)

    def _model_name(self) -> str:
        return f"{type(self.estimator_).__name__}-{name_of(self.estimator_) or 'unhashable'}"

    def check_model(self) -> bool:
        """Compare the classifier with the calibrated one, and mark the certificate stale if it has changed.

        Learning, forgetting or any change of `estimator_` voids the promise; this method detects it (by a hash of the
        whole classifier, so not at every row).

        Returns
        -------
        bool
            True if it is unchanged.
        """
        check_is_fitted(self, "threshold_")
        name = self._model_name()
        if name.endswith("-unhashable"):
            raise TypeError(f"{type(self.estimator_).__name__} can't be pickled, so it can't be compared.")
        several = isinstance(self.certificate_, Certificates)
        certificates = (
            self.certificate_ if several else Certificates({None: self.certificate_} if self.certificate_ else {})
        )
        same = all(certificate.model == name for certificate in certificates.values())
        if not same:
            revoked = {key: certificate.revoke(f"the model is now {name}") for key, certificate in certificates.items()}
            self.certificate_ = Certificates(revoked) if several else revoked[None]
        return same

    # ------------------------------------------------------------------ predictions

    def predict(self, X: Any) -> Any:
        """Predict labels: positive if the score is strictly above the threshold.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Labels; `unsure_label` between two thresholds. With a threshold per class: the class of highest score among
            those above their threshold, `unsure_label` if none is; for indicator labels, all that are above.
        """
        check_is_fitted(self, "threshold_")
        columns = by_class(self._raw(X), self._kind)
        if self._kind == "multilabel":
            return (columns > self._thresholds).astype(int)
        choice, doubt = chosen(columns, self._thresholds, self._targets, self._lower)
        certain = len(self._targets) == 1 and self._lower is None
        return self.classes_[choice] if certain else with_unsure(self.classes_, choice, doubt, self.unsure_label)

    @available_if(_gives_probabilities)
    def predict_proba(self, X: Any) -> Any:
        """Return probabilities, calibrated on held-out scores and never closer to 0 or 1 than 1/(n + 2).

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
            With several classes, each class against the rest, normalized to a sum of 1; for indicator labels,
            independent.
        """
        check_is_fitted(self, "threshold_")
        if self._maps is None:
            return self._own_probabilities(X)
        raw = self._raw(X)
        if self._kind == "binary":
            chance = self._maps[0](raw)
            return np.column_stack((1 - chance, chance))
        table = np.column_stack([chance(raw[:, c]) for c, chance in enumerate(self._maps)])
        return table if self._kind == "multilabel" else table / table.sum(axis=1, keepdims=True)

    @available_if(_gives_probabilities)
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self, "threshold_")
        if self._maps is None and hasattr(self.estimator_, "predict_log_proba") and n_rows(X) != 0:
            return self.estimator_.predict_log_proba(plain_documents(X))  # no underflow, unlike probabilities
        with np.errstate(divide="ignore"):
            chances = self.predict_proba(X)
            return [np.log(table) for table in chances] if isinstance(chances, list) else np.log(chances)


def is_share(cv: Any) -> bool:
    """Return whether `cv` is a share of the rows to hold out."""
    return isinstance(cv, numbers.Real) and not isinstance(cv, numbers.Integral)


def split(labels: Any, when: Any, share: float, groups: Groups) -> tuple[Any, Any]:
    """Split rows into training and held-out rows: a stratified random sample, or the latest rows.

    A group is never on both sides; with times, the late rows of a group with early rows are dropped.
    """
    n = labels.shape[0]
    if when is None:
        plain = labels.ndim == 1
        first = np.unique(groups, return_index=True)[1]  # one row of each group
        splitter = (StratifiedShuffleSplit if plain else ShuffleSplit)(1, test_size=share, random_state=0)
        _, chosen = next(splitter.split(np.zeros(len(first)), labels[first] if plain else None))
        held = np.zeros(len(first), bool)
        held[chosen] = True
        return np.flatnonzero(~held[groups]), np.flatnonzero(held[groups])
    start = np.sort(when)[n - max(1, round(share * n))]
    late = when >= start
    if late.all():
        late = when > start
    if not late.any():
        raise ValueError("order gives all rows the same time, so there are no latest rows to hold out. Omit order.")
    return np.flatnonzero(~late), np.flatnonzero(late & ~np.isin(groups, groups[~late]))


def weight_parameter(estimator: Any) -> str:
    """Return the name of the sample-weight parameter of `fit`; in a plain pipeline, of the last step's `fit`."""
    if get_config()["enable_metadata_routing"] or not isinstance(estimator, Pipeline):
        return "sample_weight"
    name, last = estimator.steps[-1]
    return f"{name}__{weight_parameter(last)}"


# ---------------------------------------------------------------------- names of fitted models


class _ModelHasher(NumpyHasher):
    """joblib's hasher, made independent of strides, memory maps and views, with support for masked arrays."""

    def save(self, obj: Any) -> None:
        """Add an object to the digest."""
        if isinstance(obj, np.ma.MaskedArray):
            obj = ("masked", obj.filled(), np.ma.getmaskarray(obj))
        elif isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
            obj = _in_order(obj)
        elif isinstance(obj, Bunch):  # pickling drops its private attribute
            obj = ("bunch", dict(obj))
        super().save(obj)


def _in_order(array: np.ndarray) -> np.ndarray:
    """Return an array with the strides of its copy."""
    order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    usual = np.empty(array.shape, array.dtype, order).strides
    return array if array.strides == usual else array.copy(order)


def name_of(model: Any) -> str | None:
    """Return 16 hexadecimal digits that change with a model's content, not with the memory layout of its arrays.

    Return None if the model can't be pickled.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> one, other = GaussianNB().fit([[0], [1]], [0, 1]), GaussianNB().fit([[0], [2]], [0, 1])
    >>> len(name_of(one)), name_of(one) == name_of(other), name_of(lambda: None)
    (16, False, None)
    """
    try:
        return str(_ModelHasher("md5", coerce_mmap=True).hash(model))[:16]
    except Exception:  # pickling a third-party class may raise any error, which must not fail the fit
        return None
