"""TunedNB: the classifier and the setting that suit the data, found on training documents at the cost of a few fits."""

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
from surebayes.classifiers.learning import whole_or_not_at_all
from surebayes.classifiers.opinion_pool import OpinionPoolNB
from surebayes.classifiers.parameters import POSITIVE, Constraints
from surebayes.classifiers.tuning_counts import Fold, SharedDocuments, folds_of
from surebayes.classifiers.tuning_cut import with_placed_cut
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


def _counted(y: Any, order: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Leave out documents of weight 0, as the rows that are counted do."""
    weight = np.asarray(1.0 if sample_weight is None else sample_weight)
    if weight.ndim == 0 or weight.all():
        return y, order
    counted = np.flatnonzero(weight)
    if order is not None:
        order = check_order(order, len(weight))[counted]
    return _safe_indexing(y, counted), order


def _winner_has(name: str) -> Callable[[Any], bool]:
    """Make the check whether the winner has a method; before `fit` the answer is yes."""

    def check(tuned: Any) -> bool:
        if hasattr(tuned, "best_estimator_"):
            getattr(tuned.best_estimator_, name)
        return True

    return check


class TunedNB(DelegatingClassifier):
    """The family, weights, smoothing, number of terms and so on that suit the training documents best.

    Tries families and term weights (in induction and in scoring) with several smoothings and lengths, then the number
    of terms of each document (post-hoc, confirmed in induction), softmax, and the discount of decisions that are easy
    to reverse. Only training documents are looked at; every candidate is judged on documents it has not learnt.

    Where the measure only asks for a good ranking, which says nothing of where one class ends, the prior of the winner
    is then placed so that it decides well: by the mean of accuracy and macro F1 on the same held-out documents.

    Parameters
    ----------
    metric : str or callable, default="auc_0.1"
        What is to be large: a measure named as in `surebayes.metrics.scorers` ("auc_0.1", "tpr@fpr=0.001",
        "roca_percent", ...), a scorer of scikit-learn or its name ("accuracy", "f1_macro", ...), or a function of
        labels and scores. Measures of a ranking are the mean over the classes where there are more than two.
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
        if isinstance(self.split, str) and self.split != "stratified":  # a str has a method `split` too
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
        with whole_or_not_at_all(self):
            documents = self._read(X, y, None, sample_weight)
            self._search(documents, y, order, sample_weight)
            self._learn(documents)
        return self

    def fit_representation(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Search, then freeze the winner's representation on these documents without learning them yet."""
        return super().fit_representation(X, y, classes, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more documents with the winner; before `fit`, tune on these first."""
        return super().partial_fit(X, y, classes, sample_weight)

    def _start(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> TrainingDocuments:
        documents = self._read(X, y, classes, sample_weight)
        self._search(documents, y, None, sample_weight)
        self._freeze_on(documents)
        return documents

    def _search(self, read: TrainingDocuments, y: Any, order: Any, sample_weight: Any) -> None:
        """Try the candidates on these documents and set up the winner, unfitted."""
        documents = SharedDocuments.of(read.rows, read.labels, read.n_classes, read.contrasts, read.weight)
        y, order = _counted(y, order, sample_weight)
        measure = measure_of(self.metric, self.classes_, self.multilabel_)
        deadline = np.inf if self.budget is None else time.monotonic() + self.budget
        folds = [fold for fold in self._folds(documents, y, order) if fold.usable]
        with _progress() as tick:
            search = Search(folds, measure, deadline, tick)
            if folds:
                for stage in (search.families, search.steepness, search.tops, search.reversal):
                    stage()
        best = search.best() or {"estimator": OpinionPoolNB(), "mean_score": float("nan")}
        winner = clone(best["estimator"])
        if not self.multilabel_ and only_ranks(self.metric):
            winner = with_placed_cut(winner, folds)
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
        return self._inner._identity()  # how the winner was found makes no difference

    @available_if(_winner_has("reversal"))
    def reversal(self, X: Any) -> Reversal:
        """Return how hard each decision is to reverse, where the winner can."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.reversal(X)  # type: ignore[no-any-return]

    def text_scorer(self, vectorizer: Any) -> TextScorer:
        """Return the winner's scores straight from text."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.text_scorer(vectorizer)

    def summary(self, n: int = 15) -> Table:
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


def _changed_parameters(estimator: CountClassifier) -> dict[str, Any]:
    """Return the parameters that differ from the defaults, under the names of the constructor."""
    usual = type(estimator)().get_params(deep=False)
    changed = {name: value for name, value in estimator.get_params(deep=False).items() if value != usual[name]}
    return {"family": type(estimator).__name__, **changed}
