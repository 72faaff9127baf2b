"""The estimator `BudgetedThreshold`: any classifier on a stream, with a bound on false alarms that survives drift."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from surebayes.core.checks import fraction
from surebayes.guarantees.budget import AlarmBudget
from surebayes.guarantees.certificate import PREQUENTIAL, Certificate, Certificates, interval_confidence
from surebayes.guarantees.class_scores import (
    Floats,
    Kind,
    by_class,
    chosen,
    finite,
    kind_of,
    known_labels,
    memberships,
    protected_label,
    raw_scores,
    target_columns,
    with_unsure,
)
from surebayes.guarantees.positive_class import warn_once
from surebayes.guarantees.prequential import PrequentialThreshold
from surebayes.guarantees.thresholded import ThresholdedClassifier
from surebayes.metrics.significance import Interval, rate_interval
from surebayes.text.documents import places_among, plain_documents

__all__ = ["BudgetedThreshold"]

_FOLDS = 5
_CALM = 0.5  # the share of the burst up to which known negatives update the threshold


def _inner_has(name: str) -> Any:
    return available_if(lambda self: hasattr(getattr(self, "estimator_", self.estimator), name))


class BudgetedThreshold(ThresholdedClassifier):
    """A classifier on a stream with a bound on its false alarms, for any stream.

    A certificate holds for rows like the held-out rows. This threshold is for streams that change: it keeps an
    :class:`AlarmBudget`, is updated with every known label, rises with debt, and flags nothing when one more alarm
    would exceed `burst`. Any n consecutive known negatives contain at most ``burst + rate * n`` false alarms, plus the
    alarms still unlabelled when a row was judged, even under drift or attack, or with a useless classifier.

    The threshold itself is the order statistic of the scores that known negatives got before they were learnt
    (:class:`~surebayes.guarantees.prequential.PrequentialThreshold`): measured, not guaranteed. It determines the
    recall; the budget limits the alarms. Negatives that arrive while more than half of the burst is spent don't update
    it, so an attack leaves no trace once its debt is paid.

    Parameters
    ----------
    estimator : classifier
        Any classifier with `decision_function`, or else `predict_log_proba` or `predict_proba` (then log-odds are
        used).
    rate : float, default=0.001
        Alarms that one known negative pays for, in (0, 1).
    burst : float, default=5
        Alarms that may occur at once; at least 1.
    confidence : float, default=0.5
        The confidence with which the threshold keeps `rate` on scores like past ones. A lower value gives more recall
        and spends more of the budget.
    pos_label : label, default=None
        The class whose false alarms are limited. None: the second of two classes; with more classes, or indicator
        labels, each class has a threshold and a budget. With ``classes_[0]`` of two classes, the score is negated.

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier.
    classes_ : ndarray
        Labels.
    budget_ : AlarmBudget, or dict of label to AlarmBudget
        The account of debt, alarms and known negatives; one per class if there are several thresholds.
    threshold_ : float, or ndarray of shape (K,)
        The current threshold: scores strictly above it are positive, see :meth:`scores`. Infinite while mute.
    certificate_ : Certificate or Certificates
        The current promise and its evidence.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> random = np.random.default_rng(0)
    >>> y = random.random(2000) < 0.4
    >>> X = random.normal(size=(2000, 2)) + 3 * y[:, None]
    >>> X[1500:] += 3 * ~y[1500:, None]                    # in the end negatives look like positives
    >>> model = BudgetedThreshold(GaussianNB(), rate=0.01, burst=5).fit(X[:1000], y[:1000])
    >>> for row, truth in zip(X[1000:], y[1000:]):
    ...     answer = model.predict([row])
    ...     _ = model.partial_fit([row], [truth])
    >>> model.budget_.negatives, model.budget_.alarms, round(model.budget_.debt, 2), model.budget_.left
    (558, 9, 4.62, 0)
    """

    def __init__(
        self, estimator: Any, *, rate: float = 0.001, burst: float = 5, confidence: float = 0.5, pos_label: Any = None
    ) -> None:
        self.estimator = estimator
        self.rate = rate
        self.burst = burst
        self.confidence = confidence
        self.pos_label = pos_label

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any) -> BudgetedThreshold:
        """Fit the classifier, and set the threshold by out-of-fold scores; the budget starts without debt.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows of any form that the classifier accepts.
        y : array-like of shape (n,) or (n, K)
            Labels or indicators.

        Returns
        -------
        BudgetedThreshold
            The fitted object.
        """
        self._check_parameters()
        X, labels = self._checked(X, y)
        if labels.ndim == 1 and np.unique(labels).size < 2:
            raise ValueError(f"the first {labels.size:,} rows are all of one class. Give rows of both classes.")
        raw = self._out_of_fold(X, labels)
        self.estimator_ = clone(self.estimator).fit(X, labels)
        raw = raw_scores(self.estimator_, X, labels.ndim == 2) if raw is None else raw
        self._begin(kind_of(labels, raw), labels)
        columns, truth = by_class(finite(raw), self._kind), memberships(labels, self.classes_, self._kind)
        for c, calibration in zip(self._targets, self._calibrations):
            for score, positive in zip(columns[:, c].tolist(), truth[:, c].tolist()):
                calibration.add(score, positive)
        return self

    def _check_parameters(self) -> None:
        AlarmBudget(self.rate, self.burst)
        fraction(self.confidence, "confidence", zero=False, one=False)

    def _checked(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        if y is None:
            raise ValueError("BudgetedThreshold requires y to be passed, but the target y is None.")
        (X,) = indexable(plain_documents(X))
        labels = known_labels(y)
        check_classification_targets(labels)
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if rows != labels.shape[0]:
            raise ValueError(f"X and y must have the same number of rows. Got {rows:,} and {labels.shape[0]:,}.")
        return X, labels

    def _out_of_fold(self, X: Any, labels: NDArray[Any]) -> Floats | None:
        """Return out-of-fold scores; None if a class has only one row."""
        plain = labels.ndim == 1
        fewest = int(np.unique(labels, return_counts=True)[1].min()) if plain else labels.shape[0]
        if fewest < 2:
            return None
        folds = min(_FOLDS, fewest)
        scores: Floats | None = None
        splitter = StratifiedKFold(folds) if plain else KFold(folds)
        for train, test in splitter.split(np.zeros(labels.shape[0]), labels if plain else None):
            with places_among(train):
                model = clone(self.estimator).fit(_safe_indexing(X, train), labels[train])
            with places_among(test):
                part = raw_scores(model, _safe_indexing(X, test), not plain)
            scores = np.empty((labels.shape[0], *part.shape[1:])) if scores is None else scores
            scores[test] = part
        return scores

    def _begin(self, kind: Kind, labels: NDArray[Any]) -> None:
        """Create empty budgets for the classes of the fitted classifier."""
        self._kind: Kind = kind
        self.classes_ = np.arange(labels.shape[1]) if kind == "multilabel" else np.asarray(self.estimator_.classes_)
        self._targets = target_columns(self.classes_, kind, self.pos_label)
        if self.pos_label is None and kind == "binary":
            warn_once(self.classes_.tolist(), self.classes_.tolist()[1], "give pos_label", stacklevel=3)
        self._budgets = [AlarmBudget(self.rate, self.burst) for _ in self._targets]
        self._calibrations = [PrequentialThreshold(self.rate, self.confidence) for _ in self._targets]
        self._found = [0] * len(self._targets)  # flagged rows known to be positive
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    @_inner_has("partial_fit")
    def partial_fit(self, X: Any, y: Any, flagged: Any = None, classes: Any = None) -> BudgetedThreshold:
        """Record rows with known labels in the budget, then learn them.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Any number of rows.
        y : array-like of shape (n,) or (n, K)
            Their true labels.
        flagged : array-like of shape (n,) or (n, K), optional
            The earlier answers of :meth:`predict`, or booleans that are true for the positive class. None takes the
            current answers of :meth:`predict`. Pass the earlier answers if more labels became known after the rows were
            judged; otherwise some alarms are not counted.
        classes : array-like, optional
            All labels; required by the first call without :meth:`fit`, unless `y` contains them all.

        Returns
        -------
        BudgetedThreshold
            The fitted object.
        """
        X, labels = self._checked(X, y)
        if not hasattr(self, "classes_"):
            return self._first_rows(X, labels, flagged, classes)
        if not len(labels):
            return self
        columns = by_class(finite(self._raw(X)), self._kind)
        truth, alarms = self._understood(columns, labels, flagged)
        self.estimator_.partial_fit(X, labels)  # if this fails, nothing was recorded
        self._record(columns, truth, alarms)
        return self

    def _first_rows(self, X: Any, labels: NDArray[Any], flagged: Any, classes: Any) -> BudgetedThreshold:
        """Start without a warm-up: the first rows have neither a verdict nor a score."""
        self._check_parameters()
        known = np.unique(labels) if classes is None else np.asarray(classes)
        if labels.ndim == 1 and known.size < 2:
            raise ValueError(f"the first rows are all of one class, {known!r}. Pass all labels as classes=[...].")
        options = {} if labels.ndim == 2 and classes is None else {"classes": known}
        self.estimator_ = clone(self.estimator).partial_fit(X, labels, **options)
        self._begin(kind_of(labels, raw_scores(self.estimator_, X, labels.ndim == 2)), labels)
        truth = memberships(labels, self.classes_, self._kind)
        alarms = np.zeros(truth.shape, dtype=bool) if flagged is None else self._answered(flagged, truth.shape)
        for c, budget in zip(self._targets, self._budgets):
            for alarm in alarms[~truth[:, c], c].tolist():
                budget.record(alarm)
        return self

    def observe(self, scores: Any, y: Any, flagged: Any = None) -> BudgetedThreshold:
        """Record known labels in the budget, without learning the rows.

        Parameters
        ----------
        scores : array-like of shape (n,), or (n, K) if there are several thresholds
            The output of :meth:`scores` when the rows were judged; finite.
        y : array-like of shape (n,) or (n, K)
            Their true labels.
        flagged : array-like of shape (n,) or (n, K), optional
            Earlier answers, as in :meth:`partial_fit`. None: those of the current threshold.

        Returns
        -------
        BudgetedThreshold
            The fitted object.
        """
        check_is_fitted(self, "classes_")
        values, labels = np.atleast_1d(finite(scores)), known_labels(y)
        width = len(self._targets)
        if values.shape != ((labels.shape[0],) if width == 1 else (labels.shape[0], width)):
            raise ValueError(
                f"there must be {'one score' if width == 1 else f'{width} scores'} for each of the "
                f"{labels.shape[0]:,} labels. Got shape {values.shape}."
            )
        columns = np.full((labels.shape[0], len(self.classes_)), -np.inf)
        columns[:, self._targets] = values[:, None] if width == 1 else values
        truth, alarms = self._understood(columns, labels, flagged)
        self._record(columns, truth, alarms)
        return self

    def _understood(self, columns: Floats, labels: NDArray[Any], flagged: Any) -> tuple[Any, Any]:
        """Return correct labels and answers, one column per class."""
        truth = memberships(labels, self.classes_, self._kind)
        return truth, self._called(columns) if flagged is None else self._answered(flagged, truth.shape)

    def _answered(self, flagged: Any, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Convert earlier answers: labels, or booleans for the positive class."""
        answers = np.atleast_1d(np.asarray(flagged))
        if answers.shape[0] != shape[0] or answers.shape not in (shape, shape[:1]):
            raise ValueError(f"flagged must have one entry for each of the {shape[0]:,} rows. Got {answers.shape}.")
        if answers.shape == shape:
            return answers.astype(bool)
        if self._kind == "multilabel" or (answers.dtype.kind == "b" and len(self._targets) > 1):
            raise ValueError("with several thresholds, flagged must be the output of predict: labels or indicators.")
        if answers.dtype.kind != "b":
            return np.asarray(answers[:, None] == self.classes_)
        alarms = np.zeros(shape, dtype=bool)
        alarms[:, self._targets[0]] = answers
        return alarms

    def _record(self, columns: Floats, truth: NDArray[np.bool_], alarms: NDArray[np.bool_]) -> None:
        """Count known rows in the budgets, and update the thresholds.

        Negatives that arrive while much of the burst is spent don't update a threshold. Debt doesn't depend on the
        score of the next row, so rows are not selected by score; but during an attack most rows arrive with debt, and
        the threshold is unchanged once the debt is paid.
        """
        for k, (c, budget, calibration) in enumerate(zip(self._targets, self._budgets, self._calibrations)):
            self._found[k] += int((truth[:, c] & alarms[:, c]).sum())
            for score, positive, alarm in zip(columns[:, c].tolist(), truth[:, c].tolist(), alarms[:, c].tolist()):
                if positive or budget.lift <= _CALM:
                    calibration.add(score, positive)
                if not positive:
                    budget.record(alarm)

    # ------------------------------------------------------------------ predictions

    @property
    def budget_(self) -> Any:
        """The budget, or a dict of one per class by label."""
        check_is_fitted(self, "classes_")
        if len(self._targets) == 1:
            return self._budgets[0]
        return {self.classes_[c].item(): budget for c, budget in zip(self._targets, self._budgets)}

    @property
    def threshold_(self) -> Any:
        """The current threshold."""
        return self.threshold_with(0)

    def threshold_with(self, in_flight: Any) -> Any:
        """Return the threshold given positive answers in flight.

        Parameters
        ----------
        in_flight : int, or array of int of shape (K,)
            The number of positive answers in flight, see :meth:`predict`.

        Returns
        -------
        float, or ndarray of shape (K,)
        """
        check_is_fitted(self, "classes_")
        thresholds = self._thresholds(in_flight)
        return float(thresholds[self._targets[0]]) if len(self._targets) == 1 else thresholds

    def _thresholds(self, in_flight: Any = 0) -> Floats:
        waiting = np.broadcast_to(in_flight, len(self.classes_))
        if waiting.dtype.kind not in "iu" or (waiting < 0).any():
            raise ValueError(f"in_flight must be integers of at least 0. Got {in_flight!r}.")
        thresholds = np.full(len(self.classes_), np.inf)
        for c, budget, calibration, found in zip(self._targets, self._budgets, self._calibrations, self._found):
            if not budget.mute:
                wrong = budget.alarms / (budget.alarms + found + 1)  # share of false alarms among positive answers
                thresholds[c] = calibration.lifted(budget.expected_lift(wrong * int(waiting[c])))
        return thresholds

    @property
    def certificate_(self) -> Any:
        """The current promise; one per class if there are several thresholds."""
        check_is_fitted(self, "classes_")
        several = [self._certificate(k) for k in range(len(self._targets))]
        return several[0] if len(several) == 1 else Certificates({each.pos_label: each for each in several})

    def _certificate(self, k: int) -> Certificate:
        calibration, target = self._calibrations[k], self._targets[k]
        caught, recent = calibration.recent_recall()
        seen = calibration.negatives + calibration.positives
        measured = calibration.allowed >= 0
        threshold, level = calibration.threshold, interval_confidence(self.confidence)
        other = protected_label(self.classes_, self._kind, target)
        return Certificate(
            threshold=threshold if np.isfinite(threshold) else float(np.finfo(float).max),
            goal="max_fpr" if measured else "budget",
            confidence=float(self.confidence),
            n_negatives=calibration.negatives,
            n_positives=calibration.positives,
            allowed=max(calibration.allowed, 0),
            max_fpr=float(self.rate) if measured else None,
            min_recall=None,
            min_precision=None,
            recall=calibration.recall,
            recall_interval=rate_interval(caught, recent, level) if recent else Interval(0.0, 1.0),
            positive_share=calibration.positives / seen if seen else 0.0,
            assumption=PREQUENTIAL,
            pos_label=self.classes_[target].item(),
            neg_label=None if other is None else other.item(),
            budget=self._budgets[k].bound(),
        )

    def predict(self, X: Any, in_flight: Any = 0) -> Any:
        """Predict labels: positive if the score exceeds the current threshold; none are positive while it is mute.

        The rows of one call are judged as if at the same time: each positive one is in flight for the later rows.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.
        in_flight : int, or array of int of shape (K,)
            The number of positive answers (of each class) without labels so far. The debt that they are likely to cause
            lifts the threshold in advance. The bound holds for any number.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            Labels. With a threshold per class: the class of highest score among those above their threshold, "unsure"
            (-1 for numeric labels) if none is; for indicator labels, all that are above.
        """
        check_is_fitted(self, "classes_")
        columns = by_class(self._raw(X), self._kind)
        if self._kind == "multilabel":
            return (columns > self._thresholds(in_flight)).astype(int)
        choice, doubt = chosen(columns, self._thresholds(in_flight), self._targets)
        single = len(self._targets) == 1
        return self.classes_[choice] if single else with_unsure(self.classes_, choice, doubt, None)

    def _called(self, columns: Floats) -> NDArray[np.bool_]:
        """Return a mask of the classes called positive for each row, at the current thresholds."""
        above: NDArray[np.bool_] = columns > self._thresholds()
        if self._kind == "multilabel" or len(self._targets) == 1:
            return above
        choice, doubt = chosen(columns, self._thresholds(), self._targets)
        return np.asarray((choice[:, None] == np.arange(columns.shape[1])) & ~doubt[:, None])

    @_inner_has("predict_proba")
    def predict_proba(self, X: Any) -> Any:
        """Return the classifier's own probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix or sequence of length n
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        check_is_fitted(self, "classes_")
        return self._own_probabilities(X)

    def predict_one(self, x: Any) -> Any:
        """Predict the label of one row, by the convention of streaming libraries.

        Parameters
        ----------
        x : row
            One row or document.
        """
        return self.predict([x])[0]

    @_inner_has("partial_fit")
    def learn_one(self, x: Any, y: Any) -> BudgetedThreshold:
        """Learn one row with its label, by the convention of streaming libraries.

        Parameters
        ----------
        x : row
            One row or document.
        y : label
            Its true label.
        """
        self.partial_fit([x], [y])
        return self
