"""Comparison of classifiers on the same splits: measures, significance tests, wins, ROC at low FP rates.

>>> from surebayes import MultinomialNB, OpinionPoolNB
>>> from surebayes.research.compare import compare
>>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]] * 10, [1, 0, 1, 0] * 10
>>> found = compare({"NB": MultinomialNB(), "pool": OpinionPoolNB()}, X, y, repeats=3)
>>> found.mean("auc")
{'NB': 1.0, 'pool': 1.0}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import type_of_target

from surebayes import metrics
from surebayes.research.laboratory.report import Plot, PublishedFigure, Result

__all__ = ["Comparison", "compare", "named", "splits_of"]

LOWER_IS_BETTER = frozenset({"roca_percent", "lam_percent"})
FPR = tuple(np.linspace(0, 0.14, 71).round(4).tolist())

RANKING: Mapping[str, Callable[[Any, Any], float]] = {
    "auc": metrics.roc_auc,
    "auc_0.1": lambda y, s: metrics.partial_auc(y, s, max_fpr=0.1),
    "tpr_at_fpr_0.001": lambda y, s: metrics.tpr_at_fpr(y, s, 0.001),
    "tpr_at_fpr_0.01": lambda y, s: metrics.tpr_at_fpr(y, s, 0.01),
    "specificity_at_recall": metrics.specificity_at_recall,
    "break_even": metrics.break_even,
    "roca_percent": metrics.roca_percent,
}
"""Measures of scores for one class; with more than two classes, their mean over the classes."""


def splits_of(
    y: Any,
    split: Any = "holdout",
    repeats: int = 10,
    train_size: float = 0.66,
    order: Any = None,
    random_state: int = 0,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the training and test rows of each split.

    Parameters
    ----------
    y : array-like
        Labels, or an indicator matrix for multi-label data.
    split : {"holdout", "cv", "time"} or a scikit-learn cross-validator
        Random hold-outs (stratified for single labels), cross-validation with `repeats` folds, or splits by time.
    repeats : int
        The number of hold-outs, folds or splits by time. Splits by time cut the last (1 - train_size) of the stream
        into that many pieces; each is tested with a model that was trained on everything before it.
    train_size : float
        Share of training rows; not used in cross-validation.
    order : array-like, optional
        The time of each row for split="time"; rows of equal time stay together. By default, rows are in chronological
        order.

    Examples
    --------
    >>> from surebayes.research.compare import splits_of
    >>> [(train.tolist(), test.tolist()) for train, test in splits_of([0, 1] * 3, "time", 2, 0.34)]
    [([0, 1], [2, 3]), ([0, 1, 2, 3], [4, 5])]
    """
    labels = np.asarray(y) if not hasattr(y, "tocsr") else y
    n = labels.shape[0]
    if not isinstance(split, str) and hasattr(split, "split"):
        return [(train, test) for train, test in split.split(np.zeros(n), labels)]
    if not isinstance(split, str) or split not in ("holdout", "cv", "time"):
        raise ValueError(f"split must be 'holdout', 'cv', 'time' or a cross-validator. Got {split!r}.")
    if split == "time":
        return _by_time(n, repeats, train_size, order)
    single = not type_of_target(y).startswith("multilabel")
    if split == "cv":
        if not single:
            places = np.random.default_rng(random_state).permutation(n) % repeats
            return [(np.flatnonzero(places != f), np.flatnonzero(places == f)) for f in range(repeats)]
        folds = StratifiedKFold(repeats, shuffle=True, random_state=random_state)
        return list(folds.split(np.zeros(n), labels))
    maker = StratifiedShuffleSplit if single else ShuffleSplit
    return list(maker(repeats, train_size=train_size, random_state=random_state).split(np.zeros(n), labels))


def _by_time(n: int, pieces: int, train_size: float, order: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    when = np.arange(n) if order is None else np.asarray(order)
    if len(when) != n:
        raise ValueError(f"order must have one entry for each of {n} rows. Got {len(when)}.")
    rows = np.argsort(when, kind="stable")
    marks = np.linspace(round(train_size * n), n, pieces + 1).round().astype(int)
    # A cut within rows of equal time moves back to their start: they are tested together.
    cuts = [int(np.searchsorted(when[rows], when[rows[m]], side="left")) if 0 < m < n else int(m) for m in marks]
    splits = [(rows[:low], rows[low:high]) for low, high in pairwise(cuts) if 0 < low < high]
    if not splits:
        raise ValueError(
            "No split by time is possible: all rows have the same time, or train_size leaves no rows to test."
        )
    return splits


@dataclass(frozen=True, slots=True)
class Comparison:
    """Results of classifiers on the same splits.

    Attributes
    ----------
    values : mapping from measure to mapping from classifier to array
        One value per split.
    sizes : list of (int, int)
        The numbers of training and test rows of each split.
    curves : mapping from classifier to list
        The mean true-positive rate at `FPR` (two classes only).
    random_splits : bool
        Whether the splits are random, as the corrected resampled t-test assumes; splits by time are not.
    """

    values: Mapping[str, Mapping[str, np.ndarray]]
    sizes: list[tuple[int, int]]
    curves: Mapping[str, list[float]] = field(default_factory=dict)
    random_splits: bool = True

    @property
    def names(self) -> list[str]:
        """Names of the classifiers."""
        return list(next(iter(self.values.values())))

    def mean(self, measure: str) -> dict[str, float]:
        """Return each classifier's mean of a measure."""
        return {name: float(np.mean(values)) for name, values in self.values[measure].items()}

    def p_value(self, a: str, b: str, measure: str) -> float:
        """Return the p-value of the corrected resampled t-test; NaN for splits by time, and for a single split."""
        if not self.random_splits or len(self.sizes) < 2:
            return float("nan")
        n_train, n_test = (round(float(np.mean(sizes))) for sizes in zip(*self.sizes))
        first, second = self.values[measure][a], self.values[measure][b]
        return metrics.corrected_resampled_ttest(first, second, n_train, n_test).p

    def wins(self, measure: str) -> np.ndarray:
        """Count, for each pair of classifiers, the splits in which the first is better."""
        sign = -1.0 if measure in LOWER_IS_BETTER else 1.0
        table = sign * np.array([self.values[measure][name] for name in self.names])
        won: np.ndarray = np.sum(table[:, None, :] > table[None, :, :], axis=2)
        return won

    def result(self) -> Result:
        """Return all measures as tables and plots, in the format of the reproduced papers."""
        records = [
            PublishedFigure("", "comparison", "mean over splits", name, measure, None, value, self._setting())
            for measure in self.values
            for name, value in self.mean(measure).items()
        ]
        for measure in self.values:
            wins = self.wins(measure)
            for i, a in enumerate(self.names):
                for j, b in enumerate(self.names):
                    if i != j:
                        records.append(
                            PublishedFigure(
                                "", "comparison", f"{measure}: splits won", a, f"over {b}", None, float(wins[i, j])
                            )
                        )
                    p = self.p_value(a, b, measure)
                    if i < j and np.isfinite(p):
                        records.append(PublishedFigure("", "comparison", f"{measure}: p", a, f"against {b}", None, p))
        plots = []
        if self.curves:
            series = {name: (list(FPR), list(curve)) for name, curve in self.curves.items()}
            title = "ROC for low false-positive rates"
            plots.append(
                Plot("roc", title, "false-positive rate", "true-positive rate", series, x_range=(0.0, FPR[-1]))
            )
        notes = [] if self.random_splits else ["Splits by time overlap and drift: no t-test is given."]
        return Result("", "comparison", "Classifiers on the same splits", records, plots, notes)

    def _repr_html_(self) -> str:
        from surebayes.notebook import html

        means = {measure: self.mean(measure) for measure in self.values}
        rows = [[measure, *(f"{mean[name]:.3f}" for name in self.names)] for measure, mean in means.items()]
        parts = [html.table(["", *self.names], rows)]
        if self.curves:
            series = {name: (FPR, curve) for name, curve in self.curves.items()}
            parts.append(html.curves(series, "false-positive rate", "true-positive rate", (0.0, FPR[-1])))
        return html.frame(f"Mean over {self._setting()}", *parts)

    def _setting(self) -> str:
        n_train, n_test = self.sizes[0]
        kind = "random" if self.random_splits else "forward"
        return f"{len(self.sizes)} {kind} splits, the first with {n_train} rows to train and {n_test} to test"


def compare(
    estimators: Mapping[str, Any] | Sequence[Any],
    X: Any,
    y: Any,
    *,
    split: Any = "holdout",
    repeats: int = 10,
    train_size: float = 0.66,
    order: Any = None,
    pos_label: Any = None,
    random_state: int = 0,
    jobs: int = 1,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Train and test classifiers on the same splits of your data.

    Parameters
    ----------
    estimators : mapping from str to estimator, or sequence of estimators
        Classifiers of surebayes or scikit-learn, or pipelines. They are cloned for every split. Those in a sequence
        are named by their repr.
    X : array-like, sparse matrix or list of texts
        The input of the classifiers.
    y : array-like
        Labels, or an indicator matrix for multi-label data.
    split, repeats, train_size, order, random_state
        See `splits_of`.
    pos_label : label, default=None
        The positive class of two; by default the second in sorted order.
    jobs : int, default=1
        Number of processes.
    progress : callable, optional
        Called as progress(what, done, total).

    Returns
    -------
    Comparison
        The values of all measures, with methods for significance tests, wins and reports.

    Examples
    --------
    >>> import surebayes as sb
    >>> X, y = [[2, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 3]] * 10, [1, 0, 1, 0] * 10
    >>> sb.compare([sb.MultinomialNB(), sb.OpinionPoolNB()], X, y, repeats=3).mean("auc")
    {'MultinomialNB()': 1.0, 'OpinionPoolNB()': 1.0}
    """
    classifiers = named(estimators)
    chosen = splits_of(y, split, repeats, train_size, order, random_state)
    target = _ScoredLabels.of(y, pos_label)
    tasks = [(name, k) for name in classifiers for k in range(len(chosen))]
    calls = [(clone(classifiers[name]), X, target, *chosen[k]) for name, k in tasks]
    results = []
    for done, measured in enumerate(_called(calls, jobs), 1):
        results.append(measured)
        if progress:
            progress("comparing", done, len(calls))
    names = list(results[0]["values"])
    by_name = {name: [r for (task, _), r in zip(tasks, results) if task == name] for name in classifiers}
    shared = [m for m in names if all(m in r["values"] for r in results)]
    values = {m: {n: np.array([r["values"][m] for r in runs]) for n, runs in by_name.items()} for m in shared}
    curves = {
        name: np.mean([r["curve"] for r in runs], axis=0).tolist()
        for name, runs in by_name.items()
        if all(r["curve"] is not None for r in runs)
    }
    sizes = [(len(train), len(test)) for train, test in chosen]
    return Comparison(values, sizes, curves, random_splits=split != "time" and not _is_forward(chosen))


def named(estimators: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
    """Name the estimators of a sequence by their repr on one line, numbering duplicates."""
    if not estimators:
        raise ValueError("There is no classifier to compare: give at least one.")
    if isinstance(estimators, Mapping):
        return estimators
    by_name: dict[str, Any] = {}
    for estimator in estimators:
        name = " ".join(repr(estimator).split())
        copies = sum(known == name or known.startswith(f"{name} (") for known in by_name)
        by_name[f"{name} ({copies + 1})" if copies else name] = estimator
    return by_name


def _is_forward(chosen: Sequence[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Whether all test rows come after all training rows, in every split."""
    return all(len(train) and len(test) and train.max() < test.min() for train, test in chosen)


def _called(calls: list[tuple[Any, ...]], jobs: int) -> Any:
    if jobs == 1:
        return (_measure(*call) for call in calls)
    from joblib import Parallel, delayed

    return Parallel(n_jobs=jobs, return_as="generator")(delayed(_measure)(*call) for call in calls)


@dataclass(frozen=True, slots=True)
class _ScoredLabels:
    """Labels, and the classes to score: the positive class of two, else every class."""

    y: Any
    kind: str
    classes: np.ndarray
    positive: Any

    @classmethod
    def of(cls, y: Any, pos_label: Any) -> _ScoredLabels:
        if type_of_target(y).startswith("multilabel"):
            dense = np.asarray(y.toarray() if hasattr(y, "toarray") else y).astype(int)
            return cls(dense, "multilabel", np.arange(dense.shape[1]), None)
        labels = np.asarray(y)
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"y must have at least two classes. Got {classes.tolist()}.")
        positive = classes[-1] if pos_label is None else pos_label
        if len(classes) == 2 and positive not in classes:
            raise ValueError(f"pos_label must be one of {classes.tolist()}. Got {pos_label!r}.")
        return cls(labels, "binary" if len(classes) == 2 else "multiclass", classes, positive)

    def members(self, rows: np.ndarray) -> np.ndarray:
        if self.kind == "multilabel":
            return np.asarray(self.y[rows], bool)
        wanted = [self.positive] if self.kind == "binary" else self.classes
        return np.column_stack([self.y[rows] == label for label in wanted])


def _measure(model: Any, X: Any, target: _ScoredLabels, train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
    """Train and test once; return the measures and the ROC curve."""
    model.fit(_safe_indexing(X, train), target.y[train])
    rows, truth = _safe_indexing(X, test), target.members(test)
    predicted, y = np.asarray(model.predict(rows)), target.y[test]
    values = {"micro_f1": metrics.micro_f1(y, predicted), "macro_f1": metrics.macro_f1(y, predicted)}
    if target.kind != "multilabel":
        values["accuracy"] = float((predicted == y).mean())
    if target.kind == "binary":
        flagged = predicted == target.positive
        actual = truth[:, 0]
        wrong = [float((flagged != actual)[actual == side].mean()) for side in (False, True)]
        values["lam_percent"] = metrics.lam_percent(*wrong)
    scores = _scores(model, rows, target)
    curve = None
    if scores is not None:
        usable = [c for c in range(truth.shape[1]) if 0 < truth[:, c].sum() < len(truth)]
        for name, measure in RANKING.items() if usable else ():
            values[name] = float(np.mean([measure(truth[:, c], scores[:, c]) for c in usable]))
        if target.kind == "binary" and usable:
            fpr, tpr, _ = metrics.roc_curve(truth[:, 0], scores[:, 0])
            curve = np.interp(FPR, fpr, tpr).tolist()
    return {"values": values, "curve": curve}


def _scores(model: Any, rows: Any, target: _ScoredLabels) -> np.ndarray | None:
    """Return the scores of rows, one column per scored class; None if the classifier doesn't score all of them."""
    if hasattr(model, "decision_function"):
        scores = np.asarray(model.decision_function(rows), float)
    elif hasattr(model, "predict_proba"):
        scores = np.asarray(model.predict_proba(rows), float)
        scores = scores[:, 1] if target.kind == "binary" and scores.ndim == 2 else scores
    else:
        return None
    if target.kind == "binary":
        scores = scores if scores.ndim == 1 else scores[:, 1]
        return (scores if target.positive == target.classes[1] else -scores)[:, None]
    return scores if scores.ndim == 2 and scores.shape[1] == len(target.classes) else None
