"""TunedNB: the classifier and the setting that suit the data, found on training documents at the cost of a few fits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from surebayes import metrics
from surebayes.core.freezing import Documents
from surebayes.estimators.base import CountClassifier
from surebayes.estimators.opinion_pool import OpinionPoolNB
from surebayes.estimators.parameters import is_number
from surebayes.estimators.tuning.search import (
    FOLDS,
    N_CANDIDATES,
    OUT_OF_TIME,
    Search,
    check_order,
    deal,
    forward_folds,
    low_end_area,
)
from surebayes.estimators.tuning.shared_counts import Fold, SharedDocuments, folds_of
from surebayes.metrics.scorers import get_scorer


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show a progress bar where somebody is looking."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("tuning"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("tuning", total=N_CANDIDATES)
        yield lambda n: bar.advance(task, n)


def _measure(metric: Any) -> Callable[[np.ndarray, np.ndarray], float]:
    """Turn the parameter `metric` into a function of one class's labels and scores; greater is better."""
    if callable(metric):
        return metric  # type: ignore[no-any-return]
    scorer = get_scorer(metric)
    if "measure" not in scorer._kwargs:
        raise ValueError(
            f"The 'metric' parameter of TunedNB must rank documents by their scores, as 'auc_0.1' does. Got {metric!r} "
            "instead."
        )
    parameters = dict(scorer._kwargs)
    measure, sign = parameters.pop("measure"), scorer._sign
    measure = low_end_area if measure is metrics.partial_auc else measure
    return lambda y, s: sign * measure(y, s, **parameters)


def _counted(y: Any, order: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Leave out documents of weight 0, as the rows that are counted do."""
    weight = np.asarray(1.0 if sample_weight is None else sample_weight)
    if weight.ndim == 0 or weight.all():
        return y, order
    counted = np.flatnonzero(weight)
    if order is not None:
        order = check_order(order, len(weight))[counted]
    return _safe_indexing(y, counted), order


def _goes_to_best(name: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        return not hasattr(self, "best_estimator_") or hasattr(self.best_estimator_, name)

    return check


class TunedNB(CountClassifier):
    """The family, weights, smoothing, number of terms and so on that suit the training documents best.

    Tries families and term weights (in induction and in scoring) with several smoothings and lengths, then the number
    of terms of each document (post-hoc, confirmed in induction), softmax, and the discount of decisions that are easy
    to reverse. Only training documents are looked at; every candidate is judged on documents it has not learnt.

    Parameters
    ----------
    metric : str or callable, default="auc_0.1"
        What is to be large: a ranking measure named as in `surebayes.metrics.scorers` ("auc_0.1", "tpr@fpr=0.001",
        "roca_percent", ...) or a function of labels and scores. With more than two classes the mean over them.
    split : "stratified" or cross-validator, default="stratified"
        How training documents are held out. "stratified": three folds, class by class; copies of a document stay
        together, so that duplicates don't leak.
    budget : float, default=None
        Seconds after which no further candidate is started; None tries them all.
    random_state : int, default=0
        Deals the folds. The same seed gives the same result, unless the budget cut the search.

    Attributes
    ----------
    best_estimator_ : object
        The winner, fitted on all documents.
    best_params_ : dict
        Its parameters that differ from its defaults, and under "family" the name of its class.
    best_score_ : float
        Its mean measure over the folds; NaN where nothing could be held out.
    results_ : dict of lists
        What was tried: stage, estimator, mean_score, fold_scores, seconds, status. A data frame's input.
    budget_used_up_ : bool
        Whether candidates were left out.

    Examples
    --------
    >>> import numpy as np
    >>> from surebayes import TunedNB
    >>> rng = np.random.default_rng(0)
    >>> X = rng.poisson(0.4, (120, 30))
    >>> y = np.repeat([0, 1], 60)
    >>> X[y == 1, :5] += rng.poisson(0.8, (60, 5))
    >>> tuned = TunedNB().fit(X, y)
    >>> tuned.best_score_ > 0.3, len(tuned.results_["estimator"]) > 40
    (True, True)
    """

    def __init__(self, metric="auc_0.1", split="stratified", budget=None, random_state=0):
        self.metric = metric
        self.split = split
        self.budget = budget
        self.random_state = random_state

    def fit(self, X, y, order=None, sample_weight=None):
        """Search, then fit the winner on all documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.
        y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_classes)
            Labels.
        order : array-like of shape (n_samples,), default=None
            When each document came. The search then trains on what came first and tests on what came next, three
            times, instead of splitting as `split` says.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the documents, in the search and in the final fit. A whole weight k is the same as k copies
            (without `order`, whose cuts are by documents); in the measure a document of another weight counts once.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._search(self._read(X, y, None, sample_weight), y, order, sample_weight)
        self.best_estimator_.fit(X, y, sample_weight=sample_weight)
        return self

    def _rules(self):
        return {
            "metric": (lambda v: isinstance(v, str) or callable(v), "the name of a measure or a function"),
            "split": (
                lambda v: v == "stratified" if isinstance(v, str) else hasattr(v, "split"),
                "'stratified' or a cross-validator with a method `split`",
            ),
            "budget": (lambda v: v is None or is_number(v, 0), "None or a number of seconds above 0"),
            "random_state": (lambda v: is_number(v, 0, whole=True), "a whole number, 0 or above"),
        }

    def _freeze(self, documents, keep):
        return self.best_estimator_._freeze(documents, keep)

    def _model(self, columns):
        return self.best_estimator_._model(columns)

    def _search(self, read: Documents, y: Any, order: Any, sample_weight: Any) -> None:
        """Try the candidates on these documents and set up the winner, unfitted."""
        documents = SharedDocuments.of(read.rows, read.labels, read.n_classes, read.contrasts, read.weight)
        y, order = _counted(y, order, sample_weight)
        measure = _measure(self.metric)
        deadline = np.inf if self.budget is None else time.monotonic() + self.budget
        folds = [fold for fold in self._folds(documents, y, order) if fold.usable]
        with _progress() as tick:
            search = Search(folds, measure, deadline, tick)
            if folds:
                for stage in (search.families, search.steepness, search.tops, search.reversal):
                    stage()
        best = search.best() or {"estimator": OpinionPoolNB(), "mean_score": float("nan")}
        self.best_estimator_ = clone(best["estimator"])
        self.best_score_ = best["mean_score"]
        self.best_params_ = _said(self.best_estimator_)
        names = ("stage", "estimator", "mean_score", "fold_scores", "seconds", "status")
        self.results_ = {name: [row[name] for row in search.table] for name in names}
        self.budget_used_up_ = any(status == OUT_OF_TIME for status in self.results_["status"])

    def _folds(self, documents: SharedDocuments, y: Any, order: Any) -> list[Fold]:
        if order is not None:
            pairs = forward_folds(order, documents.rows.shape[0])
        elif isinstance(self.split, str):
            dealt = deal(documents, FOLDS, int(self.random_state))
            pairs = [(np.flatnonzero(dealt != f), np.flatnonzero(dealt == f)) for f in range(FOLDS)]
        else:
            pairs = [(np.asarray(a), np.asarray(b)) for a, b in self.split.split(documents.rows, y)]
        return folds_of(documents, [(train, test) for train, test in pairs if len(train) and len(test)])

    # ---- everything else goes to the winner

    @property
    def statistics_(self):
        """The winner's sums."""
        if not hasattr(self, "best_estimator_"):
            raise AttributeError("statistics_ comes with fit")
        return self.best_estimator_.statistics_

    def fit_representation(self, X, y, classes=None, sample_weight=None):
        """Search, then freeze the winner's representation on these documents without learning them yet."""
        self._search(self._read(X, y, classes, sample_weight), y, None, sample_weight)
        self.best_estimator_.fit_representation(X, y, classes=classes, sample_weight=sample_weight)
        return self

    def refit_representation(self, X, y, sample_weight=None):
        """Refresh the winner's frozen representation; needs all documents."""
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_.refit_representation(X, y, sample_weight=sample_weight)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn more documents with the winner; before `fit`, tune on these first."""
        if not hasattr(self, "best_estimator_"):
            self._search(self._read(X, y, classes, sample_weight), y, None, sample_weight)
        self.best_estimator_.partial_fit(X, y, classes=classes, sample_weight=sample_weight)
        return self

    def forget(self, X, y, sample_weight=None):
        """Undo the learning of documents, exactly."""
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_.forget(X, y, sample_weight=sample_weight)
        return self

    def merge(self, other):
        """Add what another TunedNB with the same winner and frozen representation has learnt."""
        check_is_fitted(self, "best_estimator_")
        if not isinstance(other, TunedNB):
            raise ValueError(f"Only another TunedNB can be merged. Got {type(other).__name__} instead.")
        check_is_fitted(other, "best_estimator_")
        self.best_estimator_.merge(other.best_estimator_)
        return self

    def decision_function(self, X):
        """Score documents as the winner does."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.decision_function(X)

    def predict(self, X):
        """Predict the class of each document as the winner does."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    def predict_proba(self, X):
        """Turn scores into probabilities as the winner does."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_proba(X)

    def predict_log_proba(self, X):
        """Give the logarithms of `predict_proba`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_log_proba(X)

    @available_if(_goes_to_best("reversal"))
    def reversal(self, X):
        """Tell how hard each decision is to reverse, where the winner can tell."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.reversal(X)

    def explain(self, X, top=None, terms=None):
        """Say what each term adds to each score."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.explain(X, top=top, terms=terms)

    def text_scorer(self, vectorizer):
        """Give the winner's scores straight from text."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.text_scorer(vectorizer)

    def summary(self, n=15):
        """Make a `rich` table of the best candidates, and of how many there were.

        Parameters
        ----------
        n : int, default=15
            How many rows.

        Returns
        -------
        rich.table.Table
            To be printed by a rich console.
        """
        check_is_fitted(self, "best_estimator_")
        from rich.table import Table

        rows = list(zip(*self.results_.values()))
        tried = sorted((r for r in rows if r[-1] == "tried"), key=lambda r: -r[2])
        left = sum(r[-1] == OUT_OF_TIME for r in rows)
        table = Table(title=f"{len(rows)} candidates, {len(tried)} on every fold, {left} left out by the budget")
        for column in (str(self.metric), "spread over folds", "stage", "candidate"):
            table.add_column(column)
        for stage, estimator, mean, folds, _, _ in tried[:n]:
            table.add_row(
                f"{mean:.4f}", f"{min(folds):.4f} - {max(folds):.4f}", stage, " ".join(repr(estimator).split())
            )
        return table


def _said(estimator: CountClassifier) -> dict[str, Any]:
    """Give the parameters that differ from the defaults, under the names of the constructor."""
    usual = type(estimator)().get_params(deep=False)
    changed = {name: value for name, value in estimator.get_params(deep=False).items() if value != usual[name]}
    return {"family": type(estimator).__name__, **changed}
