"""The estimator `TunedNB`: choice of classifier and settings by cross-validation, at the cost of a few fits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from surebayes.classifiers.base import CountClassifier
from surebayes.classifiers.delegating import DelegatingClassifier
from surebayes.classifiers.learning import restore_on_error
from surebayes.classifiers.opinion_pool import OpinionPoolNB
from surebayes.classifiers.parameters import POSITIVE, Constraints
from surebayes.classifiers.tuning_counts import Fold, SharedDocuments, folds_of
from surebayes.classifiers.tuning_measures import measure_of, only_ranks
from surebayes.classifiers.tuning_search import (
    FOLDS,
    N_CANDIDATES,
    OUT_OF_TIME,
    Search,
    check_order,
    deal,
    forward_folds,
)
from surebayes.core.freezing import TrainingDocuments
from surebayes.core.reversal import Reversal

if TYPE_CHECKING:
    from rich.table import Table

    from surebayes.text.scorer import TextScorer


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """Show a progress bar on an interactive terminal."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("tuning"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("tuning", total=N_CANDIDATES)
        yield lambda n: bar.advance(task, n)


def _counted(y: Any, order: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Drop the labels and times of documents with weight 0, which are dropped from the rows as well."""
    weight = np.asarray(1.0 if sample_weight is None else sample_weight)
    if weight.ndim == 0 or weight.all():
        return y, order
    counted = np.flatnonzero(weight)
    if order is not None:
        order = check_order(order, len(weight))[counted]
    return _safe_indexing(y, counted), order


def _winner_has(name: str) -> Callable[[Any], bool]:
    """Return a check whether the winner has a method; true before `fit`."""

    def check(tuned: Any) -> bool:
        if hasattr(tuned, "best_estimator_"):
            getattr(tuned.best_estimator_, name)
        return True

    return check


class TunedNB(DelegatingClassifier):
    """A classifier with the best family, weights, smoothing and number of terms for the training documents.

    The search evaluates families and term weights (in induction and in scoring) with several smoothings and lengths,
    then the number of terms per document (post-hoc, confirmed in induction), softmax, and the discount of easily
    reversed decisions. Every candidate is scored on training documents that it hasn't learnt.

    If the metric depends on the ranking only, the winner's prior is then set to maximize the mean of accuracy and macro
    F1 on the same held-out documents.

    Parameters
    ----------
    metric : str or callable, default="auc_0.1"
        The quantity to maximize: a measure of `surebayes.metrics.scorers` ("auc_0.1", "tpr@fpr=0.001", "roca_percent",
        ...), a scorer of scikit-learn or its name ("accuracy", "f1_macro", ...), or a function of labels and scores.
        With more than two classes, ranking measures are averaged over the classes.
    split : "stratified" or cross-validator, default="stratified"
        The folds of held-out training documents. "stratified" makes three folds, class by class; copies of a document
        stay together to prevent leakage.
    budget : float, default=None
        The time in seconds after which no new candidate is started; None evaluates all candidates.
    random_state : int, default=0
        The seed for the folds. The same seed gives the same result, unless the budget ends the search early.

    Attributes
    ----------
    best_estimator_ : object
        The winner, fitted on all documents.
    best_params_ : dict
        The winner's non-default parameters, and under "family" the name of its class.
    best_score_ : float
        The winner's mean measure over the folds; NaN if no documents could be held out.
    results_ : dict of lists
        The candidates, as columns for a data frame: stage, estimator, mean_score, fold_scores, seconds, status.
    budget_used_up_ : bool
        Whether the budget ended the search before all candidates were evaluated.

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

    _inner_name = "best_estimator_"
    _parameter_constraints: ClassVar[Constraints] = {
        "metric": [str, callable],
        "split": [StrOptions({"stratified"}), HasMethods("split")],
        "budget": [None, *POSITIVE],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }
    best_estimator_: CountClassifier
    best_score_: float
    best_params_: dict[str, Any]
    results_: dict[str, list[Any]]
    budget_used_up_: bool

    def __init__(
        self,
        metric: Any = "auc_0.1",
        split: Any = "stratified",
        budget: float | None = None,
        random_state: int = 0,
    ) -> None:
        self.metric = metric
        self.split = split
        self.budget = budget
        self.random_state = random_state

    def _check_settings(self) -> None:
        if isinstance(self.split, str) and self.split != "stratified":  # str has a method `split`, too
            raise ValueError(
                "The 'split' parameter of TunedNB must be 'stratified' or a cross-validator with a method `split`. Got "
                f"{self.split!r} instead."
            )

    def fit(  # type: ignore[override]
        self, X: Any, y: Any, order: Any = None, sample_weight: Any = None
    ) -> Self:
        """Search, then fit the winner on all documents.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Counts of terms.
        y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_classes)
            Labels.
        order : array-like of shape (n_samples,), default=None
            The time of each document. The search then trains on earlier documents and tests on later ones, three times,
            instead of using `split`.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the documents, in the search and in the final fit. An integer weight k is equivalent to k copies
            (without `order`, which splits by documents); in the measure, a document with a non-integer weight counts
            once.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        with restore_on_error(self):
            documents = self._read(X, y, None, sample_weight)
            self._search(documents, y, order, sample_weight)
            self._learn(documents)
        return self

    def fit_representation(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Search, then freeze the winner's representation on these documents without learning them yet."""
        return super().fit_representation(X, y, classes, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more documents with the winner; the first call searches on its documents."""
        return super().partial_fit(X, y, classes, sample_weight)

    def _start(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> TrainingDocuments:
        documents = self._read(X, y, classes, sample_weight)
        self._search(documents, y, None, sample_weight)
        self._freeze_on(documents)
        return documents

    def _search(self, read: TrainingDocuments, y: Any, order: Any, sample_weight: Any) -> None:
        """Evaluate the candidates on these documents and set up the winner, unfitted."""
        documents = SharedDocuments.of(read.rows, read.labels, read.n_classes, read.contrasts, read.weight)
        y, order = _counted(y, order, sample_weight)
        measure = measure_of(self.metric, self.classes_, self.multilabel_)
        deadline = np.inf if self.budget is None else time.monotonic() + self.budget
        folds = [fold for fold in self._folds(documents, y, order) if fold.usable]
        with _progress() as tick:
            places = not self.multilabel_ and only_ranks(self.metric)
            search = Search(folds, measure, deadline, tick, places)
            if folds:
                for stage in (search.families, search.steepness, search.tops, search.reversal):
                    stage()
        best = search.best() or {"estimator": OpinionPoolNB(), "mean_score": float("nan")}
        winner = clone(search.with_cut(best["estimator"]))
        self._adopt(winner)
        winner._prepare(self.n_features_in_, self.classes_, self.multilabel_)
        self.best_score_ = best["mean_score"]
        self.best_params_ = _changed_parameters(winner)
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

    def _identity(self) -> dict[str, Any]:
        return self._inner._identity()  # independent of the search

    @available_if(_winner_has("reversal"))
    def reversal(self, X: Any) -> Reversal:
        """Return the difficulty of reversing each decision, if the winner supports it."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.reversal(X)  # type: ignore[no-any-return]

    def text_scorer(self, vectorizer: Any) -> TextScorer:
        """Return the winner's text scorer."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.text_scorer(vectorizer)

    def summary(self, n: int = 15) -> Table:
        """Build a `rich` table of the best candidates.

        Parameters
        ----------
        n : int, default=15
            The maximum number of rows.

        Returns
        -------
        rich.table.Table
            The table, for a rich console.
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


def _changed_parameters(estimator: CountClassifier) -> dict[str, Any]:
    """Return the non-default parameters by constructor name."""
    usual = type(estimator)().get_params(deep=False)
    changed = {name: value for name, value in estimator.get_params(deep=False).items() if value != usual[name]}
    return {"family": type(estimator).__name__, **changed}
